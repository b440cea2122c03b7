"""Inspect dimensions: their symbols, values, substitutions, terms and factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ortable.errors import BuilderError

from .expression import ATOMS, OPAQUE, OPERATIONS, SYMBOL, Atom, Dim, SymDim, from_atom
from .float_recipes import compute_opaque


def product_of(values: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; 1 if there are none."""
    result: Dim = 1
    for value in values:
        result = result * value
    return result


def always_equal(a: Dim, b: Dim) -> bool:
    """Whether both are the same int or polynomial, so that they are equal for all values."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def is_symbol(dim: object) -> bool:
    """Whether a dimension is a single symbol."""
    return (
        isinstance(dim, SymDim)
        and len(dim.terms) == 1
        and dim.terms[0][1] == 1
        and len(dim.terms[0][0]) == 1
        and ATOMS[dim.terms[0][0][0]].kind == SYMBOL
    )


def free_symbols(dim: Dim) -> frozenset[str]:
    """Return the names of the symbols of a dimension, also those in arguments of its atoms."""
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
                names |= free_symbols(arg)
    return frozenset(names)


class Factor(NamedTuple):
    """A factor of a term, which is one atom: ``n``, or ``n // 2``, with the ``args`` n and 2.

    ``kind`` is symbol, floordiv, mod, max, min or opaque; a symbol or opaque integer has no
    ``args``. ``dim`` is the factor as a dimension.
    """

    dim: SymDim
    kind: str
    args: tuple[Dim, ...]


def split_terms(dim: SymDim) -> list[tuple[int, tuple[Factor, ...]]]:
    """Split the polynomial into terms (coefficient, factors), those with a positive one first.

    For example, ``3 - 2*n**2`` gives ``[(3, ()), (-2, (n, n))]``.
    """
    terms = [(c, tuple(_factor_of(ATOMS[number]) for number in m)) for m, c in reversed(dim.terms)]
    return sorted(terms, key=lambda term: term[0] < 0)


def _factor_of(atom: Atom) -> Factor:
    args = () if atom.kind in (SYMBOL, OPAQUE) else atom.args
    return Factor(from_atom(atom), atom.kind, args)


def evaluate_dim(dim: Dim, values: Mapping[str, int]) -> int:
    """Return the value of the dimension for these values of its symbols.

    Raises:
        BuilderError: ``values`` lacks a symbol, an opaque atom has no recipe, the dimension divides
            by zero, or a recipe rounds infinity or NaN.
    """

    def value_of(atom: Atom) -> Dim:
        if atom.kind == OPAQUE:
            args = [evaluate_dim(arg, values) for arg in atom.args[:-1]]
            try:
                number = compute_opaque(atom.name, args)
            except (ArithmeticError, ValueError) as error:  # x / 0, or the ceil of inf or NaN
                listed = ", ".join(f"{name}={values[name]}" for name in sorted(free_symbols(dim)))
                text = f"{atom.name!r} in dimension {dim} has no value for {listed}: {error}."
                raise BuilderError(text) from error
            if number is not None:
                return number
        if atom.kind != SYMBOL:
            raise BuilderError(f"{atom.name!r} in dimension {dim} has no known value.")
        if atom.name not in values:
            raise BuilderError(f"No value is given for {atom.name!r} in dimension {dim}.")
        return values[atom.name]

    result = map_atoms(dim, value_of)
    assert isinstance(result, int)
    return result


def substitute_symbols(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Replace some symbols by dimensions, which must respect the symbols' minima.

    Symbols in the arguments of opaque atoms are not replaced.
    """

    def value_of(atom: Atom) -> Dim:
        replacement = values.get(atom.name) if atom.kind == SYMBOL else None
        return replacement if replacement is not None else from_atom(atom)

    return map_atoms(dim, value_of)


def map_atoms(dim: Dim, value_of: Callable[[Atom], Dim]) -> Dim:
    """Return the dimension with each symbol and opaque atom replaced by ``value_of(atom)``.

    Other atoms are computed again from their arguments: ``n//4`` with 8 for n is 2.
    """
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
