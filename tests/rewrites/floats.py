"""Toy number formats that follow IEEE 754 with few bits, so that all values can be tried.

Formats include subnormals, infinities, NaN and both zeros, and round ties to even after every
operation; integers wrap around. `terms` computes in float64 and rounds with this module.
"""

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
    """A float with `exponent` and `mantissa` bits, an integer of `bits` bits, or a boolean."""

    kind: str
    exponent: int = 0
    mantissa: int = 0
    bits: int = 1

    @property
    def size(self) -> int:
        """Return the number of bit patterns."""
        return 1 << (self.exponent + self.mantissa + 1 if self.kind == "float" else self.bits)


BOOLEAN = Format("bool")
# (exponent, mantissa) of the only float type of a graph, by the total bits per variable
SINGLE_FLOAT = {8: (4, 3), 5: (2, 2), 4: (2, 1)}
# several types in one graph: a type includes the values of another if the real type does
MIXED_FLOATS = {
    dtypes.float16: (3, 3), dtypes.bfloat16: (4, 1), dtypes.float32: (4, 3),
    dtypes.float64: (5, 6),
}  # fmt: skip
INTEGER_BITS = {dtypes.int64: 8, dtypes.int32: 7, dtypes.int16: 6, dtypes.int8: 5, dtypes.uint8: 5}


def formats_for(dtypes_used: Iterable[int], bits: int) -> dict[int, Format]:
    """Return the toy format of each dtype of a graph.

    `bits` is the width of a float or integer type that is the only one of its kind.
    """
    dtype_set = set(dtypes_used)
    floats, integers = sorted(dtype_set & set(MIXED_FLOATS)), sorted(dtype_set & set(INTEGER_BITS))
    formats = {dtypes.boolean: BOOLEAN}
    for dtype in floats:
        exponent, mantissa = SINGLE_FLOAT[bits] if len(floats) == 1 else MIXED_FLOATS[dtype]
        formats[dtype] = Format("float", exponent, mantissa)
    for dtype in integers:
        kind = "unsigned" if dtype == dtypes.uint8 else "integer"
        formats[dtype] = Format(kind, bits=bits if len(integers) == 1 else INTEGER_BITS[dtype])
    return formats


def can_represent(form: Format, value: Any) -> bool:
    """Return whether an integer format includes the number; other formats round any number."""
    if form.kind not in ("integer", "unsigned"):
        return True
    low = 0 if form.kind == "unsigned" else -(1 << (form.bits - 1))
    return bool(low <= int(value) < low + (1 << form.bits))


def real_integers(formats: Mapping[int, Format]) -> dict[int, Format]:
    """Return the formats with integers of their real width."""
    widened = dict(formats)
    for dtype in set(formats) & set(INTEGER_BITS):
        widened[dtype] = Format(
            formats[dtype].kind, bits=np.dtype(dtypes.to_numpy(dtype)).itemsize * 8
        )
    return widened


@cache
def all_values(form: Format) -> Array:
    """Return every value of the format, with a single NaN."""
    if form.kind == "bool":
        return np.array([False, True])
    if form.kind == "unsigned":
        return np.arange(1 << form.bits, dtype=np.int64)
    if form.kind == "integer":
        return np.arange(-(1 << (form.bits - 1)), 1 << (form.bits - 1), dtype=np.int64)
    bias = (1 << (form.exponent - 1)) - 1
    values = []
    for exponent in range((1 << form.exponent) - 1):
        for mantissa in range(1 << form.mantissa):
            fraction = mantissa / (1 << form.mantissa)
            scale = 2.0 ** (max(exponent, 1) - bias)
            values.append(scale * (fraction + (exponent > 0)))
    values.append(np.inf)
    positive = np.array(values)
    return np.concatenate([positive, -positive, [np.nan]])


def round_to_format(x: Array, form: Format) -> Array:
    """Round to the nearest value of the format, ties to even; integers wrap around."""
    if form.kind == "bool":
        return x.astype(bool)
    if form.kind in ("integer", "unsigned"):
        if form.bits >= 63:
            return x.astype(np.int64)
        wrapped = x.astype(np.int64) & ((1 << form.bits) - 1)
        if form.kind == "unsigned":
            return wrapped
        return np.where(wrapped >> (form.bits - 1), wrapped - (1 << form.bits), wrapped)
    bias = (1 << (form.exponent - 1)) - 1
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1.0))
    step = np.exp2(np.maximum(exponent - 1, 1 - bias) - float(form.mantissa))
    nearest = np.where(np.isfinite(x), np.rint(x / step) * step, x)
    largest = 2.0**bias * (2 - 2.0**-form.mantissa)
    magnitude = np.where(np.abs(nearest) > largest, np.inf, np.abs(nearest))
    return np.where(np.isnan(x), np.nan, np.copysign(magnitude, x))
