"""How much the nodes of a graph compute, and whether torch can call them as they stand."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_aggregate, map_arg
from torch.utils.flop_counter import flop_registry

from ortable.compat.torch import OpOverload, pytree
from ortable.interpreter.operator_cost import traced_size
from ortable_generated.aten import traits

MANY = 24  # so many small operators cost torch's dispatcher more than a session costs
# Floating point operations in products that take several times as long as threads wait for each
# other at the two ends of a session.
LONG = 2e7
_LARGE = 2.5e5  # numbers in arguments and results, of which all cost a few tenths of a millisecond
_ITEM = "operator.getitem"


def operator_name(node: Node) -> str:
    """The key of an operator; "" for what torch cannot call by itself: the
    rest of an operator whose draw is a node of its own, and Python functions."""
    if "drawn" in node.kwargs:
        return ""
    if node.target is operator.getitem:
        return _ITEM
    if isinstance(node.target, OpOverload):
        return str(node.target.name())
    return ""


def count_small(names: Iterable[str]) -> int:
    """How many operators there are besides views."""
    return sum(name not in traits.VIEW and name != _ITEM for name in names)


def products_of(nodes: Iterable[Node]) -> int:
    """Floating point operations in the products of nodes; dynamic sizes count as traced."""
    counts = _formulas()
    total: int = 0
    for node in nodes:
        count = counts.get(_formula_name(node))
        if count is not None:
            args, kwargs = map_arg((node.args, node.kwargs), lambda n: _traced(n.meta["val"]))
            total += count(*args, **kwargs, out_val=_traced(node.meta["val"]))
    return total


def _formulas() -> dict[str, Any]:
    return {str(operator): count for operator, count in flop_registry.items()}


def _formula_name(node: Node) -> str:
    """The key of torch's formula; "" for overloads that take more, which the formulas do not."""
    name, _, overload = str(node.target).rpartition(".")
    return name if overload == "default" else ""


def is_short(nodes: Iterable[Node]) -> bool:
    """Whether one thread computes nodes about as fast as two need to find each other. What torch
    has no formula for (whole attention, say) counts as long."""
    unseen = {*traits.VIEW, _ITEM}
    calls = [n for n in nodes if n.op == "call_function" and operator_name(n) not in unseen]
    arguments = [node for node in nodes if node.op == "placeholder"]
    values = pytree.tree_leaves([node.meta.get("val") for node in (*arguments, *calls)])
    if sum(math.prod(_shape(v)) for v in values if isinstance(v, torch.Tensor)) > _LARGE:
        return False
    counted = _formulas()
    if any(
        _formula_name(x) not in counted and operator_name(x) in traits.COMPUTE_BOUND for x in calls
    ):
        return False
    return products_of(calls) <= LONG


def _traced(value: Any) -> Any:
    """The shape that a tensor had when it was traced; other values as they are."""
    return map_aggregate(value, _shape)


def _shape(value: Any) -> Any:
    return tuple(map(traced_size, value.shape)) if isinstance(value, torch.Tensor) else value
