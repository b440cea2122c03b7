"""Find guards: conditions on sizes under which an exported program equals its module.

torch.export evaluates a Python branch on a size, ``if x.shape[0] % 8 == 7``, for the example; the
program has one side only, and torch records the condition. This module finds the guards that the
dynamic shapes do not imply. conversion.py and custom_operators.py warn or raise with
`report_guards`; the record, the metadata and the validation use the guards, too.

Guards that the model does not depend on are dropped: guards of torch's own code, which computes the
same on every side of its branches or raises; guards that hold for all requested sizes (from 2 on,
unless a minimum is given); and guards on ``torch.export.Dim`` objects, which torch checks against
their ranges. A guard of torch's own code is kept, however, if it fixes a number of the program, if
torch writes the size of a slice or part into the program (``x[:10]`` of a size below 10 has that
size), or if the caller of torch passes the condition (``F.gumbel_softmax(x, hard=n > m)``) or the
sizes that torch's code compares (``min(n / 8, 1.0)``).
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, graph_signature

from ortable.compat.torch import guards_code, pytree, symbol_of
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Assumption, Guard, UserLine
from ortable.exporter.signature.dimension_names import (
    caller_stack_level,
    format_condition,
    simplify_python,
)
from ortable.exporter.signature.dynamic_shapes import Leaf, NamedHint, combine_values

from .export_failures import (
    is_condition_of_caller,
    is_dispatch,
    is_ortable_file,
    is_user_file,
    line_from_location,
)
from .guard_proofs import Range, assume_conditions, is_implied
from .pt2_expressions import is_arithmetic

# Sizes at which a guard is tried, in addition to sizes near the guard's numbers.
_SIZES = (2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 100)
_MAX_TRIALS = 2000
_MAX_REPORTED = 8
_DECIDING_FILE = "concrete_values.py"
_REMAINDERS = ("Mod", "PythonMod")
# L['args'][0]._base: torch's name of an input, then the attribute that torch reads from it
_PATH = re.compile(r"L\['([^']*)'\]((?:\[[^\]]*\])*)(.*)")
_REMEDY = (
    "For other sizes its results may be wrong. Take the branch out of the model, write it with "
    "torch.cond, give the dimension a torch.export.Dim with a range in which the condition holds, "
    "or export a model for each side. An equality that is not one of your branches comes from a "
    "size that became a constant argument of an operator (scale=1 / n): multiply by it instead. "
    "ExportOptions(guards='ignore') turns this message off; the model's metadata lists the guards "
    "under 'ortable.guards'."
)


@dataclass(frozen=True)
class _Size:
    """A dynamic size of an input.

    ``symbol`` is torch's symbol at the start of the capture, ``final`` its expression in the
    program. ``text`` is Python for the size (``x.shape[0]``), ``name`` the caller's name of the
    dimension, and ``smallest`` and ``largest`` are the requested range, None if unbounded.
    """

    symbol: Any
    final: Any
    text: str
    name: str | None
    smallest: int | None
    largest: int | None


def find_guards(
    exported: ExportedProgram,
    requested: Sequence[Leaf] | None,
    assumptions: Sequence[Assumption] = (),
) -> list[Guard]:
    """Return the guards to report, in the order in which torch recorded them, then stated ones.

    For a saved program, which has the text of its guards only, the shortest text comes first.
    ``exported`` is the program from torch, ``requested`` the requested dimensions of each input.
    Guards that the assumptions imply are left out.
    """
    inputs = _user_inputs(exported)
    environment = _shape_env(inputs)
    sizes = _sizes_by_symbol(inputs, requested)
    stated = [*_assumed_guards(assumptions, sizes), *_asserted_guards(exported, inputs, sizes)]
    if _is_captured_here(environment):
        checked = _symbols_of_dims(environment)
        guards = _collect_guards(inputs, environment, requested, 0, checked, stated)
    else:
        input_paths = _input_paths(exported, [name for name, _ in inputs])
        guard_texts = guards_code(exported)
        guards = _unique_guards(
            _from_code(text, input_paths, inputs) for text in sorted(guard_texts, key=len)
        )
    return _unique_guards([*guards, *stated])


def count_guards(exported: ExportedProgram) -> int:
    """Return the number of conditions on sizes that torch recorded so far."""
    return len(getattr(_shape_env(_user_inputs(exported)), "guards", ()))


def find_later_guards(
    exported: ExportedProgram, requested: Sequence[Leaf] | None, count: int
) -> list[Guard]:
    """Return the guards after the first ``count`` ones.

    The later guards belong to code that was traced after the export with the sizes of the program,
    so torch.export has not checked these guards.
    """
    inputs = _user_inputs(exported)
    return _collect_guards(inputs, _shape_env(inputs), requested, count, frozenset())


def _collect_guards(
    inputs: Sequence[tuple[str, Any]],
    environment: Any,
    requested: Sequence[Leaf] | None,
    start: int,
    checked: Collection[str],
    stated: Sequence[Guard] = (),
) -> list[Guard]:
    """Return torch's guards from index ``start`` on; for ``checked`` see `_from_expression`."""
    sizes = _sizes_by_symbol(inputs, requested)
    guards = list(getattr(environment, "guards", ()))[start:]
    return _unique_guards(
        _from_expression(guard, environment, sizes, checked, stated) for guard in guards
    )


def _unique_guards(guards: Iterable[Guard | None]) -> list[Guard]:
    return list({(guard.text, guard.line): guard for guard in guards if guard is not None}.values())


def _user_inputs(exported: ExportedProgram) -> list[tuple[str, Any]]:
    """Return name and fake value of each user input."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    names = [
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind == graph_signature.InputKind.USER_INPUT
    ]
    return [(name, nodes[name].meta.get("val") if name in nodes else None) for name in names]


def _input_paths(exported: ExportedProgram, names: Sequence[str]) -> dict[str, str]:
    """Map paths in guards, ``d['a']`` or ``flat_args[0]``, to the names of inputs."""
    paths = {f"flat_args[{index}]": name for index, name in enumerate(names)}
    signature = exported.module_call_graph[0].signature
    if signature is None:
        return paths
    try:
        args, kwargs = pytree.tree_unflatten(list(names), signature.in_spec)
    except Exception:  # the unflatten function of a container may reject names in place of tensors
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
    """Return the sizes that are a single symbol, by the name of the symbol."""
    sizes: dict[str, _Size] = {}
    if requested is not None and len(requested) != len(inputs):
        requested = None
    for index, (name, value) in enumerate(inputs):
        dims = requested[index].dims() if requested is not None else {}
        for text, axis, size in _dynamic_axes(name, value):
            # ``symbol`` is the original; ``expr`` may be a symbol that torch proved equal to it
            symbol = symbol_of(size)
            if not getattr(symbol, "is_Symbol", False):
                continue
            dim = dims.get(axis)
            input_size = _Size(symbol, size.node.expr, text, _dim_name(dim), *_dim_range(dim))
            sizes.setdefault(str(symbol), input_size)
    return sizes


def get_size_ranges(
    exported: ExportedProgram, requested: Sequence[Leaf] | None
) -> dict[Any, Range]:
    """Return the requested range of each symbol that is a size of an input, by default from 2."""
    return _final_ranges(_sizes_by_symbol(_user_inputs(exported), requested))


def _dim_name(dim: Any) -> str | None:
    if isinstance(dim, NamedHint):
        return dim.name
    return dim.__name__ if isinstance(dim, Dim) and not hasattr(dim, "root") else None


def _dim_range(dim: Any) -> tuple[int | None, int | None]:
    smallest, largest = getattr(dim, "min", None), getattr(dim, "max", None)
    is_finite = isinstance(largest, int) and largest < 2**62
    return smallest if isinstance(smallest, int) and not hasattr(dim, "root") else None, (
        largest if is_finite else None
    )


def _shape_env(inputs: Sequence[tuple[str, Any]]) -> Any:
    for name, value in inputs:
        for _, _, size in _dynamic_axes(name, value):
            return getattr(size.node, "shape_env", None)
    return None


def _makes_number_constant(expression: Any) -> bool:
    """Whether a guard shows that a number became constant: ``n // 8 == 2``, ``1 / n == 0.125``.

    An operator that takes a plain number got the example's (``bins=n // 8``, ``scale=1 / n``), or
    torch took a size of 0 or 1 for a constant. A remainder of 0 is excluded: a view requires it,
    and eager mode raises otherwise.
    """
    import sympy

    if not isinstance(expression, sympy.Eq):
        return False
    left, right = expression.args
    if left.is_number:
        left, right = right, left
    return right.is_number and not (right == 0 and type(left).__name__ in _REMAINDERS)


def _is_captured_here(environment: Any) -> bool:
    """Whether the program was captured in this process; symbols of a file have no sources."""
    return any("L[" in name for names in _source_names(environment).values() for name in names)


def _source_names(environment: Any) -> dict[str, list[str]]:
    """Return by symbol torch's names of its sources: the input sizes and integers equal to it."""
    names = {}
    for symbol, sources in (getattr(environment, "var_to_sources", None) or {}).items():
        source_names = [getattr(source, "name", "") for source in sources]
        names[str(symbol)] = [
            str(source_name() if callable(source_name) else source_name)
            for source_name in source_names
        ]
    return names


# Guards of a program that was captured in this process: expressions, with source lines.


def _from_expression(
    guard: Any,
    environment: Any,
    sizes: Mapping[str, _Size],
    checked: Collection[str],
    stated: Sequence[Guard],
) -> Guard | None:
    """Return a `Guard` for one of torch's guards, or None if it need not be reported.

    ``checked`` has the symbols whose conditions torch.export compared with the request; ``stated``
    are conditions that hold for every call.
    """
    expression, line = guard.expr, _user_line(guard)
    is_number_fixed = line is None and _makes_number_constant(expression)
    is_from_caller = line is None and (_is_from_caller(guard) or _tests_remainder(guard))
    if line is None and not (
        _tests_slice_end(guard) or _is_from_ortable(guard) or is_number_fixed or is_from_caller
    ):
        return None
    symbols = {str(symbol): symbol for symbol in expression.free_symbols}
    if not symbols.keys() - checked:
        return None
    unified, ranges = _unify_names(expression, sizes), _symbol_ranges(symbols, sizes)
    use_trials = _tests_slice_end(guard) or is_number_fixed or is_from_caller
    if is_implied(unified, ranges) or (use_trials and _holds_at_trials(unified, ranges)):
        return None
    final = environment.replace(expression)
    stated_conditions = [condition.condition for condition in stated]
    if stated and is_implied(*assume_conditions(final, stated_conditions, _final_ranges(sizes))):
        return None
    return _make_guard(expression, final, line, sizes)


def _make_guard(
    expression: Any,
    final: Any,
    line: UserLine | None,
    sizes: Mapping[str, _Size],
    is_stated: bool = False,
) -> Guard:
    """Make a guard; ``final`` is the condition in terms of the symbols of the program."""

    def is_met(values: Mapping[str, int]) -> bool:
        try:
            value = final.subs(
                {symbol: values.get(str(symbol), symbol) for symbol in final.free_symbols}
            )
        except ZeroDivisionError:
            return False
        return value != False  # noqa: E712  (sympy's, or a relation with free symbols)

    texts = {name: size.name or size.text for name, size in sizes.items()}
    text = format_condition(_without_minus(expression), texts)
    return Guard(text, line, is_met, final, is_stated)


def _assumed_guards(
    assumptions: Sequence[Assumption], sizes: Mapping[str, _Size]
) -> Iterator[Guard]:
    """Yield the caller's assumptions as conditions on the symbols of the program."""
    final_by_name: dict[str, Any] = {}
    for size in sizes.values():
        if size.name is not None:
            final_by_name.setdefault(size.name, size.final)
    for assumption in assumptions:
        symbols = assumption.expression.free_symbols
        final = assumption.expression.subs({s: final_by_name[str(s)] for s in symbols})
        yield replace(_make_guard(final, final, None, sizes, True), text=assumption.text)


def _asserted_guards(
    exported: ExportedProgram, inputs: Sequence[tuple[str, Any]], sizes: Mapping[str, _Size]
) -> Iterator[Guard]:
    """Yield the conditions on sizes of inputs that the program asserts when it runs.

    torch.export writes such assertions for unbacked sizes and with
    ``prefer_deferred_runtime_asserts_over_guards``. Bounds of one size are ranges of the program
    and are left out, as are conditions that hold for all sizes from 2 on.
    """
    symbols, ranges = {size.final for size in sizes.values()}, _final_ranges(sizes)
    for node in exported.graph.find_nodes(
        op="call_function", target=torch.ops.aten._assert_scalar.default
    ):
        condition = getattr(getattr(node.args[0], "meta", {}).get("val"), "node", None)
        final = getattr(condition, "expr", None)
        free: set[Any] = getattr(final, "free_symbols", set())
        if free and free <= symbols and not _is_bound(final) and not is_implied(final, ranges):
            yield _make_guard(final, final, None, sizes, True)


def _is_bound(condition: Any) -> bool:
    """Whether a relation compares one size, or a multiple of it, with a number by order."""
    import sympy

    sides = getattr(condition, "args", ())
    return isinstance(condition, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)) and all(
        side.is_number or side.as_coeff_Mul()[1].is_Symbol for side in sides
    )


def _final_ranges(sizes: Mapping[str, _Size]) -> dict[Any, Range]:
    return {
        size.final: (2 if size.smallest is None else size.smallest, size.largest)
        for size in sizes.values()
        if getattr(size.final, "is_Symbol", False)
    }


def _holds_at_trials(expression: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the condition holds at all trial sizes.

    Trials replace a proof for the ends of slices: torch records a guard for each of them, and many
    guards cannot be proved (``n`` rows of ``n`` rounded up to chunks). The same is true of numbers
    that torch's own code computes from sizes (two chunks of half a size, rounded up).
    """
    import sympy

    symbols_by_name = {str(symbol): symbol for symbol in expression.free_symbols}
    constants = {abs(int(number)) for number in expression.atoms(sympy.Integer)}
    bounds = {name: ranges.get(symbol, (2, None)) for name, symbol in symbols_by_name.items()}
    for trial in _trial_sizes(list(symbols_by_name), constants):
        in_range = all(
            bounds[name][0] <= size and size <= (bounds[name][1] or size)
            for name, size in trial.items()
        )
        if not in_range:
            continue
        try:
            value = expression.subs({symbols_by_name[name]: size for name, size in trial.items()})
        except ZeroDivisionError:
            continue  # the model does not accept this size
        if value != True:  # noqa: E712  (sympy's, or a relation with free symbols)
            return False
    return True


def _without_minus(expression: Any) -> Any:
    """Return ``n < 10`` for ``-n > -10``."""
    sides = (getattr(expression, "lhs", None), getattr(expression, "rhs", None))
    if all(side is not None and side.could_extract_minus_sign() for side in sides):
        return expression.reversedsign
    return expression


def _user_line(guard: Any) -> UserLine | None:
    """Return the user's line that evaluated the condition; None if torch's own code did."""
    line = _guard_line(guard)
    return line if line is not None and is_user_file(line.file) else None


def _is_from_caller(guard: Any) -> bool:
    """Whether library code evaluates a condition or number of its caller.

    Examples are ``if hard`` of a flag, and ``min`` of two sizes. An equality of two sizes does not
    count, because the shapes of the program imply it.
    """
    import sympy

    line, expression = _guard_line(guard), guard.expr
    if line is None or not is_condition_of_caller(line):
        return False
    return not (isinstance(expression, sympy.Eq) and all(s.is_Symbol for s in expression.args))


def _tests_remainder(guard: Any) -> bool:
    """Whether a kernel of torch tested an inequality of a remainder, to compute sizes of parts.

    ``tensor_split`` of ``n`` rows into 3 parts tests ``n % 3 > 0``, and the program has the part
    sizes of that outcome.
    """
    line, expression = _guard_line(guard), guard.expr
    if line is None or not is_dispatch(line) or not type(expression).__name__.endswith("Than"):
        return False  # an equality of a remainder is a condition of a view
    return any(type(side).__name__ in _REMAINDERS for side in expression.args)


def _guard_line(guard: Any) -> UserLine | None:
    """Return the line of the condition, in any code, not only the user's."""
    line = line_from_location(getattr(guard.sloc, "framework_loc", None))
    in_dynamo = line is not None and {"_dynamo", "variables"} <= set(Path(line.file).parts)
    if in_dynamo or _tests_slice_end(guard):
        # conditions in dynamo's folder "variables" are those of the user's code
        return line_from_location(getattr(guard.sloc, "maybe_user_loc", None))
    return line


def _tests_slice_end(guard: Any) -> bool:
    """Whether torch compared the end of a slice with a size; torch clamps an end above the size."""
    frame = getattr(guard.sloc, "framework_loc", None)
    return getattr(frame, "name", "") == "_compute_slice_index"


def _is_from_ortable(guard: Any) -> bool:
    """Whether ortable evaluated the condition: on a 0-d tensor of sizes, or an operator's flag."""
    file = str(getattr(getattr(guard.sloc, "framework_loc", None), "filename", ""))
    return is_ortable_file(file) and Path(file).name == _DECIDING_FILE


def _symbols_of_dims(environment: Any) -> set[str]:
    """Return the symbols that represent Dim objects."""
    dim_sources = getattr(environment, "source_name_to_debug_name", None) or {}
    sources = _source_names(environment)
    return {symbol for symbol, names in sources.items() if not dim_sources.keys().isdisjoint(names)}


def _unify_names(expression: Any, sizes: Mapping[str, _Size]) -> Any:
    """Replace all sizes of one name by one symbol, and a size named like ``a + b`` by the sum."""
    symbol_of_name: dict[str, Any] = {}
    for size in sizes.values():
        if size.name is not None:
            symbol_of_name.setdefault(size.name, size.symbol)
    sums = {name: combine_values(name, symbol_of_name) for name in symbol_of_name}
    return expression.subs(
        {
            size.symbol: symbol_of_name[size.name] if sums[size.name] is None else sums[size.name]
            for size in sizes.values()
            if size.name is not None
        }
    )


def _symbol_ranges(symbols: Mapping[str, Any], sizes: Mapping[str, _Size]) -> dict[Any, Range]:
    ranges = {}
    for name, symbol in symbols.items():
        size = sizes.get(name)
        smallest = 2 if size is None or size.smallest is None else size.smallest
        ranges[symbol] = (smallest, None if size is None else size.largest)
    return ranges


# Guards of a program that was saved: Python text, without source lines.


def _from_code(
    code: str, input_paths: Mapping[str, str], inputs: Sequence[tuple[str, Any]]
) -> Guard | None:
    """Make a guard from text; None if it is met at every trial size.

    A text that is not arithmetic on sizes is reported without evaluating it.
    """
    if not is_arithmetic(code):
        return Guard(code, None, lambda values: True)
    finder = _SizeReplacer(input_paths)
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
    names = sorted({str(s) for e in expressions.values() if e is not None for s in e.free_symbols})
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
    if all(is_met(trial) for trial in _trial_sizes([*names, *unbound], constants)):
        return None
    guard_text = code
    for original, key in finder.keys_by_code.items():
        guard_text = guard_text.replace(original, finder.texts[key])
    return Guard(simplify_python(guard_text), None, is_met)


class _SizeReplacer(ast.NodeTransformer):
    """Replaces ``L['x'].size()[0]`` by a name; ``texts`` maps the name to ``x.shape[0]``."""

    def __init__(self, input_paths: Mapping[str, str]) -> None:
        self.input_paths = input_paths
        self.texts: dict[str, str] = {}
        self.keys_by_code: dict[str, str] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace a size or an integer input by a name."""
        original = ast.unparse(node)
        if not original.startswith("L["):
            return self.generic_visit(node)
        base, _, axis = original.partition(".size()")
        text = self._input_text(base) + (f".shape{axis}" if axis else "")
        key = next((k for k, t in self.texts.items() if t == text), f"size_{len(self.texts)}")
        self.texts[key] = text
        self.keys_by_code[original] = key
        return ast.copy_location(ast.Name(key, ast.Load()), node)

    def _input_text(self, base: str) -> str:
        """Return the text of an input, or of an input's attribute such as a view's `_base`."""
        match = _PATH.fullmatch(base)
        if match is None:
            return base
        root, brackets, attributes = match.groups()
        path = f"{root}{brackets}{attributes}"
        return (
            self.input_paths.get(path)
            or f"{self.input_paths.get(root + brackets, root + brackets)}{attributes}"
        )


def _evaluate_guard(compiled: Any, variables: Mapping[str, int]) -> bool:
    from ortable.compat.torch import SYMPY_INTERP

    try:
        return bool(eval(compiled, {**SYMPY_INTERP, "math": math}, dict(variables)))
    except (NameError, ZeroDivisionError):  # a size has no value, or cannot occur
        return True


def _trial_sizes(names: Sequence[str], constants: Collection[int]) -> list[dict[str, int]]:
    """Choose sizes by name, on both sides of every number at which the guard may change.

    The trial sizes are small sizes, and sizes near the guard's numbers and near the sums and
    products of these numbers (``n // 8 < 200`` changes at 1600).
    """
    pairs = list(itertools.combinations(sorted(constants), 2))
    limits = {*constants, *(a + b for a, b in pairs), *(a * b for a, b in pairs)}
    near_limits = {limit + step for limit in limits for step in (-1, 0, 1)}
    more_sizes = sorted({*_SIZES, *(size for size in near_limits if size >= min(_SIZES))})
    rng = random.Random(0)
    trials: list[dict[str, int]] = []
    for sizes in dict.fromkeys((_SIZES, tuple(more_sizes))):
        if len(names) <= 2 and len(sizes) ** len(names) <= _MAX_TRIALS:
            combinations = itertools.product(sizes, repeat=len(names))
            trials += [dict(zip(names, trial, strict=True)) for trial in combinations]
        else:
            trials += [{name: rng.choice(sizes) for name in names} for _ in range(_MAX_TRIALS)]
    return trials


def report_guards(guards: Sequence[Guard], action: str) -> None:
    """Warn or raise ExportError about the guards; ``action`` is "warn", "error" or "ignore"."""
    guards = [guard for guard in guards if not guard.is_stated]
    if not guards or action == "ignore":
        return
    lines = [f"  {guard}" for guard in guards[:_MAX_REPORTED]]
    if len(guards) > _MAX_REPORTED:
        lines.append(f"  ... and {len(guards) - _MAX_REPORTED} more")
    text = "\n".join(["the model holds only for sizes with", *lines, _REMEDY])
    if action == "error":
        raise ExportError(text)
    warnings.warn(text, UserWarning, stacklevel=caller_stack_level())


def describe_violated_guard(
    exported: ExportedProgram, values: Mapping[str, int], names: Mapping[str, str]
) -> str:
    """Describe the first of torch's conditions that ``values`` violate, with its line.

    Such a condition explains why torch's range of a size is narrower than requested. The text is
    empty if torch recorded no such condition. ``values`` are the sizes by torch's symbols,
    ``names`` the names of the symbols.
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
            is_met = expression.subs(bindings)
        except ZeroDivisionError:
            is_met = False
        if is_met == False:  # noqa: E712  (sympy's, or a relation with free symbols)
            locations = (guard.sloc.maybe_user_loc, guard.sloc.framework_loc)
            line = next(filter(None, map(line_from_location, locations)), None)
            text = format_condition(_without_minus(expression), names)
            if line is None:
                return text
            location = "/".join(Path(line.file).parts[-2:])
            return f"{text}, tested at {location}:{line.line}, in {line.function}"
    return ""
