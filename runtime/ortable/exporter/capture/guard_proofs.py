"""Prove conditions on sizes, sympy relations between torch's symbols: by interval arithmetic, by
cases, by the algebra of dimensions. guards.py drops guards that are proved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ortable import dims

# Smallest and largest size; None: no end.
Range = tuple[int, int | None]
_MAX_CASES = 512  # sizes of one dimension that are tried one by one
_EXTREMA = {"Max": True, "Min": True}  # torch's classes of expressions
_MAX_COMBINATIONS = 20_000  # combinations of sizes that are tried for a side that has no program


def is_implied(expression: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the expression is proved for all sizes within the ranges (upper end None: no
    end)."""
    import sympy

    if expression == True:  # noqa: E712  (sympy's)
        return True
    if isinstance(expression, (sympy.And, sympy.Or)):
        combine = all if isinstance(expression, sympy.And) else any
        return combine(is_implied(part, ranges) for part in expression.args)
    if not isinstance(expression, sympy.core.relational.Relational):
        return False
    difference = expression.lhs - expression.rhs
    free = list(difference.free_symbols)
    if len(free) == 1 and _in_cases(
        expression, difference, free[0], *ranges.get(free[0], (2, None))
    ):
        return True
    return _in_bounds(expression, difference, ranges) or _in_algebra(expression)


def _in_bounds(expression: Any, difference: Any, ranges: Mapping[Any, Range]) -> bool:
    """Prove it by interval arithmetic, of the whole and of the difference of both sides."""
    import sympy

    from ortable.compat.torch import ValueRanges, bound_sympy, int_oo

    spans = {
        symbol: ValueRanges(least, int_oo if most is None else most)
        for symbol, (least, most) in ranges.items()
    }
    try:
        if bound_sympy(expression, spans).lower == sympy.true:
            return True
        gap = bound_sympy(sympy.expand(difference), spans)
        return _is_decided(expression, gap.lower, gap.upper)
    except Exception:  # functions that torch's interval arithmetic lacks
        return False


def _in_algebra(expression: Any) -> bool:
    """Prove it by the algebra of dimensions: both sides are equal, or never are."""
    import sympy

    try:
        left, right = dims.from_torch(expression.lhs), dims.from_torch(expression.rhs)
    except Exception:  # fractions, functions that are no dimension
        return False
    if isinstance(expression, (sympy.Eq, sympy.Ge, sympy.Le)):
        return dims.always_equal(left, right)
    return isinstance(expression, sympy.Ne) and dims.always_differ(left, right)


def _in_cases(expression: Any, difference: Any, symbol: Any, least: int, most: Any) -> bool:
    """Prove it by trying the sizes of one dimension: all of them, or those of two periods where the
    difference of both sides grows by the same amount in each.
    """
    period = _growth_period(difference, symbol)
    span = None if most is None else most - least + 1
    if span is not None and span <= (_MAX_CASES if period is None else 2 * period):
        return all(_true_at(expression, symbol, size) for size in range(least, most + 1))
    if period is None or period > _MAX_CASES // 2:
        return False
    try:
        values = [int(difference.subs(symbol, least + index)) for index in range(2 * period)]
    except ZeroDivisionError:
        return False
    steps = {after - before for before, after in zip(values, values[period:], strict=False)}
    if len(steps) != 1:
        return False
    step = steps.pop()
    first = values[:period]
    lower = -math.inf if step < 0 else min(first)
    upper = math.inf if step > 0 else max(first)
    return _is_decided(expression, lower, upper) or (
        step == 0 and all(_true_at(expression, symbol, least + index) for index in range(period))
    )


def _true_at(expression: Any, symbol: Any, size: int) -> bool:
    try:
        return bool(expression.subs(symbol, size) == True)  # noqa: E712
    except ZeroDivisionError:  # a size by which something is divided
        return False


def _is_decided(expression: Any, lower: Any, upper: Any) -> bool:
    """Whether a relation holds when the difference of its sides is within these bounds."""
    import sympy

    kind = type(expression)
    if kind is sympy.Eq:
        return bool(lower == 0) and bool(upper == 0)
    if kind is sympy.Ne:
        return bool(lower > 0) or bool(upper < 0)
    tests = {
        sympy.Gt: lower > 0,
        sympy.Ge: lower >= 0,
        sympy.Lt: upper < 0,
        sympy.Le: upper <= 0,
    }
    return bool(tests.get(kind, False))


def _growth_period(expression: Any, symbol: Any) -> int | None:
    """After how many sizes an expression has grown by a constant, whatever the size: known for
    sums, multiples, and quotients and remainders by numbers."""
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
        rest = [part for part in expression.args if not part.is_Integer]
        return _growth_period(rest[0], symbol) if len(rest) == 1 else None
    if type(expression).__name__ in ("Mod", "PythonMod", "FloorDiv", "CleanDiv"):
        inner, divisor = expression.args
        period = _growth_period(inner, symbol)
        return None if period is None or not divisor.is_Integer else period * abs(int(divisor))
    return None


def _common_period(parts: Sequence[Any], symbol: Any) -> int | None:
    """The period of the largest, or smallest, of several expressions, which has one where all grow
    by the same amount."""
    periods = [_growth_period(part, symbol) for part in parts]
    if None in periods:
        return None
    common = math.lcm(*(period for period in periods if period))
    steps = {part.subs(symbol, 2 + common) - part.subs(symbol, 2) for part in parts}
    return common if len(steps) == 1 else None


def cases_of(
    conditions: Sequence[Sequence[Any]], ranges: Mapping[Any, Range]
) -> dict[Any, range] | None:
    """Choose sizes that represent all of them, by symbol: whether conditions hold at larger ones
    follows from those, as each side of a relation grows by a constant in a period. None where that
    is not known of a relation, where one relates two sizes, or where there are too many.
    """
    import sympy

    relations = {
        relation
        for cases_in in conditions
        for condition in cases_in
        for relation in condition.atoms(sympy.core.relational.Relational)
    }
    settled_by_symbol: dict[
        Any, tuple[int, int]
    ] = {}  # where every relation so far is settled; their period
    for relation in relations:
        difference = relation.lhs - relation.rhs
        free = list(difference.free_symbols)
        if len(free) != 1:
            return None
        symbol = free[0]
        least, _ = ranges.get(symbol, (2, None))
        period = _growth_period(difference, symbol)
        if period is None or period > _MAX_COMBINATIONS:
            return None
        values = [int(difference.subs(symbol, least + index)) for index in range(period + 1)]
        step = abs(values[period] - values[0])
        steps = max(map(abs, values)) // step + 2 if step else 0
        settled, common = settled_by_symbol.get(symbol, (least, 1))
        settled_by_symbol[symbol] = max(settled, least + steps * period), math.lcm(common, period)
    cases = {}
    for symbol, (settled, period) in settled_by_symbol.items():
        least, most = ranges.get(symbol, (2, None))
        end = settled + period
        cases[symbol] = range(least, end + 1 if most is None else min(end, most) + 1)
    fits = math.prod(len(cases_in) for cases_in in cases.values()) <= _MAX_COMBINATIONS
    return cases if fits else None


def uncovered_sizes(
    conditions: Sequence[Sequence[Any]], sizes: Mapping[Any, Sequence[int]]
) -> Iterator[dict[Any, int]]:
    """Yield the combinations of ``sizes`` at which none of ``conditions`` holds.

    Each condition is a list of relations that must all hold.
    """
    for combination in itertools.product(*sizes.values()):
        values = dict(zip(sizes, combination, strict=True))
        if not any(
            all(_condition_holds(condition, values) for condition in one) for one in conditions
        ):
            yield values


def _condition_holds(condition: Any, values: Mapping[Any, int]) -> bool:
    try:
        return bool(condition.subs(values) == True)  # noqa: E712  (sympy's)
    except ZeroDivisionError:  # a size by which something is divided
        return False
