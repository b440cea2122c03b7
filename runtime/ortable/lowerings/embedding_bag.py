"""Lower embedding bags: gather rows of a table and reduce them bag by bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Result, dim_of, dtype_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import (
    as_scalar,
    as_vec,
    cast,
    const,
    consts,
    filled,
    reshape_to,
    unsqueezed,
)

__all__ = [
    "bag_indices",
]


SUM, MEAN, MAX = 0, 1, 2


NO_ROW = 2**62  # above all row numbers

# Bags are summed as one padded table unless the table has more than this many times their rows.
MAX_TABLE_RATIO = 4


def embedding_bag(
    graph: Graph,
    res: ResultSpec,
    weight: str,
    indices: str,
    offsets: str,
    mode: int,
    per_sample_weights: str | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[str | None, ...]:
    """Lower aten::_embedding_bag to the reduced bags [bags, D]; bag b begins at index offsets[b].

    The other results are inputs of the gradient: the bag of each index, the size of each bag, and
    the row that each maximum came from. For a sum, torch leaves these results empty or zero.
    """
    op = OpBuilder(graph)
    dtype = opmath_dtype(graph.get_type(weight))
    row_indices, starts = (cast(graph, tensor, dtypes.int64) for tensor in (indices, offsets))
    rows = cast(graph, op.Gather(weight, row_indices, axis=0), dtype)
    if per_sample_weights is not None:
        factors = unsqueezed(graph, cast(graph, per_sample_weights, dtype), [1])
        rows = op.Mul(rows, factors)
    bag = _Bags(graph, row_indices, starts, include_last_offset, rows, padding_idx)
    max_indices = None
    if mode == MAX:
        bag_maxima = _BagMaxima(graph, bag)
        result = bag_maxima.max_values()
        max_indices = bag_maxima.max_indices() if res.is_used(3) else None
    else:
        result = bag.sum_rows()
    if mode == MEAN:
        sizes = op.Max(bag.bag_sizes(), 1)
        result = op.Div(result, cast(graph, unsqueezed(graph, sizes, [1]), dtype))
    return cast(graph, result, graph.get_type(weight)), *_auxiliary_results(
        graph, res, bag, mode, max_indices
    )


def _auxiliary_results(
    graph: Graph, res: ResultSpec, bag: _Bags, mode: int, max_indices: str | None
) -> list[str | None]:
    """Return offset2bag, bag_size and maximum_indices, None where unused."""
    results: list[str | None] = [None, None, None]
    if res.is_used(1):
        empty = dim_of(graph, res[1], 0) == 0
        owners = consts(graph, [], dtypes.int64) if empty else bag.owner_indices(graph)
        results[0] = cast(graph, owners, dtype_of(graph, res[1]))
    for index in (2, 3):
        if res.is_used(index):
            dtype = dtype_of(graph, res[index])
            if mode == SUM:
                results[index - 1] = filled(graph, [bag.bag_count], 0, dtype)
            else:
                values = max_indices if index == 3 and max_indices is not None else bag.bag_sizes()
                results[index - 1] = cast(graph, values, dtype)
    return results


class _Bags:
    """Rows grouped into bags.

    ``rows`` is [indices, width]. ``is_padding`` is a bool for each index, True if the index is
    padding and thus not part of its bag, or None without padding.
    """

    def __init__(
        self, graph: Any, indices: str, starts: str, has_end: bool, rows: str, padding: int
    ) -> None:
        op = OpBuilder(graph)
        self.graph, self.indices, self.starts, self.rows = graph, indices, starts, rows
        self.index_count = dim_of(graph, indices, 0)
        self.offset_count = dim_of(graph, starts, 0)
        # with include_last_offset, the last offset only ends a bag; later indices are dropped
        self.bag_count = self.offset_count - int(has_end)
        self.width = dim_of(graph, rows, 1)
        self.dtype = graph.get_type(rows)
        self.is_padding: str | None = None
        if padding >= 0:
            self.is_padding = op.Equal(indices, const(graph, padding, dtypes.int64))
        self.uniform_bag_size = self._uniform_size(has_end)
        self.has_end = has_end

    def begins(self, graph: Any) -> str:
        """Return int64 [bags]: the first index of each bag."""
        return sliced(graph, self.starts, 0, 0, self.bag_count) if self.has_end else self.starts

    def ends(self, graph: Any) -> str:
        """Return int64 [bags]: one more than the last index of each bag."""
        next_starts = sliced(graph, self.starts, 0, 1, self.offset_count)
        if self.has_end:
            return next_starts
        return OpBuilder(graph).Concat(next_starts, as_vec(graph, self.index_count), axis=0)

    def _uniform_size(self, has_end: bool) -> Any:
        """Return the static or symbolic size that every bag is known to have, or None."""
        step = even_spacing(self.graph, self.starts, self.index_count)
        covers_all_indices = step is not None and (
            has_end or dims.always_equal(self.bag_count * step, self.index_count)
        )
        return step if covers_all_indices else None

    def bag_sizes(self) -> str:
        """Return int64 [bags]: the number of indices of each bag, without padding."""
        graph, make = self.graph, self.graph.make_node
        begins, ends = self.begins(graph), self.ends(graph)
        if self.is_padding is None:
            return make("Sub", [ends, begins])
        is_counted = cast(graph, make("Not", [self.is_padding]), dtypes.int64)
        cumulative = make("CumSum", [is_counted, const(graph, 0, dtypes.int64)])
        cumulative = make("Concat", [consts(graph, [0], dtypes.int64), cumulative], axis=0)
        counts = (make("Gather", [cumulative, bound], axis=0) for bound in (ends, begins))
        return make("Sub", list(counts))

    def sum_rows(self) -> str:
        """Return the sum of the rows of each bag: [bags, width]."""
        graph, rows = self.graph, self.rows
        if self.is_padding is not None:
            mask = unsqueezed(graph, self.is_padding, [1])
            rows = OpBuilder(graph).Where(mask, 0, rows)
        if self.uniform_bag_size is not None:
            rows = sliced(graph, rows, 0, 0, self.bag_count * self.uniform_bag_size)
            table = reshape_to(graph, rows, [self.bag_count, self.uniform_bag_size, self.width])
            return rows if self.uniform_bag_size == 1 else self._sum_middle_axis(graph, table)
        if isinstance(self.index_count, int) and isinstance(self.bag_count, int):
            size, rest = divmod(self.index_count, max(self.bag_count, 1))
            if size and not rest:
                return self._sum_static(rows, size)
            if rest and not self.has_end:  # no bags of one size have this many rows
                return self._sum_any_sizes(graph, rows)
        lengths = OpBuilder(graph).Sub(self.ends(graph), self.begins(graph))
        lengths = OpBuilder(graph).Concat(consts(graph, [1], dtypes.int64), lengths, axis=0)
        longest = OpBuilder(graph).ReduceMax(lengths, keepdims=1)
        table_rows = OpBuilder(graph).Mul(longest, as_vec(graph, self.bag_count))
        end = consts(graph, [-1], dtypes.int64)
        used_rows = OpBuilder(graph).Gather(self._ends_after_zero(), end, axis=0)
        is_uniform = OpBuilder(graph).Equal(table_rows, used_rows)
        max_table_rows = as_vec(graph, self.index_count * MAX_TABLE_RATIO + 1024)
        return self._select_branch(
            graph,
            is_uniform,
            (
                lambda inner: self._sum_even(inner, rows, used_rows, longest),
                lambda inner: self._sum_uneven(inner, rows, longest, table_rows, max_table_rows),
            ),
        )

    def _sum_static(self, rows: str, size: int) -> str:
        """Sum a static number of bags, which are even if the offsets are multiples of ``size``."""
        graph, op = self.graph, OpBuilder(self.graph)

        def sum_even(inner: Any) -> str:
            table = reshape_to(inner, rows, [self.bag_count, size, self.width])
            return self._sum_middle_axis(inner, table)

        def sum_uneven(inner: Any) -> str:
            return self._sum_any_sizes(inner, rows)

        assert isinstance(self.offset_count, int)
        multiples = [size * index for index in range(self.offset_count)]
        is_multiple = op.Equal(self.starts, consts(graph, multiples, dtypes.int64))
        is_even = op.ReduceMin(cast(graph, is_multiple, dtypes.int64), keepdims=0)
        is_even = cast(graph, is_even, dtypes.boolean)
        return self._select_branch(graph, is_even, (sum_even, sum_uneven))

    def _sum_any_sizes(self, graph: Any, rows: str) -> str:
        """Sum a static number of bags, at least one, without a check whether they are even."""
        op = OpBuilder(graph)
        longest = op.ReduceMax(op.Sub(self.ends(graph), self.begins(graph)), keepdims=1)
        max_table_rows = self.index_count * MAX_TABLE_RATIO + 1024
        if self.bag_count * self.index_count <= max_table_rows:  # whatever the longest bag is
            return self._sum_by_table(graph, rows, longest)
        table_rows = op.Mul(longest, as_vec(graph, self.bag_count))
        return self._sum_uneven(graph, rows, longest, table_rows, as_vec(graph, max_table_rows))

    def _ends_after_zero(self) -> str:
        """Return the ends with a leading zero, so that the result is never empty."""
        zero = consts(self.graph, [0], dtypes.int64)
        return self.graph.make_node("Concat", [zero, self.ends(self.graph)], axis=0)

    def _sum_even(self, graph: Any, rows: str, used_rows: str, length: str) -> str:
        """Sum bags of one size by reshaping the rows to [bags, size, width]."""
        op = OpBuilder(graph)
        rows_in_bags = op.Slice(rows, consts(graph, [0], dtypes.int64), used_rows)
        sizes = [as_vec(graph, self.bag_count), length, as_vec(graph, self.width)]
        shape = graph.make_node("Concat", sizes, axis=0)
        table = op.Reshape(rows_in_bags, shape, allowzero=1)
        return self._sum_middle_axis(graph, table)

    def _sum_uneven(
        self, graph: Any, rows: str, longest: str, table_rows: str, max_table_rows: str
    ) -> str:
        """Sum bags of several sizes: in one table if it is small enough, else row by row."""
        return self._select_branch(
            graph,
            OpBuilder(graph).LessOrEqual(table_rows, max_table_rows),
            (
                lambda inner: self._sum_by_table(inner, rows, longest),
                lambda inner: _reduce_bags(inner, self, self.owner_indices(inner), rows, 0, "add"),
            ),
        )

    def _sum_by_table(self, graph: Any, rows: str, longest: str) -> str:
        """Sum a table in which rows of zeros fill up the bags.

        Multiplying by a mask instead would give NaN for infinite rows.
        """
        op = OpBuilder(graph)
        zeros = filled(graph, [1, self.width], 0, self.dtype)
        padded_rows = op.Concat(rows, zeros, axis=0)
        zero, one = const(graph, 0, dtypes.int64), const(graph, 1, dtypes.int64)
        length = op.Squeeze(longest, consts(graph, [0], dtypes.int64))
        offsets = op.Range(zero, length, one)
        index = op.Add(unsqueezed(graph, self.begins(graph), [1]), offsets)
        in_bag = op.Less(index, unsqueezed(graph, self.ends(graph), [1]))
        index = op.Where(in_bag, index, as_scalar(graph, self.index_count))
        table = op.Gather(padded_rows, index, axis=0)
        return self._sum_middle_axis(graph, table)

    def _sum_middle_axis(self, graph: Any, table: str) -> str:
        """Sum [bags, size, width] over the middle axis."""
        axis = consts(graph, [1], dtypes.int64)
        return self._with_known_shape(graph, OpBuilder(graph).ReduceSum(table, axis, keepdims=0))

    def _select_branch(
        self, graph: Any, pred: str, builders: tuple[Callable[[Any], str], Callable[[Any], str]]
    ) -> str:
        """Return the first builder's result if ``pred`` is true, else the second's.

        An If is made unless ``pred`` is constant.
        """
        if graph.is_constant(pred):
            return builders[0 if graph.get_constant(pred).item() else 1](graph)
        branches = [graph.subgraph(f"bags_{index}") for index in range(2)]
        for branch, builder in zip(branches, builders, strict=True):
            branch.make_tensor_output(builder(branch))
        result = OpBuilder(graph).If(pred, then_branch=branches[0], else_branch=branches[1])
        graph.set_type(result, self.dtype)
        return self._with_known_shape(graph, result)

    def _with_known_shape(self, graph: Any, result: str) -> str:
        graph.set_shape(result, (self.bag_count, self.width))
        return result

    def owner_indices(self, graph: Any) -> str:
        """Return int64 [indices]: the bag of each index, the number of begun bags less 1."""
        op = OpBuilder(graph)
        zeros = filled(graph, [self.index_count + 1], 0, dtypes.int64)
        ones = filled(graph, [self.offset_count], 1, dtypes.int64)
        marks = op.ScatterElements(zeros, self.starts, ones, axis=0, reduction="add")
        started = op.CumSum(marks, const(graph, 0, dtypes.int64))
        owner = op.Sub(started, 1)
        return sliced(graph, owner, 0, 0, self.index_count)


def even_spacing(graph: Any, offsets: str, count: Any) -> Any:
    """Return the spacing, a dim, of offsets known to begin at 0 and be evenly spaced, or None."""
    if graph.is_constant(offsets):
        values = graph.get_constant(offsets)
        if len(values) == 1 and isinstance(count, int):
            return count if values[0] == 0 and count > 0 else None
        steps = np.unique(np.diff(values))
        is_even = len(steps) == 1 and values[0] == 0 and steps[0] > 0
        return int(steps[0]) if is_even else None
    node = graph.values[offsets].producer
    if node is None or node.op_type != "Range":
        return None
    begin, _, step = (graph.values[name].value for name in node.inputs)
    return step if isinstance(begin, int) and begin == 0 else None


class _BagMaxima:
    """The maximum of each bag, 0 for an empty bag.

    As in torch, NaN in the first row of a bag is the maximum, NaN in a later row is ignored, and of
    several equal rows the index of the first is returned.
    """

    def __init__(self, graph: Any, bag: _Bags) -> None:
        self.graph, self.bag = graph, bag
        op = OpBuilder(graph)
        self.owner = bag.owner_indices(graph)
        if bag.is_padding is not None:
            dropped_bag = const(graph, bag.bag_count, dtypes.int64)
            self.owner = op.Where(bag.is_padding, dropped_bag, self.owner)
        # ONNX does not define the maximum of NaN
        lowest = const(graph, float("-inf"), bag.dtype)
        self.ordered_rows = op.Where(op.IsNaN(bag.rows), lowest, bag.rows)
        self.maxima = _reduce_bags(graph, bag, self.owner, self.ordered_rows, float("-inf"), "max")
        self.row_numbers = unsqueezed(graph, iota(graph, 0, bag.index_count, 1), [1])
        smallest_row = _reduce_bags(graph, bag, self.owner, self.row_numbers, NO_ROW, "min")
        self.is_empty = op.Equal(smallest_row, const(graph, NO_ROW, dtypes.int64))
        # an empty bag reads the appended row, because the table may have no rows
        self.first_rows = op.Where(self.is_empty, as_scalar(graph, bag.index_count), smallest_row)
        flat_rows = op.Squeeze(self.first_rows, consts(graph, [1], dtypes.int64))
        padded_rows = op.Concat(bag.rows, filled(graph, [1, bag.width], 0, bag.dtype), axis=0)
        self.first_values = op.Gather(padded_rows, flat_rows, axis=0)
        self.nan_first = op.IsNaN(self.first_values)

    def max_values(self) -> str:
        """Return the maxima: [bags, width]."""
        make = self.graph.make_node
        result = make("Where", [self.nan_first, self.first_values, self.maxima])
        return make("Where", [self.is_empty, const(self.graph, 0, self.bag.dtype), result])

    def max_indices(self) -> str:
        """Return int64 [bags, width]: the table row that each maximum came from."""
        graph, make = self.graph, self.graph.make_node
        padding = filled(graph, [1, self.bag.width], float("-inf"), self.bag.dtype)
        row_maxima = make("Concat", [self.maxima, padding], axis=0)
        row_maxima = make("Gather", [row_maxima, self.owner], axis=0)
        is_maximum = make("Equal", [self.ordered_rows, row_maxima])
        no_row = const(graph, NO_ROW, dtypes.int64)
        rows = make("Where", [is_maximum, self.row_numbers, no_row])
        rows = _reduce_bags(graph, self.bag, self.owner, rows, NO_ROW, "min")
        rows = make("Where", [make("Or", [self.nan_first, self.is_empty]), self.first_rows, rows])
        padding_index = consts(graph, [0], dtypes.int64)
        padded_indices = make("Concat", [self.bag.indices, padding_index], axis=0)
        return make("Gather", [padded_indices, rows], axis=0)


def _reduce_bags(graph: Any, bag: _Bags, owner: str, values: str, start: Any, mode: str) -> str:
    """Reduce the values of each bag to [bags, width]; values after the last bag are dropped."""
    op = OpBuilder(graph)
    width = dim_of(graph, values, 1)
    empty = filled(graph, [bag.bag_count + 1, width], start, graph.get_type(values))
    index = op.Expand(unsqueezed(graph, owner, [1]), op.Shape(values))
    result = op.ScatterElements(empty, index, values, axis=0, reduction=mode)
    result = sliced(graph, result, 0, 0, bag.bag_count)
    graph.set_shape(result, (bag.bag_count, width))
    return result


def bag_indices(graph: Graph, offsets: Result, count: Result) -> Result:
    """Return the bag of each of ``count`` (int64 [1]) indices; bags begin at ``offsets``."""
    op, one = OpBuilder(graph), consts(graph, [1], dtypes.int64)
    starts = cast(graph, offsets, dtypes.int64)
    zeros = op.Expand(consts(graph, [0], dtypes.int64), op.Add(count, one))
    ones = op.Expand(one, op.Shape(starts))
    marks = op.ScatterElements(zeros, starts, ones, axis=0, reduction="add")
    bag_numbers = op.CumSum(marks, const(graph, 0, dtypes.int64))
    numbers = op.Slice(bag_numbers, consts(graph, [0], dtypes.int64), count)
    return op.Sub(numbers, one)
