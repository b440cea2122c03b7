# Generated from specs/rewrites/reshape.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.shapes import is_known, known_rank, producer_of, same_dim, same_shape, with_inputs
from ortable.passes.rewrite.words.views import may_copy_dims, view_between, view_to, viewed
from ortable.prelude.facts import dim_of, is_constant, shape_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_FLATTEN = {'axis': 1}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}
_RESHAPE = {'allowzero': 0}


def match_reshape_constant_target(m: Matcher, root: Node) -> Match | None:
    """out = Reshape(x, target, allowzero=_); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    x, target = root.inputs
    out = root.outputs[0]
    if not not is_constant(graph, target):
        m.refuse('not is_constant(target)')
        return None
    view = view_between(graph, x, out)
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    return Match((root,), (root.outputs[0],), (x, view))


def make_reshape_constant_target(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return viewed(graph, x, view)


def match_reshape_gemm_reshape(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(Reshape(x, _, allowzero=_), w, bias); out = Reshape(product, _, allowzero=_); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    product, _ = root.inputs
    n1 = m.producer(product, 'Gemm')
    if n1 is None or len(n1.inputs) != 3 or not m.plain(n1, (), _GEMM):
        return None
    r1, w, bias = n1.inputs
    if not bias:
        return None
    n2 = m.producer(r1, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    if not known_rank(graph, out) > 2:
        m.refuse('known_rank(out) > 2')
        return None
    if not same_dim(dim_of(graph, out, -1), dim_of(graph, w, 1)):
        m.refuse('same_dim(dim_of(out, -1), dim_of(w, 1))')
        return None
    if not dim_of(graph, w, 1) > 0:
        m.refuse('dim_of(w, 1) > 0')
        return None
    view = view_to(graph, x, [*shape_of(graph, out)[:-1], dim_of(graph, w, 0)])
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    if not known_rank(graph, bias) == 1:
        m.refuse('known_rank(bias) == 1')
        return None
    return Match((root, n1, n2), (root.outputs[0],), (x, w, bias, view))


def make_reshape_gemm_reshape(graph: Graph, res: ResultSpec, x: Result, w: Result, bias: Result, view: Any) -> Any:
    return graph.make_node('Add', [graph.make_node('MatMul', [viewed(graph, x, view), w]), bias], res.outputs)


def accept_reshape_given_target(m: Matcher, target: Any, zero: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not not may_copy_dims(graph, target, zero):
        m.refuse('not may_copy_dims(target, zero)')
        return None
    return ()


def match_reshape_given_target_1(m: Matcher, root: Node) -> Match | None:
    """middle = Reshape(x, _, allowzero=_); return Reshape(middle, target, allowzero=zero)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    zero = root.attrs.get('allowzero', 0)
    middle, target = root.inputs
    n1 = m.producer(middle, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    accepted = accept_reshape_given_target(m, target, zero)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (x, target, zero))


def match_reshape_given_target_2(m: Matcher, root: Node) -> Match | None:
    """middle = Unsqueeze(x, _); return Reshape(middle, target, allowzero=zero)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    zero = root.attrs.get('allowzero', 0)
    middle, target = root.inputs
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    accepted = accept_reshape_given_target(m, target, zero)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (x, target, zero))


def match_reshape_given_target_3(m: Matcher, root: Node) -> Match | None:
    """middle = Squeeze(x, maybe(_)); return Reshape(middle, target, allowzero=zero)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    zero = root.attrs.get('allowzero', 0)
    middle, target = root.inputs
    n1 = m.producer(middle, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    accepted = accept_reshape_given_target(m, target, zero)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (x, target, zero))


def match_reshape_given_target_4(m: Matcher, root: Node) -> Match | None:
    """middle = Flatten(x, axis=_); return Reshape(middle, target, allowzero=zero)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    zero = root.attrs.get('allowzero', 0)
    middle, target = root.inputs
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    x = n1.inputs[0]
    accepted = accept_reshape_given_target(m, target, zero)
    if accepted is None:
        return None
    return Match((root, n1), (root.outputs[0],), (x, target, zero))


def make_reshape_given_target(graph: Graph, res: ResultSpec, x: Result, target: Result, zero: Any) -> Any:
    return graph.make_node('Reshape', [x, target], res.outputs, allowzero=zero)


def accept_view_again(m: Matcher, x: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    view = view_between(graph, x, out)
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    return (view,)


def match_view_again_1(m: Matcher, root: Node) -> Match | None:
    """middle = Reshape(x, _, allowzero=_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_2(m: Matcher, root: Node) -> Match | None:
    """middle = Reshape(x, _, allowzero=_); out = Unsqueeze(middle, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_3(m: Matcher, root: Node) -> Match | None:
    """middle = Reshape(x, _, allowzero=_); out = Squeeze(middle, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_4(m: Matcher, root: Node) -> Match | None:
    """middle = Reshape(x, _, allowzero=_); out = Flatten(middle, axis=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_5(m: Matcher, root: Node) -> Match | None:
    """middle = Unsqueeze(x, _); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_6(m: Matcher, root: Node) -> Match | None:
    """middle = Unsqueeze(x, _); out = Unsqueeze(middle, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_7(m: Matcher, root: Node) -> Match | None:
    """middle = Unsqueeze(x, _); out = Squeeze(middle, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_8(m: Matcher, root: Node) -> Match | None:
    """middle = Unsqueeze(x, _); out = Flatten(middle, axis=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, _ = n1.inputs
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_9(m: Matcher, root: Node) -> Match | None:
    """middle = Squeeze(x, maybe(_)); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_10(m: Matcher, root: Node) -> Match | None:
    """middle = Squeeze(x, maybe(_)); out = Unsqueeze(middle, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_11(m: Matcher, root: Node) -> Match | None:
    """middle = Squeeze(x, maybe(_)); out = Squeeze(middle, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_12(m: Matcher, root: Node) -> Match | None:
    """middle = Squeeze(x, maybe(_)); out = Flatten(middle, axis=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Squeeze')
    if n1 is None or not 1 <= len(n1.inputs) <= 2 or n1.attrs:
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_13(m: Matcher, root: Node) -> Match | None:
    """middle = Flatten(x, axis=_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_14(m: Matcher, root: Node) -> Match | None:
    """middle = Flatten(x, axis=_); out = Unsqueeze(middle, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_15(m: Matcher, root: Node) -> Match | None:
    """middle = Flatten(x, axis=_); out = Squeeze(middle, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def match_view_again_16(m: Matcher, root: Node) -> Match | None:
    """middle = Flatten(x, axis=_); out = Flatten(middle, axis=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    middle = root.inputs[0]
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    x = n1.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_again(m, x, out)
    if accepted is None:
        return None
    view, = accepted
    return Match((root, n1), (root.outputs[0],), (x, view))


def make_view_again(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return viewed(graph, x, view)


def accept_view_same(m: Matcher, x: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return ()


def match_view_same_1(m: Matcher, root: Node) -> Match | None:
    """out = Reshape(x, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    x, _ = root.inputs
    out = root.outputs[0]
    accepted = accept_view_same(m, x, out)
    if accepted is None:
        return None
    return Match((root,), (root.outputs[0],), (x,))


def match_view_same_2(m: Matcher, root: Node) -> Match | None:
    """out = Unsqueeze(x, _); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, _ = root.inputs
    out = root.outputs[0]
    accepted = accept_view_same(m, x, out)
    if accepted is None:
        return None
    return Match((root,), (root.outputs[0],), (x,))


def match_view_same_3(m: Matcher, root: Node) -> Match | None:
    """out = Squeeze(x, maybe(_)); return out"""
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    x = root.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_same(m, x, out)
    if accepted is None:
        return None
    return Match((root,), (root.outputs[0],), (x,))


def match_view_same_4(m: Matcher, root: Node) -> Match | None:
    """out = Flatten(x, axis=_); return out"""
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    x = root.inputs[0]
    out = root.outputs[0]
    accepted = accept_view_same(m, x, out)
    if accepted is None:
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_view_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def accept_view_unary_view(m: Matcher, x: Any, middle: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    view = view_between(graph, x, out)
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    node = producer_of(graph, middle)
    return (view, node)


def match_view_unary_view_1(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Relu(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Relu')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_2(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Sigmoid(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Sigmoid')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_3(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Tanh(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Tanh')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_4(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Erf(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Erf')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_5(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Neg(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Neg')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_6(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Exp(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Exp')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_7(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Sqrt(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_8(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Abs(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Abs')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_9(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Softplus(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Softplus')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_10(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Gelu(reshaped, attrs=kept_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Gelu')
    if n1 is None or len(n1.inputs) != 1:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_11(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = LeakyRelu(reshaped, attrs=kept_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'LeakyRelu')
    if n1 is None or len(n1.inputs) != 1:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_12(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Cast(reshaped, attrs=kept_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Cast')
    if n1 is None or len(n1.inputs) != 1:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_13(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = HardSigmoid(reshaped, attrs=kept_); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'HardSigmoid')
    if n1 is None or len(n1.inputs) != 1:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_14(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = HardSwish(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'HardSwish')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_15(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Not(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Not')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def match_view_unary_view_16(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = Reciprocal(reshaped); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    middle, _ = root.inputs
    n1 = m.producer(middle, 'Reciprocal')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_view_unary_view(m, x, middle, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, view, node))


def make_view_unary_view(graph: Graph, res: ResultSpec, x: Result, view: Any, node: Any) -> Any:
    return viewed(graph, with_inputs(graph, node, [x]), view)


def accept_views_side_by_side(m: Matcher, x: Any, y: Any, first: Any, second: Any, out: Any) -> tuple[Any, ...] | None:
    graph = m.graph
    if not same_shape(graph, x, y):
        m.refuse('same_shape(x, y)')
        return None
    if not same_shape(graph, first, second):
        m.refuse('same_shape(first, second)')
        return None
    view = view_between(graph, x, out)
    if not is_known(view):
        m.refuse('is_known(view)')
        return None
    node = producer_of(graph, out)
    return (view, node)


def match_views_side_by_side_1(m: Matcher, root: Node) -> Match | None:
    """first = Reshape(x, _, allowzero=_); second = Reshape(y, _, allowzero=_); out = Add(first, second); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for first, second in m.orders(root):
        n1 = m.producer(first, 'Reshape')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
            continue
        n2 = m.producer(second, 'Reshape')
        if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
            continue
        x, _ = n1.inputs
        y, _ = n2.inputs
        out = root.outputs[0]
        accepted = accept_views_side_by_side(m, x, y, first, second, out)
        if accepted is None:
            continue
        view, node = accepted
        return Match((root, n1, n2), (root.outputs[0],), (x, y, view, node))
    return None


def match_views_side_by_side_2(m: Matcher, root: Node) -> Match | None:
    """first = Reshape(x, _, allowzero=_); second = Reshape(y, _, allowzero=_); out = Mul(first, second); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for first, second in m.orders(root):
        n1 = m.producer(first, 'Reshape')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
            continue
        n2 = m.producer(second, 'Reshape')
        if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
            continue
        x, _ = n1.inputs
        y, _ = n2.inputs
        out = root.outputs[0]
        accepted = accept_views_side_by_side(m, x, y, first, second, out)
        if accepted is None:
            continue
        view, node = accepted
        return Match((root, n1, n2), (root.outputs[0],), (x, y, view, node))
    return None


def match_views_side_by_side_3(m: Matcher, root: Node) -> Match | None:
    """first = Reshape(x, _, allowzero=_); second = Reshape(y, _, allowzero=_); out = Sub(first, second); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    first, second = root.inputs
    n1 = m.producer(first, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    n2 = m.producer(second, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    y, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_views_side_by_side(m, x, y, first, second, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, y, view, node))


def match_views_side_by_side_4(m: Matcher, root: Node) -> Match | None:
    """first = Reshape(x, _, allowzero=_); second = Reshape(y, _, allowzero=_); out = Div(first, second); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    first, second = root.inputs
    n1 = m.producer(first, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    n2 = m.producer(second, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    y, _ = n2.inputs
    out = root.outputs[0]
    accepted = accept_views_side_by_side(m, x, y, first, second, out)
    if accepted is None:
        return None
    view, node = accepted
    return Match((root, n1, n2), (root.outputs[0],), (x, y, view, node))


def make_views_side_by_side(graph: Graph, res: ResultSpec, x: Result, y: Result, view: Any, node: Any) -> Any:
    return viewed(graph, with_inputs(graph, node, [x, y]), view)
