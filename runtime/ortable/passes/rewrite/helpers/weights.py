"""Helpers of the rules that compute new weights: which constants may be replaced, which vary
along one axis only, and the new weights. Called by rules of convolution, linear and
normalization.
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


# -- which may be computed anew


def are_weights(graph: Graph, xs: Results) -> Bool:
    """Whether each result is left out or a constant that may be replaced by a stored one computed
    from it: float32 or float64 down to the initializers, and read by one node if it is large.
    """
    return all(not x or is_weight(graph, x) for x in xs)


# -- constants along one axis


def broadcasts_along(graph: Graph, c: Result, x: Result, axis: Int) -> Bool:
    """Whether a constant is one number, or one for each index along an axis of ``x``, and
    broadcasts with ``x`` to the shape of ``x``.
    """
    if not (is_weight(graph, c) and graph.has_shape(x) and graph.has_shape(c)):
        return False
    own, other = list(graph.get_shape(x)), list(graph.get_shape(c))
    if len(other) > len(own):
        return False
    full = [1] * (len(own) - len(other)) + other
    index = axis % len(own) if own else 0
    for position, (size, expected) in enumerate(zip(full, own, strict=True)):
        if not dims.always_equal(size, 1) and not (
            position == index and dims.always_equal(size, expected)
        ):
            return False
    return True


def as_vector_of(graph: Graph, c: Result, count: Int) -> Result:
    """A constant of ``count`` elements along one axis, or of one element, as a vector of
    ``count``.
    """
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
    """The weight times a factor of rank 1 along one of its axes, ``<name>_scaled``."""
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
    """The bias times a factor plus a shift, either of which may be left out: ``<name>_moved``."""
    if factor and shift:
        b = graph.make_node("Mul", [b, factor])
    op, other = ("Add", shift) if shift else ("Mul", factor)
    return graph.make_node(op, [b, other], [_derived_name(graph, shift or b, "_moved")])


def _derived_name(graph: Graph, name: str, suffix: str) -> str:
    """A name derived from the weight's, so that users find it in the file."""
    return graph.unique_name(name if name.endswith(suffix) else f"{name}{suffix}")
