"""Looking into dimensions: their symbols, their value for given symbols, replacement, terms and
factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ortable.errors import BuilderError

from .expression import ATOMS, OPAQUE, OPERATIONS, SYMBOL, Atom, Dim, SymDim, from_atom
from .float_recipes import computed


def prod(values: Iterable[Dim]) -> Dim:
    """Product of the dimensions, 1 when there are none."""
    result: Dim = 1
    for value in values:
        result = result * value
    return result


def same(a: Dim, b: Dim) -> bool:
    """True only if both are equal whatever the symbols are."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def is_symbol(dim: object) -> bool:
    """True for a bare symbol."""
    return (
        isinstance(dim, SymDim)
        and len(dim.terms) == 1
        and dim.terms[0][1] == 1
        and len(dim.terms[0][0]) == 1
        and ATOMS[dim.terms[0][0][0]].kind == SYMBOL
    )


def symbols(dim: Dim) -> frozenset[str]:
    """Names of the symbols that the dimension depends on."""
    if isinstance(dim, int):
        return frozenset()
    names: set[str] = set()
    for number in {n for monomial, _ in dim.terms for n in monomial}:
        atom = ATOMS[number]
        if atom.kind == SYMBOL:
            names.add(atom.name)
            continue
        for arg in atom.args:
            if arg is not None:
                names |= symbols(arg)
    return frozenset(names)


class Part(NamedTuple):
    """A factor of a polynomial: ``kind`` is symbol, floordiv, mod, max, min or opaque."""

    dim: SymDim
    kind: str
    args: tuple[Dim, ...]


def parts(dim: SymDim) -> list[tuple[int, tuple[Part, ...]]]:
    """The polynomial as a sum of products, (coefficient, factors), a positive one first if there
    is one."""
    made = [(c, tuple(_part(ATOMS[number]) for number in m)) for m, c in reversed(dim.terms)]
    return sorted(made, key=lambda term: term[0] < 0)


def _part(atom: Atom) -> Part:
    args = () if atom.kind in (SYMBOL, OPAQUE) else atom.args
    return Part(from_atom(atom), atom.kind, args)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """Value of the dimension when its symbols have these values.

    Raises BuilderError for a missing symbol, an opaque part, a division by zero or a float that is
    no int."""

    def value_of(atom: Atom) -> Dim:
        if atom.kind == OPAQUE:
            args = [evaluate(arg, values) for arg in atom.args[:-1]]
            try:
                found = computed(atom.name, args)
            except (ArithmeticError, ValueError) as error:  # x / 0, the ceil of inf or of NaN
                given = ", ".join(f"{name}={values[name]}" for name in sorted(symbols(dim)))
                text = f"{atom.name!r} in dimension {dim} has no value for {given}: {error}."
                raise BuilderError(text) from error
            if found is not None:
                return found
        if atom.kind != SYMBOL:
            raise BuilderError(f"{atom.name!r} in dimension {dim} has no known value.")
        if atom.name not in values:
            raise BuilderError(f"No value is given for {atom.name!r} in dimension {dim}.")
        return values[atom.name]

    result = map_atoms(dim, value_of)
    assert isinstance(result, int)
    return result


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """The dimension with some symbols replaced by other dimensions, which must respect the symbols'
    minimum: what was simplified because of it is not undone."""

    def value_of(atom: Atom) -> Dim:
        found = values.get(atom.name) if atom.kind == SYMBOL else None
        return found if found is not None else from_atom(atom)

    return map_atoms(dim, value_of)


def map_atoms(dim: Dim, value_of: Callable[[Atom], Dim]) -> Dim:
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for number in monomial:
            term = term * _map_atom(ATOMS[number], value_of)
        total = total + term
    return total


def _map_atom(atom: Atom, value_of: Callable[[Atom], Dim]) -> Dim:
    if atom.kind in (SYMBOL, OPAQUE):
        return value_of(atom)
    args = [map_atoms(arg, value_of) for arg in atom.args]
    return OPERATIONS[atom.kind](*args)
