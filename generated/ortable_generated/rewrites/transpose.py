# Generated from specs/rewrites/transpose.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.shapes import known_rank, producer_of, with_inputs
from ortable.passes.rewrite.helpers.views import apply_view, moves_unit_axes_only, perm_of, view_to
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import shape_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_RESHAPE = {'allowzero': 0}


def match_transpose_back(m: Matcher, root: Node) -> Match | None:
    """middle = Transpose(x, perm=first); return Transpose(middle, perm=second)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    first = n1.attrs.get('perm')
    x = n1.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    both = [perm_of(graph, x, first)[axis] for axis in perm_of(graph, middle, second)]
    if not both == list(range(len(both))):
        m.refuse('both == list(range(len(both)))')
        return None
    return Match((root, n1), (root.outputs[0],), (x,), (n1,))


def make_transpose_back(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def finish_transpose_of_ones_1(m: Matcher, nodes: tuple[Node, ...], r1: Any, out: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    order = n1.attrs.get('perm')
    x = n1.inputs[0]
    if not moves_unit_axes_only(graph, x, perm_of(graph, x, order)):
        m.refuse('moves_unit_axes_only(x, perm_of(x, order))')
        return None
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    return Match((*nodes, n1), (root.outputs[0],), (x, view))


def finish_transpose_of_ones_2(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    out = root.outputs[0]
    r1, _ = root.inputs
    return finish_transpose_of_ones_1(m, nodes, r1, out, root)


def match_transpose_of_ones_1(m: Matcher, root: Node) -> Match | None:
    """out = any_of(Reshape(Transpose(x, perm=order), _, allowzero=_), Squeeze(Transpose(x, perm=order), _), Unsqueeze(Transpose(x, perm=order), _)); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    return finish_transpose_of_ones_2(m, (root,), root)


def match_transpose_of_ones_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    r1, r2 = root.inputs
    if not r2:
        return None
    return finish_transpose_of_ones_1(m, (root,), r1, out, root)


def match_transpose_of_ones_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_transpose_of_ones_2(m, (root,), root)


def make_transpose_of_ones(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return apply_view(graph, x, view)


def match_transpose_same(m: Matcher, root: Node) -> Match | None:
    """return Transpose(x, perm=order)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    order = root.attrs.get('perm')
    x = root.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    both = perm_of(graph, x, order)
    if not both == list(range(len(both))):
        m.refuse('both == list(range(len(both)))')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_transpose_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_transpose_transpose(m: Matcher, root: Node) -> Match | None:
    """middle = Transpose(x, perm=first); return Transpose(middle, perm=second)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    first = n1.attrs.get('perm')
    x = n1.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    both = [perm_of(graph, x, first)[axis] for axis in perm_of(graph, middle, second)]
    return Match((root, n1), (root.outputs[0],), (x, both))


def make_transpose_transpose(graph: Graph, res: ResultSpec, x: Result, both: Any) -> Any:
    return graph.make_node('Transpose', [x], res.outputs, perm=both)


def finish_transpose_unary_transpose_1(m: Matcher, nodes: tuple[Node, ...], n1: Any, middle: Any, second: Any, root: Any) -> Match | None:
    graph = m.graph
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    both = [perm_of(graph, x, first)[axis] for axis in perm_of(graph, middle, second)]
    if not both == list(range(len(both))):
        m.refuse('both == list(range(len(both)))')
        return None
    node = producer_of(graph, middle)
    return Match((*nodes, n2), (root.outputs[0],), (x, node))


def finish_transpose_unary_transpose_2(m: Matcher, nodes: tuple[Node, ...], n1: Any, middle: Any, second: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    return finish_transpose_unary_transpose_1(m, nodes, n1, middle, second, root)


def finish_transpose_unary_transpose_3(m: Matcher, nodes: tuple[Node, ...], n1: Any, middle: Any, second: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1:
        return None
    return finish_transpose_unary_transpose_1(m, nodes, n1, middle, second, root)


def match_transpose_unary_transpose(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = any_of(Relu(transposed), Sigmoid(transposed), Tanh(transposed), Erf(transposed), Neg(transposed), Exp(transposed), Sqrt(transposed), Abs(transposed), Softplus(transposed), Gelu(transposed, attrs=kept_), LeakyRelu(transposed, attrs=kept_), Cast(transposed, attrs=kept_), HardSigmoid(transposed, attrs=kept_), HardSwish(transposed), Elu(transposed, attrs=kept_), Reciprocal(transposed)); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Relu')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Sigmoid')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Tanh')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Erf')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Neg')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Exp')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Sqrt')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Abs')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Softplus')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Gelu')
    found = finish_transpose_unary_transpose_3(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'LeakyRelu')
    found = finish_transpose_unary_transpose_3(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Cast')
    found = finish_transpose_unary_transpose_3(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'HardSigmoid')
    found = finish_transpose_unary_transpose_3(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'HardSwish')
    found = finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Elu')
    found = finish_transpose_unary_transpose_3(m, (root, n1), n1, middle, second, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Reciprocal')
    return finish_transpose_unary_transpose_2(m, (root, n1), n1, middle, second, root)


def make_transpose_unary_transpose(graph: Graph, res: ResultSpec, x: Result, node: Any) -> Any:
    return with_inputs(graph, node, [x])
