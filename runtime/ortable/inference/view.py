"""Shape rules of ONNX operators that move, select, repeat or drop elements: Reshape, Slice, ...

Values of inputs (such as the target of a Reshape) are ints or symbolic dims. The shape of a result
is unknown (None) if these values do not determine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
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

# For "to the end", exporters write the largest int32 or int64; no axis is that long.
_TO_END = (1 << 31) - 1
Value = Dim | tuple[Dim, ...] | None


def as_vector(value: Value) -> tuple[Dim, ...] | None:
    """Return known content, a scalar or a vector, as a tuple."""
    return value if value is None or isinstance(value, tuple) else (value,)


def as_scalar(value: Value) -> Dim | None:
    """Return known content with one element, a scalar or a vector of length 1, as a scalar."""
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else None
    return value


def whole_number(info: Any) -> Dim | None:
    """Return the integer (or integral float) in a one-element input (ValueInfo), else None."""
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
    """Return known content if it is static, else None."""
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
    """Return the shape of Reshape: 0 copies a dim unless ``allowzero``, -1 is the remaining size.

    A symbolic size never copies a dim, even if it may be 0.

    Raises:
        BuilderError: the number of elements is provably different, two sizes are -1, or a size of
            0 has no dim to copy.
    """
    items = as_vector(target)
    if items is None:
        return None
    result: list[Dim] = []
    inferred_axis = -1
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
            if inferred_axis >= 0:
                raise BuilderError(f"Reshape to {shape_str(items)}: only one size may be -1")
            inferred_axis = position
        elif not item >= 0:
            return None  # the size may be -1 at run time
        result.append(item)
    if shape is None:
        return None if inferred_axis >= 0 else tuple(result)
    return _infer_missing_size(shape, items, result, inferred_axis)


def _infer_missing_size(
    shape: Shape, items: Sequence[Dim], result: list[Dim], inferred_axis: int
) -> Shape | None:
    """Compute the size of ``inferred_axis`` (-1: no axis), and check the number of elements."""
    sizes = [d for i, d in enumerate(result) if i != inferred_axis]
    dividend_factors, divisor_factors = (
        _cancel_factors(list(shape), sizes) if inferred_axis >= 0 else (list(shape), sizes)
    )
    total, divisor = dims.product_of(dividend_factors), dims.product_of(divisor_factors)
    if inferred_axis < 0:
        if type(total) is int and type(divisor) is int and total != divisor:
            raise _cannot_reshape(shape, items)
        return tuple(result)
    if type(divisor) is int:
        if divisor == 0:
            return None
        if type(total) is int and total % divisor:
            raise _cannot_reshape(shape, items)
    result[inferred_axis] = dims.floor_div(total, divisor)
    return tuple(result)


def _cancel_factors(left: list[Dim], right: list[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Remove common factors from both products."""
    unmatched = []
    for size in right:
        if size in left:
            left.remove(size)
        else:
            unmatched.append(size)
    a = prod(d for d in left if type(d) is int)
    b = prod(d for d in unmatched if type(d) is int)
    common = gcd(a, b)  # above 0: no product is 0 if the other is
    left = [d for d in left if type(d) is not int] + [a // common]
    return left, [d for d in unmatched if type(d) is not int] + [b // common]


def _cannot_reshape(shape: Shape, items: Sequence[Dim]) -> BuilderError:
    return BuilderError(
        f"A tensor of shape {shape_str(shape)} cannot be reshaped to {shape_str(items)}"
    )


def expand_shape(shape: Shape | None, target: Value) -> Shape | None:
    """Return the shape of Expand: both shapes broadcast.

    Raises:
        BuilderError: the shapes cannot be broadcast.
    """
    return None if shape is None else broadcast(shape, as_vector(target))


def tile_shape(shape: Shape | None, repeats: Value) -> Shape | None:
    """Return the shape of Tile: every dim times its repeat."""
    items = as_vector(repeats)
    if shape is None or items is None:
        return None
    if len(items) != len(shape):
        raise BuilderError(
            f"Tile needs one repeat per axis of {shape_str(shape)}, not {shape_str(items)}"
        )
    return tuple(d * r for d, r in zip(shape, items, strict=True))


def pad_shape(shape: Shape | None, pads: Value, axes: Value) -> Shape | None:
    """Return the shape of Pad; ``pads`` has all begins, then all ends; ``axes`` () means all."""
    items, axis_values = as_vector(pads), static_ints(axes)
    if shape is None or items is None or axis_values is None:
        return None
    normalized = normalize_axes(axis_values, len(shape)) if axis_values else list(range(len(shape)))
    if len(items) != 2 * len(normalized):
        raise BuilderError(
            f"Pad of {shape_str(shape)} needs {2 * len(normalized)} pads, not {shape_str(items)}"
        )
    result = list(shape)
    for k, axis in enumerate(normalized):
        result[axis] = result[axis] + items[k] + items[k + len(normalized)]
    return tuple(result)


def squeeze_shape(shape: Shape | None, axes: Value) -> Shape | None:
    """Return the shape of Squeeze: ``axes`` are dropped; () means every axis of size 1.

    Raises:
        BuilderError: an axis is provably not 1.
    """
    axis_values = static_ints(axes)
    if shape is None or axis_values is None:
        return None
    if not axis_values:
        if all(type(d) is int or d >= 2 for d in shape):
            return tuple(d for d in shape if d != 1)
        return None
    dropped = normalize_axes(axis_values, len(shape))
    wrong = [axis for axis in dropped if dims_differ(shape[axis], 1)]
    if wrong:
        raise BuilderError(
            f"Axis {wrong[0]} of {shape_str(shape)} is not 1, so it cannot be squeezed"
        )
    return tuple(d for i, d in enumerate(shape) if i not in dropped)


def unsqueeze_shape(shape: Shape | None, axes: Value) -> Shape | None:
    """Return the shape of Unsqueeze; ``axes`` are axes of the result."""
    axis_values = static_ints(axes)
    if shape is None or axis_values is None:
        return None
    old_sizes = iter(shape)
    rank = len(shape) + len(axis_values)
    new_axes = normalize_axes(axis_values, rank)
    return tuple(1 if i in new_axes else next(old_sizes) for i in range(rank))


def flatten_shape(shape: Shape | None, axis: int = 1) -> Shape | None:
    """Return the shape of Flatten: the products of the sizes before ``axis`` and from it."""
    if shape is None:
        return None
    if axis != len(shape):
        axis = normalize_axis(axis, len(shape)) if shape else 0
    return dims.product_of(shape[:axis]), dims.product_of(shape[axis:])


def gather_shape(data: Shape | None, indices: Shape | None, axis: int = 0) -> Shape | None:
    """Return the shape of Gather: the shape of the indices replaces the axis."""
    if data is None or indices is None:
        return None
    axis = normalize_axis(axis, len(data))
    return data[:axis] + indices + data[axis + 1 :]


def gather_block_quantized_shape(
    data: Shape | None, indices: Shape | None, gather_axis: int, packed: bool, bits: int
) -> Shape | None:
    """Return the shape of GatherBlockQuantized; ``packed`` bytes hold 8 / ``bits`` elements."""
    gathered = gather_shape(data, indices, gather_axis)
    if gathered is None or not gathered or not packed:
        return gathered
    return (*gathered[:-1], gathered[-1] * (8 // bits))


def gather_nd_shape(data: Shape | None, indices: Shape | None, batch_dims: int = 0) -> Shape | None:
    """Return the shape of GatherND: the last dim of the indices is the number of indexed axes."""
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
    """Return the shapes of Split; without ``sizes``, parts are equal, the last may be smaller."""
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
    """Return the shape of Slice; ``axes`` and ``steps`` are () if they are omitted."""
    first, last = as_vector(starts), as_vector(ends)
    indices, stride = static_ints(axes), static_ints(steps)
    if shape is None or first is None or last is None or indices is None or stride is None:
        return None
    normalized = normalize_axes(indices, len(shape)) if indices else list(range(len(first)))
    stride = stride or [1] * len(first)
    if not len(first) == len(last) == len(normalized) == len(stride) or len(normalized) > len(
        shape
    ):
        raise BuilderError(
            f"Slice of {shape_str(shape)}: starts {shape_str(first)}, "
            f"ends {shape_str(last)}, axes {normalized} and steps {stride} "
            "have different lengths"
        )
    result: list[Dim | None] = list(shape)
    for start, end, axis, step in zip(first, last, normalized, stride, strict=True):
        result[axis] = slice_length(shape[axis], start, end, step)
    return all_known(result)


def slice_length(size: Dim, start: Dim, end: Dim, step: int = 1) -> Dim | None:
    """Count the elements of ``[start:end:step]`` on an axis of ``size``; None if it is not known.

    Raises:
        BuilderError: the step is 0.
    """
    if step == 0:
        raise BuilderError("Slice with a step of 0")
    if type(size) is int and type(start) is int and type(end) is int:
        if step < 0 and start < -size:
            return None  # runtimes differ: the slice has the first element or none
        return len(range(*slice(start, end, step).indices(size)))
    if step < 0:
        starts_at_end = (type(start) is int and start == -1) or (
            type(start) is int and start >= _TO_END
        )
        if starts_at_end and type(end) is int and end <= -_TO_END:
            return dims.ceil_div(size, -step)
        return None
    low, high = _clamp_index(size, start), _clamp_index(size, end)
    if low is None or high is None:
        return None
    span = dims.max_of(high - low, 0)
    return dims.ceil_div(span, step)


def _clamp_index(size: Dim, index: Dim) -> Dim | None:
    """Return an index of a forward slice, counted from the front and clamped to ``[0, size]``."""
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
    """Return the shape of TopK: the axis has size ``k``."""
    count = as_scalar(k)
    if shape is None or count is None:
        return None
    axis = normalize_axis(axis, len(shape))
    return shape[:axis] + (count,) + shape[axis + 1 :]


def arg_reduce_shape(shape: Shape | None, axis: int = 0, keepdims: int = 1) -> Shape | None:
    """Return the shape of ArgMax, ArgMin: the axis is dropped, or has size 1."""
    if shape is None:
        return None
    axis = normalize_axis(axis, len(shape)) if shape else 0
    return shape[:axis] + ((1,) if keepdims and shape else ()) + shape[axis + 1 :]


def reduce_axes(
    shape: Shape | None, axes: Value, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Shape | None:
    """Return the shape of a reduction; ``axes`` () means all axes, or none with the noop flag."""
    axis_values = static_ints(axes)
    if shape is None or axis_values is None:
        return None
    if not axis_values and noop_with_empty_axes:
        return shape
    return reduce_shape(shape, axis_values, keepdims)


def one_hot_shape(indices: Shape | None, depth: Value, axis: int = -1) -> Shape | None:
    """Return the shape of OneHot: a new axis of size ``depth``."""
    size = as_scalar(depth)
    if indices is None or size is None:
        return None
    axis = normalize_axis(axis, len(indices) + 1)
    return indices[:axis] + (size,) + indices[axis:]


def tf_idf_shape(x: Shape | None, ngram_indexes: Sequence[int]) -> Shape | None:
    """Return the shape of TfIdfVectorizer: the last axis has an element for each n-gram index."""
    return None if x is None else x[:-1] + (max(ngram_indexes) + 1,)


def center_crop_pad_shape(
    shape: Shape | None, target: Value, axes: Sequence[int] | None
) -> Shape | None:
    """Return the shape of CenterCropPad: the axes have the target sizes."""
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
    """Return the known content as the shape of ConstantOfShape; None if a size may be negative."""
    items = as_vector(value)
    return items if items is not None and all(item >= 0 for item in items) else None


def tuple_of(sizes: Sequence[int]) -> Shape:
    """Return the shape that an attribute holds."""
    return tuple(sizes)
