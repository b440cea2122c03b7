"""Advanced indexing, read and written: one algorithm over GatherND and ScatterND for every
placement of the indices."""

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
from ortable.prelude.indexing import has_unique_indices
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


# ONNX Runtime adds no half floats in a scatter; the sum of bools is torch's "or".
_ADDED_IN = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.boolean: dtypes.int32,
}


@dataclass(frozen=True)
class _Placement:
    """The position of indices: ``axes`` of self that are indexed, and ``front``, where their
    broadcast dims are in the result.
    """

    axes: list[int]
    front: int
    index_rank: int
    tuples: str

    def self_permutation(self, rank: int) -> list[int]:
        """Axes of self with the indexed ones first."""
        return self.axes + [axis for axis in range(rank) if axis not in self.axes]

    def result_permutation(self, rank: int) -> list[int]:
        """From [index dims, other dims] to the order that torch gives the result."""
        others = rank - len(self.axes)
        before = [self.index_rank + axis for axis in range(self.front)]
        after = [self.index_rank + axis for axis in range(self.front, others)]
        return before + list(range(self.index_rank)) + after


def index_tensor(graph: Graph, res: ResultSpec, self: str, indices: Sequence[str | None]) -> str:
    """``self[indices]`` with numpy's advanced indexing (aten::index.Tensor); bool masks and
    negative indices included."""
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
    """``self`` with ``self[indices] = values`` (or ``+=``): aten::index_put, not in place."""
    rank = rank_of(graph, self)
    masked = None if accumulate else _put_by_mask(graph, self, indices, values)
    if masked is not None:
        return masked
    placement = _find_placement(graph, self, indices)
    order = placement.self_permutation(rank)
    transposed = permuted(graph, self, order)
    put_shape = _put_shape(graph, transposed, placement)
    updates = _broadcast_updates(
        graph, cast(graph, values, graph.get_type(self)), placement, rank, put_shape
    )
    dtype = graph.get_type(self)
    if accumulate and dtype in _ADDED_IN:
        transposed, updates = (
            cast(graph, tensor, _ADDED_IN[dtype]) for tensor in (transposed, updates)
        )
    if accumulate and not has_unique_indices(graph, placement.tuples):
        written = _put_accumulated(graph, transposed, placement, updates)
    else:
        reduction = "add" if accumulate else "none"
        written = OpBuilder(graph).ScatterND(
            transposed, placement.tuples, updates, reduction=reduction
        )
    return permuted(graph, cast(graph, written, dtype), inverse_perm(order))


def _put_accumulated(graph: Graph, turned: str, placement: _Placement, updates: str) -> str:
    """Add updates to ``turned`` in order, for index tuples that may contain duplicates."""
    op, count = OpBuilder(graph), len(placement.axes)
    shape = list(shape_of(graph, turned))
    sizes, rest = shape[:count], shape[count:]
    flat = _flat_indices(graph, placement, sizes)
    length = unsqueezed(graph, op.Size(flat), [0])
    rows = op.Concat(length, as_vec(graph, rest), axis=0) if rest else length
    ones = consts(graph, [1] * len(rest), dtypes.int64)
    column = op.Concat(length, ones, axis=0) if rest else length
    index = op.Expand(op.Reshape(flat, column, allowzero=1), rows)
    base = reshape_to(graph, turned, [dims.product_of(sizes), *rest]) if count > 1 else turned
    result = op.ScatterElements(
        base,
        index,
        op.Reshape(updates, rows, allowzero=1),
        axis=0,
        reduction="add",
    )
    return reshape_to(graph, result, shape) if count > 1 else result


def _flat_indices(graph: Graph, placement: _Placement, sizes: Sequence[Any]) -> str:
    """Flatten index tuples over these axes; one that is out of range becomes larger than any, so
    that ONNX Runtime raises an error.
    """
    op, tuples = OpBuilder(graph), placement.tuples
    if len(sizes) == 1:
        return tuples
    size, zero = as_vec(graph, list(sizes)), const(graph, 0, dtypes.int64)
    inner = as_vec(graph, [dims.product_of(sizes[axis + 1 :]) for axis in range(len(sizes))])
    wrapped = op.Where(op.Less(tuples, zero), op.Add(tuples, size), tuples)
    low, high = op.Less(wrapped, zero), op.GreaterOrEqual(wrapped, size)
    beyond = const(graph, 2**48, dtypes.int64)
    parts = op.Where(op.Or(low, high), beyond, op.Mul(wrapped, inner))
    return op.ReduceSum(parts, consts(graph, [placement.index_rank], dtypes.int64), keepdims=0)


def _find_placement(graph: Graph, self: str, indices: Sequence[str | None]) -> _Placement:
    axes: list[int] = []
    result: list[str] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif _is_mask(graph, index):
            parts = _mask_indices(graph, cast(graph, index, dtypes.boolean))
            axes.extend(range(axis, axis + len(parts)))
            result.extend(parts)
            axis += len(parts)
        else:
            axes.append(axis)
            result.append(cast(graph, index, dtypes.int64))
            axis += 1
    if not result:
        raise UnsupportedCase("advanced indexing without an index tensor")
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if adjacent else 0
    index_rank = max(rank_of(graph, index) for index in result)
    return _Placement(axes, front, index_rank, _index_tuples(graph, result, index_rank))


def _mask_indices(graph: Graph, mask: str) -> list[str]:
    """A bool mask of rank k as k int64 vectors, the coordinates of its True elements."""
    rank = rank_of(graph, mask)
    if rank == 0:
        raise UnsupportedCase("indexing by a 0-d bool mask; use torch.where")
    places = OpBuilder(graph).NonZero(mask)
    return [_coordinate_row(graph, places, axis) for axis in range(rank)]


def _coordinate_row(graph: Graph, places: str, axis: int) -> str:
    row = OpBuilder(graph).Gather(places, const(graph, axis, dtypes.int64), axis=0)
    if not graph.has_rank(row):
        graph.set_rank(row, 1)
    return row


def _index_tuples(graph: Graph, indices: list[str], rank: int) -> str:
    """Index tensors broadcast against each other and stacked in a last dimension: [...,
    len(indices)]."""
    wide = indices if len(indices) == 1 else _broadcast_indices(graph, indices)
    columns = [unsqueezed(graph, index, [rank]) for index in wide]
    return columns[0] if len(columns) == 1 else graph.make_node("Concat", columns, axis=-1)


def _broadcast_indices(graph: Graph, indices: list[str]) -> list[str]:
    op = OpBuilder(graph)
    if all(graph.has_shape(index) for index in indices):
        common = broadcast(*(shape_of(graph, index) for index in indices))
        if common is not None:
            same = [tuple(shape_of(graph, index)) == tuple(common) for index in indices]
            return [
                index if fits else op.Expand(index, as_vec(graph, list(common)))
                for index, fits in zip(indices, same, strict=True)
            ]
    shapes = [op.Shape(index) for index in indices]
    result = []
    for index in indices:
        for shape in shapes:
            # Expand broadcasts both ways, so after all of them every index has the common shape
            index = op.Expand(index, shape)
        result.append(index)
    return result


def _is_mask(graph: Graph, index: str) -> bool:
    """True for bool, and for uint8, which torch treats as a mask, too."""
    return graph.get_type(index) in (dtypes.boolean, dtypes.uint8)


def _put_by_mask(graph: Graph, self: str, indices: Sequence[str | None], values: str) -> str | None:
    """``self[mask] = values`` as Where, when no value depends on how many elements the mask
    picks."""
    places = [at for at, index in enumerate(indices) if index is not None]
    axis = places[0] if len(places) == 1 else -1
    only = indices[axis] if axis >= 0 else None
    if only is None or not _is_mask(graph, only) or not graph.has_shape(values):
        return None
    mask = cast(graph, only, dtypes.boolean)
    rank = rank_of(graph, mask)
    after = rank_of(graph, self) - axis - rank
    value = cast(graph, values, graph.get_type(self))
    if all(size == 1 for size in shape_of(graph, values)):
        value = reshape_to(graph, value, [])
    elif rank_of(graph, values) > after:
        return None
    here = unsqueezed(graph, mask, list(range(rank, rank + after)))
    return OpBuilder(graph).Where(here, value, self)


def _put_shape(graph: Graph, turned: str, placement: _Placement) -> list[str]:
    """The shape of the updates, [index dims, other dims], as two int64 vectors."""
    index = OpBuilder(graph).Shape(placement.tuples, start=0, end=placement.index_rank)
    if graph.has_shape(placement.tuples):
        index = as_vec(graph, list(shape_of(graph, placement.tuples)[: placement.index_rank]))
    rest = list(shape_of(graph, turned)[len(placement.axes) :])
    return [index, as_vec(graph, rest)] if rest else [index]


def _broadcast_updates(
    graph: Graph, values: str, placement: _Placement, rank: int, put_shape: list[str]
) -> str:
    """Values broadcast to the shape of ``self[indices]``, with the index dims brought to the
    front."""
    op = OpBuilder(graph)
    order = placement.result_permutation(rank)
    total = graph.make_node("Concat", put_shape, axis=0) if len(put_shape) > 1 else put_shape[0]
    if order == list(range(len(order))):
        return op.Expand(values, total)
    # torch's order first, because values broadcast against the result as torch shows it
    shape = op.Gather(total, consts(graph, order, dtypes.int64))
    return permuted(graph, op.Expand(values, shape), inverse_perm(order))


def lower_getitem(graph: Graph, res: ResultSpec, self: str, index: object) -> str:
    """``self[index]`` with Python's indexing: ints, slices, None, Ellipsis, bools, index tensors
    and masks.

    Graphs of torch functions contain it as ``operator.getitem``; ATen has select, slice, unsqueeze
    and index instead. As in torch (and not in numpy) an int, or a 0-d int tensor, is applied first
    and is no advanced index.

    Raises:
        UnsupportedCase: a float, which torch rejects too; a list of tensors; a slice to a tensor.
    """
    items = [_index_item(graph, entry) for entry in _index_items(index)]
    x, axis = self, 0
    tensors: list[str | None] = []
    for position, item in enumerate(items):
        if item is Ellipsis:
            axis = rank_of(graph, x) - sum(
                _axes_taken(graph, entry) for entry in items[position + 1 :]
            )
        elif item is None or isinstance(item, bool):
            x = unsqueezed(graph, x, [axis])
            if item is not None:
                here = graph.make_initializer("", np.array([item]))
                tensors += [None] * (axis - len(tensors)) + [here]
            axis += 1
        elif isinstance(item, slice):
            x = _slice_item(graph, x, axis, item)
            axis += 1
        elif isinstance(item, str) and (rank_of(graph, item) or _is_mask(graph, item)):
            tensors += [None] * (axis - len(tensors)) + [item]
            axis += _axes_taken(graph, item)
        else:
            x = OpBuilder(graph).Gather(x, as_tensor(graph, item, dtypes.int64), axis=axis)
    return index_tensor(graph, res, x, tensors) if tensors else x


def _index_items(index: object) -> Sequence[object]:
    """The entries of an index. A short list with more than numbers is a tuple for torch:
    ``x[[[0, 1], [1, 2]]]`` is ``x[[0, 1], [1, 2]]``.
    """
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32:
        wide = (str, list, tuple, range, slice, EllipsisType, NoneType)
        if any(isinstance(entry, wide) for entry in index):
            return index
    return (index,)


def _index_item(graph: Graph, item: object) -> object:
    """Turn lists, tuples and ranges of numbers into index tensors; return other items."""
    if isinstance(item, float) or (
        isinstance(item, str) and dtypes.is_float_type(graph.get_type(item))
    ):
        raise UnsupportedCase("a float as an index; torch takes integers and bools only")
    if not isinstance(item, (list, tuple, range)):
        return item
    if any(isinstance(entry, str | SymDim) for entry in item):
        raise UnsupportedCase("a list of tensors or dynamic sizes as an index; use torch.stack")
    return graph.make_initializer("", np.array(item, None if item else np.int64))


def _axes_taken(graph: Graph, item: object) -> int:
    """The number of axes of the tensor that an item of an index consumes."""
    if item is None or isinstance(item, bool):
        return 0
    return rank_of(graph, item) if isinstance(item, str) and _is_mask(graph, item) else 1


def _slice_item(graph: Graph, x: str, axis: int, item: slice) -> str:
    start = 0 if item.start is None else item.start
    stop = 2**63 - 1 if item.stop is None else item.stop
    step = 1 if item.step is None else item.step
    if any(isinstance(bound, str) for bound in (start, stop, step)):
        raise UnsupportedCase("a slice whose ends are tensors; use torch.narrow, or .item()")
    return sliced(graph, x, axis, start, stop, step)


def index_tensors(graph: Graph, items: Results) -> Results:
    """The items that are index tensors, without masks."""
    return [item for item in items if _has_positions(graph, item)]


def indexed_axes(graph: Graph, items: Results) -> Ints:
    """The axes of which `index_tensors` pick elements; a mask takes as many axes as it has."""
    axes, axis = [], 0
    for item in items:
        if _has_positions(graph, item):
            axes.append(axis)
        axis += 1 if item is None or _has_positions(graph, item) else rank_of(graph, item)
    return axes


def _has_positions(graph: Graph, item: Result | None) -> bool:
    """Whether an item is a tensor of positions, not a mask; torch reads uint8 as a mask."""
    return item is not None and dtype_of(graph, item) not in (dtypes.boolean, dtypes.uint8)
