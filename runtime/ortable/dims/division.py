"""What is not polynomial: floor division, remainder, maximum and minimum of dimensions.
Each is simplified where that is sound for every value, else it becomes an opaque atom."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ortable.errors import BuilderError

from .expression import (
    DIV_CACHE,
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    MOD_CACHE,
    Bounds,
    Dim,
    Monomial,
    SymDim,
    bounds_of,
    cached,
    differs,
    from_atom,
    from_dict,
    lone_atom,
    make_atom,
    nonnegative,
    split_constant,
    terms_of,
)


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded towards minus infinity as Python does. BuilderError when b is 0."""
    found = DIV_CACHE.get((a, b))
    return found if found is not None else cached(DIV_CACHE, _floordiv, a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up."""
    if isinstance(b, int):
        return floordiv(a + (b - 1), b) if b > 0 else -floordiv(a, -b)
    return -floordiv(-a, b)


def mod(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of b, as in Python. BuilderError when b is 0."""
    found = MOD_CACHE.get((a, b))
    return found if found is not None else cached(MOD_CACHE, _mod, a, b)


def maximum(*values: Dim) -> Dim:
    """The largest of the values; those provably not larger than another are left out."""
    return _extremum(MAX, values)


def minimum(*values: Dim) -> Dim:
    """The smallest of the values; those provably not smaller than another are left out."""
    return _extremum(MIN, values)


def _floordiv(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        if b == 0:
            raise BuilderError(f"({a})//0: division of a dimension by zero.")
        if isinstance(a, int):
            return a // b
        return _floordiv_int(a, b) if b > 0 else _floordiv_int(-a, -b)
    if nonnegative(a) and nonnegative(b - a - 1):
        return 0
    quotient = _exact_quotient(a, b)
    if quotient is not None and differs(b, 0):
        return quotient
    return from_atom(make_atom(FLOORDIV, "", (a, b), _floordiv_bounds(a, b)))


def _floordiv_int(a: SymDim, b: int) -> Dim:
    """a // b for b > 0: multiples of b leave the division, common factors cancel."""
    whole = {m: c // b for m, c in a.terms if c % b == 0}
    rest, constant = split_constant(from_dict({m: c for m, c in a.terms if c % b}))
    whole[()] = whole.get((), 0) + constant // b
    quotient, constant = from_dict(whole), constant % b
    if isinstance(rest, int):
        return quotient
    common = b
    for _, coefficient in rest.terms:
        common = gcd(common, coefficient)
    rest = from_dict({m: c // common for m, c in rest.terms})
    b, constant = b // common, constant // common
    if b == 1:
        return quotient + rest + constant
    assert isinstance(rest, SymDim)
    if rest.terms[0][1] < 0:
        # (-x)//b is -((x + b - 1)//b): one form for both ways of writing a rounding up
        return quotient - _floordiv_int_canonical(-rest + (b - 1 - constant), b)
    return quotient + _floordiv_int_canonical(rest + constant, b)


def _floordiv_int_canonical(a: Dim, b: int) -> Dim:
    shifted, constant = split_constant(a)
    if constant >= b or constant < 0:
        return floordiv(a, b)
    if nonnegative(a) and nonnegative(b - 1 - a):
        return 0
    inner = lone_atom(shifted, FLOORDIV)
    if inner is not None and isinstance(inner.args[1], int):
        # (x//i + c)//b is (x + i*c)//(i*b): true for floors and positive ints
        return floordiv(inner.args[0] + inner.args[1] * constant, inner.args[1] * b)
    return from_atom(make_atom(FLOORDIV, "", (a, b), _floordiv_bounds(a, b)))


def _exact_quotient(a: Dim, b: SymDim) -> Dim | None:
    """q with a == q*b as polynomials, or None."""
    lead_monomial, lead_coefficient = b.terms[-1]
    quotient: Dim = 0
    for _ in range(32):
        if isinstance(a, int):
            return quotient if a == 0 else None
        monomial, coefficient = a.terms[-1]
        rest = _divide_monomial(monomial, lead_monomial)
        if rest is None or coefficient % lead_coefficient:
            return None
        part = from_dict({rest: coefficient // lead_coefficient})
        quotient = quotient + part
        a = a - part * b
    return None


def _divide_monomial(a: Monomial, b: Monomial) -> Monomial | None:
    rest = list(a)
    for number in b:
        if number not in rest:
            return None
        rest.remove(number)
    return tuple(rest)


def _mod(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        if b == 0:
            raise BuilderError(f"({a})%0: division of a dimension by zero.")
        if isinstance(a, int):
            return a % b
        if b < 0:
            return -mod(-a, -b)
        a = from_dict({m: c % b for m, c in a.terms})
        if isinstance(a, int):
            return a
        common = b
        for _, coefficient in a.terms:
            common = gcd(common, coefficient)
        if common > 1:
            return common * mod(from_dict({m: c // common for m, c in a.terms}), b // common)
        inner = lone_atom(a, MOD)
        if inner is not None and isinstance(inner.args[1], int) and inner.args[1] % b == 0:
            return mod(inner.args[0], b)
    elif differs(b, 0) and _exact_quotient(a, b) is not None:
        return 0
    if nonnegative(a) and nonnegative(b - a - 1):
        return a
    return from_atom(make_atom(MOD, "", (a, b), _mod_bounds(a, b)))


def _extremum(kind: str, values: tuple[Dim, ...]) -> Dim:
    flat: list[Dim] = []
    for value in values:
        atom = lone_atom(value, kind)
        flat.extend(atom.args if atom is not None else (value,))
    kept: list[Dim] = []
    for value in flat:
        if any(_dominates(kind, other, value) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(kind, value, other)]
        kept.append(value)
    if not kept:
        raise BuilderError(f"{kind}() of no dimension.")
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=terms_of)
    bounds = [bounds_of(value) for value in kept]
    lowers, uppers = [low for low, _ in bounds], [high for _, high in bounds]
    if kind == MAX:
        known = (_some(max, lowers), _all(max, uppers))
    else:
        known = (_all(min, lowers), _some(min, uppers))
    return from_atom(make_atom(kind, "", tuple(kept), known))


def _dominates(kind: str, a: Dim, b: Dim) -> bool:
    return nonnegative(a - b) if kind == MAX else nonnegative(b - a)


def _some(choose: Callable[..., int], values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _all(choose: Callable[..., int], values: list[int | None]) -> int | None:
    return None if None in values else _some(choose, values)


def _floordiv_bounds(a: Dim, b: Dim) -> Bounds:
    low, high = bounds_of(a)
    if isinstance(b, int):  # positive here
        return (None if low is None else low // b), (None if high is None else high // b)
    divisor = bounds_of(b)[0]
    if low is not None and low >= 0 and divisor is not None and divisor >= 0:
        return 0, (None if high is None else high // max(divisor, 1))
    return None, None


def _mod_bounds(a: Dim, b: Dim) -> Bounds:
    divisor_low, divisor_high = bounds_of(b)
    if divisor_low is None or divisor_low < 0:
        return None, None
    low, high = bounds_of(a)
    limits = [None if divisor_high is None else divisor_high - 1]
    if low is not None and low >= 0:
        limits.append(high)
    return 0, _some(min, limits)


OPERATIONS: dict[str, Callable[..., Dim]] = {
    FLOORDIV: floordiv,
    MOD: mod,
    MAX: maximum,
    MIN: minimum,
}
