"""Prove conditions on sizes, which are sympy relations between torch's symbols.

The methods are interval arithmetic, enumeration of sizes, and the algebra of `ortable.dims`.
guards.py drops the guards that are proved; size_branches.py proves that branches cover all sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ortable import dims

# Smallest and largest size; the largest is None for an unbounded dimension.
Range = tuple[int, int | None]
_MAX_SIZES = 512  # sizes of one dimension that are tried in turn
_EXTREMA = {"Max": True, "Min": True}  # names of torch's sympy classes
_MAX_COMBINATIONS = 20_000  # combinations of sizes that are tried in turn


def is_implied(expression: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the expression is proved for all sizes within the ranges."""
    import sympy

    if expression == True:  # noqa: E712  (sympy's)
        return True
    if isinstance(expression, (sympy.And, sympy.Or)):
        combine = all if isinstance(expression, sympy.And) else any
        return combine(is_implied(part, ranges) for part in expression.args)
    if not isinstance(expression, sympy.core.relational.Relational):
        return False
    difference = expression.lhs - expression.rhs
    symbols = list(difference.free_symbols)
    if len(symbols) == 1 and _holds_by_enumeration(
        expression, difference, symbols[0], *ranges.get(symbols[0], (2, None))
    ):
        return True
    return _holds_by_intervals(expression, difference, ranges) or _holds_by_algebra(expression)


def assume_conditions(
    expression: Any, conditions: Sequence[Any], ranges: Mapping[Any, Range]
) -> tuple[Any, dict[Any, Range]]:
    """Return an expression and ranges in which the conditions are applied, for `is_implied`.

    A remainder of 0 makes a size a multiple, an equality replaces a size, and a bound narrows a
    range: under ``Mod(s0, 4) == 0`` the expression ``Mod(s0, 2) == 0`` becomes true. The expression
    becomes true if it is one of the conditions. Other conditions are not applied.
    """
    import sympy

    narrowed = dict(ranges)
    for condition in conditions:
        if expression == condition or expression == getattr(condition, "reversed", None):
            return sympy.true, narrowed
        if not isinstance(condition, sympy.core.relational.Relational):
            continue
        left, right = condition.lhs, condition.rhs
        if isinstance(condition, sympy.Eq):
            replacement = _solve_equality(left, right) or _solve_equality(right, left)
            if replacement is not None:
                expression = expression.subs(*replacement)
        elif left.is_Symbol and right.is_Integer and not isinstance(condition, sympy.Ne):
            lower, upper = narrowed.get(left, (2, None))
            step, bound = int(isinstance(condition, (sympy.Gt, sympy.Lt))), int(right)
            if isinstance(condition, (sympy.Ge, sympy.Gt)):
                lower = max(lower, bound + step)
            else:
                upper = min(bound - step, bound if upper is None else upper)
            narrowed[left] = (lower, upper)
    return expression, narrowed


def _solve_equality(side: Any, other: Any) -> tuple[Any, Any] | None:
    """Return a symbol and its value where ``side`` is ``other``; None if it is not solved."""
    import sympy

    if side.is_Symbol and side not in other.free_symbols:
        return side, other
    if type(side).__name__.endswith("Mod") and other == 0 and side.args[0].is_Symbol:
        multiple = sympy.Symbol(f"{side.args[0]}_multiple", integer=True, positive=True)
        return side.args[0], side.args[1] * multiple
    return None


def _holds_by_intervals(expression: Any, difference: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the interval of the relation or of its sides' difference proves the relation."""
    import sympy

    from ortable.compat.torch import ValueRanges, bound_sympy, int_oo

    intervals = {
        symbol: ValueRanges(smallest, int_oo if largest is None else largest)
        for symbol, (smallest, largest) in ranges.items()
    }
    try:
        if bound_sympy(expression, intervals).lower == sympy.true:
            return True
        interval = bound_sympy(sympy.expand(difference), intervals)
        return _is_decided(expression, interval.lower, interval.upper)
    except Exception:  # functions that torch's interval arithmetic lacks
        return False


def _holds_by_algebra(expression: Any) -> bool:
    """Whether the algebra of dimensions proves the sides equal or, for ``!=``, always different."""
    import sympy

    try:
        left, right = dims.from_torch(expression.lhs), dims.from_torch(expression.rhs)
    except Exception:  # fractions and functions that are not dimensions
        return False
    if isinstance(expression, (sympy.Eq, sympy.Ge, sympy.Le)):
        return dims.always_equal(left, right)
    return isinstance(expression, sympy.Ne) and dims.always_differ(left, right)


def _holds_by_enumeration(
    expression: Any, difference: Any, symbol: Any, smallest: int, largest: Any
) -> bool:
    """Whether evaluating the relation at sizes of its one dimension proves it.

    All sizes of the dimension are tried if they are few. Otherwise, if the difference of the sides
    grows by the same amount in each period, its bounds follow from the first period.
    """
    period = _growth_period(difference, symbol)
    count = None if largest is None else largest - smallest + 1
    if count is not None and count <= (_MAX_SIZES if period is None else 2 * period):
        return all(_holds_at(expression, symbol, size) for size in range(smallest, largest + 1))
    if period is None or period > _MAX_SIZES // 2:
        return False
    try:
        values = [int(difference.subs(symbol, smallest + index)) for index in range(2 * period)]
    except ZeroDivisionError:
        return False
    growths = {after - before for before, after in zip(values, values[period:], strict=False)}
    if len(growths) != 1:
        return False
    growth = growths.pop()
    first_period = values[:period]
    lower = -math.inf if growth < 0 else min(first_period)
    upper = math.inf if growth > 0 else max(first_period)
    return _is_decided(expression, lower, upper) or (
        growth == 0
        and all(_holds_at(expression, symbol, smallest + index) for index in range(period))
    )


def _holds_at(expression: Any, symbol: Any, size: int) -> bool:
    try:
        return bool(expression.subs(symbol, size) == True)  # noqa: E712
    except ZeroDivisionError:  # the expression divides by the size
        return False


def _is_decided(expression: Any, lower: Any, upper: Any) -> bool:
    """Whether a relation holds if the difference of its sides is between the bounds."""
    import sympy

    relation_type = type(expression)
    if relation_type is sympy.Eq:
        return bool(lower == 0) and bool(upper == 0)
    if relation_type is sympy.Ne:
        return bool(lower > 0) or bool(upper < 0)
    tests = {
        sympy.Gt: lower > 0,
        sympy.Ge: lower >= 0,
        sympy.Lt: upper < 0,
        sympy.Le: upper <= 0,
    }
    return bool(tests.get(relation_type, False))


def _growth_period(expression: Any, symbol: Any) -> int | None:
    """Return a period ``p`` for which ``f(n + p) - f(n)`` is constant; ``f`` is the expression.

    None unless ``f`` has only sums, multiples, extrema, and quotients and remainders by numbers.
    """
    import sympy

    if expression == symbol or expression.is_Integer:
        return 1
    if isinstance(expression, sympy.Add):
        periods = [_growth_period(part, symbol) for part in expression.args]
        return (
            None
            if None in periods
            else math.lcm(*(part_period for part_period in periods if part_period))
        )
    if _EXTREMA.get(type(expression).__name__):
        return _common_period(expression.args, symbol)
    if isinstance(expression, sympy.Mul):
        factors = [part for part in expression.args if not part.is_Integer]
        return _growth_period(factors[0], symbol) if len(factors) == 1 else None
    if type(expression).__name__ in ("Mod", "PythonMod", "FloorDiv", "CleanDiv"):
        inner, divisor = expression.args
        period = _growth_period(inner, symbol)
        return None if period is None or not divisor.is_Integer else period * abs(int(divisor))
    return None


def _common_period(parts: Sequence[Any], symbol: Any) -> int | None:
    """Return the period of a maximum or minimum; None unless all operands grow by one amount."""
    periods = [_growth_period(part, symbol) for part in parts]
    if None in periods:
        return None
    common = math.lcm(*(period for period in periods if period))
    growths = {part.subs(symbol, 2 + common) - part.subs(symbol, 2) for part in parts}
    return common if len(growths) == 1 else None


def choose_size_cases(
    conditions: Sequence[Sequence[Any]], ranges: Mapping[Any, Range]
) -> dict[Any, range] | None:
    """Choose sizes of each symbol that represent all its sizes.

    The difference of a relation's sides grows by a constant in each period, so the relations at the
    chosen sizes decide the relations at larger sizes. None if a relation has no known period or not
    exactly one symbol, or if there are too many combinations.
    """
    import sympy

    relations = {
        relation
        for conjunction in conditions
        for condition in conjunction
        for relation in condition.atoms(sympy.core.relational.Relational)
    }
    # by symbol: the size from which on every relation repeats, and the common period
    start_and_period: dict[Any, tuple[int, int]] = {}
    for relation in relations:
        difference = relation.lhs - relation.rhs
        symbols = list(difference.free_symbols)
        if len(symbols) != 1:
            return None
        symbol = symbols[0]
        smallest, _ = ranges.get(symbol, (2, None))
        period = _growth_period(difference, symbol)
        if period is None or period > _MAX_COMBINATIONS:
            return None
        values = [int(difference.subs(symbol, smallest + index)) for index in range(period + 1)]
        growth = abs(values[period] - values[0])
        period_count = max(map(abs, values)) // growth + 2 if growth else 0
        start, common = start_and_period.get(symbol, (smallest, 1))
        start_and_period[symbol] = (
            max(start, smallest + period_count * period),
            math.lcm(common, period),
        )
    chosen_sizes = {}
    for symbol, (start, period) in start_and_period.items():
        smallest, largest = ranges.get(symbol, (2, None))
        end = start + period
        chosen_sizes[symbol] = range(
            smallest, end + 1 if largest is None else min(end, largest) + 1
        )
    is_feasible = math.prod(len(sizes) for sizes in chosen_sizes.values()) <= _MAX_COMBINATIONS
    return chosen_sizes if is_feasible else None


def find_uncovered_sizes(
    conditions: Sequence[Sequence[Any]], sizes: Mapping[Any, Sequence[int]]
) -> Iterator[dict[Any, int]]:
    """Yield the combinations of ``sizes`` at which none of ``conditions`` holds.

    Each of ``conditions`` is a list of relations that must all hold.
    """
    for combination in itertools.product(*sizes.values()):
        values = dict(zip(sizes, combination, strict=True))
        if not any(
            all(_condition_holds(condition, values) for condition in conjunction)
            for conjunction in conditions
        ):
            yield values


def _condition_holds(condition: Any, values: Mapping[Any, int]) -> bool:
    try:
        return bool(condition.subs(values) == True)  # noqa: E712  (sympy's)
    except ZeroDivisionError:  # the condition divides by the size
        return False
