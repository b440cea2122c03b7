# Generated from specs/rewrites/rotary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import is_float32
from ortable.passes.rewrite.helpers.rotary import halves_are_equal
from ortable.passes.rewrite.helpers.shapes import has_shape
from ortable.passes.rewrite.helpers.slices import has_unit_steps, slices_half
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, rank_of, static
from ortable.prelude.shapes import expanded, sliced
from ortable.prelude.values import squeezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_rotary_embedding(m: Matcher, root: Node) -> Match | None:
    """low = Slice(x, begin, middle, axes, maybe(step)); high = Slice(x, middle2, end, axes2, maybe(step2)); transposed = Concat(Neg(high), low, axis=axis); return Add(Mul(x, cos), Mul(transposed, sin))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(r2, 'Mul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for x, cos in m.orders(n1):
            for transposed, sin in m.orders(n2):
                n3 = m.producer(transposed, 'Concat')
                if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, ('axis',)):
                    continue
                axis = n3.attrs.get('axis')
                r3, low = n3.inputs
                n4 = m.producer(r3, 'Neg')
                if n4 is None or len(n4.inputs) != 1 or n4.attrs:
                    continue
                n5 = m.producer(low, 'Slice')
                if n5 is None or not 4 <= len(n5.inputs) <= 5 or n5.attrs:
                    continue
                high = n4.inputs[0]
                n6 = m.producer(high, 'Slice')
                if n6 is None or not 4 <= len(n6.inputs) <= 5 or n6.attrs:
                    continue
                r4, middle2, end, axes2 = n6.inputs[:4]
                step2 = n6.inputs[4] or None if len(n6.inputs) > 4 else None
                if r4 != x or not axes2:
                    continue
                r5, begin, middle, axes = n5.inputs[:4]
                step = n5.inputs[4] or None if len(n5.inputs) > 4 else None
                if r5 != x or not axes:
                    continue
                if not is_float32(graph, x):
                    m.refuse('is_float32(x)')
                    continue
                if not axis % rank_of(graph, x) == 3:
                    m.refuse('axis % rank_of(x) == 3')
                    continue
                sizes = [dim_of(graph, x, 2), dim_of(graph, x, 3)]
                of_places = [rank_of(graph, x) == 4 and halves_are_equal(graph, table) and (has_shape(graph, table, [1, 1] + sizes) or has_shape(graph, table, [dim_of(graph, x, 0), 1] + sizes)) for table in [cos, sin]]
                if not all(of_places):
                    m.refuse('all(of_places)')
                    continue
                if not slices_half(graph, begin, middle, axes, x, 0):
                    m.refuse('slices_half(begin, middle, axes, x, 0)')
                    continue
                if not slices_half(graph, middle2, end, axes2, x, 1):
                    m.refuse('slices_half(middle2, end, axes2, x, 1)')
                    continue
                if not has_unit_steps(graph, step):
                    m.refuse('has_unit_steps(step)')
                    continue
                if not has_unit_steps(graph, step2):
                    m.refuse('has_unit_steps(step2)')
                    continue
                return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (x, cos, sin, sizes))
    return None


def make_rotary_embedding(graph: Graph, res: ResultSpec, x: Result, cos: Result, sin: Result, sizes: Any) -> Any:
    half = static(sizes[1]) // 2
    found = [squeezed(graph, sliced(graph, table, 3, 0, half), [1]) for table in [cos, sin]]
    wide = [expanded(graph, table, [dim_of(graph, x, 0), sizes[0], half]) for table in found]
    return graph.make_node('RotaryEmbedding', [x, wide[0], wide[1]], res.outputs)
