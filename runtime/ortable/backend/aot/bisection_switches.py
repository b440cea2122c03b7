"""Support for bisection, which disables parts of a compilation: nothing is cached or timed while
one runs, torch runs nodes in place of their conversion, and earlier steps can be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.placement import is_rng_call
from ortable.compat.bisector import (
    Application,
    is_bisecting,
    is_disabled,
    is_searching,
    register_subsystems,
)
from ortable.compat.torch import OpOverload
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables

from .compilation import Compilation

_WHY = "a search for a fault has switched its conversion off"


def is_on(_: Compilation) -> bool:
    """Register what torch's bisector can disable, and return whether any bisection runs."""
    register_subsystems()
    return is_bisecting()


def disable_caches(compilation: Compilation) -> None:
    """Remove from the options what is cached or timed, and what the bisection has disabled."""
    options = replace(compilation.options, cache_dir=None, tune=None, autotune=False)
    if options.freeze != "off" and is_disabled("constants", lambda: Application("freeze")):
        options = replace(options, freeze="off", weights=None)
    if is_searching("decompositions"):  # what is not decomposed may have no converter
        options = replace(options, fallback="eager")
    compilation.options = options


def find_disabled_calls(graph: AotGraph) -> dict[Node, str]:
    """Map the calls that torch runs because their conversion is disabled to the reason."""
    if not is_searching("lowerings"):
        return {}
    return {
        node: _WHY
        for node in graph.module.graph.nodes
        if _is_converted(graph, node) and is_disabled("lowerings", partial(_make_application, node))
    }


def _is_converted(graph: AotGraph, node: Node) -> bool:
    """Whether a node is a call that the conversion has a choice about."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if graph.is_mutation(node) or is_rng_call(node):
        return False
    return not isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _make_application(node: Node) -> Application:
    name = operator_key(node)
    file = generated_tables().spec_files.get(name, "")
    return Application(name, file, (node.name,), node, node)


def is_off(step: Callable[..., Any]) -> bool:
    """Whether a step over the FX graph, before its conversion, is disabled."""
    return is_disabled("passes", lambda: Application(step.__name__, subject=step))
