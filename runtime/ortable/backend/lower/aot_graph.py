"""A graph of AOTAutograd with cached analyses: its kind, arguments and device.

When sizes of a graph have been specialized, a new AotGraph analyses it again.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch.fx import GraphModule, Node

from ortable.backend.sessions.providers import graph_device

from .inputs import InputPlan

_COPIES = (torch.ops.aten.copy_.default, torch.ops.aten.copy_)


def writes_argument(node: Node) -> bool:
    """Whether a node is a `copy_` into an argument, which runs after all other nodes."""
    return (
        node.op == "call_function"
        and node.target in _COPIES
        and isinstance(node.args[0], Node)
        and node.args[0].op == "placeholder"
    )


class AotGraph:
    """A graph with analyses that several steps read, computed on first use.

    Passes that edit the graph in place keep its placeholders and its output node, so the cached
    values stay valid.
    """

    def __init__(self, module: GraphModule) -> None:
        self.module = module

    def __repr__(self) -> str:
        return f"AotGraph({self.kind}, {len(self.module.graph.nodes)} nodes)"

    @cached_property
    def kind(self) -> str:
        """`forward`, `backward` or `inference`, from descriptions and names by AOTAutograd."""
        results = self.output.meta.get("desc") or []
        placeholders = self.module.graph.find_nodes(op="placeholder")
        description_names = [type(node.meta.get("desc")).__name__ for node in placeholders]
        if "TangentAOTInput" in description_names:
            return "backward"
        result_names = (
            [type(description).__name__ for description in results]
            if isinstance(results, list | tuple)
            else []
        )
        if "GradAOTOutput" in result_names:
            return "backward"
        if any(node.name.startswith("primals_") for node in placeholders):
            return "forward"
        return "forward" if "SavedForBackwardsAOTOutput" in result_names else "inference"

    @cached_property
    def inputs(self) -> InputPlan:
        """The arguments, and which of them gives the value of each symbol."""
        return InputPlan(self.module)

    @cached_property
    def device(self) -> str:
        """The device of the graph: `cpu`, or the accelerator of its tensors, such as `cuda:0`."""
        return graph_device(self.module)

    @property
    def output(self) -> Node:
        """The output node."""
        return self.module.graph.output_node()

    def is_mutation(self, node: Node) -> bool:
        """Whether a node is a `copy_` into an argument of this graph."""
        return writes_argument(node) and node.args[0] in self.inputs.position
