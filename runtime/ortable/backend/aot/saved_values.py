"""Partition a joint graph so that the backward reads the values that the forward had.

The partitioner prefers to save an argument and to recompute values that depend on it. If the graph
also writes to that argument, the write (a copy_) is in the forward graph, and the backward would
compute from the new value: for example, it would increment a call counter a second time. aot_eager
and inductor of torch 2.13 and 2.15 have this error. This module saves a copy made before any write.

The gradient of an extreme compares it with the elements. A recomputed float16 element is not
rounded as the saved extreme is (ONNX Runtime computes chains in float32), so it is saved, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from ortable.backend.lower.aot_graph import writes_argument
from ortable.backend.lower.views import is_view


def partition_joint(
    joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[GraphModule, GraphModule]:
    """Split ``joint`` with `min_cut_rematerialization_partition`, which has the same arguments."""
    from ortable.compat.torch import min_cut_partition

    _save_compared_halves(joint)
    forward, backward = min_cut_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    _save_copies(forward, num_fwd_outputs)
    return forward, backward


def _save_compared_halves(joint: GraphModule) -> None:
    """Mark the float16 operands of comparisons, which then are saved and not recomputed."""
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Tensor):
        for operand in node.all_input_nodes:
            source = operand
            while is_view(source):
                source = source.all_input_nodes[0]
            value = source.meta.get("val")
            if source.op == "call_function" and getattr(value, "dtype", None) is torch.float16:
                source.meta["recompute"] = CheckpointPolicy.MUST_SAVE
                source.meta.setdefault("ac_graph_id", 0)


def _save_copies(forward: GraphModule, num_fwd_outputs: int) -> None:
    """Copy each argument that is both saved and written, and let all its readers read the copy."""
    graph = forward.graph
    written_arguments = _find_written_arguments(graph.output_node(), num_fwd_outputs)
    for argument in written_arguments:
        with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
            copy = graph.call_function(torch.ops.aten.clone.default, (argument,))
        copy.meta.update(argument.meta)
        for user in list(argument.users):
            if user is not copy and not _is_write_to(user, argument):
                user.replace_input_with(argument, copy)
    if written_arguments:
        forward.recompile()


def _find_written_arguments(output: Node, start: int) -> list[Node]:
    """Find the written arguments that results from position ``start`` on are, or are views of."""
    arguments: dict[Node, None] = {}
    results: Any = output.args[0]
    for result in results[start:]:
        source = result
        while isinstance(source, Node) and is_view(source):
            source = source.args[0]
        if isinstance(source, Node) and any(_is_write_to(user, source) for user in source.users):
            arguments[source] = None
    return list(arguments)


def _is_write_to(node: Node, argument: Node) -> bool:
    return writes_argument(node) and node.args[0] is argument
