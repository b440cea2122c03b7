"""Short-time Fourier transforms: frames of a signal, a window, one transform a frame; and back."""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.ir import Graph, Res
from ortable.lowerings.complex.arithmetic import as_complex, c_permuted, c_times
from ortable.prelude.complex_value import ComplexValue, complex_type, join_pair
from ortable.prelude.facts import dim_of, rank_of, shape_of
from ortable.prelude.values import as_vec, cast, const, consts, filled, reshape_to

from .fourier_words import fourier, fourier_scaled, half_spectrum, whole_spectrum, windowed_dtype
from .ordering import window_places


def stft(
    graph: Graph,
    res: Res,
    self: Any,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Any,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
) -> Any:
    """aten::stft of a signal [n] or [batch, n], which torch has padded already: [.., frequencies,
    frames]."""
    hop = n_fft // 4 if hop_length is None else hop_length
    own = windowed_dtype(graph, self, window, False)
    count = (dim_of(graph, self, -1) - n_fft) // hop + 1
    index = window_places(graph, count, n_fft, hop, 1)
    frames = _each(graph, self, lambda part: graph.make_node("Gather", [part, index], axis=-1))
    frames = _in_part(graph, frames, own)
    shape = _padded_window(graph, window, n_fft, win_length, own)
    if shape is not None:
        frames = _windowed(graph, frames, shape)
    axis = rank_of(graph, frames) - 1
    is_complex = type(frames) is ComplexValue
    if not is_complex and (onesided is None or onesided):
        found = half_spectrum(graph, frames, axis)
    else:
        found = fourier(graph, frames, [axis], True)
    found = fourier_scaled(graph, found, [n_fft], 1 if normalized else 0)
    order = [*range(axis - 1), axis, axis - 1]
    found = c_permuted(graph, found, order)
    return found if return_complex else join_pair(graph, found)


def istft(
    graph: Graph,
    res: Res,
    self: ComplexValue,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Any,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Any:
    """aten::istft: the transform of each frame undone, the frames added up, and divided by what the
    squares of the windows add up to."""
    hop = n_fft // 4 if hop_length is None else hop_length
    count = dim_of(graph, self, -1)
    rank = rank_of(graph, self)
    turned = c_permuted(graph, self, [*range(rank - 2), rank - 1, rank - 2])
    frames = _signal_of_frames(graph, turned, n_fft, onesided, return_complex)
    frames = fourier_scaled(graph, frames, [n_fft], 1 if normalized else 2)
    own = windowed_dtype(graph, frames, window, False)
    frames = _in_part(graph, frames, own)
    shape = _padded_window(graph, window, n_fft, win_length, own)
    if shape is None:
        shape = filled(graph, [n_fft], 1, own)
    frames = _windowed(graph, frames, shape)
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    square = _windowed(graph, shape, shape)
    weights = _each(graph, square, lambda part: _repeated(graph, part, count))
    sums = _each(graph, frames, lambda part: _added(graph, part, hop, total, start, end))
    below = _each(graph, weights, lambda part: _added(graph, part, hop, total, start, end))
    found = _quotient(graph, sums, below)
    missing = dims.maximum(end - total, 0)
    if not isinstance(missing, int) or missing > 0:
        ends = [0] * (2 * (rank - 1) - 1) + [missing]
        zero = const(graph, 0, own)
        found = _each(
            graph, found, lambda part: graph.make_node("Pad", [part, as_vec(graph, ends), zero])
        )
    return found


def _signal_of_frames(
    graph: Graph, x: ComplexValue, n_fft: int, onesided: bool | None, return_complex: bool
) -> Any:
    axis = rank_of(graph, x) - 1
    if return_complex:
        return fourier(graph, x, [axis], False)
    if onesided is not None and not onesided:
        bounds = [consts(graph, [each], dtypes.int64) for each in (0, n_fft // 2 + 1, axis)]
        x = _each(graph, x, lambda part: graph.make_node("Slice", [part, *bounds]))
    return fourier(graph, whole_spectrum(graph, x, axis, n_fft), [axis], False).real


def _each(graph: Graph, x: Any, function: Any) -> Any:
    if type(x) is not ComplexValue:
        return function(x)
    return ComplexValue(function(x.real), function(x.imag), x.dtype)


def _padded_window(graph: Graph, window: Any, n_fft: int, win_length: int | None, own: int) -> Any:
    """The window in the middle of ``n_fft`` places; None when it is 1 everywhere."""
    size = n_fft if win_length is None else win_length
    if window is None:
        if size == n_fft:
            return None
        window = filled(graph, [size], 1, own)
    window = _in_part(graph, window, own)
    if size == n_fft:
        return window
    left = (n_fft - size) // 2
    ends = consts(graph, [left, n_fft - size - left], dtypes.int64)
    return _each(
        graph,
        window,
        lambda part: graph.make_node("Pad", [part, ends, const(graph, 0, graph.get_type(part))]),
    )


def _in_part(graph: Graph, x: Any, kind: int) -> Any:
    """``x`` with real parts of this dtype."""
    if type(x) is not ComplexValue:
        return cast(graph, x, kind)
    return ComplexValue(cast(graph, x.real, kind), cast(graph, x.imag, kind), complex_type(kind))


def _windowed(graph: Graph, x: Any, window: Any) -> Any:
    """``x`` times the window; complex when one of them is."""
    if type(x) is not ComplexValue and type(window) is not ComplexValue:
        return graph.make_node("Mul", [x, window])
    if type(window) is not ComplexValue:
        return _each(graph, x, lambda part: graph.make_node("Mul", [part, window]))
    dtype = x.dtype if type(x) is ComplexValue else complex_type(graph.get_type(x))
    return c_times(graph, as_complex(graph, x, dtype), as_complex(graph, window, dtype))


def _quotient(graph: Graph, x: Any, y: Any) -> Any:
    if type(y) is not ComplexValue:
        return _each(graph, x, lambda part: graph.make_node("Div", [part, y]))
    from ortable.lowerings.complex.arithmetic import c_over

    return c_over(graph, as_complex(graph, x, y.dtype), y)


def _repeated(graph: Graph, window: str, count: Dim) -> str:
    size = dim_of(graph, window, 0)
    return graph.make_node("Expand", [window, as_vec(graph, [count, size])])


def _added(graph: Graph, frames: str, hop: int, total: Dim, start: int, end: Dim) -> str:
    """Frames [.., count, n] added up where they overlap: [.., total], cut to start..end."""
    *batch, count, size = shape_of(graph, frames)
    flat = reshape_to(graph, frames, [*batch, count * size])
    places = reshape_to(graph, window_places(graph, count, size, hop, 1), [count * size])
    if batch:
        places = graph.make_node("Expand", [places, graph.make_node("Shape", [flat])])
    zeros = filled(graph, [*batch, total], 0, graph.get_type(frames))
    found = graph.make_node("ScatterElements", [zeros, places, flat], axis=-1, reduction="add")
    bounds = [as_vec(graph, each) for each in (start, end)]
    axis = consts(graph, [-1], dtypes.int64)
    return graph.make_node("Slice", [found, *bounds, axis])
