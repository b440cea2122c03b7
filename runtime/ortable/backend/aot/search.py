"""A search for a fault, which switches parts of a compilation off: nothing is cached or timed while
one runs, torch runs nodes in place of their conversion, and steps before it are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.placement import is_draw
from ortable.compat.bisector import Application, disabled, register, searched, searches
from ortable.compat.torch import OpOverload
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables

from .compilation import Compilation

_WHY = "a search for a fault has switched its conversion off"


def is_on(_: Compilation) -> bool:
    """Tell torch's search what it can switch off, and say whether any search runs."""
    register()
    return searched()


def restrict(compilation: Compilation) -> None:
    """Leave out of the options what is cached or timed, and what the search has switched off."""
    options = replace(compilation.options, cache_dir=None, tune=None, autotune=False)
    if options.freeze != "off" and disabled("constants", lambda: Application("freeze")):
        options = replace(options, freeze="off", weights=None)
    if searches("decompositions"):  # what stays whole may have no converter
        options = replace(options, fallback="eager")
    compilation.options = options


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
