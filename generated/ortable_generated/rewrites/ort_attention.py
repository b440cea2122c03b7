# Generated from specs/rewrites/ort_attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.attention import are_split_rows, attention_scale, last_positions, merged_heads, merged_transposed_heads, total_length
from ortable.passes.rewrite.words.masks import empty_rows_are_zero, expanded_mask, hides_later_keys, is_causal_mask, mask_broadcasts_to_scores, zeroes_only_empty_rows
from ortable.passes.rewrite.words.numbers import for_cpu
from ortable.passes.rewrite.words.shapes import known_rank
from ortable.prelude.facts import dim_of, shape_of, static
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def accept_ort_attention(m: Matcher, query: Any, transposed: Any, factor: Any, value: Any, out: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    return (scale, count)


def match_ort_attention_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); heads = MatMul(Softmax(scores, axis=axis), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for product, factor in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        query, transposed = n5.inputs
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention(m, query, transposed, factor, value, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); heads = MatMul(Softmax(scores, axis=axis), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    n4 = m.producer(scores, 'Div')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    product, divisor = n4.inputs
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, transposed = n5.inputs
    factor = None
    out = root.outputs[0]
    accepted = accept_ort_attention(m, query, transposed, factor, value, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; heads = MatMul(Softmax(scores, axis=axis), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    product = n3.inputs[0]
    n4 = m.producer(product, 'MatMul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    query, transposed = n4.inputs
    factor = None
    out = root.outputs[0]
    divisor = None
    accepted = accept_ort_attention(m, query, transposed, factor, value, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (query, transposed, value, scale, count))


def make_ort_attention(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    rows = graph.make_node('Attention', [q, k, v], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_causal(m: Matcher, query: Any, transposed: Any, factor: Any, mask: Any, value: Any, attended: Any, out: Any, axis: Any, hidden: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    if not is_causal_mask(graph, mask, query, transposed):
        m.refuse('is_causal_mask(mask, query, transposed)')
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
    return (scale, count)


def match_ort_attention_causal_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, transposed = n7.inputs
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, transposed = n7.inputs
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    heads = n1.inputs[0]
    n2 = m.producer(heads, 'MatMul')
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
    mask, scores, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for product, factor in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for scores, mask in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, transposed = n7.inputs
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
            if accepted is None:
                continue
            scale, count = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for scores, mask in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, transposed = n7.inputs
            attended = None
            out = root.outputs[0]
            accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
            if accepted is None:
                continue
            scale, count = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    heads = n1.inputs[0]
    n2 = m.producer(heads, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for scores, mask in m.orders(n4):
        n5 = m.producer(scores, 'Mul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        for product, factor in m.orders(n5):
            n6 = m.producer(product, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, transposed = n6.inputs
            attended = None
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
            if accepted is None:
                continue
            scale, count = accepted
            return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_7(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    factor = None
    out = root.outputs[0]
    hidden = None
    accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_8(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    factor = None
    attended = None
    out = root.outputs[0]
    accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_9(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    heads = n1.inputs[0]
    n2 = m.producer(heads, 'MatMul')
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
    mask, product, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, transposed = n5.inputs
    factor = None
    attended = None
    out = root.outputs[0]
    hidden = None
    accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_10(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for product, mask in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        factor = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_11(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for product, mask in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        factor = None
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_12(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    heads = n1.inputs[0]
    n2 = m.producer(heads, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for product, mask in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        query, transposed = n5.inputs
        factor = None
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal(m, query, transposed, factor, mask, value, attended, out, axis, hidden)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def make_ort_attention_causal(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_causal_by_division(m: Matcher, query: Any, transposed: Any, divisor: Any, mask: Any, value: Any, out: Any, axis: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    if not is_causal_mask(graph, mask, query, transposed):
        m.refuse('is_causal_mask(mask, query, transposed)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return (scale, count)


def match_ort_attention_causal_by_division_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Where(mask, scores, -inf), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    mask, scores, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    product, divisor = n5.inputs
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    out = root.outputs[0]
    accepted = accept_ort_attention_causal_by_division(m, query, transposed, divisor, mask, value, out, axis)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_by_division_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Add(scores, mask), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for scores, mask in m.orders(n4):
        n5 = m.producer(scores, 'Div')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        product, divisor = n5.inputs
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        out = root.outputs[0]
        accepted = accept_ort_attention_causal_by_division(m, query, transposed, divisor, mask, value, out, axis)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def make_ort_attention_causal_by_division(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_causal_hidden(m: Matcher, query: Any, transposed: Any, factor: Any, later: Any, value: Any, out: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    if not hides_later_keys(graph, later, query, transposed):
        m.refuse('hides_later_keys(later, query, transposed)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return (scale, count)


def match_ort_attention_causal_hidden_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(later, -inf, scores), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for product, factor in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention_causal_hidden(m, query, transposed, factor, later, value, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))
    return None


def match_ort_attention_causal_hidden_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Where(later, -inf, scores), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    product, divisor = n5.inputs
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    factor = None
    out = root.outputs[0]
    accepted = accept_ort_attention_causal_hidden(m, query, transposed, factor, later, value, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, value, scale, count))


def match_ort_attention_causal_hidden_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(later, -inf, scores), axis=axis); joined = Transpose(MatMul(probs, value), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    later, r3, product = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, transposed = n5.inputs
    factor = None
    out = root.outputs[0]
    divisor = None
    accepted = accept_ort_attention_causal_hidden(m, query, transposed, factor, later, value, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, value, scale, count))


def make_ort_attention_causal_hidden(graph: Graph, res: ResultSpec, query: Result, transposed: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    last, total = (last_positions(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_masked(m: Matcher, query: Any, transposed: Any, factor: Any, mask: Any, value: Any, attended: Any, out: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    if not mask_broadcasts_to_scores(graph, mask, query, transposed):
        m.refuse('mask_broadcasts_to_scores(mask, query, transposed)')
        return None
    if not empty_rows_are_zero(graph, mask, attended):
        m.refuse('empty_rows_are_zero(mask, attended)')
        return None
    count = static(dim_of(graph, query, 1))
    return (scale, count)


def match_ort_attention_masked_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(attended, heads, 0), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, transposed = n7.inputs
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, mask, value, scale, count))
    return None


def match_ort_attention_masked_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or n4.attrs:
        return None
    mask, scores, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for product, factor in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        attended = None
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, mask, value, scale, count))
    return None


def match_ort_attention_masked_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(attended, heads, 0), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Div')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    product, divisor = n6.inputs
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, transposed = n7.inputs
    factor = None
    out = root.outputs[0]
    accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, mask, value, scale, count))


def match_ort_attention_masked_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or n4.attrs:
        return None
    mask, scores, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    product, divisor = n5.inputs
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    factor = None
    attended = None
    out = root.outputs[0]
    accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, mask, value, scale, count))


def match_ort_attention_masked_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(attended, heads, 0), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
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
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    query, transposed = n6.inputs
    factor = None
    out = root.outputs[0]
    divisor = None
    accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, mask, value, scale, count))


def match_ort_attention_masked_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or n4.attrs:
        return None
    mask, product, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, transposed = n5.inputs
    factor = None
    attended = None
    out = root.outputs[0]
    divisor = None
    accepted = accept_ort_attention_masked(m, query, transposed, factor, mask, value, attended, out, axis, divisor)
    if accepted is None:
        return None
    scale, count = accepted
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, mask, value, scale, count))


def make_ort_attention_masked(graph: Graph, res: ResultSpec, query: Result, transposed: Result, mask: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    given = expanded_mask(graph, mask, query, transposed)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_with_bias(m: Matcher, query: Any, transposed: Any, factor: Any, bias: Any, value: Any, hidden: Any, out: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
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
    if not mask_broadcasts_to_scores(graph, bias, query, transposed):
        m.refuse('mask_broadcasts_to_scores(bias, query, transposed)')
        return None
    if not empty_rows_are_zero(graph, bias, hidden):
        m.refuse('empty_rows_are_zero(bias, hidden)')
        return None
    count = static(dim_of(graph, query, 1))
    return (scale, count)


def match_ort_attention_with_bias_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for scores, bias in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, transposed = n7.inputs
            out = root.outputs[0]
            divisor = None
            accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
            if accepted is None:
                continue
            scale, count = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Mul(product, factor); probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for scores, bias in m.orders(n4):
        n5 = m.producer(scores, 'Mul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        for product, factor in m.orders(n5):
            n6 = m.producer(product, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, transposed = n6.inputs
            hidden = None
            out = root.outputs[0]
            divisor = None
            accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
            if accepted is None:
                continue
            scale, count = accepted
            return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for scores, bias in m.orders(n5):
        n6 = m.producer(scores, 'Div')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        product, divisor = n6.inputs
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        query, transposed = n7.inputs
        factor = None
        out = root.outputs[0]
        accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = Div(product, divisor); probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for scores, bias in m.orders(n4):
        n5 = m.producer(scores, 'Div')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        product, divisor = n5.inputs
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        factor = None
        hidden = None
        out = root.outputs[0]
        accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    joined, _ = root.inputs
    n1 = m.producer(joined, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
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
    for product, bias in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, transposed = n6.inputs
        factor = None
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, transposed); scores = product; probs = Softmax(Add(scores, bias), axis=axis); heads = MatMul(probs, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); out = Reshape(joined, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
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
    probs, value = n2.inputs
    n3 = m.producer(probs, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for product, bias in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        query, transposed = n5.inputs
        factor = None
        hidden = None
        out = root.outputs[0]
        divisor = None
        accepted = accept_ort_attention_with_bias(m, query, transposed, factor, bias, value, hidden, out, axis, divisor)
        if accepted is None:
            continue
        scale, count = accepted
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, transposed, bias, value, scale, count))
    return None


def make_ort_attention_with_bias(graph: Graph, res: ResultSpec, query: Result, transposed: Result, bias: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (merged_heads(graph, query), merged_transposed_heads(graph, transposed), merged_heads(graph, value))
    given = expanded_mask(graph, bias, query, transposed)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))
