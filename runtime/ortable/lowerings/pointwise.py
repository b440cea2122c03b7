"""Words of single pointwise operators: divisions and remainders, integer powers, isclose,
activations, and facts about numbers.

Each follows torch's CPU kernel where ONNX has no operator, or one that rounds or treats NaN
differently. In come results and numbers, out goes a fact or the name of a result. Called by
generated converters of unary, binary and division operators, and by `interpreter` for divisions of
numbers."""

from __future__ import annotations

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Int, Result
from ortable.prelude.pointwise import (
    const_like,
    filled_like,
    log1p_of,
    signs_differ,
    trap_free_divisor,
    truncated_remainder,
)
from ortable.prelude.promotion import opmath
from ortable.prelude.values import cast

__all__ = [
    "expm1_of",
    "fmod_of",
    "int_power",
    "is_nan",
    "remainder_of",
    "sinh_of",
    "softplus_of",
]


def is_nan(graph: Graph, x: Result | None) -> Bool:
    """True for a constant of one element that is NaN; False for None."""
    if x is None or not graph.is_constant(x):
        return False
    array = graph.get_constant(x)
    return array.size == 1 and bool(np.isnan(array.astype(np.float64)).item())


def softplus_of(graph: Graph, x: Result) -> Result:
    """``log(1 + exp(x))``, written out: ONNX Runtime's Softplus takes three times as long, and has
    no kernel for float64."""
    make = graph.make_node
    positive = make("Max", [x, const_like(graph, 0, x)])
    return make("Add", [positive, log1p_of(graph, make("Exp", [make("Neg", [make("Abs", [x])])]))])


def fmod_of(graph: Graph, a: Result, b: Result) -> Result:
    """``a`` modulo ``b`` with the sign of ``a``, both of one dtype."""
    if dtypes.is_float_type(graph.get_type(a)):
        return graph.make_node("Mod", [a, b], fmod=1)
    safe, _ = trap_free_divisor(graph, b)  # nothing is left by 1, as by -1
    return truncated_remainder(graph, a, safe, graph.make_node("Div", [a, safe]))


def remainder_of(graph: Graph, a: Result, b: Result) -> Result:
    """``a`` modulo ``b`` with the sign of ``b``, both of one dtype."""
    dtype = graph.get_type(a)
    if not dtypes.is_float_type(dtype):
        return graph.make_node("Mod", [a, trap_free_divisor(graph, b)[0]])
    a, b = opmath(graph, a), opmath(graph, b)
    rest = graph.make_node("Mod", [a, b], fmod=1)
    moved = graph.make_node("Add", [rest, b])
    return cast(graph, graph.make_node("Where", [signs_differ(graph, rest, b), moved, rest]), dtype)


def int_power(graph: Graph, x: Result, times: Int) -> Result:
    """``x`` to a known power >= 0 by repeated squaring.

    Exact for ints, where ONNX Runtime's Pow goes through double.
    """
    if times == 0:
        return filled_like(graph, x, 1, graph.get_type(x))
    result: str | None = None
    while times:
        if times & 1:
            result = x if result is None else graph.make_node("Mul", [result, x])
        times >>= 1
        x = graph.make_node("Mul", [x, x]) if times else x
    assert result is not None
    return result


def expm1_of(graph: Graph, x: Result) -> Result:
    """``exp(x) - 1`` without cancellation near 0: 2t / (1 - t) with t = tanh(x / 2)."""
    make, one = graph.make_node, const_like(graph, 1, x)
    t = make("Tanh", [make("Mul", [x, const_like(graph, 0.5, x)])])
    near = make("Div", [make("Add", [t, t]), make("Sub", [one, t])])
    # ONNX Runtime's Where keeps the sign of 0 of its second choice alone
    return make("Where", [make("Greater", [x, one]), make("Sub", [make("Exp", [x]), one]), near])


def sinh_of(graph: Graph, x: Result) -> Result:
    """The hyperbolic sine; written out for float64, for which ONNX Runtime has no kernel: near 0 by
    e = exp(x) - 1 as (e + e / (e + 1)) / 2."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Sinh", [x])
    one = const_like(graph, 1, x)
    grown = expm1_of(graph, x)
    near = make("Add", [grown, make("Div", [grown, make("Add", [grown, one])])])
    far = make("Sub", [make("Exp", [x]), make("Exp", [make("Neg", [x])])])
    large = make("GreaterOrEqual", [make("Abs", [x]), one])
    return make("Mul", [make("Where", [large, far, near]), const_like(graph, 0.5, x)])
