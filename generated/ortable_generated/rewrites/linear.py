# Generated from specs/rewrites/linear.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.prelude import is_float, rank_of
from ortable.rewrite.rule import Match, Rule

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.builder.node import Node
    from ortable.prelude import Result
    from ortable.rewrite.matcher import Matcher


def match_matmul_add_to_gemm(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(a, b); return Add(product, bias)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for product, bias in m.orders(root):
        n1 = m.producer(product, 'MatMul')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        a, b = n1.inputs
        if not rank_of(graph, a) == 2:
            m.refuse('rank_of(a) == 2')
            continue
        if not rank_of(graph, b) == 2:
            m.refuse('rank_of(b) == 2')
            continue
        if not rank_of(graph, bias) == 1:
            m.refuse('rank_of(bias) == 1')
            continue
        if not is_float(graph, a):
            m.refuse('is_float(a)')
            continue
        return Match((root, n1), (root.outputs[0],), (a, b, bias))
    return None


def make_matmul_add_to_gemm(graph: GraphBuilder, res: Res, a: Result, b: Result, bias: Result) -> Any:
    return graph.make_node('Gemm', [a, b, bias], res.outputs)


RULES: tuple[Rule, ...] = (
    Rule(
        name='matmul_add_to_gemm',
        file='specs/rewrites/linear.yaml',
        stage='fuse',
        root='Add',
        child='MatMul',
        size=2,
        match=match_matmul_add_to_gemm,
        make=make_matmul_add_to_gemm,
        why='one kernel call instead of two, and the bias is added while the product is in the cache',
    ),
)
