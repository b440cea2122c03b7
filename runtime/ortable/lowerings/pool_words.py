"""Words of the spec language for pooling, in one, two or three spatial dimensions, with
or without a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    is_static,
    rank_of,
    shape_of,
    spread,
    static,
)
from ortable.prelude.sums import mean_over
from ortable.prelude.values import cast, const, consts, filled, squeezed, unsqueezed

from .nn import divisible, quotients, reduced_extreme, scaled, wide_dtype
from .window_words import even_tables, pool_tables, window_max, window_mean

__all__ = ["pooled_adaptive", "pooled_max", "pooled_mean", "pooled_sizes", "regions"]

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
    own = graph.get_type(x)
    if own == dtypes.int64:
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, spacing, ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, spacing)
        return window_max(graph, x, tables, sizes, indexed)
    extra = [0] if rank_of(graph, x) == n + 1 else []
    wide = {
        dtypes.int16: dtypes.float64,
        dtypes.int32: dtypes.float64,
        dtypes.bfloat16: dtypes.float32,
    }.get(own, own)
    window = spread(kernel, n)
    attributes = {
        "kernel_shape": window,
        "strides": spread(steps, n) if steps else window,
        "pads": spread(pads, n) * 2,
        "dilations": spread(spacing, n),
        "ceil_mode": int(ceil),
    }
    batched = unsqueezed(graph, cast(graph, x, wide), extra)
    found = graph.make_node("MaxPool", [batched], 2 if indexed else 1, **attributes)
    values, places = found if indexed else (found, None)
    if dtypes.is_float_type(own) and not _is_dequantized(graph, x):
        if not indexed and not ceil and _suits_blocks(graph, batched, n):
            values = _with_nan_in_blocks(graph, batched, values, attributes)
        else:
            values = _with_nan(graph, batched, values, attributes)
    if places is None:
        return [squeezed(graph, cast(graph, values, own), extra)]
    plane = const(graph, _area(shape_of(graph, x)[-n:]), dtypes.int64)
    # ONNX counts indices over batch and channels too, torch inside each plane
    inside = graph.make_node("Mod", [places, plane])
    return [squeezed(graph, cast(graph, values, own), extra), squeezed(graph, inside, extra)]


def _with_nan(graph: Graph, x: Result, values: Result, attributes: dict[str, Any]) -> Result:
    """NaN wherever the window holds one: torch keeps it, ONNX Runtime's MaxPool may skip it."""
    flags = cast(graph, graph.make_node("IsNaN", [x]), dtypes.float32)
    seen = cast(graph, graph.make_node("MaxPool", [flags], **attributes), dtypes.boolean)
    return graph.make_node("Where", [seen, const(graph, math.nan, graph.get_type(values)), values])


def _is_dequantized(graph: Graph, x: Result) -> bool:
    """Whether ``x`` is made of codes with known scales: none of them is NaN."""
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
    """``_with_nan`` for values of at least 0, by operators that keep the blocked layout of the
    convolutions around: IsNaN and Where would force two changes of layout.

    The negated sum of a window is at most 0, or NaN: its Relu is 0, or NaN.
    """
    channels = static(shape_of(graph, x)[1])
    ones = np.full((channels, 1, *attributes["kernel_shape"]), -1.0, np.float32)
    settings = {key: value for key, value in attributes.items() if key != "ceil_mode"}
    weight = graph.make_initializer("", ones)
    sums = graph.make_node("Conv", [x, weight], group=channels, **settings)
    return graph.make_node("Add", [values, graph.make_node("Relu", [sums])])


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

    ``padded``: the padding counts; what lies beyond it (``ceil``) never does. ``divisor`` replaces
    the count. Ints and float64, which have no kernel, are gathered and summed.
    """
    own = graph.get_type(x)
    have = shape_of(graph, x)[-n:]
    if not dtypes.is_float_type(own) or own == dtypes.float64 or (ceil and not is_static(have)):
        sizes = pooled_sizes(graph, x, n, kernel, steps, pads, [1], ceil)
        tables = pool_tables(graph, x, sizes, kernel, steps, pads, [1])
        return window_mean(graph, x, tables, sizes, padded, divisor)
    extra = [0] if rank_of(graph, x) == n + 1 else []
    wide = dtypes.float32 if own == dtypes.bfloat16 else own
    window, before = spread(kernel, n), spread(pads, n)
    strides = spread(steps, n) if steps else window
    beyond = _beyond(shape_of(graph, x)[-n:], window, strides, before) if ceil else [0] * n
    value = unsqueezed(graph, cast(graph, x, wide), extra)
    counted = padded or divisor is not None
    if counted and divisor is None and any(beyond):
        # the padding becomes part of the input, so that only what lies beyond it is left out of the
        # count
        amounts = consts(graph, [0, 0, *before, 0, 0, *before], dtypes.int64)
        value = graph.make_node("Pad", [value, amounts]) if any(before) else value
        before, ends, counted = [0] * n, beyond, False
    else:
        ends = [pad + more for pad, more in zip(before, beyond, strict=True)]
    found = graph.make_node(
        "AveragePool",
        [value],
        kernel_shape=window,
        strides=strides,
        pads=[*before, *ends],
        count_include_pad=int(counted),
    )
    if divisor is not None:
        found = scaled(graph, found, math.prod(window) / divisor)
    return squeezed(graph, cast(graph, found, own), extra)


def _area(sizes: SymInts) -> SymInt:
    total: SymInt = 1
    for size in sizes:
        total = total * size
    return total


def _beyond(sizes: SymInts, window: Ints, strides: Ints, pads: Ints) -> Ints:
    """How far the last window reaches past the padding, per axis."""
    found = []
    for size, k, step, pad in zip(static(sizes), window, strides, pads, strict=True):
        count = _window_count(size, k, step, pad, True)
        found.append(max((count - 1) * step + k - size - 2 * pad, 0))
    return found


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
    """How many windows fit along each of the last ``n`` dimensions."""
    window = spread(kernel, n)
    strides = spread(steps, n) if steps else window
    reach = [gap * (k - 1) + 1 for k, gap in zip(window, spread(spacing, n), strict=True)]
    given = zip(shape_of(graph, x)[-n:], reach, strides, spread(pads, n), strict=True)
    return [_window_count(*each, ceil) for each in given]


def _window_count(size: SymInt, reach: int, step: int, pad: int, ceil: bool) -> SymInt:
    """The windows along one axis; torch drops one that starts past the input."""
    whole = size + 2 * pad - reach
    if not ceil:
        return whole // step + 1
    # the last start that ceil_mode allows, or that still lies in the input and its first padding
    return dims.minimum(dims.ceildiv(whole, step), (size + pad - 1) // step) + 1


def regions(values: SymInts, n: Int) -> SymInts:
    """How many regions adaptive pooling makes along each of ``n`` axes; one number serves all."""
    given = list(values) if isinstance(values, list | tuple) else [values]
    return given if len(given) == n else given * n


def pooled_adaptive(graph: Graph, x: Result, sizes: SymInts, largest: Bool) -> Result:
    """Mean or maximum over ``sizes`` regions that share the last dimensions as evenly as torch
    does."""
    rank, n = rank_of(graph, x), len(sizes)
    have = shape_of(graph, x)[-n:]
    if tuple(have) == tuple(sizes):
        return x
    if any(isinstance(size, int) and size == 0 for size in sizes):
        shape = [*shape_of(graph, x)[:-n], *sizes]
        return filled(graph, shape, 0, graph.get_type(x))
    first = rank - n
    ones = [
        first + place for place, size in enumerate(sizes) if isinstance(size, int) and size == 1
    ]
    if len(ones) == n:
        return _over(graph, x, ones, largest)
    own = graph.get_type(x)
    if divisible(have, sizes) and own == dtypes.float32 and not largest:
        parts = quotients(have, sizes)
        return pooled_mean(graph, x, n, parts, parts, [0], False, False, None)
    if not is_static(have):
        wide = cast(graph, x, wide_dtype(own))
        tables = even_tables(graph, wide, sizes)
        if largest:
            return cast(graph, window_max(graph, wide, tables, sizes, False)[0], own)
        return cast(graph, window_mean(graph, wide, tables, sizes, False, None), own)
    found = _over(graph, x, ones, largest) if ones else x
    for place, size in enumerate(sizes):
        if first + place not in ones and not (have[place] is size or have[place] == size):
            found = _in_regions(graph, found, first + place, static(size), largest)
    return found


def _over(graph: Graph, x: str, axes: Ints, largest: bool) -> str:
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
        parts.append(_over(graph, graph.make_node("Slice", [x, *bounds]), [axis], largest))
    return graph.make_node("Concat", parts, axis=axis)
