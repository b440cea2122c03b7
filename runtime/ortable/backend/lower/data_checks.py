"""What operators demand of the data of a call, as nodes of the ONNX graph: eager raises where an
index is out of range, and so does the session. In come the demands that `CheckingInterpreter` notes
while it converts, out come the roles of the checks; called by `compile`.

A check costs two reductions of the tensor that it looks at, and its graph no work in Python: the
smallest distance to a bound is the index of a Gather from a tensor of one element, which ONNX Runtime
refuses to run where the distance is negative. `execute.checks` finds out then which demand that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.fx import Node

from ortable import dtypes
from ortable.backend.roles import RangeCheck
from ortable.builder import GraphBuilder
from ortable.dims import Dim
from ortable.dispatch import DataCheck
from ortable.interpreter import DynamoInterpreter
from ortable.interpreter.calls import operator_key
from ortable.interpreter.diagnostics.origin import source_line
from ortable.passes.analysis.ranges import lower_bound, upper_bound
from ortable.prelude.values import as_scalar, cast
from ortable_generated.onnx.traits import MOVES_ELEMENTS

__all__ = ["DATA_CHECKS", "CheckingInterpreter", "add_checks"]

DATA_CHECKS = "data_checks"  # the output of the graph that no call fetches
_REDUCED = (dtypes.int32, dtypes.int64)
_FAR = -(1 << 62)


class CheckingInterpreter(DynamoInterpreter):
    """Converts a graph, and notes in `demands` what its operators demand of their data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.demands: list[tuple[Node, DataCheck]] = []

    def convert(self, node: Node, converter: Any, args: Any, kwargs: Any, of: Any = None) -> Any:
        returned = super().convert(node, converter, args, kwargs, of)
        key = of or operator_key(node)
        check = self.tables.checks.get(key)
        if check is not None and key not in self.tables.given:
            self.demands += [(node, demand) for demand in check(self.graph, *args, **kwargs)]
        return returned


def add_checks(interpreter: CheckingInterpreter, is_backward: bool) -> tuple[RangeCheck, ...]:
    """Adds nodes that stop the session where a demand is not met.

    A demand that the graph itself shows to be met gets none, and in a backward graph neither does
    one on an argument: the forward graph has checked what it saved.

    Args:
        interpreter: after it has run.
        is_backward: whether the graph computes gradients.
    """
    graph = interpreter.builder
    slacks: list[str] = []
    checks: dict[Any, RangeCheck] = {}
    for node, demand in _single_demands(interpreter):
        values, low, high = demand.values, demand.low, demand.high
        shape = graph.get_shape(values) if graph.has_shape(values) else ()
        key = (values, low, high)
        if 0 in shape or key in checks or (is_backward and _is_argument(graph, values)):
            continue
        graph.origin = node
        at = [-1, -1]
        for side, bound in enumerate((low, high)):
            if bound is not None and not _HOLDS[side](graph, values, bound):
                at[side] = len(slacks)
                slacks.append(_SLACK[side](graph, values, bound))
        if at != [-1, -1]:
            line = str(source_line(node) or "")
            text = demand.message.replace("{axis}", str(demand.axis))
            checks[key] = RangeCheck(at[0], at[1], low, high, demand.error, text, line)
    if slacks:
        _stop_below_zero(graph, slacks)
    graph.origin = None
    return tuple(checks.values())


def _single_demands(interpreter: CheckingInterpreter) -> Iterator[tuple[Node, DataCheck]]:
    """Every demand on one tensor, with its node."""
    for node, demand in interpreter.demands:
        if isinstance(demand.values, str):
            yield node, demand
            continue
        rows = zip(demand.values, demand.low, demand.high, demand.axis, strict=True)
        for values, low, high, axis in rows:
            yield node, demand._replace(values=values, low=low, high=high, axis=axis)


def _is_argument(graph: GraphBuilder, name: str) -> bool:
    """Whether a result has the elements of an argument."""
    while (info := graph.values.get(name)) is not None and info.producer is not None:
        if info.producer.key not in MOVES_ELEMENTS and info.producer.key != "Cast":
            return False
        name = info.producer.inputs[0]
    return name in graph.input_names


def _is_above(graph: GraphBuilder, values: str, low: Dim) -> bool:
    """Whether the graph shows that no element is below a bound: 0 or 1, or minus a size."""
    least = lower_bound(graph, values)
    return least is not None and (least >= low if isinstance(low, int) else least >= 0)


def _is_below(graph: GraphBuilder, values: str, high: Dim) -> bool:
    """Whether the graph shows that every element is below a bound."""
    most = upper_bound(graph, values)
    distance = None if most is None else high - most
    return isinstance(distance, int) and distance > 0


def _low_slack(graph: GraphBuilder, values: str, low: Dim) -> str:
    """How far the smallest element is above a bound; far where there is no element."""
    least = _reduced(graph, "ReduceMin", values)
    return least if low == 0 else graph.make_node("Sub", [least, as_scalar(graph, low)])


def _high_slack(graph: GraphBuilder, values: str, high: Dim) -> str:
    """How far the largest element is below the last one that a bound allows."""
    most = _reduced(graph, "ReduceMax", values)
    shape = graph.get_shape(values) if graph.has_shape(values) else (None,)
    if not all(isinstance(size, int) for size in shape):
        # the largest of no elements is the smallest int64, from which nothing can be subtracted
        most = graph.make_node("Max", [most, as_scalar(graph, _FAR)])
    return graph.make_node("Sub", [as_scalar(graph, high - 1), most])


def _reduced(graph: GraphBuilder, operator: str, values: str) -> str:
    """The smallest or largest element, as int64."""
    if graph.get_type(values) not in _REDUCED:
        values = cast(graph, values, dtypes.int32)
    if graph.get_rank(values):
        values = graph.make_node(operator, [values], keepdims=0)
    return cast(graph, values, dtypes.int64)


def _stop_below_zero(graph: GraphBuilder, slacks: list[str]) -> None:
    """Makes the output whose computation fails where one of the slacks is negative."""
    least = graph.make_node("Min", [*slacks, as_scalar(graph, 0)])
    index = graph.make_node("Sub", [least, as_scalar(graph, 1)])  # -1 is the last element
    single = graph.make_initializer("", np.zeros(1, np.int64))
    graph.make_node("Gather", [single, index], [DATA_CHECKS])
    graph.make_tensor_output(DATA_CHECKS, dtypes.int64, (), indexed=False)


_HOLDS = (_is_above, _is_below)
_SLACK = (_low_slack, _high_slack)
