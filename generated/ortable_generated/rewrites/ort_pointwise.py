# Generated from specs/rewrites/ort_pointwise.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.convolution import convolved_rows, suits_pointwise_convolution
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.shapes import has_shape, producer_of, same_shape, with_inputs
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, shape_of
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GELU = {'approximate': 'none'}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}
_RESHAPE = {'allowzero': 0}


def match_ort_gemm_to_conv(m: Matcher, root: Node) -> Match | None:
    """return Gemm(x, weight, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, weight = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not suits_pointwise_convolution(graph, x, weight, transposed == 1):
        m.refuse('suits_pointwise_convolution(x, weight, transposed == 1)')
        return None
    if not (bias is None or has_shape(graph, bias, [dim_of(graph, weight, transposed - 1)])):
        m.refuse('bias is None or has_shape(bias, [dim_of(weight, transposed - 1)])')
        return None
    return Match((root,), (root.outputs[0],), (x, weight, bias, transposed))


def make_ort_gemm_to_conv(graph: Graph, res: ResultSpec, x: Result, weight: Result, bias: Result | None, transposed: Any) -> Any:
    return reshape_to(graph, convolved_rows(graph, x, weight, transposed == 1, bias), shape_of(graph, res))


def match_ort_image_gate(m: Matcher, root: Node) -> Match | None:
    """gate = Reshape(Transpose(image, perm=[0, 2, 3, 1]), _, allowzero=_); wide = Reshape(Transpose(other, perm=[0, 2, 3, 1]), _, allowzero=_); gated = Mul(Mul(gate, Sigmoid(gate)), wide); again = Transpose(Reshape(gated, _, allowzero=_), perm=[0, 3, 1, 2]); return again"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    if not literal_equals(root.attrs.get('perm'), [0, 3, 1, 2]):
        return None
    again = root.outputs[0]
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    gated, _ = n1.inputs
    n2 = m.producer(gated, 'Mul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for r2, wide in m.orders(n2):
        n3 = m.producer(r2, 'Mul')
        if n3 is None or len(n3.inputs) != 2 or n3.attrs:
            continue
        n4 = m.producer(wide, 'Reshape')
        if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, ('allowzero',), _RESHAPE):
            continue
        r3, _ = n4.inputs
        n5 = m.producer(r3, 'Transpose')
        if n5 is None or len(n5.inputs) != 1 or not m.plain(n5, ('perm',)):
            continue
        if not literal_equals(n5.attrs.get('perm'), [0, 2, 3, 1]):
            continue
        other = n5.inputs[0]
        for gate, r4 in m.orders(n3):
            n6 = m.producer(gate, 'Reshape')
            if n6 is None or len(n6.inputs) != 2 or not m.plain(n6, ('allowzero',), _RESHAPE):
                continue
            n7 = m.producer(r4, 'Sigmoid')
            if n7 is None or len(n7.inputs) != 1 or n7.attrs:
                continue
            r5, _ = n6.inputs
            n8 = m.producer(r5, 'Transpose')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('perm',)):
                continue
            if not literal_equals(n8.attrs.get('perm'), [0, 2, 3, 1]):
                continue
            image = n8.inputs[0]
            r6 = n7.inputs[0]
            if r6 != gate:
                continue
            if not same_shape(graph, image, again):
                m.refuse('same_shape(image, again)')
                continue
            if not same_shape(graph, other, again):
                m.refuse('same_shape(other, again)')
                continue
            if not dim_of(graph, image, 0) == 1:
                m.refuse('dim_of(image, 0) == 1')
                continue
            return Match((root, n1, n2, n3, n4, n5, n6, n7, n8), (root.outputs[0],), (image, other))
    return None


def make_ort_image_gate(graph: Graph, res: ResultSpec, image: Result, other: Result) -> Any:
    return graph.make_node('Mul', [graph.make_node('Mul', [image, graph.make_node('Sigmoid', [image])]), other], res.outputs)


def finish_ort_image_unary_1(m: Matcher, nodes: tuple[Node, ...], plain: Any, again: Any, root: Any, active: Any) -> Match | None:
    graph = m.graph
    n4 = m.producer(plain, 'Reshape')
    if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, ('allowzero',), _RESHAPE):
        return None
    r2, _ = n4.inputs
    n5 = m.producer(r2, 'Transpose')
    if n5 is None or len(n5.inputs) != 1 or not m.plain(n5, ('perm',)):
        return None
    if not literal_equals(n5.attrs.get('perm'), [0, 2, 3, 1]):
        return None
    image = n5.inputs[0]
    if not same_shape(graph, image, again):
        m.refuse('same_shape(image, again)')
        return None
    if not dim_of(graph, image, 0) == 1:
        m.refuse('dim_of(image, 0) == 1')
        return None
    return Match((*nodes, n4, n5), (root.outputs[0],), (image, active))


def finish_ort_image_unary_2(m: Matcher, nodes: tuple[Node, ...], n2: Any, again: Any, root: Any, active: Any) -> Match | None:
    rows = n2.inputs[0]
    n3 = m.producer(rows, 'Reshape')
    if n3 is not None and len(n3.inputs) == 2 and m.plain(n3, ('allowzero',), _RESHAPE):
        plain, _ = n3.inputs
        found = finish_ort_image_unary_1(m, (*nodes, n3), plain, again, root, active)
        if found is not None:
            return found
    plain = n2.inputs[0]
    return finish_ort_image_unary_1(m, nodes, plain, again, root, active)


def finish_ort_image_unary_3(m: Matcher, nodes: tuple[Node, ...], n2: Any, again: Any, root: Any, active: Any) -> Match | None:
    if n2 is None or len(n2.inputs) != 1 or n2.attrs:
        return None
    return finish_ort_image_unary_2(m, nodes, n2, again, root, active)


def finish_ort_image_unary_4(m: Matcher, nodes: tuple[Node, ...], active: Any, again: Any, root: Any) -> Match | None:
    n2 = m.producer(active, 'Relu')
    return finish_ort_image_unary_3(m, (*nodes, n2), n2, again, root, active)


def finish_ort_image_unary_5(m: Matcher, nodes: tuple[Node, ...], active: Any, again: Any, root: Any) -> Match | None:
    n2 = m.producer(active, 'Gelu')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('approximate',), _GELU):
        return None
    return finish_ort_image_unary_2(m, (*nodes, n2), n2, again, root, active)


def finish_ort_image_unary_6(m: Matcher, nodes: tuple[Node, ...], active: Any, again: Any, root: Any) -> Match | None:
    n2 = m.producer(active, 'Sigmoid')
    return finish_ort_image_unary_3(m, (*nodes, n2), n2, again, root, active)


def match_ort_image_unary(m: Matcher, root: Node) -> Match | None:
    """plain = Reshape(Transpose(image, perm=[0, 2, 3, 1]), _, allowzero=_); rows = any_of(Reshape(plain, _, allowzero=_), plain); active = any_of(Relu(rows), Gelu(rows, approximate=_), Sigmoid(rows), Tanh(rows)); again = Transpose(Reshape(active, _, allowzero=_), perm=[0, 3, 1, 2]); return again"""
    if len(root.inputs) != 1 or not m.plain(root, ('perm',)):
        return None
    if not literal_equals(root.attrs.get('perm'), [0, 3, 1, 2]):
        return None
    again = root.outputs[0]
    r1 = root.inputs[0]
    n1 = m.producer(r1, 'Reshape')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('allowzero',), _RESHAPE):
        return None
    active, _ = n1.inputs
    found = finish_ort_image_unary_4(m, (root, n1), active, again, root)
    if found is not None:
        return found
    found = finish_ort_image_unary_5(m, (root, n1), active, again, root)
    if found is not None:
        return found
    found = finish_ort_image_unary_6(m, (root, n1), active, again, root)
    if found is not None:
        return found
    n2 = m.producer(active, 'Tanh')
    return finish_ort_image_unary_3(m, (root, n1, n2), n2, again, root, active)


def make_ort_image_unary(graph: Graph, res: ResultSpec, image: Result, active: Result) -> Any:
    return with_inputs(graph, producer_of(graph, active), [image])


def match_ort_linear_to_conv(m: Matcher, root: Node) -> Match | None:
    """return Add(MatMul(x, weight), bias)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, bias in m.orders(root):
        n1 = m.producer(r1, 'MatMul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, weight = n1.inputs
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not suits_pointwise_convolution(graph, x, weight, False):
            m.refuse('suits_pointwise_convolution(x, weight, False)')
            continue
        if not has_shape(graph, bias, [dim_of(graph, weight, 1)]):
            m.refuse('has_shape(bias, [dim_of(weight, 1)])')
            continue
        return Match((root, n1), (root.outputs[0],), (x, weight, bias))
    return None


def make_ort_linear_to_conv(graph: Graph, res: ResultSpec, x: Result, weight: Result, bias: Result) -> Any:
    return reshape_to(graph, convolved_rows(graph, x, weight, False, bias), shape_of(graph, res))


def match_ort_product_to_conv(m: Matcher, root: Node) -> Match | None:
    """return MatMul(x, weight)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, weight = root.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not suits_pointwise_convolution(graph, x, weight, False):
        m.refuse('suits_pointwise_convolution(x, weight, False)')
        return None
    return Match((root,), (root.outputs[0],), (x, weight))


def make_ort_product_to_conv(graph: Graph, res: ResultSpec, x: Result, weight: Result) -> Any:
    return reshape_to(graph, convolved_rows(graph, x, weight, False), shape_of(graph, res))
