"""Numbers of an FX graph. Integers that torch keeps as expressions need no node: the metadata says
what they are. Booleans over them become a comparison when something reads them. What only the
running model knows (floats over symbolic sizes, items of tensors) is a 0-d result, float64, int64
or bool as Python's; the graph remembers that it stands for a Python number, which has the lowest
priority in promotion."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from ortable import dims, dtypes
from ortable.compat.torch import HigherOrderOperator, OpOverload, OpOverloadPacket
from ortable.errors import BuilderError, ConversionError
from ortable.ir import Graph
from ortable.prelude.metadata import default_float
from ortable.prelude.values import as_scalar, as_tensor, cast
from ortable_generated.aten import traits

_NUMBERS = frozenset({bool, int, float, dims.SymDim})
_DECIMALS = range(23)  # digits for which the power of ten is a float64
_SPLIT = 2.0**27 + 1


def adopt_number(graph: Graph, name: str, value: Any) -> str:
    """Remember that a 0-d result stands for the Python number ``value`` (a SymFloat or SymBool)."""
    kind = dtypes.float64 if isinstance(value, torch.SymFloat) else dtypes.boolean
    if graph.get_type(name) != kind:
        name = cast(graph, name, kind)
    else:  # the name may be that of a tensor, which is no number
        name = graph.make_node("Identity", [name])
    graph.numbers[name] = default_float() if kind == dtypes.float64 else kind
    return name


def as_tensor_argument(graph: Graph, target: Any, args: Sequence[Any]) -> Any:
    """The first argument of an operator: a number in the place of a tensor as a 0-d result, unless
    another argument is a tensor, to which operators adapt a number themselves. ``torch.vmap`` calls
    ``_to_copy(1, dtype=...)`` for the number of ``a + 1``."""
    first = args[0]
    if first.__class__ not in _NUMBERS or any(other.__class__ is str for other in args[1:]):
        return first
    parameters = target._schema.arguments
    if not parameters or not isinstance(parameters[0].type, torch.TensorType):
        return first
    if isinstance(first, dims.SymDim):
        return as_scalar(graph, first)
    return as_tensor(graph, first)


def compute_number(graph: Graph, node: Node, args: Sequence[Any]) -> str:
    """The number that a Python function on numbers gives, as a 0-d result of float64 or int64.

    Raises ConversionError for a function without an ONNX form.
    """
    target: Any = node.target
    if target is operator.getitem:
        return as_number(graph, args[0][args[1]])
    word, value = word_of(target), node.meta["val"]
    result = None
    if word == "round" and len(args) == 2 and args[1] in _DECIMALS:
        x = cast(graph, as_number(graph, args[0]), dtypes.float64)
        result = _to_decimals(graph, x, args[1])
    else:
        operands = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        operands = [item for item in operands if item is not None]
        result = apply_function(graph, "number", word, operands, isinstance(value, torch.SymFloat))
    if result is None:
        raise ConversionError(
            f"node '{node.name}' computes {node.meta.get('val')} from sizes by "
            f"'{getattr(target, '__name__', target)}', which has no ONNX form here; make the size "
            "static, or compute with tensors"
        )
    return cast(graph, result, _number_dtype(value))


def word_of(target: Any) -> str:
    """What a Python function is known by in the tables: ``sqrt`` for ``math.sqrt`` and for
    ``torch._sym_sqrt``."""
    return getattr(target, "__name__", "?").removeprefix("_").removeprefix("sym_")


def apply_function(
    graph: Graph, table: str, word: str, args: Sequence[Any], is_float: bool = False
) -> str | None:
    """What a ``number`` or a ``condition`` of the specs gives for these arguments; None where there
    is none for so many.

    ``is_float`` makes floats of its numbers, as one float among them does.
    """
    from ortable_generated.aten import dispatch

    functions = dispatch.NUMBERS if table == "number" else dispatch.CONDITIONS
    parameters = dispatch.PARAMETERS.get(f"{table} {word}", "")
    folds = parameters == "nn+"
    if folds:
        parameters = "n" * len(args)
    if not args or len(parameters) != len(args):
        return None
    function = functions[word]
    operands = [as_number(graph, arg) for arg in args]
    numbers = [name for name, item in zip(operands, parameters, strict=True) if item != "b"]
    kinds = {graph.get_type(name) for name in numbers}
    if is_float or len(kinds) > 1:
        kind = dtypes.float64 if is_float or dtypes.float64 in kinds else dtypes.int64
        operands = [
            name if item == "b" else cast(graph, name, kind)
            for name, item in zip(operands, parameters, strict=True)
        ]
    if folds:
        return reduce(partial(function, graph), operands)
    return str(function(graph, *operands))


def _to_decimals(graph: Graph, x: str, digits: int) -> str:
    """Python's ``round(x, digits)`` of a float64: the nearest decimal of the exact value.

    The product with the power of ten is rounded; where it ends at a tie, what rounding took away
    tells the side (Dekker's product, both factors split into halves of 26 bits).
    """
    power = 10.0**digits
    make, number = graph.make_node, partial(as_number, graph)
    high, halves = make("Mul", [x, number(_SPLIT)]), _SPLIT * power
    high = make("Sub", [high, make("Sub", [high, x])])
    low = make("Sub", [x, high])
    top = halves - (halves - power)
    product = make("Mul", [x, number(power)])
    lost = make("Sub", [make("Mul", [high, number(top)]), product])
    lost = make("Add", [lost, make("Mul", [high, number(power - top)])])
    lost = make("Add", [lost, make("Mul", [low, number(top)])])
    lost = make("Add", [lost, make("Mul", [low, number(power - top)])])
    below = make("Floor", [product])
    tie = make("Equal", [make("Sub", [product, below]), number(0.5)])
    up = make("And", [tie, make("Greater", [lost, number(0.0)])])
    down = make("And", [tie, make("Less", [lost, number(0.0)])])
    whole = make("Where", [up, make("Add", [below, number(1.0)]), make("Round", [product])])
    return make("Div", [make("Where", [down, below, whole]), number(power)])


def as_number(graph: Graph, value: Any) -> str:
    """A number, a dimension or a result as a 0-d result of its own dtype."""
    if isinstance(value, dims.SymDim):
        return as_scalar(graph, value)
    if isinstance(value, (bool, int, float)):
        return graph.make_initializer("", np.array(value))
    return value


def _number_dtype(value: Any) -> int:
    if isinstance(value, torch.SymFloat):
        return dtypes.float64
    return dtypes.boolean if isinstance(value, torch.SymBool) else dtypes.int64


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


def convert_number(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: Mapping[str, str] | None
) -> Any:
    """What a Python operator on numbers became: metadata has the value, only conditions may need
    nodes.

    Raises ConversionError for a float or a condition over symbolic sizes that has no ONNX form.
    """
    if isinstance(value, torch.SymInt):
        return convert_integer(graph, node, value, args, rename)
    if isinstance(value, torch.SymBool):
        return symbolic_bool(graph, node, args)
    if isinstance(value, torch.SymFloat):
        static = static_value(value)
        if static is not None or only_assertions(node):
            return static
        return adopt_number(graph, compute_number(graph, node, args), value)
    return value


def convert_integer(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: Mapping[str, str] | None
) -> Any:
    """An integer: the dimension that metadata spells out, or one that nodes compute when it is made
    by a function that dimensions do not know."""
    try:
        dim = dims.from_torch(value, rename)
    except BuilderError:
        dim = None
    if dim is not None and (isinstance(dim, int) or graph.materializer.can_compute(dim, True)):
        return dim
    if node.target is operator.getitem or only_assertions(node):
        return dim
    result = compute_number(graph, node, args)
    if dim is None:
        dim = dims.make_symbol(graph.unique_name(f"dim_{node.name}"))
    graph.add_dim_source(dim, result, None)
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
    result = apply_function(graph, "condition", word_of(target), args)
    if result is not None:
        return result
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
