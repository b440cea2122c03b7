"""What a graph computes, as terms: each element of each result is an expression of elements of the
inputs, kept once. Two graphs that give one term compute the same in any arithmetic; others are
compared in toy floats, all values of them, or in float64. Made by `operators`, compared by
`compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ortable import dtypes

from .floats import Format, rounded
from .functions import COMMUTATIVE, FOLDED, FUNCTIONS, Undefined

Array = np.ndarray[Any, Any]


class NotConstant(Exception):
    """A shape or an index that depends on what an input holds."""


@dataclass(frozen=True)
class Term:
    """An operation on other terms, a variable, or a constant."""

    op: str
    args: tuple[int, ...]
    dtype: int
    attrs: tuple[Any, ...] = ()


def _key(value: Any, dtype: int) -> Any:
    """A constant by its value and sign, since 0.0 == -0.0 and nan != nan."""
    if not dtypes.is_float_type(dtype):
        return int(value)
    return float(value).hex() if math.isfinite(value) else str(float(value))


class Table:
    """All terms of two graphs that are compared."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.index: dict[Term, int] = {}

    def add(self, term: Term) -> int:
        found = self.index.get(term)
        if found is None:
            found = self.index[term] = len(self.terms)
            self.terms.append(term)
        return found

    def variable(self, name: str, place: int, dtype: int) -> int:
        """An element of an input."""
        return self.add(Term("variable", (), dtype, (name, place)))

    def constant(self, value: Any, dtype: int) -> int:
        """A number."""
        return self.add(Term("constant", (), dtype, (_key(value, dtype),)))

    def value(self, term: int) -> Any:
        """The number that a term is."""
        found = self.terms[term]
        if found.op != "constant":
            raise NotConstant(f"{found.op} is no constant")
        (key,) = found.attrs
        if not dtypes.is_float_type(found.dtype):
            return key
        return float.fromhex(key)  # inf and nan, too

    def make(self, op: str, args: Sequence[int], dtype: int, attrs: tuple[Any, ...] = ()) -> int:
        """An operation; one of whole numbers that are known is done."""
        args = tuple(args)
        if op in FOLDED and all(self._whole(each) for each in args):
            found = args[0]
            for each in args[1:]:
                found = self.make(FOLDED[op], [found, each], dtype)
            return found
        terms = [self.terms[each] for each in args]
        if op == "Where" and terms[0].op == "constant":
            return args[1] if terms[0].attrs[0] else args[2]
        floats = [dtypes.is_float_type(each) for each in (dtype, *(t.dtype for t in terms))]
        if args and not any(floats) and all(each.op == "constant" for each in terms):
            given = [np.array([self.value(each)]) for each in args]
            if dtype == dtypes.boolean or op == "Not":
                given = [
                    each.astype(bool) if t.dtype == dtypes.boolean else each
                    for each, t in zip(given, terms, strict=True)
                ]
            undefined = Undefined(1)
            found = FUNCTIONS[op](undefined, attrs, *given)
            if undefined.mask.any():
                raise NotConstant("an integer division by zero")
            return self.constant(int(found[0]), dtype)
        if op in COMMUTATIVE:
            args = tuple(sorted(args))
        return self.add(Term(op, args, dtype, attrs))

    def _whole(self, term: int) -> bool:
        found = self.terms[term]
        return found.op == "constant" and not dtypes.is_float_type(found.dtype)

    def below(self, *roots: int) -> list[int]:
        """All terms that these are made of, arguments first."""
        found: set[int] = set()
        open_ = list(roots)
        while open_:
            each = open_.pop()
            if each not in found:
                found.add(each)
                open_ += self.terms[each].args
        return sorted(found)

    def shape_of_pair(self, first: int, second: int) -> tuple[Any, ...]:
        """The two terms with variables numbered as they come: equal for pairs that are alike."""
        order: dict[int, int] = {}
        names: dict[Any, int] = {}
        lines: list[Any] = []

        def walk(root: int) -> None:
            todo = [root]
            while todo:
                each = todo[-1]
                if each in order:
                    todo.pop()
                    continue
                term = self.terms[each]
                missing = [arg for arg in term.args if arg not in order]
                if missing:
                    todo.append(missing[0])
                    continue
                todo.pop()
                if term.op == "variable":
                    line: Any = ("v", names.setdefault(term.attrs, len(names)), term.dtype)
                else:
                    line = (term.op, tuple(order[a] for a in term.args), term.dtype, term.attrs)
                order[each] = len(lines)
                lines.append(line)

        walk(first)
        walk(second)
        return (*lines, order[first], order[second])


def evaluate(
    table: Table,
    roots: Sequence[int],
    given: Mapping[int, Array],
    count: int,
    formats: Mapping[int, Format] | None,
    ties: str = "first",
) -> tuple[list[Array], Array]:
    """Values of the terms, and where something that has no result (an integer divided by zero)
    was asked for.

    ``given``: values of the variables. ``formats``: toy formats by dtype; None computes in
    float64. ``ties``: which zero Max and Min take when both signs are there."""
    undefined = Undefined(count, ties)
    done: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for each in table.below(*roots):
            term = table.terms[each]
            rounding = partial(_rounded, formats, term.dtype)
            if each in given:
                done[each] = given[each]
            elif term.op == "constant":
                value = np.full(count, table.value(each))
                done[each] = rounding(value)
            elif term.op in FOLDED:
                found = done[term.args[0]]
                for arg in term.args[1:]:
                    step = FUNCTIONS[FOLDED[term.op]](undefined, (), found, done[arg])
                    found = rounding(step)
                done[each] = found
            else:
                inputs = [done[arg] for arg in term.args]
                done[each] = rounding(FUNCTIONS[term.op](undefined, term.attrs, *inputs))
    return [done[each] for each in roots], undefined.mask


def _rounded(formats: Mapping[int, Format] | None, dtype: int, x: Array) -> Array:
    if formats is not None:
        return rounded(x, formats[dtype])
    if dtype == dtypes.boolean:
        return x.astype(bool)
    return x.astype(np.float64) if dtypes.is_float_type(dtype) else x.astype(np.int64)
