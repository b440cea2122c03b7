"""Lower the logarithm of softmax."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Int, Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import consts

__all__ = [
    "log_softmax_of",
]


def log_softmax_of(graph: Graph, x: Result, axis: Int) -> Result:
    """Return log-softmax along an axis; float64 is decomposed, because its kernel loses NaN."""
    op = OpBuilder(graph)
    if graph.get_type(x) != dtypes.float64:
        return op.LogSoftmax(x, axis=axis)
    axis_input = consts(graph, [axis], dtypes.int64)
    shifted = op.Sub(x, op.ReduceMax(x, axis_input, keepdims=1))
    total = op.ReduceSum(op.Exp(shifted), axis_input, keepdims=1)
    return op.Sub(shifted, op.Log(total))
