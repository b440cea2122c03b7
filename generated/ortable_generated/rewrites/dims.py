# Generated from specs/rewrites/dims.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import int_array_or_none, int_constant
from ortable.passes.rewrite.helpers.shapes import joined_run, run_of
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of, is_constant

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_SHAPE = {'start': 0}


def match_concat_of_shapes(m: Matcher, root: Node) -> Match | None:
    """out = Concat(*xs, axis=_); return out"""
    graph = m.graph
    if not m.plain(root, ('axis',)):
        return None
    xs = root.inputs[0:]
    run = joined_run(graph, xs)
    if not len(run) == 3:
        m.refuse('len(run) == 3')
        return None
    return Match((root,), (root.outputs[0],), (run,))


def make_concat_of_shapes(graph: Graph, res: ResultSpec, run: Any) -> Any:
    return graph.make_node('Shape', [run[0]], res.outputs, start=run[1], end=run[2])


def finish_known_sizes_1(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    graph = m.graph
    out = root.outputs[0]
    value = int_array_or_none(graph, out)
    if not value is not None:
        m.refuse('value is not None')
        return None
    if not not is_constant(graph, out):
        m.refuse('not is_constant(out)')
        return None
    return Match(nodes, (root.outputs[0],), (value,))


def match_known_sizes_1(m: Matcher, root: Node) -> Match | None:
    """out = any_of(Shape(_, attrs=kept_), Size(_), Gather(_, _, attrs=kept_), Concat(_, *_, attrs=kept_), Slice(_, _, _, maybe(_), maybe(_)), Squeeze(_, maybe(_)), Unsqueeze(_, _), Reshape(_, _, attrs=kept_), Expand(_, _), Cast(_, attrs=kept_), Range(_, _, _), ReduceProd(_, maybe(_), attrs=kept_), ConstantOfShape(_, attrs=kept_)); return out"""
    if len(root.inputs) != 1:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) < 1:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_5(m: Matcher, root: Node) -> Match | None:
    if not 3 <= len(root.inputs) <= 5 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_6(m: Matcher, root: Node) -> Match | None:
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_7(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_8(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_9(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_10(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_11(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 3 or root.attrs:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_12(m: Matcher, root: Node) -> Match | None:
    if not 1 <= len(root.inputs) <= 2:
        return None
    return finish_known_sizes_1(m, (root,), root)


def match_known_sizes_13(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1:
        return None
    return finish_known_sizes_1(m, (root,), root)


def make_known_sizes(graph: Graph, res: ResultSpec, value: Any) -> Any:
    return int_constant(graph, value, dtype_of(graph, res))


def finish_known_sizes_computed_1(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    graph = m.graph
    out = root.outputs[0]
    value = int_array_or_none(graph, out)
    if not value is not None:
        m.refuse('value is not None')
        return None
    if not not is_constant(graph, out):
        m.refuse('not is_constant(out)')
        return None
    return Match(nodes, (root.outputs[0],), (value,))


def match_known_sizes_computed_1(m: Matcher, root: Node) -> Match | None:
    """out = any_of(Add(_, _), Sub(_, _), Mul(_, _), Div(_, _), Mod(_, _, attrs=kept_), Max(_, _), Min(_, _), Neg(_), Abs(_), Where(_, _, _)); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_5(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_6(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_7(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_8(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_9(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def match_known_sizes_computed_10(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 3 or root.attrs:
        return None
    return finish_known_sizes_computed_1(m, (root,), root)


def make_known_sizes_computed(graph: Graph, res: ResultSpec, value: Any) -> Any:
    return int_constant(graph, value, dtype_of(graph, res))


def finish_shape_of_shape_1(m: Matcher, nodes: tuple[Node, ...], x: Any, out: Any, root: Any) -> Match | None:
    graph = m.graph
    run = run_of(graph, x, out)
    if not len(run) == 2:
        m.refuse('len(run) == 2')
        return None
    return Match(nodes, (root.outputs[0],), (x, run))


def finish_shape_of_shape_2(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    x = n1.inputs[0]
    return finish_shape_of_shape_1(m, nodes, x, out, root)


def finish_shape_of_shape_3(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    x, _ = n1.inputs
    return finish_shape_of_shape_1(m, nodes, x, out, root)


def finish_shape_of_shape_4(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1:
        return None
    return finish_shape_of_shape_2(m, nodes, n1, out, root)


def finish_shape_of_shape_5(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    return finish_shape_of_shape_3(m, nodes, n1, out, root)


def finish_shape_of_shape_6(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    return finish_shape_of_shape_2(m, nodes, n1, out, root)


def match_shape_of_shape(m: Matcher, root: Node) -> Match | None:
    """out = Shape(any_of(Transpose(x, perm=_), Reshape(x, _, attrs=kept_), Cast(x, attrs=kept_), Unsqueeze(x, _), Relu(x), Sigmoid(x), Tanh(x), Erf(x), Neg(x), Exp(x), Sqrt(x), Softmax(x, attrs=kept_), Squeeze(x, maybe(_)), Expand(x, _), Slice(x, _, _, maybe(_), maybe(_)), LayerNormalization(x, _, _, attrs=kept_)), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    out = root.outputs[0]
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Transpose')
    if n1 is not None and len(n1.inputs) == 1 and m.plain(n1, ('perm',)):
        found = finish_shape_of_shape_2(m, (root, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(r1, 'Reshape')
    if n1 is not None and len(n1.inputs) == 2:
        found = finish_shape_of_shape_3(m, (root, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(r1, 'Cast')
    found = finish_shape_of_shape_4(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Unsqueeze')
    found = finish_shape_of_shape_5(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Relu')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Sigmoid')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Tanh')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Erf')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Neg')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Exp')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Sqrt')
    found = finish_shape_of_shape_6(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Softmax')
    found = finish_shape_of_shape_4(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Squeeze')
    if n1 is not None and 1 <= len(n1.inputs) <= 2 and (not n1.attrs):
        found = finish_shape_of_shape_2(m, (root, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(r1, 'Expand')
    found = finish_shape_of_shape_5(m, (root, n1), n1, out, root)
    if found is not None:
        return found
    n1 = m.producer(r1, 'Slice')
    if n1 is not None and 3 <= len(n1.inputs) <= 5 and (not n1.attrs):
        x, _, _ = n1.inputs[:3]
        found = finish_shape_of_shape_1(m, (root, n1), x, out, root)
        if found is not None:
            return found
    n1 = m.producer(r1, 'LayerNormalization')
    if n1 is None or len(n1.inputs) != 3 or n1.outputs[0] != r1:
        return None
    x, _, r2 = n1.inputs
    if not r2:
        return None
    return finish_shape_of_shape_1(m, (root, n1), x, out, root)


def make_shape_of_shape(graph: Graph, res: ResultSpec, x: Result, run: Any) -> Any:
    return graph.make_node('Shape', [x], res.outputs, start=run[0], end=run[1])
