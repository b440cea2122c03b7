"""Lower pooling in one, two or three spatial dimensions.

This includes adaptive and fractional pooling and the gradient of average pooling. Pools that ONNX
cannot express, or ONNX Runtime has no kernel for, are computed over windows: the elements of every
window are gathered to [..., windows, elements] and then reduced. A table describes the windows
along one axis. It is a tuple of three results: the indices of the elements, int64 [windows,
elements]; a bool mask of the indices that are inside of the input; and the divisor of a mean over
each window, [windows, 1]. Windows of 2 in 4 elements: ([[0, 1], [2, 3]], all true, [[2], [2]]).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    Bool,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    broadcast_ints,
    dtype_min,
    is_static,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import scaled
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.reductions import reduced_extreme
from ortable.prelude.shapes import iota
from ortable.prelude.sums import summed_over
from ortable.prelude.values import (
    as_vec,
    cast,
    const,
    consts,
    cropped,
    filled,
    reshape_to,
    squeezed,
    unsqueezed,
)

from .convolution import find_output_padding
from .reductions import mean_over
from .resize import even_ends, fold_constant, window_ends

__all__ = [
    "even_tables",
    "pooled_adaptive",
    "pooled_fractional",
    "pooled_max",
    "pooled_mean",
    "window_max",
]


def avg_pool2d_backward(
    graph: Graph,
    res: ResultSpec,
    grad_output: str,
    self: str,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> str:
    """Lower aten::avg_pool2d_backward for [N, C, H, W] or [C, H, W]."""
    window = (
        broadcast_ints(kernel_size, 2),
        broadcast_ints(stride, 2) if stride else [],
        broadcast_ints(padding, 2),
    )
    count_options = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, count_options)


def avg_pool3d_backward(
    graph: Graph,
    res: ResultSpec,
    grad_output: str,
    self: str,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> str:
    """Lower aten::avg_pool3d_backward for [N, C, D, H, W] or [C, D, H, W]."""
    window = (
        broadcast_ints(kernel_size, 3),
        broadcast_ints(stride, 3) if stride else [],
        broadcast_ints(padding, 3),
    )
    count_options = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, count_options)


def _mean_gradient(
    graph: Graph,
    grad_output: str,
    self: str,
    window_options: tuple[list[int], list[int], list[int]],
    count_options: tuple[bool, bool, int | None],
) -> str:
    """Sum grad_output / count, for each input element, over the windows that contain it."""
    op = OpBuilder(graph)
    window, strides, pads = window_options
    strides = strides or window
    ceil_mode, count_include_pad, divisor_override = count_options
    dtype, n = graph.get_type(self), len(window)
    shape = list(shape_of(graph, self))
    output_shape = list(shape_of(graph, grad_output))
    grad = cast(graph, grad_output, dtypes.float32)
    is_uniform = divisor_override is not None or (
        not ceil_mode and (count_include_pad or not any(pads))
    )
    if is_uniform:
        grad = scaled(graph, grad, 1 / (divisor_override or math.prod(window)))
    else:
        counts = _window_counts(
            graph, shape[-n:], output_shape[-n:], (window, strides, pads), count_include_pad
        )
        grad = op.Div(grad, counts)
    planes: Dim = 1
    for size in shape[:-n]:
        planes = planes * size
    flat = reshape_to(graph, grad, [planes, 1, *output_shape[-n:]])
    ones = graph.make_initializer("", np.ones([1, 1, *window], np.float32))
    output_padding = find_output_padding(
        shape[-n:], output_shape[-n:], window, strides, pads, [1] * n
    )
    uncropped = op.ConvTranspose(
        flat, ones, strides=strides, pads=pads * 2, output_padding=output_padding
    )
    return cast(graph, reshape_to(graph, cropped(graph, uncropped, shape[-n:]), shape), dtype)


def _window_counts(
    graph: Graph,
    sizes: Sequence[Dim],
    out_sizes: Sequence[Dim],
    window: tuple[list[int], list[int], list[int]],
    padded: bool,
) -> str:
    """Return the divisor of each window's mean, float32 in the spatial shape of the output."""
    total = const(graph, 1, dtypes.float32)
    for axis, (size, count, taps, step, pad) in enumerate(
        zip(sizes, out_sizes, *window, strict=True)
    ):
        counts = window_ends(graph, size, count, taps, step, pad, padded)[2]
        axis_counts = unsqueezed(graph, counts, list(range(1, len(sizes) - axis)))
        total = OpBuilder(graph).Mul(total, cast(graph, axis_counts, dtypes.float32))
    return total


def are_divisible(sizes: SymInts, parts: SymInts) -> Bool:
    """Whether each size is known and a multiple of its part, which is not 0."""
    pairs = zip(sizes, parts, strict=True)
    return all(
        isinstance(size, int) and isinstance(part, int) and size % part == 0 for size, part in pairs
    )


def divide_sizes(sizes: SymInts, parts: SymInts) -> Ints:
    """Return each size divided by its part; the caller has checked `are_divisible`."""
    return [size // part for size, part in zip(static(sizes), static(parts), strict=True)]


_BLOCK = 16  # channels per block in the widest of ONNX Runtime's layouts [N, C/block, H, W, block]


def pooled_max(
    graph: Graph,
    x: Result,
    n: Int,
    kernel: Ints,
    steps: Ints,
    pads: Ints,
    spacing: Ints,
    ceil: Bool,
    indexed: Bool,
) -> Results:
    """Lower max pooling over ``n`` dimensions: [values], or [values, indices] if ``indexed``.

    Indices count the elements of a plane, the last ``n`` dimensions. ``spacing`` is the dilation.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if dtype == dtypes.int64:
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, spacing, ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, spacing)
        return window_max(graph, x, tables, sizes, indexed)
    batch_axis = [0] if rank_of(graph, x) == n + 1 else []
    compute_dtype = {
        dtypes.int16: dtypes.float64,
        dtypes.int32: dtypes.float64,
        dtypes.bfloat16: dtypes.float32,
    }.get(dtype, dtype)
    if indexed and dtype in (dtypes.int8, dtypes.uint8):
        # ONNX Runtime returns no index for a window that contains only the lowest int
        compute_dtype = dtypes.float32
    window = broadcast_ints(kernel, n)
    attributes = {
        "kernel_shape": window,
        "strides": broadcast_ints(steps, n) if steps else window,
        "pads": broadcast_ints(pads, n) * 2,
        "dilations": broadcast_ints(spacing, n),
        "ceil_mode": int(ceil),
    }
    if ceil:
        attributes |= _explicit_ceil_pads(shape_of(graph, x)[-n:], attributes)
    batched = unsqueezed(graph, cast(graph, x, compute_dtype), batch_axis)
    result = op("MaxPool", [batched], 2 if indexed else 1, **attributes)
    values, indices = result if indexed else (result, None)
    plane_area = const(graph, _plane_area(shape_of(graph, x)[-n:]), dtypes.int64)
    if indices is not None:
        # ONNX counts indices over batch and channels too, torch only within each plane
        indices = op.Mod(indices, plane_area)
    if dtypes.is_float_type(dtype) and not _is_dequantized(graph, x):
        if indices is not None:
            values, indices = _restore_indexed_nan_inf(graph, batched, values, indices, attributes)
        elif not ceil and _can_use_blocked_layout(graph, batched, n):
            values = _restore_nan_in_blocks(graph, batched, values, attributes)
        else:
            values = _restore_nan_inf(graph, batched, values, attributes)
    result = [squeezed(graph, cast(graph, values, dtype), batch_axis)]
    return result if indices is None else [*result, squeezed(graph, indices, batch_axis)]


def _explicit_ceil_pads(sizes: SymInts, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes that replace ceil_mode if the last window would start past the input.

    Return {} if no window does, or if a size is dynamic. torch and the kernel omit this window, but
    ONNX's shape inference counts it before opset 22, and ONNX Runtime then rejects the model.
    """
    names = ("kernel_shape", "strides", "pads", "dilations")
    begins, ends, starts_past = attributes["pads"][: len(sizes)], [], False
    for size, taps, step, pad, gap in zip(
        sizes, *(attributes[name] for name in names), strict=False
    ):
        if not isinstance(size, int):
            return {}
        extent = gap * (taps - 1) + 1
        (count,) = static([_window_count(size, extent, step, pad, True)])
        starts_past = starts_past or count < dims.ceil_div(size + 2 * pad - extent, step) + 1
        ends.append(max(pad, (count - 1) * step + extent - size - pad))
    return {"pads": [*begins, *ends], "ceil_mode": 0} if starts_past else {}


def _restore_nan_inf(graph: Graph, x: Result, values: Result, attributes: dict[str, Any]) -> Result:
    """Restore NaN, which MaxPool may skip, and -inf, which it turns into the lowest number."""
    op = OpBuilder(graph)
    window_marks = op.MaxPool(_special_marks(graph, x, dtypes.float32), **attributes)
    if _is_nonnegative(graph, x):
        nan = const(graph, math.nan, graph.get_type(values))
        return op.Where(cast(graph, window_marks, dtypes.boolean), nan, values)
    return _restore_special(graph, values, window_marks)


def _special_marks(graph: Graph, x: Result, dtype: int) -> Result:
    """Mark NaN by 1, -inf by -1 and other numbers by 0; omit -1 if ``x`` has no -inf."""
    op = OpBuilder(graph)
    nan_marks = cast(graph, op.IsNaN(x), dtype)
    if _is_nonnegative(graph, x):
        return nan_marks
    compute_x = x if graph.get_type(x) != dtypes.float16 else cast(graph, x, dtypes.float32)
    is_negative_infinity = op.IsInf(compute_x, detect_positive=0)
    return op.Sub(nan_marks, cast(graph, is_negative_infinity, dtype))


def _restore_special(graph: Graph, values: Result, marks: Result) -> Result:
    """Return NaN where ``marks`` is positive, -inf where it is negative, else the values."""
    op, dtype = OpBuilder(graph), graph.get_type(values)
    zero = const(graph, 0, graph.get_type(marks))
    for compare, special in (("Less", -math.inf), ("Greater", math.nan)):
        values = op.Where(op(compare, [marks, zero]), const(graph, special, dtype), values)
    return values


def _restore_indexed_nan_inf(
    graph: Graph, x: Result, values: Result, indices: Result, attributes: dict[str, Any]
) -> tuple[Result, Result]:
    """Restore NaN and -inf in the values, and torch's indices of these maxima.

    torch returns the index of the last NaN of a window, or of the first -inf if all elements are.
    Each mark is multiplied by its index in the plane, counted from 1. The maximum over a window is
    then the index of its last NaN, or, if negative, minus that of its first -inf.
    """
    op, n = OpBuilder(graph), len(attributes["kernel_shape"])
    sizes = shape_of(graph, x)[-n:]
    area = _plane_area(sizes)
    fits_float32 = isinstance(area, int) and area < 2**24
    dtype = dtypes.float32 if fits_float32 else dtypes.float64
    index_from_one = cast(graph, reshape_to(graph, iota(graph, 1, area, 1), list(sizes)), dtype)
    marks = op.Mul(_special_marks(graph, x, dtype), index_from_one)
    window_marks = op.MaxPool(marks, **attributes)
    special_index = cast(graph, op.Abs(window_marks), dtypes.int64)
    one, zero = const(graph, 1, dtypes.int64), const(graph, 0, dtypes.int64)
    is_special = op.Greater(special_index, zero)
    indices = op.Where(is_special, op.Sub(special_index, one), indices)
    return _restore_special(graph, values, window_marks), indices


def _is_dequantized(graph: Graph, x: Result) -> bool:
    """Whether ``x`` is dequantized with a constant scale, and therefore has no NaN or infinity."""
    node = graph.values[x].producer
    return (
        node is not None
        and node.op_type == "DequantizeLinear"
        and graph.is_constant(node.inputs[1])
    )


def _can_use_blocked_layout(graph: Graph, x: Result, n: Int) -> bool:
    """Whether ``x`` is nonnegative and ONNX Runtime can store it in blocks of channels."""
    channels = shape_of(graph, x)[1]
    return (
        n == 2
        and graph.get_type(x) == dtypes.float32
        and isinstance(channels, int)
        and channels > 0
        and channels % _BLOCK == 0
        and _is_nonnegative(graph, x)
    )


def _is_nonnegative(graph: Graph, x: Result) -> bool:
    """Whether the producers of ``x`` return only nonnegative values or NaN."""
    node = graph.values[x].producer
    if node is None or node.domain:
        return False
    if node.op_type in ("Concat", "MaxPool"):
        return all(_is_nonnegative(graph, name) for name in node.inputs)
    return node.op_type in ("Relu", "Sigmoid")


def _restore_nan_in_blocks(
    graph: Graph, x: Result, values: Result, attributes: dict[str, Any]
) -> Result:
    """Restore NaN in the maxima of nonnegative values with operators of the blocked layout.

    IsNaN and Where would force two layout changes between the surrounding convolutions. A Conv with
    weights of -1 gives the negated sum of each window: at most 0, or NaN. Its Relu is 0, or NaN.
    """
    op = OpBuilder(graph)
    channels = static(shape_of(graph, x)[1])
    negative_ones = np.full((channels, 1, *attributes["kernel_shape"]), -1.0, np.float32)
    settings = {key: value for key, value in attributes.items() if key != "ceil_mode"}
    weight = graph.make_initializer("", negative_ones)
    sums = op.Conv(x, weight, group=channels, **settings)
    return op.Add(values, op.Relu(sums))


def pooled_mean(
    graph: Graph,
    x: Result,
    n: Int,
    kernel: Ints,
    steps: Ints,
    pads: Ints,
    ceil: Bool,
    padded: Bool,
    divisor: Int | None,
) -> Result:
    """Lower average pooling over the last ``n`` dimensions.

    If ``padded``, the count of a window includes the padding, but never elements beyond it, which
    ``ceil`` may add. ``divisor`` replaces the count. Ints and float64, which have no kernel, and
    dynamic sizes with ``ceil``, are gathered and summed.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    extents = shape_of(graph, x)[-n:]
    if (
        not dtypes.is_float_type(dtype)
        or dtype == dtypes.float64
        or (ceil and not is_static(extents))
    ):
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, [1], ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, [1])
        return window_mean(graph, x, tables, sizes, padded, divisor)
    batch_axis = [0] if rank_of(graph, x) == n + 1 else []
    compute_dtype = dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    window, begins = broadcast_ints(kernel, n), broadcast_ints(pads, n)
    strides = broadcast_ints(steps, n) if steps else window
    excess = _ceil_overhang(shape_of(graph, x)[-n:], window, strides, begins) if ceil else [0] * n
    value = unsqueezed(graph, cast(graph, x, compute_dtype), batch_axis)
    count_padding = padded or divisor is not None
    if count_padding and divisor is None and any(excess):
        # pad the input explicitly, so that only elements beyond the padding are not counted
        amounts = consts(graph, [0, 0, *begins, 0, 0, *begins], dtypes.int64)
        value = op.Pad(value, amounts) if any(begins) else value
        begins, ends, count_padding = [0] * n, excess, False
    else:
        ends = [pad + extra for pad, extra in zip(begins, excess, strict=True)]
    result = op.AveragePool(
        value,
        kernel_shape=window,
        strides=strides,
        pads=[*begins, *ends],
        count_include_pad=int(count_padding),
    )
    if divisor is not None:
        result = scaled(graph, result, math.prod(window) / divisor)
    return squeezed(graph, cast(graph, result, dtype), batch_axis)


def _plane_area(sizes: SymInts) -> SymInt:
    total: SymInt = 1
    for size in sizes:
        total = total * size
    return total


def _ceil_overhang(sizes: SymInts, window: Ints, strides: Ints, pads: Ints) -> Ints:
    """Return, for each axis, by how many elements the last window exceeds the padded input."""
    result = []
    for size, taps, step, pad in zip(static(sizes), window, strides, pads, strict=True):
        count = _window_count(size, taps, step, pad, True)
        result.append(max((count - 1) * step + taps - size - 2 * pad, 0))
    return result


def pooled_sizes(
    graph: Graph,
    x: Result,
    n: Int,
    kernel: Ints,
    steps: Ints,
    pads: Ints,
    spacing: Ints,
    ceil: Bool,
) -> SymInts:
    """Return the number of windows along each of the last ``n`` dimensions."""
    window = broadcast_ints(kernel, n)
    strides = broadcast_ints(steps, n) if steps else window
    extents = [gap * (k - 1) + 1 for k, gap in zip(window, broadcast_ints(spacing, n), strict=True)]
    axes = zip(shape_of(graph, x)[-n:], extents, strides, broadcast_ints(pads, n), strict=True)
    return [_window_count(*axis, ceil) for axis in axes]


def _window_count(size: SymInt, extent: int, step: int, pad: int, ceil: bool) -> SymInt:
    """Return the number of windows along one axis; torch drops one that starts past the input."""
    max_start = size + 2 * pad - extent
    if not ceil:
        return max_start // step + 1
    # in ceil_mode, the last window may end past the end padding, but must start before it
    return dims.min_of(dims.ceil_div(max_start, step), (size + pad - 1) // step) + 1


def pooled_adaptive(graph: Graph, x: Result, n: Int, sizes: SymInts, largest: Bool) -> Result:
    """Return the mean or maximum over ``sizes`` regions of the last ``n`` dimensions.

    torch divides the dimensions as evenly as possible; see `even_tables`. A single number in
    ``sizes`` is the number of regions along every axis.
    """
    rank, sizes = rank_of(graph, x), list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    sizes = sizes if len(sizes) == n else sizes * n
    extents = shape_of(graph, x)[-n:]
    if tuple(extents) == tuple(sizes):
        return x
    if any(isinstance(size, int) and size == 0 for size in sizes):
        shape = [*shape_of(graph, x)[:-n], *sizes]
        return filled(graph, shape, 0, graph.get_type(x))
    if any(isinstance(extent, int) and extent == 0 for extent in extents):
        raise UnsupportedCase("regions without elements, which torch refuses")
    start = rank - n
    unit_axes = [
        start + index for index, size in enumerate(sizes) if isinstance(size, int) and size == 1
    ]
    if len(unit_axes) == n:
        return _pool_axes(graph, x, unit_axes, largest)
    dtype = graph.get_type(x)
    if are_divisible(extents, sizes) and dtype == dtypes.float32 and not largest:
        parts = divide_sizes(extents, sizes)
        return pooled_mean(graph, x, n, parts, parts, [0], False, False, None)
    if not is_static(extents):
        wide = cast(graph, x, opmath_dtype(dtype))
        tables = even_tables(graph, wide, sizes)
        if largest:
            return cast(graph, window_max(graph, wide, tables, sizes, False)[0], dtype)
        return cast(graph, window_mean(graph, wide, tables, sizes, False, None), dtype)
    result = _pool_axes(graph, x, unit_axes, largest) if unit_axes else x
    for index, size in enumerate(sizes):
        if start + index not in unit_axes and not (
            extents[index] is size or extents[index] == size
        ):
            result = _pool_regions(graph, result, start + index, static(size), largest)
    return result


def _pool_axes(graph: Graph, x: str, axes: Ints, largest: bool) -> str:
    if largest:
        return reduced_extreme(graph, x, axes, True, True)
    return mean_over(graph, x, axes, True)


def _pool_regions(graph: Graph, x: str, axis: int, count: int, largest: bool) -> str:
    """Reduce ``count`` regions along ``axis``: i*size // count to ceil((i+1)*size / count)."""
    size = static(shape_of(graph, x)[axis])
    parts = []
    for region in range(count):
        begin_end = [region * size // count, -(-(region + 1) * size // count)]
        bounds = [consts(graph, [bound], dtypes.int64) for bound in (*begin_end, axis)]
        parts.append(_pool_axes(graph, OpBuilder(graph).Slice(x, *bounds), [axis], largest))
    return graph.make_node("Concat", parts, axis=axis)


def even_tables(graph: Graph, x: Result, sizes: SymInts) -> Any:
    """Return the tables of adaptive pooling.

    Window i of ``count`` along an axis of ``size`` elements ranges from floor(i size / count) to
    ceil((i + 1) size / count). The divisors are the window lengths.
    """
    tables = []
    for size, count in zip(shape_of(graph, x)[-len(sizes) :], sizes, strict=True):
        op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
        start, end = (unsqueezed(graph, bound, [1]) for bound in even_ends(graph, size, count))
        longest = dims.ceil_div(size, count) + (0 if _is_divisor(size, count) else 1)
        indices = op.Add(start, iota(graph, 0, longest, 1))
        inside = op.Less(indices, end)
        last = op.Sub(end, one)
        tables.append((op.Min(indices, last), inside, op.Sub(end, start)))
    return tables


def _is_divisor(size: SymInt, count: SymInt) -> bool:
    return isinstance(size, int) and isinstance(count, int) and count > 0 and size % count == 0


def pool_tables(
    graph: Graph, x: Result, sizes: SymInts, kernel: Ints, steps: Ints, pads: Ints, spacing: Ints
) -> Any:
    """Return the tables of a pool; the divisors count padding too, and ignore ``spacing``."""
    n, tables = len(sizes), []
    window = broadcast_ints(kernel, n)
    strides = broadcast_ints(steps, n) if steps else window
    extents, begin_pads, gaps = (
        shape_of(graph, x)[-n:],
        broadcast_ints(pads, n),
        broadcast_ints(spacing, n),
    )
    axes = zip(extents, sizes, window, strides, begin_pads, gaps,
                strict=True)  # fmt: skip
    for size, count, taps, step, pad, gap in axes:
        op, zero = OpBuilder(graph), const(graph, 0, dtypes.int64)
        start = unsqueezed(graph, iota(graph, -pad, count, step), [1])
        indices = op.Add(start, consts(graph, [gap * tap for tap in range(taps)], dtypes.int64))
        inside = op.And(
            op.GreaterOrEqual(indices, zero),
            op.Less(indices, const(graph, size, dtypes.int64)),
        )
        window_end = op.Min(op.Add(start, const(graph, taps, dtypes.int64)),
                             const(graph, size + pad, dtypes.int64))  # fmt: skip
        last = const(graph, size - 1, dtypes.int64)
        safe = op.Max(op.Min(indices, last), zero)
        tables.append((safe, inside, op.Sub(window_end, start)))
    return tables


def window_max(graph: Graph, x: Result, tables: Any, sizes: SymInts, indexed: Bool) -> Results:
    """Return [maxima], or [maxima, their indices in the flattened plane] if ``indexed``.

    As in torch, NaN is the maximum; the index is that of the last NaN.
    """
    dtype, op = graph.get_type(x), OpBuilder(graph)
    leading_sizes = list(shape_of(graph, x))[: -len(sizes)]
    values, indices, inside = _gather_windows(graph, x, tables)
    values = op.Where(inside, values, const(graph, dtype_min(dtype), dtype))
    if not indexed:
        result = reduced_extreme(graph, values, [len(leading_sizes) + 1], False, True)
        return [reshape_to(graph, result, [*leading_sizes, *sizes])]
    best = _argmax_last_nan(graph, values, len(leading_sizes) + 1)
    maxima = op.GatherElements(values, best, axis=len(leading_sizes) + 1)
    window_size = op.Shape(indices, start=1)
    rows = iota(graph, 0, dims.product_of(sizes), 1)
    flat_positions = op.Add(
        op.Mul(rows, window_size), op.Squeeze(best, _axis_vector(graph, len(leading_sizes) + 1))
    )
    all_indices = op.Reshape(indices, consts(graph, [-1], dtypes.int64))
    max_indices = op.Gather(all_indices, flat_positions, axis=0)
    return [reshape_to(graph, result, [*leading_sizes, *sizes]) for result in (maxima, max_indices)]


def _argmax_last_nan(graph: Graph, values: str, axis: int) -> str:
    """Return the index of the last NaN, else of the first maximum, int64 with ``axis`` kept."""
    dtype, op = graph.get_type(values), OpBuilder(graph)
    if not dtypes.is_float_type(dtype):
        one = consts(graph, [1], dtypes.int64)
        return str(op.TopK(cast(graph, values, dtypes.int64), one, outputs=2, axis=axis)[1])
    compute_values = values if dtype == dtypes.float64 else cast(graph, values, dtypes.float32)
    first_maximum = op.ArgMax(compute_values, axis=axis)
    is_nan = cast(graph, op.IsNaN(compute_values), dtypes.uint8)
    last_nan = op.ArgMax(is_nan, axis=axis, select_last_index=1)
    has_nan = op.ReduceMax(is_nan, _axis_vector(graph, axis), keepdims=1)
    return str(op.Where(cast(graph, has_nan, dtypes.boolean), last_nan, first_maximum))


def window_mean(
    graph: Graph, x: Result, tables: Any, sizes: SymInts, padded: Bool, divisor: Int | None
) -> Result:
    """Return the mean of every window.

    If ``padded``, the divisors of the tables are used; ``divisor`` replaces them. Means of ints are
    truncated, as in torch.
    """
    dtype, op = graph.get_type(x), OpBuilder(graph)
    leading_sizes = list(shape_of(graph, x))[: -len(sizes)]
    values, _, inside = _gather_windows(graph, x, tables)
    valid = op.Where(inside, values, 0)
    if dtypes.is_float_type(dtype):
        total = op.ReduceSum(valid, _axis_vector(graph, len(leading_sizes) + 1), keepdims=0)
    else:
        total = summed_over(graph, valid, [len(leading_sizes) + 1], False)
    if divisor is not None:
        count = const(graph, divisor, dtype)
    elif padded:
        counts = _outer_combine(graph, [table[2] for table in tables], "Mul")
        count = cast(graph, op.Reshape(counts, consts(graph, [-1], dtypes.int64)), dtype)
        count = fold_constant(graph, count)
    else:
        is_counted = cast(graph, inside, dtypes.int64)
        count = cast(graph, op.ReduceSum(is_counted, _axis_vector(graph, 1), keepdims=0), dtype)
    return reshape_to(graph, op.Div(total, count), [*leading_sizes, *sizes])


def _axis_vector(graph: Graph, axis: int) -> str:
    return consts(graph, [axis], dtypes.int64)


def _gather_windows(graph: Graph, x: str, tables: Any) -> tuple[str, str, str]:
    """Return the elements [..., windows, elements], and their plane indices and inside mask.

    Indices and mask are [windows, elements].
    """
    op, n = OpBuilder(graph), len(tables)
    shape = list(shape_of(graph, x))
    offsets = []
    for axis, (indices, _, _) in enumerate(tables):
        stride = dims.product_of(shape[len(shape) - n + axis + 1 :])
        offsets.append(op.Mul(indices, const(graph, stride, dtypes.int64)))
    indices = _outer_combine(graph, offsets, "Add")
    inside = _outer_combine(graph, [table[1] for table in tables], "And")
    index_tables = [entry[0] for entry in tables]
    table_shapes = [op.Shape(row) for row in index_tables]
    if n > 1:
        flat_shape = table_shapes[0]
        for table_shape in table_shapes[1:]:
            flat_shape = op.Mul(flat_shape, table_shape)
        indices, inside = (op.Reshape(entry, flat_shape) for entry in (indices, inside))
    indices, inside = fold_constant(graph, indices), fold_constant(graph, inside)
    flat_planes = reshape_to(
        graph, x, [*shape[: len(shape) - n], dims.product_of(shape[len(shape) - n :])]
    )
    return op.Gather(flat_planes, indices, axis=len(shape) - n), indices, inside


def _outer_combine(graph: Graph, parts: list[str], op: str) -> str:
    """Combine the parts [windows, elements] of all axes by ``op`` to [w0, w1, ..., e0, e1, ...]."""
    n, result = len(parts), None
    for axis, part in enumerate(parts):
        new_axes = [new_axis for new_axis in range(2 * n) if new_axis not in (axis, n + axis)]
        wide = unsqueezed(graph, part, new_axes)
        result = wide if result is None else graph.make_node(op, [result, wide])
    assert result is not None
    return result


def pooled_fractional(
    graph: Graph, x: Result, kernel: Ints, sizes: Ints, samples: Result
) -> Results:
    """Return [maxima, plane indices] of windows that begin at random offsets.

    Along each axis, window i begins at floor((i + u) step) - floor(u step), with
    step = (size - kernel) / (count - 1); the last window ends at the end of the axis. ``samples``
    [N, C, axes] holds u for every plane (Graham, Fractional max-pooling, 2014).
    """
    op, n = OpBuilder(graph), len(sizes)
    shape, dtype = list(shape_of(graph, x)), graph.get_type(samples)
    leading_sizes = shape[: len(shape) - n]
    planes, area = dims.product_of(leading_sizes), dims.product_of(shape[len(shape) - n :])
    plane_samples = reshape_to(graph, samples, [planes, n])
    indices = None
    for axis, (k, count) in enumerate(zip(kernel, sizes, strict=True)):
        size = shape[len(shape) - n + axis]
        # samples of a 2-d plane begin with its last axis, samples of a volume with its first axis
        column = axis if n == 3 else n - 1 - axis
        sample = op.Gather(plane_samples, consts(graph, [column], dtypes.int64), axis=1)
        last_start = const(graph, size - k, dtypes.int64)
        starts = op.Expand(last_start, consts(graph, [1, 1], dtypes.int64))
        if count > 1:
            span = op.Sub(const(graph, size, dtype), const(graph, k, dtype))
            step = op.Div(span, const(graph, count - 1, dtype))
            window_indices = consts(graph, list(range(count - 1)), dtype)
            raw_starts = _truncate_to_int(graph, op.Mul(op.Add(window_indices, sample), step))
            inner_starts = op.Sub(raw_starts, _truncate_to_int(graph, op.Mul(sample, step)))
            end_shape = op.Concat(
                op.Shape(inner_starts, end=1), consts(graph, [1], dtypes.int64), axis=0
            )
            starts = op.Concat(inner_starts, op.Expand(last_start, end_shape), axis=1)
        stride = dims.product_of(shape[len(shape) - n + axis + 1 :])
        index = op.Add(unsqueezed(graph, starts, [2]), consts(graph, list(range(k)), dtypes.int64))
        index = op.Mul(index, const(graph, stride, dtypes.int64))
        new_axes = [new_axis for new_axis in range(2 * n) if new_axis not in (axis, n + axis)]
        index = unsqueezed(graph, index, [new_axis + 1 for new_axis in new_axes])
        indices = index if indices is None else op.Add(indices, index)
    windows, window_size = dims.product_of(sizes), dims.product_of(kernel)
    assert indices is not None
    full_shape = [planes, *sizes, *kernel]
    all_indices = op.Expand(indices, as_vec(graph, full_shape))
    flat_indices = reshape_to(graph, all_indices, [planes, windows * window_size])
    values = op.GatherElements(reshape_to(graph, x, [planes, area]), flat_indices, axis=1)
    values, flat_indices = (
        reshape_to(graph, part, [planes, windows, window_size]) for part in (values, flat_indices)
    )
    best = _argmax_last_nan(graph, values, 2)
    result = [op.GatherElements(part, best, axis=2) for part in (values, flat_indices)]
    return [reshape_to(graph, part, [*leading_sizes, *sizes]) for part in result]


def _truncate_to_int(graph: Graph, x: str) -> str:
    """Truncate a nonnegative float to int64."""
    return cast(graph, x, dtypes.int64)
