# Generated from specs/rewrites/basic.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.prelude import dtype_of
from ortable.rewrite.rule import Match, Rule

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.builder.node import Node
    from ortable.prelude import Result
    from ortable.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}


def match_cast_same(m: Matcher, root: Node) -> Match | None:
    """return Cast(x, to=kind)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('to',), _CAST):
        return None
    kind = root.attrs.get('to')
    x = root.inputs[0]
    if not kind == dtype_of(graph, x):
        m.refuse('kind == dtype_of(x)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_cast_same(graph: GraphBuilder, res: Res, x: Result) -> Any:
    return x


RULES: tuple[Rule, ...] = (
    Rule(
        name='cast_same',
        file='specs/rewrites/basic.yaml',
        stage='simplify',
        root='Cast',
        child='',
        size=1,
        match=match_cast_same,
        make=make_cast_same,
        why='a cast to the type that a tensor has already copies it',
    ),
)
