"""Lower single pointwise operators: remainders, integer powers, and a NaN test of constants.

Each lowering follows torch's CPU kernel where ONNX has no operator, or an operator that rounds or
treats NaN differently. `remainder_of` also lowers Python's % of numbers known only at run time.
"""

from __future__ import annotations

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Int, Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import (
    filled_like,
    signs_differ,
    trap_free_divisor,
    truncated_remainder,
)
from ortable.prelude.promotion import opmath
from ortable.prelude.values import cast

__all__ = [
    "fmod_of",
    "int_power",
    "is_nan",
    "remainder_of",
]


def is_nan(graph: Graph, x: Result | None) -> Bool:
    """Whether ``x`` is a constant of one element that is NaN."""
    if x is None or not graph.is_constant(x):
        return False
    array = graph.get_constant(x)
    return array.size == 1 and bool(np.isnan(array.astype(np.float64)).item())


def fmod_of(graph: Graph, a: Result, b: Result) -> Result:
    """Return ``a`` modulo ``b`` with the sign of ``a``; both have one dtype."""
    op = OpBuilder(graph)
    if dtypes.is_float_type(graph.get_type(a)):
        return op.Mod(a, b, fmod=1)
    safe, _ = trap_free_divisor(graph, b)  # 1 replaces -1: both leave the remainder 0
    return truncated_remainder(graph, a, safe, op.Div(a, safe))


def remainder_of(graph: Graph, a: Result, b: Result) -> Result:
    """Return ``a`` modulo ``b`` with the sign of ``b``; both have one dtype."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if not dtypes.is_float_type(dtype):
        return op.Mod(a, trap_free_divisor(graph, b)[0])
    a, b = opmath(graph, a), opmath(graph, b)
    remainder = op.Mod(a, b, fmod=1)
    shifted = op.Add(remainder, b)
    return cast(graph, op.Where(signs_differ(graph, remainder, b), shifted, remainder), dtype)


def int_power(graph: Graph, x: Result, times: Int) -> Result:
    """Return ``x`` to a known power >= 0; exact for ints, unlike ONNX Runtime's Pow."""
    op = OpBuilder(graph)
    if times == 0:
        return filled_like(graph, x, 1, graph.get_type(x))
    result: str | None = None
    while times:
        if times & 1:
            result = x if result is None else op.Mul(result, x)
        times >>= 1
        x = op.Mul(x, x) if times else x
    assert result is not None
    return result
