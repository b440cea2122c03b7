"""ONNX operators on tensors of terms, each by its definition: those that move elements, count
them, reduce them, or work on each. Layers of networks are in `layers`, attention in `attention`.
Called by `graphs` for every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortable import dtypes

from .terms import NotConstant, Table

__all__ = ["OPERATORS", "Invalid", "Node", "Tensor", "Unsupported", "constants", "elementwise"]

Ids = np.ndarray[Any, np.dtype[np.int64]]
LARGEST = 4096  # elements of a result


class Invalid(Exception):
    """The graph itself does not run on these sizes."""


class Unsupported(Exception):
    """An operator, or a form of it, without a definition here."""


@dataclass(frozen=True)
class Tensor:
    """Terms, in the tensor's shape, and its dtype."""

    ids: Ids
    dtype: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ids.shape


@dataclass(frozen=True)
class Node:
    """A node as it was when it was read: rewriting changes nodes in place."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    target: str | None


Given = Sequence[Tensor | None]
Definition = Callable[[Table, Node, Given], Tensor | list[Tensor]]


# -- numbers that must be known


def constants(table: Table, tensor: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a tensor that holds nothing else."""
    flat = [table.value(each) for each in tensor.ids.reshape(-1).tolist()]
    return np.array(flat, dtype=np.int64).reshape(tensor.shape)


def ints(table: Table, tensor: Tensor | None) -> list[int]:
    """The same as a list; empty for an input that is left out."""
    return [] if tensor is None else [int(x) for x in constants(table, tensor).reshape(-1)]


def made(table: Table, values: Any, dtype: int) -> Tensor:
    """A tensor of constants."""
    array = np.asarray(values)
    found = [table.constant(each, dtype) for each in array.reshape(-1).tolist()]
    return Tensor(np.array(found, dtype=np.int64).reshape(array.shape), dtype)


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise Invalid(f"axis {axis} of {rank}")
    return axis % rank if rank else 0


def _axes(given: Sequence[int], rank: int) -> list[int]:
    found = [axis_of(each, rank) for each in given]
    if len(set(found)) != len(found):
        raise Invalid("an axis twice")
    return found


# -- elementwise


def elementwise(
    table: Table, op: str, tensors: Sequence[Tensor], dtype: int, attrs: tuple[Any, ...] = ()
) -> Tensor:
    """The operation on each element, after broadcasting."""
    try:
        wide = np.broadcast_arrays(*(each.ids for each in tensors))
    except ValueError as error:
        raise Invalid(str(error)) from None
    flat = [each.reshape(-1).tolist() for each in wide]
    if wide[0].size > LARGEST:
        raise Unsupported("too many elements")
    found = [table.make(op, args, dtype, attrs) for args in zip(*flat, strict=True)]
    return Tensor(np.array(found, dtype=np.int64).reshape(wide[0].shape), dtype)


def _given(inputs: Given) -> list[Tensor]:
    return [each for each in inputs if each is not None]


def _same(table: Table, node: Node, inputs: Given) -> Tensor:
    tensors = _given(inputs)
    attrs = tuple(node.attrs.get(name, default) for name, default in ATTRIBUTES.get(node.op, ()))
    attrs = tuple(each.decode() if isinstance(each, bytes) else each for each in attrs)
    attrs = tuple(float(np.float32(x)) if isinstance(x, float) else x for x in attrs)
    return elementwise(table, node.op, tensors, tensors[0].dtype, attrs)


ATTRIBUTES: dict[str, tuple[tuple[str, Any], ...]] = {
    "Gelu": (("approximate", "none"),), "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": (("alpha", 0.01),), "Elu": (("alpha", 1.0),), "Mod": (("fmod", 0),),
}  # fmt: skip


def _composed(table: Table, node: Node, inputs: Given) -> Tensor:
    """A function that ONNX defines by other operators."""
    (x,) = _given(inputs)
    if node.op == "Mish":
        part = elementwise(table, "Softplus", [x], x.dtype)
        part = elementwise(table, "Tanh", [part], x.dtype)
    else:
        part = elementwise(table, "HardSigmoid", [x], x.dtype, (float(np.float32(1 / 6)), 0.5))
    return elementwise(table, "Mul", [x, part], x.dtype)


SAME = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sqrt", "Reciprocal", "Exp", "Log",
    "Tanh", "Sin", "Cos", "Erf", "Sigmoid", "Softplus", "Relu", "Gelu", "HardSigmoid",
    "LeakyRelu", "Elu", "Not", "And", "Or",
)  # fmt: skip


def _many(op: str) -> Definition:
    def define(table: Table, node: Node, inputs: Given) -> Tensor:
        tensors = _given(inputs)
        found = tensors[0]
        for each in tensors[1:]:
            found = elementwise(table, op, [found, each], found.dtype)
        return found

    return define


def _compared(table: Table, node: Node, inputs: Given) -> Tensor:
    return elementwise(table, node.op, _given(inputs), dtypes.boolean)


def _where(table: Table, node: Node, inputs: Given) -> Tensor:
    tensors = _given(inputs)
    return elementwise(table, "Where", tensors, tensors[1].dtype)


def _clip(table: Table, node: Node, inputs: Given) -> Tensor:
    x, low, high = (*inputs, None, None)[:3]
    assert x is not None
    for op, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            if bound.shape:
                raise Invalid("a bound that is no scalar")
            x = elementwise(table, op, [x, bound], x.dtype)
    return x


def cast(table: Table, x: Tensor, dtype: int) -> Tensor:
    """The elements in another type."""
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


def _cast(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    if int(node.attrs["to"]) in dtypes.SUB_BYTE:
        raise Unsupported("numbers of less than a byte")
    return cast(table, x, int(node.attrs["to"]))


# -- views and moves


def _identity(table: Table, node: Node, inputs: Given) -> Tensor:
    return _given(inputs)[0]


def _reshape(table: Table, node: Node, inputs: Given) -> Tensor:
    x, target = _given(inputs)
    sizes = ints(table, target)
    if not node.attrs.get("allowzero", 0):
        if any(size == 0 and place >= len(x.shape) for place, size in enumerate(sizes)):
            raise Invalid("a size that is not there is copied")
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    elif 0 in sizes and -1 in sizes:
        raise Invalid("0 and -1 with allowzero")
    return Tensor(_viewed(x.ids, sizes), x.dtype)


def _viewed(ids: Ids, sizes: Sequence[int]) -> Ids:
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        raise Invalid("sizes of a view")
    if -1 in sizes and ids.size == 0 and 0 in sizes:
        raise Invalid("-1 beside 0 elements")
    try:
        return ids.reshape(tuple(sizes))
    except ValueError as error:
        raise Invalid(str(error)) from None


def _flatten(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    rank = len(x.shape)
    axis = node.attrs.get("axis", 1)
    if not -rank <= axis <= rank:
        raise Invalid("axis")
    axis = axis + rank if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    columns = int(np.prod(x.shape[axis:], dtype=np.int64))
    return Tensor(x.ids.reshape((rows, columns)), x.dtype)


def _squeeze(table: Table, node: Node, inputs: Given) -> Tensor:
    x, axes = (*inputs, None)[:2]
    assert x is not None
    gone = _axes(ints(table, axes), len(x.shape))
    if axes is not None and not gone:
        raise Invalid("a list of no axes: none of them, or all of size 1")
    if axes is None:
        gone = [i for i, size in enumerate(x.shape) if size == 1]
    if any(x.shape[axis] != 1 for axis in gone):
        raise Invalid("a size that is not 1")
    return Tensor(x.ids.reshape([s for i, s in enumerate(x.shape) if i not in gone]), x.dtype)


def _unsqueeze(table: Table, node: Node, inputs: Given) -> Tensor:
    x, axes = _given(inputs)
    given = ints(table, axes)
    rank = len(x.shape) + len(given)
    new = _axes(given, rank)
    old = iter(x.shape)
    return Tensor(x.ids.reshape([1 if i in new else next(old) for i in range(rank)]), x.dtype)


def _transpose(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    rank = len(x.shape)
    perm = node.attrs.get("perm")
    order = list(range(rank))[::-1] if perm is None else [int(each) for each in perm]
    if sorted(order) != list(range(rank)):
        raise Invalid("perm")
    return Tensor(x.ids.transpose(order), x.dtype)


def _concat(table: Table, node: Node, inputs: Given) -> Tensor:
    tensors = _given(inputs)
    try:
        rank = len(tensors[0].shape)
        if rank == 0:
            raise Invalid("Concat of scalars")
        axis = axis_of(int(node.attrs["axis"]), rank)
        found = np.concatenate([each.ids for each in tensors], axis=axis)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return Tensor(found, tensors[0].dtype)


def _slice(table: Table, node: Node, inputs: Given) -> Tensor:
    x, starts, ends, axes, steps = (*inputs, None, None)[:5]
    assert x is not None
    first, last = ints(table, starts), ints(table, ends)
    along = ints(table, axes) if axes is not None else list(range(len(first)))
    stride = ints(table, steps) if steps is not None else [1] * len(first)
    if not len(first) == len(last) == len(along) == len(stride) or 0 in stride:
        raise Invalid("a Slice of other lengths")
    found = x.ids
    for begin, end, axis, step in zip(first, last, _axes(along, len(x.shape)), stride, strict=True):
        size = found.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start = min(max(begin + size if begin < 0 else begin, max(low, 0)), max(high, 0))
        if step < 0:
            start = min(max(begin + size if begin < 0 else begin, 0), size - 1)
        stop = min(max(end + size if end < 0 else end, low), size if step > 0 else high)
        taken = list(range(start, stop, step)) if size else []
        found = np.take(found, np.array(taken, dtype=np.int64), axis=axis)
    return Tensor(found, x.dtype)


def _split(table: Table, node: Node, inputs: Given) -> list[Tensor]:
    x, sizes = (*inputs, None)[:2]
    assert x is not None
    axis = axis_of(int(node.attrs.get("axis", 0)), len(x.shape))
    whole = x.shape[axis]
    parts = ints(table, sizes)
    if sizes is None:
        count = int(node.attrs.get("num_outputs", len(node.outputs)))
        each = -(-whole // count)
        parts = [each] * (count - 1) + [whole - each * (count - 1)]
    if sum(parts) != whole or any(size < 0 for size in parts) or len(parts) != len(node.outputs):
        raise Invalid("sizes of a Split")
    bounds = np.cumsum(parts)[:-1]
    return [Tensor(each, x.dtype) for each in np.split(x.ids, bounds, axis=axis)]


def _within(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    if indices.size and not ((indices >= -size) & (indices < size)).all():
        raise Invalid("an index outside")
    return np.where(indices < 0, indices + size, indices)


def _gather(table: Table, node: Node, inputs: Given) -> Tensor:
    x, indices = _given(inputs)
    if not x.shape:
        raise Invalid("Gather of a scalar")
    axis = axis_of(int(node.attrs.get("axis", 0)), len(x.shape))
    places = _within(constants(table, indices), x.shape[axis])
    return Tensor(np.take(x.ids, places, axis=axis), x.dtype)


def _gather_nd(table: Table, node: Node, inputs: Given) -> Tensor:
    x, indices = _given(inputs)
    if node.attrs.get("batch_dims", 0):
        raise Unsupported("GatherND of batches")
    known = constants(table, indices)
    if not known.shape or known.shape[-1] > len(x.shape):
        raise Invalid("indices")
    places = tuple(_within(known[..., i], x.shape[i]) for i in range(known.shape[-1]))
    return Tensor(x.ids[places], x.dtype)


def _expand(table: Table, node: Node, inputs: Given) -> Tensor:
    x, target = _given(inputs)
    try:
        sizes = ints(table, target)
        _bounded(sizes)
        shape = np.broadcast_shapes(x.shape, tuple(sizes))
    except ValueError as error:
        raise Invalid(str(error)) from None
    _bounded(shape)
    return Tensor(np.array(np.broadcast_to(x.ids, shape)), x.dtype)


def _tile(table: Table, node: Node, inputs: Given) -> Tensor:
    x, repeats = _given(inputs)
    counts = ints(table, repeats)
    if len(counts) != len(x.shape) or any(count < 0 for count in counts):
        raise Invalid("repeats")
    _bounded([size * count for size, count in zip(x.shape, counts, strict=True)])
    return Tensor(np.tile(x.ids, counts), x.dtype)


def _bounded(sizes: Sequence[int]) -> None:
    """Refuses results that are not small."""
    count = 1
    for size in sizes:
        count *= max(int(size), 0)
    if count > LARGEST:
        raise Unsupported("too many elements")


def padded(table: Table, x: Tensor, before: Sequence[int], after: Sequence[int], fill: int) -> Ids:
    """The terms with others around them; negative numbers cut."""
    ids = x.ids
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = ids.shape[axis]
        if size + low + high < 0 or -low > size or -high > size:
            raise Invalid("a Pad that cuts more than there is")
        _bounded([*ids.shape[:axis], size + low + high, *ids.shape[axis + 1 :]])
        ids = np.take(ids, range(max(-low, 0), size - max(-high, 0)), axis=axis)
        widths = [(0, 0)] * len(x.shape)
        widths[axis] = (max(low, 0), max(high, 0))
        ids = np.pad(ids, widths, constant_values=fill)
    return ids


def _pad(table: Table, node: Node, inputs: Given) -> Tensor:
    x, pads, value, axes = (*inputs, None, None)[:4]
    assert x is not None
    if node.attrs.get("mode", "constant") not in ("constant", b"constant"):
        raise Unsupported("Pad of another mode")
    rank, sizes = len(x.shape), ints(table, pads)
    along = list(range(rank)) if axes is None else _axes(ints(table, axes), rank)
    if len(sizes) != 2 * len(along):
        raise Invalid("pads")
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(along):
        before[axis], after[axis] = sizes[place], sizes[place + len(along)]
    fill = table.constant(0, x.dtype) if value is None else int(value.ids.reshape(-1)[0])
    return Tensor(padded(table, x, before, after, fill), x.dtype)


# -- sizes


def _shape(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    end = node.attrs.get("end")
    sizes = list(x.shape)[slice(int(node.attrs.get("start", 0)), None if end is None else int(end))]
    return made(table, np.array(sizes, dtype=np.int64), dtypes.int64)


def _size(table: Table, node: Node, inputs: Given) -> Tensor:
    return made(table, np.int64(_given(inputs)[0].ids.size), dtypes.int64)


def _range(table: Table, node: Node, inputs: Given) -> Tensor:
    tensors = _given(inputs)
    if dtypes.is_float_type(tensors[0].dtype):
        raise Unsupported("Range of floats")
    start, limit, step = (ints(table, each)[0] for each in tensors)
    if step == 0:
        raise Invalid("a step of 0")
    _bounded([(limit - start) // step + 1])
    return made(table, np.arange(start, limit, step, dtype=np.int64), tensors[0].dtype)


def _constant_of_shape(table: Table, node: Node, inputs: Given) -> Tensor:
    sizes = ints(table, _given(inputs)[0])
    _bounded(sizes)
    if any(size < 0 for size in sizes):
        raise Invalid("a negative size")
    value = node.attrs.get("value")
    array = np.zeros(1, dtype=np.float32) if value is None else np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    return made(table, np.full(sizes, array.reshape(-1)[0]), dtype)


# -- reductions


def reduced(
    table: Table, x: Tensor, axes: Sequence[int], keep: bool, join: Callable[[list[int]], int]
) -> Tensor:
    """One term for what lies along the axes."""
    rank = len(x.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    rows = x.ids.transpose([*kept, *axes])
    outer = [x.shape[axis] for axis in kept]
    inner = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    flat = rows.reshape((int(np.prod(outer, dtype=np.int64)), inner)).tolist()
    found = np.array([join(row) for row in flat], dtype=np.int64).reshape(outer)
    if keep:
        found = found.reshape([1 if i in axes else size for i, size in enumerate(x.shape)])
    return Tensor(found, x.dtype)


def total(table: Table, terms: Sequence[int], dtype: int) -> int:
    """The sum from left to right."""
    if not terms:
        return table.constant(0, dtype)
    return terms[0] if len(terms) == 1 else table.make("Total", terms, dtype)


def largest(table: Table, terms: Sequence[int], dtype: int) -> int:
    """The largest one; nothing is larger than -inf."""
    if not terms:
        return table.constant(float("-inf") if dtypes.is_float_type(dtype) else 0, dtype)
    return terms[0] if len(terms) == 1 else table.make("Largest", terms, dtype)


def mean(table: Table, terms: Sequence[int], dtype: int) -> int:
    """The sum divided by how many there are."""
    count = table.constant(len(terms), dtype)
    return table.make("Div", [total(table, terms, dtype), count], dtype)


def _join(table: Table, op: str, dtype: int) -> Callable[[list[int]], int]:
    if op == "ReduceSum":
        return lambda row: total(table, row, dtype)
    if op == "ReduceMean":
        return lambda row: mean(table, row, dtype)
    if op == "ReduceMax":
        return lambda row: largest(table, row, dtype)
    if op == "ReduceMin":

        def smallest(row: list[int]) -> int:
            if not row:
                return table.constant(float("inf"), dtype)
            return row[0] if len(row) == 1 else table.make("Smallest", row, dtype)

        return smallest

    def product(row: list[int]) -> int:
        if not row:
            return table.constant(1, dtype)
        found = row[0]
        for each in row[1:]:
            found = table.make("Mul", [found, each], dtype)
        return found

    return product


def _reduce(table: Table, node: Node, inputs: Given) -> Tensor:
    x, axes = (*inputs, None)[:2]
    assert x is not None
    rank = len(x.shape)
    given = ints(table, axes) if axes is not None else [int(a) for a in node.attrs.get("axes", ())]
    if not given:
        if node.attrs.get("noop_with_empty_axes", 0):
            return x
        given = list(range(rank))
    keep = bool(node.attrs.get("keepdims", 1))
    along = sorted(_axes(given, rank))
    count = int(np.prod([x.shape[axis] for axis in along], dtype=np.int64))
    if count == 0 and (x.dtype == dtypes.boolean or node.op in ("ReduceMax", "ReduceMin")):
        raise Invalid("the largest of nothing")
    return reduced(table, x, along, keep, _join(table, node.op, x.dtype))


OPERATORS: dict[str, Definition] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(("Mish", "HardSwish"), _composed),
    **dict.fromkeys(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), _compared),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduce),
    "Max": _many("Max"), "Min": _many("Min"), "Sum": _many("Add"), "Where": _where,
    "Clip": _clip, "Cast": _cast, "Identity": _identity, "Reshape": _reshape,
    "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose,
    "Concat": _concat, "Slice": _slice, "Split": _split, "Gather": _gather,
    "GatherND": _gather_nd, "Expand": _expand, "Tile": _tile, "Pad": _pad, "Shape": _shape,
    "Size": _size, "Range": _range, "ConstantOfShape": _constant_of_shape,
}  # fmt: skip

__all__ += ["NotConstant"]
