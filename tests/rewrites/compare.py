"""Compares what two graphs compute, element by element: one term, or equal for all values of a toy
float, or equal but for rounding. Called by `proofs` with the graph before and after a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from ortable import dtypes

from .floats import ALONE, Format, formats_for, holds, real_integers, values_of
from .functions import TIES
from .operators import Tensor
from .terms import Table, evaluate

MOST = 1 << 17  # values of all variables together that are tried, each with each
DRAWN = 2048  # where there are more
MANY = 12  # variables of a sum that is compared in float64 alone
POINTS = 96  # in float64
_SPECIAL = 0.3  # of the numbers of a variable, at most
CLOSE = 1e-5
ZEROS = frozenset({"Max", "Min", "Relu", "Clip", "Largest", "Smallest"})
Array = np.ndarray[Any, Any]


class Level(IntEnum):
    """How well two results agree, the best first."""

    SAME = 0
    VALUES = 1
    DRAWN = 2
    ZERO = 3
    ROUNDING = 4
    SPECIAL = 5
    WRONG = 6


@dataclass
class Verdict:
    """The worst level of the elements, and the pair of terms that has it."""

    level: Level = Level.SAME
    example: str = ""
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Comparer:
    """Compares pairs of terms; ``ranges`` are the bounds of inputs that a case gives."""

    table: Table
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    known: dict[Any, Level] = field(default_factory=dict)

    def tensors(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> Verdict:
        """All outputs of two graphs."""
        worst = Verdict()
        for old, new in zip(before, after, strict=True):
            if old.shape != new.shape or old.dtype != new.dtype:
                return Verdict(Level.WRONG, f"shape {new.shape}, it was {old.shape}")
            pairs = zip(old.ids.reshape(-1).tolist(), new.ids.reshape(-1).tolist(), strict=True)
            for first, second in sorted(set(pairs)):
                found = self.pair(first, second)
                if found > worst.level:
                    worst = Verdict(found, self.text(first, second))
        return worst

    def pair(self, first: int, second: int) -> Level:
        """Two terms; what is known of a pair that is alike is not found out again."""
        if first == second:
            return Level.SAME
        key = self.table.shape_of_pair(first, second)
        bounds = tuple(sorted(self.ranges.items()))
        found = self.known.get((key, bounds))
        if found is None:
            found = self.known[key, bounds] = self._judge(first, second)
        return found

    def text(self, first: int, second: int, most: int = 240) -> str:
        """Both terms as a person reads them."""
        return f"{self._term(second)[:most]} | it was {self._term(first)[:most]}"

    def _term(self, root: int, depth: int = 0) -> str:
        term = self.table.terms[root]
        if term.op == "variable":
            return f"{term.attrs[0]}{term.attrs[1]}"
        if term.op == "constant":
            return repr(self.table.value(root))
        if depth > 6:
            return "..."
        return f"{term.op}({', '.join(self._term(arg, depth + 1) for arg in term.args)})"

    # -- judging

    def _judge(self, first: int, second: int) -> Level:
        below = self.table.below(first, second)
        variables = [each for each in below if self.table.terms[each].op == "variable"]
        kinds = {self.table.terms[each].dtype for each in below}
        many = len(variables) > MANY or len(below) > 400
        exact = Level.WRONG if many else self._exact(first, second, variables, kinds)
        if exact <= Level.DRAWN:
            return exact
        if not any(dtypes.is_float_type(kind) for kind in kinds):
            return Level.WRONG
        real = self._real(first, second, variables)
        return min(real, exact) if exact == Level.ZERO else real

    def _exact(self, first: int, second: int, variables: Sequence[int], kinds: set[int]) -> Level:
        """In toy floats; WRONG where they differ."""
        if not kinds <= set(formats_for(kinds, 8)):
            return Level.WRONG
        bits = next((b for b in ALONE if self._count(variables, kinds, b) <= MOST), None)
        formats = formats_for(kinds, 8 if bits is None else bits)
        below = self.table.below(first, second)
        numbers = [each for each in below if self.table.terms[each].op == "constant"]
        if not all(
            holds(formats[self.table.terms[each].dtype], self.table.value(each)) for each in numbers
        ):
            bits, formats = None, real_integers(formats)
        given, count = self._values(variables, formats, bits is not None)
        ties = TIES if any(self.table.terms[each].op in ZEROS for each in below) else TIES[:1]
        worst = Level.VALUES if bits is not None else Level.DRAWN
        for tie in ties:
            (x, y), undefined = evaluate(self.table, [first, second], given, count, formats, tie)
            found = _same(x, y, undefined)
            worst = max(worst, found)
        return worst

    def _count(self, variables: Sequence[int], kinds: set[int], bits: int) -> int:
        formats = formats_for(kinds, bits)
        found = 1
        for each in variables:
            found *= len(values_of(formats[self.table.terms[each].dtype]))
            if found > MOST:
                break
        return found

    def _values(
        self, variables: Sequence[int], formats: Mapping[int, Format], every: bool
    ) -> tuple[dict[int, Array], int]:
        sets = [_set(formats[self.table.terms[each].dtype]) for each in variables]
        if every:
            grid = np.meshgrid(*sets, indexing="ij") if sets else []
            count = grid[0].size if grid else 1
            flat = [each.reshape(-1) for each in grid]
        else:
            generator = np.random.default_rng(0)
            count = DRAWN
            flat = [each[generator.integers(0, len(each), DRAWN)] for each in sets]
        return dict(zip(variables, flat, strict=True)), count

    def _real(self, first: int, second: int, variables: Sequence[int]) -> Level:
        """In float64, at random numbers, and with infinities, NaN and zeros among them."""
        generator = np.random.default_rng(1)
        plain = {each: self._drawn(each, generator, 0.0) for each in variables}
        (x, y), undefined = evaluate(self.table, [first, second], plain, POINTS, None)
        if not _close(x, y, undefined):
            return Level.WRONG
        # few at once: one NaN hides whether another one was kept or dropped
        share = min(_SPECIAL, 2 / max(len(variables), 1))
        special = {each: self._drawn(each, generator, share) for each in variables}
        (x, y), undefined = evaluate(self.table, [first, second], special, POINTS, None)
        return Level.ROUNDING if _close(x, y, undefined) else Level.SPECIAL

    def _drawn(self, variable: int, generator: np.random.Generator, special: float) -> Array:
        """Numbers for a variable; ``special``: the share of infinities, NaN, zeros and ones."""
        term = self.table.terms[variable]
        low, high = self.ranges.get(term.attrs[0], (None, None))
        if term.dtype == dtypes.boolean:
            return generator.integers(0, 2, POINTS).astype(bool)
        if not dtypes.is_float_type(term.dtype):
            bounds = (0 if term.dtype == dtypes.uint8 else -9, 10) if low is None else (low, high)
            return generator.integers(int(bounds[0]), int(bounds[1]), POINTS)
        made = generator.standard_normal(POINTS) * np.where(np.arange(POINTS) % 3, 1.0, 4.0)
        if low is not None and high is not None:
            made = generator.uniform(low, high, POINTS)
        if special:
            table = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])
            chosen = table[generator.integers(0, len(table), POINTS)]
            made = np.where(generator.random(POINTS) < special, chosen, made)
        return made


def _set(form: Format) -> Array:
    """All values of a toy format; of a real integer both ends and those around zero."""
    if form.bits <= 16:
        return values_of(form)
    low = 0 if form.kind == "unsigned" else -(1 << (form.bits - 1))
    ends = [low, low + 1, low + (1 << form.bits) - 2, low + (1 << form.bits) - 1]
    small = range(0 if form.kind == "unsigned" else -20, 21)
    return np.array([*ends, *small], dtype=np.int64)


def _same(x: Array, y: Array, undefined: Array) -> Level:
    """Bit for bit, or but for signs of zeros."""
    if x.dtype.kind != "f":
        return Level.VALUES if ((x == y) | undefined).all() else Level.WRONG
    equal = (x == y) | (np.isnan(x) & np.isnan(y)) | undefined
    if not equal.all():
        return Level.WRONG
    signs = (np.signbit(x) == np.signbit(y)) | np.isnan(x) | undefined
    return Level.VALUES if signs.all() else Level.ZERO


def _close(x: Array, y: Array, undefined: Array) -> bool:
    if x.dtype.kind != "f":
        return bool(((x == y) | undefined).all())
    with np.errstate(all="ignore"):
        bound = CLOSE * np.maximum(1.0, np.abs(x))
        near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= bound)
    return bool((near | (x == y) | (np.isnan(x) & np.isnan(y)) | undefined).all())
