"""Bags of embeddings: rows of a table, picked and reduced bag by bag."""

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


NOWHERE = 2**62

# A table of bags with at most this many times as many rows as the bags have is summed at once.
ROOM = 4


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
    """aten::_embedding_bag: [bags, D]; bag b holds the indices from offsets[b] on.

    What its gradient reads follows: the bag of each index, how many each bag has, and which row a
    maximum came from; torch leaves them empty or zero for a sum.
    """
    op = OpBuilder(graph)
    dtype = opmath_dtype(graph.get_type(weight))
    places, starts = (cast(graph, tensor, dtypes.int64) for tensor in (indices, offsets))
    rows = cast(graph, op.Gather(weight, places, axis=0), dtype)
    if per_sample_weights is not None:
        factors = unsqueezed(graph, cast(graph, per_sample_weights, dtype), [1])
        rows = op.Mul(rows, factors)
    bag = _Bags(graph, places, starts, include_last_offset, rows, padding_idx)
    most = None
    if mode == MAX:
        largest = _BagMaxima(graph, bag)
        result = largest.max_values()
        most = largest.max_indices() if res.is_used(3) else None
    else:
        result = bag.sum_rows()
    if mode == MEAN:
        sizes = op.Max(bag.bag_sizes(), 1)
        result = op.Div(result, cast(graph, unsqueezed(graph, sizes, [1]), dtype))
    return cast(graph, result, graph.get_type(weight)), *_auxiliary_results(
        graph, res, bag, mode, most
    )


def _auxiliary_results(
    graph: Graph, res: ResultSpec, bag: _Bags, mode: int, most: str | None
) -> list[str | None]:
    """offset2bag, bag_size and maximum_indices, None where unused."""
    result: list[str | None] = [None, None, None]
    if res.is_used(1):
        empty = dim_of(graph, res[1], 0) == 0
        owners = consts(graph, [], dtypes.int64) if empty else bag.owner_indices(graph)
        result[0] = cast(graph, owners, dtype_of(graph, res[1]))
    for index in (2, 3):
        if res.is_used(index):
            dtype = dtype_of(graph, res[index])
            if mode == SUM:
                result[index - 1] = filled(graph, [bag.bags], 0, dtype)
            else:
                own = most if index == 3 and most is not None else bag.bag_sizes()
                result[index - 1] = cast(graph, own, dtype)
    return result


class _Bags:
    """Rows that belong to bags.

    Attributes: ``bags``, how many; ``rows`` [indices, width]; ``left_out``, a bool for each index,
    True where padding takes it out of its bag, or None.
    """

    def __init__(
        self, graph: Any, places: str, starts: str, closed: bool, rows: str, padding: int
    ) -> None:
        op = OpBuilder(graph)
        self.graph, self.places, self.starts, self.rows = graph, places, starts, rows
        self.count = dim_of(graph, places, 0)
        self.offsets = dim_of(graph, starts, 0)
        # with include_last_offset the last one only ends a bag: what follows is dropped
        self.bags = self.offsets - int(closed)
        self.width = dim_of(graph, rows, 1)
        self.dtype = graph.get_type(rows)
        self.left_out: str | None = None
        if padding >= 0:
            self.left_out = op.Equal(places, const(graph, padding, dtypes.int64))
        self.step = self._uniform_size(closed)
        self.closed = closed

    def begins(self, graph: Any) -> str:
        """int64 [bags]: where each bag begins."""
        return sliced(graph, self.starts, 0, 0, self.bags) if self.closed else self.starts

    def ends(self, graph: Any) -> str:
        """int64 [bags]: where each bag ends."""
        after = sliced(graph, self.starts, 0, 1, self.offsets)
        if self.closed:
            return after
        return OpBuilder(graph).Concat(after, as_vec(graph, self.count), axis=0)

    def _uniform_size(self, closed: bool) -> Any:
        """The static or symbolic size that every bag is known to have, or None."""
        step = even_spacing(self.graph, self.starts, self.count)
        full = step is not None and (closed or dims.always_equal(self.bags * step, self.count))
        return step if full else None

    def bag_sizes(self) -> str:
        """int64 [bags]: the number of indices of each bag, without padding."""
        graph, make = self.graph, self.graph.make_node
        begins, ends = self.begins(graph), self.ends(graph)
        if self.left_out is None:
            return make("Sub", [ends, begins])
        counted = cast(graph, make("Not", [self.left_out]), dtypes.int64)
        before = make("CumSum", [counted, const(graph, 0, dtypes.int64)])
        before = make("Concat", [consts(graph, [0], dtypes.int64), before], axis=0)
        counts = (make("Gather", [before, bound], axis=0) for bound in (ends, begins))
        return make("Sub", list(counts))

    def sum_rows(self) -> str:
        """The sum of the rows of each bag: [bags, width]."""
        graph, rows = self.graph, self.rows
        if self.left_out is not None:
            out = unsqueezed(graph, self.left_out, [1])
            rows = OpBuilder(graph).Where(out, 0, rows)
        if self.step is not None:
            rows = sliced(graph, rows, 0, 0, self.bags * self.step)
            table = reshape_to(graph, rows, [self.bags, self.step, self.width])
            return rows if self.step == 1 else self._sum_middle_axis(graph, table)
        if isinstance(self.count, int) and isinstance(self.bags, int) and self.bags > 0:
            size, rest = divmod(self.count, self.bags)
            if size and not rest:
                return self._sum_static(rows, size)
        length = OpBuilder(graph).Sub(self.ends(graph), self.begins(graph))
        length = OpBuilder(graph).Concat(consts(graph, [1], dtypes.int64), length, axis=0)
        longest = OpBuilder(graph).ReduceMax(length, keepdims=1)
        area = OpBuilder(graph).Mul(longest, as_vec(graph, self.bags))
        end = consts(graph, [-1], dtypes.int64)
        used = OpBuilder(graph).Gather(self._closed_ends(), end, axis=0)
        even = OpBuilder(graph).Equal(area, used)
        most = as_vec(graph, self.count * ROOM + 1024)
        return self._select_branch(
            graph,
            even,
            (
                lambda inner: self._sum_even(inner, rows, used, longest),
                lambda inner: self._sum_uneven(inner, rows, longest, area, most),
            ),
        )

    def _sum_static(self, rows: str, size: int) -> str:
        """Sum a static number of bags, which may all have this many rows: the offsets tell."""
        graph, op = self.graph, OpBuilder(self.graph)

        def sum_even(inner: Any) -> str:
            table = reshape_to(inner, rows, [self.bags, size, self.width])
            return self._sum_middle_axis(inner, table)

        def sum_uneven(inner: Any) -> str:
            op = OpBuilder(inner)
            longest = op.ReduceMax(op.Sub(self.ends(inner), self.begins(inner)), keepdims=1)
            area = op.Mul(longest, as_vec(inner, self.bags))
            most = consts(inner, [self.count * ROOM + 1024], dtypes.int64)
            return self._sum_uneven(inner, rows, longest, area, most)

        even_starts = consts(graph, [size * index for index in range(self.offsets)], dtypes.int64)
        same = cast(graph, op.Equal(self.starts, even_starts), dtypes.int64)
        even = cast(graph, op.ReduceMin(same, keepdims=0), dtypes.boolean)
        return self._select_branch(graph, even, (sum_even, sum_uneven))

    def _closed_ends(self) -> str:
        """The ends with a zero before them: never empty."""
        zero = consts(self.graph, [0], dtypes.int64)
        return self.graph.make_node("Concat", [zero, self.ends(self.graph)], axis=0)

    def _sum_even(self, graph: Any, rows: str, used: str, length: str) -> str:
        """Sum bags of one size: the rows as [bags, size, width]."""
        op = OpBuilder(graph)
        head = op.Slice(rows, consts(graph, [0], dtypes.int64), used)
        size = [as_vec(graph, self.bags), length, as_vec(graph, self.width)]
        shape = graph.make_node("Concat", size, axis=0)
        table = op.Reshape(head, shape, allowzero=1)
        return self._sum_middle_axis(graph, table)

    def _sum_uneven(self, graph: Any, rows: str, longest: str, area: str, most: str) -> str:
        """Sum bags of several sizes: by a table of rows where it is small enough, else row
        by row.
        """
        return self._select_branch(
            graph,
            OpBuilder(graph).LessOrEqual(area, most),
            (
                lambda inner: self._sum_by_table(inner, rows, longest),
                lambda inner: _reduce_bags(inner, self, self.owner_indices(inner), rows, 0, "add"),
            ),
        )

    def _sum_by_table(self, graph: Any, rows: str, longest: str) -> str:
        """Sum [bags, longest, width], with rows of zeros where a bag is shorter. A mask would be
        wrong: zero times infinity is NaN.
        """
        op = OpBuilder(graph)
        zeros = filled(graph, [1, self.width], 0, self.dtype)
        more = op.Concat(rows, zeros, axis=0)
        zero, one = const(graph, 0, dtypes.int64), const(graph, 1, dtypes.int64)
        last = op.Squeeze(longest, consts(graph, [0], dtypes.int64))
        ramp = op.Range(zero, last, one)
        where = op.Add(unsqueezed(graph, self.begins(graph), [1]), ramp)
        inside = op.Less(where, unsqueezed(graph, self.ends(graph), [1]))
        where = op.Where(inside, where, as_scalar(graph, self.count))
        table = op.Gather(more, where, axis=0)
        return self._sum_middle_axis(graph, table)

    def _sum_middle_axis(self, graph: Any, table: str) -> str:
        """[bags, size, width] summed over the middle axis."""
        axis = consts(graph, [1], dtypes.int64)
        return self._with_known_shape(graph, OpBuilder(graph).ReduceSum(table, axis, keepdims=0))

    def _select_branch(
        self, graph: Any, which: str, builders: tuple[Callable[[Any], str], Callable[[Any], str]]
    ) -> str:
        """The first builder's result where ``which`` is true, else the second's; an If unless
        ``which`` is constant.
        """
        if graph.is_constant(which):
            return builders[0 if graph.get_constant(which).item() else 1](graph)
        branches = [graph.subgraph(f"bags_{index}") for index in range(2)]
        for branch, builder in zip(branches, builders, strict=True):
            branch.make_tensor_output(builder(branch))
        result = OpBuilder(graph).If(which, then_branch=branches[0], else_branch=branches[1])
        graph.set_type(result, self.dtype)
        return self._with_known_shape(graph, result)

    def _with_known_shape(self, graph: Any, result: str) -> str:
        graph.set_shape(result, (self.bags, self.width))
        return result

    def owner_indices(self, graph: Any) -> str:
        """int64 [indices]: the bag of each index, one less than the number of bags that
        have begun.
        """
        op = OpBuilder(graph)
        zeros = filled(graph, [self.count + 1], 0, dtypes.int64)
        ones = filled(graph, [self.offsets], 1, dtypes.int64)
        marks = op.ScatterElements(zeros, self.starts, ones, axis=0, reduction="add")
        begun = op.CumSum(marks, const(graph, 0, dtypes.int64))
        owner = op.Sub(begun, 1)
        return sliced(graph, owner, 0, 0, self.count)


def even_spacing(graph: Any, offsets: str, count: Any) -> Any:
    """The distance, a dim, of offsets that are known to begin at 0 and to be evenly spaced, or
    None.
    """
    if graph.is_constant(offsets):
        values = graph.get_constant(offsets)
        if len(values) == 1 and isinstance(count, int):
            return count if values[0] == 0 and count > 0 else None
        steps = np.unique(np.diff(values))
        even = len(steps) == 1 and values[0] == 0 and steps[0] > 0
        return int(steps[0]) if even else None
    node = graph.values[offsets].producer
    if node is None or node.op_type != "Range":
        return None
    begin, _, step = (graph.values[name].value for name in node.inputs)
    return step if isinstance(begin, int) and begin == 0 else None


class _BagMaxima:
    """The maximum of each bag, 0 for an empty one; torch keeps NaN of a bag's first row, and the
    first one of equal rows."""

    def __init__(self, graph: Any, bag: _Bags) -> None:
        self.graph, self.bag = graph, bag
        op = OpBuilder(graph)
        self.owner = bag.owner_indices(graph)
        if bag.left_out is not None:
            rest = const(graph, bag.bags, dtypes.int64)
            self.owner = op.Where(bag.left_out, rest, self.owner)
        # ONNX does not define the maximum of NaN
        least = const(graph, float("-inf"), bag.dtype)
        self.ordered_rows = op.Where(op.IsNaN(bag.rows), least, bag.rows)
        self.most = _reduce_bags(graph, bag, self.owner, self.ordered_rows, float("-inf"), "max")
        self.ramp = unsqueezed(graph, iota(graph, 0, bag.count, 1), [1])
        first = _reduce_bags(graph, bag, self.owner, self.ramp, NOWHERE, "min")
        self.none = op.Equal(first, const(graph, NOWHERE, dtypes.int64))
        # one more row is read for an empty bag: there may be no row at all
        self.first = op.Where(self.none, as_scalar(graph, bag.count), first)
        flat = op.Squeeze(self.first, consts(graph, [1], dtypes.int64))
        more = op.Concat(bag.rows, filled(graph, [1, bag.width], 0, bag.dtype), axis=0)
        self.begin = op.Gather(more, flat, axis=0)
        self.unordered = op.IsNaN(self.begin)

    def max_values(self) -> str:
        """[bags, width]: the maxima."""
        make = self.graph.make_node
        result = make("Where", [self.unordered, self.begin, self.most])
        return make("Where", [self.none, const(self.graph, 0, self.bag.dtype), result])

    def max_indices(self) -> str:
        """int64 [bags, width]: the row of the table that each maximum came from."""
        graph, make = self.graph, self.graph.make_node
        width = filled(graph, [1, self.bag.width], float("-inf"), self.bag.dtype)
        mine = make("Concat", [self.most, width], axis=0)
        mine = make("Gather", [mine, self.owner], axis=0)
        same = make("Equal", [self.ordered_rows, mine])
        nowhere = const(graph, NOWHERE, dtypes.int64)
        where = make("Where", [same, self.ramp, nowhere])
        where = _reduce_bags(graph, self.bag, self.owner, where, NOWHERE, "min")
        where = make("Where", [make("Or", [self.unordered, self.none]), self.first, where])
        none = consts(graph, [0], dtypes.int64)
        named = make("Concat", [self.bag.places, none], axis=0)
        return make("Gather", [named, where], axis=0)


def _reduce_bags(graph: Any, bag: _Bags, owner: str, values: str, start: Any, how: str) -> str:
    """[bags, width]: the values of each bag reduced one by one; those after the last bag are
    dropped.
    """
    op = OpBuilder(graph)
    width = dim_of(graph, values, 1)
    empty = filled(graph, [bag.bags + 1, width], start, graph.get_type(values))
    index = op.Expand(unsqueezed(graph, owner, [1]), op.Shape(values))
    result = op.ScatterElements(empty, index, values, axis=0, reduction=how)
    result = sliced(graph, result, 0, 0, bag.bags)
    graph.set_shape(result, (bag.bags, width))
    return result


def bag_indices(graph: Graph, offsets: Result, count: Result) -> Result:
    """int64[n]: which bag each of ``count`` indices is in; ``offsets`` say where bags begin."""
    op, one = OpBuilder(graph), consts(graph, [1], dtypes.int64)
    starts = cast(graph, offsets, dtypes.int64)
    zeros = op.Expand(consts(graph, [0], dtypes.int64), op.Add(count, one))
    ones = op.Expand(one, op.Shape(starts))
    marks = op.ScatterElements(zeros, starts, ones, axis=0, reduction="add")
    numbers = op.CumSum(marks, const(graph, 0, dtypes.int64))
    inside = op.Slice(numbers, consts(graph, [0], dtypes.int64), count)
    return op.Sub(inside, one)
