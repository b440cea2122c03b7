"""Partition a joint graph so that values saved for the backward keep their value.

The partitioner prefers to save an argument and to recompute what follows from it. Where the
graph also writes to that argument, its copy_ is in the forward graph, and the backward would
compute from the new value: a buffer that counts its calls would be counted twice in gradients.
aot_eager and inductor of torch 2.13 and 2.15 do that. Here a copy is saved, made before
anything is written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import writes_argument
from ortable.backend.lower.views import is_view


def partition_joint(
    joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[GraphModule, GraphModule]:
    """Split ``joint`` with `min_cut_rematerialization_partition`, which has the same arguments."""
    from ortable.compat.torch import min_cut_partition

    forward, backward = min_cut_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    _save_copies(forward, num_fwd_outputs)
    return forward, backward


def _save_copies(forward: GraphModule, num_fwd_outputs: int) -> None:
    """Make every read of an argument that is saved and written read a copy of it."""
    graph = forward.graph
    saved = _written_results(graph.output_node(), num_fwd_outputs)
    for argument in saved:
        with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
            copy = graph.call_function(torch.ops.aten.clone.default, (argument,))
        copy.meta.update(argument.meta)
        for user in list(argument.users):
            if user is not copy and not _is_write_to(user, argument):
                user.replace_input_with(argument, copy)
    if saved:
        forward.recompile()


def _written_results(output: Node, start: int) -> list[Node]:
    """Find the arguments that are written, and of which results from ``start`` on are views."""
    arguments: dict[Node, None] = {}
    results: Any = output.args[0]
    for result in results[start:]:
        base = result
        while isinstance(base, Node) and is_view(base):
            base = base.args[0]
        if isinstance(base, Node) and any(_is_write_to(user, base) for user in base.users):
            arguments[base] = None
    return list(arguments)


def _is_write_to(node: Node, argument: Node) -> bool:
    return writes_argument(node) and node.args[0] is argument
