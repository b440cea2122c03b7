"""Lower indexing: aten::index, aten::index_put and ``operator.getitem``.

Advanced indexing becomes GatherND; a write becomes ScatterND, Where (by a mask) or ScatterElements
(a sum at indices that may contain duplicates).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    Ints,
    Result,
    Results,
    dtype_of,
    inverse_perm,
    rank_of,
    shape_of,
)
from ortable.prelude.indexing import has_unique_indices, require_equal_dtypes
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import sliced
from ortable.prelude.values import (
    as_tensor,
    as_vec,
    cast,
    const,
    consts,
    permuted,
    reshape_to,
    unsqueezed,
)

__all__ = [
    "index_tensors",
    "indexed_axes",
]


# ONNX Runtime has no ScatterND "add" of half floats; the sum of bools is a logical or in torch.
_SCATTER_ADD_DTYPES = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.boolean: dtypes.int32,
}


@dataclass(frozen=True)
class _Placement:
    """The position of index tensors in an advanced index."""

    axes: list[int]  # the indexed axes of self
    front: int  # the axis of the result where the broadcast index dims begin
    index_rank: int
    tuples: str  # the index tuples [index dims, axes]

    def self_permutation(self, rank: int) -> list[int]:
        """Return the axes of self with the indexed axes first."""
        return self.axes + [axis for axis in range(rank) if axis not in self.axes]

    def result_permutation(self, rank: int) -> list[int]:
        """Return the permutation from [index dims, other dims] to torch's order of the result."""
        other_count = rank - len(self.axes)
        before = [self.index_rank + axis for axis in range(self.front)]
        after = [self.index_rank + axis for axis in range(self.front, other_count)]
        return before + list(range(self.index_rank)) + after


def index_tensor(graph: Graph, res: ResultSpec, self: str, indices: Sequence[str | None]) -> str:
    """Lower aten::index.Tensor: ``self[indices]`` with numpy's advanced indexing and bool masks."""
    placement = _find_placement(graph, self, indices)
    rank = rank_of(graph, self)
    transposed = permuted(graph, self, placement.self_permutation(rank))
    result = OpBuilder(graph).GatherND(transposed, placement.tuples)
    return permuted(graph, result, placement.result_permutation(rank))


def index_put(
    graph: Graph,
    res: ResultSpec,
    self: str,
    indices: Sequence[str | None],
    values: str,
    accumulate: bool,
) -> str:
    """Lower aten::index_put: return ``self`` after ``self[indices] = values`` (or ``+=``)."""
    rank = rank_of(graph, self)
    require_equal_dtypes(graph, self, values)
    where_result = None if accumulate else _put_by_mask(graph, self, indices, values)
    if where_result is not None:
        return where_result
    placement = _find_placement(graph, self, indices)
    order = placement.self_permutation(rank)
    transposed = permuted(graph, self, order)
    put_shape = _put_shape(graph, transposed, placement)
    updates = _broadcast_updates(
        graph, cast(graph, values, graph.get_type(self)), placement, rank, put_shape
    )
    dtype = graph.get_type(self)
    if accumulate and dtype in _SCATTER_ADD_DTYPES:
        transposed, updates = (
            cast(graph, tensor, _SCATTER_ADD_DTYPES[dtype]) for tensor in (transposed, updates)
        )
    if accumulate and not has_unique_indices(graph, placement.tuples):
        written = _put_accumulated(graph, transposed, placement, updates)
    else:
        reduction = "add" if accumulate else "none"
        written = OpBuilder(graph).ScatterND(
            transposed, placement.tuples, updates, reduction=reduction
        )
    return permuted(graph, cast(graph, written, dtype), inverse_perm(order))


def _put_accumulated(graph: Graph, data: str, placement: _Placement, updates: str) -> str:
    """Add updates to ``data`` in the order of their index tuples, which may contain duplicates."""
    op, count = OpBuilder(graph), len(placement.axes)
    shape = list(shape_of(graph, data))
    sizes, other_sizes = shape[:count], shape[count:]
    flat = _flat_indices(graph, placement, sizes)
    length = unsqueezed(graph, op.Size(flat), [0])
    update_shape = op.Concat(length, as_vec(graph, other_sizes), axis=0) if other_sizes else length
    ones = consts(graph, [1] * len(other_sizes), dtypes.int64)
    index_shape = op.Concat(length, ones, axis=0) if other_sizes else length
    index = op.Expand(op.Reshape(flat, index_shape, allowzero=1), update_shape)
    base = reshape_to(graph, data, [dims.product_of(sizes), *other_sizes]) if count > 1 else data
    result = op.ScatterElements(
        base,
        index,
        op.Reshape(updates, update_shape, allowzero=1),
        axis=0,
        reduction="add",
    )
    return reshape_to(graph, result, shape) if count > 1 else result


def _flat_indices(graph: Graph, placement: _Placement, sizes: Sequence[Any]) -> str:
    """Convert index tuples to indices into the flattened indexed axes.

    Tuples of one index are returned unchanged. In longer ones, an index that is out of range
    becomes larger than any valid one, so that ONNX Runtime raises an error.
    """
    op, tuples = OpBuilder(graph), placement.tuples
    if len(sizes) == 1:
        return tuples
    axis_sizes, zero = as_vec(graph, list(sizes)), const(graph, 0, dtypes.int64)
    strides = as_vec(graph, [dims.product_of(sizes[axis + 1 :]) for axis in range(len(sizes))])
    wrapped = op.Where(op.Less(tuples, zero), op.Add(tuples, axis_sizes), tuples)
    is_negative, is_too_large = op.Less(wrapped, zero), op.GreaterOrEqual(wrapped, axis_sizes)
    invalid = const(graph, 2**48, dtypes.int64)
    parts = op.Where(op.Or(is_negative, is_too_large), invalid, op.Mul(wrapped, strides))
    return op.ReduceSum(parts, consts(graph, [placement.index_rank], dtypes.int64), keepdims=0)


def _find_placement(graph: Graph, self: str, indices: Sequence[str | None]) -> _Placement:
    axes: list[int] = []
    tensors: list[str] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif _is_mask(graph, index):
            parts = _mask_indices(graph, cast(graph, index, dtypes.boolean))
            axes.extend(range(axis, axis + len(parts)))
            tensors.extend(parts)
            axis += len(parts)
        else:
            axes.append(axis)
            tensors.append(cast(graph, index, dtypes.int64))
            axis += 1
    if not tensors:
        raise UnsupportedCase("advanced indexing without an index tensor")
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if adjacent else 0
    index_rank = max(rank_of(graph, index) for index in tensors)
    return _Placement(axes, front, index_rank, _index_tuples(graph, tensors, index_rank))


def _mask_indices(graph: Graph, mask: str) -> list[str]:
    """Return the coordinates of the True elements of a bool mask of rank k as k int64 vectors."""
    rank = rank_of(graph, mask)
    if rank == 0:
        raise UnsupportedCase("indexing by a 0-d bool mask; use torch.where")
    coordinates = OpBuilder(graph).NonZero(mask)
    return [_coordinate_row(graph, coordinates, axis) for axis in range(rank)]


def _coordinate_row(graph: Graph, coordinates: str, axis: int) -> str:
    row = OpBuilder(graph).Gather(coordinates, const(graph, axis, dtypes.int64), axis=0)
    if not graph.has_rank(row):
        graph.set_rank(row, 1)
    return row


def _index_tuples(graph: Graph, indices: list[str], rank: int) -> str:
    """Broadcast index tensors against each other and stack them: [..., len(indices)]."""
    broadcast_indices = indices if len(indices) == 1 else _broadcast_indices(graph, indices)
    columns = [unsqueezed(graph, index, [rank]) for index in broadcast_indices]
    return columns[0] if len(columns) == 1 else graph.make_node("Concat", columns, axis=-1)


def _broadcast_indices(graph: Graph, indices: list[str]) -> list[str]:
    op = OpBuilder(graph)
    if all(graph.has_shape(index) for index in indices):
        target = broadcast(*(shape_of(graph, index) for index in indices))
        if target is not None:
            matches = [tuple(shape_of(graph, index)) == tuple(target) for index in indices]
            return [
                index if is_match else op.Expand(index, as_vec(graph, list(target)))
                for index, is_match in zip(indices, matches, strict=True)
            ]
    shapes = [op.Shape(index) for index in indices]
    expanded = []
    for index in indices:
        for shape in shapes:
            # Expand broadcasts both ways, so after all shapes every index has the common shape
            index = op.Expand(index, shape)
        expanded.append(index)
    return expanded


def _is_mask(graph: Graph, index: str) -> bool:
    """Whether an index tensor is a mask: bool, or uint8, which torch also treats as a mask."""
    return graph.get_type(index) in (dtypes.boolean, dtypes.uint8)


def _put_by_mask(graph: Graph, self: str, indices: Sequence[str | None], values: str) -> str | None:
    """Lower ``self[mask] = values`` to a Where, or return None if a Where cannot express it.

    A Where needs values that do not depend on the number of True elements before a position.
    """
    positions = [position for position, index in enumerate(indices) if index is not None]
    axis = positions[0] if len(positions) == 1 else -1
    only_index = indices[axis] if axis >= 0 else None
    if only_index is None or not _is_mask(graph, only_index) or not graph.has_shape(values):
        return None
    mask = cast(graph, only_index, dtypes.boolean)
    rank = rank_of(graph, mask)
    trailing_rank = rank_of(graph, self) - axis - rank
    value = cast(graph, values, graph.get_type(self))
    if all(size == 1 for size in shape_of(graph, values)):
        value = reshape_to(graph, value, [])
    elif rank_of(graph, values) > trailing_rank:
        return None
    wide_mask = unsqueezed(graph, mask, list(range(rank, rank + trailing_rank)))
    return OpBuilder(graph).Where(wide_mask, value, self)


def _put_shape(graph: Graph, data: str, placement: _Placement) -> list[str]:
    """Return the shape of the updates, [index dims, other dims], as int64 vectors."""
    index_shape = OpBuilder(graph).Shape(placement.tuples, start=0, end=placement.index_rank)
    if graph.has_shape(placement.tuples):
        index_shape = as_vec(graph, list(shape_of(graph, placement.tuples)[: placement.index_rank]))
    other_sizes = list(shape_of(graph, data)[len(placement.axes) :])
    return [index_shape, as_vec(graph, other_sizes)] if other_sizes else [index_shape]


def _broadcast_updates(
    graph: Graph, values: str, placement: _Placement, rank: int, put_shape: list[str]
) -> str:
    """Broadcast values to the shape of ``self[indices]`` and move the index dims to the front."""
    op = OpBuilder(graph)
    order = placement.result_permutation(rank)
    full_shape = (
        graph.make_node("Concat", put_shape, axis=0) if len(put_shape) > 1 else put_shape[0]
    )
    if order == list(range(len(order))):
        return op.Expand(values, full_shape)
    # permute to torch's order first, because values broadcast against torch's result shape
    shape = op.Gather(full_shape, consts(graph, order, dtypes.int64))
    return permuted(graph, op.Expand(values, shape), inverse_perm(order))


def lower_getitem(graph: Graph, res: ResultSpec, self: str, index: object) -> str:
    """Lower ``self[index]``: ints, slices, None, Ellipsis, bools, index tensors and masks.

    Graphs of torch functions (``torch.fx.symbolic_trace``) index tensors with ``operator.getitem``.
    ATen graphs index tensors with select, slice, unsqueeze and index, and use ``operator.getitem``
    only to select one of several results. As in torch (and not in numpy) an int, or a 0-d int
    tensor, is applied first and is not an advanced index.

    Raises:
        UnsupportedCase: the index has a float, which torch rejects too, a list of tensors or
            dynamic sizes, a 0-d mask, or a slice with a tensor as start, stop or step.
    """
    items = [_convert_index_entry(graph, entry) for entry in _index_entries(index)]
    x, axis = self, 0
    tensors: list[str | None] = []
    for position, item in enumerate(items):
        if item is Ellipsis:
            axis = rank_of(graph, x) - sum(
                _count_axes(graph, entry) for entry in items[position + 1 :]
            )
        elif item is None or isinstance(item, bool):
            x = unsqueezed(graph, x, [axis])
            if item is not None:
                bool_mask = graph.make_initializer("", np.array([item]))
                tensors += [None] * (axis - len(tensors)) + [bool_mask]
            axis += 1
        elif isinstance(item, slice):
            x = _slice_item(graph, x, axis, item)
            axis += 1
        elif isinstance(item, str) and (rank_of(graph, item) or _is_mask(graph, item)):
            tensors += [None] * (axis - len(tensors)) + [item]
            axis += _count_axes(graph, item)
        else:
            x = OpBuilder(graph).Gather(x, as_tensor(graph, item, dtypes.int64), axis=axis)
    return index_tensor(graph, res, x, tensors) if tensors else x


def _index_entries(index: object) -> Sequence[object]:
    """Return the entries of an index.

    torch treats a list of fewer than 32 entries that are not all numbers as a tuple:
    ``x[[[0, 1], [1, 2]]]`` is ``x[[0, 1], [1, 2]]``.
    """
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32:
        tuple_entry_types = (str, list, tuple, range, slice, EllipsisType, NoneType)
        if any(isinstance(entry, tuple_entry_types) for entry in index):
            return index
    return (index,)


def _convert_index_entry(graph: Graph, item: object) -> object:
    """Turn a list, tuple or range of numbers into an index tensor; return other items unchanged."""
    if isinstance(item, float) or (
        isinstance(item, str) and dtypes.is_float_type(graph.get_type(item))
    ):
        raise UnsupportedCase("a float as an index; torch takes integers and bools only")
    if not isinstance(item, (list, tuple, range)):
        return item
    if any(isinstance(entry, str | SymDim) for entry in item):
        raise UnsupportedCase("a list of tensors or dynamic sizes as an index; use torch.stack")
    return graph.make_initializer("", np.array(item, None if item else np.int64))


def _count_axes(graph: Graph, item: object) -> int:
    """Return the number of tensor axes that an item of an index consumes."""
    if item is None or isinstance(item, bool):
        return 0
    return rank_of(graph, item) if isinstance(item, str) and _is_mask(graph, item) else 1


def _slice_item(graph: Graph, x: str, axis: int, item: slice) -> str:
    start = 0 if item.start is None else item.start
    stop = 2**63 - 1 if item.stop is None else item.stop
    step = 1 if item.step is None else item.step
    if any(isinstance(bound, str) for bound in (start, stop, step)):
        raise UnsupportedCase(
            "a slice with a tensor as start, stop or step; use torch.narrow, or .item()"
        )
    return sliced(graph, x, axis, start, stop, step)


def index_tensors(graph: Graph, items: Results) -> Results:
    """Return the items that are index tensors and not masks."""
    return [item for item in items if _is_index_tensor(graph, item)]


def indexed_axes(graph: Graph, items: Results) -> Ints:
    """Return the axes that `index_tensors` index; a mask takes as many axes as its rank."""
    axes, axis = [], 0
    for item in items:
        if _is_index_tensor(graph, item):
            axes.append(axis)
        axis += 1 if item is None or _is_index_tensor(graph, item) else rank_of(graph, item)
    return axes


def _is_index_tensor(graph: Graph, item: Result | None) -> bool:
    """Whether an item is an index tensor and not a mask; torch treats uint8 as a mask."""
    return item is not None and dtype_of(graph, item) not in (dtypes.boolean, dtypes.uint8)
