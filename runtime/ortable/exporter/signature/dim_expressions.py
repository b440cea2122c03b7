"""Names of dimensions that are sums or products of other names, as the outputs of a model print
them and as optimum writes them for inputs: ``"past_sequence_length + sequence_length"``. In come
texts or sizes, out go the others. Called by dynamic_shapes.py, outputs.py, resize.py and
capture/guards.py."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ortable import dims
from ortable.errors import BuilderError

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: dims.floordiv,
    ast.Mod: dims.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": dims.maximum, "min": dims.minimum}


def expression_of(text: str) -> dims.SymDim | None:
    """The dimension that a text of names, integers and ``+ - * // % max min`` stands for; None for
    a single name, and for anything else."""
    if text.isidentifier():
        return None
    try:
        found = _dim(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, BuilderError):
        return None
    return found if isinstance(found, dims.SymDim) and not dims.is_symbol(found) else None


def _dim(node: ast.AST) -> dims.Dim:
    if isinstance(node, ast.Name):
        return dims.symbol(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_dim(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_dim(node.left), _dim(node.right))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        return _FUNCTIONS[node.func.id](*map(_dim, node.args))
    raise ValueError(f"{type(node).__name__} is no part of a dimension")


def value_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The size that an expression has, None for one with a name that ``sizes`` lacks, and for a
    text that is none."""
    found = expression_of(text)
    if found is None or not dims.symbols(found) <= set(sizes):
        return None
    return dims.evaluate(found, sizes)


def combined(text: str, values: Mapping[str, Any]) -> Any:
    """A sum or product of names with other objects, such as torch's symbols, in their place; None
    for a single name, and where a name has no value or there is another operator."""
    if text.isidentifier() or expression_of(text) is None:
        return None
    try:
        return _combined(ast.parse(text.strip(), mode="eval").body, values)
    except (ValueError, KeyError):
        return None


def _combined(node: ast.AST, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        left, right = _combined(node.left, values), _combined(node.right, values)
        return _OPERATORS[type(node.op)](left, right)
    raise ValueError(f"{type(node).__name__} is no part of a sum")
