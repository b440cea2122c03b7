# Generated from specs/rewrites/expand.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match, Rule
from ortable.passes.rewrite.words.shapes import broadcasts_to, expands_to, producer_of, replaced_inputs, same_shape, with_inputs

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_expand_before_arithmetic_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Add(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_2(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Mul(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_3(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Sub(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_4(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Sub(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_5(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Div(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_6(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Div(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_7(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Pow(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_8(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Pow(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_9(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Max(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_10(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Min(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_11(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = And(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_12(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Or(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def make_expand_before_arithmetic(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def match_expand_before_choice_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(expanded, _, _); return out"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    expanded, _, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_2(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(_, expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    _, expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_3(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(_, _, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    _, _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_4(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Equal(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        inputs = replaced_inputs(graph, out, expanded, x)
        if not broadcasts_to(graph, out, inputs):
            m.refuse('broadcasts_to(out, inputs)')
            continue
        node = producer_of(graph, out)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_choice_5(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Less(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_6(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Less(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_7(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = LessOrEqual(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_8(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = LessOrEqual(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_9(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Greater(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_10(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Greater(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_11(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = GreaterOrEqual(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_12(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = GreaterOrEqual(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_13(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = MatMul(expanded, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_14(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = MatMul(_, expanded); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def make_expand_before_choice(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def match_expand_expand(m: Matcher, root: Node) -> Match | None:
    """out = Expand(Expand(x, _), shape); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    r1, shape = root.inputs
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    if not expands_to(graph, x, shape, out):
        m.refuse('expands_to(x, shape, out)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, shape))


def make_expand_expand(graph: Graph, res: ResultSpec, x: Result, shape: Result) -> Any:
    return graph.make_node('Expand', [x, shape], res.outputs)


def match_expand_same(m: Matcher, root: Node) -> Match | None:
    """out = Expand(x, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    x, _ = root.inputs
    out = root.outputs[0]
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_expand_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_tile_same(m: Matcher, root: Node) -> Match | None:
    """out = Tile(x, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    x, _ = root.inputs
    out = root.outputs[0]
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_tile_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


RULES: tuple[Rule, ...] = (
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Add',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_1,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Mul',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_2,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Sub',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_3,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Sub',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_4,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Div',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_5,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Div',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_6,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Pow',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_7,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Pow',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_8,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Max',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_9,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Min',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_10,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='And',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_11,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_arithmetic',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Or',
        child='Expand',
        size=2,
        match=match_expand_before_arithmetic_12,
        make=make_expand_before_arithmetic,
        shared=(1,),
        why='an elementwise operator stretches its inputs by itself',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Where',
        child='Expand',
        size=2,
        match=match_expand_before_choice_1,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Where',
        child='Expand',
        size=2,
        match=match_expand_before_choice_2,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Where',
        child='Expand',
        size=2,
        match=match_expand_before_choice_3,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Equal',
        child='Expand',
        size=2,
        match=match_expand_before_choice_4,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Less',
        child='Expand',
        size=2,
        match=match_expand_before_choice_5,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Less',
        child='Expand',
        size=2,
        match=match_expand_before_choice_6,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='LessOrEqual',
        child='Expand',
        size=2,
        match=match_expand_before_choice_7,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='LessOrEqual',
        child='Expand',
        size=2,
        match=match_expand_before_choice_8,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Greater',
        child='Expand',
        size=2,
        match=match_expand_before_choice_9,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Greater',
        child='Expand',
        size=2,
        match=match_expand_before_choice_10,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='GreaterOrEqual',
        child='Expand',
        size=2,
        match=match_expand_before_choice_11,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='GreaterOrEqual',
        child='Expand',
        size=2,
        match=match_expand_before_choice_12,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='MatMul',
        child='Expand',
        size=2,
        match=match_expand_before_choice_13,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_before_choice',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='MatMul',
        child='Expand',
        size=2,
        match=match_expand_before_choice_14,
        make=make_expand_before_choice,
        shared=(1,),
        why='Where and comparisons stretch their inputs by themselves',
    ),
    Rule(
        name='expand_expand',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Expand',
        child='Expand',
        size=2,
        match=match_expand_expand,
        make=make_expand_expand,
        why='the second Expand stretches enough',
    ),
    Rule(
        name='expand_same',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Expand',
        child='',
        size=1,
        match=match_expand_same,
        make=make_expand_same,
        why='an Expand to the shape that a tensor has copies it',
    ),
    Rule(
        name='tile_same',
        file='specs/rewrites/expand.yaml',
        stage='simplify',
        root='Tile',
        child='',
        size=1,
        match=match_tile_same,
        make=make_tile_same,
        why='a Tile that repeats nothing copies a tensor',
    ),
)
