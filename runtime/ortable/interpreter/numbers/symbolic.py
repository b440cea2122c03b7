"""Integers that torch keeps as expressions: FX metadata already says what they are, so no node is
emitted for them. Booleans over them become a comparison of dimensions when something reads them,
floats over them become nodes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from ortable import dims
from ortable.compat.torch import HigherOrderOperator, OpOverload, OpOverloadPacket
from ortable.errors import BuilderError, ConversionError
from ortable.ir import Graph
from ortable_generated.aten import traits

from . import scalars


def is_size_target(target: Any) -> bool:
    """True for a Python function on integers, and for the ATen operators that read a size."""
    if isinstance(target, OpOverload):
        return target.name() in traits.SIZE
    return not isinstance(target, (HigherOrderOperator, OpOverloadPacket))


def only_assertions(node: Node) -> bool:
    """True when nothing but torch's run-time checks reads ``node``, directly or through other
    conditions."""
    for user in node.users:
        target = user.target
        if isinstance(target, OpOverload):
            if target.name() not in traits.ASSERTION:
                return False
        elif (
            user.op != "call_function"
            or not isinstance(user.meta.get("val"), (torch.SymBool, bool))
            or not only_assertions(user)
        ):
            return False
    return True


def number(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: Mapping[str, str] | None
) -> Any:
    """What a Python operator on numbers became: metadata has the value, only conditions may need
    nodes.

    Raises ConversionError for a float or a condition over symbolic sizes that has no ONNX form.
    """
    if isinstance(value, torch.SymInt):
        return integer(graph, node, value, args, rename)
    if isinstance(value, torch.SymBool):
        return symbolic_bool(graph, node, args)
    if isinstance(value, torch.SymFloat):
        static = static_value(value)
        if static is not None or only_assertions(node):
            return static
        return scalars.adopt(graph, scalars.computed(graph, node, args), value)
    return value


def integer(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: Mapping[str, str] | None
) -> Any:
    """An integer: the dimension that metadata spells out, or one that nodes compute when it is made
    by a function that dimensions do not know."""
    try:
        dim = dims.from_torch(value, rename)
    except BuilderError:
        dim = None
    if dim is not None and (isinstance(dim, int) or graph.dim_results.can_compute(dim, True)):
        return dim
    if node.target is operator.getitem or only_assertions(node):
        return dim
    found = scalars.computed(graph, node, args)
    if dim is None:
        dim = dims.symbol(graph.unique_name(f"dim_{node.name}"))
    graph.add_dim_source(dim, found, None)
    return dim


def symbolic_bool(graph: Graph, node: Node, args: list[Any]) -> Any:
    """Value of a condition over symbolic integers: a bool where torch knows it, else a 0-d bool
    result.

    Raises ConversionError for a condition that is not a comparison or a logical combination of
    comparisons.
    """
    static = static_value(node.meta["val"])
    if static is not None:
        return static
    if only_assertions(node):
        return None
    target = node.target
    if target is operator.getitem:
        return args[0][args[1]]
    found = scalars.applied(graph, "condition", scalars.word_of(target), args)
    if found is not None:
        return found
    raise ConversionError(
        f"node '{node.name}' is a condition over symbolic sizes ({node.meta['val']}) that is not "
        "a comparison; "
        "rewrite it as one, or make the sizes static"
    )


def static_value(value: Any) -> Any:
    """The Python value of a symbolic bool or float that torch has already decided; None when it
    depends on sizes."""
    inner = getattr(value, "node", None)
    if inner is None:
        return value
    expression = inner.expr
    kind = type(expression).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return kind == "BooleanTrue"
    if isinstance(expression, (bool, float)):
        return expression
    if isinstance(value, torch.SymFloat) and getattr(expression, "is_number", False):
        return float(expression)
    return None
