"""Pooling in one, two or three spatial dimensions, with or without a batch, adaptive and
fractional, and the gradient of average pooling.

What ONNX's pools cannot express, or have no dtype for, is computed over windows: the elements of
every window are gathered, [..., windows, elements], then reduced. A table is one axis of the
windows: the indices of their elements, int64 [windows, elements], and which of these lie in the
input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
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

from .convolution import reach_padding
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
    """aten::avg_pool2d_backward for [N, C, H, W] or [C, H, W]."""
    window = (
        broadcast_ints(kernel_size, 2),
        broadcast_ints(stride, 2) if stride else [],
        broadcast_ints(padding, 2),
    )
    counted = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, counted)


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
    """aten::avg_pool3d_backward for [N, C, D, H, W] or [C, D, H, W]."""
    window = (
        broadcast_ints(kernel_size, 3),
        broadcast_ints(stride, 3) if stride else [],
        broadcast_ints(padding, 3),
    )
    counted = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, counted)


def _mean_gradient(
    graph: Graph,
    grad_output: str,
    self: str,
    shape_of_window: tuple[list[int], list[int], list[int]],
    counted: tuple[bool, bool, int | None],
) -> str:
    """grad_output / count, added up over the windows."""
    op = OpBuilder(graph)
    window, strides, pads = shape_of_window
    strides = strides or window
    ceil_mode, count_include_pad, divisor_override = counted
    own, n = graph.get_type(self), len(window)
    shape = list(shape_of(graph, self))
    small = list(shape_of(graph, grad_output))
    grad = cast(graph, grad_output, dtypes.float32)
    uniform = divisor_override is not None or (
        not ceil_mode and (count_include_pad or not any(pads))
    )
    if uniform:
        grad = scaled(graph, grad, 1 / (divisor_override or math.prod(window)))
    else:
        counts = _window_counts(
            graph, shape[-n:], small[-n:], (window, strides, pads), count_include_pad
        )
        grad = op.Div(grad, counts)
    planes: Dim = 1
    for size in shape[:-n]:
        planes = planes * size
    flat = reshape_to(graph, grad, [planes, 1, *small[-n:]])
    ones = graph.make_initializer("", np.ones([1, 1, *window], np.float32))
    more = reach_padding(shape[-n:], small[-n:], window, strides, pads, [1] * n)
    wide = op.ConvTranspose(flat, ones, strides=strides, pads=pads * 2, output_padding=more)
    return cast(graph, reshape_to(graph, cropped(graph, wide, shape[-n:]), shape), own)


def _window_counts(
    graph: Graph,
    sizes: Sequence[Dim],
    places: Sequence[Dim],
    window: tuple[list[int], list[int], list[int]],
    padded: bool,
) -> str:
    """How many elements each window averages, float32 in the shape of the windows' places."""
    total = const(graph, 1, dtypes.float32)
    for axis, (size, count, k, step, pad) in enumerate(zip(sizes, places, *window, strict=True)):
        counts = window_ends(graph, size, count, k, step, pad, padded)[2]
        along = unsqueezed(graph, counts, list(range(1, len(sizes) - axis)))
        total = OpBuilder(graph).Mul(total, cast(graph, along, dtypes.float32))
    return total


def are_divisible(sizes: SymInts, parts: SymInts) -> Bool:
    """True when each size is known and a positive multiple of its part."""
    pairs = list(zip(sizes, parts, strict=True))
    return all(
        isinstance(size, int)
        and isinstance(part, int)
        and size > 0
        and part > 0
        and size % part == 0
        for size, part in pairs
    )


def divide_sizes(sizes: SymInts, parts: SymInts) -> Ints:
    """Each size divided by its part; use after ``are_divisible``."""
    return [size // part for size, part in zip(static(sizes), static(parts), strict=True)]


_BLOCK = 16  # channels in a block of ONNX Runtime's widest blocked layout


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
    """Max pooling over the last ``n`` dimensions: [values], or [values, indices into the flattened
    plane]."""
    op = OpBuilder(graph)
    own = graph.get_type(x)
    if own == dtypes.int64:
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, spacing, ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, spacing)
        return window_max(graph, x, tables, sizes, indexed)
    extra = [0] if rank_of(graph, x) == n + 1 else []
    compute_dtype = {
        dtypes.int16: dtypes.float64,
        dtypes.int32: dtypes.float64,
        dtypes.bfloat16: dtypes.float32,
    }.get(own, own)
    if indexed and own in (dtypes.int8, dtypes.uint8):
        # ONNX Runtime gives no index for a window that contains only the lowest int
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
    batched = unsqueezed(graph, cast(graph, x, compute_dtype), extra)
    result = op("MaxPool", [batched], 2 if indexed else 1, **attributes)
    values, places = result if indexed else (result, None)
    plane = const(graph, _plane_area(shape_of(graph, x)[-n:]), dtypes.int64)
    if places is not None:
        # ONNX counts indices over batch and channels too, torch inside each plane
        places = op.Mod(places, plane)
    if dtypes.is_float_type(own) and not _is_dequantized(graph, x):
        if places is not None:
            values, places = _with_special_places(graph, batched, values, places, attributes)
        elif not ceil and _suits_blocks(graph, batched, n):
            values = _with_nan_in_blocks(graph, batched, values, attributes)
        else:
            values = _with_special(graph, batched, values, attributes)
    result = [squeezed(graph, cast(graph, values, own), extra)]
    return result if places is None else [*result, squeezed(graph, places, extra)]


def _explicit_ceil_pads(sizes: SymInts, attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes that replace ceil_mode where the last window would start past the input: torch and
    the kernel leave it out, ONNX's shape inference counts it before opset 22, and ONNX Runtime then
    rejects the model.
    """
    names = ("kernel_shape", "strides", "pads", "dilations")
    begins, ends, past = attributes["pads"][: len(sizes)], [], False
    for size, k, step, pad, gap in zip(sizes, *(attributes[name] for name in names), strict=False):
        if not isinstance(size, int):
            return {}
        reach = gap * (k - 1) + 1
        (count,) = static([_window_count(size, reach, step, pad, True)])
        past = past or count < dims.ceil_div(size + 2 * pad - reach, step) + 1
        ends.append(max(pad, (count - 1) * step + reach - size - pad))
    return {"pads": [*begins, *ends], "ceil_mode": 0} if past else {}


def _with_special(graph: Graph, x: Result, values: Result, attributes: dict[str, Any]) -> Result:
    """Restore NaN wherever the window holds one, which ONNX Runtime's MaxPool may skip, and -inf
    where it holds nothing else, which MaxPool turns into the lowest number.
    """
    op = OpBuilder(graph)
    seen = op.MaxPool(_special_marks(graph, x, dtypes.float32), **attributes)
    if _not_negative(graph, x):
        nan = const(graph, math.nan, graph.get_type(values))
        return op.Where(cast(graph, seen, dtypes.boolean), nan, values)
    return _restore_special(graph, values, seen)


def _special_marks(graph: Graph, x: Result, dtype: int) -> Result:
    """1 for NaN, -1 for -inf, 0 for other numbers; without -1 where ``x`` has no -inf."""
    op = OpBuilder(graph)
    wrong = cast(graph, op.IsNaN(x), dtype)
    if _not_negative(graph, x):
        return wrong
    wide = x if graph.get_type(x) != dtypes.float16 else cast(graph, x, dtypes.float32)
    lowest = op.IsInf(wide, detect_positive=0)
    return op.Sub(wrong, cast(graph, lowest, dtype))


def _restore_special(graph: Graph, values: Result, seen: Result) -> Result:
    """NaN where ``seen`` is above 0, -inf where it is below, else the values."""
    node, own = OpBuilder(graph), graph.get_type(values)
    zero = const(graph, 0, graph.get_type(seen))
    for op, number in (("Less", -math.inf), ("Greater", math.nan)):
        values = node.Where(node(op, [seen, zero]), const(graph, number, own), values)
    return values


def _with_special_places(
    graph: Graph, x: Result, values: Result, places: Result, attributes: dict[str, Any]
) -> tuple[Result, Result]:
    """`_with_special`, and torch's index: that of the last NaN, or of the first -inf.

    Each mark is multiplied by its index in the plane, counted from 1: the maximum of a window is
    the index of its last NaN, or, below 0, of its first -inf.
    """
    op, n = OpBuilder(graph), len(attributes["kernel_shape"])
    sizes = shape_of(graph, x)[-n:]
    area = _plane_area(sizes)
    exact = isinstance(area, int) and area < 2**24
    dtype = dtypes.float32 if exact else dtypes.float64
    counted = cast(graph, reshape_to(graph, iota(graph, 1, area, 1), list(sizes)), dtype)
    marks = op.Mul(_special_marks(graph, x, dtype), counted)
    seen = op.MaxPool(marks, **attributes)
    at = cast(graph, op.Abs(seen), dtypes.int64)
    one, zero = const(graph, 1, dtypes.int64), const(graph, 0, dtypes.int64)
    special = op.Greater(at, zero)
    places = op.Where(special, op.Sub(at, one), places)
    return _restore_special(graph, values, seen), places


def _is_dequantized(graph: Graph, x: Result) -> bool:
    """Whether ``x`` is dequantized with a constant scale: then it contains no NaN."""
    node = graph.values[x].producer
    return (
        node is not None
        and node.op_type == "DequantizeLinear"
        and graph.is_constant(node.inputs[1])
    )


def _suits_blocks(graph: Graph, x: Result, n: Int) -> bool:
    """Whether ``x`` is an image that ONNX Runtime can hold in blocks of channels, without negative
    values."""
    channels = shape_of(graph, x)[1]
    return (
        n == 2
        and graph.get_type(x) == dtypes.float32
        and isinstance(channels, int)
        and channels > 0
        and channels % _BLOCK == 0
        and _not_negative(graph, x)
    )


def _not_negative(graph: Graph, x: Result) -> bool:
    """Whether the nodes that make ``x`` give values of at least 0, or NaN."""
    node = graph.values[x].producer
    if node is None or node.domain:
        return False
    if node.op_type in ("Concat", "MaxPool"):
        return all(_not_negative(graph, name) for name in node.inputs)
    return node.op_type in ("Relu", "Sigmoid")


def _with_nan_in_blocks(
    graph: Graph, x: Result, values: Result, attributes: dict[str, Any]
) -> Result:
    """`_with_special` for values of at least 0, by operators that keep the blocked layout of the
    convolutions around: IsNaN and Where would force two changes of layout.

    The negated sum of a window is at most 0, or NaN: its Relu is 0, or NaN.
    """
    op = OpBuilder(graph)
    channels = static(shape_of(graph, x)[1])
    ones = np.full((channels, 1, *attributes["kernel_shape"]), -1.0, np.float32)
    settings = {key: value for key, value in attributes.items() if key != "ceil_mode"}
    weight = graph.make_initializer("", ones)
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
    """Average pooling over the last ``n`` dimensions.

    ``padded``: the padding counts; elements beyond it (``ceil``) never do. ``divisor`` replaces
    the count. Ints and float64, which have no kernel, are gathered and summed.
    """
    op = OpBuilder(graph)
    own = graph.get_type(x)
    have = shape_of(graph, x)[-n:]
    if not dtypes.is_float_type(own) or own == dtypes.float64 or (ceil and not is_static(have)):
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, [1], ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, [1])
        return window_mean(graph, x, tables, sizes, padded, divisor)
    extra = [0] if rank_of(graph, x) == n + 1 else []
    compute_dtype = dtypes.float32 if own == dtypes.bfloat16 else own
    window, before = broadcast_ints(kernel, n), broadcast_ints(pads, n)
    strides = broadcast_ints(steps, n) if steps else window
    beyond = _ceil_overhang(shape_of(graph, x)[-n:], window, strides, before) if ceil else [0] * n
    value = unsqueezed(graph, cast(graph, x, compute_dtype), extra)
    counted = padded or divisor is not None
    if counted and divisor is None and any(beyond):
        # the padding becomes part of the input, so that only elements beyond it are not counted
        amounts = consts(graph, [0, 0, *before, 0, 0, *before], dtypes.int64)
        value = op.Pad(value, amounts) if any(before) else value
        before, ends, counted = [0] * n, beyond, False
    else:
        ends = [pad + more for pad, more in zip(before, beyond, strict=True)]
    result = op.AveragePool(
        value,
        kernel_shape=window,
        strides=strides,
        pads=[*before, *ends],
        count_include_pad=int(counted),
    )
    if divisor is not None:
        result = scaled(graph, result, math.prod(window) / divisor)
    return squeezed(graph, cast(graph, result, own), extra)


def _plane_area(sizes: SymInts) -> SymInt:
    total: SymInt = 1
    for size in sizes:
        total = total * size
    return total


def _ceil_overhang(sizes: SymInts, window: Ints, strides: Ints, pads: Ints) -> Ints:
    """The number of elements by which the last window exceeds the padding, per axis."""
    result = []
    for size, k, step, pad in zip(static(sizes), window, strides, pads, strict=True):
        count = _window_count(size, k, step, pad, True)
        result.append(max((count - 1) * step + k - size - 2 * pad, 0))
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
    """The number of windows along each of the last ``n`` dimensions."""
    window = broadcast_ints(kernel, n)
    strides = broadcast_ints(steps, n) if steps else window
    reach = [gap * (k - 1) + 1 for k, gap in zip(window, broadcast_ints(spacing, n), strict=True)]
    axes = zip(shape_of(graph, x)[-n:], reach, strides, broadcast_ints(pads, n), strict=True)
    return [_window_count(*axis, ceil) for axis in axes]


def _window_count(size: SymInt, reach: int, step: int, pad: int, ceil: bool) -> SymInt:
    """The windows along one axis; torch drops one that starts past the input."""
    whole = size + 2 * pad - reach
    if not ceil:
        return whole // step + 1
    # the last start that ceil_mode allows, or that still lies in the input and its first padding
    return dims.min_of(dims.ceil_div(whole, step), (size + pad - 1) // step) + 1


def pooled_adaptive(graph: Graph, x: Result, n: Int, sizes: SymInts, largest: Bool) -> Result:
    """Mean or maximum over ``sizes`` regions of the last ``n`` dimensions, divided as evenly as in
    torch; one number is the size of every axis.
    """
    rank, sizes = rank_of(graph, x), list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    sizes = sizes if len(sizes) == n else sizes * n
    have = shape_of(graph, x)[-n:]
    if tuple(have) == tuple(sizes):
        return x
    if any(isinstance(size, int) and size == 0 for size in sizes):
        shape = [*shape_of(graph, x)[:-n], *sizes]
        return filled(graph, shape, 0, graph.get_type(x))
    first = rank - n
    ones = [
        first + index for index, size in enumerate(sizes) if isinstance(size, int) and size == 1
    ]
    if len(ones) == n:
        return _pool_axes(graph, x, ones, largest)
    own = graph.get_type(x)
    if are_divisible(have, sizes) and own == dtypes.float32 and not largest:
        parts = divide_sizes(have, sizes)
        return pooled_mean(graph, x, n, parts, parts, [0], False, False, None)
    if not is_static(have):
        wide = cast(graph, x, opmath_dtype(own))
        tables = even_tables(graph, wide, sizes)
        if largest:
            return cast(graph, window_max(graph, wide, tables, sizes, False)[0], own)
        return cast(graph, window_mean(graph, wide, tables, sizes, False, None), own)
    result = _pool_axes(graph, x, ones, largest) if ones else x
    for index, size in enumerate(sizes):
        if first + index not in ones and not (have[index] is size or have[index] == size):
            result = _in_regions(graph, result, first + index, static(size), largest)
    return result


def _pool_axes(graph: Graph, x: str, axes: Ints, largest: bool) -> str:
    if largest:
        return reduced_extreme(graph, x, axes, True, True)
    return mean_over(graph, x, axes, True)


def _in_regions(graph: Graph, x: str, axis: int, count: int, largest: bool) -> str:
    """Region i of ``count`` along ``axis`` goes from floor(i*size/count) to
    ceil((i+1)*size/count)."""
    size = static(shape_of(graph, x)[axis])
    parts = []
    for region in range(count):
        ends = [region * size // count, -(-(region + 1) * size // count)]
        bounds = [consts(graph, [end], dtypes.int64) for end in (*ends, axis)]
        parts.append(_pool_axes(graph, OpBuilder(graph).Slice(x, *bounds), [axis], largest))
    return graph.make_node("Concat", parts, axis=axis)


def even_tables(graph: Graph, x: Result, sizes: SymInts) -> Any:
    """The windows of adaptive pooling: window i of ``count`` along an axis of ``size`` elements
    goes from floor(i size / count) to ceil((i + 1) size / count)."""
    tables = []
    for size, count in zip(shape_of(graph, x)[-len(sizes) :], sizes, strict=True):
        op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
        start, end = (unsqueezed(graph, bound, [1]) for bound in even_ends(graph, size, count))
        longest = dims.ceil_div(size, count) + (0 if _is_divisor(size, count) else 1)
        places = op.Add(start, iota(graph, 0, longest, 1))
        inside = op.Less(places, end)
        last = op.Sub(end, one)
        tables.append((op.Min(places, last), inside, op.Sub(end, start)))
    return tables


def _is_divisor(size: SymInt, count: SymInt) -> bool:
    return isinstance(size, int) and isinstance(count, int) and count > 0 and size % count == 0


def pool_tables(
    graph: Graph, x: Result, sizes: SymInts, kernel: Ints, steps: Ints, pads: Ints, spacing: Ints
) -> Any:
    """The windows of a pool that gives ``sizes``; the third part counts elements and padding."""
    n, tables = len(sizes), []
    window = broadcast_ints(kernel, n)
    strides = broadcast_ints(steps, n) if steps else window
    have, before, gaps = (
        shape_of(graph, x)[-n:],
        broadcast_ints(pads, n),
        broadcast_ints(spacing, n),
    )
    axes = zip(have, sizes, window, strides, before, gaps,
                strict=True)  # fmt: skip
    for size, count, k, step, pad, gap in axes:
        op, zero = OpBuilder(graph), const(graph, 0, dtypes.int64)
        start = unsqueezed(graph, iota(graph, -pad, count, step), [1])
        places = op.Add(start, consts(graph, [gap * tap for tap in range(k)], dtypes.int64))
        inside = op.And(
            op.GreaterOrEqual(places, zero),
            op.Less(places, const(graph, size, dtypes.int64)),
        )
        reach = op.Min(op.Add(start, const(graph, k, dtypes.int64)),
                             const(graph, size + pad, dtypes.int64))  # fmt: skip
        last = const(graph, size - 1, dtypes.int64)
        safe = op.Max(op.Min(places, last), zero)
        tables.append((safe, inside, op.Sub(reach, start)))
    return tables


def window_max(graph: Graph, x: Result, tables: Any, sizes: SymInts, indexed: Bool) -> Results:
    """[maxima, their indices in the flattened plane]; the last NaN wins, as in torch. Without
    ``indexed`` the maxima alone.
    """
    dtype, op = graph.get_type(x), OpBuilder(graph)
    lead = list(shape_of(graph, x))[: -len(sizes)]
    values, places, inside = _gather_windows(graph, x, tables)
    values = op.Where(inside, values, const(graph, dtype_min(dtype), dtype))
    if not indexed:
        result = reduced_extreme(graph, values, [len(lead) + 1], False, True)
        return [reshape_to(graph, result, [*lead, *sizes])]
    best = _last_best(graph, values, len(lead) + 1)
    top = op.GatherElements(values, best, axis=len(lead) + 1)
    window_size = op.Shape(places, start=1)
    rows = iota(graph, 0, dims.product_of(sizes), 1)
    flat = op.Add(op.Mul(rows, window_size), op.Squeeze(best, _axis_vector(graph, len(lead) + 1)))
    flat_places = op.Reshape(places, consts(graph, [-1], dtypes.int64))
    at = op.Gather(flat_places, flat, axis=0)
    return [reshape_to(graph, result, [*lead, *sizes]) for result in (top, at)]


def _last_best(graph: Graph, values: str, axis: int) -> str:
    """The index of the first maximum, or of the last NaN: int64 with ``axis`` kept."""
    dtype, op = graph.get_type(values), OpBuilder(graph)
    if not dtypes.is_float_type(dtype):
        one = consts(graph, [1], dtypes.int64)
        return str(op.TopK(cast(graph, values, dtypes.int64), one, outputs=2, axis=axis)[1])
    compute_dtype = values if dtype == dtypes.float64 else cast(graph, values, dtypes.float32)
    first = op.ArgMax(compute_dtype, axis=axis)
    wrong = cast(graph, op.IsNaN(compute_dtype), dtypes.uint8)
    lost = op.ArgMax(wrong, axis=axis, select_last_index=1)
    some = op.ReduceMax(wrong, _axis_vector(graph, axis), keepdims=1)
    return str(op.Where(cast(graph, some, dtypes.boolean), lost, first))


def window_mean(
    graph: Graph, x: Result, tables: Any, sizes: SymInts, padded: Bool, divisor: Int | None
) -> Result:
    """The mean of every window; ``padded``: padding counts; ``divisor`` replaces the count. Means
    of ints are truncated, as torch's are."""
    dtype, op = graph.get_type(x), OpBuilder(graph)
    lead = list(shape_of(graph, x))[: -len(sizes)]
    values, _, inside = _gather_windows(graph, x, tables)
    valid = op.Where(inside, values, 0)
    if dtypes.is_float_type(dtype):
        total = op.ReduceSum(valid, _axis_vector(graph, len(lead) + 1), keepdims=0)
    else:
        total = summed_over(graph, valid, [len(lead) + 1], False)
    if divisor is not None:
        count = const(graph, divisor, dtype)
    elif padded:
        counts = _outer_combine(graph, [table[2] for table in tables], "Mul")
        count = cast(graph, op.Reshape(counts, consts(graph, [-1], dtypes.int64)), dtype)
        count = fold_constant(graph, count)
    else:
        marks = cast(graph, inside, dtypes.int64)
        count = cast(graph, op.ReduceSum(marks, _axis_vector(graph, 1), keepdims=0), dtype)
    return reshape_to(graph, op.Div(total, count), [*lead, *sizes])


def _axis_vector(graph: Graph, axis: int) -> str:
    return consts(graph, [axis], dtypes.int64)


def _gather_windows(graph: Graph, x: str, tables: Any) -> tuple[str, str, str]:
    """(elements [..., windows, elements of one], their indices in the flattened plane, whether they
    are in the input).
    """
    op, n = OpBuilder(graph), len(tables)
    shape = list(shape_of(graph, x))
    scaled = []
    for axis, (places, _, _) in enumerate(tables):
        inner = dims.product_of(shape[len(shape) - n + axis + 1 :])
        scaled.append(op.Mul(places, const(graph, inner, dtypes.int64)))
    places = _outer_combine(graph, scaled, "Add")
    inside = _outer_combine(graph, [table[1] for table in tables], "And")
    rows = [entry[0] for entry in tables]
    both = [op.Shape(row) for row in rows]
    if n > 1:
        total = both[0]
        for more in both[1:]:
            total = op.Mul(total, more)
        places, inside = (op.Reshape(entry, total) for entry in (places, inside))
    places, inside = fold_constant(graph, places), fold_constant(graph, inside)
    flat = reshape_to(
        graph, x, [*shape[: len(shape) - n], dims.product_of(shape[len(shape) - n :])]
    )
    return op.Gather(flat, places, axis=len(shape) - n), places, inside


def _outer_combine(graph: Graph, parts: list[str], op: str) -> str:
    """[o0, o1, ..., k0, k1, ...] from one [o, k] an axis."""
    n, result = len(parts), None
    for axis, part in enumerate(parts):
        others = [other for other in range(2 * n) if other not in (axis, n + axis)]
        wide = unsqueezed(graph, part, others)
        result = wide if result is None else graph.make_node(op, [result, wide])
    assert result is not None
    return result


def pooled_fractional(
    graph: Graph, x: Result, kernel: Ints, sizes: Ints, samples: Result
) -> Results:
    """[maxima, indices] of windows that begin at random offsets: at floor((i + u) step) -
    floor(u step) along each axis, with step = (size - kernel) / (count - 1); the last one ends the
    axis.

    ``samples`` hold u for every plane, [N, C, axes] (Graham, Fractional max-pooling, 2014).
    """
    op, n = OpBuilder(graph), len(sizes)
    shape, dtype = list(shape_of(graph, x)), graph.get_type(samples)
    lead = shape[: len(shape) - n]
    planes, area = dims.product_of(lead), dims.product_of(shape[len(shape) - n :])
    drawn = reshape_to(graph, samples, [planes, n])
    places = None
    for axis, (k, count) in enumerate(zip(kernel, sizes, strict=True)):
        size = shape[len(shape) - n + axis]
        # a plane's samples begin with its last axis, a volume's with its first
        column = axis if n == 3 else n - 1 - axis
        u = op.Gather(drawn, consts(graph, [column], dtypes.int64), axis=1)
        end = const(graph, size - k, dtypes.int64)
        starts = op.Expand(end, consts(graph, [1, 1], dtypes.int64))
        if count > 1:
            width = op.Sub(const(graph, size, dtype), const(graph, k, dtype))
            step = op.Div(width, const(graph, count - 1, dtype))
            ramp = consts(graph, list(range(count - 1)), dtype)
            first = _truncate_to_int(graph, op.Mul(op.Add(ramp, u), step))
            moved = op.Sub(first, _truncate_to_int(graph, op.Mul(u, step)))
            column_of = op.Concat(op.Shape(moved, end=1), consts(graph, [1], dtypes.int64), axis=0)
            starts = op.Concat(moved, op.Expand(end, column_of), axis=1)
        inner = dims.product_of(shape[len(shape) - n + axis + 1 :])
        own = op.Add(unsqueezed(graph, starts, [2]), consts(graph, list(range(k)), dtypes.int64))
        own = op.Mul(own, const(graph, inner, dtypes.int64))
        others = [other for other in range(2 * n) if other not in (axis, n + axis)]
        own = unsqueezed(graph, own, [other + 1 for other in others])
        places = own if places is None else op.Add(places, own)
    windows, window_size = dims.product_of(sizes), dims.product_of(kernel)
    assert places is not None
    full_shape = [planes, *sizes, *kernel]
    grown = op.Expand(places, as_vec(graph, full_shape))
    table = reshape_to(graph, grown, [planes, windows * window_size])
    values = op.GatherElements(reshape_to(graph, x, [planes, area]), table, axis=1)
    values, table = (
        reshape_to(graph, part, [planes, windows, window_size]) for part in (values, table)
    )
    best = _last_best(graph, values, 2)
    result = [op.GatherElements(part, best, axis=2) for part in (values, table)]
    return [reshape_to(graph, part, [*lead, *sizes]) for part in result]


def _truncate_to_int(graph: Graph, x: str) -> str:
    """A float that is not negative, cut to an int."""
    return cast(graph, x, dtypes.int64)
