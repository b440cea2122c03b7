"""Lower-case words of the rules that make convolutions of linear layers for ONNX Runtime."""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.sources import maker_of
from ortable.prelude.facts import Bool, Int, Result, is_constant, is_static, shape_of
from ortable.prelude.values import consts

from .common import is_float32, known_rank

__all__ = ["as_filters", "as_image", "as_made", "is_linear_of_rows", "is_row"]

_ROWS = range(32, 1025)  # what was measured
_WIDEST = 8192  # a wider product, of words, is slower as a convolution
_BLOCK = 16  # channels that the kernels take together


def is_linear_of_rows(graph: Graph, x: Result, weight: Result, turned: Bool) -> Bool:
    """Whether the rows of ``x`` go through a constant float32 matrix, [K, N] or (``turned``)
    [N, K], of sizes for which ONNX Runtime's convolutions are faster than its products."""
    if not (is_float32(graph, x) and is_float32(graph, weight) and is_constant(graph, weight)):
        return False
    if known_rank(graph, x) < 2 or known_rank(graph, weight) != 2 or not graph.has_shape(x):
        return False
    sizes = [*shape_of(graph, x), *shape_of(graph, weight)]
    if not is_static(sizes):
        return False
    blocks = all(size % _BLOCK == 0 and size <= _WIDEST for size in shape_of(graph, weight))
    return blocks and math.prod(shape_of(graph, x)[:-1]) in _ROWS


def is_row(graph: Graph, bias: Result | None, weight: Result, axis: Int) -> Bool:
    """Whether a bias has one number for each place of an axis of the weight; true without one."""
    if bias is None:
        return True
    known = is_float32(graph, bias) and graph.has_shape(bias)
    return known and tuple(shape_of(graph, bias)) == (shape_of(graph, weight)[axis],)


def as_image(graph: Graph, x: Result) -> Result:
    """Rows [..., K] as an image [1, K, M, 1] of M places."""
    width = shape_of(graph, x)[-1]
    image = consts(graph, [1, -1, 1, width], dtypes.int64)
    before = maker_of(graph, x, "Reshape")  # of the same numbers in the same order
    flat = graph.make_node("Reshape", [x if before is None else before.inputs[0], image])
    return graph.make_node("Transpose", [flat], perm=[0, 3, 1, 2])


def as_filters(graph: Graph, weight: Result, turned: Bool) -> Result:
    """A matrix as filters [N, K, 1, 1]."""
    matrix = weight if turned else graph.make_node("Transpose", [weight], perm=[1, 0])
    return graph.make_node("Unsqueeze", [matrix, consts(graph, [2, 3], dtypes.int64)])


def as_made(graph: Graph, active: Result, x: Result) -> Result:
    """The activation that made a result, of another one."""
    node = graph.values[active].producer
    return graph.make_node(node.op_type, [x, *node.inputs[1:]], domain=node.domain, **node.attrs)
