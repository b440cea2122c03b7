"""Support torch's bisector, which disables parts of a compilation to find a fault.

While a bisection runs, nothing is cached or timed. The bisection can let torch run a node that
would otherwise be converted, and it can disable the steps before the conversion.
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

_DISABLED_REASON = "a bisection has disabled its conversion"


def is_bisection_running(_: Compilation) -> bool:
    """Register the parts that torch's bisector can disable, and return whether a bisection runs."""
    register_subsystems()
    return is_bisecting()


def disable_caches(compilation: Compilation) -> None:
    """Turn off caching and timing; adapt the options to the parts that the bisection disables."""
    options = replace(
        compilation.options, cache_dir=None, tune=None, autotune=False, torch_regions="eager"
    )
    if options.freeze != "off" and is_disabled("constants", lambda: Application("freeze")):
        options = replace(options, freeze="off", weights=None)
    if is_searching("decompositions"):  # undecomposed operators may have no converter
        options = replace(options, fallback="eager")
    compilation.options = options


def find_disabled_calls(graph: AotGraph) -> dict[Node, str]:
    """Map each call whose conversion the bisection disabled to the reason; torch runs it."""
    if not is_searching("lowerings"):
        return {}
    return {
        node: _DISABLED_REASON
        for node in graph.module.graph.nodes
        if _is_switchable(graph, node)
        and is_disabled("lowerings", partial(_make_application, node))
    }


def _is_switchable(graph: AotGraph, node: Node) -> bool:
    """Whether a node is a call whose conversion a bisection may disable."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if graph.is_mutation(node) or is_rng_call(node):
        return False
    return not isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _make_application(node: Node) -> Application:
    name = operator_key(node)
    file = generated_tables().spec_files.get(name, "")
    return Application(name, file, (node.name,), node, node)


def is_step_disabled(step: Callable[..., Any]) -> bool:
    """Whether the bisection disabled a step that edits the FX graph before its conversion."""
    return is_disabled("passes", lambda: Application(step.__name__, subject=step))
