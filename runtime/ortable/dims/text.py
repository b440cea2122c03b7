"""Dimensions as readable text (`2*s0`, `(a + 1)//2`, `max(a, b)`), and in the form that pickle
keeps."""

from __future__ import annotations

from typing import Any

from .division import OPERATIONS
from .expression import (
    ATOMS,
    FLOORDIV,
    MAX,
    MIN,
    OPAQUE,
    SYMBOL,
    Atom,
    Dim,
    SymDim,
    lone_atom,
    opaque,
    symbol,
)


def _atom_text(atom: Atom, in_product: bool) -> str:
    if atom.kind == SYMBOL and in_product and not atom.name.isidentifier():
        return f"({atom.name})"  # the user's name is a sum of others
    if atom.kind in (SYMBOL, OPAQUE):
        return atom.name
    if atom.kind in (MAX, MIN):
        return f"{atom.kind}({', '.join(sorted(map(str, atom.args)))})"
    sign = "//" if atom.kind == FLOORDIV else "%"
    text = sign.join(_operand_text(arg) for arg in atom.args)
    return f"({text})" if in_product else text


def _operand_text(dim: Dim) -> str:
    plain = isinstance(dim, int) and dim >= 0
    if not plain and (lone_atom(dim, MAX) or lone_atom(dim, MIN)):
        plain = True
    named = None if plain else lone_atom(dim, SYMBOL)
    if named is not None:
        plain = named.name.isidentifier()
    return str(dim) if plain else f"({dim})"


def render(dim: SymDim) -> str:
    parts: list[tuple[bool, int, str, bool]] = []  # (negative, -degree, text of the absolute value)
    for monomial, coefficient in dim.terms:
        size = abs(coefficient)
        several = len(monomial) > 1 or (size != 1 and bool(monomial)) or coefficient < 0
        texts = []
        for number in sorted(set(monomial), key=lambda n: _atom_text(ATOMS[n], True)):
            power = monomial.count(number)
            text = _atom_text(ATOMS[number], several)
            texts.append(f"{text}**{power}" if power > 1 else text)
        if size != 1 or not monomial:
            texts.insert(0, str(size))
        parts.append((coefficient < 0, -len(monomial), "*".join(texts), coefficient < 0))
    parts.sort(key=lambda part: (part[1], part[2]))
    if parts[0][0]:  # start with something positive when there is one
        parts.sort(key=lambda part: part[0])
    text = ("-" if parts[0][0] else "") + parts[0][2]
    for negative, _, part, _ in parts[1:]:
        text += (" - " if negative else " + ") + part
    return text


def flatten(dim: Dim) -> Any:
    """Picklable form."""
    if isinstance(dim, int):
        return dim
    return [
        (
            c,
            [(ATOMS[n].kind, ATOMS[n].name, [_flatten_arg(x) for x in ATOMS[n].args]) for n in m],
        )
        for m, c in dim.terms
    ]


def _flatten_arg(arg: Any) -> Any:
    return arg if arg is None else flatten(arg)


def rebuild(flat: Any) -> Any:
    if flat is None or isinstance(flat, int):
        return flat
    total: Dim = 0
    for coefficient, factors in flat:
        term: Dim = coefficient
        for kind, name, args in factors:
            values = [rebuild(arg) for arg in args]
            if kind == SYMBOL:
                term = term * symbol(name, values[0])
            elif kind == OPAQUE:
                term = term * opaque(name, values[:-1], values[-1])
            else:
                term = term * OPERATIONS[kind](*values)
        total = total + term
    return total
