"""Query dtypes, ranks, axes and static ints during conversion, without adding nodes.

Codegen reads the annotations: a first parameter ``Graph`` receives the graph, the other annotations
declare the kinds of values that specs may pass.
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
    "may_be_zero",
    "minimum",
    "product",
    "rank_of",
    "shape_of",
    "static",
    "transpose_perm",
]

Result = Any  # the name of a result (str), or ``res`` if the function accepts it
Results = Sequence[Any]
Tensor = Any  # a result, or the ComplexValue of a complex tensor
Tensors = Sequence[Any]
Int = int
SymInt = Dim
Float = float
Bool = bool
Str = str
Scalar = Any
Dtype = int

# values of these two types are an int or a list of ints, as torch accepts both
Ints = Any
SymInts = Any
Floats = Sequence[float]
Bools = Sequence[bool]
Strs = Sequence[str]
ResultSpec = Any
Opaque = Any


def dtype_of(graph: Graph, x: Result) -> Dtype:
    """Return the ONNX dtype of a result or ``res``, or torch's default dtype of a Python number."""
    if type(x) is str:
        return graph.get_type(x)
    if isinstance(x, bool | int | float | complex | SymDim):
        return number_dtype(x)
    return _require_known(x.dtype, "dtype")


def rank_of(graph: Graph, x: Result) -> Int:
    """Return the rank of a result or ``res``; raise an error as `shape_of` if it is unknown."""
    if type(x) is str:
        return graph.get_rank(x)
    if type(x) is ComplexValue:
        return graph.get_rank(x.real)
    return len(shape_of(graph, x))


def _require_known(fact: Any, name: str) -> Any:
    """Return a dtype or shape from torch's metadata.

    Raises:
        UnsupportedCase: the fact is None, as in a graph that was traced without example inputs.
    """
    if fact is None:
        raise UnsupportedCase(f"the {name} of its result is unknown; give example inputs (args)")
    return fact


def shape_of(graph: Graph, x: Result) -> SymInts:
    """Return the shape of a result or ``res`` as ints and symbolic ints.

    Raises:
        BuilderError: the shape of the result is unknown.
        UnsupportedCase: the shape of ``res`` is unknown.
    """
    if type(x) is str:
        return graph.get_shape(x)
    if type(x) is ComplexValue:
        return graph.get_shape(x.real)
    if isinstance(x, bool | int | float | complex | SymDim):
        return ()
    return _require_known(x.shape, "shape")


def dim_of(graph: Graph, x: Result, axis: Int) -> SymInt:
    """Return the size of one dimension; ``axis`` may be negative. A 0-d tensor has the size 1."""
    shape = shape_of(graph, x)
    return shape[normalize_axis(axis, len(shape))] if shape else 1


def count_of(graph: Graph, x: Result) -> SymInt:
    """Return the number of elements of a result."""
    return dims.product_of(shape_of(graph, x))


def may_be_zero(size: SymInt) -> Bool:
    """Whether a size may be 0 in a call of a graph of dynamo.

    Dynamo makes a graph of its own for an argument with a size of 0, so sums and products of sizes
    of arguments are not 0. Names of sizes that depend on data begin with ``u``.
    """
    if isinstance(size, int):
        return size == 0
    return any(
        coefficient < 0 or any(f.kind != "symbol" or str(f.dim).startswith("u") for f in factors)
        for coefficient, factors in dims.split_terms(size)
    )


def product(values: SymInts) -> SymInt:
    """Return the product of ints and symbolic ints; 1 for an empty list."""
    return dims.product_of(values)


def is_float(graph: Graph, x: Result) -> Bool:
    """Whether the dtype is float16, bfloat16, float32 or float64."""
    return dtypes.is_float_type(dtype_of(graph, x))


def is_int(graph: Graph, x: Result) -> Bool:
    """Whether the dtype is a signed or unsigned int, but not bool."""
    return dtypes.is_int_type(dtype_of(graph, x))


def is_bool(graph: Graph, x: Result) -> Bool:
    """Whether the dtype is bool."""
    return dtype_of(graph, x) == dtypes.boolean


def is_complex(graph: Graph, x: Result) -> Bool:
    """Whether the dtype is complex64 or complex128."""
    return dtypes.is_complex_type(dtype_of(graph, x))


def is_number(value: Scalar) -> Bool:
    """Whether a scalar is a known Python number, not a symbolic int."""
    return isinstance(value, bool | int | float | complex)


def is_static(value: Any) -> Bool:
    """Whether a number, or every int of a list, is known during conversion."""
    if isinstance(value, list | tuple):
        return all(type(item) is int for item in value)
    return not isinstance(value, SymDim | str)  # a str is a result: a number read from a tensor


def is_used(result: ResultSpec) -> Bool:
    """Whether this result of the operator has users, as in ``is_used(res[1])``."""
    return result.name != ""


def is_constant(graph: Graph, x: Result) -> Bool:
    """Whether the content of a result is known during conversion."""
    return type(x) is not str or graph.is_constant(x)


def static(value: SymInts) -> Ints:
    """Return ints for an ONNX attribute, which must be known.

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
    """Return ``count`` ints; a single int is repeated for all spatial dimensions, as in torch."""
    ints = [values] if isinstance(values, int) else list(values)
    if len(ints) == count:
        return ints
    if len(ints) != 1:
        raise BuilderError(f"{len(ints)} values were given for {count} dimensions")
    return ints * count


def axis_of(graph: Graph, x: Result, axis: Int) -> Int:
    """Return ``axis`` counted from the front; torch accepts 0 and -1 for a 0-d tensor."""
    return normalize_axis(axis, max(rank_of(graph, x), 1))


def axes_of(graph: Graph, x: Result, axes: Any) -> Ints:
    """Return sorted axes counted from the front; None and an empty list mean all axes."""
    rank = rank_of(graph, x)
    requested = [axes] if isinstance(axes, int) else list(axes or ())
    if not requested or not rank:
        # a 0-d tensor has one element and no axis, though torch accepts 0 and -1 for it
        return list(range(rank))
    return sorted(normalize_axis(axis, rank) for axis in requested)


def transpose_perm(rank: Int, first: Int, second: Int) -> Ints:
    """Return the permutation of ``rank`` axes that exchanges two of them."""
    order = list(range(rank))
    if order:
        order[first], order[second] = order[second], order[first]
    return order


def inverse_perm(permutation: Ints) -> Ints:
    """Return the inverse of ``permutation``."""
    return sorted(range(len(permutation)), key=lambda axis: permutation[axis])


def differs(left: Any, right: Any) -> Bool:
    """Whether two values are provably different; the operator ``!=`` of the spec language."""
    if isinstance(left, SymDim) or isinstance(right, SymDim):
        return dims.always_differ(left, right)
    return bool(left != right)


def dtype_min(dtype: Dtype) -> Scalar:
    """Return the smallest value of a dtype (-inf, an int's minimum, or False)."""
    if dtypes.is_float_type(dtype):
        return -math.inf
    return False if dtype == dtypes.boolean else _limits(dtype)[0]


def dtype_max(dtype: Dtype) -> Scalar:
    """Return the largest value of a dtype (inf, an int's maximum, or True)."""
    if dtypes.is_float_type(dtype):
        return math.inf
    return True if dtype == dtypes.boolean else _limits(dtype)[1]


def _limits(dtype: int) -> tuple[int, int]:
    bits = 8 * dtypes.itemsize(dtype)
    if dtype in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def maximum(*values: SymInt) -> SymInt:
    """Return the largest of ints and symbolic ints."""
    return dims.max_of(*values)


def minimum(*values: SymInt) -> SymInt:
    """Return the smallest of ints and symbolic ints."""
    return dims.min_of(*values)


def fits_attribute(graph: Graph, value: Scalar, x: Result) -> Bool:
    """Whether a float32 attribute holds a number with the precision of the dtype of ``x``."""
    return dtype_of(graph, x) != dtypes.float64 or float32_holds(float(value))


def float32_holds(value: float) -> bool:
    """Whether float32 represents a number exactly; true for NaN and infinities."""
    with np.errstate(over="ignore"):
        return not math.isfinite(value) or float(np.float32(value)) == value


def is_wide(graph: Graph, x: Result) -> Bool:
    """Whether the dtype is float32 or float64.

    In narrower dtypes, the error of one more rounding is too large to ignore.
    """
    return graph.has_type(x) and graph.get_type(x) in (dtypes.float32, dtypes.float64)
