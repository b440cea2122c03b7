"""Integers that torch keeps as expressions: FX metadata already says what they are, so no node is
emitted for them. Booleans over them become a comparison of dimensions when something reads them;
floats over them are refused by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from .. import dims
from ..errors import ConversionError
from .tables import ASSERTIONS, SYMBOLIC_SIZES

_COMPARISONS: dict[Any, tuple[str, bool]] = {
    operator.eq: ("Equal", False),
    operator.ne: ("Equal", True),
    operator.lt: ("Less", False),
    operator.le: ("LessOrEqual", False),
    operator.gt: ("Greater", False),
    operator.ge: ("GreaterOrEqual", False),
}
_LOGIC: dict[Any, str] = {operator.and_: "And", operator.or_: "Or"}
_NEGATIONS = frozenset({torch.sym_not, operator.not_})


def is_size_target(target: Any) -> bool:
    """True for a Python function on integers, and for the ATen operators that read a size."""
    if isinstance(target, torch._ops.OpOverload):
        return target.name() in SYMBOLIC_SIZES
    return not isinstance(target, (torch._ops.HigherOrderOperator, torch._ops.OpOverloadPacket))


def only_assertions(node: Node) -> bool:
    """True when nothing but torch's run-time checks reads ``node``, directly or through other
    conditions."""
    for user in node.users:
        target = user.target
        if isinstance(target, torch._ops.OpOverload):
            if target.name() not in ASSERTIONS:
                return False
        elif (
            user.op != "call_function"
            or not isinstance(user.meta.get("val"), (torch.SymBool, bool))
            or not only_assertions(user)
        ):
            return False
    return True


def number(
    builder: Any, node: Node, value: Any, args: list[Any], rename: Mapping[str, str] | None
) -> Any:
    """What a Python operator on numbers became: metadata has the value, only conditions may need
    nodes.

    Raises ConversionError for a float or a condition over symbolic sizes that has no ONNX form.
    """
    if isinstance(value, torch.SymInt):
        return dims.from_torch(value, rename)
    if isinstance(value, torch.SymBool):
        return symbolic_bool(builder, node, args)
    if isinstance(value, torch.SymFloat):
        static = static_value(value)
        if static is None and not only_assertions(node):
            raise refuse_float(node)
        return static
    return value


def symbolic_bool(builder: Any, node: Node, args: list[Any]) -> Any:
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
    if target in _COMPARISONS:
        op_type, negate = _COMPARISONS[target]
        compared = builder.make_node(op_type, [scalar(builder, arg) for arg in args])
        return builder.make_node("Not", [compared]) if negate else compared
    if target in _LOGIC:
        return builder.make_node(_LOGIC[target], [truth(builder, arg) for arg in args])
    if target in _NEGATIONS:
        return builder.make_node("Not", [truth(builder, args[0])])
    raise ConversionError(
        f"node '{node.name}' is a condition over symbolic sizes ({node.meta['val']}) that is not "
        "a comparison; "
        "rewrite it as one, or make the sizes static"
    )


def refuse_float(node: Node) -> ConversionError:
    """The error for a float computed from symbolic sizes."""
    return ConversionError(
        f"node '{node.name}' computes the float {node.meta.get('val')} from symbolic sizes, which "
        "has no ONNX form here; "
        "make the size static, or compute with integers or tensors"
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


def scalar(builder: Any, value: Any) -> str:
    """An int, a dimension or a result as a 0-d int64 result."""
    import numpy as np

    if isinstance(value, int):
        return builder.make_initializer("", np.array(value, dtype=np.int64))
    if isinstance(value, dims.SymDim):
        axes = builder.make_initializer("", np.array([0], dtype=np.int64))
        return builder.make_node("Squeeze", [builder.dim_as_vector(value), axes])
    return value


def truth(builder: Any, value: Any) -> str:
    """A bool or a bool result as a 0-d bool result."""
    import numpy as np

    return builder.make_initializer("", np.array(value)) if isinstance(value, bool) else value
