"""Values of initializers: numpy arrays, TensorProtos, or references to torch tensors.

Only this module reads torch memory. It recognizes tensors by their methods, without importing
torch. Tensors on the CPU are not copied before serialization, except small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, numpy_helper

from ortable import dtypes
from ortable.compat.torch import storage_identity
from ortable.errors import BuilderError

Value: TypeAlias = Any  # np.ndarray | TensorProto | torch.Tensor | Deferred

MAX_SMALL_ELEMENTS = 128  # small initializers: read at once, and merged on creation if equal
MAX_VALUE_ELEMENTS = 64  # elements up to which the values of an integer vector are known facts
_NAMED_INTS = 5  # at most this many integers appear in the initializer's name


class Deferred:
    """A tensor of known type and shape whose data is loaded on demand and not cached.

    ``load()`` returns a numpy array or torch tensor of this type and shape.
    """

    __slots__ = ("dtype", "load", "shape")

    def __init__(self, load: Callable[[], Any], dtype: int, shape: tuple[int, ...]) -> None:
        self.load = load
        self.dtype = dtype
        self.shape = shape


def is_torch(value: object) -> bool:
    """Whether a value has the methods of a torch tensor; the check does not import torch."""
    return hasattr(value, "untyped_storage") and hasattr(value, "detach")


def normalize_value(value: Any) -> Value:
    """Convert numbers and lists to numpy arrays; return arrays, protos and tensors unchanged.

    Python ints become int64, floats float32, bools bool, complex numbers complex64.
    """
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            _check_strings(value, value)
        return value
    if isinstance(value, TensorProto) or is_torch(value):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        array = np.array(value)
    except ValueError as error:
        raise BuilderError(f"{value!r} is not a tensor: {error}") from None
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.complex128:
        return array.astype(np.complex64)
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind in "USO":
        array = np.array(value, dtype=object)
        _check_strings(array, value)  # numpy converts numbers in a list with a string to strings
    return array


def _check_strings(array: np.ndarray, value: Any) -> None:
    if not all(isinstance(item, (str, bytes)) for item in array.ravel()):
        raise BuilderError(
            f"{value!r} ({type(value).__name__}) cannot be an initializer; "
            "give a numpy array, a torch tensor, numbers, strings, or a TensorProto."
        )


def dtype_of(value: Value) -> int:
    """Return the ONNX element type of an initializer."""
    if isinstance(value, np.ndarray):
        return dtypes.from_numpy(value.dtype)
    if isinstance(value, TensorProto):
        return int(value.data_type)
    if isinstance(value, Deferred):
        return value.dtype
    return dtypes.from_torch(value.dtype)


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of an initializer."""
    if isinstance(value, TensorProto):
        return tuple(value.dims)
    return tuple(int(size) for size in value.shape)


def size_of(value: Value) -> int:
    """Return the number of elements of an initializer."""
    size = 1
    for dim in shape_of(value):
        size *= dim
    return size


def nbytes_of(value: Value) -> int:
    """Return the size of an initializer in a file in bytes: three int4 take two.

    It is 0 for strings, whose size is not fixed.
    """
    dtype = dtype_of(value)
    bits = dtypes.PACKED_BITS.get(dtype, 8 * dtypes.ITEMSIZE.get(dtype, 0))
    return -(-size_of(value) * bits // 8)


def to_numpy(value: Value, name: str = "") -> np.ndarray:
    """Return the value as a numpy array, which shares memory with a torch tensor if possible."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, TensorProto):
        if value.data_location == TensorProto.EXTERNAL:
            raise BuilderError(
                f"Initializer {name or value.name!r} is stored in another file, which is "
                "not loaded; load the model with onnx.load(path), which reads external data."
            )
        return proto_to_numpy(value, name)
    if isinstance(value, Deferred):
        return to_numpy(value.load(), name)
    return _torch_to_numpy(value, name)


def proto_to_numpy(tensor: TensorProto, name: str = "") -> np.ndarray:
    """Return the array of a TensorProto that holds its data.

    The shape is checked against the data before memory is allocated for it.

    Raises:
        BuilderError: type, shape and data are inconsistent.
    """
    if any(size < 0 for size in tensor.dims):
        reason = "a size is negative"
    else:
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
    raise BuilderError(
        f"The data of tensor {name or tensor.name!r} ({dtypes.name(tensor.data_type)}, "
        f"{tuple(tensor.dims)}) does not fit its type and shape: {reason}."
    )


def to_torch(value: Value, name: str = "") -> Any:
    """Return the value as a torch tensor; arrays without writable memory are copied."""
    if is_torch(value):
        return value
    array = np.ascontiguousarray(to_numpy(value, name))
    array = array if array.flags.writeable else array.copy()
    dtype = dtypes.from_numpy(array.dtype)
    if dtype not in _THROUGH_BITS:
        return dtypes.torch_memory(array)
    bits = array.view(dtypes.to_numpy(_THROUGH_BITS[dtype]))
    return dtypes.torch_memory(bits).view(dtypes.to_torch(dtype))


def _torch_to_numpy(tensor: Any, name: str) -> np.ndarray:
    dtype = dtypes.from_torch(tensor.dtype)
    if str(tensor.layout) != "torch.strided":
        raise BuilderError(
            f"The value of initializer {name!r} ({tensor.dtype}, {tuple(tensor.shape)}) has layout "
            f"{tensor.layout}: convert it to a dense tensor with to_dense()."
        )
    try:
        tensor = tensor.detach()
        if tensor.device.type != "cpu":
            tensor = tensor.cpu()
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
        if dtype in _THROUGH_BITS:
            torch_type = dtypes.to_torch(_THROUGH_BITS[dtype])
            return np.asarray(tensor.view(torch_type).numpy()).view(dtypes.to_numpy(dtype))
        return np.asarray(tensor.numpy())
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise BuilderError(
            f"The value of initializer {name!r} ({type(tensor).__name__}, {tensor.dtype}, "
            f"{tuple(tensor.shape)}) cannot be read: {error}. A fake or meta tensor has no data: "
            "give the real tensor."
        ) from error


# Tensors of types that numpy lacks are converted through integers of the same width.
_THROUGH_BITS: dict[int, int] = {
    dtypes.bfloat16: dtypes.int16,
    dtypes.float8e4m3fn: dtypes.uint8,
    dtypes.float8e4m3fnuz: dtypes.uint8,
    dtypes.float8e5m2: dtypes.uint8,
    dtypes.float8e5m2fnuz: dtypes.uint8,
    dtypes.float8e8m0: dtypes.uint8,
}


def is_readable(value: Value) -> bool:
    """Whether the data is in CPU memory: not deferred, external, fake, or on another device."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, TensorProto):
        return value.data_location != TensorProto.EXTERNAL
    if isinstance(value, Deferred):
        return False
    return value.device.type == "cpu" and not hasattr(value, "fake_mode")


def is_fake(value: Value) -> bool:
    """Whether the value is a torch tensor without data, fake or on the meta device."""
    return is_torch(value) and (hasattr(value, "fake_mode") or value.device.type == "meta")


def content_key(array: np.ndarray) -> Hashable:
    """Return a key that is equal for arrays of the same type, shape and bytes (0.0 is not -0.0)."""
    if array.dtype == object:
        return (dtypes.string, array.shape, tuple(array.ravel().tolist()))
    return (dtypes.from_numpy(array.dtype), array.shape, array.tobytes())


def storage_key(tensor: Any) -> Hashable | None:
    """Return a key that is equal for torch tensors that view the same memory identically."""
    try:
        storage = storage_identity(tensor)
        strides = tuple(tensor.stride())
    except (RuntimeError, NotImplementedError, AttributeError):
        return None
    flags = (tensor.is_conj(), tensor.is_neg())
    offset = tensor.storage_offset()
    return (storage, offset, tuple(tensor.shape), strides, tensor.dtype, flags)


def default_name(dtype: int, shape: tuple[int, ...], array: np.ndarray | None) -> str:
    """Make a name such as ``init1_s3x1_`` (element type 1 = float32, shape 3x1).

    The name ends in the values of a few integers: ``init7_s2_3_-1`` is the int64 vector [3, -1].
    """
    sizes = "x".join(str(size) for size in shape)
    values = ""
    if array is not None and array.size <= _NAMED_INTS and array.dtype in (np.int64, np.int32):
        values = "_".join(str(item) for item in array.ravel().tolist())
    return f"init{dtype}_s{sizes}_{values}"


def integer_value(array: np.ndarray) -> Any:
    """Return the value of a small integer constant as an int or a tuple of ints, else None."""
    if array.dtype not in (np.int64, np.int32) or array.ndim > 1 or array.size > MAX_VALUE_ELEMENTS:
        return None
    return int(array) if array.ndim == 0 else tuple(array.tolist())
