# Generated from specs/rewrites/dims.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.numbers import dtype_or_zero, int_array_or_none, int_constant
from ortable.passes.rewrite.words.shapes import is_known, joined_run, run_of
from ortable.prelude.facts import is_constant

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


def accept_known_sizes(m: Matcher, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    value = int_array_or_none(graph, out)
    if not is_known(value):
        m.refuse('is_known(value)')
        return None
    if not not is_constant(graph, out):
        m.refuse('not is_constant(out)')
        return None
    dtype = dtype_or_zero(graph, out)
    return (value, dtype)


def match_known_sizes_1(m: Matcher, root: Node) -> Match | None:
    """out = Shape(_, attrs=kept_); return out"""
    if len(root.inputs) != 1:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_2(m: Matcher, root: Node) -> Match | None:
    """out = Size(_); return out"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_3(m: Matcher, root: Node) -> Match | None:
    """out = Gather(_, _, attrs=kept_); return out"""
    if len(root.inputs) != 2:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_4(m: Matcher, root: Node) -> Match | None:
    """out = Concat(_, *_, attrs=kept_); return out"""
    if len(root.inputs) < 1:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_5(m: Matcher, root: Node) -> Match | None:
    """out = Slice(_, _, _, maybe(_), maybe(_)); return out"""
    if not 3 <= len(root.inputs) <= 5 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_6(m: Matcher, root: Node) -> Match | None:
    """out = Squeeze(_, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_7(m: Matcher, root: Node) -> Match | None:
    """out = Unsqueeze(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_8(m: Matcher, root: Node) -> Match | None:
    """out = Reshape(_, _, attrs=kept_); return out"""
    if len(root.inputs) != 2:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_9(m: Matcher, root: Node) -> Match | None:
    """out = Expand(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_10(m: Matcher, root: Node) -> Match | None:
    """out = Cast(_, attrs=kept_); return out"""
    if len(root.inputs) != 1:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_11(m: Matcher, root: Node) -> Match | None:
    """out = Range(_, _, _); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_12(m: Matcher, root: Node) -> Match | None:
    """out = ReduceProd(_, maybe(_), attrs=kept_); return out"""
    if not 1 <= len(root.inputs) <= 2:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_13(m: Matcher, root: Node) -> Match | None:
    """out = ConstantOfShape(_, attrs=kept_); return out"""
    if len(root.inputs) != 1:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def make_known_sizes(graph: Graph, res: ResultSpec, value: Any, dtype: Any) -> Any:
    return int_constant(graph, value, dtype)


def accept_known_sizes_computed(m: Matcher, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    value = int_array_or_none(graph, out)
    if not is_known(value):
        m.refuse('is_known(value)')
        return None
    if not not is_constant(graph, out):
        m.refuse('not is_constant(out)')
        return None
    dtype = dtype_or_zero(graph, out)
    return (value, dtype)


def match_known_sizes_computed_1(m: Matcher, root: Node) -> Match | None:
    """out = Add(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_2(m: Matcher, root: Node) -> Match | None:
    """out = Sub(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_3(m: Matcher, root: Node) -> Match | None:
    """out = Mul(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_4(m: Matcher, root: Node) -> Match | None:
    """out = Div(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_5(m: Matcher, root: Node) -> Match | None:
    """out = Mod(_, _, attrs=kept_); return out"""
    if len(root.inputs) != 2:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_6(m: Matcher, root: Node) -> Match | None:
    """out = Max(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_7(m: Matcher, root: Node) -> Match | None:
    """out = Min(_, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_8(m: Matcher, root: Node) -> Match | None:
    """out = Neg(_); return out"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_9(m: Matcher, root: Node) -> Match | None:
    """out = Abs(_); return out"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def match_known_sizes_computed_10(m: Matcher, root: Node) -> Match | None:
    """out = Where(_, _, _); return out"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    out = root.outputs[0]
    accepted = accept_known_sizes_computed(m, out)
    if accepted is None:
        return None
    value, dtype = accepted
    return Match((root,), (root.outputs[0],), (value, dtype))


def make_known_sizes_computed(graph: Graph, res: ResultSpec, value: Any, dtype: Any) -> Any:
    return int_constant(graph, value, dtype)


def accept_shape_of_shape(m: Matcher, x: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    run = run_of(graph, x, out)
    if not len(run) == 2:
        m.refuse('len(run) == 2')
        return None
    return (run,)


def match_shape_of_shape_1(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Transpose(x, perm=_), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_2(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Reshape(x, _, attrs=kept_), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Reshape')
    if n1 is None or len(n1.inputs) != 2:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_3(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Cast(x, attrs=kept_), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Cast')
    if n1 is None or len(n1.inputs) != 1:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_4(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Unsqueeze(x, _), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_5(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Relu(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Relu')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_6(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Sigmoid(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Sigmoid')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_7(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Tanh(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Tanh')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_8(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Erf(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Erf')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_9(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Neg(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Neg')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_10(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Exp(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Exp')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_11(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Sqrt(x), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_12(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Softmax(x, attrs=kept_), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Softmax')
    if n1 is None or len(n1.inputs) != 1:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_13(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Squeeze(x, maybe(_)), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_14(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Expand(x, _), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_15(m: Matcher, root: Node) -> Match | None:
    """out = Shape(Slice(x, _, _, maybe(_), maybe(_)), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Slice')
    if n1 is None or not 3 <= len(n1.inputs) <= 5 or n1.attrs:
        return None
    x, _, _ = n1.inputs[:3]
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def match_shape_of_shape_16(m: Matcher, root: Node) -> Match | None:
    """out = Shape(LayerNormalization(x, _, _, attrs=kept_), start=_, end=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('start', 'end'), _SHAPE):
        return None
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'LayerNormalization')
    if n1 is None or len(n1.inputs) != 3:
        return None
    if n1.outputs[0] != r1:
        return None
    x, _, r2 = n1.inputs
    if not r2:
        return None
    out = root.outputs[0]
    accepted = accept_shape_of_shape(m, x, out)
    if accepted is None:
        return None
    run, = accepted
    return Match((root, n1), (root.outputs[0],), (x, run))


def make_shape_of_shape(graph: Graph, res: ResultSpec, x: Result, run: Any) -> Any:
    return graph.make_node('Shape', [x], res.outputs, start=run[0], end=run[1])
