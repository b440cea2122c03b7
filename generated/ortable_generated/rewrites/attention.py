# Generated from specs/rewrites/attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import attention_scale, repeats_heads, untransposed_keys
from ortable.passes.rewrite.helpers.masks import empty_rows_are_zero, every_row_sees
from ortable.passes.rewrite.helpers.numbers import is_float32
from ortable.passes.rewrite.helpers.shapes import broadcasts_into
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, dtype_of, is_static, rank_of, shape_of
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_ATTENTION = {'is_causal': 0, 'left_window_size': -1, 'qk_matmul_output_mode': 0, 'right_window_size': -1, 'softcap': 0.0}
_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def finish_attention_1(m: Matcher, nodes: tuple[Node, ...], product: Any, factor: Any, divisor: Any, v: Any, axis: Any, bias: Any, root: Any) -> Match | None:
    graph = m.graph
    n4 = m.producer(product, 'MatMul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    q, keys = n4.inputs
    if not is_float32(graph, q):
        m.refuse('is_float32(q)')
        return None
    scale = attention_scale(graph, factor, divisor)
    heads = [[rank_of(graph, each), *shape_of(graph, each)[:2]] for each in [q, keys, v]]
    alike = is_static(dim_of(graph, q, 1)) and heads == [[4, *shape_of(graph, q)[:2]]] * 3
    if not alike:
        m.refuse('alike')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    fits = True if bias is None else broadcasts_into(graph, bias, product) and shape_of(graph, bias)[-2:] == shape_of(graph, product)[-2:]
    if not fits:
        m.refuse('fits')
        return None
    if not every_row_sees(graph, bias):
        m.refuse('every_row_sees(bias)')
        return None
    return Match((*nodes, n4), (root.outputs[0],), (q, keys, bias, v, scale))


def finish_attention_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, divisor: Any, v: Any, axis: Any, bias: Any, root: Any) -> Match | None:
    n3 = m.producer(scores, 'Mul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    for product, factor in m.orders(n3):
        found = finish_attention_1(m, (*nodes, n3), product, factor, divisor, v, axis, bias, root)
        if found is not None:
            return found
    return None


def finish_attention_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, divisor: Any, v: Any, axis: Any, bias: Any, root: Any, factor: Any) -> Match | None:
    found = finish_attention_2(m, nodes, scores, divisor, v, axis, bias, root)
    if found is not None:
        return found
    n3 = m.producer(scores, 'Div')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    product, divisor = n3.inputs
    return finish_attention_1(m, (*nodes, n3), product, factor, divisor, v, axis, bias, root)


def match_attention(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = any_of(Mul(product, factor), Div(product, divisor), product); weights = Softmax(any_of(Add(scores, bias), scores), axis=axis); return MatMul(weights, v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    weights, v = root.inputs
    n1 = m.producer(weights, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is not None and len(n2.inputs) == 2 and (not n2.attrs):
        for scores, bias in m.orders(n2):
            found = finish_attention_3(m, (root, n1, n2), scores, None, v, axis, bias, root, None)
            if found is not None:
                return found
        for product, bias in m.orders(n2):
            found = finish_attention_1(m, (root, n1, n2), product, None, None, v, axis, bias, root)
            if found is not None:
                return found
    scores = n1.inputs[0]
    found = finish_attention_3(m, (root, n1), scores, None, v, axis, None, root, None)
    if found is not None:
        return found
    product = n1.inputs[0]
    return finish_attention_1(m, (root, n1), product, None, None, v, axis, None, root)


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
    r2, _ = n3.inputs
    n4 = m.producer(r2, 'Unsqueeze')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    k, r3 = n4.inputs
    if not m.numbers(r3, [2]):
        return None
    r4, _ = n2.inputs
    n5 = m.producer(r4, 'Expand')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    r5, _ = n5.inputs
    n6 = m.producer(r5, 'Unsqueeze')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
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


def finish_attention_masked_1(m: Matcher, nodes: tuple[Node, ...], product: Any, factor: Any, divisor: Any, v: Any, axis: Any, mask: Any, allowed: Any, root: Any) -> Match | None:
    graph = m.graph
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    q, keys = n5.inputs
    if not is_float32(graph, q):
        m.refuse('is_float32(q)')
        return None
    scale = attention_scale(graph, factor, divisor)
    heads = [[rank_of(graph, each), *shape_of(graph, each)[:2]] for each in [q, keys, v]]
    alike = is_static(dim_of(graph, q, 1)) and heads == [[4, *shape_of(graph, q)[:2]]] * 3
    if not alike:
        m.refuse('alike')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    if not scale > 0:
        m.refuse('scale > 0')
        return None
    fits = broadcasts_into(graph, mask, product) and shape_of(graph, mask)[-2:] == shape_of(graph, product)[-2:]
    if not fits:
        m.refuse('fits')
        return None
    if not empty_rows_are_zero(graph, mask, allowed):
        m.refuse('empty_rows_are_zero(mask, allowed)')
        return None
    return Match((*nodes, n5), (root.outputs[0],), (q, keys, mask, v, allowed, scale))


def match_attention_masked(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(q, keys); scores = any_of(Mul(product, factor), Div(product, divisor), product); weights = Softmax(Where(mask, scores, -inf), axis=axis); return Where(allowed, MatMul(weights, v), 0)"""
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
    if m.number(r4, float('-inf')):
        n4 = m.producer(scores, 'Mul')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            for product, factor in m.orders(n4):
                found = finish_attention_masked_1(m, (root, n1, n2, n3, n4), product, factor, None, v, axis, mask, allowed, root)
                if found is not None:
                    return found
        n4 = m.producer(scores, 'Div')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            product, divisor = n4.inputs
            found = finish_attention_masked_1(m, (root, n1, n2, n3, n4), product, None, divisor, v, axis, mask, allowed, root)
            if found is not None:
                return found
    mask, product, r4 = n3.inputs
    if not m.number(r4, float('-inf')):
        return None
    return finish_attention_masked_1(m, (root, n1, n2, n3), product, None, None, v, axis, mask, allowed, root)


def make_attention_masked(graph: Graph, res: ResultSpec, q: Result, keys: Result, mask: Result, v: Result, allowed: Result, scale: Any) -> Any:
    k = untransposed_keys(graph, keys)
    out = graph.make_node('Attention', [q, k, v, mask], scale=scale)
    return graph.make_node('Where', [allowed, out, const(graph, 0, dtype_of(graph, q))], res.outputs)
