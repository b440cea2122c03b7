"""Cost model of nodes: operators, floating point operations and memory traffic.

`partition` uses it to decide which partitions need a session, and `compile` to decide whether one
thread suffices.
"""

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

MAX_SMALL_OPS = 24  # beyond this count, torch's dispatcher costs more than a session
# Products of so many floating point operations take several times as long as the threads of torch
# and ONNX Runtime wait for each other at the two ends of a session.
LONG_FLOPS = 2e7
# So many elements of arguments and results cost a few tenths of a millisecond of memory traffic.
_MAX_SHORT_ELEMENTS = 2.5e5
_ITEM = "operator.getitem"


def torch_operator_key(node: Node) -> str:
    """Return the key of an operator, such as `aten::add.Tensor`; "" for other nodes.

    Other nodes call a Python function, or take the random numbers that `emit_rng_calls` draws as
    argument `drawn`, which torch's operator does not have.
    """
    if "drawn" in node.kwargs:
        return ""
    if node.target is operator.getitem:
        return _ITEM
    if isinstance(node.target, OpOverload):
        return str(node.target.name())
    return ""


def count_operators(names: Iterable[str]) -> int:
    """Count the operators, without views and getitem."""
    return sum(name not in traits.VIEW and name != _ITEM for name in names)


def count_flops(nodes: Iterable[Node]) -> int:
    """Count the FLOPs of the calls for which torch has a formula; dynamic sizes count as traced."""
    formulas = _flop_formulas()
    total: int = 0
    for node in nodes:
        formula = formulas.get(_formula_name(node))
        if formula is not None:
            args, kwargs = map_arg(
                (node.args, node.kwargs), lambda source: _traced_shapes(source.meta["val"])
            )
            total += formula(*args, **kwargs, out_val=_traced_shapes(node.meta["val"]))
    return total


def _flop_formulas() -> dict[str, Any]:
    return {str(operator): formula for operator, formula in flop_registry.items()}


def _formula_name(node: Node) -> str:
    """Return the key of torch's FLOP formula (`aten.mm`); "" unless the overload is the default."""
    name, _, overload = str(node.target).rpartition(".")
    return name if overload == "default" else ""


def is_short(nodes: Iterable[Node]) -> bool:
    """Whether one thread computes nodes about as fast as two, which must synchronize.

    The result is False if a compute-bound operator (fused attention) has no FLOP formula in torch.
    """
    ignored = {*traits.VIEW, _ITEM}
    calls = [
        candidate
        for candidate in nodes
        if candidate.op == "call_function" and torch_operator_key(candidate) not in ignored
    ]
    arguments = [node for node in nodes if node.op == "placeholder"]
    values = pytree.tree_leaves([node.meta.get("val") for node in (*arguments, *calls)])
    if (
        sum(math.prod(_traced_shape(value)) for value in values if isinstance(value, torch.Tensor))
        > _MAX_SHORT_ELEMENTS
    ):
        return False
    formulas = _flop_formulas()
    if any(
        _formula_name(call) not in formulas and torch_operator_key(call) in traits.COMPUTE_BOUND
        for call in calls
    ):
        return False
    return count_flops(calls) <= LONG_FLOPS


def _traced_shapes(value: Any) -> Any:
    return map_aggregate(value, _traced_shape)


def _traced_shape(value: Any) -> Any:
    return tuple(map(traced_size, value.shape)) if isinstance(value, torch.Tensor) else value
