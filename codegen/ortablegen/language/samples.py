"""Parse sample values, of which sample calls of operators and samples of rewrites consist.

Tensors: ``f32[2,3]`` has random values, ``i64[4] in 0..5`` random values of a range (5 excluded),
``f32[3] = [1, nan, 2]`` these values; ``f32[n=2,3]`` has a dynamic dimension ``n`` whose example
size is 2. Other values are Python literals, in which a name other than ``nan`` and ``inf`` is a
dynamic dimension. The readers of entries and rewrites parse dtypes (``float32``) before literals.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import Any

from ortablegen.schemas.onnx import all_operators
from ortablegen.source.diagnostics import did_you_mean

from .parse import python_tree

ABBREVIATIONS = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "b": "bool",
    "c64": "complex64", "c128": "complex128", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip
_BOUNDS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
_BOUNDS |= {"uint8": (0, 255), "bool": (0, 1)}
_SIZE = r"[0-9]{1,9}"  # size of a dimension of an example
_PLAIN_INT = re.compile(r"0|[1-9][0-9]{0,18}")
_TENSOR = re.compile(
    r"^([a-z][a-z0-9]*)\[([^\]]*)\]\s*(?:in\s+(\S+?)\.\.(\S+)|=\s*(.+))?$", re.DOTALL
)


class SampleProblem(Exception):
    """A sample value that cannot be read."""


@dataclass(frozen=True)
class TensorSample:
    """A tensor of a sample: random between ``low`` and ``high``, or with ``values``.

    ``dims`` are (example size, name of the dynamic dimension or None); a name may be an expression
    such as ``2*n``.
    """

    dtype: str
    dims: tuple[tuple[int, str | None], ...]
    low: float | None = None
    high: float | None = None
    values: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The example shape."""
        return tuple(size for size, _ in self.dims)

    @property
    def element_count(self) -> int:
        """The number of elements of the example."""
        return math.prod(self.shape)

    @property
    def number_count(self) -> int:
        """The number of values that the sample lists; 0 for random tensors."""
        return len(_flatten_numbers(self.values)) if self.values is not None else 0


@dataclass(frozen=True)
class Expression:
    """A value that contains dynamic dimensions, for example ``[n, 3]``."""

    tree: ast.expr


def tensor_sample(text: str) -> TensorSample | None:
    """Parse a tensor of a sample; return None if ``text`` has not the form of a tensor."""
    match = _TENSOR.match(text)
    if match is None:
        return None
    short, shape, low, high, values = match.groups()
    if short not in ABBREVIATIONS:
        raise SampleProblem(
            f"unknown dtype '{short}' in '{text}'; dtypes are {', '.join(ABBREVIATIONS)}"
        )
    dims: list[tuple[int, str | None]] = []
    for part in filter(None, (piece.strip() for piece in shape.split(","))):
        name, _, size = part.rpartition("=")
        if not re.fullmatch(_SIZE, size.strip()):
            raise SampleProblem(
                f"'{part}' in '{text}' is not a size; write a dynamic dimension as n=4"
            )
        dims.append((int(size), name.strip() or None))
    bounds = [None if bound is None else _parse_bound(bound, text) for bound in (low, high)]
    ends = [bound for bound in bounds if bound is not None]
    if ends and not -math.inf < ends[0] < ends[-1] < math.inf:
        raise SampleProblem(
            f"'{low}..{high}' in '{text}' is not a range; write the lower end first"
        )
    dtype = ABBREVIATIONS[short]
    numbers = _parse_numbers(values) if values is not None else None
    if values is not None:
        _check_values(numbers, dtype, math.prod(size for size, _ in dims), text)
    return TensorSample(dtype, tuple(dims), bounds[0], bounds[1], numbers)


def unknown_operators(expected: str) -> list[tuple[str, str]]:
    """Return (word, spelling hint) for each word of ``expect:`` that is not an ONNX operator."""
    unknown = []
    for word in dict.fromkeys(expected.split()):
        if word not in all_operators():
            unknown.append((word, did_you_mean(word, sorted(all_operators()))))
    return unknown


def _check_values(numbers: Any, dtype: str, count: int, text: str) -> None:
    """Raise unless all numbers are of the dtype, and their count divides that of elements."""
    leaves = _flatten_numbers(numbers)
    if count % max(len(leaves), 1) or (count and not leaves):
        raise SampleProblem(f"'{text}' has {len(leaves)} numbers for {count} elements")
    minimum, maximum = _BOUNDS.get(dtype, (None, None))
    for leaf in leaves:
        in_range = minimum is None or (isinstance(leaf, int) and minimum <= leaf <= maximum)
        is_number = isinstance(leaf, int | float) or dtype.startswith("complex")
        if isinstance(leaf, str | bytes | None) or not (in_range and is_number):
            raise SampleProblem(f"'{leaf}' in '{text}' is not a {dtype}")


def _flatten_numbers(numbers: Any) -> list[Any]:
    if not isinstance(numbers, list):
        return [numbers]
    parts = [_flatten_numbers(item) for item in numbers]
    if (
        len(
            {(isinstance(item, list), len(part)) for item, part in zip(numbers, parts, strict=True)}
        )
        > 1
    ):
        raise SampleProblem(f"lists of different lengths in '{numbers}'")
    return [leaf for part in parts for leaf in part]


def _parse_bound(bound: str, text: str) -> float:
    try:
        return float(bound)
    except ValueError:
        raise SampleProblem(f"'{bound}' in '{text}' is not a number") from None


def _parse_numbers(text: str) -> Any:
    try:
        tree = python_tree(text.strip(), "eval").body
    except SyntaxError:
        raise SampleProblem(f"cannot read the numbers '{text}'") from None
    return _evaluate_tree(tree, {"nan": float("nan"), "inf": float("inf")})


def literal_value(text: str) -> Any:
    """Parse a literal to its value, or an `Expression` if it has names; return other text as is."""
    if _PLAIN_INT.fullmatch(text):
        return int(text)  # fast path: most literals are sizes
    try:
        tree = python_tree(text, "eval").body
    except SyntaxError:
        return text
    if isinstance(tree, ast.Name) and tree.id in ("true", "false"):
        return tree.id == "true"
    names = {"nan": float("nan"), "inf": float("inf")}
    if any(isinstance(node, ast.Name) and node.id not in names for node in ast.walk(tree)):
        return Expression(tree)
    return _evaluate_tree(tree, names)


def _evaluate_tree(tree: ast.expr, names: dict[str, Any]) -> Any:
    """Evaluate literals, lists, names and arithmetic; raise `SampleProblem` for anything else."""
    try:
        return _evaluate_node(tree, names)
    except (TypeError, ValueError, ArithmeticError) as error:
        # Python 3.14 changed the text of the error
        why = "division by zero" if isinstance(error, ZeroDivisionError) else error
        raise SampleProblem(f"cannot read the value '{ast.unparse(tree)}': {why}") from None


def _evaluate_node(tree: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name) and tree.id in names:
        return names[tree.id]
    if isinstance(tree, ast.List | ast.Tuple):
        return [_evaluate_tree(element, names) for element in tree.elts]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_evaluate_tree(tree.operand, names)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _ARITHMETIC:
        sides = _evaluate_tree(tree.left, names), _evaluate_tree(tree.right, names)
        if any(isinstance(side, str | bytes | list) for side in sides):  # [0] * 10**10 is huge
            raise TypeError("arithmetic needs numbers")
        return _ARITHMETIC[type(tree.op)](*sides)
    raise SampleProblem(f"cannot read the value '{ast.unparse(tree)}'")


_ARITHMETIC = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def evaluate_value(value: Any, sizes: dict[str, Any]) -> Any:
    """Evaluate expressions in a parsed value with ``sizes``, ints or SymInts; keep tensors."""
    if isinstance(value, Expression):
        return _evaluate_tree(value.tree, sizes)
    if isinstance(value, list):
        return [evaluate_value(item, sizes) for item in value]
    return value
