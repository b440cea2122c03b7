"""Graphs inside graphs: branches and bodies of control flow become child graphs; regions that
only set a mode (no_grad) and submodules are converted in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch.fx import GraphModule, Node

from ..errors import ConversionError, UnsupportedCase
from ..lowerings.control_flow import refuse_effect
from .outputs import flatten_output


class Call(NamedTuple):
    """Where a higher-order operator has the graph that it calls once: the number of arguments
    before it, of those between it and the operands, and whether the operands are one tuple."""

    before: int = 0
    between: int = 0
    packed: bool = False


# Higher-order operators that call a graph once and change only how autograd, a backend or the
# checks of torch see it.
TRANSPARENT = {
    "autograd_function_apply": Call(between=1),  # the graph of the backward pass
    "dynamo_bypassing_wrapper": Call(before=1),
    "hints_wrapper": Call(packed=True),
    "invoke_quant": Call(),
    "invoke_quant_packed": Call(),
    "invoke_subgraph": Call(between=1),  # the identifier of the graph
    "local_map_hop": Call(),
    "run_const_graph": Call(packed=True),
    "strict_mode": Call(packed=True),
    "tag_activation_checkpoint": Call(),
    "wrap": Call(),
    "wrap_activation_checkpoint": Call(),
    "wrap_with_autocast": Call(before=4),
    "wrap_with_set_grad_enabled": Call(before=1),
}
# Higher-order operators that compute nothing: what they return is their first argument, all of
# their arguments, or nothing.
PASSED_ON = {"_export_tracepoint": "all", "print": "nothing", "register_hook": "first"}


def is_token(node: Node) -> bool:
    """Whether an input only orders effects: torch calls the compiled graph with None for it."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") == "with_effects" and user.args[0] is node
        for user in users
    )


def refuse_effects(graph_module: GraphModule) -> None:
    """Raise UnsupportedCase for an effect that an ONNX graph would lose; also where nothing that
    the graph returns depends on it."""
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__name__", "") == "with_effects":
            refuse_effect(node.args[1])


def is_token_result(node: Node) -> bool:
    """Whether a node takes the token out of the results of an operator with an effect."""
    source = node.args[0] if len(node.args) == 2 and node.args[1] == 0 else None
    return isinstance(source, Node) and getattr(source.target, "__name__", "") == "with_effects"


def transparent_call(node: Node, args: Sequence[Any]) -> tuple[GraphModule, list[Any]] | None:
    """The graph and the operands of a higher-order operator that calls it once; None for any other
    node.

    Raises UnsupportedCase for a region of autocast, whose casts are not written in the graph.
    """
    target: Any = node.target
    name = target.name()
    call = TRANSPARENT.get(name)
    if call is None or not isinstance(args[call.before], GraphModule):
        return None
    if name == "wrap_with_autocast" and args[2]:
        raise UnsupportedCase(
            "autocast casts operands where the graph does not show it; `run_decompositions({})` of "
            "the exported program writes the casts out, and to_onnx calls it"
        )
    operands = args[call.before + 1 + call.between :]
    return args[call.before], list(operands[0] if call.packed else operands)


def passed_on(name: str, args: Sequence[Any]) -> Any:
    """What a higher-order operator of ``PASSED_ON`` returns."""
    kind = PASSED_ON[name]
    return list(args) if kind == "all" else args[0] if kind == "first" else None


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
    returned = graph_module.graph.output_node().args[0]
    if isinstance(returned, Node):
        return values[returned]
    return [values[leaf] if isinstance(leaf, Node) else leaf for leaf in flatten_output(returned)]


def count_outputs(graph_module: GraphModule) -> int:
    """Number of entries of the flattened output of a graph."""
    return sum(1 for _ in flatten_output(graph_module.graph.output_node().args[0]))
