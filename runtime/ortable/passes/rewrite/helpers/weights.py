"""Helpers of the rules that compute new weights.

They find constants that may be replaced and constants that vary along one axis only, and compute
the new weights. Called by rules of convolution, linear and normalization.
"""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.passes.analysis.weights import is_weight
from ortable.prelude.facts import Bool, Int, Result, Results
from ortable.prelude.values import consts

__all__ = [
    "are_weights",
    "as_vector_of",
    "broadcasts_along",
    "scaled_weight",
    "shifted_bias",
]


# -- replaceable constants


def are_weights(graph: Graph, xs: Results) -> Bool:
    """Whether each result is omitted or a constant that a stored value may replace.

    The constant and all constants it derives from are float32, float64 or int64, and a large
    constant has a single reader.
    """
    return all(not x or is_weight(graph, x) for x in xs)


# -- constants along one axis


def broadcasts_along(graph: Graph, c: Result, x: Result, axis: Int) -> Bool:
    """Whether a replaceable constant has one element, or varies only along this axis of ``x``."""
    if not (is_weight(graph, c) and graph.has_shape(x) and graph.has_shape(c)):
        return False
    x_shape, constant_shape = list(graph.get_shape(x)), list(graph.get_shape(c))
    if len(constant_shape) > len(x_shape):
        return False
    padded_shape = [1] * (len(x_shape) - len(constant_shape)) + constant_shape
    index = axis % len(x_shape) if x_shape else 0
    for position, (size, expected) in enumerate(zip(padded_shape, x_shape, strict=True)):
        if not dims.always_equal(size, 1) and not (
            position == index and dims.always_equal(size, expected)
        ):
            return False
    return True


def as_vector_of(graph: Graph, c: Result, count: Int) -> Result:
    """Return a constant that varies along one axis, or a number, as a vector of ``count``."""
    values = small_constant(graph, c)
    if values is not None:
        vector = np.broadcast_to(values.reshape(-1), (count,))
        return graph.make_initializer("", np.ascontiguousarray(vector))
    size = dims.product_of(graph.get_shape(c))
    flat = c
    if graph.get_rank(c) != 1:
        flat = graph.make_node("Reshape", [c, consts(graph, [-1], dtypes.int64)])
    if size == count:
        return flat
    return graph.make_node("Expand", [flat, consts(graph, [count], dtypes.int64)])


# -- products


def scaled_weight(graph: Graph, w: Result, factor: Result, axis: Int) -> Result:
    """Return the weight times a factor of rank 1 along one of its axes, as ``<name>_scaled``."""
    trailing = graph.get_rank(w) - 1 - axis
    if trailing and graph.get_shape(factor) != (1,):
        values = small_constant(graph, factor) if factor in graph.initializers_dict else None
        if values is not None:
            factor = graph.make_initializer("", values.reshape(-1, *[1] * trailing))
        else:
            axes = consts(graph, list(range(1, trailing + 1)), dtypes.int64)
            factor = graph.make_node("Unsqueeze", [factor, axes])
    return graph.make_node("Mul", [w, factor], [_derived_name(graph, w, "_scaled")])


def shifted_bias(graph: Graph, b: Result, factor: Result | None, shift: Result | None) -> Result:
    """Return the bias times a factor plus a shift, as ``<name>_moved``; None omits one of both."""
    if factor and shift:
        b = graph.make_node("Mul", [b, factor])
    op, operand = ("Add", shift) if shift else ("Mul", factor)
    return graph.make_node(op, [b, operand], [_derived_name(graph, shift or b, "_moved")])


def _derived_name(graph: Graph, name: str, suffix: str) -> str:
    """Return a name derived from the weight's name, so that users recognize it in the file."""
    return graph.unique_name(name if name.endswith(suffix) else f"{name}{suffix}")
