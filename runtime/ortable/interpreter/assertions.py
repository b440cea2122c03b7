"""Find the run-time checks of an FX graph (`assert`, `torch._check`), which ONNX cannot express.

The backend tests their conditions as additional results; the exporter reports lost checks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.compat.torch import OpOverload
from ortable.interpreter.diagnostics.origin import source_line
from ortable_generated.aten import traits

from .calls import qualified_name
from .modules import find_attribute
from .numbers import find_static_value

_COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
# torch's message for a check without a message
_DEFAULT_MESSAGE = "Expected Tensor with single nonzero value, but got zero"


@dataclass(frozen=True)
class Assertion:
    """A run-time check: its node, the node of the condition, and torch's error message.

    If ``comparison`` is not empty, the check is ``operator.<comparison>(number, bound)``, where the
    number is the size of the tensor ``condition`` along ``dim``, or without ``dim`` its only value.
    """

    node: Node
    condition: Node
    message: str
    comparison: str = ""
    bound: int = 0
    dim: int | None = None


def run_time_checks(graph: Graph) -> list[Assertion]:
    """Return the checks of one graph that may fail for some input, in order.

    Checks of static conditions are left out, and those for which `_can_ignore` holds.
    """
    targets = {node.target for node in graph.nodes if node.op == "call_function"}
    check_targets = {target for target in targets if _target_name(target) in traits.CONDITION}
    nodes = [node for node in graph.nodes if node.target in check_targets] if check_targets else []
    assertions = [check for check in map(_make_assertion, nodes) if check is not None]
    settled = [_with_data(assertion) for assertion in assertions]
    return [
        assertion for assertion in settled if assertion.comparison or not _can_ignore(assertion)
    ]


def has_inner_assertions(graph_module: GraphModule, node: Node) -> bool:
    """Whether a subgraph of a higher-order operator has a check that may fail."""
    return any(run_time_checks(subgraph.graph) for subgraph in _subgraphs_of(graph_module, node))


def lost_assertions(graph_module: GraphModule) -> list[str]:
    """Return the messages of the checks of a graph and its subgraphs, with source lines."""
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
    """Return the check of a node, or None if torch evaluated the condition during tracing."""
    values = [*node.args, *node.kwargs.values()]
    if not isinstance(values[0], Node):
        return None
    message = values[1] if len(values) > 1 else _DEFAULT_MESSAGE
    return Assertion(node, values[0], str(message() if callable(message) else message))


def _with_data(assertion: Assertion) -> Assertion:
    """Compare data itself where torch took the condition for granted.

    After `torch._check(n == 3)` on a number that data decides, torch's metadata has 3 for n, and
    True for the condition.
    """
    condition = assertion.condition
    if find_static_value(condition.meta.get("val")) is not True or len(condition.args) != 2:
        return assertion
    number, bound = condition.args
    comparison = getattr(condition.target, "__name__", "")
    if comparison not in _COMPARISONS or not isinstance(number, Node) or type(bound) is not int:
        return assertion
    source = number.args[0] if number.args else None
    if not isinstance(source, Node):
        return assertion
    if _has_trait(number, traits.ITEM):
        return replace(assertion, condition=source, comparison=comparison, bound=bound)
    dim = number.args[1] if len(number.args) == 2 else None
    is_size = _has_trait(number, traits.EXTENT) and _has_trait(source, traits.FILTER)
    if is_size and isinstance(dim, int):
        return replace(assertion, condition=source, comparison=comparison, bound=bound, dim=dim)
    return assertion


def _can_ignore(assertion: Assertion) -> bool:
    """Whether the condition of a check holds for all inputs, or is a wrong assumption of torch.

    It holds for all inputs if it is statically true, bounds a size from below by 0 or less, or
    allows masked_select or nonzero to select all elements that there are after broadcasting, if
    their number is static. Torch adds its own check that a mask selects no more elements than the
    tensor has, which is wrong for a mask with more axes.
    """
    condition = assertion.condition
    if find_static_value(condition.meta.get("val")) is True:
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
    operands = [argument.meta["val"] for argument in source.args if isinstance(argument, Node)]
    max_elements = _count_elements(operands)
    if max_elements is not None and max_elements <= bound:
        return True
    return (
        bound == _count_elements(operands[:1]) and source.stack_trace == assertion.node.stack_trace
    )


def _has_trait(node: Node, keys: set[str]) -> bool:
    """Whether a node calls an overload with a trait, whose table is ``keys``."""
    return isinstance(node.target, OpOverload) and node.target.name() in keys


def _count_elements(tensors: list[Any]) -> int | None:
    """Return the number of elements after broadcasting tensors, or None if a size is dynamic."""
    sizes = [tensor.shape for tensor in tensors]
    if not all(isinstance(size, int) for shape in sizes for size in shape):
        return None
    return math.prod(torch.broadcast_shapes(*sizes))


def _subgraphs_of(graph_module: GraphModule, node: Node) -> Iterator[GraphModule]:
    for operand in node.all_input_nodes:
        subgraph = (
            find_attribute(graph_module, str(operand.target), None)
            if operand.op == "get_attr"
            else None
        )
        if isinstance(subgraph, GraphModule):
            yield from (module for module in subgraph.modules() if isinstance(module, GraphModule))
