"""Resize the example call, and find the sizes of dimensions that a program allows.

Values are repeated or cut, so that indices stay in range. Called by validation, reports, the checks
of a call, and `capture`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ortable import dims
from ortable.compat.torch import pytree
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.signature.dynamic_shapes import evaluate_dim_expression, parse_dim_expression

UNBOUNDED = 2**31  # symbol_bounds returns this for a dimension without a largest size
TORCH_MIN_SIZE = 2  # torch's default smallest size of a dynamic dimension

# Limits of the search for sizes that satisfy the guards: the sizes to try if there is one dimension
# name, and the combinations of sizes to try in any case.
_MAX_STEPS, _MAX_TRIALS = 257, 1000

ExampleCall = tuple[tuple[Any, ...], dict[str, Any]]


def resized_calls(program: Program, call: ExampleCall) -> list[tuple[str, ExampleCall | None]]:
    """Return up to two resized calls, each with its sizes as text (``"batch=6, length=9"``).

    In the first call, dynamic dimensions are larger than in the example by 1, 2, 3..., as far as
    their ranges allow. The second has the smallest sizes that the program allows, but at least 1.
    If a guard of the program does not hold at these sizes, slightly larger ones are tried; the call
    is None if none satisfies the guards. A call with the sizes of the example is left out, so the
    list is empty for a program without dynamic dimensions.
    """
    leaves, structure = pytree.tree_flatten(call)
    if len(leaves) != len(program.user_inputs):
        return []
    sizes = [size_expressions(node.meta.get("val")) for node in program.user_inputs]
    hints = example_sizes(leaves, sizes)
    ranges = symbol_ranges(program)
    tried = [hints]
    calls: list[tuple[str, ExampleCall | None]] = []
    names = {symbol: program.symbol_names.get(str(symbol), str(symbol)) for symbol in hints}
    for start in (
        sizes_by_name(_larger_sizes(hints, ranges), names, min),
        sizes_by_name({s: symbol_bounds(s, ranges)[0] for s in hints}, names, max),
    ):
        new_sizes = _satisfy_guards(start, names, program, ranges)
        if new_sizes is None:
            calls.append((_sizes_text(start, names), None))
            continue
        if new_sizes in tried:
            continue
        tried.append(new_sizes)
        resized = [
            resize_leaf(leaf, expressions, new_sizes)
            for leaf, expressions in zip(leaves, sizes, strict=True)
        ]
        calls.append((_sizes_text(new_sizes, names), pytree.tree_unflatten(resized, structure)))
    return calls


def _sizes_text(values: Mapping[Any, int], names: Mapping[Any, str]) -> str:
    return ", ".join(dict.fromkeys(f"{names[symbol]}={value}" for symbol, value in values.items()))


def _satisfy_guards(
    values: dict[Any, int], names: Mapping[Any, str], program: Program, ranges: Mapping[Any, Any]
) -> dict[Any, int] | None:
    """Return ``values``, or larger sizes with the smallest total increase that satisfy all guards.

    Symbols of one name increase together, and sizes stay in their ranges. None: the search failed.
    """
    if not values or not program.guards:
        return values
    groups = list(dict.fromkeys(names.values()))
    steps = _MAX_STEPS if len(groups) == 1 else int(_MAX_TRIALS ** (1 / len(groups))) + 1
    for offsets in itertools.islice(_by_sum(len(groups), steps), _MAX_TRIALS):
        offset = dict(zip(groups, offsets, strict=True))
        candidate = {symbol: value + offset[names[symbol]] for symbol, value in values.items()}
        in_range = all(
            value <= symbol_bounds(symbol, ranges)[1] for symbol, value in candidate.items()
        )
        by_name = {str(symbol): value for symbol, value in candidate.items()}
        if in_range and all(guard.holds(by_name) for guard in program.guards):
            return candidate
    return None


def _by_sum(count: int, steps: int) -> Iterator[tuple[int, ...]]:
    """Yield tuples of ``count`` numbers below ``steps``, ordered by their sum."""

    def tuples_with_sum(length: int, total: int) -> Iterator[tuple[int, ...]]:
        if length == 0:
            yield ()
            return
        max_tail_sum = (length - 1) * (steps - 1)
        for first in range(max(0, total - max_tail_sum), min(steps - 1, total) + 1):
            for tail in tuples_with_sum(length - 1, total - first):
                yield (first, *tail)

    for total in range(count * (steps - 1) + 1):
        yield from tuples_with_sum(count, total)


def size_expressions(value: Any) -> Any:
    """Return the sizes of an input as ints or sympy expressions, such as ``[4, s0]``.

    A symbolic integer has one expression, not a list; a constant has None.
    """
    if isinstance(value, torch.Tensor):
        return [size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape]
    return value.node.expr if isinstance(value, torch.SymInt) else None


def example_sizes(leaves: Sequence[Any], sizes: Sequence[Any]) -> dict[Any, int]:
    """Map symbols to their values in the example call, in the order of the inputs.

    ``sizes`` has the `size_expressions` of each leaf. A symbol is left out if it occurs only
    together with others (``s0 + s1``).
    """
    hints: dict[Any, int] = {}
    for leaf, expressions in zip(leaves, sizes, strict=True):
        if isinstance(expressions, list):
            pairs = list(zip(expressions, leaf.shape, strict=True))
        else:
            pairs = [] if expressions is None else [(expressions, leaf)]
        for expression, size in pairs:
            symbols = list(getattr(expression, "free_symbols", ()))
            if len(symbols) == 1 and symbols[0] not in hints:
                value = solve_for_symbol(expression, symbols[0], int(size))
                if value is not None:
                    hints[symbols[0]] = value
    return hints


def solve_for_symbol(expression: Any, symbol: Any, size: int) -> int | None:
    """Solve ``expression == size`` for an integer ``symbol``; None without a solution."""
    if expression == symbol:
        return size
    import sympy

    solutions = [value for value in sympy.solve(expression - size, symbol) if value.is_integer]
    return int(solutions[0]) if solutions else None


def symbol_ranges(program: Program) -> Mapping[Any, Any]:
    """Map symbols to torch's ranges, with the smallest sizes of ``program.smallest``.

    The lower bound 2, which torch gives every dimension without a user's minimum, becomes 1. If the
    caller gave a graph, its ranges are returned unchanged.
    """
    if program.exported is not None:
        ranges = program.exported.range_constraints if program.ranges is None else program.ranges
        return {
            symbol: _known_range(symbol, value_range, program)
            for symbol, value_range in ranges.items()
        }
    for node in program.user_inputs:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return dict(size.node.shape_env.var_to_range)
    return {}


def _known_range(symbol: Any, value_range: Any, program: Program) -> Any:
    proved = program.smallest.get(str(symbol))
    if proved is not None:
        return type(value_range)(proved.size, value_range.upper)
    is_torch_default = value_range.lower == TORCH_MIN_SIZE and str(symbol) in program.open_dims
    return type(value_range)(1, value_range.upper) if is_torch_default else value_range


def is_torch_minimum(symbol: Any, lower: Any, program: Program) -> bool:
    """Whether a lower bound comes from torch and not from the user.

    torch's bound is `TORCH_MIN_SIZE` for a dimension without a user's minimum; a dimension that is
    named by an expression (``past + new``) has the expression's value at that size, here 4. If
    small sizes were tried, only the bound 0 comes from torch.
    """
    has_no_user_minimum = program.exported is None or str(symbol) in program.open_dims
    if str(symbol) in program.smallest:
        return bool(has_no_user_minimum and lower == 0)
    expression = parse_dim_expression(program.symbol_names.get(str(symbol), ""))
    torch_minimum = TORCH_MIN_SIZE
    if expression is not None:
        torch_minimum = dims.evaluate_dim(
            expression, dict.fromkeys(dims.free_symbols(expression), TORCH_MIN_SIZE)
        )
    return bool(has_no_user_minimum and lower <= torch_minimum)


def named_dim_ranges(program: Program) -> list[tuple[str, int | None, int | None]]:
    """Return (name, smallest, largest) of each named dimension; None for a default bound.

    A smallest size may also come from the model: torch raises it if an operator branches on whether
    a size is 1, for example after convolutions with strides.
    """
    named_ranges = []
    for symbol, value_range in symbol_ranges(program).items():
        name = program.symbol_names.get(str(symbol))
        if name is None or not value_range.lower.is_Integer:
            continue
        lower, upper = int(value_range.lower), symbol_bounds(symbol, {symbol: value_range})[1]
        has_default_minimum = is_torch_minimum(symbol, lower, program)
        named_ranges.append(
            (name, None if has_default_minimum else lower, None if upper >= UNBOUNDED else upper)
        )
    return named_ranges


def symbol_bounds(symbol: Any, ranges: Mapping[Any, Any]) -> tuple[int, int]:
    """Return the smallest and the largest size of a symbol.

    The smallest is at least 1, because few models run on empty tensors.
    """
    value_range = ranges.get(symbol)
    if value_range is None:
        return 1, UNBOUNDED
    lower, upper = value_range.lower, value_range.upper
    return max(1, int(lower)), int(upper) if upper.is_Integer else UNBOUNDED


def _larger_sizes(hints: Mapping[Any, int], ranges: Mapping[Any, Any]) -> dict[Any, int]:
    """Return a larger size for each symbol, all different where the ranges allow it."""
    sizes: dict[Any, int] = {}
    for index, (symbol, value) in enumerate(hints.items()):
        limit = symbol_bounds(symbol, ranges)[1]
        larger = itertools.count(value + 1 + index)
        candidates = (size for size in larger if size not in sizes.values())
        sizes[symbol] = min(next(candidates), limit)
    return sizes


def sizes_by_name(
    values: Mapping[Any, int], names: Mapping[Any, str], choose: Callable[[Any], int]
) -> dict[Any, int]:
    """Make symbols of one name equal: ``choose`` (min, max) selects one of their ``values``.

    A name such as ``past + new`` has the value of its expression instead.
    """
    groups: dict[str, list[int]] = {}
    for symbol, value in values.items():
        groups.setdefault(names[symbol], []).append(value)
    size_by_name = {name: choose(group_sizes) for name, group_sizes in groups.items()}
    for name in list(size_by_name):
        size = evaluate_dim_expression(name, size_by_name)
        if size is not None:
            size_by_name[name] = size
    return {symbol: size_by_name[names[symbol]] for symbol in values}


def resize_leaf(leaf: Any, sizes: Any, values: Mapping[Any, int]) -> Any:
    """Resize a leaf of the call to its `size_expressions` at ``values``.

    Slices of a tensor are repeated in order or cut along each axis; an empty axis is filled with
    zeros. An integer becomes the new size, and a constant (None) stays.
    """
    if sizes is None:
        return leaf
    if not isinstance(sizes, list):
        return _evaluate(sizes, values)
    for axis, size in enumerate(sizes):
        if isinstance(size, int):
            continue
        target, current = _evaluate(size, values), leaf.shape[axis]
        if target and not current:  # no row to repeat
            leaf = leaf.new_zeros([*leaf.shape[:axis], target, *leaf.shape[axis + 1 :]])
        elif target != current:
            leaf = leaf.index_select(axis, torch.arange(target, device=leaf.device) % current)
    return leaf


def has_negative_size(sizes: Sequence[Any], values: Mapping[Any, int]) -> bool:
    """Whether a tensor would have a size below 0 at ``values``, such as ``2*s0 - 1`` at 0.

    ``sizes`` has the `size_expressions` of each leaf.
    """
    return any(
        not isinstance(size, int) and _evaluate(size, values) < 0
        for leaf_sizes in sizes
        if isinstance(leaf_sizes, list)
        for size in leaf_sizes
    )


def _evaluate(expression: Any, values: Mapping[Any, int]) -> int:
    return int(expression.subs(values))
