"""Definitions of ONNX operators on tensors of terms: moves, sizes, reductions, elementwise.

`graphs` applies them to every node. `layers` defines network layers, `attention` attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortable import dtypes

from .terms import NotConstant, Table

__all__ = ["OPERATORS", "Invalid", "Node", "Tensor", "Unsupported", "constants", "elementwise"]

Ids = np.ndarray[Any, np.dtype[np.int64]]
MAX_ELEMENTS = 4096  # maximal number of elements of a result


class Invalid(Exception):
    """The graph is invalid at these sizes."""


class Unsupported(Exception):
    """An operator or attribute without a definition here."""


@dataclass(frozen=True)
class Tensor:
    """The terms of a tensor, in its shape, and its dtype."""

    ids: Ids
    dtype: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ids.shape


@dataclass(frozen=True)
class Node:
    """A copy of a node, because rewriting changes nodes in place."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    target: str | None


Inputs = Sequence[Tensor | None]
Definition = Callable[[Table, Node, Inputs], Tensor | list[Tensor]]


def constants(table: Table, tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the numbers of a constant tensor."""
    flat = [table.value(term) for term in tensor.ids.reshape(-1).tolist()]
    return np.array(flat, dtype=np.int64).reshape(tensor.shape)


def ints(table: Table, tensor: Tensor | None) -> list[int]:
    """Return the numbers of a constant tensor as a list, empty for an omitted input."""
    return [] if tensor is None else [int(x) for x in constants(table, tensor).reshape(-1)]


def const(table: Table, values: Any, dtype: int) -> Tensor:
    array = np.asarray(values)
    ids = [table.constant(value, dtype) for value in array.reshape(-1).tolist()]
    return Tensor(np.array(ids, dtype=np.int64).reshape(array.shape), dtype)


def axis_index(axis: int, rank: int) -> int:
    """Return the axis as a non-negative index."""
    if not -rank <= axis < max(rank, 1):
        raise Invalid(f"axis {axis} of {rank}")
    return axis % rank if rank else 0


def _axes(axes: Sequence[int], rank: int) -> list[int]:
    normalized = [axis_index(axis, rank) for axis in axes]
    if len(set(normalized)) != len(normalized):
        raise Invalid("repeated axis")
    return normalized


def elementwise(
    table: Table, op: str, tensors: Sequence[Tensor], dtype: int, attrs: tuple[Any, ...] = ()
) -> Tensor:
    """Apply an operation to each element, after broadcasting."""
    try:
        broadcast = np.broadcast_arrays(*(tensor.ids for tensor in tensors))
    except ValueError as error:
        raise Invalid(str(error)) from None
    flat = [array.reshape(-1).tolist() for array in broadcast]
    if broadcast[0].size > MAX_ELEMENTS:
        raise Unsupported("too many elements")
    ids = [table.make(op, args, dtype, attrs) for args in zip(*flat, strict=True)]
    return Tensor(np.array(ids, dtype=np.int64).reshape(broadcast[0].shape), dtype)


def present(inputs: Inputs) -> list[Tensor]:
    return [tensor for tensor in inputs if tensor is not None]


def _elementwise(table: Table, node: Node, inputs: Inputs) -> Tensor:
    tensors = present(inputs)
    attrs = tuple(node.attrs.get(name, default) for name, default in ATTRIBUTES.get(node.op, ()))
    attrs = tuple(value.decode() if isinstance(value, bytes) else value for value in attrs)
    attrs = tuple(float(np.float32(x)) if isinstance(x, float) else x for x in attrs)
    return elementwise(table, node.op, tensors, tensors[0].dtype, attrs)


ATTRIBUTES: dict[str, tuple[tuple[str, Any], ...]] = {
    "Gelu": (("approximate", "none"),), "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": (("alpha", 0.01),), "Elu": (("alpha", 1.0),), "Mod": (("fmod", 0),),
}  # fmt: skip


def _composite(table: Table, node: Node, inputs: Inputs) -> Tensor:
    """Apply a function that ONNX defines by other operators."""
    (x,) = present(inputs)
    if node.op == "Mish":
        inner = elementwise(table, "Softplus", [x], x.dtype)
        inner = elementwise(table, "Tanh", [inner], x.dtype)
    else:
        inner = elementwise(table, "HardSigmoid", [x], x.dtype, (float(np.float32(1 / 6)), 0.5))
    return elementwise(table, "Mul", [x, inner], x.dtype)


ELEMENTWISE = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sqrt", "Reciprocal", "Exp", "Log",
    "Tanh", "Sin", "Cos", "Erf", "Sigmoid", "Softplus", "Relu", "Gelu", "HardSigmoid",
    "LeakyRelu", "Elu", "Not", "And", "Or",
)  # fmt: skip


def _variadic(op: str) -> Definition:
    def define(table: Table, node: Node, inputs: Inputs) -> Tensor:
        tensors = present(inputs)
        result = tensors[0]
        for tensor in tensors[1:]:
            result = elementwise(table, op, [result, tensor], result.dtype)
        return result

    return define


def _compare(table: Table, node: Node, inputs: Inputs) -> Tensor:
    return elementwise(table, node.op, present(inputs), dtypes.boolean)


def _where(table: Table, node: Node, inputs: Inputs) -> Tensor:
    tensors = present(inputs)
    return elementwise(table, "Where", tensors, tensors[1].dtype)


def _clip(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, low, high = (*inputs, None, None)[:3]
    assert x is not None
    for op, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            if bound.shape:
                raise Invalid("a bound is not a scalar")
            x = elementwise(table, op, [x, bound], x.dtype)
    return x


def cast(table: Table, x: Tensor, dtype: int) -> Tensor:
    if dtype == x.dtype:
        return x
    kind = "bool" if dtype == dtypes.boolean else "int"
    attrs: tuple[Any, ...] = (kind,)
    if dtypes.is_float_type(dtype):
        attrs = ("float",)
    elif kind == "int":
        bounds = np.iinfo(dtypes.to_numpy(dtype))
        attrs = (kind, int(bounds.min), int(bounds.max))
    return elementwise(table, "Cast", [x], dtype, attrs)


def _cast(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    if int(node.attrs["to"]) in dtypes.SUB_BYTE:
        raise Unsupported("numbers of less than a byte")
    return cast(table, x, int(node.attrs["to"]))


def _identity(table: Table, node: Node, inputs: Inputs) -> Tensor:
    return present(inputs)[0]


def _reshape(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, target = present(inputs)
    sizes = ints(table, target)
    if not node.attrs.get("allowzero", 0):
        if any(size == 0 and index >= len(x.shape) for index, size in enumerate(sizes)):
            raise Invalid("0 copies a missing size")
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    elif 0 in sizes and -1 in sizes:
        raise Invalid("0 and -1 with allowzero")
    return Tensor(_view(x.ids, sizes), x.dtype)


def _view(ids: Ids, sizes: Sequence[int]) -> Ids:
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        raise Invalid("invalid sizes of a view")
    if -1 in sizes and ids.size == 0 and 0 in sizes:
        raise Invalid("-1 with 0 elements")
    try:
        return ids.reshape(tuple(sizes))
    except ValueError as error:
        raise Invalid(str(error)) from None


def _flatten(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    rank = len(x.shape)
    axis = node.attrs.get("axis", 1)
    if not -rank <= axis <= rank:
        raise Invalid("axis out of range")
    axis = axis + rank if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    columns = int(np.prod(x.shape[axis:], dtype=np.int64))
    return Tensor(x.ids.reshape((rows, columns)), x.dtype)


def _squeeze(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, axes = (*inputs, None)[:2]
    assert x is not None
    removed = _axes(ints(table, axes), len(x.shape))
    if axes is not None and not removed:
        raise Invalid("an empty list of axes is ambiguous")
    if axes is None:
        removed = [i for i, size in enumerate(x.shape) if size == 1]
    if any(x.shape[axis] != 1 for axis in removed):
        raise Invalid("the size of a squeezed axis is not 1")
    return Tensor(x.ids.reshape([s for i, s in enumerate(x.shape) if i not in removed]), x.dtype)


def _unsqueeze(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, axes = present(inputs)
    requested = ints(table, axes)
    rank = len(x.shape) + len(requested)
    new = _axes(requested, rank)
    old = iter(x.shape)
    return Tensor(x.ids.reshape([1 if i in new else next(old) for i in range(rank)]), x.dtype)


def _transpose(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    rank = len(x.shape)
    perm = node.attrs.get("perm")
    order = list(range(rank))[::-1] if perm is None else [int(axis) for axis in perm]
    if sorted(order) != list(range(rank)):
        raise Invalid("perm is not a permutation")
    return Tensor(x.ids.transpose(order), x.dtype)


def _concat(table: Table, node: Node, inputs: Inputs) -> Tensor:
    tensors = present(inputs)
    try:
        rank = len(tensors[0].shape)
        if rank == 0:
            raise Invalid("Concat of scalars")
        axis = axis_index(int(node.attrs["axis"]), rank)
        ids = np.concatenate([tensor.ids for tensor in tensors], axis=axis)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return Tensor(ids, tensors[0].dtype)


def _slice(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, starts, ends, axes, steps = (*inputs, None, None)[:5]
    assert x is not None
    first, last = ints(table, starts), ints(table, ends)
    along = ints(table, axes) if axes is not None else list(range(len(first)))
    stride = ints(table, steps) if steps is not None else [1] * len(first)
    if not len(first) == len(last) == len(along) == len(stride) or 0 in stride:
        raise Invalid("lengths of Slice inputs differ")
    ids = x.ids
    for begin, end, axis, step in zip(first, last, _axes(along, len(x.shape)), stride, strict=True):
        size = ids.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start = min(max(begin + size if begin < 0 else begin, max(low, 0)), max(high, 0))
        if step < 0:
            start = min(max(begin + size if begin < 0 else begin, 0), size - 1)
        stop = min(max(end + size if end < 0 else end, low), size if step > 0 else high)
        indices = list(range(start, stop, step)) if size else []
        ids = np.take(ids, np.array(indices, dtype=np.int64), axis=axis)
    return Tensor(ids, x.dtype)


def _split(table: Table, node: Node, inputs: Inputs) -> list[Tensor]:
    x, sizes = (*inputs, None)[:2]
    assert x is not None
    axis = axis_index(int(node.attrs.get("axis", 0)), len(x.shape))
    length = x.shape[axis]
    parts = ints(table, sizes)
    if sizes is None:
        count = int(node.attrs.get("num_outputs", len(node.outputs)))
        part_size = -(-length // count)
        parts = [part_size] * (count - 1) + [length - part_size * (count - 1)]
    if sum(parts) != length or any(size < 0 for size in parts) or len(parts) != len(node.outputs):
        raise Invalid("invalid sizes of a Split")
    bounds = np.cumsum(parts)[:-1]
    return [Tensor(ids, x.dtype) for ids in np.split(x.ids, bounds, axis=axis)]


def _indices(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    if indices.size and not ((indices >= -size) & (indices < size)).all():
        raise Invalid("index out of range")
    return np.where(indices < 0, indices + size, indices)


def _gather(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, indices = present(inputs)
    if not x.shape:
        raise Invalid("Gather of a scalar")
    axis = axis_index(int(node.attrs.get("axis", 0)), len(x.shape))
    positions = _indices(constants(table, indices), x.shape[axis])
    return Tensor(np.take(x.ids, positions, axis=axis), x.dtype)


def _gather_nd(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, indices = present(inputs)
    if node.attrs.get("batch_dims", 0):
        raise Unsupported("GatherND with batch_dims")
    values = constants(table, indices)
    if not values.shape or values.shape[-1] > len(x.shape):
        raise Invalid("invalid indices")
    positions = tuple(_indices(values[..., i], x.shape[i]) for i in range(values.shape[-1]))
    return Tensor(x.ids[positions], x.dtype)


def _expand(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, target = present(inputs)
    try:
        sizes = ints(table, target)
        _check_size(sizes)
        shape = np.broadcast_shapes(x.shape, tuple(sizes))
    except ValueError as error:
        raise Invalid(str(error)) from None
    _check_size(shape)
    return Tensor(np.array(np.broadcast_to(x.ids, shape)), x.dtype)


def _tile(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, repeats = present(inputs)
    counts = ints(table, repeats)
    if len(counts) != len(x.shape) or any(count < 0 for count in counts):
        raise Invalid("invalid repeats")
    _check_size([size * count for size, count in zip(x.shape, counts, strict=True)])
    return Tensor(np.tile(x.ids, counts), x.dtype)


def _check_size(sizes: Sequence[int]) -> None:
    """Raise if a result has more than `MAX_ELEMENTS` elements."""
    count = 1
    for size in sizes:
        count *= max(int(size), 0)
    if count > MAX_ELEMENTS:
        raise Unsupported("too many elements")


def pad(table: Table, x: Tensor, before: Sequence[int], after: Sequence[int], fill: int) -> Ids:
    """Return the terms with padding; negative numbers crop."""
    ids = x.ids
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = ids.shape[axis]
        if size + low + high < 0 or -low > size or -high > size:
            raise Invalid("Pad crops more than the size")
        _check_size([*ids.shape[:axis], size + low + high, *ids.shape[axis + 1 :]])
        ids = np.take(ids, range(max(-low, 0), size - max(-high, 0)), axis=axis)
        widths = [(0, 0)] * len(x.shape)
        widths[axis] = (max(low, 0), max(high, 0))
        ids = np.pad(ids, widths, constant_values=fill)
    return ids


def _pad(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, pads, value, axes = (*inputs, None, None)[:4]
    assert x is not None
    if node.attrs.get("mode", "constant") not in ("constant", b"constant"):
        raise Unsupported("Pad with this mode")
    rank, sizes = len(x.shape), ints(table, pads)
    pad_axes = list(range(rank)) if axes is None else _axes(ints(table, axes), rank)
    if len(sizes) != 2 * len(pad_axes):
        raise Invalid("wrong number of pads")
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(pad_axes):
        before[axis], after[axis] = sizes[index], sizes[index + len(pad_axes)]
    fill = table.constant(0, x.dtype) if value is None else int(value.ids.reshape(-1)[0])
    return Tensor(pad(table, x, before, after, fill), x.dtype)


def _shape(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    end = node.attrs.get("end")
    sizes = list(x.shape)[slice(int(node.attrs.get("start", 0)), None if end is None else int(end))]
    return const(table, np.array(sizes, dtype=np.int64), dtypes.int64)


def _size(table: Table, node: Node, inputs: Inputs) -> Tensor:
    return const(table, np.int64(present(inputs)[0].ids.size), dtypes.int64)


def _range(table: Table, node: Node, inputs: Inputs) -> Tensor:
    tensors = present(inputs)
    if dtypes.is_float_type(tensors[0].dtype):
        raise Unsupported("Range of floats")
    start, limit, step = (ints(table, tensor)[0] for tensor in tensors)
    if step == 0:
        raise Invalid("step of 0")
    _check_size([(limit - start) // step + 1])
    return const(table, np.arange(start, limit, step, dtype=np.int64), tensors[0].dtype)


def _constant_of_shape(table: Table, node: Node, inputs: Inputs) -> Tensor:
    sizes = ints(table, present(inputs)[0])
    _check_size(sizes)
    if any(size < 0 for size in sizes):
        raise Invalid("negative size")
    value = node.attrs.get("value")
    array = np.zeros(1, dtype=np.float32) if value is None else np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    return const(table, np.full(sizes, array.reshape(-1)[0]), dtype)


def reduce_axes(
    table: Table, x: Tensor, axes: Sequence[int], keep: bool, join: Callable[[list[int]], int]
) -> Tensor:
    """Join the terms along the axes into one term."""
    rank = len(x.shape)
    kept_axes = [axis for axis in range(rank) if axis not in axes]
    rows = x.ids.transpose([*kept_axes, *axes])
    outer = [x.shape[axis] for axis in kept_axes]
    inner = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    flat = rows.reshape((int(np.prod(outer, dtype=np.int64)), inner)).tolist()
    ids = np.array([join(row) for row in flat], dtype=np.int64).reshape(outer)
    if keep:
        ids = ids.reshape([1 if i in axes else size for i, size in enumerate(x.shape)])
    return Tensor(ids, x.dtype)


def sum_terms(table: Table, terms: Sequence[int], dtype: int) -> int:
    """Return the sum from left to right."""
    if not terms:
        return table.constant(0, dtype)
    return terms[0] if len(terms) == 1 else table.make("Total", terms, dtype)


def max_term(table: Table, terms: Sequence[int], dtype: int) -> int:
    """Return the maximum, which is -inf without terms."""
    if not terms:
        return table.constant(float("-inf") if dtypes.is_float_type(dtype) else 0, dtype)
    return terms[0] if len(terms) == 1 else table.make("Largest", terms, dtype)


def mean_term(table: Table, terms: Sequence[int], dtype: int) -> int:
    """Return the sum divided by the number of terms."""
    count = table.constant(len(terms), dtype)
    return table.make("Div", [sum_terms(table, terms, dtype), count], dtype)


def _reduction(table: Table, op: str, dtype: int) -> Callable[[list[int]], int]:
    if op == "ReduceSum":
        return lambda row: sum_terms(table, row, dtype)
    if op == "ReduceMean":
        return lambda row: mean_term(table, row, dtype)
    if op == "ReduceMax":
        return lambda row: max_term(table, row, dtype)
    if op == "ReduceMin":

        def min_of(row: list[int]) -> int:
            if not row:
                return table.constant(float("inf"), dtype)
            return row[0] if len(row) == 1 else table.make("Smallest", row, dtype)

        return min_of

    def product_of(row: list[int]) -> int:
        if not row:
            return table.constant(1, dtype)
        result = row[0]
        for term in row[1:]:
            result = table.make("Mul", [result, term], dtype)
        return result

    return product_of


def _reduce(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, axes = (*inputs, None)[:2]
    assert x is not None
    rank = len(x.shape)
    given = ints(table, axes) if axes is not None else [int(a) for a in node.attrs.get("axes", ())]
    if not given:
        if node.attrs.get("noop_with_empty_axes", 0):
            return x
        given = list(range(rank))
    keep = bool(node.attrs.get("keepdims", 1))
    reduced_axes = sorted(_axes(given, rank))
    count = int(np.prod([x.shape[axis] for axis in reduced_axes], dtype=np.int64))
    if count == 0 and (x.dtype == dtypes.boolean or node.op in ("ReduceMax", "ReduceMin")):
        raise Invalid("reduction of no elements")
    return reduce_axes(table, x, reduced_axes, keep, _reduction(table, node.op, x.dtype))


OPERATORS: dict[str, Definition] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("Mish", "HardSwish"), _composite),
    **dict.fromkeys(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), _compare),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduce),
    "Max": _variadic("Max"), "Min": _variadic("Min"), "Sum": _variadic("Add"), "Where": _where,
    "Clip": _clip, "Cast": _cast, "Identity": _identity, "Reshape": _reshape,
    "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose,
    "Concat": _concat, "Slice": _slice, "Split": _split, "Gather": _gather,
    "GatherND": _gather_nd, "Expand": _expand, "Tile": _tile, "Pad": _pad, "Shape": _shape,
    "Size": _size, "Range": _range, "ConstantOfShape": _constant_of_shape,
}  # fmt: skip

__all__ += ["NotConstant"]
