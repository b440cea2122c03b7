"""Lower matrix products of groups of rows, such as the rows of each expert in a mixture."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Result, dim_of, shape_of
from ortable.prelude.groups import grouped_matmul
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import as_vec, cast, consts

__all__ = ["grouped_rows"]


def grouped_rows(graph: Graph, input: Result, weight: Result, offs: Result) -> Result:
    """Multiply rows [s, k] by weights [e, k, n] to [s, n]; group i uses weight i.

    Group i is the rows from offs[i - 1] up to offs[i]. Rows after the last group give zeros.
    """
    op = OpBuilder(graph)
    rows, _ = shape_of(graph, input)
    offsets = cast(graph, offs, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    edges = op.Concat(zero, offsets, as_vec(graph, rows), axis=0)
    begins = op.Slice(edges, zero, consts(graph, [-1], dtypes.int64))
    ends = op.Slice(edges, consts(graph, [1], dtypes.int64), consts(graph, [2**62], dtypes.int64))
    sizes = op.Sub(ends, begins)
    result = grouped_matmul(graph, input, sizes, weight, False, rest=True)
    graph.set_shape(result, (rows, dim_of(graph, weight, 2)))
    return result
