# Generated from specs/rewrites/ort_decode.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import attention_scale, heads_before_repeat
from ortable.passes.rewrite.helpers.caches import decode_attention, heads_before_flat, heads_together, is_written_cache, softcap_of
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.shapes import broadcasts_into, has_shape, known_rank, same_shape
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, shape_of, static

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def finish_ort_decode_1(m: Matcher, nodes: tuple[Node, ...], product: Any, axis: Any, factor: Any, divisor: Any, values: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    graph = m.graph
    n4 = m.producer(product, 'MatMul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    query, r2 = n4.inputs
    n5 = m.producer(r2, 'Transpose')
    if n5 is None or len(n5.inputs) != 1 or not m.plain(n5, ('perm',)):
        return None
    if not literal_equals(n5.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n5.inputs[0]
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale:
        m.refuse('scale')
        return None
    if not is_written_cache(graph, keys):
        m.refuse('is_written_cache(keys)')
        return None
    if not is_written_cache(graph, values):
        m.refuse('is_written_cache(values)')
        return None
    k = heads_before_repeat(graph, keys)
    v = heads_before_repeat(graph, values)
    shown = mask if bias is None else bias
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    together = heads_together(graph, query, k, v, shown)
    if not together > 0:
        m.refuse('together > 0')
        return None
    return Match((*nodes, n4, n5), (root.outputs[0],), (query, scale, k, v, shown, together))


def finish_ort_decode_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, axis: Any, divisor: Any, values: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n3 = m.producer(scores, 'Mul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    for product, factor in m.orders(n3):
        found = finish_ort_decode_1(m, (*nodes, n3), product, axis, factor, divisor, values, mask, bias, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, axis: Any, divisor: Any, values: Any, mask: Any, bias: Any, root: Any, factor: Any) -> Match | None:
    found = finish_ort_decode_2(m, nodes, scores, axis, divisor, values, mask, bias, root)
    if found is not None:
        return found
    n3 = m.producer(scores, 'Div')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    product, divisor = n3.inputs
    return finish_ort_decode_1(m, (*nodes, n3), product, axis, factor, divisor, values, mask, bias, root)


def match_ort_decode(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])); scores = any_of(Mul(product, factor), Div(product, divisor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); heads = MatMul(Softmax(masked, axis=axis), values); return heads"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, values = root.inputs
    n1 = m.producer(r1, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    masked = n1.inputs[0]
    n2 = m.producer(masked, 'Add')
    if n2 is not None and len(n2.inputs) == 2 and (not n2.attrs):
        for scores, bias in m.orders(n2):
            found = finish_ort_decode_3(m, (root, n1, n2), scores, axis, None, values, None, bias, root, None)
            if found is not None:
                return found
        for product, bias in m.orders(n2):
            found = finish_ort_decode_1(m, (root, n1, n2), product, axis, None, None, values, None, bias, root)
            if found is not None:
                return found
    n2 = m.producer(masked, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    mask, scores, r2 = n2.inputs
    if m.number(r2, float('-inf')):
        found = finish_ort_decode_3(m, (root, n1, n2), scores, axis, None, values, mask, None, root, None)
        if found is not None:
            return found
    mask, product, r2 = n2.inputs
    if not m.number(r2, float('-inf')):
        return None
    return finish_ort_decode_1(m, (root, n1, n2), product, axis, None, None, values, mask, None, root)


def make_ort_decode(graph: Graph, res: ResultSpec, query: Result, scale: Any, k: Any, v: Any, shown: Any, together: Any) -> Any:
    return decode_attention(graph, query, k, v, shown, together, scale, shape_of(graph, res))


def finish_ort_decode_flat_1(m: Matcher, nodes: tuple[Node, ...], product: Any, axis: Any, factor: Any, cap: Any, part: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any) -> Match | None:
    graph = m.graph
    n8 = m.producer(product, 'Reshape')
    if n8 is None or len(n8.inputs) != 2 or not m.plain(n8, ('allowzero',), _RESHAPE):
        return None
    r5, _ = n8.inputs
    n9 = m.producer(r5, 'MatMul')
    if n9 is None or len(n9.inputs) != 2 or n9.attrs:
        return None
    rows, columns = n9.inputs
    n10 = m.producer(rows, 'Reshape')
    if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
        return None
    n11 = m.producer(columns, 'Reshape')
    if n11 is None or len(n11.inputs) != 2 or not m.plain(n11, ('allowzero',), _RESHAPE):
        return None
    query, _ = n10.inputs
    r6, _ = n11.inputs
    n12 = m.producer(r6, 'Transpose')
    if n12 is None or len(n12.inputs) != 1 or not m.plain(n12, ('perm',)):
        return None
    if not literal_equals(n12.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n12.inputs[0]
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    softcap = softcap_of(graph, cap, part, limit, bias)
    k = heads_before_repeat(graph, keys)
    if not is_written_cache(graph, k):
        m.refuse('is_written_cache(k)')
        return None
    v = heads_before_flat(graph, flat, k)
    if not is_written_cache(graph, v):
        m.refuse('is_written_cache(v)')
        return None
    if not softcap >= 0:
        m.refuse('softcap >= 0')
        return None
    if not broadcasts_into(graph, bias, product):
        m.refuse('broadcasts_into(bias, product)')
        return None
    if not known_rank(graph, query) == 4:
        m.refuse('known_rank(query) == 4')
        return None
    size = shape_of(graph, query)
    many = size[0] * size[1]
    places = dim_of(graph, keys, 2)
    flat_heads = has_shape(graph, keys, [size[0], size[1], places, size[3]]) and has_shape(graph, rows, [many, size[2], size[3]]) and has_shape(graph, product, [*size[:3], places]) and has_shape(graph, probs, [many, size[2], places]) and has_shape(graph, flat, [many, places, size[3]])
    if not flat_heads:
        m.refuse('flat_heads')
        return None
    together = heads_together(graph, query, k, v, bias)
    if not together > 0:
        m.refuse('together > 0')
        return None
    return Match((*nodes, n8, n9, n10, n11, n12), (root.outputs[0],), (query, bias, scale, softcap, k, v, together))


def finish_ort_decode_flat_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, axis: Any, cap: Any, part: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any) -> Match | None:
    n7 = m.producer(scores, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for product, factor in m.orders(n7):
        found = finish_ort_decode_flat_1(m, (*nodes, n7), product, axis, factor, cap, part, limit, bias, flat, probs, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_flat_3(m: Matcher, nodes: tuple[Node, ...], n6: Any, axis: Any, part: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any) -> Match | None:
    scores, cap = n6.inputs
    return finish_ort_decode_flat_2(m, nodes, scores, axis, cap, part, limit, bias, flat, probs, root)


def finish_ort_decode_flat_4(m: Matcher, nodes: tuple[Node, ...], r4: Any, axis: Any, part: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any, factor: Any) -> Match | None:
    n6 = m.producer(r4, 'Div')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    found = finish_ort_decode_flat_3(m, (*nodes, n6), n6, axis, part, limit, bias, flat, probs, root)
    if found is not None:
        return found
    product, cap = n6.inputs
    return finish_ort_decode_flat_1(m, (*nodes, n6), product, axis, factor, cap, part, limit, bias, flat, probs, root)


def finish_ort_decode_flat_5(m: Matcher, nodes: tuple[Node, ...], n6: Any, axis: Any, cap: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any) -> Match | None:
    for scores, part in m.orders(n6):
        found = finish_ort_decode_flat_2(m, nodes, scores, axis, cap, part, limit, bias, flat, probs, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_flat_6(m: Matcher, nodes: tuple[Node, ...], r4: Any, axis: Any, cap: Any, limit: Any, bias: Any, flat: Any, probs: Any, root: Any, factor: Any) -> Match | None:
    n6 = m.producer(r4, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    found = finish_ort_decode_flat_5(m, (*nodes, n6), n6, axis, cap, limit, bias, flat, probs, root)
    if found is not None:
        return found
    for product, part in m.orders(n6):
        found = finish_ort_decode_flat_1(m, (*nodes, n6), product, axis, factor, cap, part, limit, bias, flat, probs, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_flat_7(m: Matcher, nodes: tuple[Node, ...], n3: Any, axis: Any, part: Any, flat: Any, probs: Any, root: Any, factor: Any, cap: Any) -> Match | None:
    for capped, bias in m.orders(n3):
        n4 = m.producer(capped, 'Mul')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        for r3, limit in m.orders(n4):
            n5 = m.producer(r3, 'Tanh')
            if n5 is None or len(n5.inputs) != 1 or n5.attrs:
                continue
            r4 = n5.inputs[0]
            found = finish_ort_decode_flat_4(m, (*nodes, n4, n5), r4, axis, part, limit, bias, flat, probs, root, factor)
            if found is not None:
                return found
            found = finish_ort_decode_flat_6(m, (*nodes, n4, n5), r4, axis, cap, limit, bias, flat, probs, root, factor)
            if found is not None:
                return found
    return None


def finish_ort_decode_flat_8(m: Matcher, nodes: tuple[Node, ...], n3: Any, axis: Any, cap: Any, part: Any, limit: Any, flat: Any, probs: Any, root: Any) -> Match | None:
    for scores, bias in m.orders(n3):
        found = finish_ort_decode_flat_2(m, nodes, scores, axis, cap, part, limit, bias, flat, probs, root)
        if found is not None:
            return found
    return None


def match_ort_decode_flat(m: Matcher, root: Node) -> Match | None:
    """rows = Reshape(query, _, allowzero=_); columns = Reshape(Transpose(keys, perm=[0, 1, 3, 2]), _, allowzero=_); product = Reshape(MatMul(rows, columns), _, allowzero=_); scores = any_of(Mul(product, factor), product); capped = any_of(Mul(Tanh(any_of(Div(scores, cap), Mul(scores, part))), limit), scores); probs = Reshape(Softmax(Add(capped, bias), axis=axis), _, allowzero=_); heads = MatMul(probs, flat); return heads"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    probs, flat = root.inputs
    n1 = m.producer(probs, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    r1, _ = n1.inputs
    n2 = m.producer(r1, 'Softmax')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('axis',), _SOFTMAX):
        return None
    axis = n2.attrs.get('axis', -1)
    r2 = n2.inputs[0]
    n3 = m.producer(r2, 'Add')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    found = finish_ort_decode_flat_7(m, (root, n1, n2, n3), n3, axis, None, flat, probs, root, None, None)
    if found is not None:
        return found
    found = finish_ort_decode_flat_8(m, (root, n1, n2, n3), n3, axis, None, None, None, flat, probs, root)
    if found is not None:
        return found
    for product, bias in m.orders(n3):
        found = finish_ort_decode_flat_1(m, (root, n1, n2, n3), product, axis, None, None, None, None, bias, flat, probs, root)
        if found is not None:
            return found
    return None


def make_ort_decode_flat(graph: Graph, res: ResultSpec, query: Result, bias: Result, scale: Any, softcap: Any, k: Any, v: Any, together: Any) -> Any:
    return decode_attention(graph, query, k, v, bias, together, scale, shape_of(graph, res), softcap)


def finish_ort_decode_grouped_1(m: Matcher, nodes: tuple[Node, ...], product: Any, axis: Any, factor: Any, divisor: Any, v: Any, mask: Any, bias: Any, probs: Any, heads: Any, root: Any) -> Match | None:
    graph = m.graph
    n6 = m.producer(product, 'Reshape')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6, ('allowzero',), _RESHAPE):
        return None
    r3, _ = n6.inputs
    n7 = m.producer(r3, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    rows, r4 = n7.inputs
    n8 = m.producer(rows, 'Reshape')
    if n8 is None or len(n8.inputs) != 2 or not m.plain(n8, ('allowzero',), _RESHAPE):
        return None
    n9 = m.producer(r4, 'Transpose')
    if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
        return None
    if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    query, _ = n8.inputs
    k = n9.inputs[0]
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not axis % 4 == 3:
        m.refuse('axis % 4 == 3')
        return None
    scale = attention_scale(graph, factor, divisor)
    if not scale:
        m.refuse('scale')
        return None
    if not is_written_cache(graph, k):
        m.refuse('is_written_cache(k)')
        return None
    if not is_written_cache(graph, v):
        m.refuse('is_written_cache(v)')
        return None
    if not known_rank(graph, query) == 4:
        m.refuse('known_rank(query) == 4')
        return None
    shown = mask if bias is None else bias
    together = heads_together(graph, query, k, v, shown)
    size = shape_of(graph, query)
    groups = static(dim_of(graph, k, 1))
    many = static(size[1]) // max(groups, 1) * size[2]
    places = dim_of(graph, k, 2)
    grouped = has_shape(graph, rows, [size[0], groups, many, size[3]]) and has_shape(graph, product, [*size[:3], places]) and has_shape(graph, probs, [size[0], groups, many, places])
    if not grouped:
        m.refuse('grouped')
        return None
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    if not same_shape(graph, heads, query):
        m.refuse('same_shape(heads, query)')
        return None
    if not together > 0:
        m.refuse('together > 0')
        return None
    return Match((*nodes, n6, n7, n8, n9), (root.outputs[0],), (query, k, v, scale, shown, together))


def finish_ort_decode_grouped_2(m: Matcher, nodes: tuple[Node, ...], scores: Any, axis: Any, divisor: Any, v: Any, mask: Any, bias: Any, probs: Any, heads: Any, root: Any) -> Match | None:
    n5 = m.producer(scores, 'Mul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    for product, factor in m.orders(n5):
        found = finish_ort_decode_grouped_1(m, (*nodes, n5), product, axis, factor, divisor, v, mask, bias, probs, heads, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_grouped_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, axis: Any, divisor: Any, v: Any, mask: Any, bias: Any, probs: Any, heads: Any, root: Any, factor: Any) -> Match | None:
    found = finish_ort_decode_grouped_2(m, nodes, scores, axis, divisor, v, mask, bias, probs, heads, root)
    if found is not None:
        return found
    n5 = m.producer(scores, 'Div')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    product, divisor = n5.inputs
    return finish_ort_decode_grouped_1(m, (*nodes, n5), product, axis, factor, divisor, v, mask, bias, probs, heads, root)


def finish_ort_decode_grouped_4(m: Matcher, nodes: tuple[Node, ...], n4: Any, axis: Any, divisor: Any, v: Any, mask: Any, probs: Any, heads: Any, root: Any, factor: Any) -> Match | None:
    for scores, bias in m.orders(n4):
        found = finish_ort_decode_grouped_3(m, nodes, scores, axis, divisor, v, mask, bias, probs, heads, root, factor)
        if found is not None:
            return found
    return None


def finish_ort_decode_grouped_5(m: Matcher, nodes: tuple[Node, ...], masked: Any, axis: Any, divisor: Any, v: Any, mask: Any, probs: Any, heads: Any, root: Any, factor: Any) -> Match | None:
    n4 = m.producer(masked, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    found = finish_ort_decode_grouped_4(m, (*nodes, n4), n4, axis, divisor, v, mask, probs, heads, root, factor)
    if found is not None:
        return found
    for product, bias in m.orders(n4):
        found = finish_ort_decode_grouped_1(m, (*nodes, n4), product, axis, factor, divisor, v, mask, bias, probs, heads, root)
        if found is not None:
            return found
    return None


def finish_ort_decode_grouped_6(m: Matcher, nodes: tuple[Node, ...], n4: Any, axis: Any, divisor: Any, v: Any, bias: Any, probs: Any, heads: Any, root: Any, factor: Any) -> Match | None:
    mask, scores, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    return finish_ort_decode_grouped_3(m, nodes, scores, axis, divisor, v, mask, bias, probs, heads, root, factor)


def match_ort_decode_grouped(m: Matcher, root: Node) -> Match | None:
    """rows = Reshape(query, _, allowzero=_); product = Reshape(MatMul(rows, Transpose(k, perm=[0, 1, 3, 2])), _, allowzero=_); scores = any_of(Mul(product, factor), Div(product, divisor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); probs = Reshape(Softmax(masked, axis=axis), _, allowzero=_); heads = Reshape(MatMul(probs, v), _, allowzero=_); return heads"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    heads = root.outputs[0]
    r1, _ = root.inputs
    n1 = m.producer(r1, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    probs, v = n1.inputs
    n2 = m.producer(probs, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    r2, _ = n2.inputs
    n3 = m.producer(r2, 'Softmax')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('axis',), _SOFTMAX):
        return None
    axis = n3.attrs.get('axis', -1)
    masked = n3.inputs[0]
    found = finish_ort_decode_grouped_5(m, (root, n1, n2, n3), masked, axis, None, v, None, probs, heads, root, None)
    if found is not None:
        return found
    n4 = m.producer(masked, 'Where')
    if n4 is None or len(n4.inputs) != 3 or n4.attrs:
        return None
    found = finish_ort_decode_grouped_6(m, (root, n1, n2, n3, n4), n4, axis, None, v, None, probs, heads, root, None)
    if found is not None:
        return found
    mask, product, r3 = n4.inputs
    if not m.number(r3, float('-inf')):
        return None
    return finish_ort_decode_grouped_1(m, (root, n1, n2, n3, n4), product, axis, None, None, v, mask, None, probs, heads, root)


def make_ort_decode_grouped(graph: Graph, res: ResultSpec, query: Result, k: Result, v: Result, scale: Any, shown: Any, together: Any) -> Any:
    return decode_attention(graph, query, k, v, shown, together, scale, shape_of(graph, res))
