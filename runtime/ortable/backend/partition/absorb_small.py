"""Move partitions to torch that are too small to be worth a session.

These are a few cheap operators between operators that the tables place in torch, and small training
graphs at graph breaks (the embedding before a recurrent network that dynamo runs in eager, or the
head after it). With sessions for them, the threads of torch and ONNX Runtime would wait for each
other.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.cost_model import (
    LONG_FLOPS,
    MAX_SMALL_OPS,
    count_flops,
    count_operators,
    torch_operator_key,
)
from ortable.compat.torch import OpOverload
from ortable.compat.torch_logging import compiled_code
from ortable_generated.aten import traits

from .partition import Partition, partition_graph
from .placement import has_mixed_floats, is_placed_by_choice, is_rng_call

_LONG_FLOPS_OF_MANY = 2e8  # as LONG_FLOPS, for a graph of more than _MAX_FEW_PARTITIONS
_MAX_FEW_PARTITIONS = 2
_MARK = "ortable_cut_off"
_RESUME_PREFIX = "torch_dynamo_resume_in_"
_BETWEEN_REASON = "too little work between operators that run in torch to be worth a session"
_FRAGMENT_REASON = "too little work at a graph break to be worth a session during training"


def absorb_small_partitions(
    graph: AotGraph, in_torch: Mapping[Node, str], everywhere: bool = False
) -> dict[Node, str]:
    """Add the nodes of partitions that are too small for a session to `in_torch`, with a reason.

    Only partitions next to operators that torch runs by choice, because it is faster, are
    considered, unless `everywhere` is set: next to RNG calls and operators that torch must run, the
    user expects sessions. Partitions merge and vanish as nodes move, so this repeats until no
    partition is too small.

    Args:
        graph: the graph.
        in_torch: nodes that torch runs, with reasons.
        everywhere: consider partitions next to any node that torch runs, except RNG calls.

    Returns:
        All nodes that torch runs, with reasons.
    """
    reasons = dict(in_torch)
    neighbors = {
        node
        for node in reasons
        if not is_rng_call(node) and (everywhere or is_placed_by_choice(node))
    }
    # in training on the CPU, only the FLOPs of a partition next to these nodes justify a session
    is_training = graph.kind != "inference" and graph.device == "cpu"
    by_choice = {node for node in neighbors if is_placed_by_choice(node)} if is_training else set()
    while neighbors:
        small: set[Node] = set()
        partitions = partition_graph(graph, reasons).partitions
        min_flops = LONG_FLOPS if len(partitions) <= _MAX_FEW_PARTITIONS else _LONG_FLOPS_OF_MANY
        for partition in partitions:
            is_next_to_choice = _is_adjacent(partition, by_choice)
            if _is_adjacent(partition, neighbors) and not _is_worth_a_session(
                partition, is_next_to_choice, min_flops
            ):
                small.update(partition.nodes)
                by_choice.update(partition.nodes if is_next_to_choice else ())
        if not small:
            break
        reasons.update(dict.fromkeys(small, _BETWEEN_REASON))
        neighbors.update(small)
    return reasons


def _is_adjacent(partition: Partition, neighbors: set[Node]) -> bool:
    """Whether a neighbor computes or reads an input of a partition, or reads one of its outputs."""
    adjacent_nodes = [
        adjacent
        for node in (*partition.inputs, *partition.outputs)
        for adjacent in (node, *node.users)
    ]
    sources = [node.args[0] for node in partition.inputs if node.target is operator.getitem]
    return not neighbors.isdisjoint(
        [*adjacent_nodes, *(source for source in sources if isinstance(source, Node))]
    )


def _is_worth_a_session(partition: Partition, is_next_to_choice: bool, min_flops: float) -> bool:
    """Whether torch cannot run a partition, or it has enough work to be worth a session.

    In training, next to a call that torch runs by choice, that is more than `min_flops`; elsewhere
    it is a compute-bound operator, or more than MAX_SMALL_OPS operators.
    """
    names = [torch_operator_key(node) for node in partition.nodes]
    if "" in names or any(
        "drawn" in member.kwargs or has_mixed_floats(member) for member in partition.nodes
    ):
        return True
    if is_next_to_choice:
        return count_flops(partition.nodes) > min_flops
    return not traits.COMPUTE_BOUND.isdisjoint(names) or count_operators(names) > MAX_SMALL_OPS


def is_graph_break_fragment(graph_module: GraphModule) -> bool:
    """Whether a graph of dynamo is cut off: it ends at a graph break, or resumes after one."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    code = compiled_code()
    is_resumed = code is not None and code.co_name.startswith(_RESUME_PREFIX)
    return is_resumed or bool(getattr(reason, "graph_break", False))


def mark_graph_break_fragment(graph_module: GraphModule) -> None:
    """Mark an AOTAutograd graph as a fragment, which `place_graph_break_fragment` reads."""
    graph_module.meta[_MARK] = True


def place_graph_break_fragment(graph: AotGraph) -> dict[Node, str]:
    """Map all calls of a small fragment that trains on the CPU to a reason; empty otherwise."""
    if _MARK not in graph.module.meta or graph.kind == "inference" or graph.device != "cpu":
        return {}
    calls = [node for node in graph.module.graph.nodes if node.op == "call_function"]
    if (
        not all(map(_can_run_in_torch, calls))
        or count_operators(map(torch_operator_key, calls)) > MAX_SMALL_OPS
    ):
        return {}
    return {} if count_flops(calls) > LONG_FLOPS else dict.fromkeys(calls, _FRAGMENT_REASON)


def _can_run_in_torch(node: Node) -> bool:
    target: Any = node.target
    is_number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
    is_operator = isinstance(target, OpOverload) or target is operator.getitem or is_number
    return is_operator and not has_mixed_floats(node)
