"""Products of groups of rows, as a mixture of experts computes them once its rows are sorted by
expert.
"""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Result, dim_of, shape_of
from ortable.prelude.groups import grouped_matmul
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import as_vec, cast, consts

__all__ = ["grouped_rows"]


def grouped_rows(graph: Graph, input: Result, weight: Result, offs: Result) -> Result:
    """Rows [s, k] times weights [e, k, n] -> [s, n]: group i is the rows from offs[i - 1] up to
    offs[i]. Rows behind the last group give zeros.

    Each row is multiplied once. Raises UnsupportedCase when the number of groups is dynamic.
    """
    op = OpBuilder(graph)
    rows, _ = shape_of(graph, input)
    ends = cast(graph, offs, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    edges = op.Concat(zero, ends, as_vec(graph, rows), axis=0)
    before = op.Slice(edges, zero, consts(graph, [-1], dtypes.int64))
    after = op.Slice(edges, consts(graph, [1], dtypes.int64), consts(graph, [2**62], dtypes.int64))
    sizes = op.Sub(after, before)
    result = grouped_matmul(graph, input, sizes, weight, False, rest=True)
    graph.set_shape(result, (rows, dim_of(graph, weight, 2)))
    return result
