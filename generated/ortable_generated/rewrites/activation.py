# Generated from specs/rewrites/activation.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.numbers import is_above_zero, is_at_least, is_close, is_float32, is_known_number, is_plus_zero, number_of
from ortable.passes.rewrite.words.shapes import one_axis
from ortable.prelude.facts import differs, dtype_of, is_float, is_wide
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
    if not is_known_number(graph, low):
        m.refuse('is_known_number(low)')
        return None
    bound = number_of(graph, low)
    if not is_at_least(graph, high, bound):
        m.refuse('is_at_least(high, bound)')
        return None
    if not (bound > 0 or is_above_zero(graph, high)):
        m.refuse('bound > 0 or is_above_zero(high)')
        return None
    if not (differs(bound, 0) or is_plus_zero(graph, low)):
        m.refuse('bound != 0 or is_plus_zero(low)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, high, bound))


def make_clip_of_relu(graph: Graph, res: ResultSpec, x: Result, high: Result | None, bound: Any) -> Any:
    return graph.make_node('Clip', [x, const(graph, max(bound, 0), dtype_of(graph, x)), high], res.outputs)


def accept_gelu_erf(m: Matcher, x: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    return ()


def match_gelu_erf_1(m: Matcher, root: Node) -> Match | None:
    """inner = Div(x, 1.4142135623730951); above = Add(Erf(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Div')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                r5, r6 = n4.inputs
                if r5 != x:
                    continue
                if not m.number(r6, 1.4142135623730951):
                    continue
                accepted = accept_gelu_erf(m, x)
                if accepted is None:
                    continue
                return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def match_gelu_erf_2(m: Matcher, root: Node) -> Match | None:
    """inner = Div(x, 1.4142135623730951); above = Add(Erf(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Div')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                r5, r6 = n4.inputs
                if r5 != x:
                    continue
                if not m.number(r6, 1.4142135623730951):
                    continue
                accepted = accept_gelu_erf(m, x)
                if accepted is None:
                    continue
                return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def match_gelu_erf_3(m: Matcher, root: Node) -> Match | None:
    """inner = Div(x, 1.4142135623730951); above = Add(Erf(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Div')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                r5, r6 = n4.inputs
                if r5 != x:
                    continue
                if not m.number(r6, 1.4142135623730951):
                    continue
                accepted = accept_gelu_erf(m, x)
                if accepted is None:
                    continue
                return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def match_gelu_erf_4(m: Matcher, root: Node) -> Match | None:
    """inner = Mul(x, 0.7071067811865476); above = Add(Erf(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Mul')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                for r5, r6 in m.orders(n4):
                    if r5 != x:
                        continue
                    if not m.number(r6, 0.7071067811865476):
                        continue
                    accepted = accept_gelu_erf(m, x)
                    if accepted is None:
                        continue
                    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def match_gelu_erf_5(m: Matcher, root: Node) -> Match | None:
    """inner = Mul(x, 0.7071067811865476); above = Add(Erf(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Mul')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                for r5, r6 in m.orders(n4):
                    if r5 != x:
                        continue
                    if not m.number(r6, 0.7071067811865476):
                        continue
                    accepted = accept_gelu_erf(m, x)
                    if accepted is None:
                        continue
                    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def match_gelu_erf_6(m: Matcher, root: Node) -> Match | None:
    """inner = Mul(x, 0.7071067811865476); above = Add(Erf(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
            for r3, r4 in m.orders(n2):
                if not m.number(r4, 1):
                    continue
                n3 = m.producer(r3, 'Erf')
                if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                    continue
                inner = n3.inputs[0]
                n4 = m.producer(inner, 'Mul')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                for r5, r6 in m.orders(n4):
                    if r5 != x:
                        continue
                    if not m.number(r6, 0.7071067811865476):
                        continue
                    accepted = accept_gelu_erf(m, x)
                    if accepted is None:
                        continue
                    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x,))
    return None


def make_gelu_erf(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs)


def accept_gelu_tanh(m: Matcher, x: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    return ()


def match_gelu_tanh_1(m: Matcher, root: Node) -> Match | None:
    """cube = Pow(x, 3); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
                            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                                continue
                            r10, r11 = n7.inputs
                            if r10 != x:
                                continue
                            if not m.number(r11, 3):
                                continue
                            accepted = accept_gelu_tanh(m, x)
                            if accepted is None:
                                continue
                            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_2(m: Matcher, root: Node) -> Match | None:
    """cube = Pow(x, 3); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                                continue
                            r10, r11 = n7.inputs
                            if r10 != x:
                                continue
                            if not m.number(r11, 3):
                                continue
                            accepted = accept_gelu_tanh(m, x)
                            if accepted is None:
                                continue
                            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_3(m: Matcher, root: Node) -> Match | None:
    """cube = Pow(x, 3); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                            if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                                continue
                            r10, r11 = n7.inputs
                            if r10 != x:
                                continue
                            if not m.number(r11, 3):
                                continue
                            accepted = accept_gelu_tanh(m, x)
                            if accepted is None:
                                continue
                            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_4(m: Matcher, root: Node) -> Match | None:
    """cube = Mul(x, Mul(x, x)); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
                                    if r12 != x:
                                        continue
                                    if r13 != x:
                                        continue
                                    accepted = accept_gelu_tanh(m, x)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_5(m: Matcher, root: Node) -> Match | None:
    """cube = Mul(x, Mul(x, x)); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                                    if r12 != x:
                                        continue
                                    if r13 != x:
                                        continue
                                    accepted = accept_gelu_tanh(m, x)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_6(m: Matcher, root: Node) -> Match | None:
    """cube = Mul(x, Mul(x, x)); inner = Mul(Add(x, Mul(cube, 0.044715)), 0.7978845608028654); above = Add(Tanh(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                                    if r12 != x:
                                        continue
                                    if r13 != x:
                                        continue
                                    accepted = accept_gelu_tanh(m, x)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def make_gelu_tanh(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs, approximate='tanh')


def accept_gelu_tanh_factored(m: Matcher, x: Any, c: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    if not is_close(number_of(graph, c), 0.7978845608028654):
        m.refuse('is_close(number_of(c), 0.7978845608028654)')
        return None
    return ()


def match_gelu_tanh_factored_1(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(x, c); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_factored_2(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(x, c); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_factored_3(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(x, c); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_factored_4(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(c, x); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(Mul(x, 0.5), above)"""
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
                    for c, r6 in m.orders(n5):
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_factored_5(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(c, x); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(Mul(x, above), 0.5)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, r2 in m.orders(root):
        if not m.number(r2, 0.5):
            continue
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, above in m.orders(n1):
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                    for c, r6 in m.orders(n5):
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def match_gelu_tanh_factored_6(m: Matcher, root: Node) -> Match | None:
    """outer = Mul(c, x); inner = Mul(outer, Add(Mul(Mul(x, 0.044715), x), 1)); above = Add(Tanh(inner), 1); return Mul(x, Mul(above, 0.5))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for above, r2 in m.orders(n1):
            if not m.number(r2, 0.5):
                continue
            n2 = m.producer(above, 'Add')
            if n2 is None or len(n2.inputs) != 2 or n2.attrs:
                continue
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
                    for c, r6 in m.orders(n5):
                        if r6 != x:
                            continue
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
                                    if r11 != x:
                                        continue
                                    if not m.number(r12, 0.044715):
                                        continue
                                    accepted = accept_gelu_tanh_factored(m, x, c)
                                    if accepted is None:
                                        continue
                                    return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (x,))
    return None


def make_gelu_tanh_factored(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return graph.make_node('Gelu', [x], res.outputs, approximate='tanh')


def accept_hard_sigmoid(m: Matcher, x: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    return ()


def match_hard_sigmoid_1(m: Matcher, root: Node) -> Match | None:
    """shifted = Add(x, 3); cut = Clip(shifted, 0, 6); return Div(cut, 6)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    cut, r1 = root.inputs
    if not m.number(r1, 6):
        return None
    n1 = m.producer(cut, 'Clip')
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    shifted, r2, r3 = n1.inputs
    if not m.number(r2, 0):
        return None
    if not m.number(r3, 6):
        return None
    n2 = m.producer(shifted, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for x, r4 in m.orders(n2):
        if not m.number(r4, 3):
            continue
        accepted = accept_hard_sigmoid(m, x)
        if accepted is None:
            continue
        return Match((root, n1, n2), (root.outputs[0],), (x,))
    return None


def match_hard_sigmoid_2(m: Matcher, root: Node) -> Match | None:
    """shifted = Add(x, 3); cut = Clip(shifted, 0, 6); return Mul(cut, 0.16666666666666666)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for cut, r1 in m.orders(root):
        if not m.number(r1, 0.16666666666666666):
            continue
        n1 = m.producer(cut, 'Clip')
        if n1 is None or len(n1.inputs) != 3 or n1.attrs:
            continue
        shifted, r2, r3 = n1.inputs
        if not m.number(r2, 0):
            continue
        if not m.number(r3, 6):
            continue
        n2 = m.producer(shifted, 'Add')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for x, r4 in m.orders(n2):
            if not m.number(r4, 3):
                continue
            accepted = accept_hard_sigmoid(m, x)
            if accepted is None:
                continue
            return Match((root, n1, n2), (root.outputs[0],), (x,))
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
    r3 = n2.inputs[0]
    n4 = m.producer(r3, 'ReduceSum')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, (), _REDUCE_SUM):
        return None
    r4, axes = n3.inputs
    if r4 != x:
        return None
    if not axes:
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


def accept_relu_of_clip(m: Matcher, low: Any, high: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not number_of(graph, low) >= 0:
        m.refuse('number_of(low) >= 0')
        return None
    if not is_at_least(graph, high, 0):
        m.refuse('is_at_least(high, 0)')
        return None
    return ()


def match_relu_of_clip_1(m: Matcher, root: Node) -> Match | None:
    """cut = Clip(_, low); return Relu(cut)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    cut = root.inputs[0]
    n1 = m.producer(cut, 'Clip')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    _, low = n1.inputs
    if not low:
        return None
    high = None
    accepted = accept_relu_of_clip(m, low, high)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (cut,))


def match_relu_of_clip_2(m: Matcher, root: Node) -> Match | None:
    """cut = Clip(_, low, high); return Relu(cut)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    cut = root.inputs[0]
    n1 = m.producer(cut, 'Clip')
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    _, low, high = n1.inputs
    if not low:
        return None
    if not high:
        return None
    accepted = accept_relu_of_clip(m, low, high)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (cut,))


def make_relu_of_clip(graph: Graph, res: ResultSpec, cut: Result) -> Any:
    return cut


def accept_relu_of_positive(m: Matcher, positive: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not is_float(graph, positive):
        m.refuse('is_float(positive)')
        return None
    return ()


def match_relu_of_positive_1(m: Matcher, root: Node) -> Match | None:
    """positive = Relu(_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Relu')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_2(m: Matcher, root: Node) -> Match | None:
    """positive = Sigmoid(_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Sigmoid')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_3(m: Matcher, root: Node) -> Match | None:
    """positive = HardSigmoid(_, attrs=_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'HardSigmoid')
    if n1 is None or len(n1.inputs) != 1:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_4(m: Matcher, root: Node) -> Match | None:
    """positive = Exp(_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Exp')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_5(m: Matcher, root: Node) -> Match | None:
    """positive = Abs(_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Abs')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_6(m: Matcher, root: Node) -> Match | None:
    """positive = Softplus(_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Softplus')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


def match_relu_of_positive_7(m: Matcher, root: Node) -> Match | None:
    """positive = Softmax(_, axis=_); return Relu(positive)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    positive = root.inputs[0]
    n1 = m.producer(positive, 'Softmax')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _SOFTMAX):
        return None
    accepted = accept_relu_of_positive(m, positive)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (positive,))


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
    r3, axes2 = n2.inputs
    if r3 != power:
        return None
    if not axes2:
        return None
    x, r4 = n3.inputs
    n4 = m.producer(r4, 'ReduceMax')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, (), _REDUCE_MAX):
        return None
    r5, axes = n4.inputs
    if r5 != x:
        return None
    if not axes:
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
