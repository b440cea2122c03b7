"""Find the run-time checks that torch leaves in a graph (`assert`, `torch._check`): their
conditions and messages. ONNX has no operator that raises: the backend returns the conditions beside
the results and tests them; an exported model reports which checks it lost.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.compat.torch import OpOverload
from ortable.interpreter.diagnostics.origin import source_line
from ortable_generated.aten import traits

from .calls import qualified_name
from .modules import find_attribute

_UNNAMED = "Expected Tensor with single nonzero value, but got zero"  # what torch says then


@dataclass(frozen=True)
class Assertion:
    """A check of a graph: the node, the one whose value must be true, and the message."""

    node: Node
    condition: Node
    message: str


def run_time_checks(graph: Graph) -> list[Assertion]:
    """The checks of one graph that some input may fail, in order.

    Not those that tracing settled (types and strides of tensors, conditions that torch knew), and
    not that a size is at least 0.
    """
    targets = {node.target for node in graph.nodes if node.op == "call_function"}
    checks = {target for target in targets if _target_name(target) in traits.CONDITION}
    nodes = [node for node in graph.nodes if node.target in checks] if checks else []
    assertions = [check for check in map(_make_assertion, nodes) if check is not None]
    return [assertion for assertion in assertions if not _is_settled(assertion)]


def asserts_inside(graph_module: GraphModule, node: Node) -> bool:
    """Whether a graph that a higher-order operator calls has a check that may fail."""
    return any(run_time_checks(inner.graph) for inner in _graphs_of(graph_module, node))


def lost_assertions(graph_module: GraphModule) -> list[str]:
    """What an ONNX model made of a graph, and of the graphs inside it, does not check, in words
    with the lines of the model."""
    messages = []
    for module in graph_module.modules():
        checks = run_time_checks(module.graph) if isinstance(module, GraphModule) else []
        for check in checks:
            line = source_line(check.node)
            messages.append(f"{check.message} ({line})" if line else check.message)
    return list(dict.fromkeys(messages))


def _target_name(target: Any) -> str:
    return target.name() if isinstance(target, OpOverload) else qualified_name(target)


def _make_assertion(node: Node) -> Assertion | None:
    """The check that a node is; None for one of a value that torch knew: it raises while it traces
    where that is false."""
    values = [*node.args, *node.kwargs.values()]
    if not isinstance(values[0], Node):
        return None
    message = values[1] if len(values) > 1 else _UNNAMED
    return Assertion(node, values[0], str(message() if callable(message) else message))


def _is_settled(assertion: Assertion) -> bool:
    """Whether a condition holds for every input: torch knew it, or it bounds a size as every size
    is bounded, from below by 0, or that of what is chosen by what there is. Or whether torch made
    it up: it takes for granted that what a mask chooses is no more than its tensor has, which a
    mask of more axes does."""
    condition = assertion.condition
    if condition.meta.get("val") is True:
        return True
    if condition.target not in (operator.ge, operator.le) or len(condition.args) != 2:
        return False
    size, bound = condition.args
    if (
        not isinstance(size, Node)
        or not _has_trait(size, traits.EXTENT)
        or not isinstance(bound, int)
    ):
        return False
    if condition.target is operator.ge:
        return bound <= 0
    source = size.args[0]
    if (
        not isinstance(source, Node)
        or not _has_trait(source, traits.FILTER)
        or size.args[1:] != (0,)
    ):
        return False
    chosen_from = [operand.meta["val"] for operand in source.args if isinstance(operand, Node)]
    max_elements = _count_elements(chosen_from)
    if max_elements is not None and max_elements <= bound:
        return True
    return (
        bound == _count_elements(chosen_from[:1])
        and source.stack_trace == assertion.node.stack_trace
    )


def _has_trait(node: Node, keys: set[str]) -> bool:
    """Whether a node calls an operator of a trait."""
    return isinstance(node.target, OpOverload) and node.target.name() in keys


def _count_elements(tensors: list[Any]) -> int | None:
    """How many elements tensors have that are broadcast to each other, where that is known."""
    sizes = [tensor.shape for tensor in tensors]
    if not all(isinstance(size, int) for shape in sizes for size in shape):
        return None
    return math.prod(torch.broadcast_shapes(*sizes))


def _graphs_of(graph_module: GraphModule, node: Node) -> Iterator[GraphModule]:
    for operand in node.all_input_nodes:
        inner = (
            find_attribute(graph_module, str(operand.target), None)
            if operand.op == "get_attr"
            else None
        )
        if isinstance(inner, GraphModule):
            yield from (module for module in inner.modules() if isinstance(module, GraphModule))
