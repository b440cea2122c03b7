"""Graphs inside graphs: branches and bodies of control flow become child builders; regions that
only set a mode (no_grad) and submodules are converted in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule, Node

from ..errors import ConversionError
from .outputs import flatten_output

# Higher-order operators that call a graph once and only change how autograd sees it: number of
# arguments before the graph.
TRANSPARENT = {
    "wrap_with_set_grad_enabled": 1,
    "wrap": 0,
    "tag_activation_checkpoint": 0,
    "invoke_subgraph": 0,
}


def transparent_call(node: Node, args: Sequence[Any]) -> tuple[GraphModule, list[Any]] | None:
    """The graph and the operands of a higher-order operator that calls it once; None for any other
    node."""
    target: Any = node.target
    name = target.name()
    position = TRANSPARENT.get(name)
    if position is None or not isinstance(args[position], GraphModule):
        return None
    operands = list(args[position + 1 :])
    if name == "invoke_subgraph":
        operands = operands[1:]  # the identifier of the graph
    return args[position], operands


def placeholders(graph_module: GraphModule) -> list[Node]:
    """Inputs of a graph, in order."""
    return [node for node in graph_module.graph.nodes if node.op == "placeholder"]


def bind(graph_module: GraphModule, operands: Sequence[Any], values: dict[Node, Any]) -> None:
    """Give the placeholders of a graph the values that it is called with.

    Raises ConversionError when the numbers differ.
    """
    inputs = placeholders(graph_module)
    if len(inputs) != len(operands):
        raise ConversionError(
            f"a subgraph with {len(inputs)} inputs ({', '.join(node.name for node in inputs)}) "
            f"is called with {len(operands)} operands"
        )
    values.update(zip(inputs, operands, strict=True))


def result_of(graph_module: GraphModule, values: dict[Node, Any]) -> Any:
    """What a graph converted in place returns, with nodes replaced by what they became."""
    (output,) = [node for node in graph_module.graph.nodes if node.op == "output"]
    returned = output.args[0]
    if isinstance(returned, Node):
        return values[returned]
    return [values[leaf] if isinstance(leaf, Node) else leaf for leaf in flatten_output(returned)]


def count_outputs(graph_module: GraphModule) -> int:
    """Number of entries of the flattened output of a graph."""
    (output,) = [node for node in graph_module.graph.nodes if node.op == "output"]
    return sum(1 for _ in flatten_output(output.args[0]))
