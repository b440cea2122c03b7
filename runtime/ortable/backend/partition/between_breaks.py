"""Small graphs that train and that a graph break cuts off: the embedding before a recurrent network
that dynamo leaves to eager, the head after it. Eager's operators run right before or after them, so
that the threads of torch and of ONNX Runtime wait for each other at their ends, as beside operators
that torch runs inside a graph. In come graphs of dynamo, which `entry` asks about, and of
AOTAutograd; out comes what torch runs of these, asked by `build`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.work import LONG, MANY, count_small, operator_name, products_of
from ortable.compat.torch import OpOverload
from ortable.compat.torch_logging import compiled_code

from .placement import mixes_dtypes

_MARK = "ortable_cut_off"
_RESUMED = "torch_dynamo_resume_in_"
_WHY = "too little beside a graph break to be worth a session while it trains"


def is_cut_off(graph_module: GraphModule) -> bool:
    """Whether a graph of dynamo ends at a graph break, or goes on after one."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    code = compiled_code()
    resumed = code is not None and code.co_name.startswith(_RESUMED)
    return resumed or bool(getattr(reason, "graph_break", False))


def mark_cut_off(graph_module: GraphModule) -> None:
    """Tell `left_to_torch` that a graph of AOTAutograd comes from such a graph of dynamo."""
    graph_module.meta[_MARK] = True


def left_to_torch(graph: AotGraph) -> dict[Node, str]:
    """The calls of a graph, with the reason, where all of it is better left to torch; none where it
    stays with ONNX Runtime."""
    if _MARK not in graph.module.meta or graph.kind == "inference" or graph.device != "cpu":
        return {}
    calls = [node for node in graph.module.graph.nodes if node.op == "call_function"]
    if not all(map(_is_torchs, calls)):
        return {}
    if count_small(map(operator_name, calls)) > MANY or products_of(calls) > LONG:
        return {}
    return dict.fromkeys(calls, _WHY)


def _is_torchs(node: Node) -> bool:
    """Whether torch can run a node as it stands in a graph of AOTAutograd."""
    target: Any = node.target
    number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
    known = isinstance(target, OpOverload) or target is operator.getitem or number
    return known and not mixes_dtypes(node)
