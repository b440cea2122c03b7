"""What is not worth a session of its own: a few cheap operators between operators that the table
places in torch, and small graphs that train and that a graph break cuts off, the embedding
before a recurrent network that dynamo leaves to eager, the head after it. The threads of torch
and of ONNX Runtime would wait for each other at their ends."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.work import LONG, MANY, count_small, operator_name, products_of
from ortable.compat.torch import OpOverload
from ortable.compat.torch_logging import compiled_code
from ortable_generated.aten import traits

from .partition import Partition, partition_graph
from .placement import is_draw, is_placed_by_choice, mixes_dtypes

_LONG_AMONG_MANY = 2e8  # as LONG, for one of many partitions
_FEW = 2
_MARK = "ortable_cut_off"
_RESUMED = "torch_dynamo_resume_in_"
_BETWEEN = "too little between operators that run in torch to be worth a session"
_BESIDE = "too little beside a graph break to be worth a session while it trains"


def absorb_small_partitions(
    graph: AotGraph, in_torch: Mapping[Node, str], everywhere: bool = False
) -> dict[Node, str]:
    """Add the partitions that are too small to `in_torch`, with the reason.

    Only neighbours of operators that torch runs because it is faster, unless `everywhere`: around
    those that it must run the user wants sessions, and around draws, too.  Partitions merge and
    vanish as nodes change sides, so this repeats until nothing changes; each round takes at least
    one partition away.
    """
    found = dict(in_torch)
    faster = {
        node for node in found if not is_draw(node) and (everywhere or is_placed_by_choice(node))
    }
    trains = graph.kind != "inference" and graph.device == "cpu"
    chosen = {node for node in faster if is_placed_by_choice(node)} if trains else set()
    while faster:
        small: set[Node] = set()
        partitions = partition_graph(graph, found).partitions
        enough = LONG if len(partitions) <= _FEW else _LONG_AMONG_MANY
        for each in partitions:
            trained = _is_beside(each, chosen)
            if _is_beside(each, faster) and not _is_worth_a_session(each, trained, enough):
                small.update(each.nodes)
                chosen.update(each.nodes if trained else ())
        if not small:
            break
        found.update(dict.fromkeys(small, _BETWEEN))
        faster.update(small)
    return found


def _is_beside(partition: Partition, faster: set[Node]) -> bool:
    """Whether one of `faster` gives something to a partition, or takes something from it."""
    ends = [n for node in (*partition.inputs, *partition.outputs) for n in (node, *node.users)]
    sources = [node.args[0] for node in partition.inputs if node.target is operator.getitem]
    return not faster.isdisjoint([*ends, *(n for n in sources if isinstance(n, Node))])


def _is_worth_a_session(partition: Partition, trains: bool, enough: float) -> bool:
    """Whether a partition has a heavy operator, or many small ones, or something that torch cannot
    run from a graph of AOTAutograd as it stands there. Where it trains, its products must be worth
    that the threads of both libraries wait for each other at its ends."""
    names = [operator_name(node) for node in partition.nodes]
    if "" in names or any("drawn" in n.kwargs or mixes_dtypes(n) for n in partition.nodes):
        return True
    if trains:
        return products_of(partition.nodes) > enough
    return not traits.COMPUTE_BOUND.isdisjoint(names) or count_small(names) > MANY


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
    if not all(map(_is_torchs, calls)) or count_small(map(operator_name, calls)) > MANY:
        return {}
    return {} if products_of(calls) > LONG else dict.fromkeys(calls, _BESIDE)


def _is_torchs(node: Node) -> bool:
    """Whether torch can run a node as it stands in a graph of AOTAutograd."""
    target: Any = node.target
    number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
    known = isinstance(target, OpOverload) or target is operator.getitem or number
    return known and not mixes_dtypes(node)
