"""Words of dtype rules, on ONNX element types: torch's promotion lattice and the types that attributes ask for.
The promotion table is written out so that a conversion never imports torch; a test compares it with torch."""

from __future__ import annotations

from typing import Any

from .dtypes import (
    bfloat16,
    boolean,
    complex64,
    complex128,
    float8e4m3fn,
    float8e4m3fnuz,
    float8e5m2,
    float8e5m2fnuz,
    float8e8m0,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    is_complex_type,
    is_float_type,
    is_int_type,
    name,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .errors import BuilderError

# Each row of torch's lattice: a type and all types that absorb it, the least first.
_INTS = (uint8, int8, int16, int32, int64)
_FLOATS = (float16, bfloat16, float32, float64)
_BAREBONES = (uint16, uint32, uint64)
_FLOAT8 = (float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0)
_RANK = {int8: 1, int16: 2, int32: 3, int64: 4}
_HALVES = (float16, bfloat16)
INDEX_TYPES = (int64, int32)
_LIMIT = {int64: 1 << 63, int32: 1 << 31}


def _promote_pair(a: int, b: int) -> int | None:
    """torch.promote_types on element types; None where torch refuses."""
    if a == b:
        return a
    if boolean in (a, b):
        return b if a == boolean else a
    if is_complex_type(a) or is_complex_type(b):
        # there is no complex type between half and single here: everything but doubles meets in complex64
        return complex128 if {a, b} & {complex128, float64} else complex64
    if is_int_type(a) and is_int_type(b):
        return _promote_ints(a, b)
    if is_float_type(a) and is_float_type(b):
        return _promote_floats(a, b)
    return a if is_float_type(a) else b


def _promote_ints(a: int, b: int) -> int | None:
    if a in _RANK and b in _RANK:
        return a if _RANK[a] > _RANK[b] else b
    if uint8 in (a, b) and (a in _RANK or b in _RANK):
        other = b if a == uint8 else a
        return int16 if other == int8 else other
    return None  # uint16, uint32, uint64 mix with nothing but themselves, bool and floats


def _promote_floats(a: int, b: int) -> int | None:
    if a in _FLOATS and b in _FLOATS:
        if a in _HALVES and b in _HALVES:
            return float32
        return max(a, b, key=_FLOATS.index)
    return None  # float8 types mix with no other float


def _promotions() -> dict[tuple[int, int], int]:
    known = (boolean, *_INTS, *_BAREBONES, *_FLOATS, *_FLOAT8, complex64, complex128)
    pairs = {(a, b): _promote_pair(a, b) for a in known for b in known}
    return {pair: found for pair, found in pairs.items() if found is not None}


PROMOTIONS = _promotions()


def promote_types(a: int | None, b: int | None) -> int | None:
    """``torch.promote_types`` on element types; None when one is unknown.

    Raises:
        BuilderError: torch has no promotion for the pair (uint16 with int8, float8 with float16).
    """
    if a == b:
        return a
    if a is None or b is None:
        return None
    found = PROMOTIONS.get((a, b))
    if found is None:
        raise BuilderError(f"torch promotes {name(a)} and {name(b)} to no common type; cast one of them")
    return found


def promote_to_float(*dtypes: int | None) -> int | None:
    """Type of an operation that computes in floating point: the promoted type, float32 when that is bool or an integer."""
    result: int | None = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote_types(result, dtype)
    if result is None or is_float_type(result) or is_complex_type(result):
        return result
    return float32


def accumulate(dtype: int | None) -> int | None:
    """Type of a sum or product: integers and bool accumulate in int64, everything else in its own type."""
    return int64 if dtype == boolean or is_int_type(dtype) else dtype


def required(attrs: dict[str, Any], key: str, op: str) -> Any:
    """The value of an attribute that ``op`` cannot do without.

    Raises:
        BuilderError: the node does not have it.
    """
    value = attrs.get(key)
    if value is None:
        raise BuilderError(f"{op} needs its attribute '{key}'")
    return value


def dtype_attr(value: Any, default: int | None = None) -> int | None:
    """The element type an attribute asks for; ``default`` when the attribute is absent or 0."""
    return int(value) if value else default


def tensor_dtype(value: Any, default: int | None = None) -> int | None:
    """Element type of a tensor attribute: a TensorProto or a numpy array; ``default`` when there is none."""
    if value is None:
        return default
    if hasattr(value, "data_type"):
        return int(value.data_type)
    from .dtypes import from_numpy

    return from_numpy(value.dtype)


def fit(dtype: int | None, value: Any) -> Any:
    """``value`` if every int of it fits ``dtype`` (int32 or int64, else nothing does): wrapped content is not known content."""
    limit = _LIMIT.get(dtype or 0)
    if limit is None or value is None:
        return None
    for item in value if type(value) is tuple else (value,):
        if type(item) is int and not -limit <= item < limit:
            return None
    return value
