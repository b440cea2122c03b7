"""Assertions of a graph that ONNX Runtime could not run to its end: torch looks at them before what
depends on them, so it is they that a caller hears of. Called by the call path when a run fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import ModelProto

from ortable import dtypes
from ortable.backend.lower.read_names import read_names
from ortable.backend.roles import CompiledGraph, InputRole, InputRoleKind
from ortable.compat.onnxruntime import bound_session
from ortable.compat.torch import from_dlpack

from .feeds import Dimensions, feed_any, number

__all__ = ["violated"]


def violated(compiled: CompiledGraph, args: Sequence[Any], make: Callable[..., Any]) -> str | None:
    """The message of the first assertion that does not hold for these arguments; None where all
    hold, or where what they look at is what cannot be computed.

    :param make: `make(model, constants)` makes a session
    """
    for check in compiled.checks:
        name = compiled.fetches[check.fetch].name
        model = _upstream(compiled.model, name)
        needed = {value.name for value in model.graph.input}
        roles = [role for role in compiled.inputs if role.name in needed]
        feeds = {role.name: _feed(role, args[role.index]) for role in roles}
        try:
            fetched = bound_session(make(model, None)).run_with_ort_values(feeds, [name], None)
            (holds,) = fetched.to_dlpacks(from_dlpack)
        except Exception:
            return None  # the error of the whole graph tells as much
        if not holds.item():
            return check.message
    return None


def _feed(role: InputRole, value: Any) -> Any:
    """An argument as an OrtValue."""
    if role.kind is InputRoleKind.DIMENSION:
        return Dimensions()(value)
    if role.kind is InputRoleKind.NUMBER:
        return number(value, role.elem_type == dtypes.boolean)
    return feed_any(role, value)


def _upstream(model: ModelProto, name: str) -> ModelProto:
    """The model with one of its outputs, and with the nodes and inputs that this one depends on."""
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    outputs = [value for value in graph.output if value.name == name]
    wanted, nodes = {name}, []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            nodes.append(node)
            wanted |= read_names([node])
    kept = [value for value in graph.input if value.name in wanted]
    nodes.reverse()
    for field, values in ((graph.output, outputs), (graph.node, nodes), (graph.input, kept)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del field[:]
        field.extend(copies)
    return result
