"""Resize the example call for validation.

Values are repeated or cut, so that indices stay in range. Called by validate.py.
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

UNBOUNDED = 2**31  # bounds_of returns this for a dimension without a largest size
TORCH_MIN_SIZE = 2  # torch's default smallest size of a dynamic dimension

# Limits of the search for sizes that satisfy the guards: of one dimension, and of combinations.
_MAX_STEPS, _MAX_TRIALS = 257, 1000

ExampleCall = tuple[tuple[Any, ...], dict[str, Any]]


def resized_calls(program: Program, call: ExampleCall) -> list[tuple[str, ExampleCall | None]]:
    """Return resized calls, each with a description of its sizes (``"batch=6, length=9"``).

    In the first call every dynamic dimension is larger than in the example, by different amounts.
    The second has the smallest sizes that the program allows, but at least 1. If a guard of the
    program does not hold at these sizes, slightly larger ones are tried; the call is None if none
    satisfies the guards. The list is empty for a program without dynamic dimensions.
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
            resize_leaf(leaf, dims, new_sizes) for leaf, dims in zip(leaves, sizes, strict=True)
        ]
        calls.append((_sizes_text(new_sizes, names), pytree.tree_unflatten(resized, structure)))
    return calls


def _sizes_text(values: Mapping[Any, int], names: Mapping[Any, str]) -> str:
    return ", ".join(dict.fromkeys(f"{names[symbol]}={value}" for symbol, value in values.items()))


def _satisfy_guards(
    values: dict[Any, int], names: Mapping[Any, str], program: Program, ranges: Mapping[Any, Any]
) -> dict[Any, int] | None:
    """Return ``values``, or the nearest larger sizes within the ranges that satisfy all guards."""
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
        rest = (length - 1) * (steps - 1)
        for first in range(max(0, total - rest), min(steps - 1, total) + 1):
            for tail in tuples_with_sum(length - 1, total - first):
                yield (first, *tail)

    for total in range(count * (steps - 1) + 1):
        yield from tuples_with_sum(count, total)


def size_expressions(value: Any) -> Any:
    """Return the ints or sympy expressions of an input's sizes; None for a constant."""
    if isinstance(value, torch.Tensor):
        return [size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape]
    return value.node.expr if isinstance(value, torch.SymInt) else None


def example_sizes(leaves: Sequence[Any], sizes: Sequence[Any]) -> dict[Any, int]:
    """Map symbols to their values in the example call, in the order of the inputs."""
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
    """Map symbols to torch's ranges, with the proved smallest sizes.

    The lower bound 2, which torch gives every dimension without a user's minimum, becomes 1.
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

    torch's bound is `TORCH_MIN_SIZE` for a dimension without a user's minimum, and the sum of these
    bounds for a sum of dimensions.
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

    torch raises the smallest size of a dimension if an operator branches on whether a size is 1,
    for example after convolutions with strides.
    """
    stated = []
    for symbol, value_range in symbol_ranges(program).items():
        name = program.symbol_names.get(str(symbol))
        if name is None or not value_range.lower.is_Integer:
            continue
        lower, upper = int(value_range.lower), symbol_bounds(symbol, {symbol: value_range})[1]
        has_default_minimum = is_torch_minimum(symbol, lower, program)
        stated.append(
            (name, None if has_default_minimum else lower, None if upper >= UNBOUNDED else upper)
        )
    return stated


def symbol_bounds(symbol: Any, ranges: Mapping[Any, Any]) -> tuple[int, int]:
    """Return the bounds of a symbol, at least 1, because few models run on empty tensors."""
    value_range = ranges.get(symbol)
    if value_range is None:
        return 1, UNBOUNDED
    lower, upper = value_range.lower, value_range.upper
    return max(1, int(lower)), int(upper) if upper.is_Integer else UNBOUNDED


def _larger_sizes(hints: Mapping[Any, int], ranges: Mapping[Any, Any]) -> dict[Any, int]:
    """Increase every symbol by a different amount, so that two dimensions differ."""
    return {
        symbol: min(value + 1 + index, symbol_bounds(symbol, ranges)[1])
        for index, (symbol, value) in enumerate(hints.items())
    }


def sizes_by_name(
    values: Mapping[Any, int], names: Mapping[Any, str], choose: Callable[[Any], int]
) -> dict[Any, int]:
    """Choose one value for all symbols of a name, and evaluate names like ``past + new``."""
    groups: dict[str, list[int]] = {}
    for symbol, value in values.items():
        groups.setdefault(names[symbol], []).append(value)
    size_by_name = {name: choose(group_sizes) for name, group_sizes in groups.items()}
    evaluated = {name: evaluate_dim_expression(name, size_by_name) for name in size_by_name}
    return {symbol: evaluated[names[symbol]] or size_by_name[names[symbol]] for symbol in values}


def resize_leaf(leaf: Any, sizes: Any, values: Mapping[Any, int]) -> Any:
    """Resize a leaf: repeat or cut rows in order; fill an empty one with zeros."""
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


def _evaluate(expression: Any, values: Mapping[Any, int]) -> int:
    return int(expression.subs(values))
