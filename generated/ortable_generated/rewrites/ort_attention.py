# Generated from specs/rewrites/ort_attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import are_split_rows, attention_scale, last_positions, merged_heads, total_length
from ortable.passes.rewrite.helpers.masks import empty_rows_are_zero, expanded_mask, is_causal_mask, zeroes_only_empty_rows
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.shapes import broadcasts_into, known_rank
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, rank_of, shape_of, static
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def finish_ort_attention_1(m: Matcher, nodes: tuple[Node, ...], product: Any, out: Any, axis: Any, value: Any, factor: Any, divisor: Any, root: Any) -> Match | None:
    graph = m.graph
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, transposed = n5.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((*nodes, n5), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = any_of(Mul(product, factor), Div(product, divisor), product); heads = MatMul(Softmax(scores, axis=axis), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    heads = n1.inputs[0]
    n2 = m.producer(heads, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    r1, value = n2.inputs
    n3 = m.producer(r1, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    scores = n3.inputs[0]
    n4 = m.producer(scores, 'Mul')
    if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
        for product, factor in m.orders(n4):
            found = finish_ort_attention_1(m, (root, n1, n2, n3, n4), product, out, axis, value, factor, None, root)
            if found is not None:
                return found
    n4 = m.producer(scores, 'Div')
    if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
        product, divisor = n4.inputs
        found = finish_ort_attention_1(m, (root, n1, n2, n3, n4), product, out, axis, value, None, divisor, root)
        if found is not None:
            return found
    product = n3.inputs[0]
    return finish_ort_attention_1(m, (root, n1, n2, n3), product, out, axis, value, None, None, root)


def make_ort_attention(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    rows = graph.make_node('Attention', [q, k, v], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_causal_1(m: Matcher, nodes: tuple[Node, ...], product: Any, out: Any, axis: Any, value: Any, factor: Any, mask: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    graph = m.graph
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, transposed = n7.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, mask, product):
        m.refuse('is_causal_mask(mask, product)')
        return None
    if not zeroes_only_empty_rows(graph, mask, attended, hidden):
        m.refuse('zeroes_only_empty_rows(mask, attended, hidden)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((*nodes, n7), (root.outputs[0],), (query, transposed, value, scale, count))


def finish_ort_attention_causal_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, mask: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        found = finish_ort_attention_causal_1(m, (*nodes, n6), product, out, axis, value, factor, mask, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_3(m: Matcher, nodes: tuple[Node, ...], n5: Any, out: Any, axis: Any, value: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    return finish_ort_attention_causal_2(m, nodes, scores, out, axis, value, mask, attended, hidden, root)


def finish_ort_attention_causal_4(m: Matcher, nodes: tuple[Node, ...], r3: Any, out: Any, axis: Any, value: Any, attended: Any, hidden: Any, root: Any, factor: Any) -> Match | None:
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or n5.attrs:
        return None
    found = finish_ort_attention_causal_3(m, (*nodes, n5), n5, out, axis, value, attended, hidden, root)
    if found is not None:
        return found
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    return finish_ort_attention_causal_1(m, (*nodes, n5), product, out, axis, value, factor, mask, attended, hidden, root)


def finish_ort_attention_causal_5(m: Matcher, nodes: tuple[Node, ...], n5: Any, out: Any, axis: Any, value: Any, attended: Any, hidden: Any, root: Any) -> Match | None:
    for scores, mask in m.orders(n5):
        found = finish_ort_attention_causal_2(m, nodes, scores, out, axis, value, mask, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_6(m: Matcher, nodes: tuple[Node, ...], heads: Any, out: Any, attended: Any, hidden: Any, root: Any, factor: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    probs, value = n3.inputs
    n4 = m.producer(probs, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    r3 = n4.inputs[0]
    found = finish_ort_attention_causal_4(m, (*nodes, n3, n4), r3, out, axis, value, attended, hidden, root, factor)
    if found is not None:
        return found
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    found = finish_ort_attention_causal_5(m, (*nodes, n3, n4, n5), n5, out, axis, value, attended, hidden, root)
    if found is not None:
        return found
    for product, mask in m.orders(n5):
        found = finish_ort_attention_causal_1(m, (*nodes, n3, n4, n5), product, out, axis, value, factor, mask, attended, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_causal_7(m: Matcher, nodes: tuple[Node, ...], r2: Any, heads: Any, out: Any, attended: Any, hidden: Any, root: Any, factor: Any) -> Match | None:
    if not m.number(r2, 0):
        return None
    return finish_ort_attention_causal_6(m, nodes, heads, out, attended, hidden, root, factor)


def match_ort_attention_causal(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = any_of(Mul(product, factor), product); probs = Softmax(any_of(Where(mask, scores, -inf), Add(scores, mask)), axis=axis); heads = MatMul(probs, value); mended = any_of(Where(attended, heads, 0), Where(hidden, 0, heads), heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is not None and len(n2.inputs) == 3 and (not n2.attrs):
        attended, heads, r2 = n2.inputs
        found = finish_ort_attention_causal_7(m, (root, n1, n2), r2, heads, out, attended, None, root, None)
        if found is not None:
            return found
        hidden, r2, heads = n2.inputs
        found = finish_ort_attention_causal_7(m, (root, n1, n2), r2, heads, out, None, hidden, root, None)
        if found is not None:
            return found
    heads = n1.inputs[0]
    return finish_ort_attention_causal_6(m, (root, n1), heads, out, None, None, root, None)


def make_ort_attention_causal(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_causal_by_division_1(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, mask: Any, root: Any) -> Match | None:
    graph = m.graph
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    product, divisor = n5.inputs
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, None, divisor)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, mask, product):
        m.refuse('is_causal_mask(mask, product)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((*nodes, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_by_division(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(any_of(Where(mask, scores, -inf), Add(scores, mask)), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Where')
    if n4 is not None and len(n4.inputs) == 3 and (not n4.attrs):
        mask, scores, r3 = n4.inputs
        if m.number(r3, float('-inf')):
            found = finish_ort_attention_causal_by_division_1(m, (root, n1, n2, n3, n4), scores, out, axis, value, mask, root)
            if found is not None:
                return found
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for scores, mask in m.orders(n4):
        found = finish_ort_attention_causal_by_division_1(m, (root, n1, n2, n3, n4), scores, out, axis, value, mask, root)
        if found is not None:
            return found
    return None


def make_ort_attention_causal_by_division(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_causal_hidden_1(m: Matcher, nodes: tuple[Node, ...], product: Any, out: Any, axis: Any, value: Any, factor: Any, divisor: Any, later: Any, root: Any) -> Match | None:
    graph = m.graph
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, later, product, True):
        m.refuse('is_causal_mask(later, product, True)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((*nodes, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_hidden(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = any_of(Mul(product, factor), Div(product, divisor), product); probs = Softmax(Where(later, -inf, scores), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Where')
    if n4 is None or len(n4.inputs) != 3 or n4.attrs:
        return None
    later, r3, scores = n4.inputs
    if m.number(r3, float('-inf')):
        n5 = m.producer(scores, 'Mul')
        if n5 is not None and len(n5.inputs) == 2 and (not n5.attrs):
            for product, factor in m.orders(n5):
                found = finish_ort_attention_causal_hidden_1(m, (root, n1, n2, n3, n4, n5), product, out, axis, value, factor, None, later, root)
                if found is not None:
                    return found
        n5 = m.producer(scores, 'Div')
        if n5 is not None and len(n5.inputs) == 2 and (not n5.attrs):
            product, divisor = n5.inputs
            found = finish_ort_attention_causal_hidden_1(m, (root, n1, n2, n3, n4, n5), product, out, axis, value, None, divisor, later, root)
            if found is not None:
                return found
    later, r3, product = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    return finish_ort_attention_causal_hidden_1(m, (root, n1, n2, n3, n4), product, out, axis, value, None, None, later, root)


def make_ort_attention_causal_hidden(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_masked_1(m: Matcher, nodes: tuple[Node, ...], product: Any, out: Any, axis: Any, value: Any, factor: Any, divisor: Any, mask: Any, attended: Any, root: Any) -> Match | None:
    graph = m.graph
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, transposed = n7.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    count = static(dim_of(graph, query, 1))
    fits = rank_of(graph, mask) >= 2 and broadcasts_into(graph, mask, product)
    if not fits:
        m.refuse('fits')
        return None
    if not empty_rows_are_zero(graph, mask, attended):
        m.refuse('empty_rows_are_zero(mask, attended)')
        return None
    return Match((*nodes, n7), (root.outputs[0],), (query, transposed, mask, value, product, scale, count))


def finish_ort_attention_masked_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, divisor: Any, mask: Any, attended: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        found = finish_ort_attention_masked_1(m, (*nodes, n6), product, out, axis, value, factor, divisor, mask, attended, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_masked_3(m: Matcher, nodes: tuple[Node, ...], n5: Any, out: Any, axis: Any, value: Any, divisor: Any, attended: Any, root: Any, factor: Any) -> Match | None:
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    found = finish_ort_attention_masked_2(m, nodes, scores, out, axis, value, divisor, mask, attended, root)
    if found is not None:
        return found
    n6 = m.producer(scores, 'Div')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    product, divisor = n6.inputs
    return finish_ort_attention_masked_1(m, (*nodes, n6), product, out, axis, value, factor, divisor, mask, attended, root)


def finish_ort_attention_masked_4(m: Matcher, nodes: tuple[Node, ...], heads: Any, out: Any, divisor: Any, attended: Any, root: Any, factor: Any) -> Match | None:
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
    if n5 is None or len(n5.inputs) != 3 or n5.attrs:
        return None
    found = finish_ort_attention_masked_3(m, (*nodes, n3, n4, n5), n5, out, axis, value, divisor, attended, root, factor)
    if found is not None:
        return found
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    return finish_ort_attention_masked_1(m, (*nodes, n3, n4, n5), product, out, axis, value, factor, divisor, mask, attended, root)


def match_ort_attention_masked(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = any_of(Mul(product, factor), Div(product, divisor), product); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(any_of(Where(attended, heads, 0), heads), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is not None and len(n2.inputs) == 3 and (not n2.attrs):
        attended, heads, r2 = n2.inputs
        if m.number(r2, 0):
            found = finish_ort_attention_masked_4(m, (root, n1, n2), heads, out, None, attended, root, None)
            if found is not None:
                return found
    heads = n1.inputs[0]
    return finish_ort_attention_masked_4(m, (root, n1), heads, out, None, None, root, None)


def make_ort_attention_masked(graph: Graph, res: ResultSpec, query: Result, transposed: Result, mask: Result, value: Result, product: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    given = expanded_mask(graph, mask, product)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def finish_ort_attention_with_bias_1(m: Matcher, nodes: tuple[Node, ...], product: Any, out: Any, axis: Any, value: Any, factor: Any, divisor: Any, bias: Any, hidden: Any, root: Any) -> Match | None:
    graph = m.graph
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, transposed = n7.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not known_rank(graph, out) >= 0:
        m.refuse('known_rank(out) >= 0')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not are_split_rows(graph, query, transposed, value):
        m.refuse('are_split_rows(query, transposed, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    count = static(dim_of(graph, query, 1))
    fits = rank_of(graph, bias) >= 2 and broadcasts_into(graph, bias, product)
    if not fits:
        m.refuse('fits')
        return None
    if not empty_rows_are_zero(graph, bias, hidden):
        m.refuse('empty_rows_are_zero(bias, hidden)')
        return None
    return Match((*nodes, n7), (root.outputs[0],), (query, transposed, bias, value, product, scale, count))


def finish_ort_attention_with_bias_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, divisor: Any, bias: Any, hidden: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        found = finish_ort_attention_with_bias_1(m, (*nodes, n6), product, out, axis, value, factor, divisor, bias, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_with_bias_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, out: Any, axis: Any, value: Any, factor: Any, bias: Any, hidden: Any, root: Any) -> Match | None:
    n6 = m.producer(scores, 'Div')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    product, divisor = n6.inputs
    return finish_ort_attention_with_bias_1(m, (*nodes, n6), product, out, axis, value, factor, divisor, bias, hidden, root)


def finish_ort_attention_with_bias_4(m: Matcher, nodes: tuple[Node, ...], n5: Any, out: Any, axis: Any, value: Any, divisor: Any, hidden: Any, root: Any, factor: Any) -> Match | None:
    for scores, bias in m.orders(n5):
        found = finish_ort_attention_with_bias_2(m, nodes, scores, out, axis, value, divisor, bias, hidden, root)
        if found is not None:
            return found
        found = finish_ort_attention_with_bias_3(m, nodes, scores, out, axis, value, factor, bias, hidden, root)
        if found is not None:
            return found
    return None


def finish_ort_attention_with_bias_5(m: Matcher, nodes: tuple[Node, ...], heads: Any, out: Any, divisor: Any, hidden: Any, root: Any, factor: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    probs, value = n3.inputs
    n4 = m.producer(probs, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    found = finish_ort_attention_with_bias_4(m, (*nodes, n3, n4, n5), n5, out, axis, value, divisor, hidden, root, factor)
    if found is not None:
        return found
    for product, bias in m.orders(n5):
        found = finish_ort_attention_with_bias_1(m, (*nodes, n3, n4, n5), product, out, axis, value, factor, divisor, bias, hidden, root)
        if found is not None:
            return found
    return None


def match_ort_attention_with_bias(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = any_of(Mul(product, factor), Div(product, divisor), product); probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(any_of(Where(hidden, 0, heads), heads), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is not None and len(n2.inputs) == 3 and (not n2.attrs):
        hidden, r2, heads = n2.inputs
        if m.number(r2, 0):
            found = finish_ort_attention_with_bias_5(m, (root, n1, n2), heads, out, None, hidden, root, None)
            if found is not None:
                return found
    heads = n1.inputs[0]
    return finish_ort_attention_with_bias_5(m, (root, n1), heads, out, None, None, root, None)


def make_ort_attention_with_bias(graph: Graph, res: ResultSpec, query: Result, transposed: Result, bias: Result, value: Result, product: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_heads(graph, transposed, True), merged_heads(graph, value))
    given = expanded_mask(graph, bias, product)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))
