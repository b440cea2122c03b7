"""Logarithms of softmax."""

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
    """The logarithm of the softmax along an axis; written out for float64, whose kernel in ONNX
    Runtime loses NaN."""
    op = OpBuilder(graph)
    if graph.get_type(x) != dtypes.float64:
        return op.LogSoftmax(x, axis=axis)
    over = consts(graph, [axis], dtypes.int64)
    away = op.Sub(x, op.ReduceMax(x, over, keepdims=1))
    total = op.ReduceSum(op.Exp(away), over, keepdims=1)
    return op.Sub(away, op.Log(total))
