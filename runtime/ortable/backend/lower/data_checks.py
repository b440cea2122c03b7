"""Check the data of a call in the ONNX graph, where eager raises for an index out of range.

A check costs at most two reductions of its tensor, and no work in Python. The slack of a bound is
the smallest distance of an element to it. `min(slack, 0) - 1` is the index of a Gather from a
tensor of one element, which fails if the slack is negative; `execute.checks` then finds the
violated data check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.fx import Node

from ortable import dims, dtypes
from ortable.backend.roles import DATA_CHECKS, RangeCheck
from ortable.dims import Dim
from ortable.dispatch import DataCheck
from ortable.interpreter.calls import operator_key
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.ir import Graph
from ortable.passes.analysis.ranges import lower_bound, upper_bound
from ortable.prelude.shapes import as_flat
from ortable.prelude.values import as_scalar, as_vec, cast, reshape_to
from ortable_generated.onnx.traits import MOVES_ELEMENTS

_REDUCIBLE = (dtypes.int32, dtypes.int64)  # tensors of other dtypes are cast to int32
# Extremes are clamped to this number, so that their differences from bounds do not overflow int64.
_MAX_DISTANCE = 1 << 62


class CheckingInterpreter(DynamoInterpreter):
    """Convert a graph, and record in `demands` what its operators require of their data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.demands: list[tuple[Node, DataCheck]] = []

    def convert(self, node: Node, converter: Any, args: Any, kwargs: Any, of: Any = None) -> Any:
        """Convert a node and record its demands, unless the caller supplied the converter."""
        result = super().convert(node, converter, args, kwargs, of)
        key = of or operator_key(node)
        check = self.tables.checks.get(key)
        if check is not None and key not in self.tables.given:
            self.demands += [(node, demand) for demand in check(self.graph, *args, **kwargs)]
        return result


def add_checks(interpreter: CheckingInterpreter, is_backward: bool) -> tuple[RangeCheck, ...]:
    """Add nodes that fail the session if a data check fails.

    Checks that range analysis proves are skipped. A backward graph also skips checks of its
    arguments, because the forward graph has checked the values that it saved.

    Args:
        interpreter: the interpreter after its run.
        is_backward: whether the graph computes gradients.

    Returns:
        The added checks, from which `execute.checks` makes the error of a violation.
    """
    graph = interpreter.builder
    groups: dict[Any, list[tuple[Node, DataCheck]]] = {}
    seen = set()
    for node, demand in _iterate_demands(interpreter):
        key = (demand.values, demand.low, demand.high)
        if key in seen or (is_backward and _is_argument(graph, demand.values)):
            continue
        seen.add(key)
        count = _element_count(graph, demand.values)
        if count == 0 or not any(_open_bounds(graph, demand)):
            continue
        size_key = demand.values if count is None else (count, graph.get_type(demand.values))
        group_key = (size_key, demand.low is None, demand.high is None)
        groups.setdefault(group_key, []).append((node, demand))
    slacks: list[str] = []
    checks: list[RangeCheck] = []
    for group_demands in groups.values():
        checks += _add_group(graph, group_demands, slacks)
    if slacks:
        _stop_below_zero(graph, slacks)
    graph.origin = None
    return tuple(checks)


def _add_group(
    graph: Graph, members: Sequence[tuple[Node, DataCheck]], slacks: list[str]
) -> list[RangeCheck]:
    """Add the checks of tensors of one dtype and element count, with bounds on the same sides.

    This appends to `slacks` the smallest slack of each side, over all tensors.
    """
    graph.origin = members[0][0]
    demands = [demand for _, demand in members]
    open_sides = [
        any(sides) for sides in zip(*(_open_bounds(graph, check) for check in demands), strict=True)
    ]
    slack_positions = [-1, -1]
    for side, operator in enumerate(("ReduceMin", "ReduceMax")):
        if open_sides[side]:
            extremes = _reduce_extremes(graph, operator, [demand.values for demand in demands])
            bounds = [demand.low if side == 0 else demand.high for demand in demands]
            slack_positions[side] = len(slacks)
            slacks.append(_SLACK[side](graph, extremes, bounds))
    return [
        RangeCheck(
            slack_positions[0] if demand.low is not None else -1,
            slack_positions[1] if demand.high is not None else -1,
            element if len(members) > 1 else -1,
            demand.low,
            demand.high,
            demand.error,
            demand.message.replace("{axis}", str(demand.axis)),
            str(source_line(node) or ""),
        )
        for element, (node, demand) in enumerate(members)
    ]


def _open_bounds(graph: Graph, demand: DataCheck) -> tuple[bool, bool]:
    """Return whether the lower and the upper bound must be checked at run time."""
    low = demand.low is not None and not _is_above(graph, demand.values, demand.low)
    high = demand.high is not None and not _is_below(graph, demand.values, demand.high)
    return low, high


def _iterate_demands(interpreter: CheckingInterpreter) -> Iterator[tuple[Node, DataCheck]]:
    """Yield the demands; a demand on several tensors becomes one for each tensor."""
    for node, demand in interpreter.demands:
        if isinstance(demand.values, str):
            yield node, demand
            continue
        rows = zip(demand.values, demand.low, demand.high, demand.axis, strict=True)
        for values, low, high, axis in rows:
            yield node, demand._replace(values=values, low=low, high=high, axis=axis)


def _element_count(graph: Graph, name: str) -> int | None:
    count = dims.product_of(graph.get_shape(name)) if graph.has_shape(name) else None
    return count if isinstance(count, int) else None


def _is_argument(graph: Graph, name: str) -> bool:
    """Whether the elements of a result are those of an argument, moved or cast."""
    while (info := graph.values.get(name)) is not None and info.producer is not None:
        if info.producer.key not in MOVES_ELEMENTS and info.producer.key != "Cast":
            return False
        name = info.producer.inputs[0]
    return any(info.name == name for info in graph.inputs)


def _is_above(graph: Graph, values: str, low: Dim) -> bool:
    minimum = lower_bound(graph, values)
    # a symbolic lower bound is the negative of a size, so it is at most 0
    return minimum is not None and (minimum >= low if isinstance(low, int) else minimum >= 0)


def _is_below(graph: Graph, values: str, high: Dim) -> bool:
    maximum = upper_bound(graph, values)
    distance = None if maximum is None else high - maximum
    return isinstance(distance, int) and distance > 0


def _slack_above(graph: Graph, minimum: str, lows: Sequence[Dim]) -> str:
    """Return the smallest distance of the minima of the tensors from their lower bounds."""
    if list(lows) == [0]:
        return minimum
    clamped = graph.make_node("Min", [minimum, as_scalar(graph, _MAX_DISTANCE)])
    return _smallest_difference(graph, "Sub", clamped, _bounds_tensor(graph, lows), len(lows))


def _slack_below(graph: Graph, maximum: str, highs: Sequence[Dim]) -> str:
    """Return the smallest distance of the maxima from the last values below their bounds."""
    clamped = graph.make_node("Max", [maximum, as_scalar(graph, -_MAX_DISTANCE)])
    return _smallest_difference(
        graph, "Sub", _bounds_tensor(graph, [high - 1 for high in highs]), clamped, len(highs)
    )


def _smallest_difference(graph: Graph, operator: str, left: str, right: str, count: int) -> str:
    result = graph.make_node(operator, [left, right])
    return graph.make_node("ReduceMin", [result], keepdims=0) if count > 1 else result


def _bounds_tensor(graph: Graph, bounds: Sequence[Dim]) -> str:
    return as_scalar(graph, bounds[0]) if len(bounds) == 1 else as_vec(graph, list(bounds))


def _reduce_extremes(graph: Graph, operator: str, tensors: Sequence[str]) -> str:
    """Return the smallest or largest element of each tensor, as int64; a scalar for one tensor."""
    if graph.get_type(tensors[0]) not in _REDUCIBLE:
        tensors = [cast(graph, values, dtypes.int32) for values in tensors]
    if len(tensors) > 1:
        flat = graph.make_node("Concat", [as_flat(graph, values) for values in tensors], axis=0)
        rows = reshape_to(graph, flat, [len(tensors), -1])
        result = graph.make_node(operator, [rows, as_vec(graph, 1)], keepdims=0)
        return cast(graph, result, dtypes.int64)
    values = tensors[0]
    result = graph.make_node(operator, [values], keepdims=0) if graph.get_rank(values) else values
    return cast(graph, result, dtypes.int64)


def _stop_below_zero(graph: Graph, slacks: list[str]) -> None:
    """Add the output whose computation fails if a slack is negative."""
    minimum = graph.make_node("Min", [*slacks, as_scalar(graph, 0)])
    index = graph.make_node("Sub", [minimum, as_scalar(graph, 1)])  # -1 and 0 are valid indices
    one_element = graph.make_initializer("", np.zeros(1, np.int64))
    graph.make_node("Gather", [one_element, index], [DATA_CHECKS])
    graph.make_tensor_output(DATA_CHECKS, dtypes.int64, (), indexed=False)


_SLACK = (_slack_above, _slack_below)
