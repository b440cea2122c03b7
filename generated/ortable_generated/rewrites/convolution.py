# Generated from specs/rewrites/convolution.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.convolution import has_explicit_pads, pads_without_end, summed_pads
from ortable.passes.rewrite.helpers.numbers import are_moderate
from ortable.passes.rewrite.helpers.slices import has_unit_steps
from ortable.passes.rewrite.helpers.weights import are_weights, as_vector_of, broadcasts_along, scaled_weight, shifted_bias
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, dtype_of, is_static, is_wide
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_BATCH_NORMALIZATION = {'epsilon': 1e-05, 'momentum': 0.9, 'training_mode': 0}
_PAD = {'mode': 'constant'}


def match_conv_add(m: Matcher, root: Node) -> Match | None:
    """product = Conv(x, w, maybe(b), attrs=kept); return Add(product, c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        n1 = m.producer(product, 'Conv')
        if n1 is None or not 2 <= len(n1.inputs) <= 3:
            continue
        kept = dict(n1.attrs)
        x, w = n1.inputs[:2]
        b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not broadcasts_along(graph, c, product, 1):
            m.refuse('broadcasts_along(c, product, 1)')
            continue
        if not are_weights(graph, [b]):
            m.refuse('are_weights([b])')
            continue
        if not is_static(dim_of(graph, w, 0)):
            m.refuse('is_static(dim_of(w, 0))')
            continue
        return Match((root, n1), (root.outputs[0],), (x, w, b, c, kept))
    return None


def make_conv_add(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result, kept: Any) -> Any:
    line = as_vector_of(graph, c, dim_of(graph, w, 0))
    return graph.make_node('Conv', [x, w, line if b is None else shifted_bias(graph, line, None, b)], res.outputs, **kept)


def match_conv_batch_norm(m: Matcher, root: Node) -> Match | None:
    """product = Conv(x, w, maybe(b), attrs=kept); return BatchNormalization(product, scale, shift, mean, var, epsilon=eps, momentum=_)"""
    graph = m.graph
    if len(root.inputs) != 5 or not m.plain(root, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps = root.attrs.get('epsilon', 1e-05)
    product, scale, shift, mean, var = root.inputs
    n1 = m.producer(product, 'Conv')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    kept = dict(n1.attrs)
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not are_weights(graph, [w, b, scale, shift, mean, var]):
        m.refuse('are_weights([w, b, scale, shift, mean, var])')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, scale, shift, mean, var, eps, kept))


def make_conv_batch_norm(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, scale: Result, shift: Result, mean: Result, var: Result, eps: Any, kept: Any) -> Any:
    factor = graph.make_node('Div', [scale, graph.make_node('Sqrt', [graph.make_node('Add', [var, const(graph, eps, dtype_of(graph, var))])])])
    middle = graph.make_node('Neg', [mean]) if b is None else graph.make_node('Sub', [b, mean])
    return graph.make_node('Conv', [x, scaled_weight(graph, w, factor, 0), shifted_bias(graph, middle, factor, shift)], res.outputs, **kept)


def match_conv_pad(m: Matcher, root: Node) -> Match | None:
    """padded = Pad(x, borders, maybe(value), maybe(axes)); return Conv(padded, w, maybe(b), pads=pads, attrs=kept)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3:
        return None
    pads = root.attrs.get('pads')
    kept = {k: v for k, v in root.attrs.items() if k not in ('pads',)}
    padded, w = root.inputs[:2]
    b = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(padded, 'Pad')
    if n1 is None or not 2 <= len(n1.inputs) <= 4 or not m.plain(n1, (), _PAD):
        return None
    x, borders = n1.inputs[:2]
    value = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    axes = n1.inputs[3] or None if len(n1.inputs) > 3 else None
    total = summed_pads(graph, x, borders, value, axes, pads)
    if not len(total) > 0:
        m.refuse('len(total) > 0')
        return None
    if not has_explicit_pads(kept):
        m.refuse('has_explicit_pads(kept)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, kept, total))


def make_conv_pad(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, kept: Any, total: Any) -> Any:
    return graph.make_node('Conv', [x, w, b], res.outputs, pads=total, **kept)


def finish_conv_scale_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'Conv')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    kept = dict(n1.attrs)
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
    return Match((*nodes, n1), (root.outputs[0],), (x, w, b, c, kept, factor))


def match_conv_scale_1(m: Matcher, root: Node) -> Match | None:
    """product = Conv(x, w, maybe(b), attrs=kept); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_conv_scale_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_conv_scale_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_conv_scale_1(m, (root,), product, d, None, root)


def make_conv_scale(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result | None, kept: Any, factor: Any) -> Any:
    given = as_vector_of(graph, factor, dim_of(graph, w, 0))
    line = graph.make_node('Reciprocal', [given]) if c is None else given
    moved = None if b is None else shifted_bias(graph, b, line, None)
    return graph.make_node('Conv', [x, scaled_weight(graph, w, line, 0), moved], res.outputs, **kept)


def match_conv_slice(m: Matcher, root: Node) -> Match | None:
    """whole = Conv(x, w, maybe(b), pads=pads, strides=strides, attrs=kept); part = Slice(whole, starts, _, maybe(_), maybe(steps)); return part"""
    graph = m.graph
    if not 3 <= len(root.inputs) <= 5 or root.attrs:
        return None
    part = root.outputs[0]
    whole, starts, _ = root.inputs[:3]
    steps = root.inputs[4] or None if len(root.inputs) > 4 else None
    n1 = m.producer(whole, 'Conv')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    pads = n1.attrs.get('pads')
    strides = n1.attrs.get('strides')
    kept = {k: v for k, v in n1.attrs.items() if k not in ('pads', 'strides')}
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not has_unit_steps(graph, steps):
        m.refuse('has_unit_steps(steps)')
        return None
    less = pads_without_end(graph, whole, part, starts, pads, strides)
    if not len(less) > 0:
        m.refuse('len(less) > 0')
        return None
    if not has_explicit_pads(kept):
        m.refuse('has_explicit_pads(kept)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, strides, kept, less))


def make_conv_slice(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, strides: Any, kept: Any, less: Any) -> Any:
    return graph.make_node('Conv', [x, w, b], res.outputs, pads=less, strides=strides, **kept)


def match_conv_transpose_add(m: Matcher, root: Node) -> Match | None:
    """product = ConvTranspose(x, w, maybe(b), attrs=kept); return Add(product, c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        n1 = m.producer(product, 'ConvTranspose')
        if n1 is None or not 2 <= len(n1.inputs) <= 3:
            continue
        kept = dict(n1.attrs)
        x, w = n1.inputs[:2]
        b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not broadcasts_along(graph, c, product, 1):
            m.refuse('broadcasts_along(c, product, 1)')
            continue
        if not are_weights(graph, [b]):
            m.refuse('are_weights([b])')
            continue
        count = dim_of(graph, product, 1)
        if not is_static(count):
            m.refuse('is_static(count)')
            continue
        return Match((root, n1), (root.outputs[0],), (x, w, b, c, kept, count))
    return None


def make_conv_transpose_add(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result, kept: Any, count: Any) -> Any:
    line = as_vector_of(graph, c, count)
    return graph.make_node('ConvTranspose', [x, w, line if b is None else shifted_bias(graph, line, None, b)], res.outputs, **kept)


def match_conv_transpose_batch_norm(m: Matcher, root: Node) -> Match | None:
    """product = ConvTranspose(x, w, maybe(b), group=1, attrs=kept); return BatchNormalization(product, scale, shift, mean, var, epsilon=eps, momentum=_)"""
    graph = m.graph
    if len(root.inputs) != 5 or not m.plain(root, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps = root.attrs.get('epsilon', 1e-05)
    product, scale, shift, mean, var = root.inputs
    n1 = m.producer(product, 'ConvTranspose')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    if not literal_equals(n1.attrs.get('group', 1), 1):
        return None
    kept = {k: v for k, v in n1.attrs.items() if k not in ('group',)}
    x, w = n1.inputs[:2]
    b = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not are_weights(graph, [w, b, scale, shift, mean, var]):
        m.refuse('are_weights([w, b, scale, shift, mean, var])')
        return None
    return Match((root, n1), (root.outputs[0],), (x, w, b, scale, shift, mean, var, eps, kept))


def make_conv_transpose_batch_norm(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, scale: Result, shift: Result, mean: Result, var: Result, eps: Any, kept: Any) -> Any:
    factor = graph.make_node('Div', [scale, graph.make_node('Sqrt', [graph.make_node('Add', [var, const(graph, eps, dtype_of(graph, var))])])])
    middle = graph.make_node('Neg', [mean]) if b is None else graph.make_node('Sub', [b, mean])
    moved = shifted_bias(graph, middle, factor, shift)
    return graph.make_node('ConvTranspose', [x, scaled_weight(graph, w, factor, 1), moved], res.outputs, **kept)


def finish_conv_transpose_scale_1(m: Matcher, nodes: tuple[Node, ...], product: Any, d: Any, c: Any, root: Any) -> Match | None:
    graph = m.graph
    n1 = m.producer(product, 'ConvTranspose')
    if n1 is None or not 2 <= len(n1.inputs) <= 3:
        return None
    if not literal_equals(n1.attrs.get('group', 1), 1):
        return None
    kept = {k: v for k, v in n1.attrs.items() if k not in ('group',)}
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
    return Match((*nodes, n1), (root.outputs[0],), (x, w, b, c, kept, factor))


def match_conv_transpose_scale_1(m: Matcher, root: Node) -> Match | None:
    """product = ConvTranspose(x, w, maybe(b), group=1, attrs=kept); return any_of(Mul(product, c), Div(product, d))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, c in m.orders(root):
        found = finish_conv_transpose_scale_1(m, (root,), product, None, c, root)
        if found is not None:
            return found
    return None


def match_conv_transpose_scale_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    product, d = root.inputs
    return finish_conv_transpose_scale_1(m, (root,), product, d, None, root)


def make_conv_transpose_scale(graph: Graph, res: ResultSpec, x: Result, w: Result, b: Result | None, c: Result | None, kept: Any, factor: Any) -> Any:
    given = as_vector_of(graph, factor, dim_of(graph, w, 1))
    line = graph.make_node('Reciprocal', [given]) if c is None else given
    moved = None if b is None else shifted_bias(graph, b, line, None)
    return graph.make_node('ConvTranspose', [x, scaled_weight(graph, w, line, 1), moved], res.outputs, **kept)


def match_pool_pad(m: Matcher, root: Node) -> Match | None:
    """padded = Pad(x, borders, maybe(value), maybe(axes)); return AveragePool(padded, kernel_shape=window, pads=pads, count_include_pad=counts, attrs=kept)"""
    graph = m.graph
    if len(root.inputs) != 1:
        return None
    window = root.attrs.get('kernel_shape')
    pads = root.attrs.get('pads')
    counts = root.attrs.get('count_include_pad', 0)
    kept = {k: v for k, v in root.attrs.items() if k not in ('kernel_shape', 'pads', 'count_include_pad')}
    padded = root.inputs[0]
    n1 = m.producer(padded, 'Pad')
    if n1 is None or not 2 <= len(n1.inputs) <= 4 or not m.plain(n1, (), _PAD):
        return None
    x, borders = n1.inputs[:2]
    value = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    axes = n1.inputs[3] or None if len(n1.inputs) > 3 else None
    total = summed_pads(graph, x, borders, value, axes, pads)
    if not len(total) > 0:
        m.refuse('len(total) > 0')
        return None
    if not has_explicit_pads(kept):
        m.refuse('has_explicit_pads(kept)')
        return None
    narrow = all([pad < size for pad, size in zip(total, window * 2)])
    if not narrow:
        m.refuse('narrow')
        return None
    counted = counts == 1 or pads is None or (not any(pads))
    if not counted:
        m.refuse('counted')
        return None
    return Match((root, n1), (root.outputs[0],), (x, window, kept, total))


def make_pool_pad(graph: Graph, res: ResultSpec, x: Result, window: Any, kept: Any, total: Any) -> Any:
    return graph.make_node('AveragePool', [x], res.outputs, kernel_shape=window, pads=total, count_include_pad=1, **kept)
