"""Expressions of the elements that a graph computes, over elements of the inputs.

Each distinct expression is stored once, so two graphs with the same term compute the same result
in any arithmetic. `compare` compares different terms in toy floats or in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ortable import dtypes

from .floats import Format, round_to_format
from .functions import COMMUTATIVE, FOLDED, FUNCTIONS, Undefined

Array = np.ndarray[Any, Any]


class NotConstant(Exception):
    """A shape or an index depends on the values of an input."""


@dataclass(frozen=True)
class Term:
    """An operation on other terms, a variable, or a constant."""

    op: str
    args: tuple[int, ...]
    dtype: int
    attrs: tuple[Any, ...] = ()


def _key(value: Any, dtype: int) -> Any:
    """Return a constant's key by value and sign, since 0.0 == -0.0 and nan != nan."""
    if not dtypes.is_float_type(dtype):
        return int(value)
    return float(value).hex() if math.isfinite(value) else str(float(value))


class Table:
    """All terms of two graphs under comparison."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.index: dict[Term, int] = {}

    def add(self, term: Term) -> int:
        index = self.index.get(term)
        if index is None:
            index = self.index[term] = len(self.terms)
            self.terms.append(term)
        return index

    def variable(self, name: str, index: int, dtype: int) -> int:
        return self.add(Term("variable", (), dtype, (name, index)))

    def constant(self, value: Any, dtype: int) -> int:
        return self.add(Term("constant", (), dtype, (_key(value, dtype),)))

    def value(self, term: int) -> Any:
        """Return the number of a constant term."""
        constant = self.terms[term]
        if constant.op != "constant":
            raise NotConstant(f"{constant.op} is no constant")
        (key,) = constant.attrs
        if not dtypes.is_float_type(constant.dtype):
            return key
        return float.fromhex(key)  # fromhex also parses inf and nan

    def make(self, op: str, args: Sequence[int], dtype: int, attrs: tuple[Any, ...] = ()) -> int:
        """Add an operation; fold it if all arguments are constant integers."""
        args = tuple(args)
        if op in FOLDED and all(self._is_integer_constant(arg) for arg in args):
            result = args[0]
            for arg in args[1:]:
                result = self.make(FOLDED[op], [result, arg], dtype)
            return result
        terms = [self.terms[arg] for arg in args]
        if op == "Where" and terms[0].op == "constant":
            return args[1] if terms[0].attrs[0] else args[2]
        floats = [dtypes.is_float_type(d) for d in (dtype, *(t.dtype for t in terms))]
        if args and not any(floats) and all(item.op == "constant" for item in terms):
            values = [np.array([self.value(arg)]) for arg in args]
            if dtype == dtypes.boolean or op == "Not":
                values = [
                    value.astype(bool) if term.dtype == dtypes.boolean else value
                    for value, term in zip(values, terms, strict=True)
                ]
            undefined = Undefined(1)
            result = FUNCTIONS[op](undefined, attrs, *values)
            if undefined.mask.any():
                raise NotConstant("an integer division by zero")
            return self.constant(int(result[0]), dtype)
        if op in COMMUTATIVE:
            args = tuple(sorted(args))
        return self.add(Term(op, args, dtype, attrs))

    def _is_integer_constant(self, term: int) -> bool:
        constant = self.terms[term]
        return constant.op == "constant" and not dtypes.is_float_type(constant.dtype)

    def subterms(self, *roots: int) -> list[int]:
        """Return all terms below the roots, arguments first."""
        visited: set[int] = set()
        pending = list(roots)
        while pending:
            term = pending.pop()
            if term not in visited:
                visited.add(term)
                pending += self.terms[term].args
        return sorted(visited)

    def pair_key(self, first: int, second: int) -> tuple[Any, ...]:
        """Return a key of two terms that is equal for pairs that differ only in variable names."""
        order: dict[int, int] = {}
        names: dict[Any, int] = {}
        lines: list[Any] = []

        def walk(root: int) -> None:
            stack = [root]
            while stack:
                index = stack[-1]
                if index in order:
                    stack.pop()
                    continue
                term = self.terms[index]
                missing = [arg for arg in term.args if arg not in order]
                if missing:
                    stack.append(missing[0])
                    continue
                stack.pop()
                if term.op == "variable":
                    line: Any = ("v", names.setdefault(term.attrs, len(names)), term.dtype)
                else:
                    line = (term.op, tuple(order[a] for a in term.args), term.dtype, term.attrs)
                order[index] = len(lines)
                lines.append(line)

        walk(first)
        walk(second)
        return (*lines, order[first], order[second])


def evaluate(
    table: Table,
    roots: Sequence[int],
    variable_values: Mapping[int, Array],
    count: int,
    formats: Mapping[int, Format] | None,
    ties: str = "first",
) -> tuple[list[Array], Array]:
    """Return the values of the terms, and a mask of undefined elements.

    Undefined elements depend on an integer division by zero. `formats` maps dtypes to toy formats;
    None computes in float64. `ties` selects the zero that Max and Min return for two signs.
    """
    undefined = Undefined(count, ties)
    values: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for term_id in table.subterms(*roots):
            term = table.terms[term_id]
            rounding = partial(_round, formats, term.dtype)
            if term_id in variable_values:
                values[term_id] = variable_values[term_id]
            elif term.op == "constant":
                value = np.full(count, table.value(term_id))
                values[term_id] = rounding(value)
            elif term.op in FOLDED:
                result = values[term.args[0]]
                for arg in term.args[1:]:
                    unrounded = FUNCTIONS[FOLDED[term.op]](undefined, (), result, values[arg])
                    result = rounding(unrounded)
                values[term_id] = result
            else:
                inputs = [values[arg] for arg in term.args]
                values[term_id] = rounding(FUNCTIONS[term.op](undefined, term.attrs, *inputs))
    return [values[term_id] for term_id in roots], undefined.mask


def _round(formats: Mapping[int, Format] | None, dtype: int, x: Array) -> Array:
    if formats is not None:
        return round_to_format(x, formats[dtype])
    if dtype == dtypes.boolean:
        return x.astype(bool)
    return x.astype(np.float64) if dtypes.is_float_type(dtype) else x.astype(np.int64)
