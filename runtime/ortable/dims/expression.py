"""Interned polynomials with integer coefficients: their atoms, sums, products, bounds and proofs
of sign. Equal polynomials are one object. `ortable.dims` is the module to import."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, TypeAlias

from ortable.errors import BuilderError

Monomial: TypeAlias = "tuple[int, ...]"  # sorted atom numbers, repeated for powers; () is 1
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"

SYMBOL, FLOORDIV, MOD, MAX, MIN, OPAQUE = "symbol", "floordiv", "mod", "max", "min", "opaque"


class Atom:
    """What a polynomial is made of: a symbol, or an operation that is not polynomial."""

    __slots__ = ("args", "index", "kind", "lower", "name", "upper")

    def __init__(
        self, index: int, kind: str, name: str, args: tuple[Any, ...], bounds: Bounds
    ) -> None:
        self.index = index
        self.kind = kind
        self.name = name
        self.args = args
        self.lower, self.upper = bounds


Bounds: TypeAlias = "tuple[int | None, int | None]"


class SymDim:
    """A symbolic dimension. Never built directly: use `symbol` and arithmetic.

    ``==`` is identity, which equals equality of polynomials because they are interned. ``<``,
    ``<=``,
    ``>``, ``>=`` are True only when provable for every value of the symbols, so ``not a < b`` does
    not mean ``a >= b``. Symbols are at least their ``minimum`` (0 unless told)."""

    __slots__ = ("__weakref__", "_bounds", "_negated", "_text", "terms")

    terms: Terms
    _bounds: Bounds | None
    _negated: SymDim | None
    _text: str | None

    def __add__(self, other: Dim) -> Dim:
        found = _add_cache.get((self, other))
        return found if found is not None else cached(_add_cache, _add, self, other)

    def __mul__(self, other: Dim) -> Dim:
        found = _mul_cache.get((self, other))
        return found if found is not None else cached(_mul_cache, _mul, self, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> SymDim:
        if self._negated is None:
            self._negated = intern(tuple((m, -c) for m, c in self.terms))
        return self._negated

    def __pos__(self) -> SymDim:
        return self

    def __sub__(self, other: Dim) -> Dim:
        if isinstance(other, (int, SymDim)):
            return self + (-other)
        return NotImplemented

    def __rsub__(self, other: int) -> Dim:
        if isinstance(other, int):
            return -self + other
        return NotImplemented

    def __floordiv__(self, other: Dim) -> Dim:
        found = DIV_CACHE.get((self, other))
        if found is None:
            from .division import floordiv  # it needs this module

            found = floordiv(self, other)
        return found

    def __rfloordiv__(self, other: int) -> Dim:
        from .division import floordiv

        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        found = MOD_CACHE.get((self, other))
        if found is None:
            from .division import mod

            found = mod(self, other)
        return found

    def __rmod__(self, other: int) -> Dim:
        from .division import mod

        return mod(other, self)

    def __pow__(self, exponent: int) -> Dim:
        if not isinstance(exponent, int) or exponent < 0:
            raise BuilderError(f"({self})**{exponent}: a dimension has only powers >= 0.")
        result: Dim = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __le__(self, other: Dim) -> bool:
        return nonnegative(other - self)

    def __lt__(self, other: Dim) -> bool:
        return nonnegative(other - self - 1)

    def __ge__(self, other: Dim) -> bool:
        return nonnegative(self - other)

    def __gt__(self, other: Dim) -> bool:
        return nonnegative(self - other - 1)

    def __bool__(self) -> bool:
        if differs(self, 0):
            return True
        raise BuilderError(
            f"Whether dimension {self} is zero is not known; "
            "compare it (`dim == 1`, `dim > 0`) instead."
        )

    def __str__(self) -> str:
        if self._text is None:
            from .text import render

            self._text = render(self)
        return self._text

    def __repr__(self) -> str:
        return f"SymDim({self})"

    def __reduce__(self) -> tuple[Any, ...]:
        from .text import flatten, rebuild

        return (rebuild, (flatten(self),))

    def __deepcopy__(self, memo: object) -> SymDim:
        return self

    def __copy__(self) -> SymDim:
        return self


Dim: TypeAlias = int | SymDim
Shape: TypeAlias = tuple[Dim, ...]

_CACHE_LIMIT = 200_000
_lock = threading.Lock()
_interned: dict[Terms, SymDim] = {}
ATOMS: list[Atom] = []
_atom_numbers: dict[tuple[Any, ...], int] = {}
_add_cache: dict[tuple[Dim, Dim], Dim] = {}
_mul_cache: dict[tuple[Dim, Dim], Dim] = {}
DIV_CACHE: dict[tuple[Dim, Dim], Dim] = {}
MOD_CACHE: dict[tuple[Dim, Dim], Dim] = {}


def _unlock() -> None:
    """In a forked child, where a thread that had the lock does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def symbol(name: str, minimum: int | None = 0) -> SymDim:
    """The dimension called ``name``; it is known to be at least ``minimum`` (None: nothing known).

    The same name with another minimum is another dimension."""
    return from_atom(make_atom(SYMBOL, name, (minimum,), (minimum, None)))


def opaque(text: str, args: Iterable[Dim] = (), minimum: int | None = None) -> SymDim:
    """An integer of which only the text, the lower bound and the dimensions it depends on are
    known."""
    return from_atom(make_atom(OPAQUE, text, (*args, minimum), (minimum, None)))


def cached(
    cache: dict[tuple[Dim, Dim], Dim], compute: Callable[[Any, Any], Any], a: Any, b: Any
) -> Dim:
    if not isinstance(a, (int, SymDim)) or not isinstance(b, (int, SymDim)):
        return NotImplemented
    if len(cache) > _CACHE_LIMIT:
        cache.clear()  # only a cache: interned objects stay
    result = compute(a, b)
    cache[a, b] = result
    return result


def intern(terms: Terms) -> SymDim:
    found = _interned.get(terms)
    if found is not None:
        return found
    made = object.__new__(SymDim)
    made.terms = terms
    made._bounds = made._negated = made._text = None
    return _interned.setdefault(terms, made)


def from_dict(terms: dict[Monomial, int]) -> Dim:
    kept = sorted(item for item in terms.items() if item[1])
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return intern(tuple(kept))


def terms_of(dim: Dim) -> Terms:
    if isinstance(dim, int):
        return (((), int(dim)),) if dim else ()
    return dim.terms


def _add(a: Dim, b: Dim) -> Dim:
    total = dict(terms_of(a))
    for monomial, coefficient in terms_of(b):
        total[monomial] = total.get(monomial, 0) + coefficient
    return from_dict(total)


def _mul(a: Dim, b: Dim) -> Dim:
    total: dict[Monomial, int] = {}
    for left, c in terms_of(a):
        for right, d in terms_of(b):
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, 0) + c * d
    return from_dict(total)


def make_atom(kind: str, name: str, args: tuple[Any, ...], bounds: Bounds) -> Atom:
    key = (kind, name, args)
    number = _atom_numbers.get(key)
    if number is None:
        with _lock:
            number = _atom_numbers.get(key)
            if number is None:
                number = len(ATOMS)
                ATOMS.append(Atom(number, kind, name, args, bounds))
                _atom_numbers[key] = number
    return ATOMS[number]


def from_atom(atom: Atom) -> SymDim:
    return intern((((atom.index,), 1),))


def lone_atom(dim: Dim, kind: str) -> Atom | None:
    """The atom when the dimension is exactly one atom of this kind."""
    if isinstance(dim, SymDim) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and ATOMS[monomial[0]].kind == kind:
            return ATOMS[monomial[0]]
    return None


def split_constant(dim: Dim) -> tuple[Dim, int]:
    """(dimension without its constant term, constant term)"""
    if isinstance(dim, int):
        return 0, dim
    if dim.terms[0][0] == ():  # the empty monomial sorts first
        constant = dim.terms[0][1]
        return dim - constant, constant
    return dim, 0


# -- bounds and proofs


def bounds_of(dim: Dim) -> Bounds:
    """Interval that holds the dimension wherever it is defined; None is unbounded."""
    if isinstance(dim, int):
        return dim, dim
    if dim._bounds is None:
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in dim.terms:
            span = _scale(_monomial_bounds(monomial), coefficient)
            low = None if low is None or span[0] is None else low + span[0]
            high = None if high is None or span[1] is None else high + span[1]
        dim._bounds = (low, high)
    return dim._bounds


def _scale(span: Bounds, factor: int) -> Bounds:
    low = None if span[0] is None else span[0] * factor
    high = None if span[1] is None else span[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _monomial_bounds(monomial: Monomial) -> Bounds:
    low: int | None = 1
    high: int | None = 1
    for number in monomial:
        atom = ATOMS[number]
        low, high = _times((low, high), (atom.lower, atom.upper))
    if low is None and len(monomial) % 2 == 0 and monomial[::2] == monomial[1::2]:
        low = 0  # a square
    return low, high


def _times(a: Bounds, b: Bounds) -> Bounds:
    if None not in a and None not in b:
        corners = [x * y for x in a for y in b if x is not None and y is not None]
        return min(corners), max(corners)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        high = None if a[1] is None or b[1] is None else a[1] * b[1]
        return a[0] * b[0], high
    return None, None


def nonnegative(dim: Dim, depth: int = 3) -> bool:
    """True only if dim >= 0 for all values of its symbols."""
    if isinstance(dim, int):
        return dim >= 0
    low, high = bounds_of(dim)
    if low is not None and low >= 0:
        return True
    if depth == 0 or (high is not None and high < 0):
        return False
    if depth == 3 and _nonnegative_shifted(dim):
        return True
    for monomial, coefficient in dim.terms:
        if len(monomial) == 1 and ATOMS[monomial[0]].kind in _RELAXED:
            rest = dim - from_dict({monomial: coefficient})
            if _relax(ATOMS[monomial[0]], coefficient, rest, depth - 1):
                return True
    return False


_RELAXED = frozenset({FLOORDIV, MAX, MIN})


def _relax(atom: Atom, factor: int, rest: Dim, depth: int) -> bool:
    """Proves factor*atom + rest >= 0 with the atom replaced by its own arguments."""
    if atom.kind == FLOORDIV:
        a, b = atom.args
        if not isinstance(b, int):
            return False
        # b*(a//b) lies between a - b + 1 and a
        return nonnegative(factor * (a - b + 1 if factor > 0 else a) + b * rest, depth)
    proofs = (nonnegative(factor * arg + rest, depth) for arg in atom.args)
    return any(proofs) if (atom.kind == MAX) == (factor > 0) else all(proofs)


def _nonnegative_shifted(dim: SymDim) -> bool:
    """Writes each bounded atom as bound + something >= 0 and looks at the signs that result."""
    shifted: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms:
        parts: dict[Monomial, int] = {(): coefficient}
        for number in monomial:
            bound = ATOMS[number].lower
            if bound is None:
                return False
            grown: dict[Monomial, int] = {}
            for m, c in parts.items():
                longer = (*m, number)
                grown[longer] = grown.get(longer, 0) + c
                if bound:
                    grown[m] = grown.get(m, 0) + c * bound
            parts = grown
        for m, c in parts.items():
            shifted[m] = shifted.get(m, 0) + c
    return all(c >= 0 for c in shifted.values())


def differs(a: Dim, b: Dim) -> bool:
    """True only if a and b are different whatever the symbols are."""
    difference = a - b
    if isinstance(difference, int):
        return difference != 0
    step, constant = 0, 0
    for monomial, coefficient in difference.terms:
        if monomial:
            step = gcd(step, coefficient)
        else:
            constant = coefficient
    return bool(constant % step) or nonnegative(difference - 1) or nonnegative(-difference - 1)
