# Generated from specs/rewrites/linear.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import are_moderate, number_of
from ortable.passes.rewrite.helpers.shapes import broadcasts_into
from ortable.passes.rewrite.helpers.weights import are_weights, as_vector_of, broadcasts_along, scaled_weight, shifted_bias
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, dtype_of, fits_attribute, is_constant, is_float, is_wide, rank_of
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_BATCH_NORMALIZATION = {'epsilon': 1e-05, 'momentum': 0.9, 'training_mode': 0}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_gemm_add(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(a, b, alpha=alpha, transA=ta, transB=tb); return Add(product, c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        n1 = m.producer(product, 'Gemm')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('alpha', 'transA', 'transB'), _GEMM):
            continue
        alpha = n1.attrs.get('alpha', 1.0)
        ta = n1.attrs.get('transA', 0)
        tb = n1.attrs.get('transB', 0)
        a, b = n1.inputs
        if not broadcasts_into(graph, c, product):
            m.refuse('broadcasts_into(c, product)')
            continue
        return Match((root, n1), (root.outputs[0],), (a, b, c, alpha, ta, tb))
    return None


def make_gemm_add(graph: Graph, res: ResultSpec, a: Result, b: Result, c: Result, alpha: Any, ta: Any, tb: Any) -> Any:
    return graph.make_node('Gemm', [a, b, c], res.outputs, alpha=alpha, transA=ta, transB=tb)


def match_gemm_add_constant(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(a, b, c, alpha=alpha, transA=ta, transB=tb); return Add(product, d)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, d in m.orders(root):
        n1 = m.producer(product, 'Gemm')
        if n1 is None or len(n1.inputs) != 3 or not m.plain(n1, ('alpha', 'transA', 'transB'), _GEMM):
            continue
        alpha = n1.attrs.get('alpha', 1.0)
        ta = n1.attrs.get('transA', 0)
        tb = n1.attrs.get('transB', 0)
        a, b, c = n1.inputs
        if not c:
            continue
        if not is_wide(graph, a):
            m.refuse('is_wide(a)')
            continue
        if not are_weights(graph, [c, d]):
            m.refuse('are_weights([c, d])')
            continue
        if not broadcasts_into(graph, d, product):
            m.refuse('broadcasts_into(d, product)')
            continue
        return Match((root, n1), (root.outputs[0],), (a, b, c, d, alpha, ta, tb))
    return None


def make_gemm_add_constant(graph: Graph, res: ResultSpec, a: Result, b: Result, c: Result, d: Result, alpha: Any, ta: Any, tb: Any) -> Any:
    return graph.make_node('Gemm', [a, b, shifted_bias(graph, d, None, c)], res.outputs, alpha=alpha, transA=ta, transB=tb)


def match_gemm_batch_norm(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(x, w, maybe(b), transA=ta, transB=tb); return BatchNormalization(product, scale, shift, mean, var, epsilon=eps, momentum=_)"""
    graph = m.graph
    if len(root.inputs) != 5 or not m.plain(root, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps = root.attrs.get('epsilon', 1e-05)
    product, scale, shift, mean, var = root.inputs
    n1 = m.producer(product, 'Gemm')
    if n1 is None or not 2 <= len(n1.inputs) <= 3 or not m.plain(n1, ('transA', 'transB'), _GEMM):
        return None
    ta = n1.attrs.get('transA', 0)
    tb = n1.attrs.get('transB', 0)
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not are_weights(graph, [w, b, scale, shift, mean, var]):
        m.refuse('are_weights([w, b, scale, shift, mean, var])')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, scale, shift, mean, var, ta, tb, eps))


def make_gemm_batch_norm(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, scale: Result, shift: Result, mean: Result, var: Result, ta: Any, tb: Any, eps: Any) -> Any:
    factor = graph.make_node('Div', [scale, graph.make_node('Sqrt', [graph.make_node('Add', [var, const(graph, eps, dtype_of(graph, var))])])])
    middle = graph.make_node('Neg', [mean]) if b is None else graph.make_node('Sub', [b, mean])
    moved = shifted_bias(graph, middle, factor, shift)
    return graph.make_node('Gemm', [x, scaled_weight(graph, w, factor, 0 if tb else 1), moved], res.outputs, transA=ta, transB=tb)


def finish_gemm_scale_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'Gemm')
    if n1 is None or not 2 <= len(n1.inputs) <= 3 or not m.plain(n1, ('transA', 'transB'), _GEMM):
        return None
    ta = n1.attrs.get('transA', 0)
    tb = n1.attrs.get('transB', 0)
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    factor = d if c is None else c
    if not broadcasts_along(graph, factor, product, 1):
        m.refuse('broadcasts_along(factor, product, 1)')
        return None
    if not are_moderate(graph, factor):
        m.refuse('are_moderate(factor)')
        return None
    if not are_weights(graph, [w, b]):
        m.refuse('are_weights([w, b])')
        return None
    return Match((*nodes, n1), (root.outputs[0],), (x, w, b, c, ta, tb, factor))


def match_gemm_scale_1(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(x, w, maybe(b), transA=ta, transB=tb); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_gemm_scale_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_gemm_scale_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_gemm_scale_1(m, (root,), product, d, None, root)


def make_gemm_scale(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result | None, ta: Any, tb: Any, factor: Any) -> Any:
    given = as_vector_of(graph, factor, dim_of(graph, w, 0 if tb else 1))
    line = graph.make_node('Reciprocal', [given]) if c is None else given
    moved = None if b is None else shifted_bias(graph, b, line, None)
    return graph.make_node('Gemm', [x, scaled_weight(graph, w, line, 0 if tb else 1), moved], res.outputs, transA=ta, transB=tb)


def finish_gemm_scale_number_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'Gemm')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('alpha', 'transA', 'transB'), _GEMM):
        return None
    alpha = n1.attrs.get('alpha', 1.0)
    ta = n1.attrs.get('transA', 0)
    tb = n1.attrs.get('transB', 0)
    a, b = n1.inputs
    if not is_wide(graph, a):
        m.refuse('is_wide(a)')
        return None
    factor = d if c is None else c
    if not rank_of(graph, factor) <= 2:
        m.refuse('rank_of(factor) <= 2')
        return None
    number = number_of(graph, factor)
    if not 1e-30 < abs(number) < 1e+30:
        m.refuse('1e-30 < abs(number) < 1e30')
        return None
    scale = alpha * number if d is None else alpha / number if number else float('nan')
    if not 1e-30 < abs(scale) < 1e+30:
        m.refuse('1e-30 < abs(scale) < 1e30')
        return None
    if not fits_attribute(graph, scale, a):
        m.refuse('fits_attribute(scale, a)')
        return None
    return Match((*nodes, n1), (root.outputs[0],), (a, b, ta, tb, scale))


def match_gemm_scale_number_1(m: Matcher, root: Node) -> Match | None:
    """product = Gemm(a, b, alpha=alpha, transA=ta, transB=tb); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_gemm_scale_number_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_gemm_scale_number_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_gemm_scale_number_1(m, (root,), product, d, None, root)


def make_gemm_scale_number(graph: Graph, res: ResultSpec, a: Result, b: Result, ta: Any, tb: Any, scale: Any) -> Any:
    return graph.make_node('Gemm', [a, b], res.outputs, alpha=scale, transA=ta, transB=tb)


def match_gemm_transpose_a(m: Matcher, root: Node) -> Match | None:
    """return Gemm(Transpose(a, perm=[1, 0]), b, maybe(c), transA=ta, attrs=kept)"""
    if not 2 <= len(root.inputs) <= 3:
        return None
    ta = root.attrs.get('transA', 0)
    kept = {k: v for k, v in root.attrs.items() if k not in ('transA',)}
    r1, b = root.inputs[:2]
    c = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    a = n1.inputs[0]
    return Match((root, n1), (root.outputs[0],), (a, b, c, ta, kept))


def make_gemm_transpose_a(graph: Graph, res: ResultSpec, a: Result, b: Result, c: Result | None, ta: Any, kept: Any) -> Any:
    return graph.make_node('Gemm', [a, b, c], res.outputs, transA=0 if ta else 1, **kept)


def match_gemm_transpose_b(m: Matcher, root: Node) -> Match | None:
    """return Gemm(a, Transpose(b, perm=[1, 0]), maybe(c), transB=tb, attrs=kept)"""
    if not 2 <= len(root.inputs) <= 3:
        return None
    tb = root.attrs.get('transB', 0)
    kept = {k: v for k, v in root.attrs.items() if k not in ('transB',)}
    a, r1 = root.inputs[:2]
    c = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    b = n1.inputs[0]
    return Match((root, n1), (root.outputs[0],), (b, a, c, tb, kept))


def make_gemm_transpose_b(graph: Graph, res: ResultSpec, b: Result, a: Result, c: Result | None, tb: Any, kept: Any) -> Any:
    return graph.make_node('Gemm', [a, b, c], res.outputs, transB=0 if tb else 1, **kept)


def finish_linear_scale_1(m: Matcher, nodes: tuple[Node, ...], total: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(total, 'Add')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    for product, b in m.orders(n1):
        n2 = m.producer(product, 'MatMul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        x, w = n2.inputs
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not rank_of(graph, w) == 2:
            m.refuse('rank_of(w) == 2')
            continue
        factor = d if c is None else c
        if not all([broadcasts_along(graph, each, total, -1) for each in [factor, b]]):
            m.refuse('all([broadcasts_along(each, total, -1) for each in [factor, b]])')
            continue
        if not are_moderate(graph, factor):
            m.refuse('are_moderate(factor)')
            continue
        if not are_weights(graph, [w, b]):
            m.refuse('are_weights([w, b])')
            continue
        return Match((*nodes, n1, n2), (root.outputs[0],), (x, w, b, c, factor))
    return None


def match_linear_scale_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(x, w); total = Add(product, b); return any_of(Mul(total, c), Div(total, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for total, c in m.orders(root):
        found = finish_linear_scale_1(m, (root,), total, None, c, root)
        if found is not None:
            return found
    return None


def match_linear_scale_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    total, d = root.inputs
    return finish_linear_scale_1(m, (root,), total, d, None, root)


def make_linear_scale(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result, c: Result | None, factor: Any) -> Any:
    given = as_vector_of(graph, factor, dim_of(graph, w, 1))
    line = graph.make_node('Reciprocal', [given]) if c is None else given
    return graph.make_node('Add', [graph.make_node('MatMul', [x, scaled_weight(graph, w, line, 1)]), shifted_bias(graph, b, line, None)], res.outputs)


def match_matmul_add_to_gemm(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(a, b); return Add(product, bias)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, bias in m.orders(root):
        n1 = m.producer(product, 'MatMul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        a, b = n1.inputs
        if not is_float(graph, a):
            m.refuse('is_float(a)')
            continue
        if not rank_of(graph, a) == 2:
            m.refuse('rank_of(a) == 2')
            continue
        if not rank_of(graph, b) == 2:
            m.refuse('rank_of(b) == 2')
            continue
        if not broadcasts_into(graph, bias, product):
            m.refuse('broadcasts_into(bias, product)')
            continue
        return Match((root, n1), (root.outputs[0],), (a, b, bias))
    return None


def make_matmul_add_to_gemm(graph: Graph, res: ResultSpec, a: Result, b: Result, bias: Result) -> Any:
    return graph.make_node('Gemm', [a, b, bias], res.outputs)


def match_matmul_batch_norm(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(x, w); return BatchNormalization(product, scale, shift, mean, var, epsilon=eps, momentum=_)"""
    graph = m.graph
    if len(root.inputs) != 5 or not m.plain(root, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps = root.attrs.get('epsilon', 1e-05)
    product, scale, shift, mean, var = root.inputs
    n1 = m.producer(product, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, w = n1.inputs
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not rank_of(graph, x) == 2:
        m.refuse('rank_of(x) == 2')
        return None
    if not are_weights(graph, [w, scale, shift, mean, var]):
        m.refuse('are_weights([w, scale, shift, mean, var])')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, scale, shift, mean, var, eps))


def make_matmul_batch_norm(graph: Graph, res: ResultSpec, x: Result, w: Result, scale: Result, shift: Result, mean: Result, var: Result, eps: Any) -> Any:
    factor = graph.make_node('Div', [scale, graph.make_node('Sqrt', [graph.make_node('Add', [var, const(graph, eps, dtype_of(graph, var))])])])
    return graph.make_node('Gemm', [x, scaled_weight(graph, w, factor, 1), shifted_bias(graph, graph.make_node('Neg', [mean]), factor, shift)], res.outputs)


def finish_matmul_scale_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'MatMul')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, w = n1.inputs
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not rank_of(graph, w) == 2:
        m.refuse('rank_of(w) == 2')
        return None
    factor = d if c is None else c
    if not broadcasts_along(graph, factor, product, -1):
        m.refuse('broadcasts_along(factor, product, -1)')
        return None
    if not are_moderate(graph, factor):
        m.refuse('are_moderate(factor)')
        return None
    if not are_weights(graph, [w]):
        m.refuse('are_weights([w])')
        return None
    return Match((*nodes, n1), (root.outputs[0],), (x, w, c, factor))


def match_matmul_scale_1(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(x, w); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_matmul_scale_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_matmul_scale_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_matmul_scale_1(m, (root,), product, d, None, root)


def make_matmul_scale(graph: Graph, res: ResultSpec, x: Result, w: Result, c: Result | None, factor: Any) -> Any:
    given = as_vector_of(graph, factor, dim_of(graph, w, 1))
    return graph.make_node('MatMul', [x, scaled_weight(graph, w, graph.make_node('Reciprocal', [given]) if c is None else given, 1)], res.outputs)


def match_matmul_transpose_b(m: Matcher, root: Node) -> Match | None:
    """return MatMul(a, Transpose(b, perm=[1, 0]))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    a, r1 = root.inputs
    n1 = m.producer(r1, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    b = n1.inputs[0]
    if not is_float(graph, a):
        m.refuse('is_float(a)')
        return None
    if not rank_of(graph, a) == 2:
        m.refuse('rank_of(a) == 2')
        return None
    if not not is_constant(graph, b):
        m.refuse('not is_constant(b)')
        return None
    return Match((root, n1), (root.outputs[0],), (b, a))


def make_matmul_transpose_b(graph: Graph, res: ResultSpec, b: Result, a: Result) -> Any:
    return graph.make_node('Gemm', [a, b], res.outputs, transB=1)
