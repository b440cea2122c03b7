"""Lower Fourier transforms: torch's three kernels (c2c, r2c, c2r) and short-time transforms.

All use ONNX's DFT. For a length that is not a power of two, ONNX Runtime's DFT loses digits with
the length in float32 (3e-4 at 1000), and its inverse rounds through float32 in float64. Such
lengths, and dynamic ones, are therefore computed in float64, and the inverse is always the forward
transform with real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from typing import Any

from ortable import dims, dtypes
from ortable.dims import Dim, SymDim
from ortable.inference import normalize_axis
from ortable.ir import Graph, ResultSpec
from ortable.prelude.complex_arithmetic import (
    Complex,
    as_complex,
    c_conj,
    c_div,
    c_mul,
)
from ortable.prelude.complex_value import (
    ComplexValue,
    complex_type,
    join_pair,
    part_type,
    split_pair,
)
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Int,
    Ints,
    Result,
    Str,
    SymInt,
    SymInts,
    dim_of,
    dtype_of,
    rank_of,
    shape_of,
)
from ortable.prelude.indexing import window_indices
from ortable.prelude.metadata import default_float
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota
from ortable.prelude.values import (
    as_scalar,
    as_vec,
    cast,
    const,
    consts,
    filled,
    permuted,
    reshape_to,
)

__all__ = [
    "c2c_along",
    "c2r_along",
    "fourier",
    "fourier_axes",
    "fourier_scaled",
    "half_spectrum",
    "r2c_along",
    "whole_spectrum",
    "windowed_dtype",
]


def lower_stft(
    graph: Graph,
    res: ResultSpec,
    self: Any,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Any,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
) -> Any:
    """Lower aten::stft of a padded signal [n] or [batch, n] to [..., frequencies, frames]."""
    hop = n_fft // 4 if hop_length is None else hop_length
    part_dtype = windowed_dtype(graph, self, window, False)
    count = (dim_of(graph, self, -1) - n_fft) // hop + 1
    index = window_indices(graph, count, n_fft, hop, 1)
    frames = _map_parts(graph, self, lambda part: OpBuilder(graph).Gather(part, index, axis=-1))
    frames = _cast_parts(graph, frames, part_dtype)
    window_values = _pad_window(graph, window, n_fft, win_length, part_dtype)
    if window_values is not None:
        frames = _multiply_window(graph, frames, window_values)
    axis = rank_of(graph, frames) - 1
    is_complex = type(frames) is ComplexValue
    if not is_complex and (onesided is None or onesided):
        result = half_spectrum(graph, frames, axis)
    else:
        result = fourier(graph, frames, [axis], True)
    result = fourier_scaled(graph, result, [n_fft], 1 if normalized else 0)
    order = [*range(axis - 1), axis, axis - 1]
    result = permuted(graph, result, order)
    return result if return_complex else join_pair(graph, result)


def lower_istft(
    graph: Graph,
    res: ResultSpec,
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
    """Lower aten::istft: overlap-add inverse frames, divide by overlap-added squared windows."""
    hop = n_fft // 4 if hop_length is None else hop_length
    count = dim_of(graph, self, -1)
    rank = rank_of(graph, self)
    transposed = permuted(graph, self, [*range(rank - 2), rank - 1, rank - 2])
    frames = _invert_frames(graph, transposed, n_fft, onesided, return_complex)
    frames = fourier_scaled(graph, frames, [n_fft], 1 if normalized else 2)
    part_dtype = windowed_dtype(graph, frames, window, False)
    frames = _cast_parts(graph, frames, part_dtype)
    window_values = _pad_window(graph, window, n_fft, win_length, part_dtype)
    if window_values is None:
        window_values = filled(graph, [n_fft], 1, part_dtype)
    frames = _multiply_window(graph, frames, window_values)
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    square = _multiply_window(graph, window_values, window_values)
    weights = _map_parts(graph, square, lambda part: _repeat_window(graph, part, count))
    sums = _map_parts(graph, frames, lambda part: _overlap_add(graph, part, hop, total, start, end))
    weight_sums = _map_parts(
        graph, weights, lambda part: _overlap_add(graph, part, hop, total, start, end)
    )
    result = _divide_parts(graph, sums, weight_sums)
    padding = dims.max_of(end - total, 0)
    if not isinstance(padding, int) or padding > 0:
        pads = [0] * (2 * (rank - 1) - 1) + [padding]
        zero = const(graph, 0, part_dtype)
        result = _map_parts(
            graph, result, lambda part: OpBuilder(graph).Pad(part, as_vec(graph, pads), zero)
        )
    return result


def _invert_frames(
    graph: Graph, x: ComplexValue, n_fft: int, onesided: bool | None, return_complex: bool
) -> Any:
    """Return the inverse transform of each frame, real unless ``return_complex``."""
    axis = rank_of(graph, x) - 1
    if return_complex:
        return fourier(graph, x, [axis], False)
    if onesided is not None and not onesided:
        bounds = [consts(graph, [bound], dtypes.int64) for bound in (0, n_fft // 2 + 1, axis)]
        x = _map_parts(graph, x, lambda part: OpBuilder(graph).Slice(part, *bounds))
    return fourier(graph, whole_spectrum(graph, x, axis, n_fft), [axis], False).real


def _map_parts(graph: Graph, x: Any, function: Any) -> Any:
    if type(x) is not ComplexValue:
        return function(x)
    return ComplexValue(function(x.real), function(x.imag), x.dtype)


def _pad_window(
    graph: Graph, window: Any, n_fft: int, win_length: int | None, part_dtype: int
) -> Any:
    """Return the window centred in ``n_fft`` elements, or None if it is 1 everywhere."""
    size = n_fft if win_length is None else win_length
    if window is None:
        if size == n_fft:
            return None
        window = filled(graph, [size], 1, part_dtype)
    window = _cast_parts(graph, window, part_dtype)
    if size == n_fft:
        return window
    begin = (n_fft - size) // 2
    pads = consts(graph, [begin, n_fft - size - begin], dtypes.int64)
    return _map_parts(
        graph,
        window,
        lambda part: OpBuilder(graph).Pad(part, pads, const(graph, 0, graph.get_type(part))),
    )


def _cast_parts(graph: Graph, x: Any, dtype: int) -> Any:
    """Cast a tensor, or both parts of a complex tensor, to a real dtype."""
    if type(x) is not ComplexValue:
        return cast(graph, x, dtype)
    return ComplexValue(cast(graph, x.real, dtype), cast(graph, x.imag, dtype), complex_type(dtype))


def _multiply_window(graph: Graph, x: Any, window: Any) -> Any:
    """Return ``x`` times the window; the product is complex if either of them is."""
    op = OpBuilder(graph)
    if type(x) is not ComplexValue and type(window) is not ComplexValue:
        return op.Mul(x, window)
    if type(window) is not ComplexValue:
        return _map_parts(graph, x, lambda part: op.Mul(part, window))
    dtype = x.dtype if type(x) is ComplexValue else complex_type(graph.get_type(x))
    return c_mul(graph, as_complex(graph, x, dtype), as_complex(graph, window, dtype))


def _divide_parts(graph: Graph, x: Any, y: Any) -> Any:
    if type(y) is not ComplexValue:
        return _map_parts(graph, x, lambda part: OpBuilder(graph).Div(part, y))
    return c_div(graph, as_complex(graph, x, y.dtype), y)


def _repeat_window(graph: Graph, window: str, count: Dim) -> str:
    size = dim_of(graph, window, 0)
    return OpBuilder(graph).Expand(window, as_vec(graph, [count, size]))


def _overlap_add(graph: Graph, frames: str, hop: int, total: Dim, start: int, end: Dim) -> str:
    """Add up overlapping frames [..., count, n] to [..., total] and cut it to start..end."""
    op = OpBuilder(graph)
    *batch, count, size = shape_of(graph, frames)
    flat = reshape_to(graph, frames, [*batch, count * size])
    indices = reshape_to(graph, window_indices(graph, count, size, hop, 1), [count * size])
    if batch:
        indices = op.Expand(indices, op.Shape(flat))
    zeros = filled(graph, [*batch, total], 0, graph.get_type(frames))
    result = op.ScatterElements(zeros, indices, flat, axis=-1, reduction="add")
    bounds = [as_vec(graph, bound) for bound in (start, end)]
    axis = consts(graph, [-1], dtypes.int64)
    return op.Slice(result, *bounds, axis)


def fourier(graph: Graph, x: Complex, axes: Ints, forward: Bool) -> Complex:
    """Return the unscaled transform of a complex or real tensor along ``axes``."""
    if type(x) is not ComplexValue and (not axes or not forward):
        x = as_complex(graph, x, complex_type(graph.get_type(x)))
    for axis in axes:
        x = _transform_axis(graph, x, axis, forward)
    return x


def half_spectrum(graph: Graph, x: Result, axis: Int) -> Complex:
    """Return the transform of a real tensor along one axis, without the mirrored half."""
    result = fourier(graph, x, [axis], True)
    size = dim_of(graph, x, axis) // 2 + 1
    bounds = [as_vec(graph, 0), as_vec(graph, size), as_vec(graph, axis)]
    parts = [OpBuilder(graph).Slice(part, *bounds) for part in (result.real, result.imag)]
    return ComplexValue(parts[0], parts[1], result.dtype)


def whole_spectrum(graph: Graph, x: Complex, axis: Int, size: SymInt) -> Complex:
    """Reconstruct the spectrum of a real tensor of ``size`` elements from its half spectrum."""
    op = OpBuilder(graph)
    positions = iota(graph, 0, size, 1)
    half = as_scalar(graph, size // 2)
    is_mirrored = op.Greater(positions, half)
    mirror_positions = op.Sub(as_scalar(graph, size), positions)
    index = op.Where(is_mirrored, mirror_positions, positions)
    parts = [op.Gather(part, index, axis=axis) for part in (x.real, x.imag)]
    dtype = graph.get_type(parts[0])
    sign = op.Where(is_mirrored, const(graph, -1, dtype), const(graph, 1, dtype))
    trailing_axes = rank_of(graph, x) - 1 - axis
    if trailing_axes:
        new_axes = consts(graph, list(range(1, trailing_axes + 1)), dtypes.int64)
        sign = op.Unsqueeze(sign, new_axes)
    return ComplexValue(parts[0], op.Mul(parts[1], sign), x.dtype)


def fourier_axes(graph: Graph, x: Complex, dim: Any, sizes: Any) -> Ints:
    """Return the axes of a torch.fft function: ``dim``, else the last ``len(sizes)``, else all."""
    rank = rank_of(graph, x)
    if dim is not None:
        requested = [dim] if isinstance(dim, int) else dim
        return [normalize_axis(axis, rank) for axis in requested]
    return list(range(rank - len(sizes), rank)) if sizes is not None else list(range(rank))


def c2c_along(
    graph: Graph, x: Complex, axes: Ints, sizes: Any, norm: Str | None, forward: Bool
) -> Complex:
    """Lower ``torch.fft.fftn`` or ``ifftn`` along known axes."""
    x = _resize_axes(graph, _as_floating(graph, x), axes, _resolve_sizes(graph, x, axes, sizes))
    lengths = [dim_of(graph, x, axis) for axis in axes]
    result = fourier(graph, x, axes, forward)
    return fourier_scaled(graph, result, lengths, _norm_code(norm, forward))


def r2c_along(
    graph: Graph, x: Result, axes: Ints, sizes: Any, norm: Str | None, forward: Bool
) -> Complex:
    """Lower ``torch.fft.rfftn`` or ``ihfftn`` along known axes."""
    x = _resize_axes(graph, _as_floating(graph, x), axes, _resolve_sizes(graph, x, axes, sizes))
    lengths = [dim_of(graph, x, axis) for axis in axes]
    result = half_spectrum(graph, x, axes[-1])
    result = result if forward else c_conj(graph, result)
    result = fourier(graph, result, axes[:-1], forward)
    return fourier_scaled(graph, result, lengths, _norm_code(norm, forward))


def c2r_along(
    graph: Graph, x: Complex, axes: Ints, sizes: Any, norm: Str | None, forward: Bool
) -> Result:
    """Lower ``torch.fft.irfftn`` or ``hfftn``; the last of ``sizes`` is the size of the result."""
    x = _as_floating(graph, x)
    lengths = _resolve_sizes(graph, x, axes, sizes)
    if sizes is None or (lengths[-1] == dim_of(graph, x, axes[-1]) and _last_size(sizes) == -1):
        lengths[-1] = 2 * (dim_of(graph, x, axes[-1]) - 1)
    x = _resize_axes(graph, x, axes, [*lengths[:-1], lengths[-1] // 2 + 1])
    x = fourier(graph, x, axes[:-1], forward)
    x = as_complex(
        graph, x, complex_type(x.dtype if type(x) is ComplexValue else graph.get_type(x))
    )
    spectrum = whole_spectrum(graph, c_conj(graph, x) if forward else x, axes[-1], lengths[-1])
    result = fourier(graph, spectrum, axes[-1:], False).real
    return fourier_scaled(graph, result, lengths, _norm_code(norm, forward))


def _last_size(sizes: Any) -> Any:
    return sizes[-1] if isinstance(sizes, list | tuple) else sizes


def _resolve_sizes(graph: Graph, x: Any, axes: Any, sizes: Any) -> list[Any]:
    requested = sizes if isinstance(sizes, list | tuple) else [sizes] * len(axes)
    return [
        dim_of(graph, x, axis) if size is None or (type(size) is int and size == -1) else size
        for axis, size in zip(axes, requested, strict=True)
    ]


def _norm_code(norm: str | None, forward: bool) -> int:
    """Return torch's code of a norm: 0 divides by 1, 1 by the root of the count, 2 by the count."""
    if norm == "ortho":
        return 1
    return 2 if forward == (norm == "forward") else 0


def _as_floating(graph: Graph, x: Any) -> Any:
    """Cast ints and bools to the default float dtype."""
    if type(x) is ComplexValue or dtypes.is_float_type(graph.get_type(x)):
        return x
    return cast(graph, x, default_float())


def _resize_axes(graph: Graph, x: Any, axes: Any, sizes: Any) -> Any:
    """Crop or zero-pad ``x`` to ``sizes`` along ``axes``."""
    op = OpBuilder(graph)
    if type(x) is ComplexValue:
        parts = [_resize_axes(graph, part, axes, sizes) for part in (x.real, x.imag)]
        return ComplexValue(parts[0], parts[1], x.dtype)
    for axis, size in zip(axes, sizes, strict=True):
        old_size = dim_of(graph, x, axis)
        if old_size == size:
            continue
        axis_input = consts(graph, [axis], dtypes.int64)
        if not (isinstance(old_size, int) and isinstance(size, int)) or size > old_size:
            padding = dims.max_of(size - old_size, 0)
            pads = as_vec(
                graph,
                [0] * rank_of(graph, x)
                + [padding if index == axis else 0 for index in range(rank_of(graph, x))],
            )
            x = op.Pad(x, pads, const(graph, 0, graph.get_type(x)))
        if not (isinstance(old_size, int) and isinstance(size, int)) or size < old_size:
            start = consts(graph, [0], dtypes.int64)
            shape = [*shape_of(graph, x)]
            x = op.Slice(x, start, as_vec(graph, size), axis_input)
            # shape inference of Slice returns no size for a bound known only at run time
            graph.set_shape(x, (*shape[:axis], size, *shape[axis + 1 :]))
    return x


def fourier_scaled(graph: Graph, x: Complex, sizes: SymInts, normalization: Int) -> Complex:
    """Apply torch's normalization: none (0), by the root of the count (1), by the count (2)."""
    op = OpBuilder(graph)
    count = dims.product_of(list(sizes))
    if normalization == 0 or count == 0:
        return x
    if type(x) is ComplexValue:
        parts = [fourier_scaled(graph, part, sizes, normalization) for part in (x.real, x.imag)]
        return ComplexValue(parts[0], parts[1], x.dtype)
    dtype = graph.get_type(x)
    if isinstance(count, SymDim):
        divisor = cast(graph, as_scalar(graph, count), dtype)
        divisor = op.Sqrt(divisor) if normalization == 1 else divisor
        return op.Div(x, divisor)
    factor = 1 / math.sqrt(count) if normalization == 1 else 1 / count
    return op.Mul(x, const(graph, factor, dtype))


def _transform_axis(graph: Graph, x: Any, axis: int, forward: bool) -> Any:
    """Transform one axis; the inverse exchanges the parts before and after a forward DFT."""
    size = dim_of(graph, x, axis)
    if not forward:
        x = ComplexValue(x.imag, x.real, x.dtype)
    dtype = complex_type(x.dtype if type(x) is ComplexValue else graph.get_type(x))
    is_exact = isinstance(size, int) and size & (size - 1) == 0
    signal = _dft_input(graph, x, dtype if is_exact else dtypes.complex128)
    result = as_complex(graph, split_pair(graph, _make_dft(graph, signal, axis)), dtype)
    return result if forward else ComplexValue(result.imag, result.real, result.dtype)


def _dft_input(graph: Graph, x: Any, dtype: int) -> str:
    """Return the input of DFT, whose last dimension is 2, or 1 for a real signal."""
    if type(x) is ComplexValue:
        return join_pair(graph, as_complex(graph, x, dtype))
    real = cast(graph, x, part_type(dtype))
    return OpBuilder(graph).Unsqueeze(real, consts(graph, [-1], dtypes.int64))


def _make_dft(graph: Graph, x: str, axis: int) -> str:
    """Make a DFT node along ``axis``; a signal without a batch dimension gets one."""
    op = OpBuilder(graph)
    is_unbatched = rank_of(graph, x) == 2
    if is_unbatched:
        x, axis = op.Unsqueeze(x, consts(graph, [0], dtypes.int64)), axis + 1
    if graph.opset < 20:
        result = op.DFT(x, axis=axis)
    else:
        result = op.DFT(x, "", const(graph, axis, dtypes.int64))
    return op.Squeeze(result, consts(graph, [0], dtypes.int64)) if is_unbatched else result


def windowed_dtype(graph: Graph, x: Result, window: Result | None, whole: Bool | None) -> Dtype:
    """Return the dtype of a transform of a signal that is multiplied by a window.

    The dtype is complex if ``whole``, else the dtype of the real parts. torch computes in float32
    unless the signal or the window is wider.
    """
    signals = [x] if window is None else [x, window]
    part_dtypes = [
        part_type(signal.dtype if type(signal) is ComplexValue else dtype_of(graph, signal))
        for signal in signals
    ]
    dtype = dtypes.float64 if dtypes.float64 in part_dtypes else dtypes.float32
    return int(complex_type(dtype)) if whole else dtype
