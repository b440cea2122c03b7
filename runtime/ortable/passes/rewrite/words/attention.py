"""Words of the rules about attention: shapes that the operator Attention takes."""

from __future__ import annotations

import math

from ortable import dims
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Float, Result
from ortable.prelude.values import permuted

from .common import number_of

__all__ = ["attention_factor", "is_attention", "is_attention_mask", "is_repeated", "turned_back"]

_TURNED = (0, 1, 3, 2)


def attention_factor(graph: Graph, factor: Result | None, divisor: Result | None) -> Float:
    """What products of queries and keys are multiplied by; NaN when it is no constant number."""
    if factor:
        return number_of(graph, factor)
    if not divisor:
        return 1.0
    number = number_of(graph, divisor)
    return 1 / number if number and math.isfinite(number) else float("nan")


def is_attention(graph: Graph, q: Result, keys: Result, v: Result) -> Bool:
    """Whether queries, transposed keys and values have rank 4 with one batch and as many heads."""
    if not all(graph.has_shape(each) and graph.get_rank(each) == 4 for each in (q, keys, v)):
        return False
    first, second, third = (graph.get_shape(each) for each in (q, keys, v))
    heads = type(first[1]) is int and first[1] == second[1] == third[1]
    return heads and dims.same(first[0], second[0]) and dims.same(first[0], third[0])


def is_attention_mask(graph: Graph, mask: Result | None, weights: Result) -> Bool:
    """Whether a mask stretches to the scores: over samples and heads only, as Attention wants it.
    True without a mask."""
    if not mask:
        return True
    if not (graph.has_shape(mask) and graph.has_shape(weights)):
        return False
    own, wanted = graph.get_shape(mask), graph.get_shape(weights)
    if not 2 <= len(own) <= 4 or not all(map(dims.same, own[-2:], wanted[-2:])):
        return False
    outer = zip(reversed(own[:-2]), reversed(wanted[:-2]), strict=False)
    return all(dims.same(a, 1) or dims.same(a, b) for a, b in outer)


def turned_back(graph: Graph, keys: Result) -> Result:
    """Keys with their features last: what a Transpose read, turned by another one if need be."""
    node = graph.values[keys].producer
    if node is None or node.op_type != "Transpose" or node.domain:
        return permuted(graph, keys, list(_TURNED))
    order = list(node.attrs["perm"])
    return permuted(graph, node.inputs[0], [order[axis] for axis in _TURNED])


def is_repeated(graph: Graph, x: Result, repeated: Result) -> Bool:
    """Whether each head of ``x`` stands several times in a row in ``repeated``, and nothing else
    is stretched."""
    if not (graph.has_shape(x) and graph.has_shape(repeated)):
        return False
    own, wanted = graph.get_shape(x), graph.get_shape(repeated)
    if len(own) != 4 or len(wanted) != 4 or type(own[1]) is not int or type(wanted[1]) is not int:
        return False
    rest = zip((own[0], *own[2:]), (wanted[0], *wanted[2:]), strict=True)
    return wanted[1] % own[1] == 0 and all(dims.same(a, b) for a, b in rest)
