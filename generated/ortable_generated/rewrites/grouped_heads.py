# Generated from specs/rewrites/grouped_heads.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import head_groups, repeats_heads
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, shape_of
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}


def match_grouped_keys(m: Matcher, root: Node) -> Match | None:
    """keys = Reshape(Expand(Unsqueeze(k, [2]), _), _, allowzero=_); transposed = Transpose(keys, perm=[0, 1, 3, 2]); return MatMul(q, transposed)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    q, transposed = root.inputs
    n1 = m.producer(transposed, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n1.inputs[0]
    n2 = m.producer(keys, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    r1, _ = n2.inputs
    n3 = m.producer(r1, 'Expand')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    r2, _ = n3.inputs
    n4 = m.producer(r2, 'Unsqueeze')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    k, r3 = n4.inputs
    if not m.numbers(r3, [2]):
        return None
    heads = head_groups(graph, q, k)
    if not heads > 0:
        m.refuse('heads > 0')
        return None
    if not repeats_heads(graph, k, keys):
        m.refuse('repeats_heads(k, keys)')
        return None
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (k, q, heads), (n2, n1))


def make_grouped_keys(graph: Graph, res: ResultSpec, k: Result, q: Result, heads: Any) -> Any:
    rows = reshape_to(graph, q, [dim_of(graph, q, 0), dim_of(graph, k, 1), heads * dim_of(graph, q, 2), dim_of(graph, q, 3)])
    return reshape_to(graph, graph.make_node('MatMul', [rows, graph.make_node('Transpose', [k], perm=[0, 1, 3, 2])]), shape_of(graph, res))


def match_grouped_values(m: Matcher, root: Node) -> Match | None:
    """values = Reshape(Expand(Unsqueeze(v, [2]), _), _, allowzero=_); return MatMul(probs, values)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    probs, values = root.inputs
    n1 = m.producer(values, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    r1, _ = n1.inputs
    n2 = m.producer(r1, 'Expand')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    r2, _ = n2.inputs
    n3 = m.producer(r2, 'Unsqueeze')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    v, r3 = n3.inputs
    if not m.numbers(r3, [2]):
        return None
    heads = head_groups(graph, probs, v)
    if not heads > 0:
        m.refuse('heads > 0')
        return None
    if not repeats_heads(graph, v, values):
        m.refuse('repeats_heads(v, values)')
        return None
    return Match((root, n1, n2, n3), (root.outputs[0],), (v, probs, heads), (n1,))


def make_grouped_values(graph: Graph, res: ResultSpec, v: Result, probs: Result, heads: Any) -> Any:
    rows = reshape_to(graph, probs, [dim_of(graph, probs, 0), dim_of(graph, v, 1), heads * dim_of(graph, probs, 2), dim_of(graph, probs, 3)])
    return reshape_to(graph, graph.make_node('MatMul', [rows, v]), shape_of(graph, res))
