"""Convert Python numbers of an FX graph.

Symbolic integers become dimensions, and conditions on them become nodes that compare them, unless
only run-time checks use the conditions. Floats of symbolic sizes (``n ** 0.5``), and floats and
bools that are items of tensors, become 0-d results of float64 or bool. ``graph.numbers`` records
that these represent Python numbers, which have the lowest priority in type promotion.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
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
_DECIMALS = range(23)  # numbers of digits n for which float64 represents 10**n exactly
_SPLIT = 2.0**27 + 1  # factor with which Dekker's algorithm splits a float64 into two halves


def adopt_number(graph: Graph, name: str, value: Any) -> str:
    """Record that a 0-d result represents a Python float or bool, and return a copy to use for it.

    ``value`` is the SymFloat or SymBool; the copy has the dtype float64 or bool. In type promotion
    a float counts as torch's default dtype.
    """
    dtype = dtypes.float64 if isinstance(value, torch.SymFloat) else dtypes.boolean
    if graph.get_type(name) != dtype:
        name = cast(graph, name, dtype)
    else:  # a new name, because `name` may also be used as a tensor, which is not a number
        name = graph.make_node("Identity", [name])
    graph.numbers[name] = default_float() if dtype == dtypes.float64 else dtype
    return name


def as_tensor_argument(graph: Graph, target: Any, args: Sequence[Any]) -> Any:
    """Return the first argument of an operator; a number for a tensor becomes a 0-d result.

    For example, ``torch.vmap`` calls ``_to_copy(1, dtype=...)`` for ``a + 1``. If another argument
    is a tensor, the number is returned unchanged, because converters adapt numbers to tensors.
    """
    argument = args[0]
    if argument.__class__ not in _NUMBERS or any(arg.__class__ is str for arg in args[1:]):
        return argument
    parameters = target._schema.arguments
    if not parameters or not isinstance(parameters[0].type, torch.TensorType):
        return argument
    if isinstance(argument, dims.SymDim):
        return as_scalar(graph, argument)
    return as_tensor(graph, argument)


def compute_number(graph: Graph, node: Node, args: Sequence[Any]) -> str:
    """Add nodes that compute a node's Python function of numbers, and return their 0-d result.

    The dtype is float64, bool or int64, as the node's value in metadata. Raises ConversionError if
    the function has no ONNX form.
    """
    target: Any = node.target
    if target is operator.getitem:
        return make_number_result(graph, args[0][args[1]])
    function_key, value = function_key_of(target), node.meta["val"]
    result = None
    if function_key == "round" and len(args) == 2 and args[1] in _DECIMALS:
        number = cast(graph, make_number_result(graph, args[0]), dtypes.float64)
        result = _round_to_decimals(graph, number, args[1])
    else:
        operands = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        operands = [operand for operand in operands if operand is not None]
        result = apply_function(
            graph, "number", function_key, operands, isinstance(value, torch.SymFloat)
        )
    if result is None:
        raise ConversionError(
            f"node '{node.name}' computes {node.meta.get('val')} from sizes with "
            f"'{getattr(target, '__name__', target)}', which has no ONNX form; make the "
            "size static, or compute with tensors"
        )
    return cast(graph, result, _number_dtype(value))


def function_key_of(target: Any) -> str:
    """Return the name of a Python function in the specs: ``sqrt`` for ``torch._sym_sqrt``."""
    return getattr(target, "__name__", "?").removeprefix("_").removeprefix("sym_")


def apply_function(
    graph: Graph, table: str, function_key: str, args: Sequence[Any], is_float: bool = False
) -> str | None:
    """Apply the function that a ``number`` or ``condition`` entry of the specs defines.

    ``table`` is ``"number"`` or ``"condition"``. Numbers are cast to float64 if ``is_float`` is set
    or they have several dtypes with float64 among them; other mixtures are cast to int64. Returns
    None if the specs have no such function with this number of arguments.
    """
    from ortable_generated.aten import dispatch

    functions = dispatch.NUMBERS if table == "number" else dispatch.CONDITIONS
    parameters = dispatch.PARAMETERS.get(f"{table} {function_key}", "")
    is_fold = parameters == "nn+"  # applied from left to right, as in min(min(a, b), c)
    if is_fold:
        parameters = "n" * len(args)
    if not args or len(parameters) != len(args):
        return None
    function = functions[function_key]
    operands = [make_number_result(graph, arg) for arg in args]
    numbers = [name for name, letter in zip(operands, parameters, strict=True) if letter != "b"]
    number_dtypes = {graph.get_type(name) for name in numbers}
    if is_float or len(number_dtypes) > 1:
        dtype = dtypes.float64 if is_float or dtypes.float64 in number_dtypes else dtypes.int64
        operands = [
            name if letter == "b" else cast(graph, name, dtype)
            for name, letter in zip(operands, parameters, strict=True)
        ]
    if is_fold:
        return reduce(partial(function, graph), operands)
    return str(function(graph, *operands))


def _round_to_decimals(graph: Graph, value: str, digits: int) -> str:
    """Compute Python's ``round(value, digits)`` of a float64, which rounds the exact value.

    The product of ``value`` and the power of ten is rounded to an integer. If the product is a tie,
    its rounding error (computed by Dekker's product) decides the direction.
    """
    power = 10.0**digits
    make, number = graph.make_node, partial(make_number_result, graph)
    high, scaled_split = make("Mul", [value, number(_SPLIT)]), _SPLIT * power
    high = make("Sub", [high, make("Sub", [high, value])])
    low = make("Sub", [value, high])
    high_power = scaled_split - (scaled_split - power)
    product = make("Mul", [value, number(power)])
    rounding_error = make("Sub", [make("Mul", [high, number(high_power)]), product])
    rounding_error = make("Add", [rounding_error, make("Mul", [high, number(power - high_power)])])
    rounding_error = make("Add", [rounding_error, make("Mul", [low, number(high_power)])])
    rounding_error = make("Add", [rounding_error, make("Mul", [low, number(power - high_power)])])
    below = make("Floor", [product])
    is_tie = make("Equal", [make("Sub", [product, below]), number(0.5)])
    rounds_up = make("And", [is_tie, make("Greater", [rounding_error, number(0.0)])])
    rounds_down = make("And", [is_tie, make("Less", [rounding_error, number(0.0)])])
    rounded = make(
        "Where", [rounds_up, make("Add", [below, number(1.0)]), make("Round", [product])]
    )
    return make("Div", [make("Where", [rounds_down, below, rounded]), number(power)])


def make_number_result(graph: Graph, value: Any) -> str:
    """Return a number or a dimension as a 0-d result; return a result unchanged."""
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
    """Whether a target may return a size: any Python function, or an ATen operator for sizes."""
    if isinstance(target, OpOverload):
        return target.name() in traits.SIZE
    return not isinstance(target, (HigherOrderOperator, OpOverloadPacket))


def is_only_asserted(node: Node) -> bool:
    """Whether nothing but run-time checks of torch uses a node, also through other conditions.

    It holds for ``a >= 2`` in ``_assert_scalar(a >= 2)``, and for a node without users.
    """
    for user in node.users:
        target = user.target
        if isinstance(target, OpOverload):
            if target.name() not in traits.ASSERTION:
                return False
        elif (
            user.op != "call_function"
            or not isinstance(user.meta.get("val"), (torch.SymBool, bool))
            or not is_only_asserted(user)
        ):
            return False
    return True


def convert_number(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: dims.Names | None
) -> Any:
    """Convert a call of a Python function of numbers with the value ``value`` in metadata.

    Returns a number, a dimension, a 0-d result, or None if only run-time checks use the node.
    Raises ConversionError if a number that is not static has no ONNX form.
    """
    if isinstance(value, torch.SymInt):
        return convert_integer(graph, node, value, args, rename)
    if isinstance(value, torch.SymBool):
        return convert_condition(graph, node, args)
    if isinstance(value, torch.SymFloat):
        static = find_static_value(value)
        if static is not None or is_only_asserted(node):
            return static
        return adopt_number(graph, compute_number(graph, node, args), value)
    return value


def convert_integer(
    graph: Graph, node: Node, value: Any, args: list[Any], rename: dims.Names | None
) -> Any:
    """Convert a SymInt to a dimension; add nodes if it cannot be computed as a dimension.

    The result of the nodes becomes the source of the dimension. Returns None if only run-time
    checks use a SymInt that is no dimension.
    """
    try:
        dim = dims.from_torch(value, rename)
    except BuilderError:
        dim = None
    if dim is not None and (isinstance(dim, int) or graph.materializer.can_compute(dim, True)):
        return dim
    if node.target is operator.getitem or is_only_asserted(node):
        return dim
    result = compute_number(graph, node, args)
    if dim is None:
        dim = dims.make_symbol(graph.unique_name(f"dim_{node.name}"))
    graph.add_dim_source(dim, result, None)
    return dim


def convert_condition(graph: Graph, node: Node, args: list[Any]) -> Any:
    """Convert a condition on symbolic sizes to a bool if it is static, else to a 0-d bool result.

    Returns None if only run-time checks use the condition.

    Raises:
        ConversionError: the condition is neither a comparison nor a combination of comparisons.
    """
    static = find_static_value(node.meta["val"])
    if static is not None:
        return static
    if is_only_asserted(node):
        return None
    target = node.target
    if target is operator.getitem:
        return args[0][args[1]]
    result = apply_function(graph, "condition", function_key_of(target), args)
    if result is not None:
        return result
    raise ConversionError(
        f"node '{node.name}' is a condition over symbolic sizes ({node.meta['val']}) that is not "
        "a comparison; "
        "rewrite it as one, or make the sizes static"
    )


def find_static_value(value: Any) -> Any:
    """Return the value of a SymBool or SymFloat if it is static, or None if it depends on sizes."""
    sym_node = getattr(value, "node", None)
    if sym_node is None:
        return value
    expression = sym_node.expr
    expression_type = type(expression).__name__
    if expression_type in ("BooleanTrue", "BooleanFalse"):
        return expression_type == "BooleanTrue"
    if isinstance(expression, (bool, float)):
        return expression
    if isinstance(value, torch.SymFloat) and getattr(expression, "is_number", False):
        return float(expression)
    return None
