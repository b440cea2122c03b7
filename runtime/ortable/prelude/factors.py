"""Lower-case words of the spec language for the numbers that operators take besides tensors:
factors and epsilons, which ONNX keeps in attributes, float32 whatever the tensors are; NaN bounds.
"""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph

from .facts import Bool, Result, Scalar, SymInts, dtype_of
from .values import as_vec, const, filled

__all__ = [
    "fits_attribute",
    "float32_holds",
    "is_nan",
    "is_wide",
    "with_epsilon",
    "without_product",
]


def fits_attribute(graph: Graph, value: Scalar, x: Result) -> Bool:
    """True when a float32 attribute holds a number as exactly as ``x`` computes with it."""
    return dtype_of(graph, x) != dtypes.float64 or float32_holds(float(value))


def float32_holds(value: float) -> bool:
    """True for a number that float32 has; NaN and infinities are among them."""
    with np.errstate(over="ignore"):
        return not math.isfinite(value) or float(np.float32(value)) == value


def is_nan(graph: Graph, x: Result | None) -> Bool:
    """True for a constant of one element that is NaN; False for None."""
    if x is None or not graph.is_constant(x):
        return False
    array = graph.get_constant(x)
    return array.size == 1 and bool(np.isnan(array.astype(np.float64)).item())


def with_epsilon(graph: Graph, variance: Result, eps: Scalar) -> tuple[Result, float]:
    """[variance, epsilon] for a BatchNormalization: an epsilon that its attribute cannot hold is
    added to the variance instead."""
    if fits_attribute(graph, eps, variance):
        return variance, eps
    dtype = graph.get_type(variance)
    return graph.make_node("Add", [variance, const(graph, eps, dtype)]), 0.0


def is_wide(graph: Graph, x: Result) -> Bool:
    """True for float32 and float64: in a narrower type, two roundings instead of one are more than
    rounding."""
    return graph.has_type(x) and graph.get_type(x) in (dtypes.float32, dtypes.float64)


def without_product(graph: Graph, x: Result, beta: Scalar, sizes: SymInts) -> Result:
    """``beta * x + 0 * product`` of these sizes as torch computes it, without the product; zeros
    where beta is 0, too."""
    if beta == 0:
        return filled(graph, sizes, 0, graph.get_type(x))
    factor = const(graph, beta, graph.get_type(x))
    return graph.make_node("Expand", [graph.make_node("Mul", [x, factor]), as_vec(graph, sizes)])
