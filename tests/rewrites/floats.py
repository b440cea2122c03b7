"""Toy number formats that follow IEEE 754 with a few bits, so that all of their values can be
tried: subnormals, infinities, NaN, both zeros, ties to even after every operation. Integers wrap
around. Used by `terms`, which computes in float64 and rounds here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ortable import dtypes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """A float with ``exponent`` and ``mantissa`` bits, an integer of ``bits``, or a truth value."""

    kind: str
    exponent: int = 0
    mantissa: int = 0
    bits: int = 1

    @property
    def size(self) -> int:
        """How many bit patterns there are."""
        return 1 << (self.exponent + self.mantissa + 1 if self.kind == "float" else self.bits)


BOOLEAN = Format("bool")
# widths of a float alone in its graph, by the bits that each of several variables may have
ALONE = {8: (4, 3), 5: (2, 2), 4: (2, 1)}
# several types in one graph: which type holds the values of which is as it is for the real ones
FLOATS = {
    dtypes.float16: (3, 3), dtypes.bfloat16: (4, 1), dtypes.float32: (4, 3),
    dtypes.float64: (5, 6),
}  # fmt: skip
INTEGERS = {dtypes.int64: 8, dtypes.int32: 7, dtypes.int16: 6, dtypes.int8: 5, dtypes.uint8: 5}


def formats_for(kinds: Iterable[int], bits: int) -> dict[int, Format]:
    """The toy format of each dtype of a graph; ``bits`` of a type that is the only one."""
    known = set(kinds)
    floats, integers = sorted(known & set(FLOATS)), sorted(known & set(INTEGERS))
    found = {dtypes.boolean: BOOLEAN}
    for dtype in floats:
        exponent, mantissa = ALONE[bits] if len(floats) == 1 else FLOATS[dtype]
        found[dtype] = Format("float", exponent, mantissa)
    for dtype in integers:
        kind = "unsigned" if dtype == dtypes.uint8 else "integer"
        found[dtype] = Format(kind, bits=bits if len(integers) == 1 else INTEGERS[dtype])
    return found


def holds(form: Format, value: Any) -> bool:
    """Whether the number is one of an integer format; any is, of others."""
    if form.kind not in ("integer", "unsigned"):
        return True
    low = 0 if form.kind == "unsigned" else -(1 << (form.bits - 1))
    return bool(low <= int(value) < low + (1 << form.bits))


def real_integers(formats: Mapping[int, Format]) -> dict[int, Format]:
    """The formats with integers as wide as they are."""
    found = dict(formats)
    for dtype in set(formats) & set(INTEGERS):
        found[dtype] = Format(
            formats[dtype].kind, bits=np.dtype(dtypes.to_numpy(dtype)).itemsize * 8
        )
    return found


@cache
def values_of(form: Format) -> Array:
    """Every value of the format, NaN once."""
    if form.kind == "bool":
        return np.array([False, True])
    if form.kind == "unsigned":
        return np.arange(1 << form.bits, dtype=np.int64)
    if form.kind == "integer":
        return np.arange(-(1 << (form.bits - 1)), 1 << (form.bits - 1), dtype=np.int64)
    bias = (1 << (form.exponent - 1)) - 1
    found = []
    for exponent in range((1 << form.exponent) - 1):
        for mantissa in range(1 << form.mantissa):
            part = mantissa / (1 << form.mantissa)
            scale = 2.0 ** (max(exponent, 1) - bias)
            found.append(scale * (part + (exponent > 0)))
    found.append(np.inf)
    positive = np.array(found)
    return np.concatenate([positive, -positive, [np.nan]])


def rounded(x: Array, form: Format) -> Array:
    """The values in the format: the nearest one, ties to even; integers wrap around."""
    if form.kind == "bool":
        return x.astype(bool)
    if form.kind in ("integer", "unsigned"):
        if form.bits >= 63:
            return x.astype(np.int64)
        whole = x.astype(np.int64) & ((1 << form.bits) - 1)
        if form.kind == "unsigned":
            return whole
        return np.where(whole >> (form.bits - 1), whole - (1 << form.bits), whole)
    bias = (1 << (form.exponent - 1)) - 1
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1.0))
    step = np.exp2(np.maximum(exponent - 1, 1 - bias) - float(form.mantissa))
    near = np.where(np.isfinite(x), np.rint(x / step) * step, x)
    largest = 2.0**bias * (2 - 2.0**-form.mantissa)
    over = np.where(np.abs(near) > largest, np.inf, np.abs(near))
    return np.where(np.isnan(x), np.nan, np.copysign(over, x))
