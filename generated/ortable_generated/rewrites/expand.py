# Generated from specs/rewrites/expand.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match, Rule
from ortable.passes.rewrite.words.common import same_shape
from ortable.passes.rewrite.words.sizes import broadcasts_to, inputs_with, node_again, node_of, stretches_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_expand_before_arithmetic_1(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Add(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_2(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Mul(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_3(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Sub(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_4(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Sub(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_5(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Div(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_6(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Div(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_7(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Pow(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_8(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Pow(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_9(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Max(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_10(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Min(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_11(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = And(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_12(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Or(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def make_expand_before_arithmetic(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return node_again(graph, node, inputs)


def match_expand_before_choice_1(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Where(wide, _, _); return found"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    wide, _, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_2(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Where(_, wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    _, wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_3(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Where(_, _, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 3 or not m.plain(root):
        return None
    _, _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_4(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Equal(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    for wide, _ in m.orders(root):
        n1 = m.producer(wide, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
            continue
        x, _ = n1.inputs
        found = root.outputs[0]
        inputs = inputs_with(graph, found, wide, x)
        if not broadcasts_to(graph, found, inputs):
            m.refuse('broadcasts_to(found, inputs)')
            continue
        node = node_of(graph, found)
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_choice_5(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Less(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_6(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Less(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_7(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = LessOrEqual(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_8(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = LessOrEqual(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_9(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Greater(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_10(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = Greater(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_11(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = GreaterOrEqual(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_12(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = GreaterOrEqual(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_13(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = MatMul(wide, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    wide, _ = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_14(m: Matcher, root: Node) -> Match | None:
    """wide = Expand(x, _); found = MatMul(_, wide); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    _, wide = root.inputs
    n1 = m.producer(wide, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    inputs = inputs_with(graph, found, wide, x)
    if not broadcasts_to(graph, found, inputs):
        m.refuse('broadcasts_to(found, inputs)')
        return None
    node = node_of(graph, found)
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def make_expand_before_choice(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return node_again(graph, node, inputs)


def match_expand_expand(m: Matcher, root: Node) -> Match | None:
    """found = Expand(Expand(x, _), shape); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    r1, shape = root.inputs
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
        return None
    x, _ = n1.inputs
    found = root.outputs[0]
    if not stretches_to(graph, x, shape, found):
        m.refuse('stretches_to(x, shape, found)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, shape))


def make_expand_expand(graph: Graph, res: ResultSpec, x: Result, shape: Result) -> Any:
    return graph.make_node('Expand', [x, shape], res.outputs)


def match_expand_same(m: Matcher, root: Node) -> Match | None:
    """found = Expand(x, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    x, _ = root.inputs
    found = root.outputs[0]
    if not same_shape(graph, x, found):
        m.refuse('same_shape(x, found)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_expand_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_tile_same(m: Matcher, root: Node) -> Match | None:
    """found = Tile(x, _); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root):
        return None
    x, _ = root.inputs
    found = root.outputs[0]
    if not same_shape(graph, x, found):
        m.refuse('same_shape(x, found)')
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
