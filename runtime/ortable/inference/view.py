"""Shape rules of the ONNX operators that move, select, repeat or drop elements: Reshape, Slice,
Gather, Pad, Split, ...
Values of inputs (the target of a Reshape) are ints or symbolic dims; what they do not settle gives
an unknown shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from ortable import dims
from ortable.errors import BuilderError

from .shape import (
    Dim,
    Shape,
    all_known,
    broadcast,
    differ,
    normalize_axes,
    normalize_axis,
    reduce_shape,
    show,
)

# Exporters write "to the end" as the largest int32 or int64; no tensor has an axis as long as that.
_TO_END = (1 << 31) - 1
Value = Dim | tuple[Dim, ...] | None


def vector(value: Value) -> tuple[Dim, ...] | None:
    """Known content as a tuple, whether it came as a scalar or as a vector."""
    return value if value is None or isinstance(value, tuple) else (value,)


def scalar(value: Value) -> Dim | None:
    """Known content of one element, whether it came as a scalar or as a vector of one."""
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else None
    return value


def whole_number(info: Any) -> Dim | None:
    """The one number of a whole input (ValueInfo), of floats where it is a whole one."""
    known = scalar(info.value)
    if known is not None or info.constant is None:
        return known
    items = info.constant.tolist()
    while isinstance(items, list):
        if len(items) != 1:
            return None
        items = items[0]
    return int(items) if isinstance(items, (int, float)) and items == items // 1 else None


def static_ints(value: Value) -> list[int] | None:
    """Known content when all of it is static, else None."""
    items = vector(value)
    if items is None or not all(type(item) is int for item in items):
        return None
    return list(items)  # type: ignore[arg-type]


def length(shape: Shape | None, value: Value = None) -> Dim | None:
    """Number of elements of a vector, from its shape or its known content."""
    if isinstance(value, tuple):
        return len(value)
    return shape[0] if shape is not None and len(shape) == 1 else None


def reshape(shape: Shape | None, target: Value, allowzero: int = 0) -> Shape | None:
    """Reshape: 0 copies a dim unless ``allowzero``, -1 is what is left.

    A symbolic size that may be 0 counts as itself, never as the copying 0.

    Raises:
        BuilderError: the number of elements is provably different.
    """
    items = vector(target)
    if items is None:
        return None
    result: list[Dim] = []
    hole = -1
    for position, item in enumerate(items):
        if type(item) is int and item == 0 and not allowzero:
            if shape is None:
                return None
            if position >= len(shape):
                raise BuilderError(
                    f"Reshape to {show(items)}: no dim {position} to copy in {show(shape)}"
                )
            item = shape[position]
        elif type(item) is int and item == -1:
            if hole >= 0:
                raise BuilderError(f"Reshape to {show(items)}: only one size may be -1")
            hole = position
        elif not item >= 0:
            return None  # might turn out to be -1
        result.append(item)
    if shape is None:
        return None if hole >= 0 else tuple(result)
    return _fill_hole(shape, items, result, hole)


def _fill_hole(shape: Shape, items: Sequence[Dim], result: list[Dim], hole: int) -> Shape | None:
    known = [d for i, d in enumerate(result) if i != hole]
    left, right = _cancel(list(shape), known) if hole >= 0 else (list(shape), known)
    total, given = dims.prod(left), dims.prod(right)
    if hole < 0:
        if type(total) is int and type(given) is int and total != given:
            raise _cannot_reshape(shape, items)
        return tuple(result)
    if type(given) is int:
        if given == 0:
            return None
        if type(total) is int and total % given:
            raise _cannot_reshape(shape, items)
    result[hole] = dims.floordiv(total, given)
    return tuple(result)


def _cancel(left: list[Dim], right: list[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Both products without their common factors: -1 is only legal where no known size is 0."""
    kept = []
    for size in right:
        if size in left:
            left.remove(size)
        else:
            kept.append(size)
    top = [d for d in left if type(d) is int]
    bottom = [d for d in kept if type(d) is int]
    a, b = dims.prod(top), dims.prod(bottom)
    common = gcd(a, b) if type(a) is int and type(b) is int and a and b else 1
    left = [d for d in left if type(d) is not int] + [a // common]
    return left, [d for d in kept if type(d) is not int] + [b // common]


def _cannot_reshape(shape: Shape, items: Sequence[Dim]) -> BuilderError:
    return BuilderError(f"A tensor of shape {show(shape)} cannot be reshaped to {show(items)}")


def expand(shape: Shape | None, target: Value) -> Shape | None:
    """Expand: both shapes broadcast. Raises BuilderError when they cannot."""
    return None if shape is None else broadcast(shape, vector(target))


def tile(shape: Shape | None, repeats: Value) -> Shape | None:
    """Tile: every dim times its repeat."""
    items = vector(repeats)
    if shape is None or items is None:
        return None
    if len(items) != len(shape):
        raise BuilderError(f"Tile needs one repeat per axis of {show(shape)}, not {show(items)}")
    return tuple(d * r for d, r in zip(shape, items, strict=True))


def pad(shape: Shape | None, pads: Value, axes: Value) -> Shape | None:
    """Pad: ``pads`` holds all begins, then all ends; ``axes`` () means every axis."""
    items, which = vector(pads), static_ints(axes)
    if shape is None or items is None or which is None:
        return None
    chosen = normalize_axes(which, len(shape)) if which else list(range(len(shape)))
    if len(items) != 2 * len(chosen):
        raise BuilderError(f"Pad of {show(shape)} needs {2 * len(chosen)} pads, not {show(items)}")
    result = list(shape)
    for k, axis in enumerate(chosen):
        result[axis] = result[axis] + items[k] + items[k + len(chosen)]
    return tuple(result)


def squeeze(shape: Shape | None, axes: Value) -> Shape | None:
    """Squeeze: ``axes`` are dropped; () means every axis of size 1.

    Raises:
        BuilderError: an axis is provably not 1.
    """
    which = static_ints(axes)
    if shape is None or which is None:
        return None
    if not which:
        if all(type(d) is int or d >= 2 for d in shape):
            return tuple(d for d in shape if d != 1)
        return None
    gone = normalize_axes(which, len(shape))
    wrong = [axis for axis in gone if differ(shape[axis], 1)]
    if wrong:
        raise BuilderError(f"Axis {wrong[0]} of {show(shape)} is not 1, so it cannot be squeezed")
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def unsqueeze(shape: Shape | None, axes: Value) -> Shape | None:
    """Unsqueeze: ``axes`` count in the result."""
    which = static_ints(axes)
    if shape is None or which is None:
        return None
    rest = iter(shape)
    rank = len(shape) + len(which)
    new = normalize_axes(which, rank)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def flatten(shape: Shape | None, axis: int = 1) -> Shape | None:
    """Flatten: two dims, the product before ``axis`` and the product from it on."""
    if shape is None:
        return None
    if axis != len(shape):
        axis = normalize_axis(axis, len(shape)) if shape else 0
    return dims.prod(shape[:axis]), dims.prod(shape[axis:])


def gather(data: Shape | None, indices: Shape | None, axis: int = 0) -> Shape | None:
    """Gather: the axis is replaced by the shape of the indices."""
    if data is None or indices is None:
        return None
    axis = normalize_axis(axis, len(data))
    return data[:axis] + indices + data[axis + 1 :]


def gather_block_quantized(
    data: Shape | None, indices: Shape | None, gather_axis: int, packed: bool, bits: int
) -> Shape | None:
    """com.microsoft GatherBlockQuantized: Gather, and ``packed`` bytes along the last axis hold 8 /
    ``bits`` elements each."""
    found = gather(data, indices, gather_axis)
    if found is None or not found or not packed:
        return found
    return (*found[:-1], found[-1] * (8 // bits))


def gather_nd(data: Shape | None, indices: Shape | None, batch_dims: int = 0) -> Shape | None:
    """GatherND: the last dim of the indices says how many axes one index picks."""
    if data is None or indices is None or not indices or type(indices[-1]) is not int:
        return None
    depth = batch_dims + indices[-1]
    if depth > len(data):
        raise BuilderError(
            f"GatherND: indices {show(indices)} pick {indices[-1]} axes of {show(data)}"
        )
    return indices[:-1] + data[depth:]


def split(
    shape: Shape | None, sizes: Value, num_outputs: int | None, axis: int, n_outputs: int
) -> tuple[Shape | None, ...]:
    """Split: one shape per output; ``sizes`` () means equal parts, of which the last may be
    smaller."""
    unknown = (None,) * n_outputs
    items = vector(sizes)
    if shape is None or items is None:
        return unknown
    axis = normalize_axis(axis, len(shape))
    if items:
        if len(items) != n_outputs:
            raise BuilderError(
                f"Split into {show(items)} has {len(items)} parts for {n_outputs} outputs"
            )
        total = sum(items[1:], start=items[0])
        if differ(total, shape[axis]):
            raise BuilderError(
                f"Split into {show(items)} does not add up to axis {axis} of {show(shape)}"
            )
        parts = list(items)
    else:
        count = num_outputs or n_outputs
        part = dims.ceildiv(shape[axis], count)
        parts = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
        if count != n_outputs or (type(parts[-1]) is int and parts[-1] < 0):
            return unknown
    return tuple(shape[:axis] + (part,) + shape[axis + 1 :] for part in parts)


def slice_(
    shape: Shape | None, starts: Value, ends: Value, axes: Value, steps: Value
) -> Shape | None:
    """Slice: ``axes`` and ``steps`` () mean the first axes and step 1."""
    first, last = vector(starts), vector(ends)
    which, stride = static_ints(axes), static_ints(steps)
    if shape is None or first is None or last is None or which is None or stride is None:
        return None
    chosen = normalize_axes(which, len(shape)) if which else list(range(len(first)))
    stride = stride or [1] * len(first)
    if not len(first) == len(last) == len(chosen) == len(stride) or len(chosen) > len(shape):
        raise BuilderError(
            f"Slice of {show(shape)}: starts {show(first)}, ends {show(last)}, axes {chosen} "
            f"and steps {stride} have different lengths"
        )
    result: list[Dim | None] = list(shape)
    for start, end, axis, step in zip(first, last, chosen, stride, strict=True):
        result[axis] = slice_length(shape[axis], start, end, step)
    return all_known(result)


def slice_length(size: Dim, start: Dim, end: Dim, step: int = 1) -> Dim | None:
    """Number of elements of ``[start:end:step]`` on an axis of ``size``; None when it cannot be
    told.

    Raises:
        BuilderError: the step is 0.
    """
    if step == 0:
        raise BuilderError("Slice with a step of 0")
    if type(size) is int and type(start) is int and type(end) is int:
        if step < 0 and start < -size:
            return None  # clamped to the first element by some, to nothing by others
        return len(range(*slice(start, end, step).indices(size)))
    if step < 0:
        whole = (type(start) is int and start == -1) or (type(start) is int and start >= _TO_END)
        if whole and type(end) is int and end <= -_TO_END:
            return dims.ceildiv(size, -step)
        return None
    low, high = _bound(size, start), _bound(size, end)
    if low is None or high is None:
        return None
    span = dims.maximum(high - low, 0)
    return dims.ceildiv(span, step)


def _bound(size: Dim, index: Dim) -> Dim | None:
    """An index of a forward slice, counted from the front and clamped to ``[0, size]``."""
    if type(index) is int and index >= _TO_END:
        return size
    if index >= 0:
        return dims.minimum(index, size)
    if type(index) is int:
        return dims.maximum(size + index, 0)
    if index + size >= 0 and index <= -1:
        return size + index
    return None


def top_k(shape: Shape | None, k: Value, axis: int = -1) -> Shape | None:
    """TopK: the axis becomes ``k``."""
    count = scalar(k)
    if shape is None or count is None:
        return None
    axis = normalize_axis(axis, len(shape))
    return shape[:axis] + (count,) + shape[axis + 1 :]


def arg_reduce(shape: Shape | None, axis: int = 0, keepdims: int = 1) -> Shape | None:
    """ArgMax, ArgMin: the axis is dropped, or 1."""
    if shape is None:
        return None
    axis = normalize_axis(axis, len(shape)) if shape else 0
    return shape[:axis] + ((1,) if keepdims and shape else ()) + shape[axis + 1 :]


def reduce(
    shape: Shape | None, axes: Value, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Shape | None:
    """ReduceX: no axes mean all of them, or none with ``noop_with_empty_axes``."""
    which = static_ints(axes)
    if shape is None or which is None:
        return None
    if not which and noop_with_empty_axes:
        return shape
    return reduce_shape(shape, which, keepdims)


def one_hot(indices: Shape | None, depth: Value, axis: int = -1) -> Shape | None:
    """OneHot: a new axis of size ``depth``."""
    size = scalar(depth)
    if indices is None or size is None:
        return None
    axis = normalize_axis(axis, len(indices) + 1)
    return indices[:axis] + (size,) + indices[axis:]


def tf_idf(x: Shape | None, ngram_indexes: Sequence[int]) -> Shape | None:
    """TfIdfVectorizer: the last axis counts each n-gram where its index says."""
    return None if x is None else x[:-1] + (max(ngram_indexes) + 1,)


def center_crop_pad(shape: Shape | None, target: Value, axes: Sequence[int] | None) -> Shape | None:
    """CenterCropPad: the axes take the sizes asked for."""
    items = vector(target)
    if shape is None or items is None:
        return None
    chosen = normalize_axes(axes, len(shape)) if axes else list(range(len(shape)))
    if len(items) != len(chosen):
        raise BuilderError(
            f"CenterCropPad of {show(shape)} needs {len(chosen)} sizes, not {show(items)}"
        )
    result = list(shape)
    for axis, size in zip(chosen, items, strict=True):
        result[axis] = size
    return tuple(result)


def like_value(value: Value) -> Shape | None:
    """ConstantOfShape, RandomNormal: the content is the shape; unknown when an entry may be
    negative."""
    items = vector(value)
    return items if items is not None and all(item >= 0 for item in items) else None


def tuple_of(sizes: Sequence[int]) -> Shape:
    """The shape that an attribute holds."""
    return tuple(sizes)
