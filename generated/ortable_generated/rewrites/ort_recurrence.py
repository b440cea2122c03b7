# Generated from specs/rewrites/ort_recurrence.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import for_cpu, number_of
from ortable.passes.rewrite.helpers.recurrence import as_one_token, is_depthwise_sequence, is_state, log_of_decay, same_vectors
from ortable.passes.rewrite.helpers.shapes import has_shape, same_shape
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, is_static, shape_of, static
from ortable.prelude.values import as_vec, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_REDUCE_SUM = {'keepdims': 1, 'noop_with_empty_axes': 0}


def match_ort_causal_conv(m: Matcher, root: Node) -> Match | None:
    """return Conv(x, w, maybe(b), pads=pads, attrs=kept)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3:
        return None
    pads = root.attrs.get('pads')
    kept = {k: v for k, v in root.attrs.items() if k not in ('pads',)}
    x, w = root.inputs[:2]
    b = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_depthwise_sequence(graph, x, w, b, kept):
        m.refuse('is_depthwise_sequence(x, w, b, kept)')
        return None
    if not pads is not None:
        m.refuse('pads is not None')
        return None
    width = static(dim_of(graph, w, 2))
    if not pads[0] == width - 1:
        m.refuse('pads[0] == width - 1')
        return None
    if not pads[1] == 0:
        m.refuse('pads[1] == 0')
        return None
    length = dim_of(graph, x, 2)
    if not is_static(length):
        m.refuse('is_static(length)')
        return None
    if not length > 1:
        m.refuse('length > 1')
        return None
    if not length <= 32:
        m.refuse('length <= 32')
        return None
    if not width <= 8:
        m.refuse('width <= 8')
        return None
    return Match((root,), (root.outputs[0],), (x, w, b))


def make_ort_causal_conv(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None) -> Any:
    y, last = graph.make_node('CausalConvWithState', [x, w, b], 2, domain='com.microsoft')
    return y


def match_ort_causal_conv_step(m: Matcher, root: Node) -> Match | None:
    """whole = Conv(x, w, maybe(b), pads=pads, attrs=kept); part = Slice(whole, starts, _, maybe(_), maybe(_)); return part"""
    graph = m.graph
    if not 3 <= len(root.inputs) <= 5 or root.attrs:
        return None
    part = root.outputs[0]
    whole, starts, _ = root.inputs[:3]
    n1 = m.producer(whole, 'Conv')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    pads = n1.attrs.get('pads')
    kept = {k: v for k, v in n1.attrs.items() if k not in ('pads',)}
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_depthwise_sequence(graph, x, w, b, kept):
        m.refuse('is_depthwise_sequence(x, w, b, kept)')
        return None
    if not (pads is None or not any(pads)):
        m.refuse('pads is None or not any(pads)')
        return None
    width = static(dim_of(graph, w, 2))
    if not width > 1:
        m.refuse('width > 1')
        return None
    start = number_of(graph, starts)
    is_last = has_shape(graph, part, [*shape_of(graph, whole)[:2], 1]) and (start == -1 or dim_of(graph, whole, 2) == start + 1)
    if not is_last:
        m.refuse('is_last')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, width))


def make_ort_causal_conv_step(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, width: Any) -> Any:
    before = graph.make_node('Slice', [x, as_vec(graph, -width), as_vec(graph, -1), as_vec(graph, 2)])
    last = graph.make_node('Slice', [x, as_vec(graph, -1), as_vec(graph, 9223372036854775807), as_vec(graph, 2)])
    y, state = graph.make_node('CausalConvWithState', [last, w, b, before], 2, domain='com.microsoft')
    return y


def finish_ort_delta_step_1(m: Matcher, nodes: tuple[Node, ...], state: Any, key: Any, rate: Any, reader: Any, query: Any, row: Any, value: Any, memory: Any, line: Any, root: Any, n8: Any) -> Match | None:
    graph = m.graph
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_state(graph, state):
        m.refuse('is_state(state)')
        return None
    batch = dim_of(graph, state, 0)
    heads = static(dim_of(graph, state, 1))
    keys = static(dim_of(graph, state, 2))
    if not has_shape(graph, key, [batch, heads, keys, 1]):
        m.refuse('has_shape(key, [batch, heads, keys, 1])')
        return None
    values = static(dim_of(graph, state, 3))
    rated = has_shape(graph, rate, [batch, heads, 1]) or has_shape(graph, rate, [batch, heads, 1, 1])
    asked = reader if query is None else query
    reads = has_shape(graph, reader, [batch, heads, 1, keys]) if query is None else has_shape(graph, query, [batch, heads, keys, 1])
    if not reads:
        m.refuse('reads')
        return None
    if not same_vectors(graph, row, key):
        m.refuse('same_vectors(row, key)')
        return None
    if not same_shape(graph, value, memory):
        m.refuse('same_shape(value, memory)')
        return None
    if not has_shape(graph, line, [batch, heads, 1, values]):
        m.refuse('has_shape(line, [batch, heads, 1, values])')
        return None
    if not rated:
        m.refuse('rated')
        return None
    return Match(nodes, (root.outputs[0], n8.outputs[0]), (state, key, value, rate, batch, heads, keys, values, asked))


def finish_ort_delta_step_2(m: Matcher, nodes: tuple[Node, ...], n8: Any, state: Any, key: Any, rate: Any, reader: Any, query: Any, row: Any, value: Any, memory: Any, line: Any, root: Any) -> Match | None:
    if len(n8.inputs) != 2 or not m.plain(n8, ('keepdims',), _REDUCE_SUM):
        return None
    _, r8 = n8.inputs
    if not m.numbers(r8, [2]):
        return None
    return finish_ort_delta_step_1(m, nodes, state, key, rate, reader, query, row, value, memory, line, root, n8)


def finish_ort_delta_step_3(m: Matcher, nodes: tuple[Node, ...], root: Any, n6: Any, n3: Any, n1: Any, n5: Any, state: Any, key: Any, rate: Any, reader: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n7 in m.readers(root.outputs[0], 'Mul'):
        if n7 is n6 or n7 is n3 or n7 is n1 or len(n7.inputs) != 2 or n7.attrs:
            continue
        for r7, query in m.orders(n7):
            if r7 != root.outputs[0]:
                continue
            for n8 in m.readers(n7.outputs[0], 'ReduceSum', 0):
                if n8 is n5:
                    continue
                found = finish_ort_delta_step_2(m, (*nodes, n7, n8), n8, state, key, rate, reader, query, row, value, memory, line, root)
                if found is not None:
                    return found
    return None


def finish_ort_delta_step_4(m: Matcher, nodes: tuple[Node, ...], n7: Any, state: Any, key: Any, rate: Any, query: Any, row: Any, value: Any, memory: Any, line: Any, root: Any) -> Match | None:
    if len(n7.inputs) != 2 or n7.attrs:
        return None
    reader, _ = n7.inputs
    return finish_ort_delta_step_1(m, nodes, state, key, rate, reader, query, row, value, memory, line, root, n7)


def finish_ort_delta_step_5(m: Matcher, nodes: tuple[Node, ...], root: Any, state: Any, key: Any, rate: Any, query: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n7 in m.readers(root.outputs[0], 'MatMul', 1):
        found = finish_ort_delta_step_4(m, (*nodes, n7), n7, state, key, rate, query, row, value, memory, line, root)
        if found is not None:
            return found
    return None


def finish_ort_delta_step_6(m: Matcher, nodes: tuple[Node, ...], memory: Any, state: Any, key: Any, root: Any, n3: Any, n1: Any, rate: Any, reader: Any, row: Any, value: Any, line: Any, query: Any) -> Match | None:
    n5 = m.producer(memory, 'ReduceSum')
    if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, ('keepdims',), _REDUCE_SUM):
        return None
    r3, r4 = n5.inputs
    if not m.numbers(r4, [2]):
        return None
    n6 = m.producer(r3, 'Mul')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    for r5, r6 in m.orders(n6):
        if r5 != state or r6 != key:
            continue
        found = finish_ort_delta_step_3(m, (*nodes, n5, n6), root, n6, n3, n1, n5, state, key, rate, reader, row, value, memory, line)
        if found is not None:
            return found
        found = finish_ort_delta_step_5(m, (*nodes, n5, n6), root, state, key, rate, query, row, value, memory, line)
        if found is not None:
            return found
    return None


def finish_ort_delta_step_7(m: Matcher, nodes: tuple[Node, ...], root: Any, n3: Any, n1: Any, state: Any, key: Any, rate: Any, reader: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n7 in m.readers(root.outputs[0], 'Mul'):
        if n7 is n3 or n7 is n1 or len(n7.inputs) != 2 or n7.attrs:
            continue
        for r6, query in m.orders(n7):
            if r6 != root.outputs[0]:
                continue
            for n8 in m.readers(n7.outputs[0], 'ReduceSum', 0):
                found = finish_ort_delta_step_2(m, (*nodes, n7, n8), n8, state, key, rate, reader, query, row, value, memory, line, root)
                if found is not None:
                    return found
    return None


def finish_ort_delta_step_8(m: Matcher, nodes: tuple[Node, ...], n6: Any, state: Any, root: Any, n3: Any, n1: Any, key: Any, rate: Any, reader: Any, value: Any, memory: Any, line: Any, query: Any) -> Match | None:
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    row, r5 = n6.inputs
    if r5 != state:
        return None
    found = finish_ort_delta_step_7(m, nodes, root, n3, n1, state, key, rate, reader, row, value, memory, line)
    if found is not None:
        return found
    for n7 in m.readers(root.outputs[0], 'MatMul', 1):
        if n7 is n6:
            continue
        found = finish_ort_delta_step_4(m, (*nodes, n7), n7, state, key, rate, query, row, value, memory, line, root)
        if found is not None:
            return found
    return None


def finish_ort_delta_step_9(m: Matcher, nodes: tuple[Node, ...], memory: Any, state: Any, root: Any, n3: Any, n1: Any, key: Any, rate: Any, reader: Any, value: Any, line: Any, query: Any) -> Match | None:
    n5 = m.producer(memory, 'Squeeze')
    if n5 is None or len(n5.inputs) != 2 or n5.attrs:
        return None
    r3, r4 = n5.inputs
    if not r4:
        return None
    n6 = m.producer(r3, 'MatMul')
    return finish_ort_delta_step_8(m, (*nodes, n5, n6), n6, state, root, n3, n1, key, rate, reader, value, memory, line, query)


def finish_ort_delta_step_10(m: Matcher, nodes: tuple[Node, ...], memory: Any, state: Any, root: Any, n3: Any, n1: Any, key: Any, rate: Any, reader: Any, value: Any, line: Any, query: Any) -> Match | None:
    n5 = m.producer(memory, 'MatMul')
    return finish_ort_delta_step_8(m, (*nodes, n5), n5, state, root, n3, n1, key, rate, reader, value, memory, line, query)


def finish_ort_delta_step_11(m: Matcher, nodes: tuple[Node, ...], delta: Any, state: Any, key: Any, root: Any, n1: Any, reader: Any, row: Any, line: Any, query: Any) -> Match | None:
    n3 = m.producer(delta, 'Mul')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    for r2, rate in m.orders(n3):
        n4 = m.producer(r2, 'Sub')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        value, memory = n4.inputs
        found = finish_ort_delta_step_6(m, (*nodes, n3, n4), memory, state, key, root, n3, n1, rate, reader, row, value, line, query)
        if found is not None:
            return found
        found = finish_ort_delta_step_9(m, (*nodes, n3, n4), memory, state, root, n3, n1, key, rate, reader, value, line, query)
        if found is not None:
            return found
        found = finish_ort_delta_step_10(m, (*nodes, n3, n4), memory, state, root, n3, n1, key, rate, reader, value, line, query)
        if found is not None:
            return found
    return None


def match_ort_delta_step(m: Matcher, root: Node) -> Match | None:
    """memory = any_of(ReduceSum(Mul(state, key), [2], keepdims=_), Squeeze(MatMul(row, state), _), MatMul(row, state)); delta = Mul(Sub(value, memory), rate); line = optional(Unsqueeze(delta, _)); now = Add(state, Mul(key, line)); out = any_of(ReduceSum(Mul(now, query), [2], keepdims=_), MatMul(reader, now)); return (now, out)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for state, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for key, line in m.orders(n1):
            n2 = m.producer(line, 'Unsqueeze')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
            delta, _ = n2.inputs
            found = finish_ort_delta_step_11(m, (root, n1, n2), delta, state, key, root, n1, None, None, line, None)
            if found is not None:
                return found
        for key, delta in m.orders(n1):
            line = delta
            found = finish_ort_delta_step_11(m, (root, n1), delta, state, key, root, n1, None, None, line, None)
            if found is not None:
                return found
    return None


def make_ort_delta_step(graph: Graph, res: ResultSpec, state: Result, key: Result, value: Result, rate: Result, batch: Any, heads: Any, keys: Any, values: Any, asked: Any) -> Any:
    q, k = (as_one_token(graph, asked, batch, heads * keys), as_one_token(graph, key, batch, heads * keys))
    v, b = (as_one_token(graph, value, batch, heads * values), as_one_token(graph, rate, batch, heads))
    read, last = graph.make_node('LinearAttention', [q, k, v, state, None, b], 2, domain='com.microsoft', q_num_heads=heads, kv_num_heads=heads, scale=1.0, update_rule='delta')
    return (last, reshape_to(graph, read, shape_of(graph, res[1])))


def finish_ort_gated_delta_step_1(m: Matcher, nodes: tuple[Node, ...], state: Any, rate: Any, reader: Any, query: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any, root: Any, n9: Any) -> Match | None:
    graph = m.graph
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_state(graph, state):
        m.refuse('is_state(state)')
        return None
    batch = dim_of(graph, state, 0)
    heads = static(dim_of(graph, state, 1))
    keys = static(dim_of(graph, state, 2))
    values = static(dim_of(graph, state, 3))
    rated = has_shape(graph, rate, [batch, heads, 1]) or has_shape(graph, rate, [batch, heads, 1, 1])
    asked = reader if query is None else query
    reads = has_shape(graph, reader, [batch, heads, 1, keys]) if query is None else has_shape(graph, query, [batch, heads, keys, 1])
    decay = log_of_decay(graph, factor)
    if not decay is not None:
        m.refuse('decay is not None')
        return None
    each = heads if has_shape(graph, factor, [batch, heads, 1, 1]) else 0
    count = heads * keys if has_shape(graph, factor, [batch, heads, keys, 1]) else each
    if not count > 0:
        m.refuse('count > 0')
        return None
    if not has_shape(graph, key, [batch, heads, keys, 1]):
        m.refuse('has_shape(key, [batch, heads, keys, 1])')
        return None
    if not reads:
        m.refuse('reads')
        return None
    if not same_vectors(graph, row, key):
        m.refuse('same_vectors(row, key)')
        return None
    if not same_shape(graph, value, memory):
        m.refuse('same_shape(value, memory)')
        return None
    if not has_shape(graph, line, [batch, heads, 1, values]):
        m.refuse('has_shape(line, [batch, heads, 1, values])')
        return None
    if not rated:
        m.refuse('rated')
        return None
    return Match(nodes, (root.outputs[0], n9.outputs[0]), (state, key, value, rate, batch, heads, keys, values, asked, decay, count))


def finish_ort_gated_delta_step_2(m: Matcher, nodes: tuple[Node, ...], n9: Any, state: Any, rate: Any, reader: Any, query: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any, root: Any) -> Match | None:
    if len(n9.inputs) != 2 or not m.plain(n9, ('keepdims',), _REDUCE_SUM):
        return None
    _, r8 = n9.inputs
    if not m.numbers(r8, [2]):
        return None
    return finish_ort_gated_delta_step_1(m, nodes, state, rate, reader, query, factor, key, row, value, memory, line, root, n9)


def finish_ort_gated_delta_step_3(m: Matcher, nodes: tuple[Node, ...], root: Any, n1: Any, n7: Any, n4: Any, n2: Any, n6: Any, state: Any, rate: Any, reader: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n8 in m.readers(root.outputs[0], 'Mul'):
        if n8 is n1 or n8 is n7 or n8 is n4 or n8 is n2 or len(n8.inputs) != 2 or n8.attrs:
            continue
        for r7, query in m.orders(n8):
            if r7 != root.outputs[0]:
                continue
            for n9 in m.readers(n8.outputs[0], 'ReduceSum', 0):
                if n9 is n6:
                    continue
                found = finish_ort_gated_delta_step_2(m, (*nodes, n8, n9), n9, state, rate, reader, query, factor, key, row, value, memory, line, root)
                if found is not None:
                    return found
    return None


def finish_ort_gated_delta_step_4(m: Matcher, nodes: tuple[Node, ...], n8: Any, state: Any, rate: Any, query: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any, root: Any) -> Match | None:
    if len(n8.inputs) != 2 or n8.attrs:
        return None
    reader, _ = n8.inputs
    return finish_ort_gated_delta_step_1(m, nodes, state, rate, reader, query, factor, key, row, value, memory, line, root, n8)


def finish_ort_gated_delta_step_5(m: Matcher, nodes: tuple[Node, ...], root: Any, state: Any, rate: Any, query: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n8 in m.readers(root.outputs[0], 'MatMul', 1):
        found = finish_ort_gated_delta_step_4(m, (*nodes, n8), n8, state, rate, query, factor, key, row, value, memory, line, root)
        if found is not None:
            return found
    return None


def finish_ort_gated_delta_step_6(m: Matcher, nodes: tuple[Node, ...], memory: Any, decayed: Any, key: Any, root: Any, n1: Any, n4: Any, n2: Any, state: Any, rate: Any, reader: Any, factor: Any, row: Any, value: Any, line: Any, query: Any) -> Match | None:
    n6 = m.producer(memory, 'ReduceSum')
    if n6 is None or len(n6.inputs) != 2 or not m.plain(n6, ('keepdims',), _REDUCE_SUM):
        return None
    r3, r4 = n6.inputs
    if not m.numbers(r4, [2]):
        return None
    n7 = m.producer(r3, 'Mul')
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    for r5, r6 in m.orders(n7):
        if r5 != decayed or r6 != key:
            continue
        found = finish_ort_gated_delta_step_3(m, (*nodes, n6, n7), root, n1, n7, n4, n2, n6, state, rate, reader, factor, key, row, value, memory, line)
        if found is not None:
            return found
        found = finish_ort_gated_delta_step_5(m, (*nodes, n6, n7), root, state, rate, query, factor, key, row, value, memory, line)
        if found is not None:
            return found
    return None


def finish_ort_gated_delta_step_7(m: Matcher, nodes: tuple[Node, ...], root: Any, n1: Any, n4: Any, n2: Any, state: Any, rate: Any, reader: Any, factor: Any, key: Any, row: Any, value: Any, memory: Any, line: Any) -> Match | None:
    for n8 in m.readers(root.outputs[0], 'Mul'):
        if n8 is n1 or n8 is n4 or n8 is n2 or len(n8.inputs) != 2 or n8.attrs:
            continue
        for r6, query in m.orders(n8):
            if r6 != root.outputs[0]:
                continue
            for n9 in m.readers(n8.outputs[0], 'ReduceSum', 0):
                found = finish_ort_gated_delta_step_2(m, (*nodes, n8, n9), n9, state, rate, reader, query, factor, key, row, value, memory, line, root)
                if found is not None:
                    return found
    return None


def finish_ort_gated_delta_step_8(m: Matcher, nodes: tuple[Node, ...], n7: Any, decayed: Any, root: Any, n1: Any, n4: Any, n2: Any, state: Any, rate: Any, reader: Any, factor: Any, key: Any, value: Any, memory: Any, line: Any, query: Any) -> Match | None:
    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
        return None
    row, r5 = n7.inputs
    if r5 != decayed:
        return None
    found = finish_ort_gated_delta_step_7(m, nodes, root, n1, n4, n2, state, rate, reader, factor, key, row, value, memory, line)
    if found is not None:
        return found
    for n8 in m.readers(root.outputs[0], 'MatMul', 1):
        if n8 is n7:
            continue
        found = finish_ort_gated_delta_step_4(m, (*nodes, n8), n8, state, rate, query, factor, key, row, value, memory, line, root)
        if found is not None:
            return found
    return None


def finish_ort_gated_delta_step_9(m: Matcher, nodes: tuple[Node, ...], memory: Any, decayed: Any, root: Any, n1: Any, n4: Any, n2: Any, state: Any, rate: Any, reader: Any, factor: Any, key: Any, value: Any, line: Any, query: Any) -> Match | None:
    n6 = m.producer(memory, 'Squeeze')
    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
        return None
    r3, r4 = n6.inputs
    if not r4:
        return None
    n7 = m.producer(r3, 'MatMul')
    return finish_ort_gated_delta_step_8(m, (*nodes, n6, n7), n7, decayed, root, n1, n4, n2, state, rate, reader, factor, key, value, memory, line, query)


def finish_ort_gated_delta_step_10(m: Matcher, nodes: tuple[Node, ...], memory: Any, decayed: Any, root: Any, n1: Any, n4: Any, n2: Any, state: Any, rate: Any, reader: Any, factor: Any, key: Any, value: Any, line: Any, query: Any) -> Match | None:
    n6 = m.producer(memory, 'MatMul')
    return finish_ort_gated_delta_step_8(m, (*nodes, n6), n6, decayed, root, n1, n4, n2, state, rate, reader, factor, key, value, memory, line, query)


def finish_ort_gated_delta_step_11(m: Matcher, nodes: tuple[Node, ...], delta: Any, decayed: Any, key: Any, root: Any, n1: Any, n2: Any, state: Any, reader: Any, factor: Any, row: Any, line: Any, query: Any) -> Match | None:
    n4 = m.producer(delta, 'Mul')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for r2, rate in m.orders(n4):
        n5 = m.producer(r2, 'Sub')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        value, memory = n5.inputs
        found = finish_ort_gated_delta_step_6(m, (*nodes, n4, n5), memory, decayed, key, root, n1, n4, n2, state, rate, reader, factor, row, value, line, query)
        if found is not None:
            return found
        found = finish_ort_gated_delta_step_9(m, (*nodes, n4, n5), memory, decayed, root, n1, n4, n2, state, rate, reader, factor, key, value, line, query)
        if found is not None:
            return found
        found = finish_ort_gated_delta_step_10(m, (*nodes, n4, n5), memory, decayed, root, n1, n4, n2, state, rate, reader, factor, key, value, line, query)
        if found is not None:
            return found
    return None


def match_ort_gated_delta_step(m: Matcher, root: Node) -> Match | None:
    """decayed = Mul(state, factor); memory = any_of(ReduceSum(Mul(decayed, key), [2], keepdims=_), Squeeze(MatMul(row, decayed), _), MatMul(row, decayed)); delta = Mul(Sub(value, memory), rate); line = optional(Unsqueeze(delta, _)); now = Add(decayed, Mul(key, line)); out = any_of(ReduceSum(Mul(now, query), [2], keepdims=_), MatMul(reader, now)); return (now, out)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for decayed, r1 in m.orders(root):
        n1 = m.producer(decayed, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(r1, 'Mul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for state, factor in m.orders(n1):
            for key, line in m.orders(n2):
                n3 = m.producer(line, 'Unsqueeze')
                if n3 is None or len(n3.inputs) != 2 or n3.attrs:
                    continue
                delta, _ = n3.inputs
                found = finish_ort_gated_delta_step_11(m, (root, n1, n2, n3), delta, decayed, key, root, n1, n2, state, None, factor, None, line, None)
                if found is not None:
                    return found
            for key, delta in m.orders(n2):
                line = delta
                found = finish_ort_gated_delta_step_11(m, (root, n1, n2), delta, decayed, key, root, n1, n2, state, None, factor, None, line, None)
                if found is not None:
                    return found
    return None


def make_ort_gated_delta_step(graph: Graph, res: ResultSpec, state: Result, key: Result, value: Result, rate: Result, batch: Any, heads: Any, keys: Any, values: Any, asked: Any, decay: Any, count: Any) -> Any:
    q, k = (as_one_token(graph, asked, batch, heads * keys), as_one_token(graph, key, batch, heads * keys))
    v, b = (as_one_token(graph, value, batch, heads * values), as_one_token(graph, rate, batch, heads))
    g = as_one_token(graph, decay, batch, count)
    read, last = graph.make_node('LinearAttention', [q, k, v, state, g, b], 2, domain='com.microsoft', q_num_heads=heads, kv_num_heads=heads, scale=1.0, update_rule='gated_delta')
    return (last, reshape_to(graph, read, shape_of(graph, res[1])))


def finish_ort_gated_step_1(m: Matcher, nodes: tuple[Node, ...], state: Any, reader: Any, query: Any, factor: Any, key: Any, line: Any, root: Any, n4: Any) -> Match | None:
    graph = m.graph
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_state(graph, state):
        m.refuse('is_state(state)')
        return None
    batch = dim_of(graph, state, 0)
    heads = static(dim_of(graph, state, 1))
    keys = static(dim_of(graph, state, 2))
    values = static(dim_of(graph, state, 3))
    if not values > 1:
        m.refuse('values > 1')
        return None
    asked = reader if query is None else query
    reads = has_shape(graph, reader, [batch, heads, 1, keys]) if query is None else has_shape(graph, query, [batch, heads, keys, 1])
    decay = log_of_decay(graph, factor)
    if not decay is not None:
        m.refuse('decay is not None')
        return None
    each = heads if has_shape(graph, factor, [batch, heads, 1, 1]) else 0
    count = heads * keys if has_shape(graph, factor, [batch, heads, keys, 1]) else each
    if not count > 0:
        m.refuse('count > 0')
        return None
    if not has_shape(graph, key, [batch, heads, keys, 1]):
        m.refuse('has_shape(key, [batch, heads, keys, 1])')
        return None
    if not reads:
        m.refuse('reads')
        return None
    if not has_shape(graph, line, [batch, heads, 1, values]):
        m.refuse('has_shape(line, [batch, heads, 1, values])')
        return None
    return Match(nodes, (root.outputs[0], n4.outputs[0]), (state, key, line, batch, heads, keys, values, asked, decay, count))


def match_ort_gated_step(m: Matcher, root: Node) -> Match | None:
    """now = Add(Mul(state, factor), Mul(key, line)); out = any_of(ReduceSum(Mul(now, query), [2], keepdims=_), MatMul(reader, now)); return (now, out)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(r2, 'Mul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for state, factor in m.orders(n1):
            for key, line in m.orders(n2):
                for n3 in m.readers(root.outputs[0], 'Mul'):
                    if n3 is n1 or n3 is n2 or len(n3.inputs) != 2 or n3.attrs:
                        continue
                    for r3, query in m.orders(n3):
                        if r3 != root.outputs[0]:
                            continue
                        for n4 in m.readers(n3.outputs[0], 'ReduceSum', 0):
                            if len(n4.inputs) != 2 or not m.plain(n4, ('keepdims',), _REDUCE_SUM):
                                continue
                            _, r4 = n4.inputs
                            if not m.numbers(r4, [2]):
                                continue
                            found = finish_ort_gated_step_1(m, (root, n1, n2, n3, n4), state, None, query, factor, key, line, root, n4)
                            if found is not None:
                                return found
                for n3 in m.readers(root.outputs[0], 'MatMul', 1):
                    if len(n3.inputs) != 2 or n3.attrs:
                        continue
                    reader, _ = n3.inputs
                    found = finish_ort_gated_step_1(m, (root, n1, n2, n3), state, reader, None, factor, key, line, root, n3)
                    if found is not None:
                        return found
    return None


def make_ort_gated_step(graph: Graph, res: ResultSpec, state: Result, key: Result, line: Result, batch: Any, heads: Any, keys: Any, values: Any, asked: Any, decay: Any, count: Any) -> Any:
    q, k = (as_one_token(graph, asked, batch, heads * keys), as_one_token(graph, key, batch, heads * keys))
    v, g = (as_one_token(graph, line, batch, heads * values), as_one_token(graph, decay, batch, count))
    read, last = graph.make_node('LinearAttention', [q, k, v, state, g], 2, domain='com.microsoft', q_num_heads=heads, kv_num_heads=heads, scale=1.0, update_rule='gated')
    return (last, reshape_to(graph, read, shape_of(graph, res[1])))
