"""Functions of the spec language that answer while converting: dtypes, ranks, axes, static ints.
They add no nodes.

Codegen reads the annotations: ``Graph`` first means that the function gets the graph, the others
say what a value must be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim, SymDim
from ortable.errors import BuilderError, UnsupportedCase
from ortable.inference import normalize_axis
from ortable.ir import Graph

from .complex_value import ComplexValue
from .metadata import number_dtype

__all__ = [
    "axes_of",
    "axis_of",
    "broadcast_ints",
    "count_of",
    "differs",
    "dim_of",
    "dtype_max",
    "dtype_min",
    "dtype_of",
    "fits_attribute",
    "is_bool",
    "is_complex",
    "is_constant",
    "is_float",
    "is_int",
    "is_number",
    "is_static",
    "is_used",
    "is_wide",
    "maximum",
    "minimum",
    "product",
    "rank_of",
    "shape_of",
    "static",
    "transpose_perm",
]


Result = Any  # the name of a result (str); ``res`` where a word says so


Results = Sequence[Any]


Tensor = Any  # a result, or the pair of a complex tensor


Tensors = Sequence[Any]


Int = int


SymInt = Dim


Float = float


Bool = bool


Str = str


Scalar = Any


Dtype = int

# torch accepts one int for a list of them, so values of these classes are either
Ints = Any


SymInts = Any


Floats = Sequence[float]


Bools = Sequence[bool]


Strs = Sequence[str]


ResultSpec = Any


Opaque = Any


def dtype_of(graph: Graph, x: Result) -> Dtype:
    """The ONNX dtype of a result, of ``res``, or of a Python number (torch's default for it)."""
    if type(x) is str:
        return graph.get_type(x)
    if isinstance(x, bool | int | float | complex | SymDim):
        return number_dtype(x)
    return _require_known(x.dtype, "dtype")


def rank_of(graph: Graph, x: Result) -> Int:
    """How many dimensions a result or ``res`` has; BuilderError when that is unknown."""
    if type(x) is str:
        return graph.get_rank(x)
    if type(x) is ComplexValue:
        return graph.get_rank(x.real)
    return len(shape_of(graph, x))


def _require_known(fact: Any, name: str) -> Any:
    """Return a dtype or shape that torch's metadata must have.

    Raises:
        UnsupportedCase: it is None, in a graph that was traced without example inputs.
    """
    if fact is None:
        raise UnsupportedCase(f"the {name} of its result is unknown; give example inputs (args)")
    return fact


def shape_of(graph: Graph, x: Result) -> SymInts:
    """The shape of a result or ``res``: ints and symbolic ints.

    Raises:
        BuilderError: the shape of a result is not known.
        UnsupportedCase: that of ``res`` is not known.
    """
    if type(x) is str:
        return graph.get_shape(x)
    if type(x) is ComplexValue:
        return graph.get_shape(x.real)
    if isinstance(x, bool | int | float | complex | SymDim):
        return ()
    return _require_known(x.shape, "shape")


def dim_of(graph: Graph, x: Result, axis: Int) -> SymInt:
    """The size of one dimension; ``axis`` may be negative. A 0-d tensor has one of size 1."""
    shape = shape_of(graph, x)
    return shape[normalize_axis(axis, len(shape))] if shape else 1


def count_of(graph: Graph, x: Result) -> SymInt:
    """How many elements a result has."""
    return dims.product_of(shape_of(graph, x))


def product(values: SymInts) -> SymInt:
    """The product of ints and symbolic ints; 1 for an empty list."""
    return dims.product_of(values)


def is_float(graph: Graph, x: Result) -> Bool:
    """True for float16, bfloat16, float32, float64."""
    return dtypes.is_float_type(dtype_of(graph, x))


def is_int(graph: Graph, x: Result) -> Bool:
    """True for the signed and unsigned ints, not for bool."""
    return dtypes.is_int_type(dtype_of(graph, x))


def is_bool(graph: Graph, x: Result) -> Bool:
    """True for bool."""
    return dtype_of(graph, x) == dtypes.boolean


def is_complex(graph: Graph, x: Result) -> Bool:
    """True for complex64 and complex128."""
    return dtypes.is_complex_type(dtype_of(graph, x))


def is_number(value: Scalar) -> Bool:
    """True when a scalar is a known Python number, not a symbolic int."""
    return isinstance(value, bool | int | float | complex)


def is_static(value: Any) -> Bool:
    """True when a number, or every int of a list, is known while converting."""
    if isinstance(value, list | tuple):
        return all(type(item) is int for item in value)
    return not isinstance(value, SymDim | str)  # a str: a result, a number read from a tensor


def is_used(result: ResultSpec) -> Bool:
    """True when this result of the operator has users: ``is_used(res[1])``."""
    return result.name != ""


def is_constant(graph: Graph, x: Result) -> Bool:
    """True when the content of a result is known while converting."""
    return type(x) is not str or graph.is_constant(x)


def static(value: SymInts) -> Ints:
    """Known ints, for an ONNX attribute.

    Raises:
        UnsupportedCase: a value is symbolic; ONNX attributes cannot depend on a dynamic dimension.
    """
    if isinstance(value, list | tuple):
        return [static(item) for item in value]  # type: ignore[misc]
    if isinstance(value, SymDim):
        raise UnsupportedCase(
            f"an ONNX attribute needs a known int, this one is the dynamic dimension '{value}'",
            (value,),
        )
    return value


def broadcast_ints(values: Ints, count: Int) -> Ints:
    """``count`` ints: torch accepts one int, or a list of one, for all spatial dimensions."""
    ints = [values] if isinstance(values, int) else list(values)
    if len(ints) == count:
        return ints
    if len(ints) != 1:
        raise BuilderError(f"{len(ints)} values were given for {count} dimensions")
    return ints * count


def axis_of(graph: Graph, x: Result, axis: Int) -> Int:
    """``axis`` counted from the front; torch accepts 0 and -1 for a 0-d tensor."""
    return normalize_axis(axis, max(rank_of(graph, x), 1))


def axes_of(graph: Graph, x: Result, axes: Any) -> Ints:
    """Sorted axes counted from the front; None and an empty list mean all of them."""
    rank = rank_of(graph, x)
    requested = [axes] if isinstance(axes, int) else list(axes or ())
    if not requested or not rank:
        # a 0-d tensor has one element and no axis, though torch accepts 0 and -1 for it
        return list(range(rank))
    return sorted(normalize_axis(axis, rank) for axis in requested)


def transpose_perm(rank: Int, first: Int, second: Int) -> Ints:
    """The permutation of ``rank`` axes that exchanges two of them."""
    order = list(range(rank))
    if order:
        order[first], order[second] = order[second], order[first]
    return order


def inverse_perm(permutation: Ints) -> Ints:
    """The permutation that undoes ``permutation``."""
    return sorted(range(len(permutation)), key=lambda axis: permutation[axis])


def differs(left: Any, right: Any) -> Bool:
    """True only when two values are provably different; what ``!=`` of the language becomes."""
    if isinstance(left, SymDim) or isinstance(right, SymDim):
        return dims.always_differ(left, right)
    return bool(left != right)


def dtype_min(dtype: Dtype) -> Scalar:
    """The smallest value of a dtype: -inf, an int's minimum, False."""
    if dtypes.is_float_type(dtype):
        return -math.inf
    return False if dtype == dtypes.boolean else _limits(dtype)[0]


def dtype_max(dtype: Dtype) -> Scalar:
    """The largest value of a dtype: inf, an int's maximum, True."""
    if dtypes.is_float_type(dtype):
        return math.inf
    return True if dtype == dtypes.boolean else _limits(dtype)[1]


def _limits(dtype: int) -> tuple[int, int]:
    bits = 8 * dtypes.itemsize(dtype)
    if dtype in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def maximum(*values: SymInt) -> SymInt:
    """The largest of ints and symbolic ints."""
    return dims.max_of(*values)


def minimum(*values: SymInt) -> SymInt:
    """The smallest of ints and symbolic ints."""
    return dims.min_of(*values)


def fits_attribute(graph: Graph, value: Scalar, x: Result) -> Bool:
    """True when a float32 attribute holds a number as exactly as ``x`` computes with it."""
    return dtype_of(graph, x) != dtypes.float64 or float32_holds(float(value))


def float32_holds(value: float) -> bool:
    """True for a number that float32 has; NaN and infinities are among them."""
    with np.errstate(over="ignore"):
        return not math.isfinite(value) or float(np.float32(value)) == value


def is_wide(graph: Graph, x: Result) -> Bool:
    """True for float32 and float64: in a narrower type, two roundings instead of one are more than
    rounding."""
    return graph.has_type(x) and graph.get_type(x) in (dtypes.float32, dtypes.float64)
