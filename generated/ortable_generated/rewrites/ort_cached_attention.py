# Generated from specs/rewrites/ort_cached_attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.attention import attention_scale, repeats_heads
from ortable.passes.rewrite.helpers.growing_caches import append_and_attend, are_appended_heads, zeroes_empty_rows
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.shapes import broadcasts_into
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import shape_of
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_SOFTMAX = {'axis': -1}


def finish_ort_append_attention_1(m: Matcher, nodes: tuple[Node, ...], axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, attended: Any, root: Any, keys: Any, values: Any) -> Match | None:
    graph = m.graph
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
    softcap = 0.0 if cap is None else attention_scale(graph, cap, None)
    if not (cap is None or softcap > 0):
        m.refuse('cap is None or softcap > 0')
        return None
    shown = mask if bias is None else bias
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    if not are_appended_heads(graph, query, key, value, past_key, past_value):
        m.refuse('are_appended_heads(query, key, value, past_key, past_value)')
        return None
    if not zeroes_empty_rows(graph, shown, attended):
        m.refuse('zeroes_empty_rows(shown, attended)')
        return None
    return Match(nodes, (root.outputs[0], keys, values), (past_key, key, past_value, value, query, attended, scale, softcap, shown))


def finish_ort_append_attention_2(m: Matcher, nodes: tuple[Node, ...], product: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, value: Any, past_value: Any, attended: Any, root: Any, values: Any) -> Match | None:
    n11 = m.producer(product, 'MatMul')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    query, r8 = n11.inputs
    n12 = m.producer(r8, 'Transpose')
    if n12 is None or len(n12.inputs) != 1 or not m.plain(n12, ('perm',)):
        return None
    if not literal_equals(n12.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n12.inputs[0]
    n13 = m.producer(keys, 'Concat')
    if n13 is None or len(n13.inputs) != 2 or not m.plain(n13, ('axis',)):
        return None
    if not literal_equals(n13.attrs.get('axis'), 2):
        return None
    past_key, key = n13.inputs
    return finish_ort_append_attention_1(m, (*nodes, n11, n12, n13), axis, factor, cap, mask, bias, product, query, key, value, past_key, past_value, attended, root, keys, values)


def finish_ort_append_attention_3(m: Matcher, nodes: tuple[Node, ...], n10: Any, axis: Any, cap: Any, mask: Any, bias: Any, value: Any, past_value: Any, attended: Any, root: Any, values: Any) -> Match | None:
    for product, factor in m.orders(n10):
        found = finish_ort_append_attention_2(m, nodes, product, axis, factor, cap, mask, bias, value, past_value, attended, root, values)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_4(m: Matcher, nodes: tuple[Node, ...], n7: Any, axis: Any, mask: Any, bias: Any, value: Any, past_value: Any, attended: Any, root: Any, values: Any) -> Match | None:
    for r4, cap in m.orders(n7):
        n8 = m.producer(r4, 'Tanh')
        if n8 is None or len(n8.inputs) != 1 or n8.attrs:
            continue
        r5 = n8.inputs[0]
        n9 = m.producer(r5, 'Div')
        if n9 is None or len(n9.inputs) != 2 or n9.attrs:
            continue
        r6, r7 = n9.inputs
        if r7 != cap:
            continue
        n10 = m.producer(r6, 'Mul')
        if n10 is None or len(n10.inputs) != 2 or n10.attrs:
            continue
        found = finish_ort_append_attention_3(m, (*nodes, n8, n9, n10), n10, axis, cap, mask, bias, value, past_value, attended, root, values)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_5(m: Matcher, nodes: tuple[Node, ...], n7: Any, axis: Any, mask: Any, bias: Any, value: Any, past_value: Any, attended: Any, root: Any, values: Any, cap: Any) -> Match | None:
    found = finish_ort_append_attention_4(m, nodes, n7, axis, mask, bias, value, past_value, attended, root, values)
    if found is not None:
        return found
    return finish_ort_append_attention_3(m, nodes, n7, axis, cap, mask, bias, value, past_value, attended, root, values)


def finish_ort_append_attention_6(m: Matcher, nodes: tuple[Node, ...], n6: Any, axis: Any, mask: Any, value: Any, past_value: Any, attended: Any, root: Any, values: Any, cap: Any) -> Match | None:
    for scores, bias in m.orders(n6):
        n7 = m.producer(scores, 'Mul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        found = finish_ort_append_attention_5(m, (*nodes, n7), n7, axis, mask, bias, value, past_value, attended, root, values, cap)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_7(m: Matcher, nodes: tuple[Node, ...], masked: Any, n5: Any, axis: Any, mask: Any, attended: Any, root: Any, values: Any, cap: Any, factor: Any) -> Match | None:
    n6 = m.producer(masked, 'Add')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    past_value, value = n5.inputs
    found = finish_ort_append_attention_6(m, (*nodes, n6), n6, axis, mask, value, past_value, attended, root, values, cap)
    if found is not None:
        return found
    for product, bias in m.orders(n6):
        found = finish_ort_append_attention_2(m, (*nodes, n6), product, axis, factor, cap, mask, bias, value, past_value, attended, root, values)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_8(m: Matcher, nodes: tuple[Node, ...], n6: Any, n5: Any, axis: Any, bias: Any, attended: Any, root: Any, values: Any, cap: Any) -> Match | None:
    mask, scores, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(scores, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    past_value, value = n5.inputs
    return finish_ort_append_attention_5(m, (*nodes, n7), n7, axis, mask, bias, value, past_value, attended, root, values, cap)


def finish_ort_append_attention_9(m: Matcher, nodes: tuple[Node, ...], heads: Any, mask: Any, attended: Any, root: Any, cap: Any, factor: Any, bias: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    r3, values = n3.inputs
    n4 = m.producer(r3, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    n5 = m.producer(values, 'Concat')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, ('axis',)):
        return None
    if not literal_equals(n5.attrs.get('axis'), 2):
        return None
    masked = n4.inputs[0]
    found = finish_ort_append_attention_7(m, (*nodes, n3, n4, n5), masked, n5, axis, mask, attended, root, values, cap, factor)
    if found is not None:
        return found
    n6 = m.producer(masked, 'Where')
    if n6 is None or len(n6.inputs) != 3 or n6.attrs:
        return None
    found = finish_ort_append_attention_8(m, (*nodes, n3, n4, n5, n6), n6, n5, axis, bias, attended, root, values, cap)
    if found is not None:
        return found
    mask, product, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, r5 = n7.inputs
    n8 = m.producer(r5, 'Transpose')
    if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
        return None
    if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    keys = n8.inputs[0]
    n9 = m.producer(keys, 'Concat')
    if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('axis',)):
        return None
    if not literal_equals(n9.attrs.get('axis'), 2):
        return None
    past_key, key = n9.inputs
    past_value, value = n5.inputs
    return finish_ort_append_attention_1(m, (*nodes, n3, n4, n5, n6, n7, n8, n9), axis, factor, cap, mask, bias, product, query, key, value, past_key, past_value, attended, root, keys, values)


def match_ort_append_attention(m: Matcher, root: Node) -> Match | None:
    """keys = Concat(past_key, key, axis=2); values = Concat(past_value, value, axis=2); product = MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])); scores = any_of(Mul(Tanh(Div(Mul(product, factor), cap)), cap), Mul(product, factor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); heads = MatMul(Softmax(masked, axis=axis), values); mended = any_of(Where(attended, heads, 0), heads); rows = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return (rows, keys, values)"""
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
    if n2 is not None and len(n2.inputs) == 3 and (not n2.attrs):
        attended, heads, r2 = n2.inputs
        if m.number(r2, 0):
            found = finish_ort_append_attention_9(m, (root, n1, n2), heads, None, attended, root, None, None, None)
            if found is not None:
                return found
    heads = n1.inputs[0]
    return finish_ort_append_attention_9(m, (root, n1), heads, None, None, root, None, None, None)


def make_ort_append_attention(graph: Graph, res: ResultSpec, past_key: Result, key: Result, past_value: Result, value: Result, query: Result, attended: Result | None, scale: Any, softcap: Any, shown: Any) -> Any:
    found = append_and_attend(graph, query, key, value, past_key, past_value, shown, attended, scale, softcap)
    return (reshape_to(graph, found[0], shape_of(graph, res[0])), found[1], found[2])


def finish_ort_append_attention_repeated_1(m: Matcher, nodes: tuple[Node, ...], axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, keys: Any, all_keys: Any, values: Any, all_values: Any, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, attended: Any, root: Any) -> Match | None:
    graph = m.graph
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
    softcap = 0.0 if cap is None else attention_scale(graph, cap, None)
    if not (cap is None or softcap > 0):
        m.refuse('cap is None or softcap > 0')
        return None
    shown = mask if bias is None else bias
    if not broadcasts_into(graph, shown, product):
        m.refuse('broadcasts_into(shown, product)')
        return None
    repeats = repeats_heads(graph, keys, all_keys) and repeats_heads(graph, values, all_values)
    if not repeats:
        m.refuse('repeats')
        return None
    if not are_appended_heads(graph, query, key, value, past_key, past_value):
        m.refuse('are_appended_heads(query, key, value, past_key, past_value)')
        return None
    if not zeroes_empty_rows(graph, shown, attended):
        m.refuse('zeroes_empty_rows(shown, attended)')
        return None
    return Match(nodes, (root.outputs[0], keys, values), (past_key, key, past_value, value, query, attended, scale, softcap, shown))


def finish_ort_append_attention_repeated_2(m: Matcher, nodes: tuple[Node, ...], many_keys: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, all_keys: Any, values: Any, all_values: Any, query: Any, value: Any, past_value: Any, attended: Any, root: Any) -> Match | None:
    n17 = m.producer(many_keys, 'Expand')
    if n17 is None or len(n17.inputs) != 2 or n17.attrs:
        return None
    r11, _ = n17.inputs
    n18 = m.producer(r11, 'Unsqueeze')
    if n18 is None or len(n18.inputs) != 2 or n18.attrs:
        return None
    keys, r12 = n18.inputs
    if not m.numbers(r12, [2]):
        return None
    n19 = m.producer(keys, 'Concat')
    if n19 is None or len(n19.inputs) != 2 or not m.plain(n19, ('axis',)):
        return None
    if not literal_equals(n19.attrs.get('axis'), 2):
        return None
    past_key, key = n19.inputs
    return finish_ort_append_attention_repeated_1(m, (*nodes, n17, n18, n19), axis, factor, cap, mask, bias, product, keys, all_keys, values, all_values, query, key, value, past_key, past_value, attended, root)


def finish_ort_append_attention_repeated_3(m: Matcher, nodes: tuple[Node, ...], product: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, values: Any, all_values: Any, value: Any, past_value: Any, attended: Any, root: Any) -> Match | None:
    n14 = m.producer(product, 'MatMul')
    if n14 is None or len(n14.inputs) != 2 or n14.attrs:
        return None
    query, r10 = n14.inputs
    n15 = m.producer(r10, 'Transpose')
    if n15 is None or len(n15.inputs) != 1 or not m.plain(n15, ('perm',)):
        return None
    if not literal_equals(n15.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    all_keys = n15.inputs[0]
    n16 = m.producer(all_keys, 'Reshape')
    if n16 is not None and len(n16.inputs) == 2 and m.plain(n16, ('allowzero',), _RESHAPE):
        many_keys, _ = n16.inputs
        found = finish_ort_append_attention_repeated_2(m, (*nodes, n14, n15, n16), many_keys, axis, factor, cap, mask, bias, product, all_keys, values, all_values, query, value, past_value, attended, root)
        if found is not None:
            return found
    n16 = m.producer(all_keys, 'Squeeze')
    if n16 is None or len(n16.inputs) != 2 or n16.attrs:
        return None
    many_keys, r11 = n16.inputs
    if not r11:
        return None
    return finish_ort_append_attention_repeated_2(m, (*nodes, n14, n15, n16), many_keys, axis, factor, cap, mask, bias, product, all_keys, values, all_values, query, value, past_value, attended, root)


def finish_ort_append_attention_repeated_4(m: Matcher, nodes: tuple[Node, ...], n13: Any, axis: Any, cap: Any, mask: Any, bias: Any, values: Any, all_values: Any, value: Any, past_value: Any, attended: Any, root: Any) -> Match | None:
    for product, factor in m.orders(n13):
        found = finish_ort_append_attention_repeated_3(m, nodes, product, axis, factor, cap, mask, bias, values, all_values, value, past_value, attended, root)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_repeated_5(m: Matcher, nodes: tuple[Node, ...], n10: Any, axis: Any, mask: Any, bias: Any, values: Any, all_values: Any, value: Any, past_value: Any, attended: Any, root: Any) -> Match | None:
    for r6, cap in m.orders(n10):
        n11 = m.producer(r6, 'Tanh')
        if n11 is None or len(n11.inputs) != 1 or n11.attrs:
            continue
        r7 = n11.inputs[0]
        n12 = m.producer(r7, 'Div')
        if n12 is None or len(n12.inputs) != 2 or n12.attrs:
            continue
        r8, r9 = n12.inputs
        if r9 != cap:
            continue
        n13 = m.producer(r8, 'Mul')
        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
            continue
        found = finish_ort_append_attention_repeated_4(m, (*nodes, n11, n12, n13), n13, axis, cap, mask, bias, values, all_values, value, past_value, attended, root)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_repeated_6(m: Matcher, nodes: tuple[Node, ...], n10: Any, axis: Any, mask: Any, bias: Any, values: Any, all_values: Any, value: Any, past_value: Any, attended: Any, root: Any, cap: Any) -> Match | None:
    found = finish_ort_append_attention_repeated_5(m, nodes, n10, axis, mask, bias, values, all_values, value, past_value, attended, root)
    if found is not None:
        return found
    return finish_ort_append_attention_repeated_4(m, nodes, n10, axis, cap, mask, bias, values, all_values, value, past_value, attended, root)


def finish_ort_append_attention_repeated_7(m: Matcher, nodes: tuple[Node, ...], n6: Any, axis: Any, mask: Any, values: Any, all_values: Any, value: Any, past_value: Any, attended: Any, root: Any, cap: Any) -> Match | None:
    for scores, bias in m.orders(n6):
        n10 = m.producer(scores, 'Mul')
        if n10 is None or len(n10.inputs) != 2 or n10.attrs:
            continue
        found = finish_ort_append_attention_repeated_6(m, (*nodes, n10), n10, axis, mask, bias, values, all_values, value, past_value, attended, root, cap)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_repeated_8(m: Matcher, nodes: tuple[Node, ...], many_values: Any, n6: Any, axis: Any, mask: Any, all_values: Any, attended: Any, root: Any, cap: Any, factor: Any) -> Match | None:
    n7 = m.producer(many_values, 'Expand')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    r4, _ = n7.inputs
    n8 = m.producer(r4, 'Unsqueeze')
    if n8 is None or len(n8.inputs) != 2 or n8.attrs:
        return None
    values, r5 = n8.inputs
    if not m.numbers(r5, [2]):
        return None
    n9 = m.producer(values, 'Concat')
    if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('axis',)):
        return None
    if not literal_equals(n9.attrs.get('axis'), 2):
        return None
    past_value, value = n9.inputs
    found = finish_ort_append_attention_repeated_7(m, (*nodes, n7, n8, n9), n6, axis, mask, values, all_values, value, past_value, attended, root, cap)
    if found is not None:
        return found
    for product, bias in m.orders(n6):
        found = finish_ort_append_attention_repeated_3(m, (*nodes, n7, n8, n9), product, axis, factor, cap, mask, bias, values, all_values, value, past_value, attended, root)
        if found is not None:
            return found
    return None


def finish_ort_append_attention_repeated_9(m: Matcher, nodes: tuple[Node, ...], masked: Any, n5: Any, axis: Any, mask: Any, all_values: Any, attended: Any, root: Any, cap: Any, factor: Any) -> Match | None:
    n6 = m.producer(masked, 'Add')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    many_values, _ = n5.inputs
    return finish_ort_append_attention_repeated_8(m, (*nodes, n6), many_values, n6, axis, mask, all_values, attended, root, cap, factor)


def finish_ort_append_attention_repeated_10(m: Matcher, nodes: tuple[Node, ...], many_values: Any, n7: Any, axis: Any, mask: Any, bias: Any, all_values: Any, attended: Any, root: Any, cap: Any) -> Match | None:
    n8 = m.producer(many_values, 'Expand')
    if n8 is None or len(n8.inputs) != 2 or n8.attrs:
        return None
    r5, _ = n8.inputs
    n9 = m.producer(r5, 'Unsqueeze')
    if n9 is None or len(n9.inputs) != 2 or n9.attrs:
        return None
    values, r6 = n9.inputs
    if not m.numbers(r6, [2]):
        return None
    n10 = m.producer(values, 'Concat')
    if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('axis',)):
        return None
    if not literal_equals(n10.attrs.get('axis'), 2):
        return None
    past_value, value = n10.inputs
    return finish_ort_append_attention_repeated_6(m, (*nodes, n8, n9, n10), n7, axis, mask, bias, values, all_values, value, past_value, attended, root, cap)


def finish_ort_append_attention_repeated_11(m: Matcher, nodes: tuple[Node, ...], n6: Any, n5: Any, axis: Any, bias: Any, all_values: Any, attended: Any, root: Any, cap: Any) -> Match | None:
    mask, scores, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(scores, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    many_values, _ = n5.inputs
    return finish_ort_append_attention_repeated_10(m, (*nodes, n7), many_values, n7, axis, mask, bias, all_values, attended, root, cap)


def finish_ort_append_attention_repeated_12(m: Matcher, nodes: tuple[Node, ...], many_values: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, keys: Any, all_keys: Any, all_values: Any, query: Any, key: Any, past_key: Any, attended: Any, root: Any) -> Match | None:
    n13 = m.producer(many_values, 'Expand')
    if n13 is None or len(n13.inputs) != 2 or n13.attrs:
        return None
    r8, _ = n13.inputs
    n14 = m.producer(r8, 'Unsqueeze')
    if n14 is None or len(n14.inputs) != 2 or n14.attrs:
        return None
    values, r9 = n14.inputs
    if not m.numbers(r9, [2]):
        return None
    n15 = m.producer(values, 'Concat')
    if n15 is None or len(n15.inputs) != 2 or not m.plain(n15, ('axis',)):
        return None
    if not literal_equals(n15.attrs.get('axis'), 2):
        return None
    past_value, value = n15.inputs
    return finish_ort_append_attention_repeated_1(m, (*nodes, n13, n14, n15), axis, factor, cap, mask, bias, product, keys, all_keys, values, all_values, query, key, value, past_key, past_value, attended, root)


def finish_ort_append_attention_repeated_13(m: Matcher, nodes: tuple[Node, ...], many_keys: Any, n5: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, all_keys: Any, all_values: Any, query: Any, attended: Any, root: Any) -> Match | None:
    n10 = m.producer(many_keys, 'Expand')
    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
        return None
    r6, _ = n10.inputs
    n11 = m.producer(r6, 'Unsqueeze')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    keys, r7 = n11.inputs
    if not m.numbers(r7, [2]):
        return None
    n12 = m.producer(keys, 'Concat')
    if n12 is None or len(n12.inputs) != 2 or not m.plain(n12, ('axis',)):
        return None
    if not literal_equals(n12.attrs.get('axis'), 2):
        return None
    past_key, key = n12.inputs
    many_values, _ = n5.inputs
    return finish_ort_append_attention_repeated_12(m, (*nodes, n10, n11, n12), many_values, axis, factor, cap, mask, bias, product, keys, all_keys, all_values, query, key, past_key, attended, root)


def finish_ort_append_attention_repeated_14(m: Matcher, nodes: tuple[Node, ...], all_values: Any, n4: Any, axis: Any, mask: Any, attended: Any, root: Any, cap: Any, factor: Any, bias: Any) -> Match | None:
    n5 = m.producer(all_values, 'Reshape')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, ('allowzero',), _RESHAPE):
        return None
    masked = n4.inputs[0]
    found = finish_ort_append_attention_repeated_9(m, (*nodes, n5), masked, n5, axis, mask, all_values, attended, root, cap, factor)
    if found is not None:
        return found
    n6 = m.producer(masked, 'Where')
    if n6 is None or len(n6.inputs) != 3 or n6.attrs:
        return None
    found = finish_ort_append_attention_repeated_11(m, (*nodes, n5, n6), n6, n5, axis, bias, all_values, attended, root, cap)
    if found is not None:
        return found
    mask, product, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, r5 = n7.inputs
    n8 = m.producer(r5, 'Transpose')
    if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
        return None
    if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    all_keys = n8.inputs[0]
    n9 = m.producer(all_keys, 'Reshape')
    if n9 is not None and len(n9.inputs) == 2 and m.plain(n9, ('allowzero',), _RESHAPE):
        many_keys, _ = n9.inputs
        found = finish_ort_append_attention_repeated_13(m, (*nodes, n5, n6, n7, n8, n9), many_keys, n5, axis, factor, cap, mask, bias, product, all_keys, all_values, query, attended, root)
        if found is not None:
            return found
    n9 = m.producer(all_keys, 'Squeeze')
    if n9 is None or len(n9.inputs) != 2 or n9.attrs:
        return None
    many_keys, r6 = n9.inputs
    if not r6:
        return None
    return finish_ort_append_attention_repeated_13(m, (*nodes, n5, n6, n7, n8, n9), many_keys, n5, axis, factor, cap, mask, bias, product, all_keys, all_values, query, attended, root)


def finish_ort_append_attention_repeated_15(m: Matcher, nodes: tuple[Node, ...], masked: Any, n5: Any, axis: Any, mask: Any, all_values: Any, attended: Any, root: Any, cap: Any, factor: Any) -> Match | None:
    n6 = m.producer(masked, 'Add')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    many_values, r4 = n5.inputs
    if not r4:
        return None
    return finish_ort_append_attention_repeated_8(m, (*nodes, n6), many_values, n6, axis, mask, all_values, attended, root, cap, factor)


def finish_ort_append_attention_repeated_16(m: Matcher, nodes: tuple[Node, ...], n6: Any, n5: Any, axis: Any, bias: Any, all_values: Any, attended: Any, root: Any, cap: Any) -> Match | None:
    mask, scores, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(scores, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    many_values, r5 = n5.inputs
    if not r5:
        return None
    return finish_ort_append_attention_repeated_10(m, (*nodes, n7), many_values, n7, axis, mask, bias, all_values, attended, root, cap)


def finish_ort_append_attention_repeated_17(m: Matcher, nodes: tuple[Node, ...], many_keys: Any, n5: Any, axis: Any, factor: Any, cap: Any, mask: Any, bias: Any, product: Any, all_keys: Any, all_values: Any, query: Any, attended: Any, root: Any) -> Match | None:
    n10 = m.producer(many_keys, 'Expand')
    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
        return None
    r6, _ = n10.inputs
    n11 = m.producer(r6, 'Unsqueeze')
    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
        return None
    keys, r7 = n11.inputs
    if not m.numbers(r7, [2]):
        return None
    n12 = m.producer(keys, 'Concat')
    if n12 is None or len(n12.inputs) != 2 or not m.plain(n12, ('axis',)):
        return None
    if not literal_equals(n12.attrs.get('axis'), 2):
        return None
    past_key, key = n12.inputs
    many_values, r8 = n5.inputs
    if not r8:
        return None
    return finish_ort_append_attention_repeated_12(m, (*nodes, n10, n11, n12), many_values, axis, factor, cap, mask, bias, product, keys, all_keys, all_values, query, key, past_key, attended, root)


def finish_ort_append_attention_repeated_18(m: Matcher, nodes: tuple[Node, ...], heads: Any, mask: Any, attended: Any, root: Any, cap: Any, factor: Any, bias: Any) -> Match | None:
    n3 = m.producer(heads, 'MatMul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    r3, all_values = n3.inputs
    n4 = m.producer(r3, 'Softmax')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('axis',), _SOFTMAX):
        return None
    axis = n4.attrs.get('axis', -1)
    found = finish_ort_append_attention_repeated_14(m, (*nodes, n3, n4), all_values, n4, axis, mask, attended, root, cap, factor, bias)
    if found is not None:
        return found
    n5 = m.producer(all_values, 'Squeeze')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    masked = n4.inputs[0]
    found = finish_ort_append_attention_repeated_15(m, (*nodes, n3, n4, n5), masked, n5, axis, mask, all_values, attended, root, cap, factor)
    if found is not None:
        return found
    n6 = m.producer(masked, 'Where')
    if n6 is None or len(n6.inputs) != 3 or n6.attrs:
        return None
    found = finish_ort_append_attention_repeated_16(m, (*nodes, n3, n4, n5, n6), n6, n5, axis, bias, all_values, attended, root, cap)
    if found is not None:
        return found
    mask, product, r4 = n6.inputs
    if not m.number(r4, float('-inf')):
        return None
    n7 = m.producer(product, 'MatMul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    query, r5 = n7.inputs
    n8 = m.producer(r5, 'Transpose')
    if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
        return None
    if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
        return None
    all_keys = n8.inputs[0]
    n9 = m.producer(all_keys, 'Reshape')
    if n9 is not None and len(n9.inputs) == 2 and m.plain(n9, ('allowzero',), _RESHAPE):
        many_keys, _ = n9.inputs
        found = finish_ort_append_attention_repeated_17(m, (*nodes, n3, n4, n5, n6, n7, n8, n9), many_keys, n5, axis, factor, cap, mask, bias, product, all_keys, all_values, query, attended, root)
        if found is not None:
            return found
    n9 = m.producer(all_keys, 'Squeeze')
    if n9 is None or len(n9.inputs) != 2 or n9.attrs:
        return None
    many_keys, r6 = n9.inputs
    if not r6:
        return None
    return finish_ort_append_attention_repeated_17(m, (*nodes, n3, n4, n5, n6, n7, n8, n9), many_keys, n5, axis, factor, cap, mask, bias, product, all_keys, all_values, query, attended, root)


def finish_ort_append_attention_repeated_19(m: Matcher, nodes: tuple[Node, ...], n1: Any, mask: Any, root: Any, cap: Any, factor: Any, bias: Any) -> Match | None:
    mended = n1.inputs[0]
    n2 = m.producer(mended, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    attended, heads, r2 = n2.inputs
    if not m.number(r2, 0):
        return None
    return finish_ort_append_attention_repeated_18(m, (*nodes, n2), heads, mask, attended, root, cap, factor, bias)


def match_ort_append_attention_repeated(m: Matcher, root: Node) -> Match | None:
    """keys = Concat(past_key, key, axis=2); values = Concat(past_value, value, axis=2); many_keys = Expand(Unsqueeze(keys, [2]), _); many_values = Expand(Unsqueeze(values, [2]), _); all_keys = any_of(Reshape(many_keys, _, allowzero=_), Squeeze(many_keys, _)); all_values = any_of(Reshape(many_values, _, allowzero=_), Squeeze(many_values, _)); product = MatMul(query, Transpose(all_keys, perm=[0, 1, 3, 2])); scores = any_of(Mul(Tanh(Div(Mul(product, factor), cap)), cap), Mul(product, factor), product); masked = any_of(Add(scores, bias), Where(mask, scores, -inf)); heads = MatMul(Softmax(masked, axis=axis), all_values); mended = any_of(Where(attended, heads, 0), heads); return (Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_), keys, values)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [0, 2, 1, 3]):
        return None
    found = finish_ort_append_attention_repeated_19(m, (root, n1), n1, None, root, None, None, None)
    if found is not None:
        return found
    heads = n1.inputs[0]
    return finish_ort_append_attention_repeated_18(m, (root, n1), heads, None, None, root, None, None, None)


def make_ort_append_attention_repeated(graph: Graph, res: ResultSpec, past_key: Result, key: Result, past_value: Result, value: Result, query: Result, attended: Result | None, scale: Any, softcap: Any, shown: Any) -> Any:
    found = append_and_attend(graph, query, key, value, past_key, past_value, shown, attended, scale, softcap)
    return (reshape_to(graph, found[0], shape_of(graph, res[0])), found[1], found[2])
