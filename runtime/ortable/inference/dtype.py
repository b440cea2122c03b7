"""Dtype rules on ONNX element types: torch's promotion lattice, and dtypes that attributes set.

The promotion table is a literal, so that a conversion never imports torch; a test compares it with
torch.
"""

from __future__ import annotations

from typing import Any

from ortable.dtypes import (
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
from ortable.errors import BuilderError

_FLOATS = (float16, bfloat16, float32, float64)
_PROMOTION_RANK = {uint8: 0, int8: 1, int16: 2, int32: 3, int64: 4}
# torch promotes the wide unsigned types only to floats, and the 8-bit floats not at all.
_UNSIGNED = (uint16, uint32, uint64)
_FLOAT8 = (float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0)
INDEX_TYPES = (int64, int32)
_INT_LIMITS = {int64: 1 << 63, int32: 1 << 31}


def _promote_pair(a: int, b: int) -> int | None:
    """Compute torch.promote_types of two element types; None if torch cannot promote the pair."""
    if a == b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        return None
    if a in _FLOATS and b in _FLOATS:
        return float32 if {a, b} == {float16, bfloat16} else max(a, b, key=_FLOATS.index)
    if a in _FLOATS or b in _FLOATS:
        floating, non_floating = (a, b) if a in _FLOATS else (b, a)
        if is_complex_type(non_floating):
            return complex128 if floating == float64 else non_floating
        return floating
    if a in _UNSIGNED or b in _UNSIGNED:
        return None
    if is_complex_type(a) or is_complex_type(b):
        return complex128 if complex128 in (a, b) else complex64
    if boolean in (a, b):
        return b if a == boolean else a
    if {a, b} == {uint8, int8}:
        return int16
    return max(a, b, key=_PROMOTION_RANK.__getitem__)


def _promotion_table() -> dict[tuple[int, int], int]:
    types = (boolean, *_PROMOTION_RANK, *_UNSIGNED, *_FLOATS, *_FLOAT8, complex64, complex128)
    pairs = {(a, b): _promote_pair(a, b) for a in types for b in types}
    return {pair: result for pair, result in pairs.items() if result is not None}


PROMOTIONS = _promotion_table()


def promote_types(a: int | None, b: int | None) -> int | None:
    """Return ``torch.promote_types`` of two element types; None if one of them is unknown.

    Raises:
        BuilderError: torch has no promotion for the pair (uint16 with int8, float8 with float16).
    """
    if a == b:
        return a
    if a is None or b is None:
        return None
    result = PROMOTIONS.get((a, b))
    if result is None:
        raise BuilderError(
            f"torch promotes {name(a)} and {name(b)} to no common type; cast one of them"
        )
    return result


def promote_to_float(*dtypes: int | None) -> int | None:
    """Return the promoted dtype of a floating point operation: float32 for integers and bool."""
    result: int | None = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote_types(result, dtype)
    if result is None or is_float_type(result) or is_complex_type(result):
        return result
    return float32


def accumulate_dtype(dtype: int | None) -> int | None:
    """Return the dtype of a sum or product: int64 for integers and bool, else ``dtype`` itself."""
    return int64 if dtype == boolean or is_int_type(dtype) else dtype


def required_attribute(attrs: dict[str, Any], key: str, op: str) -> Any:
    """Return the value of an attribute that ``op`` requires.

    Raises:
        BuilderError: the node does not have the attribute.
    """
    value = attrs.get(key)
    if value is None:
        raise BuilderError(f"{op} needs its attribute '{key}'")
    return value


def dtype_attr(value: Any, default: int | None = None) -> int | None:
    """Return the element type that an attribute sets; ``default`` if it is absent or 0."""
    return int(value) if value else default


def tensor_dtype(value: Any, default: int | None = None) -> int | None:
    """Return the dtype of a tensor attribute (TensorProto or array), ``default`` without one."""
    if value is None:
        return default
    if hasattr(value, "data_type"):
        return int(value.data_type)
    from ortable.dtypes import from_numpy

    return from_numpy(value.dtype)


def fitting_value(dtype: int | None, value: Any) -> Any:
    """Return ``value`` if ``dtype`` is int32 or int64 and can hold its ints, else None."""
    limit = _INT_LIMITS.get(dtype or 0)
    if limit is None or value is None:
        return None
    for item in value if type(value) is tuple else (value,):
        if type(item) is int and not -limit <= item < limit:
            return None
    return value
