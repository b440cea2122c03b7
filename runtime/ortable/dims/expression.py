"""Algebra of dimensions: interned polynomials with integer coefficients over atoms.

Atoms are symbols, floor divisions, remainders, maxima, minima and opaque integers; the polynomial
``2*n + n//3`` has the atoms ``n`` and ``n//3``. Equal polynomials are the same object. Import
`ortable.dims`, not this module.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, TypeAlias

from ortable.errors import BuilderError

Monomial: TypeAlias = "tuple[int, ...]"  # sorted indices of atoms, repeated for powers; () is 1
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"  # sorted (monomial, coefficient), none is 0

SYMBOL, FLOORDIV, MOD, MAX, MIN, OPAQUE = "symbol", "floordiv", "mod", "max", "min", "opaque"

# How to compute an opaque atom from its arguments: an int is the index of an argument, a float is
# a constant, a tuple is an operator and its inputs. See `float_recipes`.
Recipe = int | float | tuple[Any, ...]
# The key is the text of the atom, in which floats have all digits; recipes are pickled with atoms.
RECIPES: dict[str, Recipe] = {}


class Atom:
    """A factor of a monomial: a symbol, or an operation that is not polynomial.

    ``index`` is the position in ATOMS, ``lower`` and ``upper`` are bounds (None: unbounded). Only
    symbols and opaque atoms have a ``name``. ``args`` are the operands; for an opaque atom they are
    followed by its minimum, and a symbol has only its minimum.
    """

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
    """A symbolic dimension. Make it with `make_symbol` and arithmetic, not with the constructor.

    ``==`` is identity, which equals equality of polynomials because they are interned. A dimension
    also equals its text and has the same hash, so that a shape can be compared with names (``("a",
    3)``) and a dict keyed by names can be indexed with dimensions. Symbols with the same name and
    different minima all equal that name, but not each other; no dict has both as keys.
    ``<``, ``<=``, ``>`` and ``>=`` are True only if provable for every value of the symbols, so
    ``not a < b`` does not mean ``a >= b``. Symbols are at least their ``minimum`` (default 0).
    """

    __slots__ = ("__weakref__", "_bounds", "_hash", "_negated", "_text", "terms")

    terms: Terms
    _bounds: Bounds | None
    _hash: int | None
    _negated: SymDim | None
    _text: str | None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is SymDim:
            return False
        if isinstance(other, str):
            return str(self) == other
        return NotImplemented

    def __hash__(self) -> int:
        value = self._hash
        if value is None:
            value = self._hash = hash(str(self))
        return value

    def __add__(self, other: Dim) -> Dim:
        key = (id(self), id(other)) if type(other) is SymDim else (id(self), other, None)
        result = _add_cache.get(key)  # `_cache_key(self, other)`, inlined because it is faster
        return result if result is not None else compute_cached(_add_cache, _add_dims, self, other)

    def __mul__(self, other: Dim) -> Dim:
        key = (id(self), id(other)) if type(other) is SymDim else (id(self), other, None)
        result = _mul_cache.get(key)
        return (
            result
            if result is not None
            else compute_cached(_mul_cache, _multiply_dims, self, other)
        )

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> SymDim:
        if self._negated is None:
            self._negated = intern_terms(tuple((m, -c) for m, c in self.terms))
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
        return floor_div(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floor_div(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return floor_mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return floor_mod(other, self)

    def __pow__(self, exponent: int) -> Dim:
        if not isinstance(exponent, int) or exponent < 0:
            raise BuilderError(f"({self})**{exponent}: the exponent must be an integer >= 0.")
        result: Dim = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __le__(self, other: Dim) -> bool:
        return is_nonnegative(other - self)

    def __lt__(self, other: Dim) -> bool:
        return is_nonnegative(other - self - 1)

    def __ge__(self, other: Dim) -> bool:
        return is_nonnegative(self - other)

    def __gt__(self, other: Dim) -> bool:
        return is_nonnegative(self - other - 1)

    def __bool__(self) -> bool:
        if always_differ(self, 0):
            return True
        raise BuilderError(
            f"Whether dimension {self} is zero is not known; "
            "compare it (`dim == 1`, `dim > 0`) instead."
        )

    def __str__(self) -> str:
        if self._text is None:
            self._text = format_dim(self)
        return self._text

    def __repr__(self) -> str:
        return f"SymDim({self})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_picklable, (to_picklable(self),))

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
_CacheKey: TypeAlias = "tuple[Any, ...]"
_add_cache: dict[_CacheKey, Dim] = {}
_mul_cache: dict[_CacheKey, Dim] = {}
_div_cache: dict[_CacheKey, Dim] = {}
_mod_cache: dict[_CacheKey, Dim] = {}


# In a forked child, the thread that holds the lock does not exist.
def _reset_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def make_symbol(name: str, minimum: int | None = 0) -> SymDim:
    """Return the dimension with this name and minimum; a minimum of None is unbounded."""
    return from_atom(make_atom(SYMBOL, name, (minimum,), (minimum, None)))


def make_opaque(text: str, args: Iterable[Dim] = (), minimum: int | None = None) -> SymDim:
    """Return the dimension of an integer whose function is known only by its text.

    ``args`` are the dimensions that it depends on; a ``minimum`` of None is unbounded.
    """
    return from_atom(make_atom(OPAQUE, text, (*args, minimum), (minimum, None)))


def _cache_key(a: Any, b: Any) -> _CacheKey:
    """Return the cache key of two operands.

    The key has dimensions by identity, which is valid because they are interned, and ints by value.
    Its length states which operands are ints, so that no value is taken for an identity.
    """
    if type(a) is SymDim:
        return (id(a), id(b)) if type(b) is SymDim else (id(a), b, None)
    return (a, id(b), None, None) if type(b) is SymDim else (a, b, None, None, None)


def compute_cached(
    cache: dict[_CacheKey, Dim], compute: Callable[[Any, Any], Any], a: Any, b: Any
) -> Dim:
    """Compute an operation on two dimensions and store the result in ``cache``.

    Returns NotImplemented for operands that are not dimensions, as operators of Python must.
    """
    if not isinstance(a, (int, SymDim)) or not isinstance(b, (int, SymDim)):
        return NotImplemented
    if len(cache) > _CACHE_LIMIT:
        cache.clear()  # interned dimensions are not affected
    result = compute(a, b)
    cache[_cache_key(a, b)] = result
    return result


def intern_terms(terms: Terms) -> SymDim:
    """Return the dimension with these sorted terms; equal terms give the same object."""
    existing = _interned.get(terms)
    if existing is not None:
        return existing
    dim = object.__new__(SymDim)
    dim.terms = terms
    dim._bounds = dim._hash = dim._negated = dim._text = None
    return _interned.setdefault(terms, dim)


def from_dict(terms: dict[Monomial, int]) -> Dim:
    """Return the dimension with these coefficients by monomial, an int if it is constant."""
    nonzero = sorted(item for item in terms.items() if item[1])
    if not nonzero:
        return 0
    if len(nonzero) == 1 and not nonzero[0][0]:
        return nonzero[0][1]
    return intern_terms(tuple(nonzero))


def terms_of(dim: Dim) -> Terms:
    """Return the terms of a dimension or an int."""
    if isinstance(dim, int):
        return (((), int(dim)),) if dim else ()
    return dim.terms


def _add_dims(a: Dim, b: Dim) -> Dim:
    total = dict(terms_of(a))
    for monomial, coefficient in terms_of(b):
        total[monomial] = total.get(monomial, 0) + coefficient
    return from_dict(total)


def _multiply_dims(a: Dim, b: Dim) -> Dim:
    total: dict[Monomial, int] = {}
    for left, left_factor in terms_of(a):
        for right, right_factor in terms_of(b):
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, 0) + left_factor * right_factor
    return from_dict(total)


def make_atom(kind: str, name: str, args: tuple[Any, ...], bounds: Bounds) -> Atom:
    """Return the atom of this kind, name and arguments, of which there is one object only."""
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
    """Return the dimension that is this atom."""
    return intern_terms((((atom.index,), 1),))


def single_atom(dim: Dim, kind: str) -> Atom | None:
    """Return the atom if the dimension is exactly one atom of this kind, else None."""
    if isinstance(dim, SymDim) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and ATOMS[monomial[0]].kind == kind:
            return ATOMS[monomial[0]]
    return None


def split_constant(dim: Dim) -> tuple[Dim, int]:
    """Split a dimension into the dimension without its constant term, and this term."""
    if isinstance(dim, int):
        return 0, dim
    if dim.terms[0][0] == ():  # the empty monomial sorts first
        constant = dim.terms[0][1]
        return dim - constant, constant
    return dim, 0


# -- bounds and proofs


def bounds_of(dim: Dim) -> Bounds:
    """Return (lower, upper) bounds of the dimension where it is defined; None is unbounded."""
    if isinstance(dim, int):
        return dim, dim
    if dim._bounds is None:
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in dim.terms:
            span = _scale_bounds(_monomial_bounds(monomial), coefficient)
            low = None if low is None or span[0] is None else low + span[0]
            high = None if high is None or span[1] is None else high + span[1]
        dim._bounds = (low, high)
    return dim._bounds


def _scale_bounds(span: Bounds, factor: int) -> Bounds:
    low = None if span[0] is None else span[0] * factor
    high = None if span[1] is None else span[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _monomial_bounds(monomial: Monomial) -> Bounds:
    low: int | None = 1
    high: int | None = 1
    for number in monomial:
        atom = ATOMS[number]
        low, high = _multiply_bounds((low, high), (atom.lower, atom.upper))
    if low is None and len(monomial) % 2 == 0 and monomial[::2] == monomial[1::2]:
        low = 0  # a square, such as (n, n, m, m)
    return low, high


def _multiply_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return bounds of a product; unbounded unless both are finite or both are nonnegative."""
    if None not in a and None not in b:
        corners = [x * y for x in a for y in b if x is not None and y is not None]
        return min(corners), max(corners)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        high = None if a[1] is None or b[1] is None else a[1] * b[1]
        return a[0] * b[0], high
    return None, None


def is_nonnegative(dim: Dim, depth: int = 3) -> bool:
    """Whether dim >= 0 is provable for all values of its symbols.

    ``depth`` limits how many atoms a proof bounds by their arguments, one after the other.
    """
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
            other_terms = dim - from_dict({monomial: coefficient})
            if _prove_relaxed(ATOMS[monomial[0]], coefficient, other_terms, depth - 1):
                return True
    return False


# Kinds of atoms that `_prove_relaxed` bounds.
_RELAXED = frozenset({FLOORDIV, MAX, MIN})


def _prove_relaxed(atom: Atom, factor: int, other_terms: Dim, depth: int) -> bool:
    """Prove factor*atom + other_terms >= 0 by bounding the atom with its arguments."""
    if atom.kind == FLOORDIV:
        a, b = atom.args
        if not isinstance(b, int):
            return False
        # multiplied by b > 0, because b*(a//b) lies between a - b + 1 and a
        return is_nonnegative(factor * (a - b + 1 if factor > 0 else a) + b * other_terms, depth)
    proofs = (is_nonnegative(factor * arg + other_terms, depth) for arg in atom.args)
    return any(proofs) if (atom.kind == MAX) == (factor > 0) else all(proofs)


def _nonnegative_shifted(dim: SymDim) -> bool:
    """Whether all coefficients are >= 0 if each atom is its lower bound plus a new variable >= 0.

    For m >= 1, ``n*m - n`` is ``n*(1 + m') - n``, that is ``n*m'``.
    """
    shifted: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms:
        expansion: dict[Monomial, int] = {(): coefficient}
        for number in monomial:
            bound = ATOMS[number].lower
            if bound is None:
                return False
            expanded: dict[Monomial, int] = {}
            for factors, factor in expansion.items():
                longer = (*factors, number)
                expanded[longer] = expanded.get(longer, 0) + factor
                if bound:
                    expanded[factors] = expanded.get(factors, 0) + factor * bound
            expansion = expanded
        for factors, factor in expansion.items():
            shifted[factors] = shifted.get(factors, 0) + factor
    return all(factor >= 0 for factor in shifted.values())


def always_differ(a: Dim, b: Dim) -> bool:
    """Whether a and b provably differ for all values of the symbols."""
    difference = a - b
    if isinstance(difference, int):
        return difference != 0
    step, constant = 0, 0  # the other terms are multiples of step: 2*n + 4*m + 1 is never 0
    for monomial, coefficient in difference.terms:
        if monomial:
            step = gcd(step, coefficient)
        else:
            constant = coefficient
    return (
        bool(constant % step) or is_nonnegative(difference - 1) or is_nonnegative(-difference - 1)
    )


def floor_div(a: Dim, b: Dim) -> Dim:
    """Return ``a // b``, rounded towards minus infinity as in Python.

    Raises:
        BuilderError: b is 0.
    """
    result = _div_cache.get(_cache_key(a, b))
    return result if result is not None else compute_cached(_div_cache, _compute_floor_div, a, b)


def ceil_div(a: Dim, b: Dim) -> Dim:
    """Return ``a / b`` rounded up.

    Raises:
        BuilderError: b is 0.
    """
    if isinstance(b, int):
        return floor_div(a + (b - 1), b) if b > 0 else -floor_div(a, -b)
    return -floor_div(-a, b)


def floor_mod(a: Dim, b: Dim) -> Dim:
    """Return ``a % b`` with the sign of b, as in Python.

    Raises:
        BuilderError: b is 0.
    """
    result = _mod_cache.get(_cache_key(a, b))
    return result if result is not None else compute_cached(_mod_cache, _compute_floor_mod, a, b)


def max_of(*values: Dim) -> Dim:
    """Return the maximum; values that are provably at most another value are left out."""
    return _compute_extremum(MAX, values)


def min_of(*values: Dim) -> Dim:
    """Return the minimum; values that are provably at least another value are left out."""
    return _compute_extremum(MIN, values)


def _compute_floor_div(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        if b == 0:
            raise BuilderError(f"({a})//0: division of a dimension by zero.")
        if isinstance(a, int):
            return a // b
        return _floor_div_int(a, b) if b > 0 else _floor_div_int(-a, -b)
    if is_nonnegative(a) and is_nonnegative(b - a - 1):
        return 0
    quotient = _exact_quotient(a, b)
    if quotient is not None and always_differ(b, 0):
        return quotient
    return from_atom(make_atom(FLOORDIV, "", (a, b), _floor_div_bounds(a, b)))


def _floor_div_int(a: SymDim, b: int) -> Dim:
    """Divide by b > 0: move multiples of b out of the division, and cancel common factors.

    For example, ``(4*n + 2*m + 5)//4`` is ``n + 1 + m//2``.
    """
    multiples = {monomial: c // b for monomial, c in a.terms if c % b == 0}
    remainder, constant = split_constant(
        from_dict({monomial: c for monomial, c in a.terms if c % b})
    )
    multiples[()] = multiples.get((), 0) + constant // b
    quotient, constant = from_dict(multiples), constant % b
    if isinstance(remainder, int):
        return quotient
    common = b
    for _, coefficient in remainder.terms:
        common = gcd(common, coefficient)
    remainder = from_dict({monomial: c // common for monomial, c in remainder.terms})
    b, constant = b // common, constant // common
    if b == 1:
        return quotient + remainder + constant
    assert isinstance(remainder, SymDim)
    if remainder.terms[0][1] < 0:
        # (-x)//b is -((x + b - 1)//b), so both ways to write a division rounded up are equal
        return quotient - _floor_div_canonical(-remainder + (b - 1 - constant), b)
    return quotient + _floor_div_canonical(remainder + constant, b)


def _floor_div_canonical(a: Dim, b: int) -> Dim:
    """Divide by b > 1, after `_floor_div_int` has simplified the division."""
    shifted, constant = split_constant(a)
    if constant >= b or constant < 0:
        return floor_div(a, b)
    if is_nonnegative(a) and is_nonnegative(b - 1 - a):
        return 0
    inner = single_atom(shifted, FLOORDIV)
    if inner is not None and isinstance(inner.args[1], int):
        # (x//i + c)//b is (x + i*c)//(i*b) for positive ints i and b
        return floor_div(inner.args[0] + inner.args[1] * constant, inner.args[1] * b)
    return from_atom(make_atom(FLOORDIV, "", (a, b), _floor_div_bounds(a, b)))


def _exact_quotient(a: Dim, b: SymDim) -> Dim | None:
    """Return q with a == q*b as polynomials, or None if there is none or it is not found."""
    lead_monomial, lead_coefficient = b.terms[-1]
    quotient: Dim = 0
    for _ in range(32):  # limited, because dividing y by x*y + y, whose last term is y, never ends
        if isinstance(a, int):
            return quotient if a == 0 else None
        monomial, coefficient = a.terms[-1]
        quotient_monomial = _divide_monomial(monomial, lead_monomial)
        if quotient_monomial is None or coefficient % lead_coefficient:
            return None
        term = from_dict({quotient_monomial: coefficient // lead_coefficient})
        quotient = quotient + term
        a = a - term * b
    return None


def _divide_monomial(a: Monomial, b: Monomial) -> Monomial | None:
    quotient = list(a)
    for number in b:
        if number not in quotient:
            return None
        quotient.remove(number)
    return tuple(quotient)


def _compute_floor_mod(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        if b == 0:
            raise BuilderError(f"({a})%0: division of a dimension by zero.")
        if isinstance(a, int):
            return a % b
        if b < 0:
            return -floor_mod(-a, -b)
        a = from_dict({m: c % b for m, c in a.terms})
        if isinstance(a, int):
            return a
        common = b
        for _, coefficient in a.terms:
            common = gcd(common, coefficient)
        if common > 1:
            return common * floor_mod(from_dict({m: c // common for m, c in a.terms}), b // common)
        inner = single_atom(a, MOD)
        if inner is not None and isinstance(inner.args[1], int) and inner.args[1] % b == 0:
            return floor_mod(inner.args[0], b)
    elif always_differ(b, 0) and _exact_quotient(a, b) is not None:
        return 0
    if is_nonnegative(a) and is_nonnegative(b - a - 1):
        return a
    return from_atom(make_atom(MOD, "", (a, b), _mod_bounds(a, b)))


def _compute_extremum(kind: str, values: tuple[Dim, ...]) -> Dim:
    flat: list[Dim] = []
    for value in values:
        atom = single_atom(value, kind)
        flat.extend(atom.args if atom is not None else (value,))
    candidates: list[Dim] = []
    for value in flat:
        if any(_is_more_extreme(kind, other, value) for other in candidates):
            continue
        candidates = [other for other in candidates if not _is_more_extreme(kind, value, other)]
        candidates.append(value)
    if not candidates:
        raise BuilderError(f"{kind}() needs at least one dimension.")
    if len(candidates) == 1:
        return candidates[0]
    candidates.sort(key=terms_of)
    bounds = [bounds_of(value) for value in candidates]
    lowers, uppers = [low for low, _ in bounds], [high for _, high in bounds]
    if kind == MAX:
        interval = (_reduce_known(max, lowers), _reduce_all(max, uppers))
    else:
        interval = (_reduce_all(min, lowers), _reduce_known(min, uppers))
    return from_atom(make_atom(kind, "", tuple(candidates), interval))


def _is_more_extreme(kind: str, a: Dim, b: Dim) -> bool:
    """Whether the maximum or minimum of a and b is provably a."""
    return is_nonnegative(a - b) if kind == MAX else is_nonnegative(b - a)


def _reduce_known(choose: Callable[..., int], values: list[int | None]) -> int | None:
    finite = [value for value in values if value is not None]
    return choose(finite) if finite else None


def _reduce_all(choose: Callable[..., int], values: list[int | None]) -> int | None:
    return None if None in values else _reduce_known(choose, values)


def _floor_div_bounds(a: Dim, b: Dim) -> Bounds:
    low, high = bounds_of(a)
    if isinstance(b, int):  # positive here
        return (None if low is None else low // b), (None if high is None else high // b)
    divisor_low = bounds_of(b)[0]
    if low is not None and low >= 0 and divisor_low is not None and divisor_low >= 0:
        return 0, (None if high is None else high // max(divisor_low, 1))
    return None, None


def _mod_bounds(a: Dim, b: Dim) -> Bounds:
    divisor_low, divisor_high = bounds_of(b)
    if divisor_low is None or divisor_low < 0:
        return None, None
    low, high = bounds_of(a)
    limits = [None if divisor_high is None else divisor_high - 1]
    if low is not None and low >= 0:
        limits.append(high)
    return 0, _reduce_known(min, limits)


OPERATIONS: dict[str, Callable[..., Dim]] = {
    FLOORDIV: floor_div,
    MOD: floor_mod,
    MAX: max_of,
    MIN: min_of,
}


def _atom_text(atom: Atom, in_product: bool) -> str:
    if atom.kind == SYMBOL and in_product and not atom.name.isidentifier():
        return f"({atom.name})"  # a user's name may be an expression, such as a sum
    if atom.kind in (SYMBOL, OPAQUE):
        return atom.name
    if atom.kind in (MAX, MIN):
        return f"{atom.kind}({', '.join(sorted(map(str, atom.args)))})"
    sign = "//" if atom.kind == FLOORDIV else "%"
    text = sign.join(_operand_text(arg) for arg in atom.args)
    return f"({text})" if in_product else text


def _operand_text(dim: Dim) -> str:
    needs_no_parentheses = isinstance(dim, int) and dim >= 0
    if not needs_no_parentheses and (single_atom(dim, MAX) or single_atom(dim, MIN)):
        needs_no_parentheses = True
    symbol = None if needs_no_parentheses else single_atom(dim, SYMBOL)
    if symbol is not None:
        needs_no_parentheses = symbol.name.isidentifier()
    return str(dim) if needs_no_parentheses else f"({dim})"


def format_dim(dim: SymDim) -> str:
    """Return a text such as ``n**2 - n + 1``, or ``3 - n``, which starts with the positive term."""
    parts: list[tuple[bool, int, str, bool]] = []  # negative, -degree, text without sign, negative
    for monomial, coefficient in dim.terms:
        size = abs(coefficient)
        parenthesize = len(monomial) > 1 or (size != 1 and bool(monomial)) or coefficient < 0
        texts = []
        for number in sorted(set(monomial), key=lambda n: _atom_text(ATOMS[n], True)):
            power = monomial.count(number)
            text = _atom_text(ATOMS[number], parenthesize)
            texts.append(f"{text}**{power}" if power > 1 else text)
        if size != 1 or not monomial:
            texts.insert(0, str(size))
        parts.append((coefficient < 0, -len(monomial), "*".join(texts), coefficient < 0))
    parts.sort(key=lambda part: (part[1], part[2]))
    if parts[0][0]:  # start with a positive term if there is one
        parts.sort(key=lambda part: part[0])
    text = ("-" if parts[0][0] else "") + parts[0][2]
    for negative, _, part, _ in parts[1:]:
        text += (" - " if negative else " + ") + part
    return text


def to_picklable(dim: Dim) -> Any:
    """Return the dimension as nested lists and tuples, with (kind, name, args) for an atom."""
    if isinstance(dim, int):
        return dim
    return [(c, [_atom_to_picklable(ATOMS[n]) for n in m]) for m, c in dim.terms]


def _atom_to_picklable(atom: Atom) -> tuple[Any, ...]:
    args = [arg if arg is None else to_picklable(arg) for arg in atom.args]
    if atom.kind == OPAQUE and atom.name in RECIPES:
        return atom.kind, atom.name, args, RECIPES[atom.name]
    return atom.kind, atom.name, args


def from_picklable(flat: Any) -> Any:
    """Return the dimension that `to_picklable` was called with; None, a minimum, stays None."""
    if flat is None or isinstance(flat, int):
        return flat
    total: Dim = 0
    for coefficient, factors in flat:
        term: Dim = coefficient
        for kind, name, args, *recipe in factors:
            values = [from_picklable(arg) for arg in args]
            if recipe:
                RECIPES[name] = _as_tuples(recipe[0])
            if kind == SYMBOL:
                term = term * make_symbol(name, values[0])
            elif kind == OPAQUE:
                term = term * make_opaque(name, values[:-1], values[-1])
            else:
                term = term * OPERATIONS[kind](*values)
        total = total + term
    return total


# A recipe that was stored as JSON has lists instead of tuples.
def _as_tuples(recipe: Any) -> Recipe:
    if isinstance(recipe, (int, float)):
        return recipe
    operator, *inputs = recipe
    return (str(operator), *map(_as_tuples, inputs))
