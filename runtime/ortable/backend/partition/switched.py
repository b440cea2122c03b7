"""What a search for a fault has switched off in a graph: nodes that torch runs in place of their
conversion, and steps before it. In comes an AotGraph, out come nodes with the reason; called by
`aot.build`. While no search runs, nothing is off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.compat.bisector import Application, disabled, searches
from ortable.compat.torch import OpOverload
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables

from .placement import is_draw

__all__ = ["is_off", "switched_off"]

_WHY = "a search for a fault has switched its conversion off"


def switched_off(graph: AotGraph) -> dict[Node, str]:
    """The calls that torch runs because their conversion is off, with the reason."""
    if not searches("lowerings"):
        return {}
    return {
        node: _WHY
        for node in graph.module.graph.nodes
        if _is_converted(graph, node) and disabled("lowerings", partial(_application, node))
    }


def _is_converted(graph: AotGraph, node: Node) -> bool:
    """Whether a node is a call that the conversion has a choice about."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if graph.is_mutation(node) or is_draw(node):
        return False
    return not isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _application(node: Node) -> Application:
    name = operator_key(node)
    file = generated_tables().spec_files.get(name, "")
    return Application(name, file, (node.name,), node, node)


def is_off(step: Callable[..., Any]) -> bool:
    """Whether a step over the FX graph, before its conversion, is off."""
    return disabled("passes", lambda: Application(step.__name__, subject=step))
