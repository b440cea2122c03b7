"""Find the conditions on sizes under which an exported program equals its module (guards).

torch.export decides a branch of Python code on a size, ``if x.shape[0] % 8 == 7``, by the example;
the program has one side only, and torch keeps the condition. This module finds the guards that the
dynamic shapes do not imply. conversion.py warns or raises by `report_guards`; record, metadata and
validation read them.

Guards that the model does not depend on are left out: those of torch's own code, which computes
the same on every side of its branches or raises; those that hold for all requested sizes, sizes of
0 and 1 aside unless a minimum was given; and those on ``torch.export.Dim`` objects, which torch
itself checks against their ranges. Torch's own code counts where it fixes a number, where it writes
the size of a slice or of a part into the program (``x[:10]`` of a size below 10 has that size), and
where the condition is its caller's (``F.gumbel_softmax(x, hard=n > m)``, ``min(n / 8, 1.0)``).
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, graph_signature

from ortable.compat.torch import guards_code, pytree, symbol_of
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Guard, UserLine
from ortable.exporter.signature.dimension_names import caller_stack_level
from ortable.exporter.signature.dynamic_shapes import Leaf, NamedHint, combine_values

from .export_failures import (
    decides_for_caller,
    is_dispatch,
    is_ortable_file,
    is_user_file,
    line_from_location,
)
from .guard_proofs import Range, is_implied
from .pt2_validation import is_arithmetic

# Sizes at which a guard is tried besides those around its own numbers.
_SIZES = (2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 100)
_MAX_TRIALS = 2000
_MAX_REPORTED = 8
_DECIDING_FILE = "concrete_values.py"
_REMAINDERS = ("Mod", "PythonMod")
# L['args'][0]._base: what torch knows an input by, and what is read of it
_PATH = re.compile(r"L\['([^']*)'\]((?:\[[^\]]*\])*)(.*)")
_REMEDY = (
    "For other sizes its results may be wrong. Take the branch out of the model, write it with "
    "torch.cond, give the dimension a torch.export.Dim with a range in which the condition holds, "
    "or export a model for each side. Where an equality is none of your branches, a size became a "
    "plain number of an operator (scale=1 / n): multiply by it instead. "
    "ExportOptions(guards='ignore') leaves this out; the model's metadata has it under "
    "'ortable.guards'."
)


@dataclass(frozen=True)
class _Size:
    """A dynamic size of an input: torch's symbol as the capture began, its expression in the
    program, its text and name, and the requested range.
    """

    symbol: Any
    final: Any
    text: str
    name: str | None
    smallest: int | None
    largest: int | None


def find_guards(exported: ExportedProgram, requested: Sequence[Leaf] | None) -> list[Guard]:
    """Find the guards to report, in the order of the code, or the shortest first where only their
    text is left; see the module.

    ``exported`` is the program as torch made it, ``requested`` the caller's request for each input.
    """
    inputs = _user_inputs(exported)
    environment = _shape_env(inputs)
    if _is_captured_here(environment):
        return _collect_guards(inputs, environment, requested, 0, _symbols_of_dims(environment))
    input_paths = _input_paths(exported, [name for name, _ in inputs])
    code = guards_code(exported)
    return _unique_guards(_from_code(text, input_paths, inputs) for text in sorted(code, key=len))


def count_guards(exported: ExportedProgram) -> int:
    """Count the conditions on the sizes of a program that torch has so far."""
    return len(getattr(_shape_env(_user_inputs(exported)), "guards", ()))


def later_guards(
    exported: ExportedProgram, requested: Sequence[Leaf] | None, count: int
) -> list[Guard]:
    """Find the guards behind the first ``count``, which torch.export has not checked: of code that
    was traced with the sizes of the program afterwards.
    """
    inputs = _user_inputs(exported)
    return _collect_guards(inputs, _shape_env(inputs), requested, count, frozenset())


def _collect_guards(
    inputs: Sequence[tuple[str, Any]],
    environment: Any,
    requested: Sequence[Leaf] | None,
    first: int,
    checked: Collection[str],
) -> list[Guard]:
    """Return torch's guards from ``first`` on; ``checked`` as in `_from_expression`."""
    sizes = _sizes_by_symbol(
        inputs, requested if requested is not None and len(requested) == len(inputs) else None
    )
    guards = list(getattr(environment, "guards", ()))[first:]
    return _unique_guards(_from_expression(guard, environment, sizes, checked) for guard in guards)


def _unique_guards(guards: Iterable[Guard | None]) -> list[Guard]:
    return list({(guard.text, guard.line): guard for guard in guards if guard is not None}.values())


def _user_inputs(exported: ExportedProgram) -> list[tuple[str, Any]]:
    """Return name and fake value of each input of the user."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    names = [
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind == graph_signature.InputKind.USER_INPUT
    ]
    return [(name, nodes[name].meta.get("val") if name in nodes else None) for name in names]


def _input_paths(exported: ExportedProgram, names: Sequence[str]) -> dict[str, str]:
    """Map how guards refer to inputs to names: ``d['a']`` of a dict among the arguments,
    ``flat_args[0]`` where torch has none of their names.
    """
    paths = {f"flat_args[{index}]": name for index, name in enumerate(names)}
    signature = exported.module_call_graph[0].signature
    if signature is None:
        return paths
    try:
        args, kwargs = pytree.tree_unflatten(list(names), signature.in_spec)
    except Exception:  # a container's own code, which is given names where it had tensors
        return paths
    parameters = list(signature.forward_arg_names or [])
    for parameter, value in [*zip(parameters, args, strict=False), *kwargs.items()]:
        leaves, _ = pytree.tree_flatten_with_path(value)
        paths |= {f"{parameter}{pytree.keystr(path)}": name for path, name in leaves}
    return paths


def _dynamic_axes(name: str, value: Any) -> list[tuple[str, int, Any]]:
    """Return text, axis and size of the dynamic sizes of one input."""
    if isinstance(value, torch.SymInt):
        return [(name, 0, value)]
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return [
        (f"{name}.shape[{axis}]", axis, size)
        for axis, size in enumerate(shape)
        if isinstance(size, torch.SymInt)
    ]


def _sizes_by_symbol(
    inputs: Sequence[tuple[str, Any]], requested: Sequence[Leaf] | None
) -> dict[str, _Size]:
    """Return the sizes that are a symbol of their own, by the name of the symbol."""
    sizes: dict[str, _Size] = {}
    for index, (name, value) in enumerate(inputs):
        dims = requested[index].dims() if requested is not None else {}
        for text, axis, size in _dynamic_axes(name, value):
            # ``expr`` has the symbol that torch found equal to it
            symbol = symbol_of(size)
            if not getattr(symbol, "is_Symbol", False):
                continue
            dim = dims.get(axis)
            entry = _Size(symbol, size.node.expr, text, _dim_name(dim), *_dim_range(dim))
            sizes.setdefault(str(symbol), entry)
    return sizes


def ranges_of_sizes(
    exported: ExportedProgram, requested: Sequence[Leaf] | None
) -> dict[Any, Range]:
    """Return the requested range of each symbol that is a size of an input, from 2 on by
    default.
    """
    inputs = _user_inputs(exported)
    sizes = _sizes_by_symbol(
        inputs, requested if requested is not None and len(requested) == len(inputs) else None
    )
    return {
        size.final: (2 if size.smallest is None else size.smallest, size.largest)
        for size in sizes.values()
        if getattr(size.final, "is_Symbol", False)
    }


def _dim_name(dim: Any) -> str | None:
    if isinstance(dim, NamedHint):
        return dim.name
    return dim.__name__ if isinstance(dim, Dim) and not hasattr(dim, "root") else None


def _dim_range(dim: Any) -> tuple[int | None, int | None]:
    least, most = getattr(dim, "min", None), getattr(dim, "max", None)
    finite = isinstance(most, int) and most < 2**62
    return least if isinstance(least, int) and not hasattr(dim, "root") else None, (
        most if finite else None
    )


def _shape_env(inputs: Sequence[tuple[str, Any]]) -> Any:
    for name, value in inputs:
        for _, _, size in _dynamic_axes(name, value):
            return getattr(size.node, "shape_env", None)
    return None


def _fixes_a_number(expression: Any) -> bool:
    """True for ``n // 8 == 2`` and ``1 / n == 0.125``: an argument of an operator that takes a
    plain number has become that of the example, ``bins=n // 8``, ``scale=1 / n``; and torch takes
    sizes that are 0 or 1 there for constants. Its own code does both. (A remainder of 0 is what a
    view needs, eager raises otherwise.)"""
    import sympy

    if not isinstance(expression, sympy.Eq):
        return False
    left, right = expression.args
    if left.is_number:
        left, right = right, left
    return right.is_number and not (right == 0 and type(left).__name__ in _REMAINDERS)


def _is_captured_here(environment: Any) -> bool:
    """Whether the program was captured in this process: symbols of a saved one have lost
    their sources.
    """
    return any("L[" in name for names in _source_names(environment).values() for name in names)


def _source_names(environment: Any) -> dict[str, list[str]]:
    """Return torch's names of the sources of each symbol: the sizes and integers that it
    stands for.
    """
    names = {}
    for symbol, sources in (getattr(environment, "var_to_sources", None) or {}).items():
        spelled = [getattr(source, "name", "") for source in sources]
        names[str(symbol)] = [
            str(spelling() if callable(spelling) else spelling) for spelling in spelled
        ]
    return names


# Guards of a program that was captured in this process: expressions, with source lines.


def _from_expression(
    guard: Any, environment: Any, sizes: Mapping[str, _Size], checked: Collection[str]
) -> Guard | None:
    """Make a guard of torch's; None if it need not be reported. ``checked``: the symbols whose
    conditions torch.export has compared with the request.
    """
    expression, line = guard.expr, _user_line(guard)
    fixed = line is None and _fixes_a_number(expression)
    passed = line is None and (_is_from_caller(guard) or _of_a_remainder(guard))
    if line is None and not (_of_a_slice(guard) or _is_from_ortable(guard) or fixed or passed):
        return None
    symbols = {str(symbol): symbol for symbol in expression.free_symbols}
    if not symbols.keys() - checked:
        return None
    one, ranges = _unify_names(expression, sizes), _symbol_ranges(symbols, sizes)
    tried = _of_a_slice(guard) or fixed or passed
    if is_implied(one, ranges) or (tried and _holds_at_trials(one, ranges)):
        return None
    final = environment.replace(expression)

    def is_met(values: Mapping[str, int]) -> bool:
        try:
            value = final.subs(
                {symbol: values.get(str(symbol), symbol) for symbol in final.free_symbols}
            )
        except ZeroDivisionError:
            return False
        return value != False  # noqa: E712  (sympy's, or a relation that is still open)

    texts = {name: size.name or size.text for name, size in sizes.items()}
    return Guard(_format_condition(_without_minus(expression), texts), line, is_met, final)


def _holds_at_trials(expression: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the condition holds at all trial sizes: torch guards all slices, and many lengths are
    beyond proof (``n`` rows of ``n`` rounded up to chunks); so are numbers that torch's own code
    computes of sizes (two chunks of half a size, rounded up).
    """
    import sympy

    free = {str(symbol): symbol for symbol in expression.free_symbols}
    constants = {abs(int(number)) for number in expression.atoms(sympy.Integer)}
    bounds = {name: ranges.get(symbol, (2, None)) for name, symbol in free.items()}
    for trial in _trial_sizes(list(free), constants):
        inside = all(
            bounds[name][0] <= size and size <= (bounds[name][1] or size)
            for name, size in trial.items()
        )
        if not inside:
            continue
        try:
            value = expression.subs({free[name]: size for name, size in trial.items()})
        except ZeroDivisionError:
            continue  # no size that the model takes
        if value != True:  # noqa: E712  (sympy's, or a relation that is still open)
            return False
    return True


def _without_minus(expression: Any) -> Any:
    """Return ``n < 10`` for ``-n > -10``."""
    sides = (getattr(expression, "lhs", None), getattr(expression, "rhs", None))
    if all(side is not None and side.could_extract_minus_sign() for side in sides):
        return expression.reversedsign
    return expression


def _user_line(guard: Any) -> UserLine | None:
    """Return the line of the user's code that decided; None where torch's own code did."""
    line = _guard_line(guard)
    return line if line is not None and is_user_file(line.file) else None


def _is_from_caller(guard: Any) -> bool:
    """Whether library code decides on a condition or number of its caller: ``if hard`` of a flag,
    ``min`` of two sizes. The shapes of the program already say that one size equals another.
    """
    import sympy

    line, expression = _guard_line(guard), guard.expr
    if line is None or not decides_for_caller(line):
        return False
    return not (isinstance(expression, sympy.Eq) and all(s.is_Symbol for s in expression.args))


def _of_a_remainder(guard: Any) -> bool:
    """Whether a kernel of torch computed how many parts are longer by one: ``tensor_split`` of
    ``n`` rows into 3 tests ``n % 3 > 0``, and the sizes of its parts in the program are of that
    side.
    """
    line, expression = _guard_line(guard), guard.expr
    if line is None or not is_dispatch(line) or not type(expression).__name__.endswith("Than"):
        return False  # an equality is what a view needs
    return any(type(side).__name__ in _REMAINDERS for side in expression.args)


def _guard_line(guard: Any) -> UserLine | None:
    """Return the line of the condition, in any code."""
    line = line_from_location(getattr(guard.sloc, "framework_loc", None))
    read = line is not None and {"_dynamo", "variables"} <= set(Path(line.file).parts)
    if read or _of_a_slice(guard):
        # dynamo evaluates conditions of the code that it reads; its other files those of operators
        return line_from_location(getattr(guard.sloc, "maybe_user_loc", None))
    return line


def _of_a_slice(guard: Any) -> bool:
    """Whether torch tested on which side of a size the end of a slice is: it cuts to the size on
    one side only, eager raises on neither.
    """
    frame = getattr(guard.sloc, "framework_loc", None)
    return getattr(frame, "name", "") == "_compute_slice_index"


def _is_from_ortable(guard: Any) -> bool:
    """Whether ortable decided for the model: a 0-d tensor of sizes, or a flag of an operator."""
    file = str(getattr(getattr(guard.sloc, "framework_loc", None), "filename", ""))
    return is_ortable_file(file) and Path(file).name == _DECIDING_FILE


def _symbols_of_dims(environment: Any) -> set[str]:
    """Return the symbols that stand for Dim objects."""
    named = getattr(environment, "source_name_to_debug_name", None) or {}
    sources = _source_names(environment)
    return {symbol for symbol, names in sources.items() if not named.keys().isdisjoint(names)}


def _unify_names(expression: Any, sizes: Mapping[str, _Size]) -> Any:
    """Use one symbol for all sizes of one name, and the sum for a size that is named as a sum."""
    first: dict[str, Any] = {}
    for size in sizes.values():
        if size.name is not None:
            first.setdefault(size.name, size.symbol)
    sums = {name: combine_values(name, first) for name in first}
    return expression.subs(
        {
            size.symbol: first[size.name] if sums[size.name] is None else sums[size.name]
            for size in sizes.values()
            if size.name is not None
        }
    )


def _symbol_ranges(symbols: Mapping[str, Any], sizes: Mapping[str, _Size]) -> dict[Any, Range]:
    ranges = {}
    for name, symbol in symbols.items():
        size = sizes.get(name)
        least = 2 if size is None or size.smallest is None else size.smallest
        ranges[symbol] = (least, None if size is None else size.largest)
    return ranges


def _format_condition(expression: Any, names: Mapping[str, str]) -> str:
    from ortable.compat.torch import PythonPrinter

    class Printer(PythonPrinter):  # type: ignore[misc]
        def _print_Symbol(self, symbol: Any) -> str:
            return names.get(str(symbol), str(symbol))

        def _print_ToFloat(self, size: Any) -> str:
            inside = str(self._print(size.args[0]))
            return inside if inside.isidentifier() else f"({inside})"

    try:
        text = str(Printer().doprint(expression))
        return _simplify_text(text)
    except Exception:  # sympy's printers raise for roots and fractions, which are no Python here
        return str(expression)


def _simplify_text(text: str) -> str:
    """Python text without needless brackets, and with minus signs."""
    return ast.unparse(ast.parse(text, mode="eval")).replace(" + -1 * ", " - ")


# Guards of a program that was saved: Python text, without source lines.


def _from_code(
    code: str, input_paths: Mapping[str, str], inputs: Sequence[tuple[str, Any]]
) -> Guard | None:
    """Make a guard of text, unless it is met at every trial size. A text that is no arithmetic of
    sizes is not evaluated, only reported.
    """
    if not is_arithmetic(code):
        return Guard(code, None, lambda values: True)
    finder = _Sources(input_paths)
    try:
        tree = ast.fix_missing_locations(finder.visit(ast.parse(code, mode="eval")))
        compiled = compile(tree, "<guard>", "eval")
    except (SyntaxError, ValueError):
        return Guard(code, None, lambda values: True)
    sizes = {
        text: size.node.expr
        for name, value in inputs
        for text, _, size in _dynamic_axes(name, value)
    }
    expressions = {key: sizes.get(text) for key, text in finder.texts.items()}
    free = sorted({str(s) for e in expressions.values() if e is not None for s in e.free_symbols})
    unbound = [key for key, expression in expressions.items() if expression is None]

    def is_met(values: Mapping[str, int]) -> bool:
        variables = {key: values[key] for key in unbound if key in values}
        for key, expression in expressions.items():
            if expression is not None:
                bindings = {symbol: values.get(str(symbol)) for symbol in expression.free_symbols}
                if None not in bindings.values():
                    variables[key] = int(expression.subs(bindings))
        return _evaluate_guard(compiled, variables)

    constants = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int
    }
    if all(is_met(trial) for trial in _trial_sizes([*free, *unbound], constants)):
        return None
    spelled = code
    for original, key in finder.spelled.items():
        spelled = spelled.replace(original, finder.texts[key])
    return Guard(_simplify_text(spelled), None, is_met)


class _Sources(ast.NodeTransformer):
    """Replaces ``L['x'].size()[0]`` by a name; ``texts`` maps it to ``x.shape[0]``."""

    def __init__(self, input_paths: Mapping[str, str]) -> None:
        self.input_paths = input_paths
        self.texts: dict[str, str] = {}
        self.spelled: dict[str, str] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A size, or an integer input."""
        original = ast.unparse(node)
        if not original.startswith("L["):
            return self.generic_visit(node)
        base, _, axis = original.partition(".size()")
        text = self._input_text(base) + (f".shape{axis}" if axis else "")
        key = next((k for k, t in self.texts.items() if t == text), f"size_{len(self.texts)}")
        self.texts[key] = text
        self.spelled[original] = key
        return ast.copy_location(ast.Name(key, ast.Load()), node)

    def _input_text(self, base: str) -> str:
        """Return the text of an input, or of an attribute of it: `_base` of one that is a view."""
        match = _PATH.fullmatch(base)
        if match is None:
            return base
        first, brackets, rest = match.groups()
        whole = f"{first}{brackets}{rest}"
        return (
            self.input_paths.get(whole)
            or f"{self.input_paths.get(first + brackets, first + brackets)}{rest}"
        )


def _evaluate_guard(compiled: Any, variables: Mapping[str, int]) -> bool:
    from ortable.compat.torch import SYMPY_INTERP

    try:
        return bool(eval(compiled, {**SYMPY_INTERP, "math": math}, dict(variables)))
    except (NameError, ZeroDivisionError):  # a size without a value; no such size
        return True


def _trial_sizes(names: Sequence[str], constants: Collection[int]) -> list[dict[str, int]]:
    """Choose trial sizes: small ones, and those on both sides of the guard's numbers and of their
    sums and products (``n // 8 < 200`` ends at 1600).
    """
    pairs = list(itertools.combinations(sorted(constants), 2))
    ends = {*constants, *(a + b for a, b in pairs), *(a * b for a, b in pairs)}
    around = {end + step for end in ends for step in (-1, 0, 1)}
    more = sorted({*_SIZES, *(size for size in around if size >= min(_SIZES))})
    draw = random.Random(0)
    trials: list[dict[str, int]] = []
    for sizes in dict.fromkeys((_SIZES, tuple(more))):
        if len(names) <= 2 and len(sizes) ** len(names) <= _MAX_TRIALS:
            every = itertools.product(sizes, repeat=len(names))
            trials += [dict(zip(names, trial, strict=True)) for trial in every]
        else:
            trials += [{name: draw.choice(sizes) for name in names} for _ in range(_MAX_TRIALS)]
    return trials


def report_guards(guards: Sequence[Guard], action: str) -> None:
    """Warn about the guards, or raise ExportError, by ``action``: "warn", "error" or "ignore"."""
    if not guards or action == "ignore":
        return
    lines = [f"  {guard}" for guard in guards[:_MAX_REPORTED]]
    if len(guards) > _MAX_REPORTED:
        lines.append(f"  ... and {len(guards) - _MAX_REPORTED} more")
    text = "\n".join(["the model holds only for sizes with", *lines, _REMEDY])
    if action == "error":
        raise ExportError(text)
    warnings.warn(text, UserWarning, stacklevel=caller_stack_level())


def violated_guard(
    exported: ExportedProgram, values: Mapping[str, int], names: Mapping[str, str]
) -> str:
    """Describe the first condition of torch that sizes violate, with its line: the reason why a
    range is narrower than the caller's. Empty where torch kept none.

    ``values`` are the sizes by torch's symbols, ``names`` the names of the symbols.
    """
    environment = _shape_env(_user_inputs(exported))
    for guard in list(getattr(environment, "guards", ())):
        expression = environment.replace(guard.expr)
        bindings = {
            symbol: values[str(symbol)]
            for symbol in expression.free_symbols
            if str(symbol) in values
        }
        if len(bindings) < len(expression.free_symbols):
            continue
        try:
            met = expression.subs(bindings)
        except ZeroDivisionError:
            met = False
        if met == False:  # noqa: E712  (sympy's, or a relation that is still open)
            places = (guard.sloc.maybe_user_loc, guard.sloc.framework_loc)
            line = next(filter(None, map(line_from_location, places)), None)
            text = _format_condition(_without_minus(expression), names)
            if line is None:
                return text
            location = "/".join(Path(line.file).parts[-2:])
            return f"{text}, asked at {location}:{line.line}, in {line.function}"
    return ""
