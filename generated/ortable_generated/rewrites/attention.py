# Generated from specs/rewrites/attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.attention import attention_factor, is_attention, is_attention_mask, repeats_heads, untransposed_keys
from ortable.passes.rewrite.words.masks import empty_rows_are_zero, every_row_sees
from ortable.passes.rewrite.words.numbers import is_float32
from ortable.prelude.facts import dtype_of
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_ATTENTION = {'is_causal': 0, 'left_window_size': -1, 'qk_matmul_output_mode': 0, 'right_window_size': -1, 'softcap': 0.0}
_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def accept_attention(m: Matcher, q: Any, keys: Any, factor: Any, bias: Any, v: Any, product: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, q):
        m.refuse('is_float32(q)')
        return None
    if not is_attention(graph, q, keys, v):
        m.refuse('is_attention(q, keys, v)')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_factor(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not is_attention_mask(graph, bias, product):
        m.refuse('is_attention_mask(bias, product)')
        return None
    if not every_row_sees(graph, bias):
        m.refuse('every_row_sees(bias)')
        return None
    return (scale,)


def match_attention_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Mul(product, factor); weights = Softmax(Add(scores, bias), axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for scores, bias in m.orders(n2):
        n3 = m.producer(scores, 'Mul')
        if n3 is None or len(n3.inputs) != 2 or n3.attrs:
            continue
        for product, factor in m.orders(n3):
            n4 = m.producer(product, 'MatMul')
            if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                continue
            q, keys = n4.inputs
            divisor = None
            accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
            if accepted is None:
                continue
            scale, = accepted
            return Match((root, n1, n2, n3, n4), (root.outputs[0],), (q, keys, bias, v, scale))
    return None


def match_attention_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Mul(product, factor); weights = Softmax(scores, axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    scores = n1.inputs[0]
    n2 = m.producer(scores, 'Mul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for product, factor in m.orders(n2):
        n3 = m.producer(product, 'MatMul')
        if n3 is None or len(n3.inputs) != 2 or n3.attrs:
            continue
        q, keys = n3.inputs
        bias = None
        divisor = None
        accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
        if accepted is None:
            continue
        scale, = accepted
        return Match((root, n1, n2, n3), (root.outputs[0],), (q, keys, bias, v, scale))
    return None


def match_attention_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Div(product, divisor); weights = Softmax(Add(scores, bias), axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for scores, bias in m.orders(n2):
        n3 = m.producer(scores, 'Div')
        if n3 is None or len(n3.inputs) != 2 or n3.attrs:
            continue
        product, divisor = n3.inputs
        n4 = m.producer(product, 'MatMul')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        q, keys = n4.inputs
        factor = None
        accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
        if accepted is None:
            continue
        scale, = accepted
        return Match((root, n1, n2, n3, n4), (root.outputs[0],), (q, keys, bias, v, scale))
    return None


def match_attention_4(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Div(product, divisor); weights = Softmax(scores, axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    scores = n1.inputs[0]
    n2 = m.producer(scores, 'Div')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    product, divisor = n2.inputs
    n3 = m.producer(product, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    q, keys = n3.inputs
    factor = None
    bias = None
    accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
    if accepted is None:
        return None
    scale, = accepted
    return Match((root, n1, n2, n3), (root.outputs[0],), (q, keys, bias, v, scale))


def match_attention_5(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = product; weights = Softmax(Add(scores, bias), axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for product, bias in m.orders(n2):
        n3 = m.producer(product, 'MatMul')
        if n3 is None or len(n3.inputs) != 2 or n3.attrs:
            continue
        q, keys = n3.inputs
        factor = None
        divisor = None
        accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
        if accepted is None:
            continue
        scale, = accepted
        return Match((root, n1, n2, n3), (root.outputs[0],), (q, keys, bias, v, scale))
    return None


def match_attention_6(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = product; weights = Softmax(scores, axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    product = n1.inputs[0]
    n2 = m.producer(product, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    q, keys = n2.inputs
    factor = None
    bias = None
    divisor = None
    accepted = accept_attention(m, q, keys, factor, bias, v, product, axis, divisor)
    if accepted is None:
        return None
    scale, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (q, keys, bias, v, scale))


def make_attention(graph: Graph, res: ResultSpec, q: Result, keys: Result, bias: Result | None, v: Result, scale: Any) -> Any:
    k = untransposed_keys(graph, keys)
    return graph.make_node('Attention', [q, k, v, bias], res.outputs, scale=scale)


def match_attention_groups(m: Matcher, root: Node) -> Match | None:
    """keys = Reshape(Expand(Unsqueeze(k, [2]), _), _, allowzero=_); values = Reshape(Expand(Unsqueeze(v, [2]), _), _, allowzero=_); return Attention(q, keys, values, maybe(mask), scale=scale)"""
    graph = m.graph
    if not 3 <= len(root.inputs) <= 4 or not m.plain(root, ('scale',), _ATTENTION):
        return None
    scale = root.attrs.get('scale')
    q, keys, values = root.inputs[:3]
    mask = root.inputs[3] or None if len(root.inputs) > 3 else None
    n1 = m.producer(keys, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    n2 = m.producer(values, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    r1, _ = n1.inputs
    n3 = m.producer(r1, 'Expand')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    r2, _ = n2.inputs
    n4 = m.producer(r2, 'Expand')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    r3, _ = n3.inputs
    n5 = m.producer(r3, 'Unsqueeze')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    r4, _ = n4.inputs
    n6 = m.producer(r4, 'Unsqueeze')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    k, r5 = n5.inputs
    if not m.numbers(r5, [2]):
        return None
    v, r6 = n6.inputs
    if not m.numbers(r6, [2]):
        return None
    if not repeats_heads(graph, k, keys):
        m.refuse('repeats_heads(k, keys)')
        return None
    if not repeats_heads(graph, v, values):
        m.refuse('repeats_heads(v, values)')
        return None
    return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (k, v, q, mask, scale))


def make_attention_groups(graph: Graph, res: ResultSpec, k: Result, v: Result, q: Result, mask: Result | None, scale: Any) -> Any:
    return graph.make_node('Attention', [q, k, v, mask], res.outputs, scale=scale)


def accept_attention_masked(m: Matcher, q: Any, keys: Any, factor: Any, mask: Any, v: Any, allowed: Any, product: Any, axis: Any, divisor: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, q):
        m.refuse('is_float32(q)')
        return None
    if not is_attention(graph, q, keys, v):
        m.refuse('is_attention(q, keys, v)')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_factor(graph, factor, divisor)
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    if not is_attention_mask(graph, mask, product):
        m.refuse('is_attention_mask(mask, product)')
        return None
    if not empty_rows_are_zero(graph, mask, allowed):
        m.refuse('empty_rows_are_zero(mask, allowed)')
        return None
    return (scale,)


def match_attention_masked_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Mul(product, factor); weights = Softmax(Where(mask, scores, -inf), axis=axis); return Where(allowed, MatMul(weights, v), 0)"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    allowed, r1, r2 = root.inputs
    if not m.number(r2, 0):
        return None
    n1 = m.producer(r1, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    weights, v = n1.inputs
    n2 = m.producer(weights, 'Softmax')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('axis',), _SOFTMAX):
        return None
    axis = n2.attrs.get('axis', -1)
    r3 = n2.inputs[0]
    n3 = m.producer(r3, 'Where')
    if n3 is None or len(n3.inputs) != 3 or n3.attrs:
        return None
    mask, scores, r4 = n3.inputs
    if not m.number(r4, float('-inf')):
        return None
    n4 = m.producer(scores, 'Mul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for product, factor in m.orders(n4):
        n5 = m.producer(product, 'MatMul')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        q, keys = n5.inputs
        divisor = None
        accepted = accept_attention_masked(m, q, keys, factor, mask, v, allowed, product, axis, divisor)
        if accepted is None:
            continue
        scale, = accepted
        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (q, keys, mask, v, allowed, scale))
    return None


def match_attention_masked_2(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = Div(product, divisor); weights = Softmax(Where(mask, scores, -inf), axis=axis); return Where(allowed, MatMul(weights, v), 0)"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    allowed, r1, r2 = root.inputs
    if not m.number(r2, 0):
        return None
    n1 = m.producer(r1, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    weights, v = n1.inputs
    n2 = m.producer(weights, 'Softmax')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('axis',), _SOFTMAX):
        return None
    axis = n2.attrs.get('axis', -1)
    r3 = n2.inputs[0]
    n3 = m.producer(r3, 'Where')
    if n3 is None or len(n3.inputs) != 3 or n3.attrs:
        return None
    mask, scores, r4 = n3.inputs
    if not m.number(r4, float('-inf')):
        return None
    n4 = m.producer(scores, 'Div')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    product, divisor = n4.inputs
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    q, keys = n5.inputs
    factor = None
    accepted = accept_attention_masked(m, q, keys, factor, mask, v, allowed, product, axis, divisor)
    if accepted is None:
        return None
    scale, = accepted
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (q, keys, mask, v, allowed, scale))


def match_attention_masked_3(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = product; weights = Softmax(Where(mask, scores, -inf), axis=axis); return Where(allowed, MatMul(weights, v), 0)"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    allowed, r1, r2 = root.inputs
    if not m.number(r2, 0):
        return None
    n1 = m.producer(r1, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    weights, v = n1.inputs
    n2 = m.producer(weights, 'Softmax')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('axis',), _SOFTMAX):
        return None
    axis = n2.attrs.get('axis', -1)
    r3 = n2.inputs[0]
    n3 = m.producer(r3, 'Where')
    if n3 is None or len(n3.inputs) != 3 or n3.attrs:
        return None
    mask, product, r4 = n3.inputs
    if not m.number(r4, float('-inf')):
        return None
    n4 = m.producer(product, 'MatMul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    q, keys = n4.inputs
    factor = None
    divisor = None
    accepted = accept_attention_masked(m, q, keys, factor, mask, v, allowed, product, axis, divisor)
    if accepted is None:
        return None
    scale, = accepted
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (q, keys, mask, v, allowed, scale))


def make_attention_masked(graph: Graph, res: ResultSpec, q: Result, keys: Result, mask: Result, v: Result, allowed: Result, scale: Any) -> Any:
    k = untransposed_keys(graph, keys)
    out = graph.make_node('Attention', [q, k, v, mask], scale=scale)
    return graph.make_node('Where', [allowed, out, const(graph, 0, dtype_of(graph, q))], res.outputs)
