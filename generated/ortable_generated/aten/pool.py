# Generated from specs/aten/pool.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import int64
from ortable.inference import keep_leading
from ortable.lowerings.pooling import even_tables, pooled_adaptive, pooled_fractional, pooled_max, pooled_mean, window_max
from ortable.prelude.facts import broadcast_ints, dtype_of, is_static, is_used, product, shape_of, static
from ortable.prelude.indexing import put_in_planes
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.values import filled

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result, SymInts


def aten__adaptive_avg_pool2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts) -> Result:
    """aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    return aten_adaptive_avg_pool2d(graph, res, self=self, output_size=output_size)


def aten__adaptive_avg_pool3d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts) -> Result:
    """aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"""
    return aten_adaptive_avg_pool3d(graph, res, self=self, output_size=output_size)


def aten_adaptive_avg_pool1d(graph: Graph, res: ResultSpec, self: Result, output_size: Ints) -> Result:
    """aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"""
    return pooled_adaptive(graph, self, 1, output_size, False)


def aten_adaptive_avg_pool2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts) -> Result:
    """aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    return pooled_adaptive(graph, self, 2, output_size, False)


def aten_adaptive_avg_pool3d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts) -> Result:
    """aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"""
    return pooled_adaptive(graph, self, 3, output_size, False)


def aten_adaptive_max_pool1d(graph: Graph, res: ResultSpec, self: Result, output_size: Ints) -> Any:
    """aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"""
    sizes = broadcast_ints(output_size, 1)
    have = shape_of(graph, self)[-1:]
    uneven = not is_static(have) or any([h == 0 or h % s > 0 for h, s in zip(have, sizes)])
    if product(sizes) == 0:
        graph.case = 1
        shape = [*shape_of(graph, self)[:-1], *sizes]
        return (filled(graph, shape, 0, dtype_of(graph, self)), filled(graph, shape, 0, int64))
    if is_used(res[1]) and uneven:
        graph.case = 2
        both = window_max(graph, self, even_tables(graph, self, sizes), sizes, True)
        return (both[0], both[1])
    graph.case = 3
    parts = [h // s for h, s in zip(static(have), static(sizes))] if is_used(res[1]) else []
    both = pooled_max(graph, self, 1, parts, parts, [0], [1], False, True) if is_used(res[1]) else [pooled_adaptive(graph, self, 1, sizes, True), None]
    return (both[0], both[1])


def aten_adaptive_max_pool2d(graph: Graph, res: ResultSpec, self: Result, output_size: Ints) -> Any:
    """aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
    sizes = broadcast_ints(output_size, 2)
    have = shape_of(graph, self)[-2:]
    uneven = not is_static(have) or any([h == 0 or h % s > 0 for h, s in zip(have, sizes)])
    if product(sizes) == 0:
        graph.case = 1
        shape = [*shape_of(graph, self)[:-2], *sizes]
        return (filled(graph, shape, 0, dtype_of(graph, self)), filled(graph, shape, 0, int64))
    if is_used(res[1]) and uneven:
        graph.case = 2
        both = window_max(graph, self, even_tables(graph, self, sizes), sizes, True)
        return (both[0], both[1])
    graph.case = 3
    parts = [h // s for h, s in zip(static(have), static(sizes))] if is_used(res[1]) else []
    both = pooled_max(graph, self, 2, parts, parts, [0], [1], False, True) if is_used(res[1]) else [pooled_adaptive(graph, self, 2, sizes, True), None]
    return (both[0], both[1])


def aten_adaptive_max_pool3d(graph: Graph, res: ResultSpec, self: Result, output_size: Ints) -> Any:
    """aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)"""
    sizes = broadcast_ints(output_size, 3)
    have = shape_of(graph, self)[-3:]
    uneven = not is_static(have) or any([h == 0 or h % s > 0 for h, s in zip(have, sizes)])
    if product(sizes) == 0:
        graph.case = 1
        shape = [*shape_of(graph, self)[:-3], *sizes]
        return (filled(graph, shape, 0, dtype_of(graph, self)), filled(graph, shape, 0, int64))
    if is_used(res[1]) and uneven:
        graph.case = 2
        both = window_max(graph, self, even_tables(graph, self, sizes), sizes, True)
        return (both[0], both[1])
    graph.case = 3
    parts = [h // s for h, s in zip(static(have), static(sizes))] if is_used(res[1]) else []
    both = pooled_max(graph, self, 3, parts, parts, [0], [1], False, True) if is_used(res[1]) else [pooled_adaptive(graph, self, 3, sizes, True), None]
    return (both[0], both[1])


def aten_avg_pool1d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: Bool = False, count_include_pad: Bool = True) -> Result:
    """aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor"""
    return pooled_mean(graph, self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def aten_avg_pool2d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), ceil_mode: Bool = False, count_include_pad: Bool = True, divisor_override: Int | None = None) -> Result:
    """aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""
    return pooled_mean(graph, self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def aten_avg_pool3d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), ceil_mode: Bool = False, count_include_pad: Bool = True, divisor_override: Int | None = None) -> Result:
    """aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""
    return pooled_mean(graph, self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def aten_fractional_max_pool2d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, output_size: Ints, random_samples: Result) -> Any:
    """aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)"""
    result = pooled_fractional(graph, self, broadcast_ints(kernel_size, 2), broadcast_ints(output_size, 2), random_samples)
    return (result[0], result[1])


def aten_fractional_max_pool3d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, output_size: Ints, random_samples: Result) -> Any:
    """aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)"""
    result = pooled_fractional(graph, self, broadcast_ints(kernel_size, 3), broadcast_ints(output_size, 3), random_samples)
    return (result[0], result[1])


def aten_max_pool1d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: Bool = False) -> Result:
    """aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor"""
    return pooled_max(graph, self, 1, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


def aten_max_pool1d_with_indices(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: Bool = False) -> Any:
    """aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)"""
    both = is_used(res[1])
    result = pooled_max(graph, self, 1, kernel_size, stride, padding, dilation, ceil_mode, both)
    return (result[0], result[1] if both else None)


def aten_max_pool2d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Result:
    """aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"""
    return pooled_max(graph, self, 2, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


def aten_max_pool2d_with_indices(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Any:
    """aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""
    both = is_used(res[1])
    result = pooled_max(graph, self, 2, kernel_size, stride, padding, dilation, ceil_mode, both)
    return (result[0], result[1] if both else None)


def aten_max_pool3d(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), dilation: Ints = (1, 1, 1), ceil_mode: Bool = False) -> Result:
    """aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor"""
    return pooled_max(graph, self, 3, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


def aten_max_pool3d_with_indices(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), dilation: Ints = (1, 1, 1), ceil_mode: Bool = False) -> Any:
    """aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""
    both = is_used(res[1])
    result = pooled_max(graph, self, 3, kernel_size, stride, padding, dilation, ceil_mode, both)
    return (result[0], result[1] if both else None)


def aten_max_unpool2d(graph: Graph, res: ResultSpec, self: Result, indices: Result, output_size: SymInts) -> Result:
    """aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor"""
    return put_in_planes(graph, [*shape_of(graph, self)[:-2], *output_size], 2, indices, self, 'none')


def aten_max_unpool3d(graph: Graph, res: ResultSpec, self: Result, indices: Result, output_size: SymInts, stride: Ints, padding: Ints) -> Result:
    """aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor"""
    return put_in_planes(graph, [*shape_of(graph, self)[:-3], *output_size], 3, indices, self, 'none')


def check_aten_max_unpool2d(graph: Graph, self: Result, indices: Result, output_size: SymInts) -> list[DataCheck]:
    return [
        DataCheck(indices, 0, product(output_size), 'RuntimeError', 'Found an invalid max index: {value}', None),
    ]


def check_aten_max_unpool3d(graph: Graph, self: Result, indices: Result, output_size: SymInts, stride: Ints, padding: Ints) -> list[DataCheck]:
    return [
        DataCheck(indices, 0, product(output_size), 'RuntimeError', 'Found an invalid max index: {value}', None),
    ]


def rule_aten__adaptive_avg_pool2d(graph: Graph, self: Result, output_size: SymInts) -> Rules:
    return rule_aten_adaptive_avg_pool2d(graph, self=self, output_size=output_size)


def rule_aten__adaptive_avg_pool3d(graph: Graph, self: Result, output_size: SymInts) -> Rules:
    return rule_aten_adaptive_avg_pool3d(graph, self=self, output_size=output_size)


def rule_aten_adaptive_avg_pool1d(graph: Graph, self: Result, output_size: Ints) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 1, broadcast_ints(output_size, 1))),)


def rule_aten_adaptive_avg_pool2d(graph: Graph, self: Result, output_size: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 2, broadcast_ints(output_size, 2))),)


def rule_aten_adaptive_avg_pool3d(graph: Graph, self: Result, output_size: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 3, broadcast_ints(output_size, 3))),)


def rule_aten_adaptive_max_pool1d(graph: Graph, self: Result, output_size: Ints) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 1, broadcast_ints(output_size, 1))), (int64, keep_leading(shape_or_none(graph, self), 0 - 1, broadcast_ints(output_size, 1))),)


def rule_aten_adaptive_max_pool2d(graph: Graph, self: Result, output_size: Ints) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 2, broadcast_ints(output_size, 2))), (int64, keep_leading(shape_or_none(graph, self), 0 - 2, broadcast_ints(output_size, 2))),)


def rule_aten_adaptive_max_pool3d(graph: Graph, self: Result, output_size: Ints) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 3, broadcast_ints(output_size, 3))), (int64, keep_leading(shape_or_none(graph, self), 0 - 3, broadcast_ints(output_size, 3))),)


def rule_aten_avg_pool1d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: Bool = False, count_include_pad: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_avg_pool2d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), ceil_mode: Bool = False, count_include_pad: Bool = True, divisor_override: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_avg_pool3d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), ceil_mode: Bool = False, count_include_pad: Bool = True, divisor_override: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_fractional_max_pool2d(graph: Graph, self: Result, kernel_size: Ints, output_size: Ints, random_samples: Result) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten_fractional_max_pool3d(graph: Graph, self: Result, kernel_size: Ints, output_size: Ints, random_samples: Result) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten_max_pool1d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_max_pool1d_with_indices(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten_max_pool2d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_max_pool2d_with_indices(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten_max_pool3d(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), dilation: Ints = (1, 1, 1), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_max_pool3d_with_indices(graph: Graph, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0, 0), dilation: Ints = (1, 1, 1), ceil_mode: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten_max_unpool2d(graph: Graph, self: Result, indices: Result, output_size: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 2, output_size)),)


def rule_aten_max_unpool3d(graph: Graph, self: Result, indices: Result, output_size: SymInts, stride: Ints, padding: Ints) -> Rules:
    return ((dtype_or_none(graph, self), keep_leading(shape_or_none(graph, self), 0 - 3, output_size)),)
