# Generated from specs/rewrites/expand.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.shapes import broadcasts_to, expands_to, known_rank, producer_of, replaced_inputs, same_shape, with_inputs
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import count_of, dim_of, is_static

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def finish_expand_before_arithmetic_1(m: Matcher, nodes: tuple[Node, ...], expanded: Any, out: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((*nodes, n1), (root.outputs[0],), (inputs, node), (n1,))


def match_expand_before_arithmetic_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = any_of(Add(expanded, _), Mul(expanded, _), Sub(expanded, _), Sub(_, expanded), Div(expanded, _), Div(_, expanded), Pow(expanded, _), Pow(_, expanded), Max(expanded, _), Min(expanded, _), And(expanded, _), Or(expanded, _)); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_arithmetic_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_arithmetic_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)


def match_expand_before_arithmetic_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)


def match_expand_before_arithmetic_5(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)


def match_expand_before_arithmetic_6(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_arithmetic_7(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_arithmetic_8(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_arithmetic_9(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_arithmetic_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def make_expand_before_arithmetic(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def finish_expand_before_choice_1(m: Matcher, nodes: tuple[Node, ...], expanded: Any, out: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(expanded, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    inputs = replaced_inputs(graph, out, expanded, x)
    if not broadcasts_to(graph, out, inputs):
        m.refuse('broadcasts_to(out, inputs)')
        return None
    node = producer_of(graph, out)
    return Match((*nodes, n1), (root.outputs[0],), (inputs, node), (n1,))


def match_expand_before_choice_1(m: Matcher, root: Node) -> Match | None:
    """expanded = Expand(x, _); out = any_of(Where(expanded, _, _), Where(_, expanded, _), Where(_, _, expanded), Equal(expanded, _), Less(expanded, _), Less(_, expanded), LessOrEqual(expanded, _), LessOrEqual(_, expanded), Greater(expanded, _), Greater(_, expanded), GreaterOrEqual(expanded, _), GreaterOrEqual(_, expanded), MatMul(expanded, _), MatMul(_, expanded)); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def match_expand_before_choice_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for expanded, _ in m.orders(root):
        found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
        if found is not None:
            return found
    return None


def match_expand_before_choice_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def match_expand_before_choice_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def match_expand_before_choice_5(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def match_expand_before_choice_6(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def match_expand_before_choice_7(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    expanded, _ = root.inputs
    found = finish_expand_before_choice_1(m, (root,), expanded, out, root)
    if found is not None:
        return found
    _, expanded = root.inputs
    return finish_expand_before_choice_1(m, (root,), expanded, out, root)


def make_expand_before_choice(graph: Graph, res: ResultSpec, inputs: Any, node: Any) -> Any:
    return with_inputs(graph, node, inputs)


def match_expand_expand(m: Matcher, root: Node) -> Match | None:
    """out = Expand(Expand(x, _), shape); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    r1, shape = root.inputs
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
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
    out = root.outputs[0]
    x, shape = root.inputs
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
    out = root.outputs[0]
    x, _ = root.inputs
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
    out = root.outputs[0]
    x, _ = root.inputs
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_tile_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x
