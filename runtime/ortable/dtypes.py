"""Element types, as the integers of ONNX TensorProto.DataType.

Conversions to numpy and torch dtypes use tables; torch is imported only when needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import BuilderError, UnsupportedDtype

undefined = 0
float32 = 1
uint8 = 2
int8 = 3
uint16 = 4
int16 = 5
int32 = 6
int64 = 7
string = 8
boolean = 9
float16 = 10
float64 = 11
uint32 = 12
uint64 = 13
complex64 = 14
complex128 = 15
bfloat16 = 16
float8e4m3fn = 17
float8e4m3fnuz = 18
float8e5m2 = 19
float8e5m2fnuz = 20
uint4 = 21
int4 = 22
float4e2m1 = 23
float8e8m0 = 24
uint2 = 25
int2 = 26
float6e2m3 = 27
float6e3m2 = 28

NAMES: dict[int, str] = {
    undefined: "undefined",
    float32: "float32",
    uint8: "uint8",
    int8: "int8",
    uint16: "uint16",
    int16: "int16",
    int32: "int32",
    int64: "int64",
    string: "string",
    boolean: "bool",
    float16: "float16",
    float64: "float64",
    uint32: "uint32",
    uint64: "uint64",
    complex64: "complex64",
    complex128: "complex128",
    bfloat16: "bfloat16",
    float8e4m3fn: "float8e4m3fn",
    float8e4m3fnuz: "float8e4m3fnuz",
    float8e5m2: "float8e5m2",
    float8e5m2fnuz: "float8e5m2fnuz",
    uint4: "uint4",
    int4: "int4",
    float4e2m1: "float4e2m1",
    float8e8m0: "float8e8m0",
    uint2: "uint2",
    int2: "int2",
    float6e2m3: "float6e2m3",
    float6e3m2: "float6e3m2",
}

FLOAT_TYPES = frozenset(
    {
        float32,
        float16,
        float64,
        bfloat16,
        float8e4m3fn,
        float8e4m3fnuz,
        float8e5m2,
        float8e5m2fnuz,
        float4e2m1,
        float8e8m0,
        float6e2m3,
        float6e3m2,
    }
)
FLOAT8_TYPES = frozenset({float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0})
SIGNED_INT_TYPES = frozenset({int8, int16, int32, int64, int4, int2})
UNSIGNED_INT_TYPES = frozenset({uint8, uint16, uint32, uint64, uint4, uint2})
INT_TYPES = SIGNED_INT_TYPES | UNSIGNED_INT_TYPES
# bits of one element of the types of which protobuf and files store several in a byte
PACKED_BITS = {
    uint4: 4, int4: 4, float4e2m1: 4, uint2: 2, int2: 2, float6e2m3: 6, float6e3m2: 6,
}  # fmt: skip
SUB_BYTE = frozenset(PACKED_BITS)
COMPLEX_TYPES = frozenset({complex64, complex128})

# Bytes of one element; outside of protobuf, an element of less than a byte is stored in one byte.
ITEMSIZE: dict[int, int] = {
    float32: 4,
    uint8: 1,
    int8: 1,
    uint16: 2,
    int16: 2,
    int32: 4,
    int64: 8,
    boolean: 1,
    float16: 2,
    float64: 8,
    uint32: 4,
    uint64: 8,
    complex64: 8,
    complex128: 16,
    bfloat16: 2,
    float8e4m3fn: 1,
    float8e4m3fnuz: 1,
    float8e5m2: 1,
    float8e5m2fnuz: 1,
    float8e8m0: 1,
    uint4: 1,
    int4: 1,
    float4e2m1: 1,
    uint2: 1,
    int2: 1,
    float6e2m3: 1,
    float6e3m2: 1,
}

_NATIVE_NUMPY: dict[int, np.dtype[Any]] = {
    float32: np.dtype(np.float32),
    uint8: np.dtype(np.uint8),
    int8: np.dtype(np.int8),
    uint16: np.dtype(np.uint16),
    int16: np.dtype(np.int16),
    int32: np.dtype(np.int32),
    int64: np.dtype(np.int64),
    string: np.dtype(object),
    boolean: np.dtype(np.bool_),
    float16: np.dtype(np.float16),
    float64: np.dtype(np.float64),
    uint32: np.dtype(np.uint32),
    uint64: np.dtype(np.uint64),
    complex64: np.dtype(np.complex64),
    complex128: np.dtype(np.complex128),
}
# Types that numpy lacks: their names in the module ml_dtypes (a dependency of onnx).
_ML_DTYPES: dict[int, str] = {
    bfloat16: "bfloat16",
    float8e4m3fn: "float8_e4m3fn",
    float8e4m3fnuz: "float8_e4m3fnuz",
    float8e5m2: "float8_e5m2",
    float8e5m2fnuz: "float8_e5m2fnuz",
    float8e8m0: "float8_e8m0fnu",
    uint4: "uint4",
    int4: "int4",
    float4e2m1: "float4_e2m1fn",
    uint2: "uint2",
    int2: "int2",
}
_TORCH: dict[int, str] = {
    float32: "float32",
    uint8: "uint8",
    int8: "int8",
    uint16: "uint16",
    int16: "int16",
    int32: "int32",
    int64: "int64",
    boolean: "bool",
    float16: "float16",
    float64: "float64",
    uint32: "uint32",
    uint64: "uint64",
    complex64: "complex64",
    complex128: "complex128",
    bfloat16: "bfloat16",
    float8e4m3fn: "float8_e4m3fn",
    float8e4m3fnuz: "float8_e4m3fnuz",
    float8e5m2: "float8_e5m2",
    float8e5m2fnuz: "float8_e5m2fnuz",
    float8e8m0: "float8_e8m0fnu",
}
_from_torch_cache: dict[Any, int] = {}
_to_torch_cache: dict[int, Any] = {}
_to_numpy_cache: dict[int, np.dtype[Any]] = dict(_NATIVE_NUMPY)
_from_numpy_cache: dict[np.dtype[Any], int] = {v: k for k, v in _NATIVE_NUMPY.items()}


def name(dtype: int) -> str:
    """Return the readable name of an element type: ``name(1) == "float32"``."""
    return NAMES.get(dtype, f"type{dtype}")


def is_float_type(dtype: int | None) -> bool:
    """Whether a dtype is a floating point type, including those of 4 and 8 bits."""
    return dtype in FLOAT_TYPES


def is_int_type(dtype: int | None) -> bool:
    """Whether a dtype is a signed or unsigned integer; bool is not."""
    return dtype in INT_TYPES


def is_complex_type(dtype: int | None) -> bool:
    """Whether a dtype is complex64 or complex128."""
    return dtype in COMPLEX_TYPES


def itemsize(dtype: int) -> int:
    """Return the bytes of one element (1 for unpacked elements of less than a byte).

    Raises:
        BuilderError: the type has no fixed size (string).
    """
    if dtype not in ITEMSIZE:
        raise BuilderError(f"An element of type {name(dtype)} has no fixed size.")
    return ITEMSIZE[dtype]


def to_numpy(dtype: int) -> np.dtype[Any]:
    """Return the numpy dtype of an element type; ml_dtypes provides the types that numpy lacks."""
    numpy_dtype = _to_numpy_cache.get(dtype)
    if numpy_dtype is None:
        _load_ml_dtypes()
        numpy_dtype = _to_numpy_cache.get(dtype)
        if numpy_dtype is None:
            raise BuilderError(f"Element type {name(dtype)} has no numpy equivalent.")
    return numpy_dtype


def as_array(value: Any, dtype: int) -> np.ndarray:
    """Convert a number, list or array to a dtype; large values become infinities, as in torch."""
    with np.errstate(over="ignore"):
        return np.array(value).astype(to_numpy(dtype))


def from_numpy(dtype: Any) -> int:
    """Return the element type of a numpy dtype (or anything ``numpy.dtype`` accepts)."""
    key = np.dtype(dtype)
    elem_type = _from_numpy_cache.get(key)
    if elem_type is None:
        if key.kind in "US":
            return string
        _load_ml_dtypes()
        elem_type = _from_numpy_cache.get(key.newbyteorder("="))
        if elem_type is None:
            raise BuilderError(f"numpy dtype {key} has no ONNX element type.")
    return elem_type


def from_torch(dtype: Any) -> int:
    """Return the element type of a ``torch.dtype``.

    Raises:
        UnsupportedDtype: quantized and other types that ONNX does not have.
    """
    if not _from_torch_cache:
        _load_torch()
    elem_type = _from_torch_cache.get(dtype)
    if elem_type is None:
        raise UnsupportedDtype(
            f"{dtype} has no ONNX element type; convert the tensor before",
            details="known: " + ", ".join(sorted(str(d) for d in _from_torch_cache)),
        )
    return elem_type


def torch_memory(array: Any) -> Any:
    """Return a torch tensor over the memory of a numpy array, of a dtype that both support."""
    import torch

    return torch.from_numpy(array)


def to_torch(dtype: int) -> Any:
    """Return the ``torch.dtype`` of an element type.

    Raises:
        BuilderError: torch has no such type.
    """
    if not _to_torch_cache:
        _load_torch()
    torch_dtype = _to_torch_cache.get(dtype)
    if torch_dtype is None:
        raise BuilderError(f"Element type {name(dtype)} has no torch equivalent.")
    return torch_dtype


def _load_torch() -> None:
    import torch

    for elem_type, attribute in _TORCH.items():
        torch_type = getattr(torch, attribute, None)
        if torch_type is not None:
            _to_torch_cache[elem_type] = torch_type
            _from_torch_cache[torch_type] = elem_type


def _load_ml_dtypes() -> None:
    import ml_dtypes

    for elem_type, attribute in _ML_DTYPES.items():
        scalar_type = getattr(ml_dtypes, attribute, None)
        if scalar_type is not None:
            dtype = np.dtype(scalar_type)
            _to_numpy_cache[elem_type] = dtype
            _from_numpy_cache[dtype] = elem_type
