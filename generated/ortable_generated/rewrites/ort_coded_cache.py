# Generated from specs/rewrites/ort_coded_cache.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import attention_scale, repeats_heads
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.quantized_caches import is_quantized_cache, quantized_attention, share_quantized_heads
from ortable.passes.rewrite.helpers.shapes import broadcasts_into
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}
_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def finish_ort_coded_cache_1(m: Matcher, nodes: tuple[Node, ...], axis: Any, factor: Any, divisor: Any, present_k: Any, k: Any, inverse_k: Any, scale_k: Any, lowest: Any, highest: Any, present_v: Any, v: Any, inverse_v: Any, scale_v: Any, query: Any, past_k: Any, mask: Any, bias: Any, product: Any, root: Any, past_v: Any) -> Match | None:
    graph = m.graph
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
    if not is_quantized_cache(graph, present_k, k, inverse_k, scale_k, lowest, highest):
        m.refuse('is_quantized_cache(present_k, k, inverse_k, scale_k, lowest, highest)')
        return None
    if not is_quantized_cache(graph, present_v, v, inverse_v, scale_v, lowest, highest):
        m.refuse('is_quantized_cache(present_v, v, inverse_v, scale_v, lowest, highest)')
        return None
    if not share_quantized_heads(graph, query, k, v, past_k):
        m.refuse('share_quantized_heads(query, k, v, past_k)')
        return None
    shown = mask if bias is None else bias
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    return Match(nodes, (root.outputs[0], present_k, present_v), (k, past_k, v, past_v, scale_k, scale_v, query, scale, shown))


def finish_ort_coded_cache_2(m: Matcher, nodes: tuple[Node, ...], n19: Any, axis: Any, factor: Any, divisor: Any, present_k: Any, scale_k: Any, lowest: Any, highest: Any, present_v: Any, v: Any, inverse_v: Any, scale_v: Any, query: Any, past_k: Any, mask: Any, bias: Any, product: Any, root: Any, past_v: Any) -> Match | None:
    for k, inverse_k in m.orders(n19):
        found = finish_ort_coded_cache_1(m, nodes, axis, factor, divisor, present_k, k, inverse_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, query, past_k, mask, bias, product, root, past_v)
        if found is not None:
            return found
    return None


def finish_ort_coded_cache_3(m: Matcher, nodes: tuple[Node, ...], product: Any, n2: Any, axis: Any, factor: Any, divisor: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, r2 = n5.inputs
    n6 = m.producer(r2, 'Transpose')
    if n6 is None or len(n6.inputs) != 1 or not m.plain(n6, ('perm',)):
        return None
    if not literal_equals(n6.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n6.inputs[0]
    n7 = m.producer(keys, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for r3, scale_v in m.orders(n2):
        n8 = m.producer(r3, 'Cast')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('to',), _CAST):
            continue
        present_v = n8.inputs[0]
        n9 = m.producer(present_v, 'Concat')
        if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('axis',)):
            continue
        if not literal_equals(n9.attrs.get('axis'), 2):
            continue
        past_v, r4 = n9.inputs
        n10 = m.producer(r4, 'Cast')
        if n10 is None or len(n10.inputs) != 1 or not m.plain(n10, ('to',), _CAST):
            continue
        r5 = n10.inputs[0]
        n11 = m.producer(r5, 'Clip')
        if n11 is None or len(n11.inputs) != 3 or n11.attrs:
            continue
        r6, lowest, highest = n11.inputs
        if not lowest or not highest:
            continue
        n12 = m.producer(r6, 'Round')
        if n12 is None or len(n12.inputs) != 1 or n12.attrs:
            continue
        r7 = n12.inputs[0]
        n13 = m.producer(r7, 'Mul')
        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
            continue
        for r8, scale_k in m.orders(n7):
            n14 = m.producer(r8, 'Cast')
            if n14 is None or len(n14.inputs) != 1 or not m.plain(n14, ('to',), _CAST):
                continue
            present_k = n14.inputs[0]
            n15 = m.producer(present_k, 'Concat')
            if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
                continue
            if not literal_equals(n15.attrs.get('axis'), 2):
                continue
            past_k, r9 = n15.inputs
            n16 = m.producer(r9, 'Cast')
            if n16 is None or len(n16.inputs) != 1 or not m.plain(n16, ('to',), _CAST):
                continue
            r10 = n16.inputs[0]
            n17 = m.producer(r10, 'Clip')
            if n17 is None or len(n17.inputs) != 3 or n17.attrs:
                continue
            r11, r12, r13 = n17.inputs
            if r12 != lowest or r13 != highest:
                continue
            n18 = m.producer(r11, 'Round')
            if n18 is None or len(n18.inputs) != 1 or n18.attrs:
                continue
            r14 = n18.inputs[0]
            n19 = m.producer(r14, 'Mul')
            if n19 is None or len(n19.inputs) != 2 or n19.attrs:
                continue
            for v, inverse_v in m.orders(n13):
                found = finish_ort_coded_cache_2(m, (*nodes, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19), n19, axis, factor, divisor, present_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, query, past_k, mask, bias, product, root, past_v)
                if found is not None:
                    return found
    return None


def finish_ort_coded_cache_4(m: Matcher, nodes: tuple[Node, ...], product: Any, n2: Any, axis: Any, factor: Any, divisor: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, r3 = n5.inputs
    n6 = m.producer(r3, 'Transpose')
    if n6 is None or len(n6.inputs) != 1 or not m.plain(n6, ('perm',)):
        return None
    if not literal_equals(n6.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n6.inputs[0]
    n7 = m.producer(keys, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for r4, scale_k in m.orders(n7):
        n8 = m.producer(r4, 'Cast')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('to',), _CAST):
            continue
        present_k = n8.inputs[0]
        n9 = m.producer(present_k, 'Concat')
        if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('axis',)):
            continue
        if not literal_equals(n9.attrs.get('axis'), 2):
            continue
        past_k, r5 = n9.inputs
        n10 = m.producer(r5, 'Cast')
        if n10 is None or len(n10.inputs) != 1 or not m.plain(n10, ('to',), _CAST):
            continue
        r6 = n10.inputs[0]
        n11 = m.producer(r6, 'Clip')
        if n11 is None or len(n11.inputs) != 3 or n11.attrs:
            continue
        r7, lowest, highest = n11.inputs
        if not lowest or not highest:
            continue
        n12 = m.producer(r7, 'Round')
        if n12 is None or len(n12.inputs) != 1 or n12.attrs:
            continue
        r8 = n12.inputs[0]
        n13 = m.producer(r8, 'Mul')
        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
            continue
        for r9, scale_v in m.orders(n2):
            n14 = m.producer(r9, 'Cast')
            if n14 is None or len(n14.inputs) != 1 or not m.plain(n14, ('to',), _CAST):
                continue
            present_v = n14.inputs[0]
            n15 = m.producer(present_v, 'Concat')
            if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
                continue
            if not literal_equals(n15.attrs.get('axis'), 2):
                continue
            past_v, r10 = n15.inputs
            n16 = m.producer(r10, 'Cast')
            if n16 is None or len(n16.inputs) != 1 or not m.plain(n16, ('to',), _CAST):
                continue
            r11 = n16.inputs[0]
            n17 = m.producer(r11, 'Clip')
            if n17 is None or len(n17.inputs) != 3 or n17.attrs:
                continue
            r12, r13, r14 = n17.inputs
            if r13 != lowest or r14 != highest:
                continue
            n18 = m.producer(r12, 'Round')
            if n18 is None or len(n18.inputs) != 1 or n18.attrs:
                continue
            r15 = n18.inputs[0]
            n19 = m.producer(r15, 'Mul')
            if n19 is None or len(n19.inputs) != 2 or n19.attrs:
                continue
            for k, inverse_k in m.orders(n13):
                for v, inverse_v in m.orders(n19):
                    found = finish_ort_coded_cache_1(m, (*nodes, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19), axis, factor, divisor, present_k, k, inverse_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, query, past_k, mask, bias, product, root, past_v)
                    if found is not None:
                        return found
    return None


def match_ort_coded_cache(m: Matcher, root: Node) -> Match | None:
    """present_k = Concat(past_k, Cast(Clip(Round(Mul(k, inverse_k)), lowest, highest), to=_), axis=2); present_v = Concat(past_v, Cast(Clip(Round(Mul(v, inverse_v)), lowest, highest), to=_), axis=2); keys = Mul(Cast(present_k, to=_), scale_k); values = Mul(Cast(present_v, to=_), scale_v); product = MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])); scores = any_of(Mul(product, factor), Div(product, divisor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); heads = MatMul(Softmax(masked, axis=axis), values); return (heads, present_k, present_v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, values = root.inputs
    n1 = m.producer(r1, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    n2 = m.producer(values, 'Mul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    masked = n1.inputs[0]
    n3 = m.producer(masked, 'Add')
    if n3 is not None and len(n3.inputs) == 2 and (not n3.attrs):
        for scores, bias in m.orders(n3):
            n4 = m.producer(scores, 'Mul')
            if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
                for r2, scale_v in m.orders(n2):
                    n5 = m.producer(r2, 'Cast')
                    if n5 is None or len(n5.inputs) != 1 or not m.plain(n5, ('to',), _CAST):
                        continue
                    present_v = n5.inputs[0]
                    n6 = m.producer(present_v, 'Concat')
                    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6, ('axis',)):
                        continue
                    if not literal_equals(n6.attrs.get('axis'), 2):
                        continue
                    past_v, r3 = n6.inputs
                    n7 = m.producer(r3, 'Cast')
                    if n7 is None or len(n7.inputs) != 1 or not m.plain(n7, ('to',), _CAST):
                        continue
                    r4 = n7.inputs[0]
                    n8 = m.producer(r4, 'Clip')
                    if n8 is None or len(n8.inputs) != 3 or n8.attrs:
                        continue
                    r5, lowest, highest = n8.inputs
                    if not lowest or not highest:
                        continue
                    n9 = m.producer(r5, 'Round')
                    if n9 is None or len(n9.inputs) != 1 or n9.attrs:
                        continue
                    r6 = n9.inputs[0]
                    n10 = m.producer(r6, 'Mul')
                    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                        continue
                    for product, factor in m.orders(n4):
                        n11 = m.producer(product, 'MatMul')
                        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                            continue
                        query, r7 = n11.inputs
                        n12 = m.producer(r7, 'Transpose')
                        if n12 is None or len(n12.inputs) != 1 or not m.plain(n12, ('perm',)):
                            continue
                        if not literal_equals(n12.attrs.get('perm'), [0, 1, 3, 2]):
                            continue
                        keys = n12.inputs[0]
                        n13 = m.producer(keys, 'Mul')
                        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
                            continue
                        for v, inverse_v in m.orders(n10):
                            for r8, scale_k in m.orders(n13):
                                n14 = m.producer(r8, 'Cast')
                                if n14 is None or len(n14.inputs) != 1 or not m.plain(n14, ('to',), _CAST):
                                    continue
                                present_k = n14.inputs[0]
                                n15 = m.producer(present_k, 'Concat')
                                if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
                                    continue
                                if not literal_equals(n15.attrs.get('axis'), 2):
                                    continue
                                past_k, r9 = n15.inputs
                                n16 = m.producer(r9, 'Cast')
                                if n16 is None or len(n16.inputs) != 1 or not m.plain(n16, ('to',), _CAST):
                                    continue
                                r10 = n16.inputs[0]
                                n17 = m.producer(r10, 'Clip')
                                if n17 is None or len(n17.inputs) != 3 or n17.attrs:
                                    continue
                                r11, r12, r13 = n17.inputs
                                if r12 != lowest or r13 != highest:
                                    continue
                                n18 = m.producer(r11, 'Round')
                                if n18 is None or len(n18.inputs) != 1 or n18.attrs:
                                    continue
                                r14 = n18.inputs[0]
                                n19 = m.producer(r14, 'Mul')
                                if n19 is None or len(n19.inputs) != 2 or n19.attrs:
                                    continue
                                found = finish_ort_coded_cache_2(m, (root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19), n19, axis, factor, None, present_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, query, past_k, None, bias, product, root, past_v)
                                if found is not None:
                                    return found
            n4 = m.producer(scores, 'Div')
            if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                continue
            product, divisor = n4.inputs
            found = finish_ort_coded_cache_3(m, (root, n1, n2, n3, n4), product, n2, axis, None, divisor, None, bias, root)
            if found is not None:
                return found
        for product, bias in m.orders(n3):
            found = finish_ort_coded_cache_3(m, (root, n1, n2, n3), product, n2, axis, None, None, None, bias, root)
            if found is not None:
                return found
    n3 = m.producer(masked, 'Where')
    if n3 is None or len(n3.inputs) != 3 or n3.attrs:
        return None
    mask, scores, r2 = n3.inputs
    if m.number(r2, float('-inf')):
        n4 = m.producer(scores, 'Mul')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            for product, factor in m.orders(n4):
                found = finish_ort_coded_cache_3(m, (root, n1, n2, n3, n4), product, n2, axis, factor, None, mask, None, root)
                if found is not None:
                    return found
        n4 = m.producer(scores, 'Div')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            product, divisor = n4.inputs
            found = finish_ort_coded_cache_4(m, (root, n1, n2, n3, n4), product, n2, axis, None, divisor, mask, None, root)
            if found is not None:
                return found
    mask, product, r2 = n3.inputs
    if not m.number(r2, float('-inf')):
        return None
    return finish_ort_coded_cache_4(m, (root, n1, n2, n3), product, n2, axis, None, None, mask, None, root)


def make_ort_coded_cache(graph: Graph, res: ResultSpec, k: Result, past_k: Result, v: Result, past_v: Result, scale_k: Result, scale_v: Result, query: Result, scale: Any, shown: Any) -> Any:
    return quantized_attention(graph, query, k, v, past_k, past_v, shown, scale_k, scale_v, scale)


def finish_ort_coded_cache_repeated_1(m: Matcher, nodes: tuple[Node, ...], axis: Any, factor: Any, divisor: Any, present_k: Any, k: Any, inverse_k: Any, scale_k: Any, lowest: Any, highest: Any, present_v: Any, v: Any, inverse_v: Any, scale_v: Any, keys: Any, wide_k: Any, values: Any, wide_v: Any, query: Any, past_k: Any, mask: Any, bias: Any, product: Any, root: Any, past_v: Any) -> Match | None:
    graph = m.graph
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
    if not is_quantized_cache(graph, present_k, k, inverse_k, scale_k, lowest, highest):
        m.refuse('is_quantized_cache(present_k, k, inverse_k, scale_k, lowest, highest)')
        return None
    if not is_quantized_cache(graph, present_v, v, inverse_v, scale_v, lowest, highest):
        m.refuse('is_quantized_cache(present_v, v, inverse_v, scale_v, lowest, highest)')
        return None
    if not repeats_heads(graph, keys, wide_k):
        m.refuse('repeats_heads(keys, wide_k)')
        return None
    if not repeats_heads(graph, values, wide_v):
        m.refuse('repeats_heads(values, wide_v)')
        return None
    if not share_quantized_heads(graph, query, k, v, past_k):
        m.refuse('share_quantized_heads(query, k, v, past_k)')
        return None
    shown = mask if bias is None else bias
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    return Match(nodes, (root.outputs[0], present_k, present_v), (k, past_k, v, past_v, scale_k, scale_v, query, scale, shown))


def finish_ort_coded_cache_repeated_2(m: Matcher, nodes: tuple[Node, ...], n25: Any, axis: Any, factor: Any, divisor: Any, present_k: Any, scale_k: Any, lowest: Any, highest: Any, present_v: Any, v: Any, inverse_v: Any, scale_v: Any, keys: Any, wide_k: Any, values: Any, wide_v: Any, query: Any, past_k: Any, mask: Any, bias: Any, product: Any, root: Any, past_v: Any) -> Match | None:
    for k, inverse_k in m.orders(n25):
        found = finish_ort_coded_cache_repeated_1(m, nodes, axis, factor, divisor, present_k, k, inverse_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, keys, wide_k, values, wide_v, query, past_k, mask, bias, product, root, past_v)
        if found is not None:
            return found
    return None


def finish_ort_coded_cache_repeated_3(m: Matcher, nodes: tuple[Node, ...], scores: Any, n6: Any, axis: Any, divisor: Any, values: Any, wide_v: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n7 = m.producer(scores, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for r5, scale_v in m.orders(n6):
        n8 = m.producer(r5, 'Cast')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('to',), _CAST):
            continue
        present_v = n8.inputs[0]
        n9 = m.producer(present_v, 'Concat')
        if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('axis',)):
            continue
        if not literal_equals(n9.attrs.get('axis'), 2):
            continue
        past_v, r6 = n9.inputs
        n10 = m.producer(r6, 'Cast')
        if n10 is None or len(n10.inputs) != 1 or not m.plain(n10, ('to',), _CAST):
            continue
        r7 = n10.inputs[0]
        n11 = m.producer(r7, 'Clip')
        if n11 is None or len(n11.inputs) != 3 or n11.attrs:
            continue
        r8, lowest, highest = n11.inputs
        if not lowest or not highest:
            continue
        n12 = m.producer(r8, 'Round')
        if n12 is None or len(n12.inputs) != 1 or n12.attrs:
            continue
        r9 = n12.inputs[0]
        n13 = m.producer(r9, 'Mul')
        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
            continue
        for product, factor in m.orders(n7):
            n14 = m.producer(product, 'MatMul')
            if n14 is None or len(n14.inputs) != 2 or n14.attrs:
                continue
            query, r10 = n14.inputs
            n15 = m.producer(r10, 'Transpose')
            if n15 is None or len(n15.inputs) != 1 or not m.plain(n15, ('perm',)):
                continue
            if not literal_equals(n15.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            wide_k = n15.inputs[0]
            n16 = m.producer(wide_k, 'Reshape')
            if n16 is None or len(n16.inputs) != 2 or not m.plain(n16, ('allowzero',), _RESHAPE):
                continue
            r11, _ = n16.inputs
            n17 = m.producer(r11, 'Expand')
            if n17 is None or len(n17.inputs) != 2 or n17.attrs:
                continue
            r12, _ = n17.inputs
            n18 = m.producer(r12, 'Unsqueeze')
            if n18 is None or len(n18.inputs) != 2 or n18.attrs:
                continue
            keys, r13 = n18.inputs
            if not m.numbers(r13, [2]):
                continue
            n19 = m.producer(keys, 'Mul')
            if n19 is None or len(n19.inputs) != 2 or n19.attrs:
                continue
            for v, inverse_v in m.orders(n13):
                for r14, scale_k in m.orders(n19):
                    n20 = m.producer(r14, 'Cast')
                    if n20 is None or len(n20.inputs) != 1 or not m.plain(n20, ('to',), _CAST):
                        continue
                    present_k = n20.inputs[0]
                    n21 = m.producer(present_k, 'Concat')
                    if n21 is None or len(n21.inputs) != 2 or not m.plain(n21, ('axis',)):
                        continue
                    if not literal_equals(n21.attrs.get('axis'), 2):
                        continue
                    past_k, r15 = n21.inputs
                    n22 = m.producer(r15, 'Cast')
                    if n22 is None or len(n22.inputs) != 1 or not m.plain(n22, ('to',), _CAST):
                        continue
                    r16 = n22.inputs[0]
                    n23 = m.producer(r16, 'Clip')
                    if n23 is None or len(n23.inputs) != 3 or n23.attrs:
                        continue
                    r17, r18, r19 = n23.inputs
                    if r18 != lowest or r19 != highest:
                        continue
                    n24 = m.producer(r17, 'Round')
                    if n24 is None or len(n24.inputs) != 1 or n24.attrs:
                        continue
                    r20 = n24.inputs[0]
                    n25 = m.producer(r20, 'Mul')
                    if n25 is None or len(n25.inputs) != 2 or n25.attrs:
                        continue
                    found = finish_ort_coded_cache_repeated_2(m, (*nodes, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n20, n21, n22, n23, n24, n25), n25, axis, factor, divisor, present_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, keys, wide_k, values, wide_v, query, past_k, mask, bias, product, root, past_v)
                    if found is not None:
                        return found
    return None


def finish_ort_coded_cache_repeated_4(m: Matcher, nodes: tuple[Node, ...], product: Any, n6: Any, axis: Any, factor: Any, divisor: Any, values: Any, wide_v: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n8 = m.producer(product, 'MatMul')
    if n8 is None or len(n8.inputs) != 2 or n8.attrs:
        return None
    query, r5 = n8.inputs
    n9 = m.producer(r5, 'Transpose')
    if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
        return None
    if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    wide_k = n9.inputs[0]
    n10 = m.producer(wide_k, 'Reshape')
    if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
        return None
    r6, _ = n10.inputs
    n11 = m.producer(r6, 'Expand')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    r7, _ = n11.inputs
    n12 = m.producer(r7, 'Unsqueeze')
    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
        return None
    keys, r8 = n12.inputs
    if not m.numbers(r8, [2]):
        return None
    n13 = m.producer(keys, 'Mul')
    if n13 is None or len(n13.inputs) != 2 or n13.attrs:
        return None
    for r9, scale_v in m.orders(n6):
        n14 = m.producer(r9, 'Cast')
        if n14 is None or len(n14.inputs) != 1 or not m.plain(n14, ('to',), _CAST):
            continue
        present_v = n14.inputs[0]
        n15 = m.producer(present_v, 'Concat')
        if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
            continue
        if not literal_equals(n15.attrs.get('axis'), 2):
            continue
        past_v, r10 = n15.inputs
        n16 = m.producer(r10, 'Cast')
        if n16 is None or len(n16.inputs) != 1 or not m.plain(n16, ('to',), _CAST):
            continue
        r11 = n16.inputs[0]
        n17 = m.producer(r11, 'Clip')
        if n17 is None or len(n17.inputs) != 3 or n17.attrs:
            continue
        r12, lowest, highest = n17.inputs
        if not lowest or not highest:
            continue
        n18 = m.producer(r12, 'Round')
        if n18 is None or len(n18.inputs) != 1 or n18.attrs:
            continue
        r13 = n18.inputs[0]
        n19 = m.producer(r13, 'Mul')
        if n19 is None or len(n19.inputs) != 2 or n19.attrs:
            continue
        for r14, scale_k in m.orders(n13):
            n20 = m.producer(r14, 'Cast')
            if n20 is None or len(n20.inputs) != 1 or not m.plain(n20, ('to',), _CAST):
                continue
            present_k = n20.inputs[0]
            n21 = m.producer(present_k, 'Concat')
            if n21 is None or len(n21.inputs) != 2 or not m.plain(n21, ('axis',)):
                continue
            if not literal_equals(n21.attrs.get('axis'), 2):
                continue
            past_k, r15 = n21.inputs
            n22 = m.producer(r15, 'Cast')
            if n22 is None or len(n22.inputs) != 1 or not m.plain(n22, ('to',), _CAST):
                continue
            r16 = n22.inputs[0]
            n23 = m.producer(r16, 'Clip')
            if n23 is None or len(n23.inputs) != 3 or n23.attrs:
                continue
            r17, r18, r19 = n23.inputs
            if r18 != lowest or r19 != highest:
                continue
            n24 = m.producer(r17, 'Round')
            if n24 is None or len(n24.inputs) != 1 or n24.attrs:
                continue
            r20 = n24.inputs[0]
            n25 = m.producer(r20, 'Mul')
            if n25 is None or len(n25.inputs) != 2 or n25.attrs:
                continue
            for v, inverse_v in m.orders(n19):
                found = finish_ort_coded_cache_repeated_2(m, (*nodes, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n20, n21, n22, n23, n24, n25), n25, axis, factor, divisor, present_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, keys, wide_k, values, wide_v, query, past_k, mask, bias, product, root, past_v)
                if found is not None:
                    return found
    return None


def finish_ort_coded_cache_repeated_5(m: Matcher, nodes: tuple[Node, ...], scores: Any, n6: Any, axis: Any, factor: Any, values: Any, wide_v: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n7 = m.producer(scores, 'Div')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    product, divisor = n7.inputs
    return finish_ort_coded_cache_repeated_4(m, (*nodes, n7), product, n6, axis, factor, divisor, values, wide_v, mask, bias, root)


def finish_ort_coded_cache_repeated_6(m: Matcher, nodes: tuple[Node, ...], n3: Any, n6: Any, axis: Any, divisor: Any, values: Any, wide_v: Any, mask: Any, root: Any, factor: Any) -> Match | None:
    for scores, bias in m.orders(n3):
        found = finish_ort_coded_cache_repeated_3(m, nodes, scores, n6, axis, divisor, values, wide_v, mask, bias, root)
        if found is not None:
            return found
        found = finish_ort_coded_cache_repeated_5(m, nodes, scores, n6, axis, factor, values, wide_v, mask, bias, root)
        if found is not None:
            return found
    return None


def finish_ort_coded_cache_repeated_7(m: Matcher, nodes: tuple[Node, ...], r2: Any, n3: Any, axis: Any, divisor: Any, wide_v: Any, mask: Any, root: Any, factor: Any) -> Match | None:
    n4 = m.producer(r2, 'Expand')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    r3, _ = n4.inputs
    n5 = m.producer(r3, 'Unsqueeze')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    values, r4 = n5.inputs
    if not m.numbers(r4, [2]):
        return None
    n6 = m.producer(values, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    found = finish_ort_coded_cache_repeated_6(m, (*nodes, n4, n5, n6), n3, n6, axis, divisor, values, wide_v, mask, root, factor)
    if found is not None:
        return found
    for product, bias in m.orders(n3):
        found = finish_ort_coded_cache_repeated_4(m, (*nodes, n4, n5, n6), product, n6, axis, factor, divisor, values, wide_v, mask, bias, root)
        if found is not None:
            return found
    return None


def finish_ort_coded_cache_repeated_8(m: Matcher, nodes: tuple[Node, ...], r3: Any, n4: Any, axis: Any, divisor: Any, wide_v: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n5 = m.producer(r3, 'Expand')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    r4, _ = n5.inputs
    n6 = m.producer(r4, 'Unsqueeze')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    values, r5 = n6.inputs
    if not m.numbers(r5, [2]):
        return None
    n7 = m.producer(values, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for product, factor in m.orders(n4):
        found = finish_ort_coded_cache_repeated_4(m, (*nodes, n5, n6, n7), product, n7, axis, factor, divisor, values, wide_v, mask, bias, root)
        if found is not None:
            return found
    return None


def finish_ort_coded_cache_repeated_9(m: Matcher, nodes: tuple[Node, ...], product: Any, n2: Any, axis: Any, factor: Any, divisor: Any, wide_v: Any, mask: Any, bias: Any, root: Any) -> Match | None:
    n5 = m.producer(product, 'MatMul')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    query, r3 = n5.inputs
    n6 = m.producer(r3, 'Transpose')
    if n6 is None or len(n6.inputs) != 1 or not m.plain(n6, ('perm',)):
        return None
    if not literal_equals(n6.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    wide_k = n6.inputs[0]
    n7 = m.producer(wide_k, 'Reshape')
    if n7 is None or len(n7.inputs) != 2 or not m.plain(n7, ('allowzero',), _RESHAPE):
        return None
    r4, _ = n7.inputs
    n8 = m.producer(r4, 'Expand')
    if n8 is None or len(n8.inputs) != 2 or n8.attrs:
        return None
    r5, _ = n8.inputs
    n9 = m.producer(r5, 'Unsqueeze')
    if n9 is None or len(n9.inputs) != 2 or n9.attrs:
        return None
    keys, r6 = n9.inputs
    if not m.numbers(r6, [2]):
        return None
    n10 = m.producer(keys, 'Mul')
    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
        return None
    r7, _ = n2.inputs
    n11 = m.producer(r7, 'Expand')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    r8, _ = n11.inputs
    n12 = m.producer(r8, 'Unsqueeze')
    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
        return None
    values, r9 = n12.inputs
    if not m.numbers(r9, [2]):
        return None
    n13 = m.producer(values, 'Mul')
    if n13 is None or len(n13.inputs) != 2 or n13.attrs:
        return None
    for r10, scale_k in m.orders(n10):
        n14 = m.producer(r10, 'Cast')
        if n14 is None or len(n14.inputs) != 1 or not m.plain(n14, ('to',), _CAST):
            continue
        present_k = n14.inputs[0]
        n15 = m.producer(present_k, 'Concat')
        if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
            continue
        if not literal_equals(n15.attrs.get('axis'), 2):
            continue
        past_k, r11 = n15.inputs
        n16 = m.producer(r11, 'Cast')
        if n16 is None or len(n16.inputs) != 1 or not m.plain(n16, ('to',), _CAST):
            continue
        r12 = n16.inputs[0]
        n17 = m.producer(r12, 'Clip')
        if n17 is None or len(n17.inputs) != 3 or n17.attrs:
            continue
        r13, lowest, highest = n17.inputs
        if not lowest or not highest:
            continue
        n18 = m.producer(r13, 'Round')
        if n18 is None or len(n18.inputs) != 1 or n18.attrs:
            continue
        r14 = n18.inputs[0]
        n19 = m.producer(r14, 'Mul')
        if n19 is None or len(n19.inputs) != 2 or n19.attrs:
            continue
        for r15, scale_v in m.orders(n13):
            n20 = m.producer(r15, 'Cast')
            if n20 is None or len(n20.inputs) != 1 or not m.plain(n20, ('to',), _CAST):
                continue
            present_v = n20.inputs[0]
            n21 = m.producer(present_v, 'Concat')
            if n21 is None or len(n21.inputs) != 2 or not m.plain(n21, ('axis',)):
                continue
            if not literal_equals(n21.attrs.get('axis'), 2):
                continue
            past_v, r16 = n21.inputs
            n22 = m.producer(r16, 'Cast')
            if n22 is None or len(n22.inputs) != 1 or not m.plain(n22, ('to',), _CAST):
                continue
            r17 = n22.inputs[0]
            n23 = m.producer(r17, 'Clip')
            if n23 is None or len(n23.inputs) != 3 or n23.attrs:
                continue
            r18, r19, r20 = n23.inputs
            if r19 != lowest or r20 != highest:
                continue
            n24 = m.producer(r18, 'Round')
            if n24 is None or len(n24.inputs) != 1 or n24.attrs:
                continue
            r21 = n24.inputs[0]
            n25 = m.producer(r21, 'Mul')
            if n25 is None or len(n25.inputs) != 2 or n25.attrs:
                continue
            for k, inverse_k in m.orders(n19):
                for v, inverse_v in m.orders(n25):
                    found = finish_ort_coded_cache_repeated_1(m, (*nodes, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n20, n21, n22, n23, n24, n25), axis, factor, divisor, present_k, k, inverse_k, scale_k, lowest, highest, present_v, v, inverse_v, scale_v, keys, wide_k, values, wide_v, query, past_k, mask, bias, product, root, past_v)
                    if found is not None:
                        return found
    return None


def match_ort_coded_cache_repeated(m: Matcher, root: Node) -> Match | None:
    """present_k = Concat(past_k, Cast(Clip(Round(Mul(k, inverse_k)), lowest, highest), to=_), axis=2); present_v = Concat(past_v, Cast(Clip(Round(Mul(v, inverse_v)), lowest, highest), to=_), axis=2); keys = Mul(Cast(present_k, to=_), scale_k); values = Mul(Cast(present_v, to=_), scale_v); wide_k = Reshape(Expand(Unsqueeze(keys, [2]), _), _, allowzero=_); wide_v = Reshape(Expand(Unsqueeze(values, [2]), _), _, allowzero=_); product = MatMul(query, Transpose(wide_k, perm=[0, 1, 3, 2])); scores = any_of(Mul(product, factor), Div(product, divisor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); heads = MatMul(Softmax(masked, axis=axis), wide_v); return (heads, present_k, present_v)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, wide_v = root.inputs
    n1 = m.producer(r1, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    n2 = m.producer(wide_v, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    masked = n1.inputs[0]
    n3 = m.producer(masked, 'Add')
    if n3 is not None and len(n3.inputs) == 2 and (not n3.attrs):
        r2, _ = n2.inputs
        found = finish_ort_coded_cache_repeated_7(m, (root, n1, n2, n3), r2, n3, axis, None, wide_v, None, root, None)
        if found is not None:
            return found
    n3 = m.producer(masked, 'Where')
    if n3 is None or len(n3.inputs) != 3 or n3.attrs:
        return None
    mask, scores, r2 = n3.inputs
    if m.number(r2, float('-inf')):
        n4 = m.producer(scores, 'Mul')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            r3, _ = n2.inputs
            found = finish_ort_coded_cache_repeated_8(m, (root, n1, n2, n3, n4), r3, n4, axis, None, wide_v, mask, None, root)
            if found is not None:
                return found
        n4 = m.producer(scores, 'Div')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            product, divisor = n4.inputs
            found = finish_ort_coded_cache_repeated_9(m, (root, n1, n2, n3, n4), product, n2, axis, None, divisor, wide_v, mask, None, root)
            if found is not None:
                return found
    mask, product, r2 = n3.inputs
    if not m.number(r2, float('-inf')):
        return None
    return finish_ort_coded_cache_repeated_9(m, (root, n1, n2, n3), product, n2, axis, None, None, wide_v, mask, None, root)


def make_ort_coded_cache_repeated(graph: Graph, res: ResultSpec, k: Result, past_k: Result, v: Result, past_v: Result, scale_k: Result, scale_v: Result, query: Result, scale: Any, shown: Any) -> Any:
    return quantized_attention(graph, query, k, v, past_k, past_v, shown, scale_k, scale_v, scale)
