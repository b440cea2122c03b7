"""Tensors as bytes, piece by piece: what has the layout of a file is not copied at all, and of
anything else one piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import initializers

PIECE = 1 << 20  # bytes that are copied at a time


def pieces(value: Any, name: str) -> Iterator[memoryview]:
    """The bytes of a tensor in row-major order, little endian, as ONNX stores them.

    ``value``: numpy array, torch tensor of any layout, device and type that ONNX has, TensorProto,
    or `Deferred`. Raises BuilderError when it cannot be read, or holds strings."""
    if isinstance(value, initializers.Deferred):
        value = value.load()
    if isinstance(value, TensorProto):
        if value.raw_data:
            yield memoryview(value.raw_data)
            return
        value = initializers.to_numpy(value, name)
    if initializers.dtype_of(value) == dtypes.string:
        raise BuilderError(f"Initializer {name!r} holds strings, which cannot be external data.")
    if initializers.is_torch(value):
        value = value.detach()
    elif dtypes.from_numpy(value.dtype) in dtypes.SUB_BYTE:
        value = np.ascontiguousarray(value).reshape(-1)  # two to eight elements share a byte
    parts = [value] if _is_plain(value) else _split(value, initializers.nbytes_of(value))
    for part in parts:
        yield _bytes_of(initializers.to_numpy(part, name))


def identity(value: Any) -> Any:
    """Key under which two tensors have the same bytes because they are the same memory."""
    key = initializers.storage_key(value) if initializers.is_torch(value) else None
    return id(value) if key is None else key


def _is_plain(value: Any) -> bool:
    """True when the memory of the tensor is what a file holds."""
    if isinstance(value, np.ndarray):
        packed = dtypes.from_numpy(value.dtype) in dtypes.SUB_BYTE
        return bool(value.flags.c_contiguous) and value.dtype.byteorder != ">" and not packed
    if not initializers.is_readable(value):
        return value.device.type in ("cpu", "meta")  # fake: refused as a whole, with its shape
    return bool(value.is_contiguous()) and not value.is_conj() and not value.is_neg()


def _split(value: Any, nbytes: int) -> Iterator[Any]:
    """Parts of at most ``PIECE`` bytes that follow each other."""
    if nbytes <= PIECE or not value.shape:
        yield value
        return
    rows = value.shape[0]
    each = nbytes // rows
    if each > PIECE:
        for row in range(rows):
            yield from _split(value[row], each)
        return
    step = PIECE // each
    for start in range(0, rows, step):
        yield value[start : start + step]


def _bytes_of(array: np.ndarray) -> memoryview:
    if dtypes.from_numpy(array.dtype) in dtypes.SUB_BYTE:
        return memoryview(numpy_helper.from_array(array).raw_data)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    # a view as bytes: memoryview knows neither bfloat16 nor a size of 0
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
