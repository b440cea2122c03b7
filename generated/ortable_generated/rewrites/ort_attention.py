# Generated from specs/rewrites/ort_attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match, Rule
from ortable.passes.rewrite.words.common import for_cpu, is_float32
from ortable.passes.rewrite.words.ort import are_rows, attention_scale, empty_rows_are_zero, is_causal_mask, joined_rows, last_places, masks_scores, sees_itself, total_length, turned_rows, whole_mask
from ortable.prelude.facts import dim_of, shape_of, static
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def match_ort_attention_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); heads = MatMul(Softmax(scores, axis=-1), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    r1, value = n2.inputs
    n3 = m.producer(r1, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    scores = n3.inputs[0]
    n4 = m.producer(scores, 'Mul')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for product, factor in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        query, turned = n5.inputs
        divisor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Div(product, divisor); heads = MatMul(Softmax(scores, axis=-1), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    r1, value = n2.inputs
    n3 = m.producer(r1, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    scores = n3.inputs[0]
    n4 = m.producer(scores, 'Div')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    product, divisor = n4.inputs
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    query, turned = n5.inputs
    factor = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, value, scale, count))


def match_ort_attention_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; heads = MatMul(Softmax(scores, axis=-1), value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    r1, value = n2.inputs
    n3 = m.producer(r1, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    product = n3.inputs[0]
    n4 = m.producer(product, 'MatMul')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    query, turned = n4.inputs
    factor = None
    divisor = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (query, turned, value, scale, count))


def make_ort_attention(graph: Graph, res: ResultSpec, query: Result, turned: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (joined_rows(graph, query), turned_rows(graph, turned), joined_rows(graph, value))
    rows = graph.make_node('Attention', [q, k, v], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def match_ort_attention_causal_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = Where(seen, heads, 0); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
            continue
        query, turned = n7.inputs
        hidden = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = Where(hidden, 0, heads); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
            continue
        query, turned = n7.inputs
        seen = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = heads; return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Where')
    if n4 is None or len(n4.inputs) != 3 or not m.plain(n4):
        return None
    mask, scores, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for product, factor in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        seen = None
        hidden = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = Where(seen, heads, 0); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for scores, mask in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
                continue
            query, turned = n7.inputs
            hidden = None
            if not for_cpu(graph):
                m.refuse('for_cpu()')
                continue
            if not are_rows(graph, query, turned, value):
                m.refuse('are_rows(query, turned, value)')
                continue
            scale = attention_scale(graph, factor, None)
            if not scale:
                m.refuse('scale')
                continue
            if not is_causal_mask(graph, mask, query, turned):
                m.refuse('is_causal_mask(mask, query, turned)')
                continue
            if not sees_itself(graph, mask, seen, hidden):
                m.refuse('sees_itself(mask, seen, hidden)')
                continue
            count = static(dim_of(graph, query, 1))
            width = static(dim_of(graph, query, 3))
            if not width % 8 == 0:
                m.refuse('width % 8 == 0')
                continue
            if not dim_of(graph, value, 3) == width:
                m.refuse('dim_of(value, 3) == width')
                continue
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = Where(hidden, 0, heads); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for scores, mask in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
                continue
            query, turned = n7.inputs
            seen = None
            if not for_cpu(graph):
                m.refuse('for_cpu()')
                continue
            if not are_rows(graph, query, turned, value):
                m.refuse('are_rows(query, turned, value)')
                continue
            scale = attention_scale(graph, factor, None)
            if not scale:
                m.refuse('scale')
                continue
            if not is_causal_mask(graph, mask, query, turned):
                m.refuse('is_causal_mask(mask, query, turned)')
                continue
            if not sees_itself(graph, mask, seen, hidden):
                m.refuse('sees_itself(mask, seen, hidden)')
                continue
            count = static(dim_of(graph, query, 1))
            width = static(dim_of(graph, query, 3))
            if not width % 8 == 0:
                m.refuse('width % 8 == 0')
                continue
            if not dim_of(graph, value, 3) == width:
                m.refuse('dim_of(value, 3) == width')
                continue
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = heads; return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for scores, mask in m.orders(n4):
        n5 = m.producer(scores, 'Mul')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        for product, factor in m.orders(n5):
            n6 = m.producer(product, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
                continue
            query, turned = n6.inputs
            seen = None
            hidden = None
            if not for_cpu(graph):
                m.refuse('for_cpu()')
                continue
            if not are_rows(graph, query, turned, value):
                m.refuse('are_rows(query, turned, value)')
                continue
            scale = attention_scale(graph, factor, None)
            if not scale:
                m.refuse('scale')
                continue
            if not is_causal_mask(graph, mask, query, turned):
                m.refuse('is_causal_mask(mask, query, turned)')
                continue
            if not sees_itself(graph, mask, seen, hidden):
                m.refuse('sees_itself(mask, seen, hidden)')
                continue
            count = static(dim_of(graph, query, 1))
            width = static(dim_of(graph, query, 3))
            if not width % 8 == 0:
                m.refuse('width % 8 == 0')
                continue
            if not dim_of(graph, value, 3) == width:
                m.refuse('dim_of(value, 3) == width')
                continue
            return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_7(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = Where(seen, heads, 0); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    query, turned = n6.inputs
    factor = None
    hidden = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, mask, query, turned):
        m.refuse('is_causal_mask(mask, query, turned)')
        return None
    if not sees_itself(graph, mask, seen, hidden):
        m.refuse('sees_itself(mask, seen, hidden)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))


def match_ort_attention_causal_8(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = Where(hidden, 0, heads); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    query, turned = n6.inputs
    factor = None
    seen = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, mask, query, turned):
        m.refuse('is_causal_mask(mask, query, turned)')
        return None
    if not sees_itself(graph, mask, seen, hidden):
        m.refuse('sees_itself(mask, seen, hidden)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))


def match_ort_attention_causal_9(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); mended = heads; return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Where')
    if n4 is None or len(n4.inputs) != 3 or not m.plain(n4):
        return None
    mask, product, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    query, turned = n5.inputs
    factor = None
    seen = None
    hidden = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not is_causal_mask(graph, mask, query, turned):
        m.refuse('is_causal_mask(mask, query, turned)')
        return None
    if not sees_itself(graph, mask, seen, hidden):
        m.refuse('sees_itself(mask, seen, hidden)')
        return None
    count = static(dim_of(graph, query, 1))
    width = static(dim_of(graph, query, 3))
    if not width % 8 == 0:
        m.refuse('width % 8 == 0')
        return None
    if not dim_of(graph, value, 3) == width:
        m.refuse('dim_of(value, 3) == width')
        return None
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, value, scale, count))


def match_ort_attention_causal_10(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = Where(seen, heads, 0); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for product, mask in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        factor = None
        hidden = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_11(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = Where(hidden, 0, heads); return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for product, mask in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        factor = None
        seen = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def match_ort_attention_causal_12(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Add(scores, mask), axis=-1); heads = MatMul(chances, value); mended = heads; return Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Add')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for product, mask in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        query, turned = n5.inputs
        factor = None
        seen = None
        hidden = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, None)
        if not scale:
            m.refuse('scale')
            continue
        if not is_causal_mask(graph, mask, query, turned):
            m.refuse('is_causal_mask(mask, query, turned)')
            continue
        if not sees_itself(graph, mask, seen, hidden):
            m.refuse('sees_itself(mask, seen, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        width = static(dim_of(graph, query, 3))
        if not width % 8 == 0:
            m.refuse('width % 8 == 0')
            continue
        if not dim_of(graph, value, 3) == width:
            m.refuse('dim_of(value, 3) == width')
            continue
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, value, scale, count))
    return None


def make_ort_attention_causal(graph: Graph, res: ResultSpec, query: Result, turned: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (joined_rows(graph, query), turned_rows(graph, turned), joined_rows(graph, value))
    last, total = (last_places(graph, query), total_length(graph, query))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last, total], domain='com.microsoft', num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def match_ort_attention_masked_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(seen, heads, 0), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    for product, factor in m.orders(n6):
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
            continue
        query, turned = n7.inputs
        divisor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not masks_scores(graph, mask, query, turned):
            m.refuse('masks_scores(mask, query, turned)')
            continue
        if not empty_rows_are_zero(graph, mask, seen):
            m.refuse('empty_rows_are_zero(mask, seen)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, mask, value, scale, count))
    return None


def match_ort_attention_masked_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or not m.plain(n4):
        return None
    mask, scores, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for product, factor in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        seen = None
        divisor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not masks_scores(graph, mask, query, turned):
            m.refuse('masks_scores(mask, query, turned)')
            continue
        if not empty_rows_are_zero(graph, mask, seen):
            m.refuse('empty_rows_are_zero(mask, seen)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, mask, value, scale, count))
    return None


def match_ort_attention_masked_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Div(product, divisor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(seen, heads, 0), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, scores, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(scores, 'Div')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    product, divisor = n6.inputs
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
        return None
    query, turned = n7.inputs
    factor = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not masks_scores(graph, mask, query, turned):
        m.refuse('masks_scores(mask, query, turned)')
        return None
    if not empty_rows_are_zero(graph, mask, seen):
        m.refuse('empty_rows_are_zero(mask, seen)')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, mask, value, scale, count))


def match_ort_attention_masked_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Div(product, divisor); chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or not m.plain(n4):
        return None
    mask, scores, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    product, divisor = n5.inputs
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    query, turned = n6.inputs
    factor = None
    seen = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not masks_scores(graph, mask, query, turned):
        m.refuse('masks_scores(mask, query, turned)')
        return None
    if not empty_rows_are_zero(graph, mask, seen):
        m.refuse('empty_rows_are_zero(mask, seen)')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, mask, value, scale, count))


def match_ort_attention_masked_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(seen, heads, 0), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    seen, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Where')
    if n5 is None or len(n5.inputs) != 3 or not m.plain(n5):
        return None
    mask, product, r4 = n5.inputs
    if not m.number(r4, float('-inf')):
        return None
    n6 = m.producer(product, 'MatMul')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
        return None
    query, turned = n6.inputs
    factor = None
    divisor = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not masks_scores(graph, mask, query, turned):
        m.refuse('masks_scores(mask, query, turned)')
        return None
    if not empty_rows_are_zero(graph, mask, seen):
        m.refuse('empty_rows_are_zero(mask, seen)')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, mask, value, scale, count))


def match_ort_attention_masked_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Where(mask, scores, -inf), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Where')
    if n4 is None or len(n4.inputs) != 3 or not m.plain(n4):
        return None
    mask, product, r2 = n4.inputs
    if not m.number(r2, float('-inf')):
        return None
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    query, turned = n5.inputs
    factor = None
    seen = None
    divisor = None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_rows(graph, query, turned, value):
        m.refuse('are_rows(query, turned, value)')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not masks_scores(graph, mask, query, turned):
        m.refuse('masks_scores(mask, query, turned)')
        return None
    if not empty_rows_are_zero(graph, mask, seen):
        m.refuse('empty_rows_are_zero(mask, seen)')
        return None
    count = static(dim_of(graph, query, 1))
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, mask, value, scale, count))


def make_ort_attention_masked(graph: Graph, res: ResultSpec, query: Result, turned: Result, mask: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (joined_rows(graph, query), turned_rows(graph, turned), joined_rows(graph, value))
    given = whole_mask(graph, mask, query, turned)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


def match_ort_attention_with_bias_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for scores, bias in m.orders(n5):
        n6 = m.producer(scores, 'Mul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        for product, factor in m.orders(n6):
            n7 = m.producer(product, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
                continue
            query, turned = n7.inputs
            divisor = None
            if not for_cpu(graph):
                m.refuse('for_cpu()')
                continue
            if not are_rows(graph, query, turned, value):
                m.refuse('are_rows(query, turned, value)')
                continue
            scale = attention_scale(graph, factor, divisor)
            if not scale > 0:
                m.refuse('scale > 0')
                continue
            if not is_float32(graph, bias):
                m.refuse('is_float32(bias)')
                continue
            if not masks_scores(graph, bias, query, turned):
                m.refuse('masks_scores(bias, query, turned)')
                continue
            if not empty_rows_are_zero(graph, bias, hidden):
                m.refuse('empty_rows_are_zero(bias, hidden)')
                continue
            count = static(dim_of(graph, query, 1))
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Mul(product, factor); chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for scores, bias in m.orders(n4):
        n5 = m.producer(scores, 'Mul')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        for product, factor in m.orders(n5):
            n6 = m.producer(product, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
                continue
            query, turned = n6.inputs
            hidden = None
            divisor = None
            if not for_cpu(graph):
                m.refuse('for_cpu()')
                continue
            if not are_rows(graph, query, turned, value):
                m.refuse('are_rows(query, turned, value)')
                continue
            scale = attention_scale(graph, factor, divisor)
            if not scale > 0:
                m.refuse('scale > 0')
                continue
            if not is_float32(graph, bias):
                m.refuse('is_float32(bias)')
                continue
            if not masks_scores(graph, bias, query, turned):
                m.refuse('masks_scores(bias, query, turned)')
                continue
            if not empty_rows_are_zero(graph, bias, hidden):
                m.refuse('empty_rows_are_zero(bias, hidden)')
                continue
            count = static(dim_of(graph, query, 1))
            return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Div(product, divisor); chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for scores, bias in m.orders(n5):
        n6 = m.producer(scores, 'Div')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        product, divisor = n6.inputs
        n7 = m.producer(product, 'MatMul')
        if n7 is None or len(n7.inputs) != 2 or not m.plain(n7):
            continue
        query, turned = n7.inputs
        factor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not is_float32(graph, bias):
            m.refuse('is_float32(bias)')
            continue
        if not masks_scores(graph, bias, query, turned):
            m.refuse('masks_scores(bias, query, turned)')
            continue
        if not empty_rows_are_zero(graph, bias, hidden):
            m.refuse('empty_rows_are_zero(bias, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = Div(product, divisor); chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for scores, bias in m.orders(n4):
        n5 = m.producer(scores, 'Div')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        product, divisor = n5.inputs
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        factor = None
        hidden = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not is_float32(graph, bias):
            m.refuse('is_float32(bias)')
            continue
        if not masks_scores(graph, bias, query, turned):
            m.refuse('masks_scores(bias, query, turned)')
            continue
        if not empty_rows_are_zero(graph, bias, hidden):
            m.refuse('empty_rows_are_zero(bias, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(Where(hidden, 0, heads), perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 3 or not m.plain(n2):
        return None
    hidden, r2, heads = n2.inputs
    if not m.number(r2, 0):
        return None
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3):
        return None
    chances, value = n3.inputs
    n4 = m.producer(chances, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n4.attrs.get('axis', -1), -1):
        return None
    r3 = n4.inputs[0]
    n5 = m.producer(r3, 'Add')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
        return None
    for product, bias in m.orders(n5):
        n6 = m.producer(product, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or not m.plain(n6):
            continue
        query, turned = n6.inputs
        factor = None
        divisor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not is_float32(graph, bias):
            m.refuse('is_float32(bias)')
            continue
        if not masks_scores(graph, bias, query, turned):
            m.refuse('masks_scores(bias, query, turned)')
            continue
        if not empty_rows_are_zero(graph, bias, hidden):
            m.refuse('empty_rows_are_zero(bias, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def match_ort_attention_with_bias_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, turned); scores = product; chances = Softmax(Add(scores, bias), axis=-1); heads = MatMul(chances, value); joined = Transpose(heads, perm=[0, 2, 1, 3]); return Reshape(joined, _, allowzero=_)"""
    graph = m.graph
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
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2):
        return None
    chances, value = n2.inputs
    n3 = m.producer(chances, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    if not literal_equals(n3.attrs.get('axis', -1), -1):
        return None
    r1 = n3.inputs[0]
    n4 = m.producer(r1, 'Add')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4):
        return None
    for product, bias in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5):
            continue
        query, turned = n5.inputs
        factor = None
        hidden = None
        divisor = None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not are_rows(graph, query, turned, value):
            m.refuse('are_rows(query, turned, value)')
            continue
        scale = attention_scale(graph, factor, divisor)
        if not scale > 0:
            m.refuse('scale > 0')
            continue
        if not is_float32(graph, bias):
            m.refuse('is_float32(bias)')
            continue
        if not masks_scores(graph, bias, query, turned):
            m.refuse('masks_scores(bias, query, turned)')
            continue
        if not empty_rows_are_zero(graph, bias, hidden):
            m.refuse('empty_rows_are_zero(bias, hidden)')
            continue
        count = static(dim_of(graph, query, 1))
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (query, turned, bias, value, scale, count))
    return None


def make_ort_attention_with_bias(graph: Graph, res: ResultSpec, query: Result, turned: Result, bias: Result, value: Result, scale: Any, count: Any) -> Any:
    q, k, v = (joined_rows(graph, query), turned_rows(graph, turned), joined_rows(graph, value))
    given = whole_mask(graph, bias, query, turned)
    rows = graph.make_node('Attention', [q, k, v, given], q_num_heads=count, kv_num_heads=count, scale=scale)
    return reshape_to(graph, rows, shape_of(graph, res))


RULES: tuple[Rule, ...] = (
    Rule(
        name='ort_attention',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_1,
        make=make_ort_attention,
        target='onnxruntime',
        opsets=(23, 1000),
        off='without a mask the operators are as fast, and faster with few heads',
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_2,
        make=make_ort_attention,
        target='onnxruntime',
        opsets=(23, 1000),
        off='without a mask the operators are as fast, and faster with few heads',
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=5,
        match=match_ort_attention_3,
        make=make_ort_attention,
        target='onnxruntime',
        opsets=(23, 1000),
        off='without a mask the operators are as fast, and faster with few heads',
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_causal_1,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_causal_2,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_3,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_causal_4,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_causal_5,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_6,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_7,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_8,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_causal_9,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_10,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_causal_11,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_causal',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_causal_12,
        make=make_ort_attention_causal,
        target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_masked_1,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_masked_2,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_masked_3,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_masked_4,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_masked_5,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_masked',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_masked_6,
        make=make_ort_attention_masked,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_with_bias_1,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_with_bias_2,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=8,
        match=match_ort_attention_with_bias_3,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_with_bias_4,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=7,
        match=match_ort_attention_with_bias_5,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    Rule(
        name='ort_attention_with_bias',
        file='specs/rewrites/ort_attention.yaml',
        stage='runtime',
        root='Reshape',
        child='Transpose',
        size=6,
        match=match_ort_attention_with_bias_6,
        make=make_ort_attention_with_bias,
        target='onnxruntime',
        opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
)
