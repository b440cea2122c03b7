"""Helpers about dtypes and one-element constants; unknown numbers are NaN or None."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.passes.analysis.uniformity import uniform_value
from ortable.prelude.facts import Bool, Dtype, Float, Int, Ints, Opaque, Result, float32_holds
from ortable_generated.onnx.traits import MATMUL

__all__ = [
    "are_moderate",
    "constant_as",
    "for_cpu",
    "int_array_or_none",
    "int_constant",
    "ints_of",
    "is_cast_once",
    "is_filled",
    "is_float32",
    "is_plus_zero",
    "is_rounded_in_float32",
    "make_ones",
    "number_of",
]

# The width of each dtype in bits; for floats, the bits of the significand and of the exponent.
_FLOAT_BITS = {
    dtypes.bfloat16: (8, 8),
    dtypes.float16: (11, 5),
    dtypes.float32: (24, 8),
    dtypes.float64: (53, 11),
}
_SIGNED_BITS = {dtypes.int8: 8, dtypes.int16: 16, dtypes.int32: 32, dtypes.int64: 64}
_UNSIGNED_BITS = {
    dtypes.boolean: 1,
    dtypes.uint8: 8,
    dtypes.uint16: 16,
    dtypes.uint32: 32,
    dtypes.uint64: 64,
}


# -- dtypes and targets


def for_cpu(graph: Graph) -> Bool:
    """Whether the graph targets ONNX Runtime and has a kernel table, so kernels are known."""
    return graph.target == "onnxruntime" and bool(graph.kernel_table)


def is_float32(graph: Graph, x: Result) -> Bool:
    """Whether a result is float32, the dtype that most fused kernels of ONNX Runtime require."""
    return graph.has_type(x) and graph.get_type(x) == dtypes.float32


def is_cast_once(first: Dtype, between: Dtype, last: Dtype) -> Bool:
    """Whether a cast to ``between`` and then to ``last`` equals the cast to ``last``.

    ``between`` must represent every value of the first type. All types must be floats, or all
    integers or bool, because kernels round and saturate casts between floats and integers
    differently.
    """
    if last not in (_FLOAT_BITS if first in _FLOAT_BITS else {**_SIGNED_BITS, **_UNSIGNED_BITS}):
        return False
    if first in _FLOAT_BITS and between in _FLOAT_BITS:
        return all(a <= b for a, b in zip(_FLOAT_BITS[first], _FLOAT_BITS[between], strict=True))
    if first in _SIGNED_BITS and between in _SIGNED_BITS:
        return _SIGNED_BITS[first] <= _SIGNED_BITS[between]
    bits = _UNSIGNED_BITS.get(first, 99)
    return bits <= _UNSIGNED_BITS.get(between, 0) or bits < _SIGNED_BITS.get(between, 0)


# -- constants of one number


def number_of(graph: Graph, x: Result) -> Float:
    """Return the value of a one-element constant; NaN for any other result."""
    is_single = graph.has_shape(x) and all(n == 1 for n in graph.get_shape(x))
    array = small_constant(graph, x) if is_single else None
    if array is None or array.size != 1 or array.dtype.kind not in "fiub":
        return float("nan")
    return array.reshape(-1)[0].item()


def is_plus_zero(graph: Graph, x: Result) -> Bool:
    """Whether a result is a constant of one element that is +0.0."""
    array = small_constant(graph, x)
    if array is None or array.size != 1 or array.dtype.kind not in "fiu":
        return False
    value = array.reshape(-1)[0]
    return bool(value == 0) and not bool(np.signbit(value))


def is_rounded_in_float32(graph: Graph, c: Result, x: Result, scaled: Result) -> Bool:
    """Whether a rule must not cast the float64 factor ``c`` of ``x`` to float32.

    That is the case if the cast changes the number, and ``x`` is the result of a matrix product,
    ``scaled``, the scaled ``x``, is the input of one, or the number would become 1.
    """
    if not graph.has_type(x) or graph.get_type(x) != dtypes.float64:
        return False
    value = number_of(graph, c)
    if float32_holds(value):
        return False
    with np.errstate(over="ignore"):
        is_one = np.float32(value) == 1
    return bool(is_one) or _is_product(graph, x) or _feeds_product(graph, scaled)


def _is_product(graph: Graph, x: Result) -> bool:
    value = graph.values.get(x)
    node = None if value is None else value.producer
    return node is not None and node.key in MATMUL


def _feeds_product(graph: Graph, x: Result) -> bool:
    """Whether a matrix product reads a result, directly or after a Transpose."""
    for node in graph.uses(x):
        transpose_readers = graph.uses(node.outputs[0]) if node.op_type == "Transpose" else ()
        if any(reader.key in MATMUL for reader in (node, *transpose_readers)):
            return True
    return False


# -- numbers


def is_close(a: Float, b: Float) -> Bool:
    """Whether two numbers agree to six digits; constants in models are rounded decimals."""
    return math.isclose(a, b, rel_tol=1e-6)


def is_moderate(value: Float) -> Bool:
    """Whether scaling by a number neither overflows float32 nor loses digits."""
    return math.isfinite(value) and 1e-30 < abs(value) < 1e30


def divide_or_nan(a: Float, b: Float) -> Float:
    """Return the quotient; NaN for a division by zero."""
    return a / b if b else float("nan")


# -- constants of many numbers


def ints_of(graph: Graph, x: Result) -> Ints:
    """Return the integers of a constant of rank 0 or 1; None for any other result."""
    array = small_constant(graph, x)
    if array is None or array.ndim > 1 or array.dtype.kind not in "iu":
        return None
    return [int(item) for item in array.reshape(-1)]


def int_array_or_none(graph: Graph, x: Result) -> Opaque:
    """Return the content of an integer result as an array if it is known at export time."""
    info = graph.values[x]
    if info.dtype not in (dtypes.int64, dtypes.int32) or info.value is None:
        return None
    items = info.value if isinstance(info.value, tuple) else (info.value,)
    if info.shape is None or not all(type(item) is int for item in items):
        return None
    limits = np.iinfo(dtypes.to_numpy(info.dtype))
    if not all(limits.min <= item <= limits.max for item in items):
        return None  # the value overflows the dtype
    array = np.array(items, dtype=dtypes.to_numpy(info.dtype))
    if not isinstance(info.value, tuple):
        array = array.reshape(())
    return array if array.shape == tuple(info.shape) else None


def constant_as(graph: Graph, c: Result, sizes: Ints) -> Result:
    """Return a one-element constant with another shape."""
    return graph.make_initializer("", graph.get_constant(c).reshape(sizes))


def int_constant(graph: Graph, value: Opaque, dtype: Dtype) -> Result:
    """Make a constant of an array of integers."""
    return graph.make_initializer("", value.astype(dtypes.to_numpy(dtype)))


def are_moderate(graph: Graph, c: Result) -> Bool:
    """Whether `is_moderate` is true for every number of a constant; False above 4,096 numbers."""
    values = small_constant(graph, c)
    if values is None:
        return False
    magnitudes = np.abs(values.astype(np.float64))
    return bool(np.all((magnitudes > 1e-30) & (magnitudes < 1e30)))


def is_filled(graph: Graph, c: Result | None, value: Int) -> Bool:
    """Whether every element of a result is ``value``; True for an omitted result."""
    if c is None or uniform_value(graph, c) == value:
        return True
    stored = graph.initializers_dict.get(c)
    return isinstance(stored, np.ndarray) and bool(stored.size and np.all(stored == value))


def make_ones(graph: Graph, count: Ints, like: Result) -> Result:
    """Make a constant of ones with these sizes and the dtype of ``like``."""
    dtype = dtypes.to_numpy(graph.get_type(like))
    return graph.make_initializer("", np.ones(tuple(count), dtype))
