"""Shape rules of convolutions, pooling, resizing and other operators on images.

Sizes are ints or symbolic dims. Attributes are lists, as in ONNX, or None if they are absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims
from ortable.errors import BuilderError

from .shape import Dim, Shape, all_known, dims_differ, normalize_axes, shape_str
from .view import Value, as_scalar, as_vector, static_ints, vector_length

Ints = Sequence[int] | None


def _window_size(kernel: Dim, dilation: int) -> Dim:
    return (kernel - 1) * dilation + 1


def _is_same_padding(auto_pad: str) -> bool:
    return auto_pad in ("SAME_UPPER", "SAME_LOWER")


def _per_axis(values: Ints, count: int, default: int, attribute: str) -> list[int]:
    if not values:
        return [default] * count
    if len(values) != count:
        raise BuilderError(
            f"{attribute} {list(values)} must hold {count} numbers, one per side of each spatial "
            "axis"
        )
    return list(values)


def _count_windows(
    size: Dim, window: Dim, begin: int, end: int, stride: int, ceil_mode: int
) -> Dim | None:
    """Count the windows on an axis; None if a window exceeds it, because runtimes then differ."""
    span = size + (begin + end) - window
    if type(span) is int and span < 0:
        return None
    if not ceil_mode:
        return dims.floor_div(span, stride) + 1
    count = dims.ceil_div(span, stride) + 1
    # the last window must not start in the right padding
    if window >= stride + end:
        return count
    return dims.min_of(count, dims.floor_div(size + (begin - 1), stride) + 1)


def _window_counts(
    spatial: Shape,
    kernel: Sequence[Dim],
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    auto_pad: str,
    ceil_mode: int,
) -> Shape | None:
    n = len(spatial)
    stride = _per_axis(strides, n, 1, "strides")
    dilation = _per_axis(dilations, n, 1, "dilations")
    if _is_same_padding(auto_pad):
        # equal to floor((d - 1) / s) + 1
        return tuple(dims.ceil_div(d, s) for d, s in zip(spatial, stride, strict=True))
    pad = _per_axis(None if auto_pad == "VALID" else pads, 2 * n, 0, "pads")
    sizes = [
        _count_windows(
            spatial[i],
            _window_size(kernel[i], dilation[i]),
            pad[i],
            pad[i + n],
            stride[i],
            ceil_mode,
        )
        for i in range(n)
    ]
    return all_known(sizes)


def conv_shape(
    x: Shape | None,
    w: Shape | None,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    group: int,
    auto_pad: str,
) -> Shape | None:
    """Return the shape of Conv: ``(N, C, *spatial), (M, C/group, *kernel) -> (N, M, *windows)``.

    Raises:
        BuilderError: ranks or channels provably do not fit.
    """
    if x is None or w is None:
        return None
    if len(x) != len(w) or len(x) < 3:
        raise BuilderError(
            f"Conv: input {shape_str(x)} and weight {shape_str(w)} must have the same rank, "
            "3 or more"
        )
    if dims_differ(x[1], w[1] * group):
        raise BuilderError(
            f"Conv: input {shape_str(x)} has {x[1]} channels, "
            f"weight {shape_str(w)} with {group} groups needs {w[1] * group}"
        )
    sizes = _window_counts(
        x[2:], kernel_shape or w[2:], strides, pads, dilations, auto_pad or "NOTSET", 0
    )
    return None if sizes is None else (x[0], w[0], *sizes)


def conv_transpose(
    x: Shape | None,
    w: Shape | None,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    group: int,
    auto_pad: str,
    output_padding: Ints,
    output_shape: Ints,
) -> Shape | None:
    """Return the shape of ConvTranspose: ``(N, C, *in), (C, M/group, *kernel) -> (N, M, *out)``."""
    if x is None or w is None:
        return None
    if len(x) != len(w) or len(x) < 3 or dims_differ(x[1], w[0]):
        raise BuilderError(
            f"ConvTranspose: input {shape_str(x)} and weight {shape_str(w)} do not fit"
        )
    n = len(x) - 2
    head = (x[0], w[1] * group)
    if output_shape:
        return head + tuple(list(output_shape)[-n:])
    stride = _per_axis(strides, n, 1, "strides")
    if _is_same_padding(auto_pad):
        return head + tuple(d * s for d, s in zip(x[2:], stride, strict=True))
    dilation = _per_axis(dilations, n, 1, "dilations")
    extra = _per_axis(output_padding, n, 0, "output_padding")
    pad = _per_axis(None if auto_pad == "VALID" else pads, 2 * n, 0, "pads")
    kernel = kernel_shape or w[2:]
    return head + tuple(
        stride[i] * (x[2 + i] - 1)
        + extra[i]
        + _window_size(kernel[i], dilation[i])
        - pad[i]
        - pad[n + i]
        for i in range(n)
    )


def pool_shape(
    x: Shape | None,
    kernel_shape: Sequence[int],
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    auto_pad: str,
    ceil_mode: int,
) -> Shape | None:
    """Return the shape of MaxPool, AveragePool, LpPool: ``(N, C, *spatial) -> (N, C, *windows)``.

    ONNX (explicitly since opset 22) forbids a window that starts in the right padding; ONNX Runtime
    never had such windows.
    """
    if x is None:
        return None
    if len(x) != len(kernel_shape) + 2:
        raise BuilderError(
            f"A kernel {list(kernel_shape)} does not fit an input of shape {shape_str(x)}"
        )
    sizes = _window_counts(
        x[2:], kernel_shape, strides, pads, dilations, auto_pad or "NOTSET", ceil_mode
    )
    return None if sizes is None else x[:2] + sizes


def global_pool_shape(x: Shape | None) -> Shape | None:
    """Return the shape of GlobalAveragePool, GlobalMaxPool, GlobalLpPool: spatial sizes are 1."""
    return None if x is None else x[:2] + (1,) * (len(x) - 2)


def max_unpool_shape(
    x: Shape | None, output_shape: Value, kernel_shape: Sequence[int], strides: Ints, pads: Ints
) -> Shape | None:
    """Return the shape of MaxUnpool: ``output_shape``; if that is (), the shape before pooling."""
    items = as_vector(output_shape)
    if x is None or items is None:
        return None
    if items:
        return items
    n = len(x) - 2
    stride = _per_axis(strides, n, 1, "strides")
    pad = _per_axis(pads, 2 * n, 0, "pads")
    return x[:2] + tuple(
        stride[i] * (x[2 + i] - 1) + kernel_shape[i] - pad[i] - pad[n + i] for i in range(n)
    )


def depth_to_space_shape(x: Shape | None, blocksize: int) -> Shape | None:
    """Return the shape of DepthToSpace: ``(N, C, H, W) -> (N, C/b/b, H*b, W*b)``."""
    if x is None:
        return None
    n, c, h, w = _check_rank_4(x, "DepthToSpace")
    return n, dims.floor_div(c, blocksize * blocksize), h * blocksize, w * blocksize


def space_to_depth_shape(x: Shape | None, blocksize: int) -> Shape | None:
    """Return the shape of SpaceToDepth: ``(N, C, H, W) -> (N, C*b*b, H/b, W/b)``."""
    if x is None:
        return None
    n, c, h, w = _check_rank_4(x, "SpaceToDepth")
    return (
        n,
        c * (blocksize * blocksize),
        dims.floor_div(h, blocksize),
        dims.floor_div(w, blocksize),
    )


def _check_rank_4(x: Shape, op: str) -> Shape:
    if len(x) != 4:
        raise BuilderError(f"{op} needs a tensor of rank 4, not {shape_str(x)}")
    return x


def resize_shape(
    x: Shape | None, scales: Any, sizes: Any, axes: Ints, keep_aspect_ratio_policy: str
) -> Shape | None:
    """Return the shape of Resize: ``sizes`` if given, else the floor of dim times scale.

    ``scales`` and ``sizes`` are inputs (ValueInfo or None). The shape is unknown if a product is so
    near an integer that the floor differs between float32 and float64.
    """
    if x is None:
        return None
    normalized = normalize_axes(axes, len(x)) if axes else list(range(len(x)))
    result: list[Dim | None] = list(x)
    if sizes is not None and not _is_empty(sizes):
        items = as_vector(sizes.value)
        if (
            items is None
            or len(items) != len(normalized)
            or (keep_aspect_ratio_policy or "stretch") != "stretch"
        ):
            return None
        for axis, size in zip(normalized, items, strict=True):
            result[axis] = size
        return tuple(result)  # type: ignore[arg-type]
    factors = _constant_floats(scales)
    if factors is None or len(factors) != len(normalized):
        return None
    for axis, factor in zip(normalized, factors, strict=True):
        result[axis] = _scale_dim(x[axis], factor)
    return all_known(result)


def _is_empty(info: Any) -> bool:
    return info.shape == (0,)


def _constant_floats(info: Any) -> list[float] | None:
    constant = None if info is None else info.constant
    return None if constant is None else [float(v) for v in constant.tolist()]


def _scale_dim(size: Dim, factor: float) -> Dim | None:
    if factor == int(factor):
        return size * int(factor)
    if type(size) is not int:
        return None
    exact = size * factor
    nearest = round(exact)
    if abs(exact - nearest) < 1e-4 * max(1, abs(exact)):
        return nearest if exact == nearest and factor * 1024 == int(factor * 1024) else None
    return int(exact)


def grid_sample_shape(x: Shape | None, grid: Shape | None) -> Shape | None:
    """Return the shape of GridSample: the channels of the input, the positions of the grid."""
    if x is None or grid is None:
        return None
    if len(x) != len(grid):
        raise BuilderError(
            f"GridSample: input {shape_str(x)} and grid {shape_str(grid)} must have the same rank"
        )
    return x[:2] + grid[1:-1]


def affine_grid_shape(size: Value) -> Shape | None:
    """Return the shape of AffineGrid: ``(N, *spatial, axes)`` for size ``(N, C, *spatial)``."""
    items = as_vector(size)
    return None if items is None else (items[0], *items[2:], len(items) - 2)


def col2im_shape(x: Shape | None, image_shape: Value, block_shape: Value) -> Shape | None:
    """Return the shape of Col2Im: ``(N, C * prod(block), L) -> (N, C, *image)``."""
    image, block = as_vector(image_shape), static_ints(block_shape)
    if x is None or image is None or block is None:
        return None
    return x[0], dims.floor_div(x[1], dims.product_of(block)), *image


def roi_align_shape(x: Shape | None, rois: Shape | None, height: int, width: int) -> Shape | None:
    """Return the shape of RoiAlign and MaxRoiPool: ``(number of rois, C, height, width)``."""
    return None if x is None or rois is None else (rois[0], x[1], height, width)


def dft_shape(
    x: Shape | None, dft_length: Value, axis: int, inverse: int, onesided: int
) -> Shape | None:
    """Return the shape of DFT; ``dft_length`` is () if it is omitted.

    A one-sided transform keeps half of the frequencies. The inverse of a one-sided transform is
    real and, without ``dft_length``, has an even length.
    """
    if x is None:
        return None
    is_result_real = inverse and onesided
    default = 2 * (x[axis] - 1) if is_result_real else x[axis]
    size: Dim | None = default if dft_length == () else as_scalar(dft_length)
    if size is None:
        return None
    result = list(x)
    result[axis] = dims.floor_div(size, 2) + 1 if onesided and not is_result_real else size
    result[-1] = 1 if is_result_real else 2
    return tuple(result)


def stft_shape(
    x: Shape | None, frame_step: Value, window: Shape | None, frame_length: Value, onesided: int
) -> Shape | None:
    """Return the shape of STFT, (batch, frames, bins, 2); omitted inputs are ()."""
    step = as_scalar(frame_step)
    if x is None or step is None:
        return None
    size: Dim | None
    if frame_length != ():
        size = as_scalar(frame_length)
    elif window != ():
        size = vector_length(window)
    else:
        size = x[1]
    if size is None:
        return None
    frames = dims.floor_div(x[1] - size, step) + 1
    return x[0], frames, dims.floor_div(size, 2) + 1 if onesided else size, 2


def causal_state_shape(
    x: Shape | None, weight: Shape | None, ndim: int, channels_last: int, dilation: int, window: int
) -> Shape | None:
    """Return the shape of the state of com.microsoft CausalConvWithState.

    The state holds the last input positions, which the next call reads: ``(batch, channels,
    (kernel - 1) * dilation)``. The shape is unknown for other ranks and layouts, and for a window.
    """
    if x is None or weight is None or ndim != 1 or channels_last or window:
        return None
    return (*x[:2], (weight[2] - 1) * dilation)


def mel_weights_shape(dft_length: Value, num_mel_bins: Value) -> Shape | None:
    """Return the shape of MelWeightMatrix: ``(dft_length // 2 + 1, num_mel_bins)``."""
    size, bins = as_scalar(dft_length), as_scalar(num_mel_bins)
    return None if size is None or bins is None else (dims.floor_div(size, 2) + 1, bins)
