"""Bags of embeddings: rows of a table, picked and reduced bag by bag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable import dtypes
from ortable.prelude import dim_of, dtype_of
from ortable.prelude_make import as_vec, cast, const, consts, filled, unsqueezed
from ortable.prelude_nn import wide_dtype
from ortable.prelude_shape import counting, sliced

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res

SUM, MEAN, MAX = 0, 1, 2


def embedding_bag(
    graph: GraphBuilder,
    res: Res,
    weight: str,
    indices: str,
    offsets: str,
    mode: int,
    per_sample_weights: str | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[str | None, ...]:
    """aten::_embedding_bag: [bags, D]; bag b holds the indices from offsets[b] on.

    What its gradient reads follows: the bag of each index, and how many each bag has; torch leaves
    both empty or zero for a sum.
    """
    kind = wide_dtype(graph.get_type(weight))
    places, starts = (cast(graph, each, dtypes.int64) for each in (indices, offsets))
    begins = dim_of(graph, offsets, 0)
    # with include_last_offset the last one only ends a bag: what follows is dropped
    bags = begins - int(include_last_offset)
    owner = _owners(graph, starts, dim_of(graph, indices, 0), begins)
    rows = cast(graph, graph.make_node("Gather", [weight, places], axis=0), kind)
    if per_sample_weights is not None:
        factors = unsqueezed(graph, cast(graph, per_sample_weights, kind), [1])
        rows = graph.make_node("Mul", [rows, factors])
    bag = _Bags(graph, owner, bags, rows, kind)
    if padding_idx >= 0:
        same = graph.make_node("Equal", [places, const(graph, padding_idx, dtypes.int64)])
        bag.leave_out(same)
    found = bag.largest() if mode == MAX else bag.total()
    if mode == MEAN:
        found = graph.make_node("Div", [found, bag.count(1)])
    return cast(graph, found, graph.get_type(weight)), *_bookkeeping(graph, res, owner, bag, mode)


def _bookkeeping(
    graph: GraphBuilder, res: Res, owner: str, bag: _Bags, mode: int
) -> list[str | None]:
    """offset2bag, bag_size and maximum_indices of a sum or mean, None where nobody reads them."""
    found: list[str | None] = [None, None, None]
    if res.is_used(1):
        empty = dim_of(graph, res[1], 0) == 0
        kept = consts(graph, [], dtypes.int64) if empty else owner
        found[0] = cast(graph, kept, dtype_of(graph, res[1]))
    for place in (2, 3):
        if res.is_used(place):
            axis = consts(graph, [1], dtypes.int64)
            sizes = graph.make_node("Squeeze", [bag.count(0), axis])
            kind = dtype_of(graph, res[place])
            none = filled(graph, [bag.bags], 0, kind)
            found[place - 1] = none if mode == SUM else cast(graph, sizes, kind)
    return found


def _owners(graph: Any, starts: str, count: Any, bags: Any) -> str:
    """int64 [indices]: the bag of each index, one less than how many bags have begun."""
    make = graph.make_node
    zeros = filled(graph, [count + 1], 0, dtypes.int64)
    ones = filled(graph, [bags], 1, dtypes.int64)
    marks = make("ScatterElements", [zeros, starts, ones], axis=0, reduction="add")
    begun = make("CumSum", [marks, const(graph, 0, dtypes.int64)])
    owner = make("Sub", [begun, const(graph, 1, dtypes.int64)])
    return sliced(graph, owner, 0, 0, count)


class _Bags:
    """Rows that belong to bags; what is left out goes to one more bag, which is dropped."""

    def __init__(self, graph: Any, owner: str, bags: Any, rows: str, kind: int) -> None:
        self.graph, self.owner, self.bags, self.rows, self.kind = graph, owner, bags, rows, kind

    def leave_out(self, which: str) -> None:
        """Take some rows out of their bags."""
        rest = const(self.graph, self.bags, dtypes.int64)
        self.owner = self.graph.make_node("Where", [which, rest, self.owner])

    def _reduced(self, values: str, width: Any, start: Any, how: str) -> str:
        """[bags, width]: the values of each bag, reduced."""
        make = self.graph.make_node
        empty = filled(self.graph, [self.bags + 1, width], start, self.graph.get_type(values))
        column = unsqueezed(self.graph, self.owner, [1])
        index = make("Expand", [column, make("Shape", [values])])
        found = make("ScatterElements", [empty, index, values], axis=0, reduction=how)
        found = sliced(self.graph, found, 0, 0, self.bags)
        self.graph.set_shape(found, (self.bags, width))
        return found

    def total(self) -> str:
        """The sum of the rows of each bag."""
        return self._reduced(self.rows, dim_of(self.graph, self.rows, 1), 0, "add")

    def count(self, least: int) -> str:
        """[bags, 1]: how many rows each bag has, or ``least``."""
        size = as_vec(self.graph, [dim_of(self.graph, self.rows, 0), 1])
        ones = self.graph.make_node("Expand", [const(self.graph, 1, self.kind), size])
        found = self._reduced(ones, 1, 0, "add")
        return self.graph.make_node("Max", [found, const(self.graph, least, self.kind)])

    def largest(self) -> str:
        """The maximum of each bag, 0 for an empty one; torch keeps NaN of a bag's first row."""
        graph, make = self.graph, self.graph.make_node
        width, length = dim_of(graph, self.rows, 1), dim_of(graph, self.rows, 0)
        # ONNX leaves open what a maximum makes of NaN
        least = const(graph, float("-inf"), self.kind)
        known = make("Where", [make("IsNaN", [self.rows]), least, self.rows])
        found = self._reduced(known, width, float("-inf"), "max")
        places = unsqueezed(graph, counting(graph, 0, length, 1), [1])
        first = self._reduced(places, 1, 2**62, "min")
        first = make("Squeeze", [first, consts(graph, [1], dtypes.int64)])
        none = make("Equal", [first, const(graph, 2**62, dtypes.int64)])
        safe = make("Where", [none, const(graph, 0, dtypes.int64), first])
        begin = make("Gather", [self.rows, safe], axis=0)
        found = make("Where", [make("IsNaN", [begin]), begin, found])
        return make("Where", [unsqueezed(graph, none, [1]), const(graph, 0, self.kind), found])
