"""Lower-case words of the spec language for gradients: linear maps of one axis taken backwards,
gradients that are added up where indices point, slopes of distances.

The weights of an axis are read from torch's own gradient of a unit matrix while converting, so
every mode rounds as torch does. Along dynamic sizes pooling and padding compute their windows in
the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Floats,
    Int,
    Ints,
    Opaque,
    Result,
    Results,
    Str,
    SymInt,
    SymInts,
    is_static,
    rank_of,
    shape_of,
    spread,
)
from ortable.prelude.pointwise import const_like, filled_like
from ortable.prelude.shapes import counting, full_pads, sliced, stretched, zeros_of
from ortable.prelude.values import as_vec, cast, const, consts, reshape_to, unsqueezed

from .nn import wide_dtype
from .scatter import put_elements
from .window_words import even_ends

__all__ = [
    "adaptive_weights",
    "bag_places",
    "distance_slope",
    "edge_weights",
    "first_elements",
    "frequencies",
    "mean_weights",
    "put_in_planes",
    "resample_weights",
    "summed_back",
    "window_ends",
]

# -- linear maps of one axis --------------------------------------------------------------------


def summed_back(graph: Graph, grad: Result, weights: Opaque) -> Result:
    """The gradient of linear maps of the last axes, one an axis, in the dtype of ``grad``: a matrix
    [in, out], or for a dynamic size a function of the graph, the gradient and the axis.

    Each element adds up the few elements of ``grad`` that read it. Only those are gathered, so
    that an infinite gradient stays where it belongs.
    """
    own = graph.get_type(grad)
    found = cast(graph, grad, wide_dtype(own))
    first = rank_of(graph, grad) - len(weights)
    for place, through in enumerate(weights):
        if isinstance(through, np.ndarray):
            found = _through_axis(graph, found, first + place, through)
        else:
            found = through(graph, found, first + place)
    return cast(graph, found, own)


def _through_axis(graph: Graph, x: str, axis: int, matrix: np.ndarray) -> str:
    """``result[i] = sum of matrix[i, o] * x[o]`` along one axis."""
    rows, columns = matrix.shape
    if rows == columns and np.array_equal(matrix, np.eye(rows)):
        return x
    rank, kept = rank_of(graph, x), matrix != 0
    width = max(int(kept.sum(axis=1).max(initial=0)), 1)
    places = np.full((rows, width), columns, np.int64)
    factors = np.zeros((rows, width), matrix.dtype)
    for row in range(rows):
        used = np.flatnonzero(kept[row])
        places[row, : len(used)], factors[row, : len(used)] = used, matrix[row, used]
    if (places == columns).any():  # one more element, 0, for rows that read fewer
        amounts = [0] * (2 * rank)
        amounts[rank + axis] = 1
        x = graph.make_node("Pad", [x, consts(graph, amounts, dtypes.int64)])
    if width == 1:
        x = graph.make_node("Gather", [x, graph.make_initializer("", places[:, 0])], axis=axis)
        shape = [rows] + [1] * (rank - axis - 1)
    else:
        x = graph.make_node("Gather", [x, graph.make_initializer("", places)], axis=axis)
        shape = [rows, width] + [1] * (rank - axis - 1)
    if (factors != 1).any():
        factors = factors.astype(dtypes.to_numpy(graph.get_type(x)))
        x = graph.make_node("Mul", [x, graph.make_initializer("", factors.reshape(shape))])
    if width == 1:
        return x
    return graph.make_node("ReduceSum", [x, consts(graph, [axis + 1], dtypes.int64)], keepdims=0)


def _through_windows(
    graph: Graph, x: str, axis: int, size: SymInt, start: str, end: str, counts: str
) -> str:
    """``result[i] = sum of x[o] / counts[o]`` over the windows o with ``start <= i < end``."""
    make, later = graph.make_node, list(range(2, rank_of(graph, x) - axis + 1))
    shared = unsqueezed(graph, cast(graph, counts, graph.get_type(x)), [n - 1 for n in later])
    x = unsqueezed(graph, make("Div", [x, shared]), [axis])
    places = unsqueezed(graph, counting(graph, 0, size, 1), [1])
    inside = make("And", [make("GreaterOrEqual", [places, start]), make("Less", [places, end])])
    kept = make("Where", [unsqueezed(graph, inside, later), x, const_like(graph, 0, x)])
    return make("ReduceSum", [kept, consts(graph, [axis + 1], dtypes.int64)], keepdims=0)


def _through_edges(graph: Graph, x: str, axis: int, size: SymInt, before: int, after: int) -> str:
    """The gradient of padding one axis with the elements at its ends; what is cut off gets 0."""
    make, rank = graph.make_node, rank_of(graph, x)
    cut = max(-before, 0), max(-after, 0)
    first = max(before, 0)
    found = sliced(graph, x, axis, first, first + size - sum(cut), 1)
    if any(cut):
        found = make("Pad", [found, as_vec(graph, full_pads(rank, axis, *cut))])
    last = first + size - sum(cut)
    left, right = (0, first), (last, last + max(after, 0))
    for ends, pads in ((left, (0, size - 1)), (right, (size - 1, 0))):
        if dims.same(*ends):
            continue
        over = sliced(graph, x, axis, *ends, 1)
        total = make("ReduceSum", [over, consts(graph, [axis], dtypes.int64)], keepdims=1)
        more = make("Pad", [total, as_vec(graph, full_pads(rank, axis, *pads))])
        found = make("Add", [found, more])
    return found


def _known(sizes: Any) -> list[int]:
    for size in sizes:
        if isinstance(size, SymDim):
            raise UnsupportedCase(f"the gradient along the dynamic size '{size}'", (size,))
    return list(sizes)


def _response(count: int, dtype: int, backward: Callable[[Any, Any], Any]) -> np.ndarray:
    """The matrix [in, out] of a linear map of one axis; ``backward(torch, grad)`` takes gradients
    of its ``count`` results, the last axis of [1, out, 1, out], to those of what it reads."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    kind = torch.float64 if dtype == dtypes.float64 else torch.float32
    with _disable_current_modes(), torch.no_grad():
        unit = torch.eye(count, dtype=kind, device="cpu").reshape(1, count, 1, count)
        return backward(torch, unit)[0, :, 0].numpy().T


_SMOOTH = {"linear": "bilinear", "cubic": "bicubic", "lanczos": "lanczos"}


def _resampled(torch: Any, grad: Any, how: str, sizes: Any, corners: bool, scale: Any) -> Any:
    """torch's gradient of upsampling the last axis, of 1 by ``count`` pixels."""
    aten, (count, size) = torch.ops.aten, sizes
    out, have = [1, count], [1, count, 1, size]
    if how == "nearest":
        return aten.upsample_nearest2d_backward(grad, out, have, None, scale)
    if how == "exact":
        return aten._upsample_nearest_exact2d_backward(grad, out, have, None, scale)
    kind, _, smooth = how.rpartition(" ")
    name = f"_upsample_{_SMOOTH[smooth]}2d_aa" if kind else f"upsample_{_SMOOTH[smooth]}2d"
    return getattr(aten, f"{name}_backward")(grad, out, have, corners, None, scale)


def resample_weights(
    how: Str, have: SymInts, wanted: SymInts, corners: Bool, scales: Floats, dtype: Dtype
) -> Opaque:
    """The matrices of torch's upsampling from the last sizes of ``have`` to ``wanted``.

    ``how``: nearest, exact, linear, cubic, or smooth (antialiased) linear, cubic, lanczos.

    Raises:
        UnsupportedCase: a size is dynamic.
    """
    sizes = list(zip(_known(wanted), _known(have[-len(wanted) :]), strict=True))
    return [
        _response(
            pair[0],
            dtype,
            partial(_resampled, how=how, sizes=pair, corners=corners, scale=scale),
        )
        for pair, scale in zip(sizes, scales, strict=True)
    ]


def mean_weights(
    graph: Graph,
    sizes: SymInts,
    places: SymInts,
    kernel: Ints,
    steps: Ints,
    pads: Ints,
    rest: Opaque,
    dtype: Dtype,
) -> Opaque:
    """The maps of average pooling of ``sizes`` into ``places`` windows; ``rest`` holds ceil_mode,
    count_include_pad and divisor_override."""
    n, (ceil, padded, divisor) = len(sizes), rest
    window, before = spread(kernel, n), spread(pads, n)
    strides = spread(steps, n) if steps else window
    found: list[Any] = []
    for size, count, k, step, pad in zip(sizes, places, window, strides, before, strict=True):
        share = divisor and (1 if found else divisor)  # all of it along the first axis
        if is_static([size, count]):
            windows = ([1, k], [1, step], [0, pad])
            back = partial(
                _pooled_back, size=size, window=windows, rest=(ceil, padded, divisor and 1)
            )
            found.append(_response(count, dtype, back) / (share or 1))
        else:
            start, end, counts = window_ends(graph, size, count, k, step, pad, padded)
            counts = counts if share is None else consts(graph, [share], dtype)
            found.append(partial(_through_windows, size=size, start=start, end=end, counts=counts))
    return found


def window_ends(
    graph: Graph, size: SymInt, count: SymInt, k: Int, step: Int, pad: Int, padded: Bool
) -> Results:
    """Where ``count`` windows of ``k`` elements begin and end along an axis, and how many elements
    each of them averages: those inside, and those of the padding where it counts."""
    make = graph.make_node
    start = counting(graph, -pad, count, step)
    end = make("Add", [start, const(graph, k, dtypes.int64)])
    low, high = (-pad, size + pad) if padded else (0, size)
    last = make("Min", [end, const(graph, high, dtypes.int64)])
    counts = make("Sub", [last, make("Max", [start, const(graph, low, dtypes.int64)])])
    return [start, end, counts]


def _pooled_back(torch: Any, grad: Any, size: int, window: Any, rest: Any) -> Any:
    """torch's gradient of average pooling of the last axis."""
    read = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten.avg_pool2d_backward(grad, read, *window, *rest)


def _adapted_back(torch: Any, grad: Any, size: int) -> Any:
    """torch's gradient of adaptive average pooling of the last axis."""
    read = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten._adaptive_avg_pool2d_backward(grad, read)


def adaptive_weights(graph: Graph, have: SymInts, wanted: SymInts, dtype: Dtype) -> Opaque:
    """The maps of adaptive average pooling from sizes to sizes."""
    found: list[Any] = []
    for size, count in zip(have, wanted, strict=True):
        if is_static([size, count]):
            found.append(_response(count, dtype, partial(_adapted_back, size=size)))
        else:
            start, end = even_ends(graph, size, count)
            counts = graph.make_node("Sub", [end, start])
            found.append(partial(_through_windows, size=size, start=start, end=end, counts=counts))
    return found


def edge_weights(sizes: SymInts, pads: SymInts, dtype: Dtype) -> Opaque:
    """The maps of padding with the elements at the edge; the last axis comes first in ``pads``.

    Raises:
        UnsupportedCase: an amount is dynamic.
    """
    amounts = _known(pads)[::-1]
    found: list[Any] = []
    for place, size in enumerate(sizes):
        after, before = amounts[2 * place : 2 * place + 2]
        if isinstance(size, SymDim):
            found.append(partial(_through_edges, size=size, before=before, after=after))
            continue
        read = np.clip(np.arange(-before, size + after), 0, max(size - 1, 0))
        kind = np.float64 if dtype == dtypes.float64 else np.float32
        found.append((np.arange(size)[:, None] == read).astype(kind))
    return found


# -- indices ------------------------------------------------------------------------------------


def put_in_planes(graph: Graph, shape: SymInts, n: Int, index: Result, values: Result) -> Result:
    """Zeros of ``shape`` with ``values`` added where ``index`` points into the flattened last
    ``n`` dimensions."""
    lead, own = list(shape[:-n]), graph.get_type(values)
    if index is not None and 0 in shape_of(graph, index):
        return zeros_of(graph, list(shape), own)
    windows = [*lead, dims.prod(shape_of(graph, index)[-n:])]
    zeros = zeros_of(graph, [*lead, dims.prod(shape[-n:])], own)
    places, parts = reshape_to(graph, index, windows), reshape_to(graph, values, windows)
    return reshape_to(graph, put_elements(graph, zeros, len(lead), places, parts, "add"), shape)


def bag_places(graph: Graph, offsets: Result, count: Result) -> Result:
    """int64[n]: which bag each of ``count`` indices is in; ``offsets`` say where bags begin."""
    make, one = graph.make_node, consts(graph, [1], dtypes.int64)
    starts = cast(graph, offsets, dtypes.int64)
    zeros = make("Expand", [consts(graph, [0], dtypes.int64), make("Add", [count, one])])
    ones = make("Expand", [one, make("Shape", [starts])])
    marks = make("ScatterElements", [zeros, starts, ones], axis=0, reduction="add")
    numbers = make("CumSum", [marks, const(graph, 0, dtypes.int64)])
    inside = make("Slice", [numbers, consts(graph, [0], dtypes.int64), count])
    return make("Sub", [inside, one])


def frequencies(graph: Graph, index: Result, count: SymInt, dtype: Dtype) -> Result:
    """How often each element of the 1-d ``index`` occurs in it; they are below ``count``."""
    ones = stretched(graph, const(graph, 1, dtype), list(shape_of(graph, index)))
    totals = put_elements(graph, zeros_of(graph, [count], dtype), 0, index, ones, "add")
    return graph.make_node("Gather", [totals, index], axis=0)


# -- distances ----------------------------------------------------------------------------------


def distance_slope(graph: Graph, away: Result, dist: Result, grad: Result, p: Float) -> Result:
    """``grad`` times the derivative of a p-norm ``dist`` by the differences ``away``; 0 where
    torch defines it so (no distance)."""
    make, zero = graph.make_node, const_like(graph, 0, away)
    if p == 0:
        return filled_like(graph, away, 0, graph.get_type(away))
    sign, size = make("Sign", [away]), make("Abs", [away])
    if p == 1:
        return make("Mul", [grad, sign])
    if math.isinf(p):
        most = make("Equal", [size, dist])
        return make("Where", [most, make("Mul", [grad, sign]), zero])
    if p == 2:
        found = make("Div", [make("Mul", [grad, away]), dist])
    else:
        steep = const_like(graph, p - 1, away)
        part = make("Mul", [make("Mul", [sign, make("Pow", [size, steep])]), grad])
        found = make("Div", [part, make("Pow", [dist, steep])])
    lost = make("Equal", [dist, zero])
    if p < 1:
        lost = make("Or", [lost, make("Equal", [away, zero])])
    return make("Where", [lost, zero, found])


def first_elements(graph: Graph, x: Result, sizes: SymInts) -> Result:
    """The 1-d ``x``, cut or filled with zeros, as a result of ``sizes``."""
    total = as_vec(graph, dims.prod(sizes))
    zeros = graph.make_node("Expand", [consts(graph, [0], graph.get_type(x)), total])
    long = graph.make_node("Concat", [x, zeros], axis=0)
    return reshape_to(
        graph, graph.make_node("Slice", [long, consts(graph, [0], dtypes.int64), total]), sizes
    )
