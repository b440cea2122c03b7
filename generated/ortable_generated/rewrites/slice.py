# Generated from specs/rewrites/slice.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.passes.rewrite.helpers.numbers import ints_of
from ortable.passes.rewrite.helpers.shapes import known_rank, one_axis, same_shape
from ortable.passes.rewrite.helpers.slices import composed_slice, has_unit_steps, make_concat, slice_of, slice_of_concat, split_sizes
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of
from ortable.prelude.values import as_vec, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_slice_of_concat(m: Matcher, root: Node) -> Match | None:
    """whole = Concat(*xs, axis=axis); return Slice(whole, starts, ends, axes, maybe(steps))"""
    graph = m.graph
    if not 4 <= len(root.inputs) <= 5 or root.attrs:
        return None
    whole, starts, ends, axes = root.inputs[:4]
    steps = root.inputs[4] or None if len(root.inputs) > 4 else None
    if not axes:
        return None
    n1 = m.producer(whole, 'Concat')
    if n1 is None or not m.plain(n1, ('axis',)):
        return None
    axis = n1.attrs.get('axis')
    xs = n1.inputs[0:]
    parts = slice_of_concat(graph, xs, axis, slice_of(graph, whole, starts, ends, axes, steps))
    if not parts is not None:
        m.refuse('parts is not None')
        return None
    return Match((root, n1), (root.outputs[0],), (axis, parts), (n1,))


def make_slice_of_concat(graph: Graph, res: ResultSpec, axis: Any, parts: Any) -> Any:
    return make_concat(graph, parts, axis)


def match_slice_slice(m: Matcher, root: Node) -> Match | None:
    """middle = Slice(x, first_starts, first_ends, first_axes, maybe(first_steps)); return Slice(middle, starts, ends, axes, maybe(steps))"""
    graph = m.graph
    if not 4 <= len(root.inputs) <= 5 or root.attrs:
        return None
    middle, starts, ends, axes = root.inputs[:4]
    steps = root.inputs[4] or None if len(root.inputs) > 4 else None
    if not axes:
        return None
    n1 = m.producer(middle, 'Slice')
    if n1 is None or not 4 <= len(n1.inputs) <= 5 or n1.attrs:
        return None
    x, first_starts, first_ends, first_axes = n1.inputs[:4]
    first_steps = n1.inputs[4] or None if len(n1.inputs) > 4 else None
    if not first_axes:
        return None
    inner = slice_of(graph, x, first_starts, first_ends, first_axes, first_steps)
    outer = slice_of(graph, middle, starts, ends, axes, steps)
    both = composed_slice(graph, x, inner, outer)
    if not both is not None:
        m.refuse('both is not None')
        return None
    return Match((root, n1), (root.outputs[0],), (both,))


def make_slice_slice(graph: Graph, res: ResultSpec, both: Any) -> Any:
    return make_concat(graph, [both], 0)


def match_slice_squeeze(m: Matcher, root: Node) -> Match | None:
    """middle = Slice(x, starts, _, axes, maybe(_)); return Squeeze(middle, gone)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, gone = root.inputs
    if not gone:
        return None
    n1 = m.producer(middle, 'Slice')
    if n1 is None or not 4 <= len(n1.inputs) <= 5 or n1.attrs:
        return None
    x, starts, _, axes = n1.inputs[:4]
    if not axes:
        return None
    axis = one_axis(graph, axes, x)
    known = ints_of(graph, starts)
    if not known is not None:
        m.refuse('known is not None')
        return None
    if not 0 <= axis == one_axis(graph, gone, middle):
        m.refuse('0 <= axis == one_axis(gone, middle)')
        return None
    size = dim_of(graph, x, axis)
    if not (size > known[0] if known[0] >= 0 else size >= -known[0]):
        m.refuse('size > known[0] if known[0] >= 0 else size >= -known[0]')
        return None
    return Match((root, n1), (root.outputs[0],), (x, axis, known))


def make_slice_squeeze(graph: Graph, res: ResultSpec, x: Result, axis: Any, known: Any) -> Any:
    return graph.make_node('Gather', [x, const(graph, known[0], int64)], res.outputs, axis=axis)


def match_slice_whole(m: Matcher, root: Node) -> Match | None:
    """out = Slice(x, _, _, maybe(_), maybe(steps)); return out"""
    graph = m.graph
    if not 3 <= len(root.inputs) <= 5 or root.attrs:
        return None
    out = root.outputs[0]
    x, _, _ = root.inputs[:3]
    steps = root.inputs[4] or None if len(root.inputs) > 4 else None
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    if not has_unit_steps(graph, steps):
        m.refuse('has_unit_steps(steps)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_slice_whole(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_slices_to_split(m: Matcher, root: Node) -> Match | None:
    """first = Slice(x, a, b, axes, maybe(c)); second = Slice(x, d, e, axes, maybe(f)); return (first, second)"""
    graph = m.graph
    if not 4 <= len(root.inputs) <= 5 or root.attrs:
        return None
    x, a, b, axes = root.inputs[:4]
    c = root.inputs[4] or None if len(root.inputs) > 4 else None
    if not axes:
        return None
    for n1 in m.readers(x, 'Slice', 0):
        if n1 is root or not 4 <= len(n1.inputs) <= 5 or n1.attrs:
            continue
        _, d, e, r1 = n1.inputs[:4]
        f = n1.inputs[4] or None if len(n1.inputs) > 4 else None
        if r1 != axes:
            continue
        sizes = split_sizes(graph, x, [slice_of(graph, x, a, b, axes, c), slice_of(graph, x, d, e, axes, f)])
        if not len(sizes) == 2:
            m.refuse('len(sizes) == 2')
            continue
        return Match((root, n1), (root.outputs[0], n1.outputs[0]), (x, axes, sizes))
    return None


def make_slices_to_split(graph: Graph, res: ResultSpec, x: Result, axes: Result, sizes: Any) -> Any:
    left, right = graph.make_node('Split', [x, as_vec(graph, sizes)], 2, axis=ints_of(graph, axes)[0])
    return (left, right)


def match_slices_to_split_of_three(m: Matcher, root: Node) -> Match | None:
    """first = Slice(x, a, b, axes, maybe(c)); second = Slice(x, d, e, axes, maybe(f)); third = Slice(x, g, h, axes, maybe(i)); return (first, second, third)"""
    graph = m.graph
    if not 4 <= len(root.inputs) <= 5 or root.attrs:
        return None
    x, a, b, axes = root.inputs[:4]
    c = root.inputs[4] or None if len(root.inputs) > 4 else None
    if not axes:
        return None
    for n1 in m.readers(x, 'Slice', 0):
        if n1 is root or not 4 <= len(n1.inputs) <= 5 or n1.attrs:
            continue
        _, d, e, r1 = n1.inputs[:4]
        f = n1.inputs[4] or None if len(n1.inputs) > 4 else None
        if r1 != axes:
            continue
        for n2 in m.readers(x, 'Slice', 0):
            if n2 is root or n2 is n1 or not 4 <= len(n2.inputs) <= 5 or n2.attrs:
                continue
            _, g, h, r2 = n2.inputs[:4]
            i = n2.inputs[4] or None if len(n2.inputs) > 4 else None
            if r2 != axes:
                continue
            one = slice_of(graph, x, a, b, axes, c)
            two = slice_of(graph, x, d, e, axes, f)
            sizes = split_sizes(graph, x, [one, two, slice_of(graph, x, g, h, axes, i)])
            if not len(sizes) == 3:
                m.refuse('len(sizes) == 3')
                continue
            return Match((root, n1, n2), (root.outputs[0], n1.outputs[0], n2.outputs[0]), (x, axes, sizes))
    return None


def make_slices_to_split_of_three(graph: Graph, res: ResultSpec, x: Result, axes: Result, sizes: Any) -> Any:
    left, middle, right = graph.make_node('Split', [x, as_vec(graph, sizes)], 3, axis=ints_of(graph, axes)[0])
    return (left, middle, right)


def match_split_one(m: Matcher, root: Node) -> Match | None:
    """return Split(x, maybe(_), attrs=_)"""
    graph = m.graph
    if not 1 <= len(root.inputs) <= 2 or len(root.outputs) != 1:
        return None
    x = root.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_split_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x
