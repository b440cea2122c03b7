"""Return results of the graph for constants, casts, and shapes as int64 vectors.

Each function may add no node, one node, or several nodes. The names of the functions are lower
case, because capitalized names in specs are ONNX operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph

from .complex_value import by_parts
from .facts import Dtype, Ints, Result, Results, Scalar, SymInts, Tensor, rank_of, shape_of
from .metadata import number_dtype

__all__ = [
    "as_scalar",
    "as_tensor",
    "as_vec",
    "at_least_1d",
    "cast",
    "cast_all",
    "const",
    "consts",
    "cropped",
    "filled",
    "permuted",
    "reshape_to",
    "squeezed",
    "unsqueezed",
    "with_rank_of",
]


_MIN_E5M2_INFINITY = 61440  # the smallest number that float8_e5m2 rounds to infinity


def const(graph: Graph, value: Scalar, dtype: Dtype) -> Result:
    """Return a 0-d constant of a number; a 0-d result for a symbolic int or a tensor's number."""
    if type(value) is str:
        return cast(graph, value, dtype)
    if isinstance(value, SymDim):
        return cast(graph, as_scalar(graph, value), dtype)
    if type(value) is complex:
        raise UnsupportedCase(f"the complex number {value} where a real number is required")
    return graph.make_initializer("", dtypes.as_array(value, dtype))


def consts(graph: Graph, values: Any, dtype: Dtype) -> Result:
    """Return a 1-d constant of known numbers."""
    return graph.make_initializer("", dtypes.as_array(values, dtype).reshape(-1))


def cast(graph: Graph, x: Result, dtype: Dtype | None) -> Result:
    """Cast ``x`` to ``dtype``; no node if it has that dtype already, or ``dtype`` is None."""
    if dtype is None:
        return x
    current = graph.get_type(x)
    if current == dtype:
        return x
    if dtype in dtypes.FLOAT8_TYPES:
        return _to_float8(graph, x, dtype)
    if current in dtypes.FLOAT8_TYPES and dtype != dtypes.float32:
        # ONNX Runtime casts a float8 -0 to True
        x = graph.make_node("Cast", [x], to=dtypes.float32)
    return x if dtype == graph.get_type(x) else graph.make_node("Cast", [x], to=dtype)


def _to_float8(graph: Graph, x: Result, dtype: Dtype) -> Result:
    """Cast ``x`` to an 8-bit float type with torch's rounding.

    Numbers out of range become the largest number of float8_e4m3fn, infinite in float8_e5m2 (where
    ONNX Runtime gives NaN), and NaN in the other types. Raises UnsupportedCase for float8_e8m0fnu,
    the powers of two, which ONNX Runtime rounds differently.
    """
    if graph.opset < 19:
        raise UnsupportedCase("8-bit floats, which ONNX has from opset 19 on")
    if dtype == dtypes.float8e8m0:
        raise UnsupportedCase("a cast to float8_e8m0fnu, which ONNX Runtime rounds differently")
    if graph.get_type(x) != dtypes.float32:
        # torch rounds twice, too: a float64 just below a limit rounds to it in float32
        x = graph.make_node("Cast", [x], to=dtypes.float32)
    if dtype == dtypes.float8e4m3fn:
        return graph.make_node("Cast", [x], to=dtype)
    if dtype == dtypes.float8e5m2:
        magnitude = graph.make_node("Abs", [x])
        limit = const(graph, _MIN_E5M2_INFINITY, dtypes.float32)
        is_large = graph.make_node("GreaterOrEqual", [magnitude, limit])
        scaled_to_inf = graph.make_node("Mul", [x, const(graph, float("inf"), dtypes.float32)])
        x = graph.make_node("Where", [is_large, scaled_to_inf, x])
    return graph.make_node("Cast", [x], to=dtype, saturate=0)


def as_vec(graph: Graph, value: SymInts) -> Result:
    """Convert an int, a symbolic int, or a list of them to a 1-d int64 result."""
    if isinstance(value, int):
        return consts(graph, [value], dtypes.int64)
    if not isinstance(value, list | tuple):
        return graph.dim_as_vector(value)
    if all(isinstance(size, int) for size in value):
        return consts(graph, list(value), dtypes.int64)
    if any(isinstance(size, int) and size < 0 for size in value):
        # the builder rejects a size of -1 in a shape
        return graph.make_node("Concat", [as_vec(graph, size) for size in value], axis=0)
    return graph.shape_as_vector(value)


def as_scalar(graph: Graph, value: Any) -> Result:
    """Convert an int or symbolic int to a 0-d int64 result."""
    if isinstance(value, SymDim):
        scalar = graph.materializer.find_scalar(value)
        if scalar is not None:
            return scalar
        return graph.make_node(
            "Squeeze", [graph.dim_as_vector(value), consts(graph, [0], dtypes.int64)]
        )
    return const(graph, value, dtypes.int64)


def as_tensor(graph: Graph, value: Any, dtype: Dtype | None = None) -> Result | None:
    """Convert a number or symbolic int to a 0-d result; cast a tensor to ``dtype``, if given."""
    if value is None:
        return None
    if type(value) is str:
        return cast(graph, value, graph.numbers.get(value) if dtype is None else dtype)
    return const(graph, value, number_dtype(value) if dtype is None else dtype)


@by_parts
def reshape_to(graph: Graph, x: Tensor, shape: SymInts) -> Tensor:
    """Reshape ``x`` to ``shape``.

    Symbolic sizes are read at run time, -1 is inferred, and 0 is an empty dimension.
    """
    if tuple(shape) == tuple(graph.get_shape(x) if graph.has_shape(x) else (None,)):
        return x
    if _has_shape(graph, x, shape):
        return x
    symbolic = [axis for axis, size in enumerate(shape) if isinstance(size, SymDim)]
    sizes = list(shape)
    if len(symbolic) == 1 and -1 not in sizes and 0 not in sizes:
        # ONNX infers a single symbolic size, so that no node is needed to compute it
        sizes[symbolic[0]] = -1
    allowzero = 1 if 0 in sizes or any(isinstance(size, SymDim) for size in sizes) else 0
    if allowzero and -1 in sizes:
        sizes, allowzero = _fill_inferred_size(graph, x, sizes)
    result = graph.make_node("Reshape", [x, as_vec(graph, sizes)], allowzero=allowzero or None)
    if not graph.has_shape(result) and -1 not in shape:
        graph.set_shape(result, tuple(shape))
    return result


def _has_shape(graph: Graph, x: str, shape: Sequence[Any]) -> bool:
    """Whether ``x`` has the sizes of ``shape``, which contains -1 for a size to infer."""
    if not graph.has_shape(x) or -1 not in shape:
        return False
    current = graph.get_shape(x)
    return len(current) == len(shape) and all(
        (type(size) is int and size == -1) or dims.always_equal(size, current_size)
        for size, current_size in zip(shape, current, strict=True)
    )


def _fill_inferred_size(graph: Graph, x: str, sizes: list[Any]) -> tuple[list[Any], int]:
    """Return sizes and allowzero, without -1 if a size is 0: with allowzero, ONNX forbids both."""
    product: Any = 1
    for size in sizes:
        product = product if size == -1 and type(size) is int else product * size
    if isinstance(product, int) and product == 0:
        raise UnsupportedCase(f"a shape {sizes} with both -1 and 0 does not determine the -1")
    if 0 not in sizes:
        return sizes, 0
    total = 1
    for size in shape_of(graph, x):
        total = total * size
    return [total // product if type(size) is int and size == -1 else size for size in sizes], 1


def filled(graph: Graph, shape: SymInts, value: Scalar, dtype: Dtype) -> Result:
    """Return a result of ``shape`` that holds one value everywhere."""
    element = const(graph, value, dtype)
    return (
        element
        if len(shape) == 0
        else graph.make_node("Expand", [element, as_vec(graph, list(shape))])
    )


@by_parts
def permuted(graph: Graph, x: Tensor, perm: Ints) -> Tensor:
    """Permute the axes of ``x``; no node if the order stays.

    If ``x`` is a transposed result, its source is permuted instead: the first Transpose is needed
    only by its other readers.
    """
    order = list(perm)
    value = graph.values.get(x)
    producer = None if value is None else value.producer
    if producer is not None and producer.op_type == "Transpose" and not producer.domain:
        first_perm = producer.attrs.get("perm")
        if first_perm is not None and producer.inputs[0] in graph.values:
            x, order = producer.inputs[0], [first_perm[axis] for axis in order]
    if order == list(range(len(order))):
        return x
    return graph.make_node("Transpose", [x], perm=order)


@by_parts
def unsqueezed(graph: Graph, x: Tensor, axes: Ints) -> Tensor:
    """Insert new axes of size 1; no node for an empty list."""
    return (
        x
        if not axes
        else graph.make_node("Unsqueeze", [x, consts(graph, list(axes), dtypes.int64)])
    )


@by_parts
def squeezed(graph: Graph, x: Tensor, axes: Ints) -> Tensor:
    """Remove these axes of size 1; no node for an empty list."""
    return (
        x if not axes else graph.make_node("Squeeze", [x, consts(graph, list(axes), dtypes.int64)])
    )


@by_parts
def at_least_1d(graph: Graph, x: Tensor) -> Tensor:
    """Convert a 0-d result to 1-d; others are returned unchanged."""
    return unsqueezed(graph, x, [0]) if rank_of(graph, x) == 0 else x


@by_parts
def with_rank_of(graph: Graph, x: Tensor, like: Result) -> Tensor:
    """Convert ``x`` back to 0-d if ``like`` is 0-d, the inverse of ``at_least_1d``."""
    return squeezed(graph, x, [0]) if rank_of(graph, like) == 0 else x


def cast_all(graph: Graph, xs: Results, dtype: Dtype) -> Results:
    """Cast every result of a list to one dtype."""
    return [cast(graph, x, dtype) for x in xs]


@by_parts
def cropped(graph: Graph, x: Tensor, sizes: SymInts) -> Tensor:
    """Return the first ``sizes`` elements along the last dimensions; no node if all remain."""
    current_sizes = shape_of(graph, x)[-len(sizes) :]
    if tuple(current_sizes) == tuple(sizes):
        return x
    first_axis = rank_of(graph, x) - len(sizes)
    axes = consts(graph, list(range(first_axis, first_axis + len(sizes))), dtypes.int64)
    return graph.make_node(
        "Slice",
        [x, consts(graph, [0] * len(sizes), dtypes.int64), as_vec(graph, list(sizes)), axes],
    )
