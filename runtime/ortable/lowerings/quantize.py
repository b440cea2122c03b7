"""Provide functions that the lowerings of torch's and torchao's quantization operators call.

They make nodes for fake quantization and quantized values (*codes*), and compute the shapes and
axes of blockwise quantization.
"""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    dim_of,
    dtype_max,
    dtype_min,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.quantized import constant_array, source_before_cast, zero_codes
from ortable.prelude.values import cast, const, reshape_to

__all__ = [
    "as_nibbles",
    "block_axes",
    "block_shape",
    "channel_axis",
    "codes_dtype_of",
    "codes_of",
    "fake_quantized",
    "float32_below",
    "group_length",
    "has_codes",
    "has_scale_per_group",
    "is_dequantized",
    "known_as",
    "rows_of",
    "through_codes",
    "within",
]


def fake_quantized(
    graph: Graph,
    x: Result,
    scale: Result,
    zero_point: Result,
    low: Int,
    high: Int,
    in_scale_dtype: Bool = False,
    round_sum: Bool = False,
) -> Results:
    """Quantize ``x`` to codes between ``low`` and ``high`` and dequantize the codes.

    With ``in_scale_dtype``, the dequantizing product is computed in the dtype of the scale, else in
    the compute dtype of ``x``. With ``round_sum``, the zero point is added before rounding, as
    torch does with zero points that are floats per channel.

    Returns:
        [result, mask of unclipped codes].
    """
    op, dtype = OpBuilder(graph), opmath_dtype(graph.get_type(x))
    inverse = cast(graph, op.Div(1, scale), dtype)
    zero_point = cast(graph, zero_point, dtype)
    product_dtype = graph.get_type(scale) if in_scale_dtype else dtype
    bounds = [const(graph, low, dtype), const(graph, high, dtype)]
    steps = op.Mul(cast(graph, x, dtype), inverse)
    if round_sum:
        codes = op.Round(op.Add(steps, zero_point))
    else:
        codes = op.Add(op.Round(steps), zero_point)
    shifted = op.Sub(op.Clip(codes, *bounds), zero_point)
    result = op.Mul(cast(graph, shifted, product_dtype), cast(graph, scale, product_dtype))
    result = cast(graph, result, graph.get_type(x))
    outside = op.Or(op.Less(codes, bounds[0]), op.Greater(codes, bounds[1]))
    return [result, op.Not(outside)]


def float32_below(value: Float) -> Float:
    """Return the greatest float32 that is at most ``value``."""
    nearest = np.float32(value)
    return float(nearest if float(nearest) <= value else np.nextafter(nearest, np.float32(-np.inf)))


def known_as(graph: Graph, x: Result, shape: Ints) -> Result:
    """Reshape ``x``; for a constant, return a reshaped constant and make no Reshape."""
    array = constant_array(graph, x)
    if array is None:
        return reshape_to(graph, x, shape)
    return graph.make_initializer("", array.reshape(shape))


def has_codes(graph: Graph, x: Result, zero_point: Result) -> Bool:
    """Whether a DynamicQuantizeLinear of ``x`` computed the zero point."""
    node = graph.values[source_before_cast(graph, zero_point)].producer
    is_dynamic = node is not None and node.op_type == "DynamicQuantizeLinear"
    return is_dynamic and node.inputs[0] == x


def codes_of(graph: Graph, zero_point: Result) -> Result:
    """Return the codes of the DynamicQuantizeLinear that computed a zero point; see `has_codes`."""
    return graph.values[source_before_cast(graph, zero_point)].producer.outputs[0]


def codes_dtype_of(low: Int, high: Int) -> Dtype:
    """Return the smallest integer dtype of codes between two bounds; int32 beyond 16 bits."""
    candidates = [dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16]
    for dtype in candidates:
        if dtype_min(dtype) <= low and high <= dtype_max(dtype):
            return dtype
    return dtypes.int32


def within(graph: Graph, codes: Result, low: Int, high: Int) -> Result:
    """Clip integer codes to two bounds; make no node if these cover the range of the dtype.

    The codes are clipped, not the dequantized values, because ONNX Runtime fuses DequantizeLinear,
    an operator and the next QuantizeLinear into an integer kernel. A Clip of the codes comes after
    this pattern.
    """
    dtype = graph.get_type(codes)
    if low <= dtype_min(dtype) and high >= dtype_max(dtype):
        return codes
    bounds = [const(graph, low, dtype), const(graph, high, dtype)]
    return OpBuilder(graph).Clip(codes, *bounds)


def through_codes(
    graph: Graph,
    x: Result,
    scale: Result,
    zero_point: Result,
    dtype: Dtype,
    low: Int,
    high: Int,
    axis: Int = 0,
) -> Result:
    """Quantize ``x`` to codes of a dtype between two bounds, and dequantize the codes.

    Scales and zero points are 0-d, or have an element for each position of ``axis``.
    """
    op, attributes = OpBuilder(graph), {"axis": axis} if rank_of(graph, scale) else {}
    zero = zero_codes(graph, zero_point, dtype)
    codes = within(graph, op.QuantizeLinear(x, scale, zero, **attributes), low, high)
    return op.DequantizeLinear(codes, scale, zero, **attributes)


def is_dequantized(graph: Graph, x: Result) -> Bool:
    """Whether a float result is the result of a DequantizeLinear."""
    node = graph.values[x].producer
    return node is not None and node.op_type == "DequantizeLinear"


def rows_of(graph: Graph, x: Result) -> Result:
    """Reshape ``x`` to a matrix [rows, last dimension].

    If ``x`` is dequantized with one scale, the codes are reshaped instead, so that DequantizeLinear
    stays next to its users.
    """
    sizes = [-1, dim_of(graph, x, -1)]
    node = graph.values[x].producer
    if not is_dequantized(graph, x) or rank_of(graph, node.inputs[1]) > 0:
        return reshape_to(graph, x, sizes)
    codes = reshape_to(graph, node.inputs[0], sizes)
    return OpBuilder(graph).DequantizeLinear(codes, *node.inputs[1:])


def block_shape(graph: Graph, x: Result, block: SymInts, reduced: Bool = False) -> SymInts:
    """Return the shape of ``x`` after splitting dimensions into blocks and elements of a block.

    A dimension is not split if it is one block or its blocks have one element. [4, 64] with blocks
    of [1, 32] becomes [4, 2, 32]. With ``reduced``, the sizes inside blocks are 1: [4, 2, 1], the
    shape of the scales.
    """
    sizes: list[dims.Dim] = []
    for size, step in zip(shape_of(graph, x), block, strict=True):
        if dims.always_equal(size, step):
            sizes.append(1 if reduced else size)
        elif step == 1:
            sizes.append(size)
        else:
            sizes += [size // step, 1 if reduced else step]
    return sizes


def block_axes(graph: Graph, x: Result, block: SymInts) -> Ints:
    """Return the axes of `block_shape` that are inside a block: [2] for blocks of [1, 32]."""
    axes: list[int] = []
    axis = 0
    for size, step in zip(shape_of(graph, x), block, strict=True):
        if dims.always_equal(size, step) or step == 1:
            if step != 1:
                axes.append(axis)
            axis += 1
        else:
            axes.append(axis + 1)
            axis += 2
    return axes


def channel_axis(graph: Graph, x: Result, block: SymInts) -> Int:
    """Return the axis with one block for each element if all other axes have one block, else -1."""
    sizes = list(zip(shape_of(graph, x), block, strict=True))
    blocked = [axis for axis, (size, step) in enumerate(sizes) if not dims.always_equal(size, step)]
    return blocked[0] if len(blocked) == 1 and sizes[blocked[0]][1] == 1 else -1


def group_length(graph: Graph, x: Result, scales: Result, group_size: Int) -> SymInt:
    """Return the number of elements that share a scale: ``group_size``, or all of a shorter row."""
    if dims.always_differ(dim_of(graph, scales, -1), 1):
        return group_size
    # torch rejects a longer row whose length is not a multiple of group_size
    return dims.min_of(group_size, dim_of(graph, x, -1))


def has_scale_per_group(
    graph: Graph, x: Result, scales: Result, zero_points: Result | None, size: SymInt
) -> Bool:
    """Whether each group of ``size`` elements of a matrix has its own scale and zero point.

    False if ``size`` is not static.
    """
    shapes = [shape_of(graph, tensor) for tensor in (scales, zero_points) if tensor is not None]
    x_shape = shape_of(graph, x)
    return isinstance(size, int) and all(
        len(shape) == len(x_shape) == 2
        and dims.always_equal(shape[0], x_shape[0])
        and dims.always_equal(shape[1] * size, x_shape[1])
        for shape in shapes
    )


def as_nibbles(graph: Graph, codes: Result, zero_points: Result | None) -> Result:
    """Convert constant codes to int4 if they and constant zero points fit; else return them."""
    for name in (codes, zero_points):
        value = _constant_codes(graph, name)
        if value is None or (value.size and (value.min() < -8 or value.max() > 7)):
            return codes
    int4_codes = _constant_codes(graph, codes).astype(dtypes.to_numpy(dtypes.int4))  # type: ignore[union-attr]
    return graph.make_initializer(graph.unique_name(f"{codes}_int4"), int4_codes)


def _constant_codes(graph: Graph, name: str | None) -> np.ndarray | None:
    """Return the data of a constant, 0 for no tensor, else None."""
    if name is None:
        return np.zeros((), np.int8)
    try:
        return graph.get_constant(name) if graph.is_constant(name) else None
    except BuilderError:
        return None  # the constant has no data
