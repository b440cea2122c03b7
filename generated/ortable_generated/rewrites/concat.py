# Generated from specs/rewrites/concat.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.passes.rewrite.helpers.slices import concat_slices, flattened_concat, make_concat
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_concat_concat(m: Matcher, root: Node) -> Match | None:
    """return Concat(*xs, axis=axis)"""
    graph = m.graph
    if not m.plain(root, ('axis',)):
        return None
    axis = root.attrs.get('axis')
    xs = root.inputs[0:]
    inputs = flattened_concat(graph, xs, axis)
    if not len(inputs) > len(xs):
        m.refuse('len(inputs) > len(xs)')
        return None
    return Match((root,), (root.outputs[0],), (axis, inputs))


def make_concat_concat(graph: Graph, res: ResultSpec, axis: Any, inputs: Any) -> Any:
    return graph.make_node('Concat', [*inputs], res.outputs, axis=axis)


def match_concat_of_pieces(m: Matcher, root: Node) -> Match | None:
    """return Concat(*xs, axis=axis)"""
    graph = m.graph
    if not m.plain(root, ('axis',)):
        return None
    axis = root.attrs.get('axis')
    xs = root.inputs[0:]
    inputs = concat_slices(graph, xs, axis)
    if not len(inputs) < len(xs):
        m.refuse('len(inputs) < len(xs)')
        return None
    return Match((root,), (root.outputs[0],), (axis, inputs))


def make_concat_of_pieces(graph: Graph, res: ResultSpec, axis: Any, inputs: Any) -> Any:
    return make_concat(graph, inputs, axis)


def match_concat_one(m: Matcher, root: Node) -> Match | None:
    """return Concat(x, axis=_)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('axis',)):
        return None
    x = root.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_concat_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x
