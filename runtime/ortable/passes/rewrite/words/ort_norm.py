"""Lower-case words of the rules for ONNX Runtime's normalizations."""

from __future__ import annotations

from ortable import dims
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Result, dim_of

from .common import is_float32, known_rank

__all__ = ["is_last_axis", "scales_rows"]


def is_last_axis(graph: Graph, x: Result, axes: Result) -> Bool:
    """Whether the axes of a reduction are the last one of ``x`` alone."""
    given, rank = small_constant(graph, axes), known_rank(graph, x)
    return given is not None and rank > 0 and given.reshape(-1).tolist() in ([-1], [rank - 1])


def scales_rows(graph: Graph, weight: Result, x: Result) -> Bool:
    """Whether a float32 vector has one number for each place of the last axis of ``x``."""
    if not is_float32(graph, x) or not is_float32(graph, weight) or known_rank(graph, x) < 1:
        return False
    if not graph.has_shape(x) or not graph.has_shape(weight) or known_rank(graph, weight) != 1:
        return False
    return dims.same(dim_of(graph, weight, 0), dim_of(graph, x, -1))
