# Generated from specs/rewrites/ort_rotary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.attention import are_grouped_split_rows, attention_scale, heads_before_repeat, last_positions, merged_heads, total_length
from ortable.passes.rewrite.words.masks import is_causal_mask, zeroes_only_empty_rows
from ortable.passes.rewrite.words.numbers import for_cpu, is_float32
from ortable.passes.rewrite.words.rotary import is_shared_cache, repeats_halves, rotary_cache, same_angles, shared_cache, slices_half_of_heads, starts_at_zero
from ortable.passes.rewrite.words.shapes import known_rank
from ortable.prelude.facts import dim_of, shape_of, static
from ortable.prelude.values import consts, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}
_ROTARY_EMBEDDING = {'interleaved': 0, 'rotary_embedding_dim': 0}
_SOFTMAX = {'axis': -1}


def accept_ort_attention_causal_rotary(m: Matcher, asked: Any, cos: Any, sin: Any, stored: Any, cos2: Any, sin2: Any, factor: Any, mask: Any, value: Any, attended: Any, probs: Any, out: Any, axis: Any, hidden: Any) -> tuple[Any, ...] | None:
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
    if not is_causal_mask(graph, mask, asked, probs):
        m.refuse('is_causal_mask(mask, asked, probs)')
        return None
    if not zeroes_only_empty_rows(graph, mask, attended, hidden):
        m.refuse('zeroes_only_empty_rows(mask, attended, hidden)')
        return None
    if not dim_of(graph, asked, 3) % 16 == 0:
        m.refuse('dim_of(asked, 3) % 16 == 0')
        return None
    count = static(dim_of(graph, asked, 1))
    groups = static(dim_of(graph, stored, 1))
    return (scale, count, groups)


def match_ort_attention_causal_rotary_1(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Expand')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        r8, _ = n11.inputs
        n12 = m.producer(r8, 'Unsqueeze')
        if n12 is None or len(n12.inputs) != 2 or n12.attrs:
            continue
        key, r9 = n12.inputs
        if not m.numbers(r9, [2]):
            continue
        n13 = m.producer(key, 'RotaryEmbedding')
        if n13 is None or len(n13.inputs) != 3 or not m.plain(n13, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n13.inputs
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_2(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Expand')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        r8, _ = n11.inputs
        n12 = m.producer(r8, 'Unsqueeze')
        if n12 is None or len(n12.inputs) != 2 or n12.attrs:
            continue
        key, r9 = n12.inputs
        if not m.numbers(r9, [2]):
            continue
        n13 = m.producer(key, 'RotaryEmbedding')
        if n13 is None or len(n13.inputs) != 3 or not m.plain(n13, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n13.inputs
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_3(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
    for r4, factor in m.orders(n5):
        n6 = m.producer(r4, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, r5 = n6.inputs
        n7 = m.producer(query, 'RotaryEmbedding')
        if n7 is None or len(n7.inputs) != 3 or not m.plain(n7, (), _ROTARY_EMBEDDING):
            continue
        n8 = m.producer(r5, 'Transpose')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
            continue
        if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, cos, sin = n7.inputs
        keys = n8.inputs[0]
        n9 = m.producer(keys, 'Reshape')
        if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('allowzero',), _RESHAPE):
            continue
        r6, _ = n9.inputs
        n10 = m.producer(r6, 'Expand')
        if n10 is None or len(n10.inputs) != 2 or n10.attrs:
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Unsqueeze')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        key, r8 = n11.inputs
        if not m.numbers(r8, [2]):
            continue
        n12 = m.producer(key, 'RotaryEmbedding')
        if n12 is None or len(n12.inputs) != 3 or not m.plain(n12, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n12.inputs
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_4(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 3 or not m.plain(n8, (), _ROTARY_EMBEDDING):
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n8.inputs
            keys = n9.inputs[0]
            n10 = m.producer(keys, 'Reshape')
            if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Expand')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            r7, _ = n11.inputs
            n12 = m.producer(r7, 'Unsqueeze')
            if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                continue
            key, r8 = n12.inputs
            if not m.numbers(r8, [2]):
                continue
            n13 = m.producer(key, 'RotaryEmbedding')
            if n13 is None or len(n13.inputs) != 3 or not m.plain(n13, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n13.inputs
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_5(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 3 or not m.plain(n8, (), _ROTARY_EMBEDDING):
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n8.inputs
            keys = n9.inputs[0]
            n10 = m.producer(keys, 'Reshape')
            if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Expand')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            r7, _ = n11.inputs
            n12 = m.producer(r7, 'Unsqueeze')
            if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                continue
            key, r8 = n12.inputs
            if not m.numbers(r8, [2]):
                continue
            n13 = m.producer(key, 'RotaryEmbedding')
            if n13 is None or len(n13.inputs) != 3 or not m.plain(n13, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n13.inputs
            attended = None
            out = root.outputs[0]
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_6(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r3, factor in m.orders(n5):
            n6 = m.producer(r3, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, r4 = n6.inputs
            n7 = m.producer(query, 'RotaryEmbedding')
            if n7 is None or len(n7.inputs) != 3 or not m.plain(n7, (), _ROTARY_EMBEDDING):
                continue
            n8 = m.producer(r4, 'Transpose')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
                continue
            if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n7.inputs
            keys = n8.inputs[0]
            n9 = m.producer(keys, 'Reshape')
            if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('allowzero',), _RESHAPE):
                continue
            r5, _ = n9.inputs
            n10 = m.producer(r5, 'Expand')
            if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Unsqueeze')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            key, r7 = n11.inputs
            if not m.numbers(r7, [2]):
                continue
            n12 = m.producer(key, 'RotaryEmbedding')
            if n12 is None or len(n12.inputs) != 3 or not m.plain(n12, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n12.inputs
            attended = None
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_7(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        key = n9.inputs[0]
        n10 = m.producer(key, 'RotaryEmbedding')
        if n10 is None or len(n10.inputs) != 3 or not m.plain(n10, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n10.inputs
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_8(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        key = n9.inputs[0]
        n10 = m.producer(key, 'RotaryEmbedding')
        if n10 is None or len(n10.inputs) != 3 or not m.plain(n10, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n10.inputs
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_9(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
    for r4, factor in m.orders(n5):
        n6 = m.producer(r4, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, r5 = n6.inputs
        n7 = m.producer(query, 'RotaryEmbedding')
        if n7 is None or len(n7.inputs) != 3 or not m.plain(n7, (), _ROTARY_EMBEDDING):
            continue
        n8 = m.producer(r5, 'Transpose')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
            continue
        if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, cos, sin = n7.inputs
        key = n8.inputs[0]
        n9 = m.producer(key, 'RotaryEmbedding')
        if n9 is None or len(n9.inputs) != 3 or not m.plain(n9, (), _ROTARY_EMBEDDING):
            continue
        stored, cos2, sin2 = n9.inputs
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_10(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 3 or not m.plain(n8, (), _ROTARY_EMBEDDING):
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n8.inputs
            key = n9.inputs[0]
            n10 = m.producer(key, 'RotaryEmbedding')
            if n10 is None or len(n10.inputs) != 3 or not m.plain(n10, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n10.inputs
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_11(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 3 or not m.plain(n8, (), _ROTARY_EMBEDDING):
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n8.inputs
            key = n9.inputs[0]
            n10 = m.producer(key, 'RotaryEmbedding')
            if n10 is None or len(n10.inputs) != 3 or not m.plain(n10, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n10.inputs
            attended = None
            out = root.outputs[0]
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_12(m: Matcher, root: Node) -> Match | None:
    """query = RotaryEmbedding(asked, cos, sin); key = RotaryEmbedding(stored, cos2, sin2); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r3, factor in m.orders(n5):
            n6 = m.producer(r3, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, r4 = n6.inputs
            n7 = m.producer(query, 'RotaryEmbedding')
            if n7 is None or len(n7.inputs) != 3 or not m.plain(n7, (), _ROTARY_EMBEDDING):
                continue
            n8 = m.producer(r4, 'Transpose')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
                continue
            if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, cos, sin = n7.inputs
            key = n8.inputs[0]
            n9 = m.producer(key, 'RotaryEmbedding')
            if n9 is None or len(n9.inputs) != 3 or not m.plain(n9, (), _ROTARY_EMBEDDING):
                continue
            stored, cos2, sin2 = n9.inputs
            attended = None
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary(m, asked, cos, sin, stored, cos2, sin2, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def make_ort_attention_causal_rotary(graph: Graph, res: ResultSpec, asked: Result, cos: Result, sin: Result, stored: Result, value: Result, scale: Any, count: Any, groups: Any) -> Any:
    q, k, v = (merged_heads(graph, asked), merged_heads(graph, stored), merged_heads(graph, heads_before_repeat(graph, value)))
    rows = graph.make_node('GroupQueryAttention', [q, k, v, None, None, last_positions(graph, asked), total_length(graph, asked), shared_cache(graph, cos), shared_cache(graph, sin)], domain='com.microsoft', num_heads=count, kv_num_heads=groups, scale=scale, do_rotary=1)
    return reshape_to(graph, rows, shape_of(graph, res))


def accept_ort_attention_causal_rotary_places(m: Matcher, asked: Any, positions: Any, stored: Any, factor: Any, mask: Any, value: Any, attended: Any, probs: Any, out: Any, axis: Any, hidden: Any) -> tuple[Any, ...] | None:
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
    scale = attention_scale(graph, factor, None)
    if not scale:
        m.refuse('scale')
        return None
    if not starts_at_zero(graph, positions):
        m.refuse('starts_at_zero(positions)')
        return None
    if not are_grouped_split_rows(graph, asked, stored, value):
        m.refuse('are_grouped_split_rows(asked, stored, value)')
        return None
    if not is_causal_mask(graph, mask, asked, probs):
        m.refuse('is_causal_mask(mask, asked, probs)')
        return None
    if not zeroes_only_empty_rows(graph, mask, attended, hidden):
        m.refuse('zeroes_only_empty_rows(mask, attended, hidden)')
        return None
    if not dim_of(graph, asked, 3) % 16 == 0:
        m.refuse('dim_of(asked, 3) % 16 == 0')
        return None
    count = static(dim_of(graph, asked, 1))
    groups = static(dim_of(graph, stored, 1))
    return (scale, count, groups)


def match_ort_attention_causal_rotary_places_1(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Expand')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        r8, _ = n11.inputs
        n12 = m.producer(r8, 'Unsqueeze')
        if n12 is None or len(n12.inputs) != 2 or n12.attrs:
            continue
        key, r9 = n12.inputs
        if not m.numbers(r9, [2]):
            continue
        n13 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n13 is None or len(n13.inputs) != 4 or n13.attrs:
            continue
        stored, r10, r11, r12 = n13.inputs
        if r10 != positions:
            continue
        if r11 != cos:
            continue
        if r12 != sin:
            continue
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_2(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Expand')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        r8, _ = n11.inputs
        n12 = m.producer(r8, 'Unsqueeze')
        if n12 is None or len(n12.inputs) != 2 or n12.attrs:
            continue
        key, r9 = n12.inputs
        if not m.numbers(r9, [2]):
            continue
        n13 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n13 is None or len(n13.inputs) != 4 or n13.attrs:
            continue
        stored, r10, r11, r12 = n13.inputs
        if r10 != positions:
            continue
        if r11 != cos:
            continue
        if r12 != sin:
            continue
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_3(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
    for r4, factor in m.orders(n5):
        n6 = m.producer(r4, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, r5 = n6.inputs
        n7 = m.producer(query, 'com.microsoft::RotaryEmbedding')
        if n7 is None or len(n7.inputs) != 4 or n7.attrs:
            continue
        n8 = m.producer(r5, 'Transpose')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
            continue
        if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, positions, cos, sin = n7.inputs
        keys = n8.inputs[0]
        n9 = m.producer(keys, 'Reshape')
        if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('allowzero',), _RESHAPE):
            continue
        r6, _ = n9.inputs
        n10 = m.producer(r6, 'Expand')
        if n10 is None or len(n10.inputs) != 2 or n10.attrs:
            continue
        r7, _ = n10.inputs
        n11 = m.producer(r7, 'Unsqueeze')
        if n11 is None or len(n11.inputs) != 2 or n11.attrs:
            continue
        key, r8 = n11.inputs
        if not m.numbers(r8, [2]):
            continue
        n12 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n12 is None or len(n12.inputs) != 4 or n12.attrs:
            continue
        stored, r9, r10, r11 = n12.inputs
        if r9 != positions:
            continue
        if r10 != cos:
            continue
        if r11 != sin:
            continue
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_4(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 4 or n8.attrs:
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n8.inputs
            keys = n9.inputs[0]
            n10 = m.producer(keys, 'Reshape')
            if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Expand')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            r7, _ = n11.inputs
            n12 = m.producer(r7, 'Unsqueeze')
            if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                continue
            key, r8 = n12.inputs
            if not m.numbers(r8, [2]):
                continue
            n13 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n13 is None or len(n13.inputs) != 4 or n13.attrs:
                continue
            stored, r9, r10, r11 = n13.inputs
            if r9 != positions:
                continue
            if r10 != cos:
                continue
            if r11 != sin:
                continue
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_5(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 4 or n8.attrs:
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n8.inputs
            keys = n9.inputs[0]
            n10 = m.producer(keys, 'Reshape')
            if n10 is None or len(n10.inputs) != 2 or not m.plain(n10, ('allowzero',), _RESHAPE):
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Expand')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            r7, _ = n11.inputs
            n12 = m.producer(r7, 'Unsqueeze')
            if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                continue
            key, r8 = n12.inputs
            if not m.numbers(r8, [2]):
                continue
            n13 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n13 is None or len(n13.inputs) != 4 or n13.attrs:
                continue
            stored, r9, r10, r11 = n13.inputs
            if r9 != positions:
                continue
            if r10 != cos:
                continue
            if r11 != sin:
                continue
            attended = None
            out = root.outputs[0]
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_6(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = Reshape(Expand(Unsqueeze(key, [2]), _), _, allowzero=_); scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r3, factor in m.orders(n5):
            n6 = m.producer(r3, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, r4 = n6.inputs
            n7 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n7 is None or len(n7.inputs) != 4 or n7.attrs:
                continue
            n8 = m.producer(r4, 'Transpose')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
                continue
            if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n7.inputs
            keys = n8.inputs[0]
            n9 = m.producer(keys, 'Reshape')
            if n9 is None or len(n9.inputs) != 2 or not m.plain(n9, ('allowzero',), _RESHAPE):
                continue
            r5, _ = n9.inputs
            n10 = m.producer(r5, 'Expand')
            if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                continue
            r6, _ = n10.inputs
            n11 = m.producer(r6, 'Unsqueeze')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            key, r7 = n11.inputs
            if not m.numbers(r7, [2]):
                continue
            n12 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n12 is None or len(n12.inputs) != 4 or n12.attrs:
                continue
            stored, r8, r9, r10 = n12.inputs
            if r8 != positions:
                continue
            if r9 != cos:
                continue
            if r10 != sin:
                continue
            attended = None
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_7(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        key = n9.inputs[0]
        n10 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n10 is None or len(n10.inputs) != 4 or n10.attrs:
            continue
        stored, r7, r8, r9 = n10.inputs
        if r7 != positions:
            continue
        if r8 != cos:
            continue
        if r9 != sin:
            continue
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_8(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        key = n9.inputs[0]
        n10 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n10 is None or len(n10.inputs) != 4 or n10.attrs:
            continue
        stored, r7, r8, r9 = n10.inputs
        if r7 != positions:
            continue
        if r8 != cos:
            continue
        if r9 != sin:
            continue
        attended = None
        out = root.outputs[0]
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_9(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Where(mask, scores, -inf), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
    for r4, factor in m.orders(n5):
        n6 = m.producer(r4, 'MatMul')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        query, r5 = n6.inputs
        n7 = m.producer(query, 'com.microsoft::RotaryEmbedding')
        if n7 is None or len(n7.inputs) != 4 or n7.attrs:
            continue
        n8 = m.producer(r5, 'Transpose')
        if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
            continue
        if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
            continue
        asked, positions, cos, sin = n7.inputs
        key = n8.inputs[0]
        n9 = m.producer(key, 'com.microsoft::RotaryEmbedding')
        if n9 is None or len(n9.inputs) != 4 or n9.attrs:
            continue
        stored, r6, r7, r8 = n9.inputs
        if r6 != positions:
            continue
        if r7 != cos:
            continue
        if r8 != sin:
            continue
        attended = None
        out = root.outputs[0]
        hidden = None
        accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
        if accepted is None:
            continue
        scale, count, groups = accepted
        return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_10(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(attended, heads, 0); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 4 or n8.attrs:
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n8.inputs
            key = n9.inputs[0]
            n10 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n10 is None or len(n10.inputs) != 4 or n10.attrs:
                continue
            stored, r6, r7, r8 = n10.inputs
            if r6 != positions:
                continue
            if r7 != cos:
                continue
            if r8 != sin:
                continue
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_11(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = Where(hidden, 0, heads); out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r4, factor in m.orders(n6):
            n7 = m.producer(r4, 'MatMul')
            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                continue
            query, r5 = n7.inputs
            n8 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n8 is None or len(n8.inputs) != 4 or n8.attrs:
                continue
            n9 = m.producer(r5, 'Transpose')
            if n9 is None or len(n9.inputs) != 1 or not m.plain(n9, ('perm',)):
                continue
            if not literal_equals(n9.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n8.inputs
            key = n9.inputs[0]
            n10 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n10 is None or len(n10.inputs) != 4 or n10.attrs:
                continue
            stored, r6, r7, r8 = n10.inputs
            if r6 != positions:
                continue
            if r7 != cos:
                continue
            if r8 != sin:
                continue
            attended = None
            out = root.outputs[0]
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


def match_ort_attention_causal_rotary_places_12(m: Matcher, root: Node) -> Match | None:
    """query = ms.RotaryEmbedding(asked, positions, cos, sin); key = ms.RotaryEmbedding(stored, positions, cos, sin); keys = key; scores = Mul(MatMul(query, Transpose(keys, perm=[0, 1, 3, 2])), factor); probs = Softmax(Add(scores, mask), axis=axis); heads = MatMul(probs, value); mended = heads; out = Reshape(Transpose(mended, perm=[0, 2, 1, 3]), _, allowzero=_); return out"""
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
        for r3, factor in m.orders(n5):
            n6 = m.producer(r3, 'MatMul')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            query, r4 = n6.inputs
            n7 = m.producer(query, 'com.microsoft::RotaryEmbedding')
            if n7 is None or len(n7.inputs) != 4 or n7.attrs:
                continue
            n8 = m.producer(r4, 'Transpose')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
                continue
            if not literal_equals(n8.attrs.get('perm'), [0, 1, 3, 2]):
                continue
            asked, positions, cos, sin = n7.inputs
            key = n8.inputs[0]
            n9 = m.producer(key, 'com.microsoft::RotaryEmbedding')
            if n9 is None or len(n9.inputs) != 4 or n9.attrs:
                continue
            stored, r5, r6, r7 = n9.inputs
            if r5 != positions:
                continue
            if r6 != cos:
                continue
            if r7 != sin:
                continue
            attended = None
            out = root.outputs[0]
            hidden = None
            accepted = accept_ort_attention_causal_rotary_places(m, asked, positions, stored, factor, mask, value, attended, probs, out, axis, hidden)
            if accepted is None:
                continue
            scale, count, groups = accepted
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8, n9), (root.outputs[0],), (asked, cos, sin, stored, value, scale, count, groups))
    return None


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
                r4, first, last, along = n5.inputs
                if r4 != x:
                    continue
                if not along:
                    continue
                r5, starts, ends, axes = n6.inputs
                if r5 != x:
                    continue
                if not axes:
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
                if not slices_half_of_heads(graph, x, False, starts, ends, axes):
                    m.refuse('slices_half_of_heads(x, False, starts, ends, axes)')
                    continue
                if not slices_half_of_heads(graph, x, True, first, last, along):
                    m.refuse('slices_half_of_heads(x, True, first, last, along)')
                    continue
                if not repeats_halves(graph, cos, x):
                    m.refuse('repeats_halves(cos, x)')
                    continue
                if not repeats_halves(graph, sin, x):
                    m.refuse('repeats_halves(sin, x)')
                    continue
                return Match((root, n1, n2, n3, n4, n5, n6), (root.outputs[0],), (x, cos, sin))
    return None


def make_ort_rotary_embedding(graph: Graph, res: ResultSpec, x: Result, cos: Result, sin: Result) -> Any:
    return graph.make_node('RotaryEmbedding', [x, consts(graph, [0], int64), rotary_cache(graph, cos), rotary_cache(graph, sin)], res.outputs, domain='com.microsoft')
