"""Logarithms of sums of exponentials and of softmax.

In come scores and axes, out goes the name of the result. Called by generated converters of softmax
and statistics, and by `loss`."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Int, Ints, Result
from ortable.prelude.pointwise import const_like
from ortable.prelude.sums import summed_over
from ortable.prelude.values import consts, squeezed

__all__ = [
    "log_softmax_of",
    "log_sum_exp",
]


def log_softmax_of(graph: Graph, x: Result, axis: Int) -> Result:
    """The logarithm of the softmax along an axis; written out for float64, whose kernel in ONNX
    Runtime loses NaN."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("LogSoftmax", [x], axis=axis)
    over = consts(graph, [axis], dtypes.int64)
    away = make("Sub", [x, make("ReduceMax", [x, over], keepdims=1)])
    total = make("ReduceSum", [make("Exp", [away]), over], keepdims=1)
    return make("Sub", [away, make("Log", [total])])


def log_sum_exp(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """The logarithm of the sum of exponentials, as torch computes it: less the largest value,
    unless that is infinite. ONNX Runtime's ReduceLogSumExp shifts no row that has an infinity."""
    make, over = graph.make_node, consts(graph, axes, dtypes.int64)
    if not axes:
        return x
    most = make("ReduceMax", [x, over], keepdims=1)
    shift = make("Where", [make("IsInf", [most]), const_like(graph, 0, x), most])
    total = summed_over(graph, make("Exp", [make("Sub", [x, shift])]), axes, True)
    result = make("Add", [make("Log", [total]), shift])
    return result if keepdim else squeezed(graph, result, axes)
