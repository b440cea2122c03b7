# Generated from specs/rewrites/optimizers.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import are_moderate, constant_as, is_float32, is_rounded_in_float32, number_of
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import is_constant, is_wide, rank_of
from ortable.prelude.values import as_vec

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_PAD = {'mode': 'constant'}


def match_max_before_power(m: Matcher, root: Node) -> Match | None:
    """spread = Sqrt(Add(ReduceMean(Pow(x, power), axes, attrs=kept), small)); return Div(x, spread)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, spread = root.inputs
    n1 = m.producer(spread, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for r2, small in m.orders(n2):
        n3 = m.producer(r2, 'ReduceMean')
        if n3 is None or len(n3.inputs) != 2:
            continue
        kept = dict(n3.attrs)
        r3, axes = n3.inputs
        if not axes:
            continue
        n4 = m.producer(r3, 'Pow')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        r4, power = n4.inputs
        if r4 != x:
            continue
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not not (number_of(graph, power) == 2 and is_float32(graph, x)):
            m.refuse('not (number_of(power) == 2 and is_float32(x))')
            continue
        return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x, power, axes, small, kept))
    return None


def make_max_before_power(graph: Graph, res: ResultSpec, x: Result, power: Result, axes: Result, small: Result, kept: Any) -> Any:
    powers = graph.make_node('Pow', [graph.make_node('Max', [x]), power])
    return graph.make_node('Div', [x, graph.make_node('Sqrt', [graph.make_node('Add', [graph.make_node('ReduceMean', [powers, axes], **kept), small])])], res.outputs)


def finish_max_between_conv_and_factor_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'Conv')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    kept = dict(n1.attrs)
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    factor = d if c is None else c
    if not is_constant(graph, factor):
        m.refuse('is_constant(factor)')
        return None
    if not not are_moderate(graph, factor):
        m.refuse('not are_moderate(factor)')
        return None
    return Match((*nodes, n1), (root.outputs[0],), (x, w, b, c, kept, d))


def match_max_between_conv_and_factor_1(m: Matcher, root: Node) -> Match | None:
    """product = Conv(x, w, maybe(b), attrs=kept); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_max_between_conv_and_factor_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_max_between_conv_and_factor_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_max_between_conv_and_factor_1(m, (root,), product, d, None, root)


def make_max_between_conv_and_factor(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result | None, kept: Any, d: Result | None) -> Any:
    out = graph.make_node('Max', [graph.make_node('Conv', [x, w, b], **kept)])
    return graph.make_node('Mul', [out, c], res.outputs) if d is None else graph.make_node('Div', [out, d], res.outputs)


def match_max_between_pad_and_average(m: Matcher, root: Node) -> Match | None:
    """padded = Pad(x, borders, maybe(value), maybe(axes)); return AveragePool(padded, attrs=kept)"""
    graph = m.graph
    if len(root.inputs) != 1:
        return None
    kept = dict(root.attrs)
    padded = root.inputs[0]
    n1 = m.producer(padded, 'Pad')
    if n1 is None or not 2 <= len(n1.inputs) <= 4 or not m.plain(n1, (), _PAD):
        return None
    x, borders = n1.inputs[:2]
    value = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    axes = n1.inputs[3] or None if len(n1.inputs) > 3 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not (value is None or number_of(graph, value) == 0):
        m.refuse('value is None or number_of(value) == 0')
        return None
    return Match((root, n1), (root.outputs[0],), (x, borders, value, axes, kept))


def make_max_between_pad_and_average(graph: Graph, res: ResultSpec, x: Result, borders: Result, value: Result | None, axes: Result | None, kept: Any) -> Any:
    return graph.make_node('AveragePool', [graph.make_node('Max', [graph.make_node('Pad', [x, borders, value, axes])])], res.outputs, **kept)


def match_max_between_pad_and_maximum(m: Matcher, root: Node) -> Match | None:
    """padded = Pad(x, borders, maybe(value), maybe(axes)); return MaxPool(padded, attrs=kept)"""
    graph = m.graph
    if len(root.inputs) != 1:
        return None
    kept = dict(root.attrs)
    padded = root.inputs[0]
    n1 = m.producer(padded, 'Pad')
    if n1 is None or not 2 <= len(n1.inputs) <= 4 or not m.plain(n1, (), _PAD):
        return None
    x, borders = n1.inputs[:2]
    value = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    axes = n1.inputs[3] or None if len(n1.inputs) > 3 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not (value is None or number_of(graph, value) == 0):
        m.refuse('value is None or number_of(value) == 0')
        return None
    return Match((root, n1), (root.outputs[0],), (x, borders, value, axes, kept))


def make_max_between_pad_and_maximum(graph: Graph, res: ResultSpec, x: Result, borders: Result, value: Result | None, axes: Result | None, kept: Any) -> Any:
    return graph.make_node('MaxPool', [graph.make_node('Max', [graph.make_node('Pad', [x, borders, value, axes])])], res.outputs, **kept)


def match_max_between_quantizations(m: Matcher, root: Node) -> Match | None:
    """numbers = DequantizeLinear(codes, scale, zero, attrs=kept); return QuantizeLinear(numbers, step, shift, attrs=more)"""
    graph = m.graph
    if len(root.inputs) != 3:
        return None
    more = dict(root.attrs)
    numbers, step, shift = root.inputs
    if not shift:
        return None
    n1 = m.producer(numbers, 'DequantizeLinear')
    if n1 is None or len(n1.inputs) != 3:
        return None
    kept = dict(n1.attrs)
    codes, scale, zero = n1.inputs
    if not zero:
        return None
    if not is_float32(graph, scale):
        m.refuse('is_float32(scale)')
        return None
    same = number_of(graph, scale) == number_of(graph, step) and number_of(graph, zero) == number_of(graph, shift)
    if not not same:
        m.refuse('not same')
        return None
    return Match((root, n1), (root.outputs[0],), (codes, scale, zero, step, shift, kept, more))


def make_max_between_quantizations(graph: Graph, res: ResultSpec, codes: Result, scale: Result, zero: Result, step: Result, shift: Result, kept: Any, more: Any) -> Any:
    numbers = graph.make_node('DequantizeLinear', [codes, scale, zero], **kept)
    return graph.make_node('QuantizeLinear', [graph.make_node('Max', [numbers]), step, shift], res.outputs, **more)


def match_max_between_quotient_and_factor(m: Matcher, root: Node) -> Match | None:
    """return Mul(Div(one, x), z)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, z in m.orders(root):
        n1 = m.producer(r1, 'Div')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        one, x = n1.inputs
        if not number_of(graph, one) == 1:
            m.refuse('number_of(one) == 1')
            continue
        return Match((root, n1), (root.outputs[0],), (one, x, z))
    return None


def make_max_between_quotient_and_factor(graph: Graph, res: ResultSpec, one: Result, x: Result, z: Result) -> Any:
    return graph.make_node('Mul', [graph.make_node('Max', [graph.make_node('Div', [one, x])]), z], res.outputs)


def finish_sum_with_zero_1(m: Matcher, nodes: tuple[Node, ...], x: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    small = d if c is None else c
    if not abs(number_of(graph, small)) <= 2.0 ** (-150):
        m.refuse('abs(number_of(small)) <= 2.0 ** -150')
        return None
    return Match(nodes, (root.outputs[0],), (x, c, d))


def match_sum_with_zero_1(m: Matcher, root: Node) -> Match | None:
    """return any_of(Add(x, c), Sub(x, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, c in m.orders(root):
        found = finish_sum_with_zero_1(m, (root,), x, None, c, root)
        if found is not None:
            return found
    return None


def match_sum_with_zero_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, d = root.inputs
    return finish_sum_with_zero_1(m, (root,), x, d, None, root)


def make_sum_with_zero(graph: Graph, res: ResultSpec, x: Result, c: Result | None, d: Result | None) -> Any:
    return graph.make_node('Sum', [x, c], res.outputs) if d is None else graph.make_node('Sum', [x, graph.make_node('Neg', [d])], res.outputs)


def finish_wide_factor_1(m: Matcher, nodes: tuple[Node, ...], d: Any, c: Any, x: Any, scaled: Any, root: Any) -> Match | None:
    graph = m.graph
    factor = d if c is None else c
    if not is_rounded_in_float32(graph, factor, x, scaled):
        m.refuse('is_rounded_in_float32(factor, x, scaled)')
        return None
    if not rank_of(graph, factor) <= rank_of(graph, x):
        m.refuse('rank_of(factor) <= rank_of(x)')
        return None
    return Match(nodes, (root.outputs[0],), (x, d, factor))


def match_wide_factor_1(m: Matcher, root: Node) -> Match | None:
    """scaled = any_of(Mul(x, c), Div(x, d)); return scaled"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    scaled = root.outputs[0]
    for x, c in m.orders(root):
        found = finish_wide_factor_1(m, (root,), None, c, x, scaled, root)
        if found is not None:
            return found
    return None


def match_wide_factor_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    scaled = root.outputs[0]
    x, d = root.inputs
    return finish_wide_factor_1(m, (root,), d, None, x, scaled, root)


def make_wide_factor(graph: Graph, res: ResultSpec, x: Result, d: Result | None, factor: Any) -> Any:
    full = constant_as(graph, factor, [1] * (rank_of(graph, x) + 1))
    return graph.make_node('Squeeze', [graph.make_node('Mul', [x, full]) if d is None else graph.make_node('Div', [x, full]), as_vec(graph, 0)], res.outputs)
