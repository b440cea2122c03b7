"""Find the assertion or data check that made a run of ONNX Runtime fail.

The error that torch would raise for the assertion or check replaces ONNX Runtime's error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from onnx import ModelProto, TensorProto, helper

from ortable import dtypes
from ortable.backend.roles import (
    DATA_CHECKS,
    CompiledGraph,
    InputRole,
    InputRoleKind,
    RangeCheck,
    names_read,
)
from ortable.compat.onnxruntime import bound_session
from ortable.compat.torch import from_dlpack

from .feeds import DimensionValues, feed_any, number_value
from .results import SymbolValues

MakeSession = Callable[..., Any]
_ERRORS = {error.__name__: error for error in (IndexError, RuntimeError, ValueError)}


def find_violation(
    compiled: CompiledGraph, args: Sequence[Any], make: MakeSession
) -> Exception | None:
    """Return the error of the first assertion or data check that fails for these arguments.

    Args:
        compiled: the graph.
        args: the arguments of the failed call.
        make: `make(model, constants)` creates a session.

    Returns:
        The error; None if all assertions and data checks hold, or cannot be evaluated.
    """
    for assertion in compiled.checks:
        name = compiled.fetches[assertion.fetch].name
        results = _compute_results(compiled, args, make, {name})
        if results is None:
            return None  # report the error of the graph instead
        if not assertion.is_satisfied(results[name]):
            return RuntimeError(assertion.message)
    if not compiled.data_checks:
        return None
    slack_names = _slack_names(compiled)
    slacks = _compute_results(
        compiled, args, make, {name for slack_pair in slack_names for name in slack_pair if name}
    )
    if slacks is None:
        return None
    sizes = SymbolValues(args, tuple(compiled.sources.values()))
    for check, slack_pair in zip(compiled.data_checks, slack_names, strict=True):
        index = max(check.element, 0)
        low, high = (int(slacks[name].flatten()[index]) if name else 0 for name in slack_pair)
        if min(low, high) < 0:
            return _range_error(check, low, high, sizes)
    return None


def _range_error(check: RangeCheck, low: int, high: int, sizes: SymbolValues) -> Exception:
    """Return torch's error for a tensor whose slack `low` or `high` (see below) is negative."""
    bounds = {"low": sizes(check.low), "high": sizes(check.high)}
    value = bounds["low"] + low if low < 0 else bounds["high"] - 1 - high
    text = check.message.format(value=value, **bounds)
    return _ERRORS[check.error](f"{text}\nat {check.line}" if check.line else text)


def _slack_names(compiled: CompiledGraph) -> list[tuple[str, str]]:
    """Return two names for each check: the results that hold its slacks, "" where it has no bound.

    A slack is the distance of a tensor's values from a bound. `lower.data_checks` gives all slacks
    to one Min, from which the index of the Gather that makes the output DATA_CHECKS is computed.
    """
    producers = {
        slack_name: node for node in compiled.model.graph.node for slack_name in node.output
    }
    index = producers[producers[DATA_CHECKS].input[1]]
    slacks = producers[index.input[0]].input

    def slack_name(check: RangeCheck, index: int) -> str:
        if index < 0:
            return ""
        return producers[slacks[index]].input[0] if check.element >= 0 else slacks[index]

    return [
        (slack_name(check, check.low_at), slack_name(check, check.high_at))
        for check in compiled.data_checks
    ]


def _compute_results(
    compiled: CompiledGraph, args: Sequence[Any], make: MakeSession, names: Collection[str]
) -> Mapping[str, Any] | None:
    """Compute some results of the graph as tensors; None if one of them cannot be computed."""
    model = _extract_upstream(compiled.model, names)
    needed = {value.name for value in model.graph.input}
    roles = [role for role in compiled.inputs if role.name in needed]
    feeds = {role.name: _make_feed(role, args[role.index]) for role in roles}
    ordered = [value.name for value in model.graph.output]
    try:
        fetched = bound_session(make(model, None)).run_with_ort_values(feeds, ordered, None)
        return dict(zip(ordered, fetched.to_dlpacks(from_dlpack), strict=True))
    except Exception:
        return None


def _make_feed(role: InputRole, value: Any) -> Any:
    if role.kind is InputRoleKind.DIMENSION:
        return DimensionValues()(value)
    if role.kind is InputRoleKind.NUMBER:
        return number_value(value, role.elem_type == dtypes.boolean)
    return feed_any(role, value)


def _extract_upstream(model: ModelProto, names: Collection[str]) -> ModelProto:
    """Extract the nodes and inputs that some results depend on; the results become the outputs.

    A result that is not an output of the model is an int64.
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    declared = {value.name: value for value in graph.output}
    outputs = [
        declared.get(name) or helper.make_tensor_value_info(name, TensorProto.INT64, None)
        for name in sorted(names)
    ]
    needed, nodes = set(names), []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            nodes.append(node)
            needed.update(names_read([node]))
    inputs = [value for value in graph.input if value.name in needed]
    nodes.reverse()
    for field, values in ((graph.output, outputs), (graph.node, nodes), (graph.input, inputs)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del field[:]
        field.extend(copies)
    return result
