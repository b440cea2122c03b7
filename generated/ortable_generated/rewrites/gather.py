# Generated from specs/rewrites/gather.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.indices import composed_indices, enumerates_elements
from ortable.passes.rewrite.helpers.numbers import constant_as, int_constant, ints_of
from ortable.passes.rewrite.helpers.shapes import known_rank, one_axis, shape_run
from ortable.passes.rewrite.helpers.views import apply_view, view_to
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import axis_of, count_of, differs, dim_of, dtype_of, is_constant, is_static, shape_of, transpose_perm
from ortable.prelude.shapes import as_flat, moved_axes
from ortable.prelude.values import permuted, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GATHER = {'axis': 0}
_GATHER_ND = {'batch_dims': 0}
_SHAPE = {'start': 0}


def match_gather_gather(m: Matcher, root: Node) -> Match | None:
    """return Gather(Gather(x, first, axis=axis), second, axis=again)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('axis',), _GATHER):
        return None
    again = root.attrs.get('axis', 0)
    r1, second = root.inputs
    n1 = m.producer(r1, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    axis = n1.attrs.get('axis', 0)
    x, first = n1.inputs
    indices = composed_indices(graph, x, axis, first, again, second)
    if not indices is not None:
        m.refuse('indices is not None')
        return None
    return Match((root, n1), (root.outputs[0],), (x, first, axis, indices))


def make_gather_gather(graph: Graph, res: ResultSpec, x: Result, first: Result, axis: Any, indices: Any) -> Any:
    return graph.make_node('Gather', [x, int_constant(graph, indices, dtype_of(graph, first))], res.outputs, axis=axis)


def match_gather_last_axis(m: Matcher, root: Node) -> Match | None:
    """found = Gather(x, index, axis=axis); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('axis',), _GATHER):
        return None
    found = root.outputs[0]
    axis = root.attrs.get('axis', 0)
    x, index = root.inputs
    rank = known_rank(graph, x)
    if not rank > 1:
        m.refuse('rank > 1')
        return None
    if not axis_of(graph, x, axis) == rank - 1:
        m.refuse('axis_of(x, axis) == rank - 1')
        return None
    if not (count_of(graph, index) > 1 or not is_static(count_of(graph, index))):
        m.refuse('count_of(index) > 1 or not is_static(count_of(index))')
        return None
    if not (differs(dim_of(graph, x, -2), 1) or not is_static(dim_of(graph, x, -2))):
        m.refuse('dim_of(x, -2) != 1 or not is_static(dim_of(x, -2))')
        return None
    if not (count_of(graph, found) >= 4096 or not is_static(count_of(graph, found))):
        m.refuse('count_of(found) >= 4096 or not is_static(count_of(found))')
        return None
    end = rank + known_rank(graph, index) - 2
    return Match((root,), (root.outputs[0],), (x, index, rank, end))


def make_gather_last_axis(graph: Graph, res: ResultSpec, x: Result, index: Result, rank: Any, end: Any) -> Any:
    rows = permuted(graph, x, transpose_perm(rank, rank - 2, rank - 1))
    columns = graph.make_node('Gather', [rows, index], axis=rank - 2)
    return graph.make_node('Transpose', [columns], res.outputs, perm=moved_axes(end + 1, [end], [rank - 2]))


def match_gather_of_shape(m: Matcher, root: Node) -> Match | None:
    """return Gather(Shape(x, start=start, end=end), indices)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, (), _GATHER):
        return None
    r1, indices = root.inputs
    n1 = m.producer(r1, 'Shape')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('start', 'end'), _SHAPE):
        return None
    start = n1.attrs.get('start', 0)
    end = n1.attrs.get('end')
    x = n1.inputs[0]
    if not known_rank(graph, indices) == 1:
        m.refuse('known_rank(indices) == 1')
        return None
    run = shape_run(graph, x, start, end, ints_of(graph, indices))
    if not len(run) == 2:
        m.refuse('len(run) == 2')
        return None
    return Match((root, n1), (root.outputs[0],), (x, run))


def make_gather_of_shape(graph: Graph, res: ResultSpec, x: Result, run: Any) -> Any:
    return graph.make_node('Shape', [x], res.outputs, start=run[0], end=run[1])


def match_gather_squeeze(m: Matcher, root: Node) -> Match | None:
    """middle = Gather(x, index, axis=axis); return Squeeze(middle, axes)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, axes = root.inputs
    if not axes:
        return None
    n1 = m.producer(middle, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    axis = n1.attrs.get('axis', 0)
    x, index = n1.inputs
    if not is_constant(graph, index):
        m.refuse('is_constant(index)')
        return None
    if not known_rank(graph, index) == 1:
        m.refuse('known_rank(index) == 1')
        return None
    if not known_rank(graph, x) > 0:
        m.refuse('known_rank(x) > 0')
        return None
    if not one_axis(graph, axes, middle) == axis_of(graph, x, axis):
        m.refuse('one_axis(axes, middle) == axis_of(x, axis)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, index, axis))


def make_gather_squeeze(graph: Graph, res: ResultSpec, x: Result, index: Result, axis: Any) -> Any:
    return graph.make_node('Gather', [x, constant_as(graph, index, [])], res.outputs, axis=axis)


def match_gather_unsqueeze(m: Matcher, root: Node) -> Match | None:
    """middle = Gather(x, index, axis=axis); out = Unsqueeze(middle, back); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    middle, back = root.inputs
    n1 = m.producer(middle, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    axis = n1.attrs.get('axis', 0)
    x, index = n1.inputs
    if not is_constant(graph, index):
        m.refuse('is_constant(index)')
        return None
    if not known_rank(graph, index) == 0:
        m.refuse('known_rank(index) == 0')
        return None
    if not known_rank(graph, x) > 0:
        m.refuse('known_rank(x) > 0')
        return None
    if not one_axis(graph, back, out) == axis_of(graph, x, axis):
        m.refuse('one_axis(back, out) == axis_of(x, axis)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, index, axis))


def make_gather_unsqueeze(graph: Graph, res: ResultSpec, x: Result, index: Result, axis: Any) -> Any:
    return graph.make_node('Gather', [x, constant_as(graph, index, [1])], res.outputs, axis=axis)


def match_gather_vector(m: Matcher, root: Node) -> Match | None:
    """found = Gather(x, index, axis=_); return found"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('axis',), _GATHER):
        return None
    found = root.outputs[0]
    x, index = root.inputs
    if not known_rank(graph, x) == 1:
        m.refuse('known_rank(x) == 1')
        return None
    if not (count_of(graph, found) >= 4096 or not is_static(count_of(graph, found))):
        m.refuse('count_of(found) >= 4096 or not is_static(count_of(found))')
        return None
    return Match((root,), (root.outputs[0],), (x, index))


def make_gather_vector(graph: Graph, res: ResultSpec, x: Result, index: Result) -> Any:
    return reshape_to(graph, graph.make_node('GatherElements', [x, as_flat(graph, index)], axis=0), shape_of(graph, index))


def match_gathernd_whole(m: Matcher, root: Node) -> Match | None:
    """out = GatherND(x, indices); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, (), _GATHER_ND):
        return None
    out = root.outputs[0]
    x, indices = root.inputs
    if not enumerates_elements(graph, x, indices):
        m.refuse('enumerates_elements(x, indices)')
        return None
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    return Match((root,), (root.outputs[0],), (x, view))


def make_gathernd_whole(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return apply_view(graph, x, view)
