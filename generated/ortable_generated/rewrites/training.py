# Generated from specs/rewrites/training.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.indices import class_axis
from ortable.passes.rewrite.helpers.numbers import ints_of, number_of
from ortable.passes.rewrite.helpers.shapes import broadcasts_into, has_shape, is_one_element, known_rank, one_axis, producer_of, same_shape, with_inputs
from ortable.passes.rewrite.helpers.slices import adjacent_pads, concat_padded
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import axes_of, count_of, dtype_of, fits_attribute, is_bool, is_float, is_wide, shape_of, static
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}
_PAD = {'mode': 'constant'}
_REDUCE_MAX = {'keepdims': 1, 'noop_with_empty_axes': 0}
_REDUCE_MEAN = {'keepdims': 1, 'noop_with_empty_axes': 0}
_REDUCE_MIN = {'keepdims': 1, 'noop_with_empty_axes': 0}
_REDUCE_SUM = {'keepdims': 1, 'noop_with_empty_axes': 0}
_RESHAPE = {'allowzero': 0}


def match_cross_entropy_gradient(m: Matcher, root: Node) -> Match | None:
    """hot = Equal(indices, classes); picked = Where(hot, value, 0.0); total = ReduceSum(picked, axes); return Sub(picked, Mul(Exp(x), total))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    picked, r1 = root.inputs
    n1 = m.producer(picked, 'Where')
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    n2 = m.producer(r1, 'Mul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    hot, value, r2 = n1.inputs
    if not m.number(r2, 0.0):
        return None
    n3 = m.producer(hot, 'Equal')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    for indices, classes in m.orders(n3):
        for r3, total in m.orders(n2):
            n4 = m.producer(r3, 'Exp')
            if n4 is None or len(n4.inputs) != 1 or n4.attrs:
                continue
            n5 = m.producer(total, 'ReduceSum')
            if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, (), _REDUCE_SUM):
                continue
            x = n4.inputs[0]
            r4, axes = n5.inputs
            if r4 != picked or not axes:
                continue
            if not is_wide(graph, x):
                m.refuse('is_wide(x)')
                continue
            axis = class_axis(graph, classes, indices)
            if not axis >= 0:
                m.refuse('axis >= 0')
                continue
            if not one_axis(graph, axes, x) == axis:
                m.refuse('one_axis(axes, x) == axis')
                continue
            if not broadcasts_into(graph, value, indices):
                m.refuse('broadcasts_into(value, indices)')
                continue
            count = static(count_of(graph, classes))
            sizes = [*shape_of(graph, indices)[:axis], count, *shape_of(graph, indices)[axis + 1:]]
            if not has_shape(graph, x, sizes):
                m.refuse('has_shape(x, sizes)')
                continue
            if not dtype_of(graph, indices) in [6, 7]:
                m.refuse('dtype_of(indices) in [6, 7]')
                continue
            if not count >= 128:
                m.refuse('count >= 128')
                continue
            return Match((root, n1, n2, n3, n4, n5), (root.outputs[0],), (indices, value, x, axis, count))
    return None


def make_cross_entropy_gradient(graph: Graph, res: ResultSpec, indices: Result, value: Result, x: Result, axis: Any, count: Any) -> Any:
    dtype = dtype_of(graph, indices)
    none = const(graph, 0, dtype)
    inside = graph.make_node('And', [graph.make_node('GreaterOrEqual', [indices, none]), graph.make_node('Less', [indices, const(graph, count, dtype)])])
    out = graph.make_node('Where', [inside, value, const(graph, 0, dtype_of(graph, x))])
    others = graph.make_node('Mul', [graph.make_node('Exp', [x]), graph.make_node('Neg', [out])])
    place = graph.make_node('Where', [inside, indices, none])
    return graph.make_node('ScatterElements', [others, place, out], res.outputs, axis=axis, reduction='add')


def match_dropout_gradient(m: Matcher, root: Node) -> Match | None:
    """return Mul(Mul(g, Cast(mask, to=dtype)), scale)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, scale in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for g, r2 in m.orders(n1):
            n2 = m.producer(r2, 'Cast')
            if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('to',), _CAST):
                continue
            dtype = n2.attrs.get('to')
            mask = n2.inputs[0]
            if not is_bool(graph, mask):
                m.refuse('is_bool(mask)')
                continue
            if not is_float(graph, g):
                m.refuse('is_float(g)')
                continue
            if not dtype == dtype_of(graph, g):
                m.refuse('dtype == dtype_of(g)')
                continue
            factor = number_of(graph, scale)
            if not 0 < factor < float('inf'):
                m.refuse('0 < factor < inf')
                continue
            if not is_one_element(graph, scale, mask):
                m.refuse('is_one_element(scale, mask)')
                continue
            return Match((root, n1, n2), (root.outputs[0],), (mask, g, scale))
    return None


def make_dropout_gradient(graph: Graph, res: ResultSpec, mask: Result, g: Result, scale: Result) -> Any:
    return graph.make_node('Mul', [g, graph.make_node('Where', [mask, scale, const(graph, 0, dtype_of(graph, g))])], res.outputs)


def match_expand_of_product(m: Matcher, root: Node) -> Match | None:
    """return Mul(Expand(x, sizes), c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, c in m.orders(root):
        n1 = m.producer(r1, 'Expand')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        x, sizes = n1.inputs
        if not is_one_element(graph, c, x):
            m.refuse('is_one_element(c, x)')
            continue
        return Match((root, n1), (root.outputs[0],), (x, sizes, c))
    return None


def make_expand_of_product(graph: Graph, res: ResultSpec, x: Result, sizes: Result, c: Result) -> Any:
    return graph.make_node('Expand', [graph.make_node('Mul', [x, c]), sizes], res.outputs)


def match_expand_of_quotient(m: Matcher, root: Node) -> Match | None:
    """return Div(Expand(x, sizes), c)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    r1, c = root.inputs
    n1 = m.producer(r1, 'Expand')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    x, sizes = n1.inputs
    if not is_float(graph, x):
        m.refuse('is_float(x)')
        return None
    if not is_one_element(graph, c, x):
        m.refuse('is_one_element(c, x)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, sizes, c))


def make_expand_of_quotient(graph: Graph, res: ResultSpec, x: Result, sizes: Result, c: Result) -> Any:
    return graph.make_node('Expand', [graph.make_node('Div', [x, c]), sizes], res.outputs)


def finish_factor_of_product_1(m: Matcher, nodes: tuple[Node, ...], n3: Any, c: Any, y: Any, wide: Any, root: Any, sizes: Any, zero: Any) -> Match | None:
    graph = m.graph
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    a, b = n3.inputs
    if not is_wide(graph, a):
        m.refuse('is_wide(a)')
        return None
    if not known_rank(graph, a) == 2:
        m.refuse('known_rank(a) == 2')
        return None
    if not known_rank(graph, b) == 2:
        m.refuse('known_rank(b) == 2')
        return None
    factor = number_of(graph, c)
    if not 1e-06 <= abs(factor) <= 2:
        m.refuse('1e-6 <= abs(factor) <= 2')
        return None
    if not broadcasts_into(graph, y, wide):
        m.refuse('broadcasts_into(y, wide)')
        return None
    if not is_one_element(graph, c, wide):
        m.refuse('is_one_element(c, wide)')
        return None
    if not fits_attribute(graph, factor, a):
        m.refuse('fits_attribute(factor, a)')
        return None
    return Match(nodes, (root.outputs[0],), (a, b, sizes, y, zero, factor))


def match_factor_of_product(m: Matcher, root: Node) -> Match | None:
    """wide = optional(Reshape(MatMul(a, b), sizes, allowzero=zero)); return Mul(Mul(wide, y), c)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, c in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for wide, y in m.orders(n1):
            n2 = m.producer(wide, 'Reshape')
            if n2 is not None and len(n2.inputs) == 2 and m.plain(n2, ('allowzero',), _RESHAPE):
                zero = n2.attrs.get('allowzero', 0)
                r2, sizes = n2.inputs
                n3 = m.producer(r2, 'MatMul')
                found = finish_factor_of_product_1(m, (root, n1, n2, n3), n3, c, y, wide, root, sizes, zero)
                if found is not None:
                    return found
            n2 = m.producer(wide, 'MatMul')
            found = finish_factor_of_product_1(m, (root, n1, n2), n2, c, y, wide, root, None, None)
            if found is not None:
                return found
    return None


def make_factor_of_product(graph: Graph, res: ResultSpec, a: Result, b: Result, sizes: Result | None, y: Result, zero: Any, factor: Any) -> Any:
    out = graph.make_node('Gemm', [a, b], alpha=factor)
    whole = out if sizes is None else graph.make_node('Reshape', [out, sizes], allowzero=zero)
    return graph.make_node('Mul', [whole, y], res.outputs)


def match_factor_of_smaller(m: Matcher, root: Node) -> Match | None:
    """return Mul(small, Mul(x, c))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for small, r1 in m.orders(root):
        n1 = m.producer(r1, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, c in m.orders(n1):
            if not is_wide(graph, x):
                m.refuse('is_wide(x)')
                continue
            factor = number_of(graph, c)
            if not -float('inf') < factor < float('inf'):
                m.refuse('-inf < factor < inf')
                continue
            if not not -float('inf') < number_of(graph, small) < float('inf'):
                m.refuse('not -inf < number_of(small) < inf')
                continue
            if not 1e-06 <= abs(factor) <= 2:
                m.refuse('1e-6 <= abs(factor) <= 2')
                continue
            if not broadcasts_into(graph, small, x):
                m.refuse('broadcasts_into(small, x)')
                continue
            if not not broadcasts_into(graph, x, small):
                m.refuse('not broadcasts_into(x, small)')
                continue
            if not is_one_element(graph, c, small):
                m.refuse('is_one_element(c, small)')
                continue
            return Match((root, n1), (root.outputs[0],), (x, c, small))
    return None


def make_factor_of_smaller(graph: Graph, res: ResultSpec, x: Result, c: Result, small: Result) -> Any:
    return graph.make_node('Mul', [graph.make_node('Mul', [small, c]), x], res.outputs)


def finish_gelu_tanh_gradient_1(m: Matcher, nodes: tuple[Node, ...], n14: Any, x: Any, c: Any, k: Any, g: Any, t: Any, root: Any) -> Match | None:
    graph = m.graph
    for r20, r21 in m.orders(n14):
        if r20 != x or not m.number(r21, 0.5):
            continue
        if not is_wide(graph, x):
            m.refuse('is_wide(x)')
            continue
        slope = number_of(graph, c)
        if not 0 < slope < float('inf'):
            m.refuse('0 < slope < inf')
            continue
        cubic = number_of(graph, k)
        if not 0 < cubic < float('inf'):
            m.refuse('0 < cubic < inf')
            continue
        if not same_shape(graph, g, x):
            m.refuse('same_shape(g, x)')
            continue
        if not same_shape(graph, t, x):
            m.refuse('same_shape(t, x)')
            continue
        return Match(nodes, (root.outputs[0],), (x, g, t, slope, cubic))
    return None


def match_gelu_tanh_gradient(m: Matcher, root: Node) -> Match | None:
    """left = Mul(Mul(g, Mul(x, 0.5)), Sub(1.0, Mul(t, t))); inner = Mul(left, c); cube = Mul(Mul(inner, k), Mul(Mul(x, x), 3.0)); right = Mul(Mul(g, Add(t, 1.0)), 0.5); return any_of(Add(Add(inner, cube), right), Add(Add(inner, right), cube))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, right in m.orders(root):
        n1 = m.producer(r1, 'Add')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(right, 'Mul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for inner, cube in m.orders(n1):
            n3 = m.producer(inner, 'Mul')
            if n3 is None or len(n3.inputs) != 2 or n3.attrs:
                continue
            n4 = m.producer(cube, 'Mul')
            if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                continue
            for r2, r3 in m.orders(n2):
                if not m.number(r3, 0.5):
                    continue
                n5 = m.producer(r2, 'Mul')
                if n5 is None or len(n5.inputs) != 2 or n5.attrs:
                    continue
                for left, c in m.orders(n3):
                    n6 = m.producer(left, 'Mul')
                    if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                        continue
                    for r4, r5 in m.orders(n4):
                        n7 = m.producer(r4, 'Mul')
                        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                            continue
                        n8 = m.producer(r5, 'Mul')
                        if n8 is None or len(n8.inputs) != 2 or n8.attrs:
                            continue
                        for g, r6 in m.orders(n5):
                            n9 = m.producer(r6, 'Add')
                            if n9 is None or len(n9.inputs) != 2 or n9.attrs:
                                continue
                            for r7, r8 in m.orders(n6):
                                n10 = m.producer(r7, 'Mul')
                                if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                                    continue
                                n11 = m.producer(r8, 'Sub')
                                if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                                    continue
                                r9, r10 = n11.inputs
                                if not m.number(r9, 1.0):
                                    continue
                                n12 = m.producer(r10, 'Mul')
                                if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                                    continue
                                for r11, k in m.orders(n7):
                                    if r11 != inner:
                                        continue
                                    for r12, r13 in m.orders(n8):
                                        if not m.number(r13, 3.0):
                                            continue
                                        n13 = m.producer(r12, 'Mul')
                                        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
                                            continue
                                        for t, r14 in m.orders(n9):
                                            if not m.number(r14, 1.0):
                                                continue
                                            for r15, r16 in m.orders(n10):
                                                if r15 != g:
                                                    continue
                                                n14 = m.producer(r16, 'Mul')
                                                if n14 is None or len(n14.inputs) != 2 or n14.attrs:
                                                    continue
                                                for r17, r18 in m.orders(n12):
                                                    if r17 != t or r18 != t:
                                                        continue
                                                    for x, r19 in m.orders(n13):
                                                        if r19 != x:
                                                            continue
                                                        found = finish_gelu_tanh_gradient_1(m, (root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14), n14, x, c, k, g, t, root)
                                                        if found is not None:
                                                            return found
    for r1, cube in m.orders(root):
        n1 = m.producer(r1, 'Add')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(cube, 'Mul')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        for inner, right in m.orders(n1):
            n3 = m.producer(inner, 'Mul')
            if n3 is None or len(n3.inputs) != 2 or n3.attrs:
                continue
            n4 = m.producer(right, 'Mul')
            if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                continue
            for r2, r3 in m.orders(n2):
                n5 = m.producer(r2, 'Mul')
                if n5 is None or len(n5.inputs) != 2 or n5.attrs:
                    continue
                n6 = m.producer(r3, 'Mul')
                if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                    continue
                for left, c in m.orders(n3):
                    n7 = m.producer(left, 'Mul')
                    if n7 is None or len(n7.inputs) != 2 or n7.attrs:
                        continue
                    for r4, r5 in m.orders(n4):
                        if not m.number(r5, 0.5):
                            continue
                        n8 = m.producer(r4, 'Mul')
                        if n8 is None or len(n8.inputs) != 2 or n8.attrs:
                            continue
                        for r6, k in m.orders(n5):
                            if r6 != inner:
                                continue
                            for r7, r8 in m.orders(n6):
                                if not m.number(r8, 3.0):
                                    continue
                                n9 = m.producer(r7, 'Mul')
                                if n9 is None or len(n9.inputs) != 2 or n9.attrs:
                                    continue
                                for r9, r10 in m.orders(n7):
                                    n10 = m.producer(r9, 'Mul')
                                    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                                        continue
                                    n11 = m.producer(r10, 'Sub')
                                    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                                        continue
                                    r11, r12 = n11.inputs
                                    if not m.number(r11, 1.0):
                                        continue
                                    n12 = m.producer(r12, 'Mul')
                                    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                                        continue
                                    for g, r13 in m.orders(n8):
                                        n13 = m.producer(r13, 'Add')
                                        if n13 is None or len(n13.inputs) != 2 or n13.attrs:
                                            continue
                                        for x, r14 in m.orders(n9):
                                            if r14 != x:
                                                continue
                                            for r15, r16 in m.orders(n10):
                                                if r15 != g:
                                                    continue
                                                n14 = m.producer(r16, 'Mul')
                                                if n14 is None or len(n14.inputs) != 2 or n14.attrs:
                                                    continue
                                                for t, r17 in m.orders(n12):
                                                    if r17 != t:
                                                        continue
                                                    for r18, r19 in m.orders(n13):
                                                        if r18 != t or not m.number(r19, 1.0):
                                                            continue
                                                        found = finish_gelu_tanh_gradient_1(m, (root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14), n14, x, c, k, g, t, root)
                                                        if found is not None:
                                                            return found
    return None


def make_gelu_tanh_gradient(graph: Graph, res: ResultSpec, x: Result, g: Result, t: Result, slope: Any, cubic: Any) -> Any:
    dtype = dtype_of(graph, x)
    bend = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Mul', [x, x]), const(graph, slope * cubic * 1.5, dtype)]), const(graph, slope * 0.5, dtype)])
    left = graph.make_node('Mul', [graph.make_node('Mul', [x, bend]), graph.make_node('Sub', [const(graph, 1.0, dtype), graph.make_node('Mul', [t, t])])])
    half = const(graph, 0.5, dtype)
    return graph.make_node('Add', [graph.make_node('Mul', [g, left]), graph.make_node('Mul', [g, graph.make_node('Add', [graph.make_node('Mul', [t, half]), half])])], res.outputs)


def finish_reduce_squeeze_1(m: Matcher, nodes: tuple[Node, ...], n1: Any, gone: Any, total: Any, root: Any) -> Match | None:
    graph = m.graph
    if not literal_equals(n1.attrs.get('keepdims', 1), 1):
        return None
    x, axes = n1.inputs
    if not axes:
        return None
    summed = ints_of(graph, axes)
    dropped = ints_of(graph, gone)
    same = summed is not None and dropped is not None and (len(summed) > 0) and (axes_of(graph, total, summed) == axes_of(graph, total, dropped))
    if not same:
        m.refuse('same')
        return None
    return Match(nodes, (root.outputs[0],), (x, axes, total))


def match_reduce_squeeze(m: Matcher, root: Node) -> Match | None:
    """total = any_of(ReduceSum(x, axes, keepdims=1), ReduceMean(x, axes, keepdims=1), ReduceMax(x, axes, keepdims=1), ReduceMin(x, axes, keepdims=1)); return Squeeze(total, gone)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    total, gone = root.inputs
    if not gone:
        return None
    n1 = m.producer(total, 'ReduceSum')
    if n1 is not None and len(n1.inputs) == 2 and m.plain(n1, ('keepdims',), _REDUCE_SUM):
        found = finish_reduce_squeeze_1(m, (root, n1), n1, gone, total, root)
        if found is not None:
            return found
    n1 = m.producer(total, 'ReduceMean')
    if n1 is not None and len(n1.inputs) == 2 and m.plain(n1, ('keepdims',), _REDUCE_MEAN):
        found = finish_reduce_squeeze_1(m, (root, n1), n1, gone, total, root)
        if found is not None:
            return found
    n1 = m.producer(total, 'ReduceMax')
    if n1 is not None and len(n1.inputs) == 2 and m.plain(n1, ('keepdims',), _REDUCE_MAX):
        found = finish_reduce_squeeze_1(m, (root, n1), n1, gone, total, root)
        if found is not None:
            return found
    n1 = m.producer(total, 'ReduceMin')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('keepdims',), _REDUCE_MIN):
        return None
    return finish_reduce_squeeze_1(m, (root, n1), n1, gone, total, root)


def make_reduce_squeeze(graph: Graph, res: ResultSpec, x: Result, axes: Result, total: Result) -> Any:
    return with_inputs(graph, producer_of(graph, total), [x, axes], keepdims=0)


def match_silu_gradient(m: Matcher, root: Node) -> Match | None:
    """s = Sigmoid(x); y = Mul(x, s); slope = Mul(s, Add(1.0, Mul(x, Sub(1.0, s)))); return (slope, y)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for s, r1 in m.orders(root):
        n1 = m.producer(s, 'Sigmoid')
        if n1 is None or len(n1.inputs) != 1 or n1.attrs:
            continue
        n2 = m.producer(r1, 'Add')
        if n2 is None or len(n2.inputs) != 2 or n2.attrs:
            continue
        x = n1.inputs[0]
        for r2, r3 in m.orders(n2):
            if not m.number(r2, 1.0):
                continue
            n3 = m.producer(r3, 'Mul')
            if n3 is None or len(n3.inputs) != 2 or n3.attrs:
                continue
            for r4, r5 in m.orders(n3):
                if r4 != x:
                    continue
                n4 = m.producer(r5, 'Sub')
                if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                    continue
                r6, r7 = n4.inputs
                if not m.number(r6, 1.0) or r7 != s:
                    continue
                for n5 in m.readers(s, 'Mul'):
                    if n5 is n3 or n5 is root or len(n5.inputs) != 2 or n5.attrs:
                        continue
                    for r8, r9 in m.orders(n5):
                        if r8 != x or r9 != s:
                            continue
                        return Match((root, n1, n2, n3, n4, n5), (root.outputs[0], n5.outputs[0]), (x,))
    return None


def make_silu_gradient(graph: Graph, res: ResultSpec, x: Result) -> Any:
    s = graph.make_node('Sigmoid', [x])
    y = graph.make_node('Mul', [x, s])
    return (graph.make_node('Add', [s, graph.make_node('Mul', [y, graph.make_node('Sub', [const(graph, 1.0, dtype_of(graph, x)), s])])]), y)


def match_sum_of_negated(m: Matcher, root: Node) -> Match | None:
    """return ReduceSum(Neg(x), axes, attrs=kept)"""
    graph = m.graph
    if len(root.inputs) != 2:
        return None
    kept = dict(root.attrs)
    r1, axes = root.inputs
    if not axes:
        return None
    n1 = m.producer(r1, 'Neg')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    if not is_float(graph, x):
        m.refuse('is_float(x)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, axes, kept))


def make_sum_of_negated(graph: Graph, res: ResultSpec, x: Result, axes: Result, kept: Any) -> Any:
    return graph.make_node('Neg', [graph.make_node('ReduceSum', [x, axes], **kept)], res.outputs)


def finish_sum_of_padded_1(m: Matcher, nodes: tuple[Node, ...], fill: Any, zero: Any, first: Any, pads: Any, axes: Any, second: Any, more: Any, others: Any, root: Any, y: Any) -> Match | None:
    graph = m.graph
    if not (fill is None or number_of(graph, fill) == 0):
        m.refuse('fill is None or number_of(fill) == 0')
        return None
    if not (zero is None or number_of(graph, zero) == 0):
        m.refuse('zero is None or number_of(zero) == 0')
        return None
    side = adjacent_pads(graph, first, pads, axes, second, more, others)
    if not side is not None:
        m.refuse('side is not None')
        return None
    return Match(nodes, (root.outputs[0],), (first, second, y, side))


def match_sum_of_padded(m: Matcher, root: Node) -> Match | None:
    """left = Pad(first, pads, maybe(fill), maybe(axes)); right = Pad(second, more, maybe(zero), maybe(others)); return any_of(Add(left, right), Add(Add(y, left), right))"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for left, right in m.orders(root):
        n1 = m.producer(left, 'Pad')
        if n1 is None or not 2 <= len(n1.inputs) <= 4 or not m.plain(n1, (), _PAD):
            continue
        n2 = m.producer(right, 'Pad')
        if n2 is None or not 2 <= len(n2.inputs) <= 4 or not m.plain(n2, (), _PAD):
            continue
        first, pads = n1.inputs[:2]
        fill = n1.inputs[2] or None if len(n1.inputs) > 2 else None
        axes = n1.inputs[3] or None if len(n1.inputs) > 3 else None
        second, more = n2.inputs[:2]
        zero = n2.inputs[2] or None if len(n2.inputs) > 2 else None
        others = n2.inputs[3] or None if len(n2.inputs) > 3 else None
        found = finish_sum_of_padded_1(m, (root, n1, n2), fill, zero, first, pads, axes, second, more, others, root, None)
        if found is not None:
            return found
    for r1, right in m.orders(root):
        n1 = m.producer(r1, 'Add')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        n2 = m.producer(right, 'Pad')
        if n2 is None or not 2 <= len(n2.inputs) <= 4 or not m.plain(n2, (), _PAD):
            continue
        second, more = n2.inputs[:2]
        zero = n2.inputs[2] or None if len(n2.inputs) > 2 else None
        others = n2.inputs[3] or None if len(n2.inputs) > 3 else None
        for y, left in m.orders(n1):
            n3 = m.producer(left, 'Pad')
            if n3 is None or not 2 <= len(n3.inputs) <= 4 or not m.plain(n3, (), _PAD):
                continue
            first, pads = n3.inputs[:2]
            fill = n3.inputs[2] or None if len(n3.inputs) > 2 else None
            axes = n3.inputs[3] or None if len(n3.inputs) > 3 else None
            found = finish_sum_of_padded_1(m, (root, n1, n2, n3), fill, zero, first, pads, axes, second, more, others, root, y)
            if found is not None:
                return found
    return None


def make_sum_of_padded(graph: Graph, res: ResultSpec, first: Result, second: Result, y: Result | None, side: Any) -> Any:
    both = concat_padded(graph, first, second, side)
    return both if y is None else graph.make_node('Add', [y, both], res.outputs)
