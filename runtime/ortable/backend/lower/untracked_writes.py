"""Weights that somebody writes without a trace, known by who owns them: PEFT merges adapters
into the weights of the layers that it wraps, and swaps adapters, with `weight.data`. In come the
graph of dynamo and those of AOTAutograd, out come marks on arguments; called by `aot.entry`,
read by `compile` and by the key of a graph."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from torch.fx import GraphModule, Node

_MARK = "ortable_untracked_writes"
_STALE = (
    "ortable: freeze='on' (or 'trust') makes constants of weights of PEFT's layers, which PEFT "
    "writes without a trace (merge_adapter, hotswap_adapter): call ortable.refresh(model) after "
    "that, or leave freeze at 'auto', which keeps these weights inputs."
)
_WRAPPED = "._modules['base_layer']"  # what every layer of PEFT calls the layer inside


def find_untracked_writes(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments of a graph of dynamo that are weights of such layers, their
    adapters included; none where nobody has imported PEFT, whatever their layers are called."""
    if "peft" not in sys.modules:
        return frozenset()
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    names = [source_of(node) for node in nodes]
    owners = tuple({name.partition(_WRAPPED)[0] for name in names if _WRAPPED in name})
    return frozenset(i for i, name in enumerate(names) if owners and name.startswith(owners))


def mark_untracked_writes(graph_module: GraphModule, positions: frozenset[int]) -> None:
    """Mark the arguments of a graph of AOTAutograd that are those of dynamo's graph."""
    for node in graph_module.graph.nodes:
        if node.op == "placeholder" and getattr(node.meta.get("desc"), "idx", None) in positions:
            node.meta[_MARK] = True


def warn_of_constants() -> None:
    """Warn that option `freeze` makes constants of such weights."""
    warnings.warn(_STALE, RuntimeWarning, stacklevel=2)


def has_untracked_writes(node: Node) -> bool:
    """Whether an argument is such a weight."""
    return _MARK in node.meta


def source_of(node: Node) -> str:
    """Where dynamo found an argument, as Python text: `L['self']._modules['q']...`."""
    argument: Any = node.meta.get("grapharg")
    name = getattr(getattr(argument, "source", None), "name", "")
    return str(name() if callable(name) else name)
