# Generated from specs/rewrites/normalization.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64
from ortable.passes.rewrite.helpers.normalization import is_channels, one_row_axis, trailing_axes
from ortable.passes.rewrite.helpers.numbers import are_moderate, is_filled, is_float32, make_ones, number_of
from ortable.passes.rewrite.helpers.shapes import has_shape, same_shape
from ortable.passes.rewrite.helpers.weights import are_weights, as_vector_of, broadcasts_along
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, dtype_of, is_static, is_wide, rank_of, shape_of, static
from ortable.prelude.values import const, consts, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_BATCH_NORMALIZATION = {'epsilon': 1e-05, 'momentum': 0.9, 'training_mode': 0}
_CAST = {'round_mode': 'up', 'saturate': 1}
_INSTANCE_NORMALIZATION = {'epsilon': 1e-05}
_LAYER_NORMALIZATION = {'axis': -1, 'epsilon': 1e-05, 'stash_type': 1}
_REDUCE_MEAN = {'keepdims': 1, 'noop_with_empty_axes': 0}
_REDUCE_SUM = {'keepdims': 1, 'noop_with_empty_axes': 0}
_RESHAPE = {'allowzero': 0}
_RMSNORMALIZATION = {'axis': -1, 'epsilon': 1e-05, 'stash_type': 1}


def match_batch_norm_add(m: Matcher, root: Node) -> Match | None:
    """normal = BatchNormalization(x, scale, shift, mean, var, epsilon=eps, momentum=_); return Add(normal, c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, c in m.orders(root):
        n1 = m.producer(normal, 'BatchNormalization')
        if n1 is None or len(n1.inputs) != 5 or not m.plain(n1, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
            continue
        eps = n1.attrs.get('epsilon', 1e-05)
        if n1.outputs[0] != normal:
            continue
        x, scale, shift, mean, var = n1.inputs
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not broadcasts_along(graph, c, normal, 1):
            m.refuse('broadcasts_along(c, normal, 1)')
            continue
        if not are_weights(graph, [shift]):
            m.refuse('are_weights([shift])')
            continue
        if not is_static(dim_of(graph, shift, 0)):
            m.refuse('is_static(dim_of(shift, 0))')
            continue
        return Match((root, n1), (root.outputs[0],), (x, scale, shift, mean, var, c, eps))
    return None


def make_batch_norm_add(graph: Graph, res: ResultSpec, x: Result, scale: Result, shift: Result, mean: Result, var: Result, c: Result, eps: Any) -> Any:
    moved = graph.make_node('Add', [shift, as_vector_of(graph, c, dim_of(graph, shift, 0))])
    return graph.make_node('BatchNormalization', [x, scale, moved, mean, var], res.outputs, epsilon=eps)


def match_batch_norm_scale(m: Matcher, root: Node) -> Match | None:
    """normal = BatchNormalization(x, scale, shift, mean, var, epsilon=eps, momentum=_); return Mul(normal, c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, c in m.orders(root):
        n1 = m.producer(normal, 'BatchNormalization')
        if n1 is None or len(n1.inputs) != 5 or not m.plain(n1, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
            continue
        eps = n1.attrs.get('epsilon', 1e-05)
        if n1.outputs[0] != normal:
            continue
        x, scale, shift, mean, var = n1.inputs
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        if not broadcasts_along(graph, c, normal, 1):
            m.refuse('broadcasts_along(c, normal, 1)')
            continue
        if not are_moderate(graph, c):
            m.refuse('are_moderate(c)')
            continue
        if not are_weights(graph, [scale, shift]):
            m.refuse('are_weights([scale, shift])')
            continue
        return Match((root, n1), (root.outputs[0],), (x, scale, shift, mean, var, c, eps))
    return None


def make_batch_norm_scale(graph: Graph, res: ResultSpec, x: Result, scale: Result, shift: Result, mean: Result, var: Result, c: Result, eps: Any) -> Any:
    line = as_vector_of(graph, c, dim_of(graph, scale, 0))
    moved = graph.make_node('Mul', [shift, line])
    return graph.make_node('BatchNormalization', [x, graph.make_node('Mul', [scale, line]), moved, mean, var], res.outputs, epsilon=eps)


def match_batch_norm_twice(m: Matcher, root: Node) -> Match | None:
    """first = BatchNormalization(x, scale, shift, mean, var, epsilon=eps, momentum=_); return BatchNormalization(first, scale2, shift2, mean2, var2, epsilon=eps2, momentum=_)"""
    graph = m.graph
    if len(root.inputs) != 5 or not m.plain(root, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps2 = root.attrs.get('epsilon', 1e-05)
    first, scale2, shift2, mean2, var2 = root.inputs
    n1 = m.producer(first, 'BatchNormalization')
    if n1 is None or len(n1.inputs) != 5 or not m.plain(n1, ('epsilon', 'momentum'), _BATCH_NORMALIZATION):
        return None
    eps = n1.attrs.get('epsilon', 1e-05)
    if n1.outputs[0] != first:
        return None
    x, scale, shift, mean, var = n1.inputs
    if not is_wide(graph, x):
        m.refuse('is_wide(x)')
        return None
    if not are_weights(graph, [scale, shift, scale2, shift2, mean2, var2]):
        m.refuse('are_weights([scale, shift, scale2, shift2, mean2, var2])')
        return None
    return Match((root, n1), (root.outputs[0],), (x, scale, shift, mean, var, scale2, shift2, mean2, var2, eps, eps2))


def make_batch_norm_twice(graph: Graph, res: ResultSpec, x: Result, scale: Result, shift: Result, mean: Result, var: Result, scale2: Result, shift2: Result, mean2: Result, var2: Result, eps: Any, eps2: Any) -> Any:
    factor = graph.make_node('Div', [scale2, graph.make_node('Sqrt', [graph.make_node('Add', [var2, const(graph, eps2, dtype_of(graph, var2))])])])
    moved = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sub', [shift, mean2]), factor]), shift2])
    return graph.make_node('BatchNormalization', [x, graph.make_node('Mul', [scale, factor]), moved, mean, var], res.outputs, epsilon=eps)


def match_group_norm(m: Matcher, root: Node) -> Match | None:
    """rows = Reshape(x, _); normal = InstanceNormalization(rows, flat, nothing, epsilon=eps); back = Reshape(normal, _, allowzero=_); return Add(Mul(back, scale), shift)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, shift in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for back, scale in m.orders(n1):
            n2 = m.producer(back, 'Reshape')
            if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, ('allowzero',), _RESHAPE):
                continue
            normal, _ = n2.inputs
            n3 = m.producer(normal, 'InstanceNormalization')
            if n3 is None or len(n3.inputs) != 3 or not m.plain(n3, ('epsilon',), _INSTANCE_NORMALIZATION):
                continue
            eps = n3.attrs.get('epsilon', 1e-05)
            rows, flat, nothing = n3.inputs
            n4 = m.producer(rows, 'Reshape')
            if n4 is None or len(n4.inputs) != 2 or not m.plain(n4, (), _RESHAPE):
                continue
            x, _ = n4.inputs
            if not is_wide(graph, x):
                m.refuse('is_wide(x)')
                continue
            count = dim_of(graph, x, 1)
            groups = dim_of(graph, rows, 1)
            grouped = rank_of(graph, rows) == 3 and rank_of(graph, x) >= 3 and (dim_of(graph, rows, 0) == dim_of(graph, x, 0)) and is_static([groups, count]) and (groups > 0) and (count % groups == 0)
            if not grouped:
                m.refuse('grouped')
                continue
            if not same_shape(graph, x, back):
                m.refuse('same_shape(x, back)')
                continue
            if not is_filled(graph, flat, 1):
                m.refuse('is_filled(flat, 1)')
                continue
            if not is_filled(graph, nothing, 0):
                m.refuse('is_filled(nothing, 0)')
                continue
            if not is_channels(graph, scale, x):
                m.refuse('is_channels(scale, x)')
                continue
            if not is_channels(graph, shift, x):
                m.refuse('is_channels(shift, x)')
                continue
            return Match((root, n1, n2, n3, n4), (root.outputs[0],), (x, scale, shift, eps, count, groups))
    return None


def make_group_norm(graph: Graph, res: ResultSpec, x: Result, scale: Result, shift: Result, eps: Any, count: Any, groups: Any) -> Any:
    gain = reshape_to(graph, scale, [count])
    moved = reshape_to(graph, shift, [count])
    return graph.make_node('GroupNormalization', [x, gain, moved], res.outputs, num_groups=static(groups), epsilon=eps)


def finish_instance_norm_1(m: Matcher, nodes: tuple[Node, ...], x: Any, axes: Any, axes2: Any, eps: Any, root: Any) -> Match | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    if not rank_of(graph, x) >= 4:
        m.refuse('rank_of(x) >= 4')
        return None
    if not trailing_axes(graph, axes, x) == 2 - rank_of(graph, x):
        m.refuse('trailing_axes(axes, x) == 2 - rank_of(x)')
        return None
    if not trailing_axes(graph, axes2, x) == 2 - rank_of(graph, x):
        m.refuse('trailing_axes(axes2, x) == 2 - rank_of(x)')
        return None
    count = dim_of(graph, x, 1)
    if not is_static(count):
        m.refuse('is_static(count)')
        return None
    small = number_of(graph, eps)
    if not 1e-45 < small < float('inf'):
        m.refuse('1e-45 < small < inf')
        return None
    return Match(nodes, (root.outputs[0],), (x, count, small))


def finish_instance_norm_2(m: Matcher, nodes: tuple[Node, ...], n2: Any, centered: Any, x: Any, axes: Any, root: Any) -> Match | None:
    total = n2.inputs[0]
    n4 = m.producer(total, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for r3, eps in m.orders(n4):
        n5 = m.producer(r3, 'ReduceMean')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, (), _REDUCE_MEAN):
            continue
        square, axes2 = n5.inputs
        if not axes2:
            continue
        n6 = m.producer(square, 'Mul')
        if n6 is not None and len(n6.inputs) == 2 and (not n6.attrs):
            for r4, r5 in m.orders(n6):
                if r4 != centered or r5 != centered:
                    continue
                found = finish_instance_norm_1(m, (*nodes, n4, n5, n6), x, axes, axes2, eps, root)
                if found is not None:
                    return found
        n6 = m.producer(square, 'Pow')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        r4, r5 = n6.inputs
        if r4 != centered or not m.number(r5, 2):
            continue
        found = finish_instance_norm_1(m, (*nodes, n4, n5, n6), x, axes, axes2, eps, root)
        if found is not None:
            return found
    return None


def match_instance_norm_1(m: Matcher, root: Node) -> Match | None:
    """mean = ReduceMean(x, axes); centered = Sub(x, mean); square = any_of(Mul(centered, centered), Pow(centered, 2)); total = Add(ReduceMean(square, axes2), eps); return any_of(Div(centered, Sqrt(total)), Mul(centered, Reciprocal(Sqrt(total))))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    centered, r1 = root.inputs
    n1 = m.producer(centered, 'Sub')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    n2 = m.producer(r1, 'Sqrt')
    if n2 is None or len(n2.inputs) != 1 or n2.attrs:
        return None
    x, mean = n1.inputs
    n3 = m.producer(mean, 'ReduceMean')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MEAN):
        return None
    r2, axes = n3.inputs
    if r2 != x or not axes:
        return None
    return finish_instance_norm_2(m, (root, n1, n2, n3), n2, centered, x, axes, root)


def match_instance_norm_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    for centered, r1 in m.orders(root):
        n1 = m.producer(centered, 'Sub')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(r1, 'Reciprocal')
        if n2 is None or len(n2.inputs) != 1 or n2.attrs:
            continue
        x, mean = n1.inputs
        n3 = m.producer(mean, 'ReduceMean')
        if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MEAN):
            continue
        r2, axes = n3.inputs
        if r2 != x or not axes:
            continue
        r3 = n2.inputs[0]
        n4 = m.producer(r3, 'Sqrt')
        if n4 is None or len(n4.inputs) != 1 or n4.attrs:
            continue
        found = finish_instance_norm_2(m, (root, n1, n2, n3, n4), n4, centered, x, axes, root)
        if found is not None:
            return found
    return None


def make_instance_norm(graph: Graph, res: ResultSpec, x: Result, count: Any, small: Any) -> Any:
    one, zero = (consts(graph, [1] * count, float32), consts(graph, [0] * count, float32))
    return graph.make_node('InstanceNormalization', [x, one, zero], res.outputs, epsilon=small)


def match_instance_norm_affine(m: Matcher, root: Node) -> Match | None:
    """normal = InstanceNormalization(x, one, nothing, epsilon=eps); return Add(Mul(normal, scale), shift)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, shift in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for normal, scale in m.orders(n1):
            n2 = m.producer(normal, 'InstanceNormalization')
            if n2 is None or len(n2.inputs) != 3 or not m.plain(n2, ('epsilon',), _INSTANCE_NORMALIZATION):
                continue
            eps = n2.attrs.get('epsilon', 1e-05)
            x, one, nothing = n2.inputs
            if not is_wide(graph, x):
                m.refuse('is_wide(x)')
                continue
            if not is_filled(graph, one, 1):
                m.refuse('is_filled(one, 1)')
                continue
            if not is_filled(graph, nothing, 0):
                m.refuse('is_filled(nothing, 0)')
                continue
            if not are_weights(graph, [scale, shift]):
                m.refuse('are_weights([scale, shift])')
                continue
            if not is_channels(graph, scale, x):
                m.refuse('is_channels(scale, x)')
                continue
            if not is_channels(graph, shift, x):
                m.refuse('is_channels(shift, x)')
                continue
            return Match((root, n1, n2), (root.outputs[0],), (x, scale, shift, eps))
    return None


def make_instance_norm_affine(graph: Graph, res: ResultSpec, x: Result, scale: Result, shift: Result, eps: Any) -> Any:
    gain = reshape_to(graph, scale, [dim_of(graph, x, 1)])
    moved = reshape_to(graph, shift, [dim_of(graph, x, 1)])
    return graph.make_node('InstanceNormalization', [x, gain, moved], res.outputs, epsilon=eps)


def finish_layer_norm_1(m: Matcher, nodes: tuple[Node, ...], x: Any, axes: Any, axes2: Any, eps: Any, root: Any) -> Match | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    axis = trailing_axes(graph, axes, x)
    if not axis < 0:
        m.refuse('axis < 0')
        return None
    if not trailing_axes(graph, axes2, x) == axis:
        m.refuse('trailing_axes(axes2, x) == axis')
        return None
    small = number_of(graph, eps)
    if not 1e-45 < small < float('inf'):
        m.refuse('1e-45 < small < inf')
        return None
    return Match(nodes, (root.outputs[0],), (x, axis, small))


def finish_layer_norm_2(m: Matcher, nodes: tuple[Node, ...], n2: Any, centered: Any, x: Any, axes: Any, root: Any) -> Match | None:
    total = n2.inputs[0]
    n4 = m.producer(total, 'Add')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for r3, eps in m.orders(n4):
        n5 = m.producer(r3, 'ReduceMean')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, (), _REDUCE_MEAN):
            continue
        square, axes2 = n5.inputs
        if not axes2:
            continue
        n6 = m.producer(square, 'Mul')
        if n6 is not None and len(n6.inputs) == 2 and (not n6.attrs):
            for r4, r5 in m.orders(n6):
                if r4 != centered or r5 != centered:
                    continue
                found = finish_layer_norm_1(m, (*nodes, n4, n5, n6), x, axes, axes2, eps, root)
                if found is not None:
                    return found
        n6 = m.producer(square, 'Pow')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        r4, r5 = n6.inputs
        if r4 != centered or not m.number(r5, 2):
            continue
        found = finish_layer_norm_1(m, (*nodes, n4, n5, n6), x, axes, axes2, eps, root)
        if found is not None:
            return found
    return None


def match_layer_norm_1(m: Matcher, root: Node) -> Match | None:
    """mean = ReduceMean(x, axes); centered = Sub(x, mean); square = any_of(Mul(centered, centered), Pow(centered, 2)); total = Add(ReduceMean(square, axes2), eps); return any_of(Div(centered, Sqrt(total)), Mul(centered, Reciprocal(Sqrt(total))))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    centered, r1 = root.inputs
    n1 = m.producer(centered, 'Sub')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    n2 = m.producer(r1, 'Sqrt')
    if n2 is None or len(n2.inputs) != 1 or n2.attrs:
        return None
    x, mean = n1.inputs
    n3 = m.producer(mean, 'ReduceMean')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MEAN):
        return None
    r2, axes = n3.inputs
    if r2 != x or not axes:
        return None
    return finish_layer_norm_2(m, (root, n1, n2, n3), n2, centered, x, axes, root)


def match_layer_norm_2(m: Matcher, root: Node) -> Match | None:
    if len(root.inputs) != 2 or root.attrs:
        return None
    for centered, r1 in m.orders(root):
        n1 = m.producer(centered, 'Sub')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(r1, 'Reciprocal')
        if n2 is None or len(n2.inputs) != 1 or n2.attrs:
            continue
        x, mean = n1.inputs
        n3 = m.producer(mean, 'ReduceMean')
        if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MEAN):
            continue
        r2, axes = n3.inputs
        if r2 != x or not axes:
            continue
        r3 = n2.inputs[0]
        n4 = m.producer(r3, 'Sqrt')
        if n4 is None or len(n4.inputs) != 1 or n4.attrs:
            continue
        found = finish_layer_norm_2(m, (root, n1, n2, n3, n4), n4, centered, x, axes, root)
        if found is not None:
            return found
    return None


def make_layer_norm(graph: Graph, res: ResultSpec, x: Result, axis: Any, small: Any) -> Any:
    return graph.make_node('LayerNormalization', [x, make_ones(graph, shape_of(graph, x)[axis:], x)], res.outputs, axis=axis, epsilon=small)


def match_layer_norm_bias(m: Matcher, root: Node) -> Match | None:
    """normal = LayerNormalization(x, scale, axis=axis, epsilon=eps); return Add(normal, bias)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, bias in m.orders(root):
        n1 = m.producer(normal, 'LayerNormalization')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis', 'epsilon'), _LAYER_NORMALIZATION):
            continue
        axis = n1.attrs.get('axis', -1)
        eps = n1.attrs.get('epsilon', 1e-05)
        if n1.outputs[0] != normal:
            continue
        x, scale = n1.inputs
        if not is_float32(graph, x):
            m.refuse('is_float32(x)')
            continue
        if not has_shape(graph, bias, shape_of(graph, x)[axis:]):
            m.refuse('has_shape(bias, shape_of(x)[axis:])')
            continue
        if not has_shape(graph, scale, shape_of(graph, x)[axis:]):
            m.refuse('has_shape(scale, shape_of(x)[axis:])')
            continue
        return Match((root, n1), (root.outputs[0],), (x, scale, bias, axis, eps))
    return None


def make_layer_norm_bias(graph: Graph, res: ResultSpec, x: Result, scale: Result, bias: Result, axis: Any, eps: Any) -> Any:
    return graph.make_node('LayerNormalization', [x, scale, bias], res.outputs, axis=axis, epsilon=eps)


def match_layer_norm_scale(m: Matcher, root: Node) -> Match | None:
    """normal = LayerNormalization(x, one, axis=axis, epsilon=eps); return Mul(normal, scale)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, scale in m.orders(root):
        n1 = m.producer(normal, 'LayerNormalization')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis', 'epsilon'), _LAYER_NORMALIZATION):
            continue
        axis = n1.attrs.get('axis', -1)
        eps = n1.attrs.get('epsilon', 1e-05)
        if n1.outputs[0] != normal:
            continue
        x, one = n1.inputs
        if not is_float32(graph, x):
            m.refuse('is_float32(x)')
            continue
        if not has_shape(graph, scale, shape_of(graph, x)[axis:]):
            m.refuse('has_shape(scale, shape_of(x)[axis:])')
            continue
        if not is_filled(graph, one, 1):
            m.refuse('is_filled(one, 1)')
            continue
        return Match((root, n1), (root.outputs[0],), (x, scale, axis, eps))
    return None


def make_layer_norm_scale(graph: Graph, res: ResultSpec, x: Result, scale: Result, axis: Any, eps: Any) -> Any:
    return graph.make_node('LayerNormalization', [x, scale], res.outputs, axis=axis, epsilon=eps)


def finish_rms_norm_1(m: Matcher, nodes: tuple[Node, ...], x: Any, axes: Any, eps: Any, root_: Any) -> Match | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    axis = trailing_axes(graph, axes, x)
    if not axis < 0:
        m.refuse('axis < 0')
        return None
    small = number_of(graph, eps)
    if not 1e-45 < small < float('inf'):
        m.refuse('1e-45 < small < inf')
        return None
    return Match(nodes, (root_.outputs[0],), (x, axis, small))


def finish_rms_norm_2(m: Matcher, nodes: tuple[Node, ...], root: Any, x: Any, root_: Any) -> Match | None:
    n1 = m.producer(root, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    total = n1.inputs[0]
    n2 = m.producer(total, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for r1, eps in m.orders(n2):
        n3 = m.producer(r1, 'ReduceMean')
        if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MEAN):
            continue
        square, axes = n3.inputs
        if not axes:
            continue
        n4 = m.producer(square, 'Mul')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            for r2, r3 in m.orders(n4):
                if r2 != x or r3 != x:
                    continue
                found = finish_rms_norm_1(m, (*nodes, n1, n2, n3, n4), x, axes, eps, root_)
                if found is not None:
                    return found
        n4 = m.producer(square, 'Pow')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        r2, r3 = n4.inputs
        if r2 != x or not m.number(r3, 2):
            continue
        found = finish_rms_norm_1(m, (*nodes, n1, n2, n3, n4), x, axes, eps, root_)
        if found is not None:
            return found
    return None


def match_rms_norm_1(m: Matcher, root_: Node) -> Match | None:
    """square = any_of(Mul(x, x), Pow(x, 2)); total = Add(ReduceMean(square, axes), eps); root = Sqrt(total); return any_of(Div(x, root), Mul(x, Reciprocal(root)))"""
    if len(root_.inputs) != 2 or root_.attrs:
        return None
    x, root = root_.inputs
    return finish_rms_norm_2(m, (root_,), root, x, root_)


def match_rms_norm_2(m: Matcher, root_: Node) -> Match | None:
    if len(root_.inputs) != 2 or root_.attrs:
        return None
    for x, r1 in m.orders(root_):
        n1 = m.producer(r1, 'Reciprocal')
        if n1 is None or len(n1.inputs) != 1 or n1.attrs:
            continue
        root = n1.inputs[0]
        found = finish_rms_norm_2(m, (root_, n1), root, x, root_)
        if found is not None:
            return found
    return None


def make_rms_norm(graph: Graph, res: ResultSpec, x: Result, axis: Any, small: Any) -> Any:
    return graph.make_node('RMSNormalization', [x, make_ones(graph, shape_of(graph, x)[axis:], x)], res.outputs, axis=axis, epsilon=small)


def finish_rms_norm_of_one_row_1(m: Matcher, nodes: tuple[Node, ...], x: Any, mean: Any, count: Any, eps: Any, root_: Any) -> Match | None:
    graph = m.graph
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    axis = one_row_axis(graph, x, mean, count)
    if not axis < 0:
        m.refuse('axis < 0')
        return None
    small = number_of(graph, eps)
    if not 1e-45 < small < float('inf'):
        m.refuse('1e-45 < small < inf')
        return None
    return Match(nodes, (root_.outputs[0],), (x, axis, small))


def finish_rms_norm_of_one_row_2(m: Matcher, nodes: tuple[Node, ...], root: Any, x: Any, root_: Any) -> Match | None:
    n1 = m.producer(root, 'Sqrt')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Add')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    for mean, eps in m.orders(n2):
        n3 = m.producer(mean, 'Cast')
        if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('to',), _CAST):
            continue
        if not literal_equals(n3.attrs.get('to'), float32):
            continue
        r2 = n3.inputs[0]
        n4 = m.producer(r2, 'Div')
        if n4 is None or len(n4.inputs) != 2 or n4.attrs:
            continue
        total, count = n4.inputs
        n5 = m.producer(total, 'ReduceSum')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, (), _REDUCE_SUM):
            continue
        r3, r4 = n5.inputs
        if not r4:
            continue
        n6 = m.producer(r3, 'Cast')
        if n6 is None or len(n6.inputs) != 1 or not m.plain(n6, ('to',), _CAST):
            continue
        if not literal_equals(n6.attrs.get('to'), float64):
            continue
        parts = n6.inputs[0]
        n7 = m.producer(parts, 'ReduceSum')
        if n7 is None or len(n7.inputs) != 2 or not m.plain(n7, ('keepdims',), _REDUCE_SUM):
            continue
        if not literal_equals(n7.attrs.get('keepdims', 1), 0):
            continue
        r5, r6 = n7.inputs
        if not r6:
            continue
        n8 = m.producer(r5, 'Reshape')
        if n8 is None or len(n8.inputs) != 2 or not m.plain(n8, (), _RESHAPE):
            continue
        square, _ = n8.inputs
        n9 = m.producer(square, 'Mul')
        if n9 is not None and len(n9.inputs) == 2 and (not n9.attrs):
            for r7, r8 in m.orders(n9):
                if r7 != x or r8 != x:
                    continue
                found = finish_rms_norm_of_one_row_1(m, (*nodes, n1, n2, n3, n4, n5, n6, n7, n8, n9), x, mean, count, eps, root_)
                if found is not None:
                    return found
        n9 = m.producer(square, 'Pow')
        if n9 is None or len(n9.inputs) != 2 or n9.attrs:
            continue
        r7, r8 = n9.inputs
        if r7 != x or not m.number(r8, 2):
            continue
        found = finish_rms_norm_of_one_row_1(m, (*nodes, n1, n2, n3, n4, n5, n6, n7, n8, n9), x, mean, count, eps, root_)
        if found is not None:
            return found
    return None


def match_rms_norm_of_one_row_1(m: Matcher, root_: Node) -> Match | None:
    """square = any_of(Mul(x, x), Pow(x, 2)); parts = ReduceSum(Reshape(square, _), _, keepdims=0); total = ReduceSum(Cast(parts, to=float64), _); mean = Cast(Div(total, count), to=float32); root = Sqrt(Add(mean, eps)); return any_of(Div(x, root), Mul(x, Reciprocal(root)))"""
    if len(root_.inputs) != 2 or root_.attrs:
        return None
    x, root = root_.inputs
    return finish_rms_norm_of_one_row_2(m, (root_,), root, x, root_)


def match_rms_norm_of_one_row_2(m: Matcher, root_: Node) -> Match | None:
    if len(root_.inputs) != 2 or root_.attrs:
        return None
    for x, r1 in m.orders(root_):
        n1 = m.producer(r1, 'Reciprocal')
        if n1 is None or len(n1.inputs) != 1 or n1.attrs:
            continue
        root = n1.inputs[0]
        found = finish_rms_norm_of_one_row_2(m, (root_, n1), root, x, root_)
        if found is not None:
            return found
    return None


def make_rms_norm_of_one_row(graph: Graph, res: ResultSpec, x: Result, axis: Any, small: Any) -> Any:
    return graph.make_node('RMSNormalization', [x, make_ones(graph, shape_of(graph, x)[axis:], x)], res.outputs, axis=axis, epsilon=small)


def match_rms_norm_scale(m: Matcher, root: Node) -> Match | None:
    """normal = RMSNormalization(x, one, axis=axis, epsilon=eps); return Mul(normal, scale)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, scale in m.orders(root):
        n1 = m.producer(normal, 'RMSNormalization')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis', 'epsilon'), _RMSNORMALIZATION):
            continue
        axis = n1.attrs.get('axis', -1)
        eps = n1.attrs.get('epsilon', 1e-05)
        x, one = n1.inputs
        if not is_float32(graph, x):
            m.refuse('is_float32(x)')
            continue
        if not has_shape(graph, scale, shape_of(graph, x)[axis:]):
            m.refuse('has_shape(scale, shape_of(x)[axis:])')
            continue
        if not is_filled(graph, one, 1):
            m.refuse('is_filled(one, 1)')
            continue
        return Match((root, n1), (root.outputs[0],), (x, scale, axis, eps))
    return None


def make_rms_norm_scale(graph: Graph, res: ResultSpec, x: Result, scale: Result, axis: Any, eps: Any) -> Any:
    return graph.make_node('RMSNormalization', [x, scale], res.outputs, axis=axis, epsilon=eps)
