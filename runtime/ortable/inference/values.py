"""Value rules: the content of small integer results that Shape, Gather, Add, ... compute.

A value is a dim (rank 0), a tuple of dims (rank 1), or None (unknown).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ortable import dims

from .dtype import INDEX_TYPES
from .shape import Dim, Shape
from .view import Value, as_scalar, as_vector, slice_length, static_ints, whole_number

# Rules do not build longer vectors, which are data rather than shapes.
LIMIT = 64


def shape_value(shape: Shape | None, start: int = 0, end: int | None = None) -> Value:
    """Return the content of Shape: dims from ``start`` to ``end``, clamped like a Python slice."""
    return None if shape is None else shape[start:end]


def shape_of_shape(shape: Shape | None, start: int = 0, end: int | None = None) -> Shape | None:
    """Return the shape of the result of Shape: the number of dims."""
    return None if shape is None else (len(shape[start:end]),)


def size_value(shape: Shape | None) -> Value:
    """Return the content of Size: the product of the dims."""
    return None if shape is None else dims.product_of(shape)


def map_values(function: Callable[..., Dim | None], *values: Value) -> Value:
    """Apply ``function`` elementwise; scalars and vectors of length 1 broadcast."""
    if None in values:
        return None
    vectors = [v for v in values if isinstance(v, tuple)]
    if not vectors:
        return function(*values)
    size = max(len(v) for v in vectors)
    if 0 in map(len, vectors):
        size = 0
    columns = []
    for value in values:
        items = value if isinstance(value, tuple) else (value,)
        if len(items) not in (1, size):
            return None
        columns.append(items * size if len(items) == 1 else items)
    result = tuple(function(*operands) for operands in zip(*columns, strict=True))
    return None if None in result else result  # type: ignore[return-value]


def _divide_dims(a: Dim, b: Dim) -> Dim | None:
    # ONNX rounds towards zero, which equals the floor only for non-negative operands
    if type(a) is int and type(b) is int:
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return dims.floor_div(a, b) if a >= 0 and b > 0 else None


def _mod_dims(a: Dim, b: Dim) -> Dim | None:
    return dims.floor_mod(a, b) if b > 0 else None


def _fmod_dims(a: Dim, b: Dim) -> Dim | None:
    if type(a) is int and type(b) is int and b != 0:
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return dims.floor_mod(a, b) if a >= 0 and b > 0 else None


def _abs_dim(a: Dim) -> Dim | None:
    if a >= 0:
        return a
    return -a if a <= 0 else None


def add_value(a: Value, b: Value) -> Value:
    """Return the content of Add."""
    return map_values(operator.add, a, b)


def sub_value(a: Value, b: Value) -> Value:
    """Return the content of Sub."""
    return map_values(operator.sub, a, b)


def mul_value(a: Value, b: Value) -> Value:
    """Return the content of Mul."""
    return map_values(operator.mul, a, b)


def div_value(a: Value, b: Value) -> Value:
    """Return the content of Div, which rounds towards zero; None for symbols of unknown sign."""
    return map_values(_divide_dims, a, b)


def mod_value(a: Value, b: Value, fmod: int = 0) -> Value:
    """Return the content of Mod, with the sign of the divisor, or of the dividend with ``fmod``."""
    return map_values(_fmod_dims if fmod else _mod_dims, a, b)


def neg_value(a: Value) -> Value:
    """Return the content of Neg."""
    return map_values(operator.neg, a)


def abs_value(a: Value) -> Value:
    """Return the content of Abs; None if the sign of an element is unknown."""
    return map_values(_abs_dim, a)


def max_value(values: Sequence[Value]) -> Value:
    """Return the content of Max of any number of inputs."""
    return map_values(dims.max_of, *values)


def min_value(values: Sequence[Value]) -> Value:
    """Return the content of Min of any number of inputs."""
    return map_values(dims.min_of, *values)


def sum_value(values: Sequence[Value]) -> Value:
    """Return the content of Sum of any number of inputs."""
    return map_values(lambda *items: sum(items[1:], start=items[0]), *values)


def clip_value(value: Value, low: Value, high: Value) -> Value:
    """Return the content of Clip; an omitted bound is ()."""
    if value is not None and low != ():
        value = map_values(dims.max_of, value, as_scalar(low))
    if value is not None and high != ():
        value = map_values(dims.min_of, value, as_scalar(high))
    return value


def where_value(a: Value, b: Value) -> Value:
    """Return the content of Where if both branches are equal, else None."""
    return a if a is not None and a == b else None


def cast_value(value: Value, source: int | None, target: int | None) -> Value:
    """Return the content of Cast between int32 and int64, which does not change it."""
    return value if source in INDEX_TYPES and target in INDEX_TYPES else None


def concat_value(values: Sequence[Value]) -> Value:
    """Return the content of Concat of vectors."""
    if not all(isinstance(value, tuple) for value in values):
        return None
    joined = tuple(item for value in values if isinstance(value, tuple) for item in value)
    return joined if len(joined) <= LIMIT else None


def gather_value(data: Value, indices: Value) -> Value:
    """Return the content of Gather from a vector."""
    if not isinstance(data, tuple) or indices is None:
        return None
    positions = static_ints(indices)
    if positions is None or not all(-len(data) <= i < len(data) for i in positions):
        return None
    return tuple(data[i] for i in positions) if isinstance(indices, tuple) else data[positions[0]]


def slice_value(data: Value, starts: Value, ends: Value, axes: Value, steps: Value) -> Value:
    """Return the content of Slice of a vector."""
    first, last = static_ints(starts), static_ints(ends)
    indices, stride = static_ints(axes), static_ints(steps)
    if not isinstance(data, tuple) or not first or not last or indices is None or stride is None:
        return None
    if len(first) != 1 or (indices and indices[0] not in (0, -1)):
        return None
    step = stride[0] if stride else 1
    if step == 0 or slice_length(len(data), first[0], last[0], step) is None:
        return None
    return data[slice(first[0], last[0], step)]


def squeeze_value(value: Value) -> Value:
    """Return the content of Squeeze of a vector with one element."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else None


def unsqueeze_value(value: Value, axes: Value) -> Value:
    """Return the content of Unsqueeze of a scalar."""
    axis_values = static_ints(axes)
    return (
        (value,)
        if value is not None and not isinstance(value, tuple) and axis_values in ([0], [-1])
        else None
    )


def reshape_value(value: Value, target: Value, shape: Shape | None) -> Value:
    """Return the content of Reshape or Expand to rank 0 or 1; ``shape`` is the result's shape."""
    if value is None or shape is None or target is None:
        return None
    items = as_vector(value)
    assert items is not None
    if shape == ():
        return items[0] if len(items) == 1 else None
    if len(shape) != 1:
        return None
    if shape[0] == len(items):
        return items
    if len(items) == 1 and type(shape[0]) is int and shape[0] <= LIMIT:
        return items * shape[0]
    return None


def split_value(value: Value, shapes: Sequence[Shape | None]) -> tuple[Value, ...]:
    """Return the contents of Split of a vector into parts of static length."""
    unknown = (None,) * len(shapes)
    if not isinstance(value, tuple):
        return unknown
    parts, start = [], 0
    for shape in shapes:
        if shape is None or type(shape[0]) is not int:
            return unknown
        parts.append(value[start : start + shape[0]])
        start += shape[0]
    return tuple(parts) if start == len(value) else unknown


def range_length(start: Any, limit: Any, delta: Any) -> Shape | None:
    """Return the shape of Range; the arguments are inputs (ValueInfo) with whole numbers."""
    numbers = [whole_number(info) for info in (start, limit, delta)]
    start_number, limit_number, step = numbers
    if start_number is None or limit_number is None or type(step) is not int or step == 0:
        return None
    return (dims.max_of(dims.ceil_div(limit_number - start_number, step), 0),)


def range_value(start: Value, limit: Value, delta: Value) -> Value:
    """Return the content of Range with static bounds, up to LIMIT elements."""
    numbers = [as_scalar(v) for v in (start, limit, delta)]
    if not all(type(n) is int for n in numbers) or numbers[2] == 0:
        return None
    items = range(*numbers)  # type: ignore[arg-type]
    return tuple(items) if len(items) <= LIMIT else None


def reduce_value(
    function: str, value: Value, axes: Value, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value:
    """Return the content of ReduceProd, -Sum, -Max or -Min of a vector; omitted axes are ()."""
    axis_values = static_ints(axes)
    if not isinstance(value, tuple) or not value or axis_values is None:
        return None
    if not axis_values and noop_with_empty_axes:
        return value
    if axis_values not in ([], [0], [-1]):
        return None
    total = _FOLDS[function](value)
    return (total,) if keepdims else total


_FOLDS: dict[str, Callable[[tuple[Dim, ...]], Dim]] = {
    "prod": dims.product_of,
    "sum": lambda items: sum(items[1:], start=items[0]),
    "max": lambda items: dims.max_of(*items),
    "min": lambda items: dims.min_of(*items),
}


def filled_value(content: Any, target: Value) -> Value:
    """Return the content of ConstantOfShape; ``content`` is a one-element tensor, None for 0."""
    size = static_ints(target)
    if (
        size is None
        or not isinstance(target, tuple)
        or len(size) > 1
        or (size and not 0 <= size[0] <= LIMIT)
    ):
        return None
    number = 0 if content is None else scalar_of(content)
    if type(number) is not int:
        return None
    return (number,) * size[0] if size else number


def scalar_of(tensor: Any) -> Any:
    """Return the number in a one-element tensor attribute (TensorProto or numpy array)."""
    if hasattr(tensor, "data_type"):
        from onnx import numpy_helper

        tensor = numpy_helper.to_array(tensor)
    return tensor.reshape(-1).tolist()[0]
