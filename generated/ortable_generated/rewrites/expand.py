# Generated from specs/rewrites/expand.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.shapes import broadcasts_to, expands_to, known_rank, producer_of, replaced_inputs, same_shape, with_inputs
from ortable.prelude.facts import count_of, dim_of, is_static

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def accept_expand_before_arithmetic(m: Matcher, x: Any, expanded: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return (inputs, node)


def match_expand_before_arithmetic_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Add(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_2(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Mul(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_3(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Sub(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_4(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Sub(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_5(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Div(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_6(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Div(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_7(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Pow(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_8(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Pow(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_arithmetic(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_arithmetic_9(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Max(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_10(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Min(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_11(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = And(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_arithmetic_12(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Or(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_arithmetic(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def make_expand_before_arithmetic(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def accept_expand_before_choice(m: Matcher, x: Any, expanded: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return (inputs, node)


def match_expand_before_choice_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(expanded, _, _); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    expanded, _, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_2(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(_, expanded, _); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    _, expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_3(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Where(_, _, expanded); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    _, _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_4(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Equal(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for expanded, _ in m.orders(root):
        n1 = m.producer(expanded, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, _ = n1.inputs
        out = root.outputs[0]
        accepted = accept_expand_before_choice(m, x, expanded, out)
        if accepted is None:
            continue
        inputs, node = accepted
        return Match((root, n1), (root.outputs[0],), (inputs, node))
    return None


def match_expand_before_choice_5(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Less(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_6(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Less(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_7(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = LessOrEqual(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_8(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = LessOrEqual(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_9(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Greater(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_10(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = Greater(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_11(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = GreaterOrEqual(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_12(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = GreaterOrEqual(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_13(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = MatMul(expanded, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    expanded, _ = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def match_expand_before_choice_14(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = MatMul(_, expanded); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    _, expanded = root.inputs
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_expand_before_choice(m, x, expanded, out)
    if accepted is None:
        return None
    inputs, node = accepted
    return Match((root, n1), (root.outputs[0],), (inputs, node))


def make_expand_before_choice(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def match_expand_expand(m: Matcher, root: Node) -> Match | None:
    """out = Expand(Expand(x, _), shape); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, shape = root.inputs
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    if not expands_to(graph, x, shape, out):
        m.refuse('expands_to(x, shape, out)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, shape))


def make_expand_expand(graph: Graph, res: ResultSpec, x: Result, shape: Result) -> Any:
    return graph.make_node('Expand', [x, shape], res.outputs)


def match_expand_last_axis(m: Matcher, root: Node) -> Match | None:
    """out = Expand(x, shape); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, shape = root.inputs
    out = root.outputs[0]
    if not known_rank(graph, x) > 0:
        m.refuse('known_rank(x) > 0')
        return None
    if not dim_of(graph, x, -1) == 1:
        m.refuse('dim_of(x, -1) == 1')
        return None
    count = dim_of(graph, out, -1)
    if not is_static(count):
        m.refuse('is_static(count)')
        return None
    if not 1 < count:
        m.refuse('1 < count')
        return None
    if not count <= 8:
        m.refuse('count <= 8')
        return None
    if not (count_of(graph, x) >= 1024 or not is_static(count_of(graph, x))):
        m.refuse('count_of(x) >= 1024 or not is_static(count_of(x))')
        return None
    whole = known_rank(graph, x) == known_rank(graph, out) and count_of(graph, out) == count_of(graph, x) * count
    return Match((root,), (root.outputs[0],), (x, shape, count, whole))


def make_expand_last_axis(graph: Graph, res: ResultSpec, x: Result, shape: Result, count: Any, whole: Any) -> Any:
    rows = graph.make_node('Concat', [*[x] * count], axis=-1)
    return rows if whole else graph.make_node('Expand', [rows, shape], res.outputs)


def match_expand_same(m: Matcher, root: Node) -> Match | None:
    """out = Expand(x, _); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
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
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, _ = root.inputs
    out = root.outputs[0]
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_tile_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x
