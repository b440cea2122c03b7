# Generated from specs/rewrites/transpose.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.shapes import is_known, known_rank, producer_of, with_inputs
from ortable.passes.rewrite.words.views import composed_perm, is_identity_perm, moves_unit_axes_only, perm_of, view_between, viewed

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
    both = composed_perm(perm_of(graph, x, first), perm_of(graph, middle, second))
    if not is_identity_perm(both):
        m.refuse('is_identity_perm(both)')
        return None
    return Match((root, n1), (root.outputs[0],), (x,))


def make_transpose_back(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def accept_transpose_of_ones(m: Matcher, x: Any, out: Any, order: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not moves_unit_axes_only(graph, x, perm_of(graph, x, order)):
        m.refuse('moves_unit_axes_only(x, perm_of(x, order))')
        return None
    view = view_between(graph, x, out)
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    return (view,)


def match_transpose_of_ones_1(m: Matcher, root: Node) -> Match | None:
    """out = Reshape(Transpose(x, perm=order), _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    order = n1.attrs.get('perm')
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_transpose_of_ones(m, x, out, order)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_transpose_of_ones_2(m: Matcher, root: Node) -> Match | None:
    """out = Squeeze(Transpose(x, perm=order), _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, r2 = root.inputs
    if not r2:
        return None
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    order = n1.attrs.get('perm')
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_transpose_of_ones(m, x, out, order)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_transpose_of_ones_3(m: Matcher, root: Node) -> Match | None:
    """out = Unsqueeze(Transpose(x, perm=order), _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, _ = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    order = n1.attrs.get('perm')
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_transpose_of_ones(m, x, out, order)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def make_transpose_of_ones(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return viewed(graph, x, view)


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
    if not is_identity_perm(perm_of(graph, x, order)):
        m.refuse('is_identity_perm(perm_of(x, order))')
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
    both = composed_perm(perm_of(graph, x, first), perm_of(graph, middle, second))
    return Match((root, n1), (root.outputs[0],), (x, both))


def make_transpose_transpose(graph: Graph, res: ResultSpec, x: Result, both: Any) -> Any:
    return graph.make_node('Transpose', [x], res.outputs, perm=both)


def accept_transpose_unary_transpose(m: Matcher, x: Any, middle: Any, first: Any, second: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not known_rank(graph, x) >= 0:
        m.refuse('known_rank(x) >= 0')
        return None
    both = composed_perm(perm_of(graph, x, first), perm_of(graph, middle, second))
    if not is_identity_perm(both):
        m.refuse('is_identity_perm(both)')
        return None
    node = producer_of(graph, middle)
    return (node,)


def match_transpose_unary_transpose_1(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Relu(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Relu')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_2(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Sigmoid(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Sigmoid')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_3(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Tanh(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Tanh')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_4(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Erf(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Erf')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_5(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Neg(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Neg')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_6(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Exp(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Exp')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_7(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Sqrt(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_8(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Abs(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Abs')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_9(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Softplus(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Softplus')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_10(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Gelu(transposed, attrs=kept_); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Gelu')
    if n1 is None or len(n1.inputs) != 1:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_11(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = LeakyRelu(transposed, attrs=kept_); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'LeakyRelu')
    if n1 is None or len(n1.inputs) != 1:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_12(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Cast(transposed, attrs=kept_); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Cast')
    if n1 is None or len(n1.inputs) != 1:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_13(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = HardSigmoid(transposed, attrs=kept_); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'HardSigmoid')
    if n1 is None or len(n1.inputs) != 1:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_14(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = HardSwish(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'HardSwish')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_15(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Elu(transposed, attrs=kept_); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Elu')
    if n1 is None or len(n1.inputs) != 1:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def match_transpose_unary_transpose_16(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(x, perm=first); middle = Reciprocal(transposed); return Transpose(middle, perm=second)"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    second = root.attrs.get('perm')
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Reciprocal')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    transposed = n1.inputs[0]
    n2 = m.producer(transposed, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    first = n2.attrs.get('perm')
    x = n2.inputs[0]
    accepted = accept_transpose_unary_transpose(m, x, middle, first, second)
    if accepted is None:
        return None
    node, = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, node))


def make_transpose_unary_transpose(graph: Graph, res: ResultSpec, x: Result, node: Any) -> Any:
    return with_inputs(graph, node, [x])
