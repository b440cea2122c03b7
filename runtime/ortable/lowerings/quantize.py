"""Quantization: fake quantization, integer codes with their scales and zero points, and codes whose
scale is that of a block of elements. Used by converters of torch's and torchao's operators.
"""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
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
from ortable.prelude.quantized import constant_array, source_before_cast
from ortable.prelude.values import cast, const, reshape_to

__all__ = [
    "as_nibbles",
    "block_axes",
    "block_shape",
    "channel_axis",
    "codes_of",
    "fake_quantized",
    "float32_below",
    "group_length",
    "has_codes",
    "has_scale_per_group",
    "is_dequantized",
    "known_as",
    "one_scale",
    "rows_of",
    "within",
]


def fake_quantized(
    graph: Graph, x: Result, factor: Result, zero: Result, low: Int, high: Int, narrow: Bool = False
) -> Results:
    """Quantize ``x`` to codes between ``low`` and ``high`` and back: [result, mask of unclipped
    codes].

    ``narrow``: the product with the scale is computed in the dtype of ``factor``, not in that of
    ``x``.
    """
    op, dtype = OpBuilder(graph), opmath_dtype(graph.get_type(x))
    inverse = cast(graph, op.Div(1, factor), dtype)
    zero, back = cast(graph, zero, dtype), graph.get_type(factor) if narrow else dtype
    bounds = [const(graph, low, dtype), const(graph, high, dtype)]
    rounded = op.Round(op.Mul(cast(graph, x, dtype), inverse))
    codes = op.Add(rounded, zero)
    shifted = op.Sub(op.Clip(codes, *bounds), zero)
    result = op.Mul(cast(graph, shifted, back), cast(graph, factor, back))
    result = cast(graph, result, graph.get_type(x))
    outside = op.Or(op.Less(codes, bounds[0]), op.Greater(codes, bounds[1]))
    return [result, op.Not(outside)]


def float32_below(value: Float) -> Float:
    """The greatest float32 that is not greater than a number."""
    near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def known_as(graph: Graph, x: Result, shape: Ints) -> Result:
    """``x`` in another shape; a constant stays one."""
    array = constant_array(graph, x)
    if array is None:
        return reshape_to(graph, x, shape)
    return graph.make_initializer("", array.reshape(shape))


def has_codes(graph: Graph, x: Result, zero: Result) -> Bool:
    """True when the DynamicQuantizeLinear of ``x`` itself computed a zero point."""
    node = graph.values[source_before_cast(graph, zero)].producer
    is_dynamic = node is not None and node.op_type == "DynamicQuantizeLinear"
    return is_dynamic and node.inputs[0] == x


def codes_of(graph: Graph, zero: Result) -> Result:
    """The codes of the DynamicQuantizeLinear that computed a zero point; see ``has_codes``."""
    return graph.values[source_before_cast(graph, zero)].producer.outputs[0]


def one_scale(graph: Graph, scale: Result) -> Result:
    """A scale of one element as 0-d float32, without a cast through float64."""
    source = source_before_cast(graph, scale)
    return cast(graph, reshape_to(graph, source, []), dtypes.float32)


def within(graph: Graph, codes: Result, low: Int, high: Int) -> Result:
    """Clip integer codes to two bounds; no node when these are the whole range of the dtype.

    The codes are clipped, not the dequantized values: ONNX Runtime's integer kernels end in a
    QuantizeLinear and begin with a DequantizeLinear, whatever is between.
    """
    dtype = graph.get_type(codes)
    if low <= dtype_min(dtype) and high >= dtype_max(dtype):
        return codes
    bounds = [const(graph, low, dtype), const(graph, high, dtype)]
    return OpBuilder(graph).Clip(codes, *bounds)


def is_dequantized(graph: Graph, x: Result) -> Bool:
    """True when a float result is the result of a DequantizeLinear."""
    node = graph.values[x].producer
    return node is not None and node.op_type == "DequantizeLinear"


def rows_of(graph: Graph, x: Result) -> Result:
    """Reshape ``x`` to a matrix of its last dimension. Where ``x`` is dequantized with one scale,
    the codes are reshaped, so that DequantizeLinear stays next to its users.
    """
    sizes = [-1, dim_of(graph, x, -1)]
    node = graph.values[x].producer
    if not is_dequantized(graph, x) or rank_of(graph, node.inputs[1]) > 0:
        return reshape_to(graph, x, sizes)
    codes = reshape_to(graph, node.inputs[0], sizes)
    return OpBuilder(graph).DequantizeLinear(codes, *node.inputs[1:])


def block_shape(graph: Graph, x: Result, block: SymInts, reduced: Bool = False) -> SymInts:
    """The shape in which each dimension of ``x`` that holds several blocks becomes two;
    ``reduced``: with 1 for the size of a block.
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
    """The axes of ``block_shape`` that are inside a block."""
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
    """The axis whose elements have a block each, all others being whole; -1 if none is."""
    sizes = list(zip(shape_of(graph, x), block, strict=True))
    several = [axis for axis, (size, step) in enumerate(sizes) if not dims.always_equal(size, step)]
    return several[0] if len(several) == 1 and sizes[several[0]][1] == 1 else -1


def group_length(graph: Graph, x: Result, scales: Result, group_size: Int) -> SymInt:
    """The number of elements of the last dimension that share a scale: ``group_size``, or all of
    them where there are fewer and a row has one scale.
    """
    if dims.always_differ(dim_of(graph, scales, -1), 1):
        return group_size
    return dims.min_of(group_size, dim_of(graph, x, -1))  # torch refuses a rest


def has_scale_per_group(
    graph: Graph, x: Result, scales: Result, zero: Result | None, size: SymInt
) -> Bool:
    """True when every group of a matrix has its own scale and zero point, as a blocked
    DequantizeLinear requires: torch broadcasts a single one.
    """
    shapes = [shape_of(graph, tensor) for tensor in (scales, zero) if tensor is not None]
    x_shape = shape_of(graph, x)
    return isinstance(size, int) and all(
        len(shape) == len(x_shape) == 2
        and dims.always_equal(shape[0], x_shape[0])
        and dims.always_equal(shape[1] * size, x_shape[1])
        for shape in shapes
    )


def as_nibbles(graph: Graph, codes: Result, zero: Result | None) -> Result:
    """Constant codes as int4 when they, and the zero points, are between -8 and 7; others stay."""
    for name in (codes, zero):
        value = _constant_codes(graph, name)
        if value is None or (value.size and (value.min() < -8 or value.max() > 7)):
            return codes
    packed = _constant_codes(graph, codes).astype(dtypes.to_numpy(dtypes.int4))  # type: ignore[union-attr]
    return graph.make_initializer(graph.unique_name(f"{codes}_int4"), packed)


def _constant_codes(graph: Graph, name: str | None) -> np.ndarray | None:
    if name is None:
        return np.zeros((), np.int8)
    try:
        return graph.get_constant(name) if graph.is_constant(name) else None
    except BuilderError:
        return None  # a tensor without data
