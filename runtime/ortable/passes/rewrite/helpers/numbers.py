"""Helpers about dtypes and constants of one number, for rules of all files. Unknown numbers are
NaN or None.
"""

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

# Bits of the numbers that a type holds exactly, and for floats of the exponent.
_FLOATS = {
    dtypes.bfloat16: (8, 8),
    dtypes.float16: (11, 5),
    dtypes.float32: (24, 8),
    dtypes.float64: (53, 11),
}
_SIGNED = {dtypes.int8: 8, dtypes.int16: 16, dtypes.int32: 32, dtypes.int64: 64}
_UNSIGNED = {
    dtypes.boolean: 1,
    dtypes.uint8: 8,
    dtypes.uint16: 16,
    dtypes.uint32: 32,
    dtypes.uint64: 64,
}


# -- dtypes and targets


def for_cpu(graph: Graph) -> Bool:
    """Whether the graph targets ONNX Runtime's CPU provider, whose kernels a rule may rely on."""
    return graph.target == "onnxruntime" and bool(graph.kernel_table)


def is_float32(graph: Graph, x: Result) -> Bool:
    """Whether a result is float32, the type that most fused kernels of ONNX Runtime take."""
    return graph.has_type(x) and graph.get_type(x) == dtypes.float32


def is_cast_once(first: Dtype, between: Dtype, last: Dtype) -> Bool:
    """Whether a cast to ``between`` and then to ``last`` equals the cast to ``last``.

    ``between`` must hold every value of the first type, and all must be floats, or all integers
    or bool: kernels round and saturate casts between those differently.
    """
    if last not in (_FLOATS if first in _FLOATS else {**_SIGNED, **_UNSIGNED}):
        return False
    if first in _FLOATS and between in _FLOATS:
        return all(a <= b for a, b in zip(_FLOATS[first], _FLOATS[between], strict=True))
    if first in _SIGNED and between in _SIGNED:
        return _SIGNED[first] <= _SIGNED[between]
    bits = _UNSIGNED.get(first, 99)
    return bits <= _UNSIGNED.get(between, 0) or bits < _SIGNED.get(between, 0)


# -- constants of one number


def number_of(graph: Graph, x: Result) -> Float:
    """The value of a constant of one element; NaN for any other result, so that comparisons
    fail.
    """
    one = graph.has_shape(x) and all(n == 1 for n in graph.get_shape(x))
    array = small_constant(graph, x) if one else None
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
    """Whether a float64 constant of one element changes as float32, where that matters.

    It matters where ``x`` or ``scaled``, the scaled ``x``, is or feeds a matrix product, or where
    the number would become 1.
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
    """Whether a product reads a result, transposed or not."""
    for node in graph.uses(x):
        moved = graph.uses(node.outputs[0]) if node.op_type == "Transpose" else ()
        if any(reader.key in MATMUL for reader in (node, *moved)):
            return True
    return False


# -- numbers


def is_close(a: Float, b: Float) -> Bool:
    """Whether two numbers agree to float32 precision: formulas write constants with ten digits."""
    return math.isclose(a, b, rel_tol=1e-6)


def is_moderate(value: Float) -> Bool:
    """Whether a number is finite, nonzero and far from the limits of float32, so that scaling by it
    neither overflows nor loses digits.
    """
    return math.isfinite(value) and 1e-30 < abs(value) < 1e30


def divide_or_nan(a: Float, b: Float) -> Float:
    """A quotient; NaN for a division by zero."""
    return a / b if b else float("nan")


# -- constants of many numbers


def ints_of(graph: Graph, x: Result) -> Ints:
    """The integers of a constant of rank 0 or 1; None for any other result."""
    array = small_constant(graph, x)
    if array is None or array.ndim > 1 or array.dtype.kind not in "iu":
        return None
    return [int(item) for item in array.reshape(-1)]


def int_array_or_none(graph: Graph, x: Result) -> Opaque:
    """The content of an integer result as an array, if it is known at export time."""
    info = graph.values[x]
    if info.dtype not in (dtypes.int64, dtypes.int32) or info.value is None:
        return None
    items = info.value if isinstance(info.value, tuple) else (info.value,)
    if info.shape is None or not all(type(item) is int for item in items):
        return None
    limits = np.iinfo(dtypes.to_numpy(info.dtype))
    if not all(limits.min <= item <= limits.max for item in items):
        return None  # it wraps around there
    array = np.array(items, dtype=dtypes.to_numpy(info.dtype))
    if not isinstance(info.value, tuple):
        array = array.reshape(())
    return array if array.shape == tuple(info.shape) else None


def constant_as(graph: Graph, c: Result, sizes: Ints) -> Result:
    """A constant of one element with another shape."""
    return graph.make_initializer("", graph.get_constant(c).reshape(sizes))


def int_constant(graph: Graph, value: Opaque, dtype: Dtype) -> Result:
    """An array of integers as a constant."""
    return graph.make_initializer("", value.astype(dtypes.to_numpy(dtype)))


def are_moderate(graph: Graph, c: Result) -> Bool:
    """Whether every number of a constant is moderate; False above 4,096 numbers, which are not
    read.
    """
    values = small_constant(graph, c)
    if values is None:
        return False
    sizes = np.abs(values.astype(np.float64))
    return bool(np.all((sizes > 1e-30) & (sizes < 1e30)))


def is_filled(graph: Graph, c: Result | None, value: Int) -> Bool:
    """Whether a result is ``value`` everywhere; True for one that is left out."""
    if c is None or uniform_value(graph, c) == value:
        return True
    stored = graph.initializers_dict.get(c)
    return isinstance(stored, np.ndarray) and bool(stored.size and np.all(stored == value))


def make_ones(graph: Graph, count: Ints, like: Result) -> Result:
    """A constant of ones with these sizes, of the type of ``like``."""
    dtype = dtypes.to_numpy(graph.get_type(like))
    return graph.make_initializer("", np.ones(tuple(count), dtype))
