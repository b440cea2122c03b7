# Generated from specs/rewrites/reshape.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.shapes import known_rank, producer_of, same_shape, with_inputs
from ortable.passes.rewrite.helpers.views import apply_view, may_copy_dims, view_to
from ortable.passes.rewrite.rule import Match
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
    out = root.outputs[0]
    x, target = root.inputs
    if not not is_constant(graph, target):
        m.refuse('not is_constant(target)')
        return None
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    return Match((root,), (root.outputs[0],), (x, view))


def make_reshape_constant_target(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return apply_view(graph, x, view)


def match_reshape_gemm_reshape(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(Reshape(x, _, allowzero=_), w, bias); out = Reshape(product, target, allowzero=zero); return out"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    zero = root.attrs.get('allowzero', 0)
    product, target = root.inputs
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
    if not known_rank(graph, out) > 2:
        m.refuse('known_rank(out) > 2')
        return None
    if not dim_of(graph, out, -1) == dim_of(graph, w, 1):
        m.refuse('dim_of(out, -1) == dim_of(w, 1)')
        return None
    if not dim_of(graph, w, 1) > 0:
        m.refuse('dim_of(w, 1) > 0')
        return None
    view = view_to(graph, x, [*shape_of(graph, out)[:-1], dim_of(graph, w, 0)])
    if not view is not None:
        m.refuse('view is not None')
        return None
    if not known_rank(graph, bias) == 1:
        m.refuse('known_rank(bias) == 1')
        return None
    if not not may_copy_dims(graph, target, zero):
        m.refuse('not may_copy_dims(target, zero)')
        return None
    return Match((root, n1, n2), (root.outputs[0],), (x, w, bias, view))


def make_reshape_gemm_reshape(graph: Graph, res: ResultSpec, x: Result, w: Result, bias: Result, view: Any) -> Any:
    return graph.make_node('Add', [graph.make_node('MatMul', [apply_view(graph, x, view), w]), bias], res.outputs)


def finish_reshape_given_target_1(m: Matcher, nodes: tuple[Node, ...], n1: Any, target: Any, zero: Any, root: Any) -> Match | None:
    graph = m.graph
    x, _ = n1.inputs
    if not not may_copy_dims(graph, target, zero):
        m.refuse('not may_copy_dims(target, zero)')
        return None
    return Match(nodes, (root.outputs[0],), (x, target, zero), (n1,))


def finish_reshape_given_target_2(m: Matcher, nodes: tuple[Node, ...], n1: Any, target: Any, zero: Any, root: Any) -> Match | None:
    graph = m.graph
    x = n1.inputs[0]
    if not not may_copy_dims(graph, target, zero):
        m.refuse('not may_copy_dims(target, zero)')
        return None
    return Match(nodes, (root.outputs[0],), (x, target, zero), (n1,))


def match_reshape_given_target(m: Matcher, root: Node) -> Match | None:
    """middle = any_of(Reshape(x, _, allowzero=_), Unsqueeze(x, _), Squeeze(x, maybe(_)), Flatten(x, axis=_)); return Reshape(middle, target, allowzero=zero)"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    zero = root.attrs.get('allowzero', 0)
    middle, target = root.inputs
    n1 = m.producer(middle, 'Reshape')
    if n1 is not None and len(n1.inputs) == 2 and m.plain(n1, ('allowzero',), _RESHAPE):
        found = finish_reshape_given_target_1(m, (root, n1), n1, target, zero, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is not None and len(n1.inputs) == 2 and (not n1.attrs):
        found = finish_reshape_given_target_1(m, (root, n1), n1, target, zero, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Squeeze')
    if n1 is not None and 1 <= len(n1.inputs) <= 2 and (not n1.attrs):
        found = finish_reshape_given_target_2(m, (root, n1), n1, target, zero, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    return finish_reshape_given_target_2(m, (root, n1), n1, target, zero, root)


def make_reshape_given_target(graph: Graph, res: ResultSpec, x: Result, target: Result, zero: Any) -> Any:
    return graph.make_node('Reshape', [x, target], res.outputs, allowzero=zero)


def finish_view_again_1(m: Matcher, nodes: tuple[Node, ...], x: Any, out: Any, root: Any, n1: Any) -> Match | None:
    graph = m.graph
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    return Match(nodes, (root.outputs[0],), (x, view), (n1,))


def finish_view_again_2(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    x, _ = n1.inputs
    return finish_view_again_1(m, nodes, x, out, root, n1)


def finish_view_again_3(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, root: Any) -> Match | None:
    x = n1.inputs[0]
    return finish_view_again_1(m, nodes, x, out, root, n1)


def finish_view_again_4(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Reshape')
    if n1 is not None and len(n1.inputs) == 2 and m.plain(n1, ('allowzero',), _RESHAPE):
        found = finish_view_again_2(m, (*nodes, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Unsqueeze')
    if n1 is not None and len(n1.inputs) == 2 and (not n1.attrs):
        found = finish_view_again_2(m, (*nodes, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Squeeze')
    if n1 is not None and 1 <= len(n1.inputs) <= 2 and (not n1.attrs):
        found = finish_view_again_3(m, (*nodes, n1), n1, out, root)
        if found is not None:
            return found
    n1 = m.producer(middle, 'Flatten')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('axis',), _FLATTEN):
        return None
    return finish_view_again_3(m, (*nodes, n1), n1, out, root)


def finish_view_again_5(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    out = root.outputs[0]
    middle, _ = root.inputs
    return finish_view_again_4(m, nodes, middle, out, root)


def match_view_again_1(m: Matcher, root: Node) -> Match | None:
    """middle = any_of(Reshape(x, _, allowzero=_), Unsqueeze(x, _), Squeeze(x, maybe(_)), Flatten(x, axis=_)); out = any_of(Reshape(middle, _, allowzero=_), Unsqueeze(middle, _), Squeeze(middle, maybe(_)), Flatten(middle, axis=_)); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    return finish_view_again_5(m, (root,), root)


def match_view_again_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_view_again_5(m, (root,), root)


def finish_view_again_6(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    out = root.outputs[0]
    middle = root.inputs[0]
    return finish_view_again_4(m, nodes, middle, out, root)


def match_view_again_3(m: Matcher, root: Node) -> Match | None:
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    return finish_view_again_6(m, (root,), root)


def match_view_again_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    return finish_view_again_6(m, (root,), root)


def make_view_again(graph: Graph, res: ResultSpec, x: Result, view: Any) -> Any:
    return apply_view(graph, x, view)


def finish_view_same_1(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    graph = m.graph
    out = root.outputs[0]
    x, _ = root.inputs
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match(nodes, (root.outputs[0],), (x,))


def match_view_same_1(m: Matcher, root: Node) -> Match | None:
    """out = any_of(Reshape(x, _, allowzero=_), Unsqueeze(x, _), Squeeze(x, maybe(_)), Flatten(x, axis=_)); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    return finish_view_same_1(m, (root,), root)


def match_view_same_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    return finish_view_same_1(m, (root,), root)


def finish_view_same_2(m: Matcher, nodes: tuple[Node, ...], root: Any) -> Match | None:
    graph = m.graph
    out = root.outputs[0]
    x = root.inputs[0]
    if not same_shape(graph, x, out):
        m.refuse('same_shape(x, out)')
        return None
    return Match(nodes, (root.outputs[0],), (x,))


def match_view_same_3(m: Matcher, root: Node) -> Match | None:
    if not 1 <= len(root.inputs) <= 2 or root.attrs:
        return None
    return finish_view_same_2(m, (root,), root)


def match_view_same_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 1 or not m.plain(root, ('axis',), _FLATTEN):
        return None
    return finish_view_same_2(m, (root,), root)


def make_view_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def finish_view_unary_view_1(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, middle: Any, root: Any) -> Match | None:
    graph = m.graph
    reshaped = n1.inputs[0]
    n2 = m.producer(reshaped, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n2.inputs
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    node = producer_of(graph, middle)
    return Match((*nodes, n2), (root.outputs[0],), (x, view, node))


def finish_view_unary_view_2(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, middle: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    return finish_view_unary_view_1(m, nodes, n1, out, middle, root)


def finish_view_unary_view_3(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Relu')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_4(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Sigmoid')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_5(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Tanh')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_6(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Erf')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_7(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Neg')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_8(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Exp')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_9(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Sqrt')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_10(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Abs')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_11(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Softplus')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_12(m: Matcher, nodes: tuple[Node, ...], n1: Any, out: Any, middle: Any, root: Any) -> Match | None:
    if n1 is None or len(n1.inputs) != 1:
        return None
    return finish_view_unary_view_1(m, nodes, n1, out, middle, root)


def finish_view_unary_view_13(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Gelu')
    return finish_view_unary_view_12(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_14(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'LeakyRelu')
    return finish_view_unary_view_12(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_15(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Cast')
    return finish_view_unary_view_12(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_16(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'HardSigmoid')
    return finish_view_unary_view_12(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_17(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'HardSwish')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def finish_view_unary_view_18(m: Matcher, nodes: tuple[Node, ...], middle: Any, out: Any, root: Any) -> Match | None:
    n1 = m.producer(middle, 'Not')
    return finish_view_unary_view_2(m, (*nodes, n1), n1, out, middle, root)


def match_view_unary_view(m: Matcher, root: Node) -> Match | None:
    """reshaped = Reshape(x, _, allowzero=_); middle = any_of(Relu(reshaped), Sigmoid(reshaped), Tanh(reshaped), Erf(reshaped), Neg(reshaped), Exp(reshaped), Sqrt(reshaped), Abs(reshaped), Softplus(reshaped), Gelu(reshaped, attrs=kept_), LeakyRelu(reshaped, attrs=kept_), Cast(reshaped, attrs=kept_), HardSigmoid(reshaped, attrs=kept_), HardSwish(reshaped), Not(reshaped), Reciprocal(reshaped)); out = Reshape(middle, _, allowzero=_); return out"""
    if len(root.inputs) != 2 or not m.plain(root, ('allowzero',), _RESHAPE):
        return None
    out = root.outputs[0]
    middle, _ = root.inputs
    found = finish_view_unary_view_3(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_4(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_5(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_6(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_7(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_8(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_9(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_10(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_11(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_13(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_14(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_15(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_16(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_17(m, (root,), middle, out, root)
    if found is not None:
        return found
    found = finish_view_unary_view_18(m, (root,), middle, out, root)
    if found is not None:
        return found
    n1 = m.producer(middle, 'Reciprocal')
    return finish_view_unary_view_2(m, (root, n1), n1, out, middle, root)


def make_view_unary_view(graph: Graph, res: ResultSpec, x: Result, view: Any, node: Any) -> Any:
    return apply_view(graph, with_inputs(graph, node, [x]), view)


def finish_views_side_by_side_1(m: Matcher, nodes: tuple[Node, ...], first: Any, second: Any, out: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(first, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    n2 = m.producer(second, 'Reshape')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
        return None
    x, _ = n1.inputs
    y, _ = n2.inputs
    if not same_shape(graph, x, y):
        m.refuse('same_shape(x, y)')
        return None
    if not same_shape(graph, first, second):
        m.refuse('same_shape(first, second)')
        return None
    view = view_to(graph, x, shape_of(graph, out))
    if not view is not None:
        m.refuse('view is not None')
        return None
    node = producer_of(graph, out)
    return Match((*nodes, n1, n2), (root.outputs[0],), (x, y, view, node))


def match_views_side_by_side_1(m: Matcher, root: Node) -> Match | None:
    """first = Reshape(x, _, allowzero=_); second = Reshape(y, _, allowzero=_); out = any_of(Add(first, second), Mul(first, second), Sub(first, second), Div(first, second)); return out"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for first, second in m.orders(root):
        found = finish_views_side_by_side_1(m, (root,), first, second, out, root)
        if found is not None:
            return found
    return None


def match_views_side_by_side_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    for first, second in m.orders(root):
        found = finish_views_side_by_side_1(m, (root,), first, second, out, root)
        if found is not None:
            return found
    return None


def match_views_side_by_side_3(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    first, second = root.inputs
    return finish_views_side_by_side_1(m, (root,), first, second, out, root)


def match_views_side_by_side_4(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    out = root.outputs[0]
    first, second = root.inputs
    return finish_views_side_by_side_1(m, (root,), first, second, out, root)


def make_views_side_by_side(graph: Graph, res: ResultSpec, x: Result, y: Result, view: Any, node: Any) -> Any:
    return apply_view(graph, with_inputs(graph, node, [x, y]), view)
