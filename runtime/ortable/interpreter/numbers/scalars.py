"""Numbers that only the running model knows: floats over symbolic sizes, items of tensors, integers
that are no polynomial. Each is a 0-d result, float64, int64 or bool as Python's; the graph
remembers that it stands for a Python number, which has the lowest priority in promotion."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from ortable import dims, dtypes
from ortable.errors import ConversionError
from ortable.ir import Graph
from ortable.lowerings.bits import shifted_left, shifted_right
from ortable.lowerings.pointwise import floor_quotient, remainder_of
from ortable.prelude.metadata import default_float
from ortable.prelude.values import as_scalar, as_tensor, cast

_NUMBERS = frozenset({bool, int, float, dims.SymDim})
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "max": "Max", "min": "Min"}
_FLOATS = {"truediv": "Div", "pow": "Pow", "float_pow": "Pow"}
_UNARY = {"neg": "Neg", "abs": "Abs", "pos": "Identity"}
_FUNCTIONS = {
    "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asin": "Asin", "acos": "Acos", "atan": "Atan",
}  # fmt: skip
_DECIMALS = range(23)  # digits for which the power of ten is a float64
_SPLIT = 2.0**27 + 1
_ROUNDING = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}
_BITS = {"and_": "BitwiseAnd", "or_": "BitwiseOr", "xor": "BitwiseXor"}
_SHIFTS = {"lshift": shifted_left, "rshift": shifted_right}
_DIVISIONS = {"floordiv": floor_quotient, "mod": remainder_of}


def adopt(graph: Graph, name: str, value: Any) -> str:
    """Remember that a 0-d result stands for the Python number ``value`` (a SymFloat or SymBool)."""
    kind = dtypes.float64 if isinstance(value, torch.SymFloat) else dtypes.boolean
    if graph.get_type(name) != kind:
        name = cast(graph, name, kind)
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


def computed(graph: Graph, node: Node, args: Sequence[Any]) -> str:
    """The number that a Python function on numbers gives, as a 0-d result of float64 or int64.

    Raises ConversionError for a function without an ONNX form.
    """
    target: Any = node.target
    word = getattr(target, "__name__", "?").removeprefix("_").removeprefix("sym_")
    if target is operator.getitem:
        return as_number(graph, args[0][args[1]])
    if word == "sum":
        args = args[0]
    if word == "ite":
        chosen = alike(graph, args[1:])
        return graph.make_node("Where", [as_number(graph, args[0]), *chosen])
    found = [as_number(graph, arg) for arg in args if arg is not None]
    floats = any(graph.get_type(name) == dtypes.float64 for name in found)
    if isinstance(node.meta["val"], torch.SymFloat) or floats:
        found = [cast(graph, name, dtypes.float64) for name in found]
    decimals = word == "round" and len(args) == 2 and args[1] in _DECIMALS
    made = _to_decimals(graph, found[0], args[1]) if decimals else _made(graph, word, found)
    if made is None:
        raise ConversionError(
            f"node '{node.name}' computes {node.meta.get('val')} from sizes by "
            f"'{getattr(target, '__name__', target)}', which has no ONNX form here; make the size "
            "static, or compute with tensors"
        )
    return cast(graph, made, _kind(node.meta["val"]))


def _made(graph: Graph, word: str, found: list[str]) -> str | None:
    make = graph.make_node
    if word == "sum" or word in _BINARY:
        total = found[0]
        for name in found[1:]:
            total = make(_BINARY.get(word, "Add"), [total, name])
        return total
    if word in _FLOATS:
        return make(_FLOATS[word], [cast(graph, name, dtypes.float64) for name in found])
    if word in _UNARY:
        return make(_UNARY[word], found)
    if word in ("float", "int", "trunc"):
        return cast(graph, found[0], dtypes.float64 if word == "float" else dtypes.int64)
    if word in _FUNCTIONS:
        return make(_FUNCTIONS[word], [cast(graph, found[0], dtypes.float64)])
    if word in _ROUNDING and len(found) == 1:
        return make(_ROUNDING[word], [cast(graph, found[0], dtypes.float64)])
    if word in _BITS:
        return make(_BITS[word], found)
    if word in _SHIFTS or word in _DIVISIONS:
        return (_SHIFTS.get(word) or _DIVISIONS[word])(graph, *found)
    return None


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


def alike(graph: Graph, values: Sequence[Any]) -> list[str]:
    """Numbers as results of one dtype."""
    found = [as_number(graph, value) for value in values]
    kinds = {graph.get_type(name) for name in found}
    return found if len(kinds) == 1 else [cast(graph, name, dtypes.float64) for name in found]


def as_number(graph: Graph, value: Any) -> str:
    """A number, a dimension or a result as a 0-d result of its own dtype."""
    if isinstance(value, dims.SymDim):
        return as_scalar(graph, value)
    if isinstance(value, (bool, int, float)):
        return graph.make_initializer("", np.array(value))
    return value


def _kind(value: Any) -> int:
    if isinstance(value, torch.SymFloat):
        return dtypes.float64
    return dtypes.boolean if isinstance(value, torch.SymBool) else dtypes.int64
