"""Compare the results of two graphs element by element.

Two results are one term, or equal for all values of a toy float, or equal up to rounding.
`proofs` compares the graphs before and after a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from ortable import dtypes

from .floats import SINGLE_FLOAT, Format, all_values, can_represent, formats_for, real_integers
from .functions import TIES
from .operators import Tensor
from .terms import Table, evaluate

MAX_COMBINATIONS = 1 << 17  # combinations of variable values that are tried exhaustively
SAMPLES = 2048  # random combinations, if there are more
MAX_VARIABLES = 12  # with more variables, terms are compared in float64 alone
POINTS = 96  # samples in float64
_MAX_SPECIAL = 0.3  # maximal share of special values of a variable
TOLERANCE = 1e-5
SIGN_SENSITIVE = frozenset({"Max", "Min", "Relu", "Clip", "Largest", "Smallest"})
Array = np.ndarray[Any, Any]


class Level(IntEnum):
    """How well two results agree, best first."""

    SAME = 0
    VALUES = 1
    DRAWN = 2
    ZERO = 3
    ROUNDING = 4
    SPECIAL = 5
    WRONG = 6


@dataclass
class Verdict:
    """The worst level of all elements, and the pair of terms with that level."""

    level: Level = Level.SAME
    example: str = ""
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Comparer:
    """Compare pairs of terms; `ranges` holds the bounds of inputs that a sample specifies."""

    table: Table
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    cache: dict[Any, Level] = field(default_factory=dict)

    def compare_tensors(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> Verdict:
        worst = Verdict()
        for old, new in zip(before, after, strict=True):
            if old.shape != new.shape or old.dtype != new.dtype:
                return Verdict(Level.WRONG, f"shape {new.shape}, it was {old.shape}")
            pairs = zip(old.ids.reshape(-1).tolist(), new.ids.reshape(-1).tolist(), strict=True)
            for first, second in sorted(set(pairs)):
                level = self.compare_pair(first, second)
                if level > worst.level:
                    worst = Verdict(level, self.format_pair(first, second))
        return worst

    def compare_pair(self, first: int, second: int) -> Level:
        """Compare two terms; equivalent pairs share one cached level."""
        if first == second:
            return Level.SAME
        key = self.table.pair_key(first, second)
        bounds = tuple(sorted(self.ranges.items()))
        level = self.cache.get((key, bounds))
        if level is None:
            level = self.cache[key, bounds] = self._compare_uncached(first, second)
        return level

    def format_pair(self, first: int, second: int, max_length: int = 240) -> str:
        return f"{self._term(second)[:max_length]} | it was {self._term(first)[:max_length]}"

    def _term(self, root: int, depth: int = 0) -> str:
        term = self.table.terms[root]
        if term.op == "variable":
            return f"{term.attrs[0]}{term.attrs[1]}"
        if term.op == "constant":
            return repr(self.table.value(root))
        if depth > 6:
            return "..."
        return f"{term.op}({', '.join(self._term(arg, depth + 1) for arg in term.args)})"

    def _compare_uncached(self, first: int, second: int) -> Level:
        subterms = self.table.subterms(first, second)
        variables = [term for term in subterms if self.table.terms[term].op == "variable"]
        types = {self.table.terms[term].dtype for term in subterms}
        large = len(variables) > MAX_VARIABLES or len(subterms) > 400
        exact = Level.WRONG if large else self._compare_exactly(first, second, variables, types)
        if exact <= Level.DRAWN:
            return exact
        if not any(dtypes.is_float_type(dtype) for dtype in types):
            return Level.WRONG
        in_float64 = self._compare_in_float64(first, second, variables)
        return min(in_float64, exact) if exact == Level.ZERO else in_float64

    def _compare_exactly(
        self, first: int, second: int, variables: Sequence[int], types: set[int]
    ) -> Level:
        """Compare in toy floats; WRONG means different values."""
        if not types <= set(formats_for(types, 8)):
            return Level.WRONG
        bits = next(
            (b for b in SINGLE_FLOAT if self._count(variables, types, b) <= MAX_COMBINATIONS), None
        )
        formats = formats_for(types, 8 if bits is None else bits)
        subterms = self.table.subterms(first, second)
        constants = [term for term in subterms if self.table.terms[term].op == "constant"]
        if not all(
            can_represent(formats[self.table.terms[term].dtype], self.table.value(term))
            for term in constants
        ):
            bits, formats = None, real_integers(formats)
        values, count = self._sample_variables(variables, formats, bits is not None)
        ties = TIES if any(self.table.terms[t].op in SIGN_SENSITIVE for t in subterms) else TIES[:1]
        worst = Level.VALUES if bits is not None else Level.DRAWN
        for tie in ties:
            (x, y), undefined = evaluate(self.table, [first, second], values, count, formats, tie)
            level = _compare_bits(x, y, undefined)
            worst = max(worst, level)
        return worst

    def _count(self, variables: Sequence[int], types: set[int], bits: int) -> int:
        formats = formats_for(types, bits)
        count = 1
        for variable in variables:
            count *= len(all_values(formats[self.table.terms[variable].dtype]))
            if count > MAX_COMBINATIONS:
                break
        return count

    def _sample_variables(
        self, variables: Sequence[int], formats: Mapping[int, Format], exhaustive: bool
    ) -> tuple[dict[int, Array], int]:
        sets = [_list_values(formats[self.table.terms[term].dtype]) for term in variables]
        if exhaustive:
            grid = np.meshgrid(*sets, indexing="ij") if sets else []
            count = grid[0].size if grid else 1
            flat = [axis.reshape(-1) for axis in grid]
        else:
            generator = np.random.default_rng(0)
            count = SAMPLES
            flat = [values[generator.integers(0, len(values), SAMPLES)] for values in sets]
        return dict(zip(variables, flat, strict=True)), count

    def _compare_in_float64(self, first: int, second: int, variables: Sequence[int]) -> Level:
        """Compare in float64 at random numbers, then with infinities, NaN and zeros among them."""
        generator = np.random.default_rng(1)
        finite = {v: self._sample(v, generator, 0.0) for v in variables}
        (x, y), undefined = evaluate(self.table, [first, second], finite, POINTS, None)
        if not _is_close(x, y, undefined):
            return Level.WRONG
        # few special values per sample, because one NaN masks the effect of another
        share = min(_MAX_SPECIAL, 2 / max(len(variables), 1))
        special = {v: self._sample(v, generator, share) for v in variables}
        (x, y), undefined = evaluate(self.table, [first, second], special, POINTS, None)
        return Level.ROUNDING if _is_close(x, y, undefined) else Level.SPECIAL

    def _sample(self, variable: int, generator: np.random.Generator, special: float) -> Array:
        """Return samples of a variable.

        `special` is the share of infinities, NaN, zeros and ones.
        """
        term = self.table.terms[variable]
        low, high = self.ranges.get(term.attrs[0], (None, None))
        if term.dtype == dtypes.boolean:
            return generator.integers(0, 2, POINTS).astype(bool)
        if not dtypes.is_float_type(term.dtype):
            bounds = (0 if term.dtype == dtypes.uint8 else -9, 10) if low is None else (low, high)
            return generator.integers(int(bounds[0]), int(bounds[1]), POINTS)
        samples = generator.standard_normal(POINTS) * np.where(np.arange(POINTS) % 3, 1.0, 4.0)
        if low is not None and high is not None:
            samples = generator.uniform(low, high, POINTS)
        if special:
            table = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])
            specials = table[generator.integers(0, len(table), POINTS)]
            samples = np.where(generator.random(POINTS) < special, specials, samples)
        return samples


def _list_values(form: Format) -> Array:
    """Return all values of a toy format, or the bounds and small values of a real integer."""
    if form.bits <= 16:
        return all_values(form)
    low = 0 if form.kind == "unsigned" else -(1 << (form.bits - 1))
    ends = [low, low + 1, low + (1 << form.bits) - 2, low + (1 << form.bits) - 1]
    small = range(0 if form.kind == "unsigned" else -20, 21)
    return np.array([*ends, *small], dtype=np.int64)


def _compare_bits(x: Array, y: Array, undefined: Array) -> Level:
    """Compare bit for bit, with a separate level for different signs of zeros."""
    if x.dtype.kind != "f":
        return Level.VALUES if ((x == y) | undefined).all() else Level.WRONG
    equal = (x == y) | (np.isnan(x) & np.isnan(y)) | undefined
    if not equal.all():
        return Level.WRONG
    signs = (np.signbit(x) == np.signbit(y)) | np.isnan(x) | undefined
    return Level.VALUES if signs.all() else Level.ZERO


def _is_close(x: Array, y: Array, undefined: Array) -> bool:
    if x.dtype.kind != "f":
        return bool(((x == y) | undefined).all())
    with np.errstate(all="ignore"):
        bound = TOLERANCE * np.maximum(1.0, np.abs(x))
        near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= bound)
    return bool((near | (x == y) | (np.isnan(x) & np.isnan(y)) | undefined).all())
