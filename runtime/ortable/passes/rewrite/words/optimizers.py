"""Words of the rules that keep ONNX Runtime's optimizers from changing what a graph means
(specs/rewrites/optimizers.yaml): which constants they round, and which products they reach."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Int, Result, float32_holds

from .common import number_of

__all__ = ["is_rounded_in_float32", "is_zero_in_float32", "with_axes"]

_PRODUCTS = ("MatMul", "FusedMatMul")


def is_zero_in_float32(graph: Graph, c: Result) -> Bool:
    """Whether a constant of one element is 0, or so small that float32 has 0 for it."""
    value = number_of(graph, c)
    return not math.isnan(value) and bool(np.float32(value) == 0)


def is_rounded_in_float32(graph: Graph, c: Result, x: Result, scaled: Result) -> Bool:
    """Whether a constant of one element is a float64 that changes as a float32, where that
    matters: ``scaled``, which is ``x`` times or over it, is a product of matrices, or one reads it,
    or the number would be 1."""
    if not graph.has_type(x) or graph.get_type(x) != dtypes.float64:
        return False
    value = number_of(graph, c)
    if float32_holds(value):
        return False
    with np.errstate(over="ignore"):
        is_one = np.float32(value) == 1
    return bool(is_one) or _is_product(graph, x) or _feeds_product(graph, scaled)


def _is_product(graph: Graph, x: Result) -> bool:
    value = graph.values.get(x)
    node = None if value is None else value.producer
    return node is not None and node.op_type in _PRODUCTS


def _feeds_product(graph: Graph, x: Result) -> bool:
    """Whether a product reads a result, transposed or not."""
    for node in graph.uses(x):
        moved = graph.uses(node.outputs[0]) if node.op_type == "Transpose" else ()
        if any(each.op_type in _PRODUCTS for each in (node, *moved)):
            return True
    return False


def with_axes(graph: Graph, c: Result, rank: Int) -> Result:
    """A constant of one element, with so many axes."""
    array = small_constant(graph, c)
    assert array is not None
    return graph.make_initializer("", array.reshape([1] * rank))
