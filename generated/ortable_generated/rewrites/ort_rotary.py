# Generated from specs/rewrites/ort_rotary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.passes.rewrite.helpers.attention import are_grouped_split_rows, attention_scale, heads_before_repeat, last_positions, merged_heads, total_length
from ortable.passes.rewrite.helpers.masks import is_causal_mask, zeroes_only_empty_rows
from ortable.passes.rewrite.helpers.numbers import for_cpu, is_float32, number_of
from ortable.passes.rewrite.helpers.rotary import halves_are_equal, is_shared_cache, rotary_cache, same_angles, shared_cache
from ortable.passes.rewrite.helpers.shapes import has_shape, known_rank
from ortable.passes.rewrite.helpers.slices import slices_half
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, rank_of, shape_of, static
from ortable.prelude.values import consts, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_ROTARY_EMBEDDING = {'interleaved': 0, 'rotary_embedding_dim': 0}
_SOFTMAX = {'axis': -1}


def finish_ort_attention_causal_rotary_1(m: Matcher, nodes: tuple[Node, ...], key: Any, out: Any, axis: Any, factor: Any, cos: Any, sin: Any, asked: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    graph = m.graph
    n13 = m.producer(key, 'RotaryEmbedding')
    if n13 is None or len(n13.inputs) != 3 or not m.plain(n13, (), _ROTARY_EMBEDDING):
        return None
    stored, cos2, sin2 = n13.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not same_angles(graph, cos, cos2):
        m.refuse('same_angles(cos, cos2)')
        return None
    if not same_angles(graph, sin, sin2):
        m.refuse('same_angles(sin, sin2)')
        return None
    if not is_shared_cache(graph, cos):
        m.refuse('is_shared_cache(cos)')
        return None
    if not is_shared_cache(graph, sin):
        m.refuse('is_shared_cache(sin)')
        return None
    if not are_grouped_split_rows(graph, asked, stored, value):
        m.refuse('are_grouped_split_rows(asked, stored, value)')
        return None
    if not is_causal_mask(graph, mask, probs):
        m.refuse('is_causal_mask(mask, probs)')
        return None
    if not zeroes_only_empty_rows(graph, mask, attended, hidden):
        m.refuse('zeroes_only_empty_rows(mask, attended, hidden)')
        return None
    if not dim_of(graph, asked, 3) % 16 == 0:
        m.refuse('dim_of(asked, 3) % 16 == 0')
        return None
    count = static(dim_of(graph, asked, 1))
    groups = static(dim_of(graph, stored, 1))
    return Match((*nodes, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))


def finish_ort_attention_causal_rotary_2(m: Matcher, nodes: tuple[Node, ...], r7: Any, out: Any, axis: Any, factor: Any, cos: Any, sin: Any, asked: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n11 = m.producer(r7, 'Expand')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    r8, _ = n11.inputs
    n12 = m.producer(r8, 'Unsqueeze')
    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
        return None
    key, r9 = n12.inputs
    if not m.numbers(r9, [2]):
        return None
    return finish_ort_attention_causal_rotary_1(m, (*nodes, n11, n12), key, out, axis, factor, cos, sin, asked, value, mask, probs, attended, hidden, root)


def finish_ort_attention_causal_rotary_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for r5, factor in m.orders(n6):
        n7 = m.producer(r5, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, r6 = n7.inputs
        n8 = m.producer(query, 'RotaryEmbedding')
        if n8 is None or len(n8.inputs) != 3 or not m.plain(n8, (), _ROTARY_EMBEDDING):
            continue
        n9 = m.producer(r6, 'Transpose')
        if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
            continue
        if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, cos, sin = n8.inputs
        keys = n9.inputs[0]
        n10 = m.producer(keys, 'Reshape')
        if n10 is not None and len(n10.inputs) == 2 and m.plain(n10, ('allowzero',), _RESHAPE):
            r7, _ = n10.inputs
            found = finish_ort_attention_causal_rotary_2(m, (*nodes, n6, n7, n8, n9, n10), r7, out, axis, factor, cos, sin, asked, value, mask, probs, attended, hidden, root)
            if found is not None:
                return found
        key = n9.inputs[0]
        found = finish_ort_attention_causal_rotary_1(m, (*nodes, n6, n7, n8, n9), key, out, axis, factor, cos, sin, asked, value, mask, probs, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_rotary_4(m: Matcher, nodes: tuple[Node, ...], heads: Any, out: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    probs, value = n3.inputs
    n4 = m.producer(probs, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is not None and len(n5.inputs) == 3 and (not n5.attrs):
        mask, scores, r4 = n5.inputs
        if m.number(r4, float('-inf')):
            found = finish_ort_attention_causal_rotary_3(m, (*nodes, n3, n4, n5), scores, out, axis, value, mask, probs, attended, hidden, root)
            if found is not None:
                return found
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for scores, mask in m.orders(n5):
        found = finish_ort_attention_causal_rotary_3(m, (*nodes, n3, n4, n5), scores, out, axis, value, mask, probs, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_rotary_5(m: Matcher, nodes: tuple[Node, ...], r2: Any, heads: Any, out: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    if not m.number(r2, 0):
        return None
    return finish_ort_attention_causal_rotary_4(m, nodes, heads, out, attended, hidden, root)


def finish_ort_attention_causal_rotary_6(m: Matcher, nodes: tuple[Node, ...], n2: Any, out: Any, hidden: Any, root: Any) -> Match | None:
    attended, heads, r2 = n2.inputs
    return finish_ort_attention_causal_rotary_5(m, nodes, r2, heads, out, attended, hidden, root)


def finish_ort_attention_causal_rotary_7(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, hidden: Any, root: Any, attended: Any) -> Match | None:
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    found = finish_ort_attention_causal_rotary_6(m, (*nodes, n2), n2, out, hidden, root)
    if found is not None:
        return found
    hidden, r2, heads = n2.inputs
    return finish_ort_attention_causal_rotary_5(m, (*nodes, n2), r2, heads, out, attended, hidden, root)


def match_ort_attention_causal_rotary(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = any_of(Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_), key); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(any_of(Where(mask, scores, -inf), Add(scores, mask)), axis=axis); heads = MatMul(probs, value); mended = any_of(Where(attended, heads, 0), Where(hidden, 0, heads), heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    found = finish_ort_attention_causal_rotary_7(m, (root, n1), n1, out, None, root, None)
    if found is not None:
        return found
    heads = n1.inputs[0]
    return finish_ort_attention_causal_rotary_4(m, (root, n1), heads, out, None, None, root)


def make_ort_attention_causal_rotary(graph: Graph, res: ResultSpec, asked: Result, cos: Result, sin: Result, stored: Result, value: Result, scale: Any, count: Any, groups: Any) -> Any:
    q, k, v = (merged_heads(graph, asked), merged_heads(graph, stored), merged_heads(graph, heads_before_repeat(graph, value)))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last_positions(graph, asked), total_length(graph, asked), shared_cache(graph, cos), shared_cache(graph, sin)], domain='com.microsoft', num_heads=count, kv_num_heads=groups, scale=scale, do_rotary=1)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_causal_rotary_places_1(m: Matcher, nodes: tuple[Node, ...], key: Any, positions: Any, cos: Any, sin: Any, out: Any, axis: Any, factor: Any, asked: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    graph = m.graph
    n13 = m.producer(key, 'com.microsoft::RotaryEmbedding')
    if n13 is None or len(n13.inputs) != 4 or n13.attrs:
        return None
    stored, r10, r11, r12 = n13.inputs
    if r10 != positions or r11 != cos or r12 != sin:
        return None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    count = static(dim_of(graph, asked, 1))
    groups = static(dim_of(graph, stored, 1))
    at_zero = known_rank(graph, positions) == 1 and number_of(graph, positions) == 0
    if not at_zero:
        m.refuse('at_zero')
        return None
    if not are_grouped_split_rows(graph, asked, stored, value):
        m.refuse('are_grouped_split_rows(asked, stored, value)')
        return None
    if not is_causal_mask(graph, mask, probs):
        m.refuse('is_causal_mask(mask, probs)')
        return None
    if not zeroes_only_empty_rows(graph, mask, attended, hidden):
        m.refuse('zeroes_only_empty_rows(mask, attended, hidden)')
        return None
    if not dim_of(graph, asked, 3) % 16 == 0:
        m.refuse('dim_of(asked, 3) % 16 == 0')
        return None
    return Match((*nodes, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))


def finish_ort_attention_causal_rotary_places_2(m: Matcher, nodes: tuple[Node, ...], r7: Any, positions: Any, cos: Any, sin: Any, out: Any, axis: Any, factor: Any, asked: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n11 = m.producer(r7, 'Expand')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    r8, _ = n11.inputs
    n12 = m.producer(r8, 'Unsqueeze')
    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
        return None
    key, r9 = n12.inputs
    if not m.numbers(r9, [2]):
        return None
    return finish_ort_attention_causal_rotary_places_1(m, (*nodes, n11, n12), key, positions, cos, sin, out, axis, factor, asked, value, mask, probs, attended, hidden, root)


def finish_ort_attention_causal_rotary_places_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, mask: Any, probs: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for r5, factor in m.orders(n6):
        n7 = m.producer(r5, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, r6 = n7.inputs
        n8 = m.producer(query, 'com.microsoft::RotaryEmbedding')
        if n8 is None or len(n8.inputs) != 4 or n8.attrs:
            continue
        n9 = m.producer(r6, 'Transpose')
        if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
            continue
        if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, positions, cos, sin = n8.inputs
        keys = n9.inputs[0]
        n10 = m.producer(keys, 'Reshape')
        if n10 is not None and len(n10.inputs) == 2 and m.plain(n10, ('allowzero',), _RESHAPE):
            r7, _ = n10.inputs
            found = finish_ort_attention_causal_rotary_places_2(m, (*nodes, n6, n7, n8, n9, n10), r7, positions, cos, sin, out, axis, factor, asked, value, mask, probs, attended, hidden, root)
            if found is not None:
                return found
        key = n9.inputs[0]
        found = finish_ort_attention_causal_rotary_places_1(m, (*nodes, n6, n7, n8, n9), key, positions, cos, sin, out, axis, factor, asked, value, mask, probs, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_rotary_places_4(m: Matcher, nodes: tuple[Node, ...], heads: Any, out: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    probs, value = n3.inputs
    n4 = m.producer(probs, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is not None and len(n5.inputs) == 3 and (not n5.attrs):
        mask, scores, r4 = n5.inputs
        if m.number(r4, float('-inf')):
            found = finish_ort_attention_causal_rotary_places_3(m, (*nodes, n3, n4, n5), scores, out, axis, value, mask, probs, attended, hidden, root)
            if found is not None:
                return found
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for scores, mask in m.orders(n5):
        found = finish_ort_attention_causal_rotary_places_3(m, (*nodes, n3, n4, n5), scores, out, axis, value, mask, probs, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_rotary_places_5(m: Matcher, nodes: tuple[Node, ...], r2: Any, heads: Any, out: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    if not m.number(r2, 0):
        return None
    return finish_ort_attention_causal_rotary_places_4(m, nodes, heads, out, attended, hidden, root)


def finish_ort_attention_causal_rotary_places_6(m: Matcher, nodes: tuple[Node, ...], n2: Any, out: Any, hidden: Any, root: Any) -> Match | None:
    attended, heads, r2 = n2.inputs
    return finish_ort_attention_causal_rotary_places_5(m, nodes, r2, heads, out, attended, hidden, root)


def finish_ort_attention_causal_rotary_places_7(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, hidden: Any, root: Any, attended: Any) -> Match | None:
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    found = finish_ort_attention_causal_rotary_places_6(m, (*nodes, n2), n2, out, hidden, root)
    if found is not None:
        return found
    hidden, r2, heads = n2.inputs
    return finish_ort_attention_causal_rotary_places_5(m, (*nodes, n2), r2, heads, out, attended, hidden, root)


def match_ort_attention_causal_rotary_places(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = any_of(Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_), key); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(any_of(Where(mask, scores, -inf), Add(scores, mask)), axis=axis); heads = MatMul(probs, value); mended = any_of(Where(attended, heads, 0), Where(hidden, 0, heads), heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    found = finish_ort_attention_causal_rotary_places_7(m, (root, n1), n1, out, None, root, None)
    if found is not None:
        return found
    heads = n1.inputs[0]
    return finish_ort_attention_causal_rotary_places_4(m, (root, n1), heads, out, None, None, root)


def make_ort_attention_causal_rotary_places(graph: Graph, res: ResultSpec, asked: Result, cos: Result, sin: Result, stored: Result, value: Result, scale: Any, count: Any, groups: Any) -> Any:
    q, k, v = (merged_heads(graph, asked), merged_heads(graph, stored), merged_heads(graph, heads_before_repeat(graph, value)))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last_positions(graph, asked), total_length(graph, asked), cos, sin], domain='com.microsoft', num_heads=count, kv_num_heads=groups, scale=scale, do_rotary=1)
    return reshape_to(graph, rows, shape_of(graph, res))


def match_ort_rotary_embedding(m: Matcher, root: Node) -> Match | None:
    """back = Slice(x, starts, ends, axes); front = Slice(x, first, last, along); transposed = Concat(Neg(back), front, axis=axis); return Add(Mul(x, cos), Mul(transposed, sin))"""
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
                r3, front = n3.inputs
                n4 = m.producer(r3, 'Neg')
                if n4 is None or len(n4.inputs) != 1 or n4.attrs:
                    continue
                n5 = m.producer(front, 'Slice')
                if n5 is None or len(n5.inputs) != 4 or n5.attrs:
                    continue
                back = n4.inputs[0]
                n6 = m.producer(back, 'Slice')
                if n6 is None or len(n6.inputs) != 4 or n6.attrs:
                    continue
                r4, starts, ends, axes = n6.inputs
                if r4 != x or not axes:
                    continue
                r5, first, last, along = n5.inputs
                if r5 != x or not along:
                    continue
                if not for_cpu(graph):
                    m.refuse('for_cpu()')
                    continue
                if not is_float32(graph, x):
                    m.refuse('is_float32(x)')
                    continue
                if not axis in (-1, 3):
                    m.refuse('axis in (-1, 3)')
                    continue
                if not slices_half(graph, starts, ends, axes, x, 1):
                    m.refuse('slices_half(starts, ends, axes, x, 1)')
                    continue
                if not slices_half(graph, first, last, along, x, 0):
                    m.refuse('slices_half(first, last, along, x, 0)')
                    continue
                sizes = [dim_of(graph, x, 2), dim_of(graph, x, 3)]
                of_places = [rank_of(graph, x) == 4 >= rank_of(graph, table) and halves_are_equal(graph, table) and has_shape(graph, table, [1] * (rank_of(graph, table) - 2) + sizes) for table in [cos, sin]]
                if not all(of_places):
                    m.refuse('all(of_places)')
                    continue
                return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (x, cos, sin))
    return None


def make_ort_rotary_embedding(graph: Graph, res: ResultSpec, x: Result, cos: Result, sin: Result) -> Any:
    return graph.make_node('RotaryEmbedding', [x, consts(graph, [0], int64), rotary_cache(graph, cos), rotary_cache(graph, sin)], res.outputs, domain='com.microsoft')
