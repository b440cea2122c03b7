"""Shape rules of ONNX operators that move, select, repeat or drop elements: Reshape, Slice, ...

Values of inputs (the target of a Reshape) are ints or symbolic dims; where they do not
determine the shape it is unknown.
"""

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
    dims_differ,
    normalize_axes,
    normalize_axis,
    reduce_shape,
    shape_str,
)

# Exporters write "to the end" as the largest int32 or int64; no tensor has an axis as long as that.
_TO_END = (1 << 31) - 1
Value = Dim | tuple[Dim, ...] | None


def as_vector(value: Value) -> tuple[Dim, ...] | None:
    """Return known content as a tuple, from a scalar or a vector."""
    return value if value is None or isinstance(value, tuple) else (value,)


def as_scalar(value: Value) -> Dim | None:
    """Return known content of one element, from a scalar or a vector of length 1."""
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else None
    return value


def whole_number(info: Any) -> Dim | None:
    """Return the single integer (or integral float) that an input (ValueInfo) holds."""
    content = as_scalar(info.value)
    if content is not None or info.constant is None:
        return content
    items = info.constant.tolist()
    while isinstance(items, list):
        if len(items) != 1:
            return None
        items = items[0]
    return int(items) if isinstance(items, (int, float)) and items == items // 1 else None


def static_ints(value: Value) -> list[int] | None:
    """Return known content when all of it is static, else None."""
    items = as_vector(value)
    if items is None or not all(type(item) is int for item in items):
        return None
    return list(items)  # type: ignore[arg-type]


def vector_length(shape: Shape | None, value: Value = None) -> Dim | None:
    """Return the number of elements of a vector, from its shape or its known content."""
    if isinstance(value, tuple):
        return len(value)
    return shape[0] if shape is not None and len(shape) == 1 else None


def reshape_shape(shape: Shape | None, target: Value, allowzero: int = 0) -> Shape | None:
    """Reshape: 0 copies a dim unless ``allowzero``, -1 is what is left.

    A symbolic size that may be 0 counts as itself, never as the copying 0.

    Raises:
        BuilderError: the number of elements is provably different.
    """
    items = as_vector(target)
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
                    f"Reshape to {shape_str(items)}: no dim {position} to copy in "
                    f"{shape_str(shape)}"
                )
            item = shape[position]
        elif type(item) is int and item == -1:
            if hole >= 0:
                raise BuilderError(f"Reshape to {shape_str(items)}: only one size may be -1")
            hole = position
        elif not item >= 0:
            return None  # might turn out to be -1
        result.append(item)
    if shape is None:
        return None if hole >= 0 else tuple(result)
    return _fill_hole(shape, items, result, hole)


def _fill_hole(shape: Shape, items: Sequence[Dim], result: list[Dim], hole: int) -> Shape | None:
    sizes = [d for i, d in enumerate(result) if i != hole]
    left, right = _cancel_factors(list(shape), sizes) if hole >= 0 else (list(shape), sizes)
    total, divisor = dims.product_of(left), dims.product_of(right)
    if hole < 0:
        if type(total) is int and type(divisor) is int and total != divisor:
            raise _cannot_reshape(shape, items)
        return tuple(result)
    if type(divisor) is int:
        if divisor == 0:
            return None
        if type(total) is int and total % divisor:
            raise _cannot_reshape(shape, items)
    result[hole] = dims.floor_div(total, divisor)
    return tuple(result)


def _cancel_factors(left: list[Dim], right: list[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Remove common factors from both products.

    -1 is legal only where no known size is 0.
    """
    remaining = []
    for size in right:
        if size in left:
            left.remove(size)
        else:
            remaining.append(size)
    top = [d for d in left if type(d) is int]
    bottom = [d for d in remaining if type(d) is int]
    a, b = dims.product_of(top), dims.product_of(bottom)
    common = gcd(a, b) if type(a) is int and type(b) is int and a and b else 1
    left = [d for d in left if type(d) is not int] + [a // common]
    return left, [d for d in remaining if type(d) is not int] + [b // common]


def _cannot_reshape(shape: Shape, items: Sequence[Dim]) -> BuilderError:
    return BuilderError(
        f"A tensor of shape {shape_str(shape)} cannot be reshaped to {shape_str(items)}"
    )


def expand_shape(shape: Shape | None, target: Value) -> Shape | None:
    """Expand: both shapes broadcast. Raises BuilderError when they cannot."""
    return None if shape is None else broadcast(shape, as_vector(target))


def tile_shape(shape: Shape | None, repeats: Value) -> Shape | None:
    """Tile: every dim times its repeat."""
    items = as_vector(repeats)
    if shape is None or items is None:
        return None
    if len(items) != len(shape):
        raise BuilderError(
            f"Tile needs one repeat per axis of {shape_str(shape)}, not {shape_str(items)}"
        )
    return tuple(d * r for d, r in zip(shape, items, strict=True))


def pad_shape(shape: Shape | None, pads: Value, axes: Value) -> Shape | None:
    """Pad: ``pads`` holds all begins, then all ends; ``axes`` () means every axis."""
    items, which = as_vector(pads), static_ints(axes)
    if shape is None or items is None or which is None:
        return None
    normalized = normalize_axes(which, len(shape)) if which else list(range(len(shape)))
    if len(items) != 2 * len(normalized):
        raise BuilderError(
            f"Pad of {shape_str(shape)} needs {2 * len(normalized)} pads, not {shape_str(items)}"
        )
    result = list(shape)
    for k, axis in enumerate(normalized):
        result[axis] = result[axis] + items[k] + items[k + len(normalized)]
    return tuple(result)


def squeeze_shape(shape: Shape | None, axes: Value) -> Shape | None:
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
    dropped = normalize_axes(which, len(shape))
    wrong = [axis for axis in dropped if dims_differ(shape[axis], 1)]
    if wrong:
        raise BuilderError(
            f"Axis {wrong[0]} of {shape_str(shape)} is not 1, so it cannot be squeezed"
        )
    return tuple(d for i, d in enumerate(shape) if i not in dropped)


def unsqueeze_shape(shape: Shape | None, axes: Value) -> Shape | None:
    """Unsqueeze: ``axes`` count in the result."""
    which = static_ints(axes)
    if shape is None or which is None:
        return None
    rest = iter(shape)
    rank = len(shape) + len(which)
    new = normalize_axes(which, rank)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def flatten_shape(shape: Shape | None, axis: int = 1) -> Shape | None:
    """Flatten: two dims, the product before ``axis`` and the product from it on."""
    if shape is None:
        return None
    if axis != len(shape):
        axis = normalize_axis(axis, len(shape)) if shape else 0
    return dims.product_of(shape[:axis]), dims.product_of(shape[axis:])


def gather_shape(data: Shape | None, indices: Shape | None, axis: int = 0) -> Shape | None:
    """Gather: the axis is replaced by the shape of the indices."""
    if data is None or indices is None:
        return None
    axis = normalize_axis(axis, len(data))
    return data[:axis] + indices + data[axis + 1 :]


def gather_block_quantized_shape(
    data: Shape | None, indices: Shape | None, gather_axis: int, packed: bool, bits: int
) -> Shape | None:
    """com.microsoft GatherBlockQuantized: Gather, and ``packed`` bytes along the last axis hold 8 /
    ``bits`` elements each."""
    gathered = gather_shape(data, indices, gather_axis)
    if gathered is None or not gathered or not packed:
        return gathered
    return (*gathered[:-1], gathered[-1] * (8 // bits))


def gather_nd_shape(data: Shape | None, indices: Shape | None, batch_dims: int = 0) -> Shape | None:
    """GatherND: the last dim of the indices says how many axes one index picks."""
    if data is None or indices is None or not indices or type(indices[-1]) is not int:
        return None
    depth = batch_dims + indices[-1]
    if depth > len(data):
        raise BuilderError(
            f"GatherND: indices {shape_str(indices)} pick {indices[-1]} axes of {shape_str(data)}"
        )
    return indices[:-1] + data[depth:]


def split_shapes(
    shape: Shape | None, sizes: Value, num_outputs: int | None, axis: int, n_outputs: int
) -> tuple[Shape | None, ...]:
    """Split: one shape per output; ``sizes`` () means equal parts, of which the last may be
    smaller."""
    unknown = (None,) * n_outputs
    items = as_vector(sizes)
    if shape is None or items is None:
        return unknown
    axis = normalize_axis(axis, len(shape))
    if items:
        if len(items) != n_outputs:
            raise BuilderError(
                f"Split into {shape_str(items)} has {len(items)} parts for {n_outputs} outputs"
            )
        total = sum(items[1:], start=items[0])
        if dims_differ(total, shape[axis]):
            raise BuilderError(
                f"Split into {shape_str(items)} does not add up to axis {axis} of "
                f"{shape_str(shape)}"
            )
        parts = list(items)
    else:
        count = num_outputs or n_outputs
        part = dims.ceil_div(shape[axis], count)
        parts = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
        if count != n_outputs or (type(parts[-1]) is int and parts[-1] < 0):
            return unknown
    return tuple(shape[:axis] + (part,) + shape[axis + 1 :] for part in parts)


def slice_shape(
    shape: Shape | None, starts: Value, ends: Value, axes: Value, steps: Value
) -> Shape | None:
    """Slice: ``axes`` and ``steps`` () mean the first axes and step 1."""
    first, last = as_vector(starts), as_vector(ends)
    which, stride = static_ints(axes), static_ints(steps)
    if shape is None or first is None or last is None or which is None or stride is None:
        return None
    normalized = normalize_axes(which, len(shape)) if which else list(range(len(first)))
    stride = stride or [1] * len(first)
    if not len(first) == len(last) == len(normalized) == len(stride) or len(normalized) > len(
        shape
    ):
        raise BuilderError(
            f"Slice of {shape_str(shape)}: starts {shape_str(first)}, ends {shape_str(last)}, "
            f"axes {normalized} and steps {stride} have different lengths"
        )
    result: list[Dim | None] = list(shape)
    for start, end, axis, step in zip(first, last, normalized, stride, strict=True):
        result[axis] = slice_length(shape[axis], start, end, step)
    return all_known(result)


def slice_length(size: Dim, start: Dim, end: Dim, step: int = 1) -> Dim | None:
    """Count the elements of ``[start:end:step]`` on an axis of ``size``; None when undecidable.

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
        from_end = (type(start) is int and start == -1) or (type(start) is int and start >= _TO_END)
        if from_end and type(end) is int and end <= -_TO_END:
            return dims.ceil_div(size, -step)
        return None
    low, high = _clamp_index(size, start), _clamp_index(size, end)
    if low is None or high is None:
        return None
    span = dims.max_of(high - low, 0)
    return dims.ceil_div(span, step)


def _clamp_index(size: Dim, index: Dim) -> Dim | None:
    """Count an index of a forward slice from the front and clamp it to ``[0, size]``."""
    if type(index) is int and index >= _TO_END:
        return size
    if index >= 0:
        return dims.min_of(index, size)
    if type(index) is int:
        return dims.max_of(size + index, 0)
    if index + size >= 0 and index <= -1:
        return size + index
    return None


def top_k_shape(shape: Shape | None, k: Value, axis: int = -1) -> Shape | None:
    """TopK: the axis becomes ``k``."""
    count = as_scalar(k)
    if shape is None or count is None:
        return None
    axis = normalize_axis(axis, len(shape))
    return shape[:axis] + (count,) + shape[axis + 1 :]


def arg_reduce_shape(shape: Shape | None, axis: int = 0, keepdims: int = 1) -> Shape | None:
    """ArgMax, ArgMin: the axis is dropped, or 1."""
    if shape is None:
        return None
    axis = normalize_axis(axis, len(shape)) if shape else 0
    return shape[:axis] + ((1,) if keepdims and shape else ()) + shape[axis + 1 :]


def reduce_axes(
    shape: Shape | None, axes: Value, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Shape | None:
    """ReduceX: no axes mean all of them, or none with ``noop_with_empty_axes``."""
    which = static_ints(axes)
    if shape is None or which is None:
        return None
    if not which and noop_with_empty_axes:
        return shape
    return reduce_shape(shape, which, keepdims)


def one_hot_shape(indices: Shape | None, depth: Value, axis: int = -1) -> Shape | None:
    """OneHot: a new axis of size ``depth``."""
    size = as_scalar(depth)
    if indices is None or size is None:
        return None
    axis = normalize_axis(axis, len(indices) + 1)
    return indices[:axis] + (size,) + indices[axis:]


def tf_idf_shape(x: Shape | None, ngram_indexes: Sequence[int]) -> Shape | None:
    """TfIdfVectorizer: the last axis counts each n-gram where its index says."""
    return None if x is None else x[:-1] + (max(ngram_indexes) + 1,)


def center_crop_pad_shape(
    shape: Shape | None, target: Value, axes: Sequence[int] | None
) -> Shape | None:
    """CenterCropPad: the axes take the sizes asked for."""
    items = as_vector(target)
    if shape is None or items is None:
        return None
    normalized = normalize_axes(axes, len(shape)) if axes else list(range(len(shape)))
    if len(items) != len(normalized):
        raise BuilderError(
            f"CenterCropPad of {shape_str(shape)} needs {len(normalized)} sizes, "
            f"not {shape_str(items)}"
        )
    result = list(shape)
    for axis, size in zip(normalized, items, strict=True):
        result[axis] = size
    return tuple(result)


def shape_from_value(value: Value) -> Shape | None:
    """ConstantOfShape, RandomNormal: the content is the shape; unknown when an entry may be
    negative."""
    items = as_vector(value)
    return items if items is not None and all(item >= 0 for item in items) else None


def tuple_of(sizes: Sequence[int]) -> Shape:
    """The shape that an attribute holds."""
    return tuple(sizes)
