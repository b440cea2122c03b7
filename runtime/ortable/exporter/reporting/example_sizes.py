"""Other sizes of the example call: what validation runs besides the example itself. Values stay
those of the example, repeated or cut, so that indices stay in range. In come the program and the
call, out go calls of other sizes. Called by validate.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ortable import dims
from ortable.compat.torch import pytree
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.signature.dynamic_shapes import expression_of, value_of

UNBOUNDED = 2**31  # what bounds_of says of a dimension without a largest size
DEFAULT_SMALLEST = 2  # torch's bound of a dimension of which nobody said one

# Larger sizes that are tried for one dimension, and combinations of them for several.
_MOST_STEPS, _MOST_TRIALS = 257, 1000

ExampleCall = tuple[tuple[Any, ...], dict[str, Any]]


def other_sizes(program: Program, call: ExampleCall) -> list[tuple[str, ExampleCall | None]]:
    """Resized calls, each with its sizes in words (``"batch=6, length=9"``).

    One call has every dynamic dimension larger than the example, each by another amount; one has
    the smallest that the program allows, but at least 1. Where a guard of the program does not
    hold at these sizes, the next ones are taken; None instead of a call when there are none near.
    A program without dynamic dimensions has none.
    """
    leaves, structure = pytree.tree_flatten(call)
    if len(leaves) != len(program.user_inputs):
        return []
    sizes = [sizes_of(node.meta.get("val")) for node in program.user_inputs]
    hints = example_sizes(leaves, sizes)
    ranges = ranges_of(program)
    tried = [hints]
    found: list[tuple[str, ExampleCall | None]] = []
    names = {symbol: program.symbol_names.get(str(symbol), str(symbol)) for symbol in hints}
    for start in (
        sizes_by_name(_larger(hints, ranges), names, min),
        sizes_by_name({s: bounds_of(s, ranges)[0] for s in hints}, names, max),
    ):
        wanted = _guarded(start, names, program, ranges)
        if wanted is None:
            found.append((_words(start, names), None))
            continue
        if wanted in tried:
            continue
        tried.append(wanted)
        moved = [resized(leaf, dims, wanted) for leaf, dims in zip(leaves, sizes, strict=True)]
        found.append((_words(wanted, names), pytree.tree_unflatten(moved, structure)))
    return found


def _words(values: Mapping[Any, int], names: Mapping[Any, str]) -> str:
    return ", ".join(dict.fromkeys(f"{names[symbol]}={value}" for symbol, value in values.items()))


def _guarded(
    values: dict[Any, int], names: Mapping[Any, str], program: Program, ranges: Mapping[Any, Any]
) -> dict[Any, int] | None:
    """``values``, or the first larger ones within the ranges at which the guards of the program
    hold."""
    if not values or not program.guards:
        return values
    groups = list(dict.fromkeys(names.values()))
    steps = _MOST_STEPS if len(groups) == 1 else int(_MOST_TRIALS ** (1 / len(groups))) + 1
    for offsets in itertools.islice(_by_sum(len(groups), steps), _MOST_TRIALS):
        added = dict(zip(groups, offsets, strict=True))
        moved = {symbol: value + added[names[symbol]] for symbol, value in values.items()}
        inside = all(value <= bounds_of(symbol, ranges)[1] for symbol, value in moved.items())
        by_name = {str(symbol): value for symbol, value in moved.items()}
        if inside and all(guard.holds(by_name) for guard in program.guards):
            return moved
    return None


def _by_sum(count: int, steps: int) -> Iterator[tuple[int, ...]]:
    """The tuples of ``count`` numbers below ``steps``, the smallest sums first, one after another:
    there are too many for a list."""

    def summing(left: int, total: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        rest = (left - 1) * (steps - 1)
        for first in range(max(0, total - rest), min(steps - 1, total) + 1):
            for others in summing(left - 1, total - first):
                yield (first, *others)

    for total in range(count * (steps - 1) + 1):
        yield from summing(count, total)


def sizes_of(value: Any) -> Any:
    """Sizes of a tensor input as ints and sympy expressions; an expression for an integer input;
    None for a constant."""
    if isinstance(value, torch.Tensor):
        return [size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape]
    return value.node.expr if isinstance(value, torch.SymInt) else None


def example_sizes(leaves: Sequence[Any], sizes: Sequence[Any]) -> dict[Any, int]:
    """Symbol -> its value in the example call, in the order of the inputs."""
    hints: dict[Any, int] = {}
    for leaf, expressions in zip(leaves, sizes, strict=True):
        if isinstance(expressions, list):
            pairs = list(zip(expressions, leaf.shape, strict=True))
        else:
            pairs = [] if expressions is None else [(expressions, leaf)]
        for expression, size in pairs:
            free = list(getattr(expression, "free_symbols", ()))
            if len(free) == 1 and free[0] not in hints:
                value = solved(expression, free[0], int(size))
                if value is not None:
                    hints[free[0]] = value
    return hints


def solved(expression: Any, symbol: Any, size: int) -> int | None:
    """The value of ``symbol`` at which ``expression`` has this size."""
    if expression == symbol:
        return size
    import sympy

    solutions = [value for value in sympy.solve(expression - size, symbol) if value.is_integer]
    return int(solutions[0]) if solutions else None


def ranges_of(program: Program) -> Mapping[Any, Any]:
    """Symbol -> torch's range of it, from the smallest size on that is proved. The 2 that torch
    starts from, whatever the user says of a dimension without a minimum, is no bound."""
    if program.exported is not None:
        ranges = program.exported.range_constraints if program.ranges is None else program.ranges
        return {symbol: _known_range(symbol, found, program) for symbol, found in ranges.items()}
    for node in program.user_inputs:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return dict(size.node.shape_env.var_to_range)
    return {}


def _known_range(symbol: Any, found: Any, program: Program) -> Any:
    proved = program.smallest.get(str(symbol))
    if proved is not None:
        return type(found)(proved.size, found.upper)
    opened = found.lower == DEFAULT_SMALLEST and str(symbol) in program.open_dims
    return type(found)(1, found.upper) if opened else found


def is_default(symbol: Any, lower: Any, program: Program) -> bool:
    """Whether a bound is torch's own: that of a dimension of which nobody said one, or, of one
    named as a sum of such dimensions, what comes of theirs."""
    unsaid = program.exported is None or str(symbol) in program.open_dims
    if str(symbol) in program.smallest:
        return bool(unsaid and lower == 0)
    found = expression_of(program.symbol_names.get(str(symbol), ""))
    least = DEFAULT_SMALLEST
    if found is not None:
        least = dims.evaluate_dim(found, dict.fromkeys(dims.free_symbols(found), DEFAULT_SMALLEST))
    return bool(unsaid and lower <= least)


def stated_ranges(program: Program) -> list[tuple[str, int | None, int | None]]:
    """Smallest and largest size of each named dimension, None where neither the caller nor torch
    says one: torch raises the smallest size of a dimension in which an operator's own code asks
    whether a size is 1, say behind convolutions with strides."""
    found = []
    for symbol, each in ranges_of(program).items():
        name = program.symbol_names.get(str(symbol))
        if name is None or not each.lower.is_Integer:
            continue
        lower, upper = int(each.lower), bounds_of(symbol, {symbol: each})[1]
        unsaid = is_default(symbol, lower, program)
        found.append((name, None if unsaid else lower, None if upper >= UNBOUNDED else upper))
    return found


def bounds_of(symbol: Any, ranges: Mapping[Any, Any]) -> tuple[int, int]:
    """Smallest and largest value of a symbol; at least 1, since few models run on empty tensors."""
    found = ranges.get(symbol)
    if found is None:
        return 1, UNBOUNDED
    lower, upper = found.lower, found.upper
    return max(1, int(lower)), int(upper) if upper.is_Integer else UNBOUNDED


def _larger(hints: Mapping[Any, int], ranges: Mapping[Any, Any]) -> dict[Any, int]:
    """Every symbol above its example, by 1, 2, 3... so that two dimensions are told apart."""
    return {
        symbol: min(value + 1 + index, bounds_of(symbol, ranges)[1])
        for index, (symbol, value) in enumerate(hints.items())
    }


def sizes_by_name(
    values: Mapping[Any, int], names: Mapping[Any, str], choose: Callable[[Any], int]
) -> dict[Any, int]:
    """One value for the symbols that the user gave one name; what names like ``past + new`` come to
    for those."""
    groups: dict[str, list[int]] = {}
    for symbol, value in values.items():
        groups.setdefault(names[symbol], []).append(value)
    chosen = {name: choose(found) for name, found in groups.items()}
    sums = {name: value_of(name, chosen) for name in chosen}
    return {symbol: sums[names[symbol]] or chosen[names[symbol]] for symbol in values}


def resized(leaf: Any, sizes: Any, values: Mapping[Any, int]) -> Any:
    """The leaf at its new sizes: rows repeated in order, or cut; of an empty one, zeros."""
    if sizes is None:
        return leaf
    if not isinstance(sizes, list):
        return _evaluated(sizes, values)
    for axis, size in enumerate(sizes):
        if isinstance(size, int):
            continue
        wanted, present = _evaluated(size, values), leaf.shape[axis]
        if wanted and not present:  # no row to repeat
            leaf = leaf.new_zeros([*leaf.shape[:axis], wanted, *leaf.shape[axis + 1 :]])
        elif wanted != present:
            leaf = leaf.index_select(axis, torch.arange(wanted, device=leaf.device) % present)
    return leaf


def _evaluated(expression: Any, values: Mapping[Any, int]) -> int:
    return int(expression.subs(values))
