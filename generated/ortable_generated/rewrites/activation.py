# Generated from specs/rewrites/activation.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import is_float32, is_plus_zero, number_of
from ortable.passes.rewrite.helpers.shapes import one_axis
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of, is_float, is_wide
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_HARD_SIGMOID = {'alpha': 0.2, 'beta': 0.5}
_REDUCE_MAX = {'keepdims': 1, 'noop_with_empty_axes': 0}
_REDUCE_SUM = {'keepdims': 1, 'noop_with_empty_axes': 0}
_SOFTMAX = {'axis': -1}


def match_clip_of_relu(m: Matcher, root: Node) -> Match | None:
    """return Clip(Relu(x), low, maybe(high))"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or root.attrs:
        return None
    r1, low = root.inputs[:2]
    high = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not low:
        return None
    n1 = m.producer(r1, 'Relu')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    if not is_float(graph, x):
        m.refuse('is_float(x)')
        return None
    bound = number_of(graph, low)
    top = float('inf') if high is None else number_of(graph, high)
    if not top >= bound:
        m.refuse('top >= bound')
        return None
    if not (bound > 0 or top > 0):
        m.refuse('bound > 0 or top > 0')
        return None
    if not (bound < 0 or bound > 0 or is_plus_zero(graph, low)):
        m.refuse('bound < 0 or bound > 0 or is_plus_zero(low)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, high, bound))


def make_clip_of_relu(graph: Graph, res: ResultSpec, x: Result, high: Result | None, bound: Any) -> Any:
    return graph.make_node('Clip', [x, const(graph, max(bound, 0), dtype_of(graph, x)), high], res.outputs)


def finish_gelu_erf_1(m: Matcher, nodes: tuple[Node, ...], n2: Any, x: Any, root: Any) -> Match | None:
    graph = m.graph
    for r3, r4 in m.orders(n2):
        if not m.number(r4, 1):
            continue
        n3 = m.producer(r3, 'Erf')
        if n3 is None or len(n3.inputs) != 1 or n3.attrs:
            continue
        inner = n3.inputs[0]
        n4 = m.producer(inner, 'Div')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            r5, r6 = n4.inputs
            if r5 == x and m.number(r6, 1.4142135623730951):
                if not is_float32(graph, x):
                    m.refuse('is_float32(x)')
                else:
                    return Match((*nodes, n3, n4), (root.outputs[0],), (x,))
        n4 = m.producer(inner, 'Mul')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        for r5, r6 in m.orders(n4):
            if r5 != x or not m.number(r6, 0.7071067811865476):
                continue
            if not is_float32(graph, x):
                m.refuse('is_float32(x)')
                continue
            return Match((*nodes, n3, n4), (root.outputs[0],), (x,))
    return None


def finish_gelu_erf_2(m: Matcher, nodes: tuple[Node, ...], above: Any, x: Any, root: Any) -> Match | None:
    n2 = m.producer(above, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    return finish_gelu_erf_1(m, (*nodes, n2), n2, x, root)


def match_gelu_erf(m: Matcher, root: Node) -> Match | None:
    """inner = any_of(Div(x, 1.4142135623730951), Mul(x, 0.7071067811865476)); above = Add(Erf(inner), 1); return any_of(Mul(Mul(x, 0.5), above), Mul(Mul(x, above), 0.5), Mul(x, Mul(above, 0.5)))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, above in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(above, 'Add')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for x, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_erf_1(m, (root, n1, n2), n2, x, root)
            if found is not None:
                return found
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            found = finish_gelu_erf_2(m, (root, n1), above, x, root)
            if found is not None:
                return found
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_erf_2(m, (root, n1), above, x, root)
            if found is not None:
                return found
    return None


def make_gelu_erf(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs)


def finish_gelu_tanh_1(m: Matcher, nodes: tuple[Node, ...], n2: Any, x: Any, root: Any) -> Match | None:
    graph = m.graph
    for r3, r4 in m.orders(n2):
        if not m.number(r4, 1):
            continue
        n3 = m.producer(r3, 'Tanh')
        if n3 is None or len(n3.inputs) != 1 or n3.attrs:
            continue
        inner = n3.inputs[0]
        n4 = m.producer(inner, 'Mul')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        for r5, r6 in m.orders(n4):
            if not m.number(r6, 0.7978845608028654):
                continue
            n5 = m.producer(r5, 'Add')
            if n5 is None or len(n5.inputs) != 2 or n5.attrs:
                continue
            for r7, r8 in m.orders(n5):
                if r7 != x:
                    continue
                n6 = m.producer(r8, 'Mul')
                if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                    continue
                for cube, r9 in m.orders(n6):
                    if not m.number(r9, 0.044715):
                        continue
                    n7 = m.producer(cube, 'Pow')
                    if n7 is not None and len(n7.inputs) == 2 and (not n7.attrs):
                        r10, r11 = n7.inputs
                        if r10 == x and m.number(r11, 3):
                            if not is_float32(graph, x):
                                m.refuse('is_float32(x)')
                            else:
                                return Match((*nodes, n3, n4, n5, n6, n7), (root.outputs[0],), (x,))
                    n7 = m.producer(cube, 'Mul')
                    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                        continue
                    for r10, r11 in m.orders(n7):
                        if r10 != x:
                            continue
                        n8 = m.producer(r11, 'Mul')
                        if n8 is None or len(n8.inputs) != 2 or n8.attrs:
                            continue
                        for r12, r13 in m.orders(n8):
                            if r12 != x or r13 != x:
                                continue
                            if not is_float32(graph, x):
                                m.refuse('is_float32(x)')
                                continue
                            return Match((*nodes, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def finish_gelu_tanh_2(m: Matcher, nodes: tuple[Node, ...], above: Any, x: Any, root: Any) -> Match | None:
    n2 = m.producer(above, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    return finish_gelu_tanh_1(m, (*nodes, n2), n2, x, root)


def match_gelu_tanh(m: Matcher, root: Node) -> Match | None:
    """cube = any_of(Pow(x, 3), Mul(x, Mul(x, x))); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return any_of(Mul(Mul(x, 0.5), above), Mul(Mul(x, above), 0.5), Mul(x, Mul(above, 0.5)))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, above in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(above, 'Add')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for x, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_tanh_1(m, (root, n1, n2), n2, x, root)
            if found is not None:
                return found
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            found = finish_gelu_tanh_2(m, (root, n1), above, x, root)
            if found is not None:
                return found
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_tanh_2(m, (root, n1), above, x, root)
            if found is not None:
                return found
    return None


def make_gelu_tanh(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs, approximate='tanh')


def finish_gelu_tanh_factored_1(m: Matcher, nodes: tuple[Node, ...], r6: Any, x: Any, n6: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    if r6 != x:
        return None
    for r7, r8 in m.orders(n6):
        if not m.number(r8, 1):
            continue
        n7 = m.producer(r7, 'Mul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        for r9, r10 in m.orders(n7):
            if r10 != x:
                continue
            n8 = m.producer(r9, 'Mul')
            if n8 is None or len(n8.inputs) != 2 or n8.attrs:
                continue
            for r11, r12 in m.orders(n8):
                if r11 != x or not m.number(r12, 0.044715):
                    continue
                if not is_float32(graph, x):
                    m.refuse('is_float32(x)')
                    continue
                if not abs(number_of(graph, c) - 0.7978845608028654) < 8e-07:
                    m.refuse('abs(number_of(c) - 0.7978845608028654) < 8e-7')
                    continue
                return Match((*nodes, n7, n8), (root.outputs[0],), (x,))
    return None


def finish_gelu_tanh_factored_2(m: Matcher, nodes: tuple[Node, ...], n2: Any, x: Any, root: Any) -> Match | None:
    for r3, r4 in m.orders(n2):
        if not m.number(r4, 1):
            continue
        n3 = m.producer(r3, 'Tanh')
        if n3 is None or len(n3.inputs) != 1 or n3.attrs:
            continue
        inner = n3.inputs[0]
        n4 = m.producer(inner, 'Mul')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        for outer, r5 in m.orders(n4):
            n5 = m.producer(outer, 'Mul')
            if n5 is None or len(n5.inputs) != 2 or n5.attrs:
                continue
            n6 = m.producer(r5, 'Add')
            if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                continue
            for r6, c in m.orders(n5):
                found = finish_gelu_tanh_factored_1(m, (*nodes, n3, n4, n5, n6), r6, x, n6, c, root)
                if found is not None:
                    return found
            for c, r6 in m.orders(n5):
                found = finish_gelu_tanh_factored_1(m, (*nodes, n3, n4, n5, n6), r6, x, n6, c, root)
                if found is not None:
                    return found
    return None


def finish_gelu_tanh_factored_3(m: Matcher, nodes: tuple[Node, ...], above: Any, x: Any, root: Any) -> Match | None:
    n2 = m.producer(above, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    return finish_gelu_tanh_factored_2(m, (*nodes, n2), n2, x, root)


def match_gelu_tanh_factored(m: Matcher, root: Node) -> Match | None:
    """outer = any_of(Mul(x, c), Mul(c, x)); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return any_of(Mul(Mul(x, 0.5), above), Mul(Mul(x, above), 0.5), Mul(x, Mul(above, 0.5)))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, above in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(above, 'Add')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for x, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_tanh_factored_2(m, (root, n1, n2), n2, x, root)
            if found is not None:
                return found
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            found = finish_gelu_tanh_factored_3(m, (root, n1), above, x, root)
            if found is not None:
                return found
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            found = finish_gelu_tanh_factored_3(m, (root, n1), above, x, root)
            if found is not None:
                return found
    return None


def make_gelu_tanh_factored(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs, approximate='tanh')


def finish_hard_sigmoid_1(m: Matcher, nodes: tuple[Node, ...], cut: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(cut, 'Clip')
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    shifted, r2, r3 = n1.inputs
    if not m.number(r2, 0) or not m.number(r3, 6):
        return None
    n2 = m.producer(shifted, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for x, r4 in m.orders(n2):
        if not m.number(r4, 3):
            continue
        if not is_float32(graph, x):
            m.refuse('is_float32(x)')
            continue
        return Match((*nodes, n1, n2), (root.outputs[0],), (x,))
    return None


def match_hard_sigmoid_1(m: Matcher, root: Node) -> Match | None:
    """shifted = Add(x, 3); cut = Clip(shifted, 0, 6); return any_of(Div(cut, 6), Mul(cut, 0.16666666666666666))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    cut, r1 = root.inputs
    if not m.number(r1, 6):
        return None
    return finish_hard_sigmoid_1(m, (root,), cut, root)


def match_hard_sigmoid_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    for cut, r1 in m.orders(root):
        if not m.number(r1, 0.16666666666666666):
            continue
        found = finish_hard_sigmoid_1(m, (root,), cut, root)
        if found is not None:
            return found
    return None


def make_hard_sigmoid(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('HardSigmoid', [x], res.outputs, alpha=0.16666666666666666, beta=0.5)


def match_hard_swish(m: Matcher, root: Node) -> Match | None:
    """return Mul(x, HardSigmoid(x, alpha=0.16666666666666666, beta=0.5))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'HardSigmoid')
        if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('alpha', 'beta'), _HARD_SIGMOID):
            continue
        if not literal_equals(n1.attrs.get('alpha', 0.2), 0.16666666666666666):
            continue
        if not literal_equals(n1.attrs.get('beta', 0.5), 0.5):
            continue
        r2 = n1.inputs[0]
        if r2 != x:
            continue
        if not is_float32(graph, x):
            m.refuse('is_float32(x)')
            continue
        return Match((root, n1), (root.outputs[0],), (x,))
    return None


def make_hard_swish(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('HardSwish', [x], res.outputs)


def match_log_of_softmax(m: Matcher, root: Node) -> Match | None:
    """return Log(Softmax(x, axis=axis))"""
    graph = m.graph
    if len(root.inputs) != 1 or root.attrs:
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    axis = n1.attrs.get('axis', -1)
    x = n1.inputs[0]
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, axis))


def make_log_of_softmax(graph: Graph, res: ResultSpec, x: Result, axis: Any) -> Any:
    return graph.make_node('LogSoftmax', [x], res.outputs, axis=axis)


def match_log_softmax(m: Matcher, root: Node) -> Match | None:
    """shifted = Sub(x, ReduceMax(x, axes)); return Sub(shifted, Log(ReduceSum(Exp(shifted), axes2)))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    shifted, r1 = root.inputs
    n1 = m.producer(shifted, 'Sub')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    n2 = m.producer(r1, 'Log')
    if n2 is None or len(n2.inputs) != 1 or n2.attrs:
        return None
    x, r2 = n1.inputs
    n3 = m.producer(r2, 'ReduceMax')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MAX):
        return None
    r3, axes = n3.inputs
    if r3 != x or not axes:
        return None
    r4 = n2.inputs[0]
    n4 = m.producer(r4, 'ReduceSum')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, (), _REDUCE_SUM):
        return None
    r5, axes2 = n4.inputs
    if not axes2:
        return None
    n5 = m.producer(r5, 'Exp')
    if n5 is None or len(n5.inputs) != 1 or n5.attrs:
        return None
    r6 = n5.inputs[0]
    if r6 != shifted:
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    axis = one_axis(graph, axes, x)
    if not axis >= 0:
        m.refuse('axis >= 0')
        return None
    if not one_axis(graph, axes2, x) == axis:
        m.refuse('one_axis(axes2, x) == axis')
        return None
    return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (x, axis))


def make_log_softmax(graph: Graph, res: ResultSpec, x: Result, axis: Any) -> Any:
    return graph.make_node('LogSoftmax', [x], res.outputs, axis=axis)


def match_mish(m: Matcher, root: Node) -> Match | None:
    """return Mul(x, Tanh(Softplus(x)))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Tanh')
        if n1 is None or len(n1.inputs) != 1 or n1.attrs:
            continue
        r2 = n1.inputs[0]
        n2 = m.producer(r2, 'Softplus')
        if n2 is None or len(n2.inputs) != 1 or n2.attrs:
            continue
        r3 = n2.inputs[0]
        if r3 != x:
            continue
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        return Match((root, n1, n2), (root.outputs[0],), (x,))
    return None


def make_mish(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Mish', [x], res.outputs)


def finish_relu_of_clip_1(m: Matcher, nodes: tuple[Node, ...], low: Any, high: Any, root: Any, cut: Any, n1: Any) -> Match | None:
    graph = m.graph
    if not number_of(graph, low) >= 0:
        m.refuse('number_of(low) >= 0')
        return None
    top = float('inf') if high is None else number_of(graph, high)
    if not top >= 0:
        m.refuse('top >= 0')
        return None
    return Match(nodes, (root.outputs[0],), (cut,), (n1,))


def match_relu_of_clip(m: Matcher, root: Node) -> Match | None:
    """cut = any_of(Clip(_, low), Clip(_, low, high)); return Relu(cut)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    cut = root.inputs[0]
    n1 = m.producer(cut, 'Clip')
    if n1 is not None and len(n1.inputs) == 2 and (not n1.attrs):
        _, low = n1.inputs
        if low:
            found = finish_relu_of_clip_1(m, (root, n1), low, None, root, cut, n1)
            if found is not None:
                return found
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    _, low, high = n1.inputs
    if not low or not high:
        return None
    return finish_relu_of_clip_1(m, (root, n1), low, high, root, cut, n1)


def make_relu_of_clip(graph: Graph, res: ResultSpec, cut: Result) -> Any:
    return cut


def finish_relu_of_positive_1(m: Matcher, nodes: tuple[Node, ...], n1: Any, positive: Any, root: Any) -> Match | None:
    graph = m.graph
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    if not is_float(graph, positive):
        m.refuse('is_float(positive)')
        return None
    return Match(nodes, (root.outputs[0],), (positive,), (n1,))


def match_relu_of_positive(m: Matcher, root: Node) -> Match | None:
    """positive = any_of(Relu(_), Sigmoid(_), HardSigmoid(_, attrs=_), Exp(_), Abs(_), Softplus(_), Softmax(_, axis=_)); return Relu(positive)"""
    graph = m.graph
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Relu')
    found = finish_relu_of_positive_1(m, (root, n1), n1, positive, root)
    if found is not None:
        return found
    n1 = m.producer(positive, 'Sigmoid')
    found = finish_relu_of_positive_1(m, (root, n1), n1, positive, root)
    if found is not None:
        return found
    n1 = m.producer(positive, 'HardSigmoid')
    if n1 is not None and len(n1.inputs) == 1:
        if not is_float(graph, positive):
            m.refuse('is_float(positive)')
        else:
            return Match((root, n1), (root.outputs[0],), (positive,), (n1,))
    n1 = m.producer(positive, 'Exp')
    found = finish_relu_of_positive_1(m, (root, n1), n1, positive, root)
    if found is not None:
        return found
    n1 = m.producer(positive, 'Abs')
    found = finish_relu_of_positive_1(m, (root, n1), n1, positive, root)
    if found is not None:
        return found
    n1 = m.producer(positive, 'Softplus')
    found = finish_relu_of_positive_1(m, (root, n1), n1, positive, root)
    if found is not None:
        return found
    n1 = m.producer(positive, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    if not is_float(graph, positive):
        m.refuse('is_float(positive)')
        return None
    return Match((root, n1), (root.outputs[0],), (positive,), (n1,))


def make_relu_of_positive(graph: Graph, res: ResultSpec, positive: Result) -> Any:
    return positive


def match_softmax(m: Matcher, root: Node) -> Match | None:
    """power = Exp(Sub(x, ReduceMax(x, axes))); return Div(power, ReduceSum(power, axes2))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    power, r1 = root.inputs
    n1 = m.producer(power, 'Exp')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    n2 = m.producer(r1, 'ReduceSum')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, (), _REDUCE_SUM):
        return None
    r2 = n1.inputs[0]
    n3 = m.producer(r2, 'Sub')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    x, r3 = n3.inputs
    n4 = m.producer(r3, 'ReduceMax')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, (), _REDUCE_MAX):
        return None
    r4, axes = n4.inputs
    if r4 != x or not axes:
        return None
    r5, axes2 = n2.inputs
    if r5 != power or not axes2:
        return None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    axis = one_axis(graph, axes, x)
    if not axis >= 0:
        m.refuse('axis >= 0')
        return None
    if not one_axis(graph, axes2, x) == axis:
        m.refuse('one_axis(axes2, x) == axis')
        return None
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x, axis))


def make_softmax(graph: Graph, res: ResultSpec, x: Result, axis: Any) -> Any:
    return graph.make_node('Softmax', [x], res.outputs, axis=axis)


def match_softplus(m: Matcher, root: Node) -> Match | None:
    """return Log(Add(Exp(x), 1))"""
    graph = m.graph
    if len(root.inputs) != 1 or root.attrs:
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Add')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    for r2, r3 in m.orders(n1):
        if not m.number(r3, 1):
            continue
        n2 = m.producer(r2, 'Exp')
        if n2 is None or len(n2.inputs) != 1 or n2.attrs:
            continue
        x = n2.inputs[0]
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        return Match((root, n1, n2), (root.outputs[0],), (x,))
    return None


def make_softplus(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Softplus', [x], res.outputs)
