# Generated from specs/aten/pool.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import known_dtype
from ortable.prelude import dim_of, is_used, rank_of, spread
from ortable.prelude_make import const, squeezed, unsqueezed

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Ints, Result


def aten_max_pool2d_with_indices(graph: GraphBuilder, res: Res, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Any:
    """aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""
    kernel = spread(kernel_size, 2)
    strides = spread(stride, 2) if len(stride) > 0 else kernel
    pads = spread(padding, 2) * 2
    extra = [] if rank_of(graph, self) == 4 else [0]
    plane = dim_of(graph, self, -1) * dim_of(graph, self, -2)
    if not is_used(res[1]):
        batched = unsqueezed(graph, self, extra)
        pooled = graph.make_node('MaxPool', [batched], kernel_shape=kernel, strides=strides, pads=pads, dilations=spread(dilation, 2), ceil_mode=ceil_mode)
        return (squeezed(graph, pooled, extra), None)
    # ONNX counts indices over N, C, H and W, torch over H and W
    batched = unsqueezed(graph, self, extra)
    pooled, places = graph.make_node('MaxPool', [batched], 2, kernel_shape=kernel, strides=strides, pads=pads, dilations=spread(dilation, 2), ceil_mode=ceil_mode)
    return (squeezed(graph, pooled, extra), squeezed(graph, graph.make_node('Mod', [places, const(graph, plane, int64)]), extra))


def rule_aten_max_pool2d_with_indices(graph: GraphBuilder, self: Result, kernel_size: Ints, stride: Ints = (), padding: Ints = (0, 0), dilation: Ints = (1, 1), ceil_mode: Bool = False) -> Rules:
    return ((known_dtype(graph, self), None), (int64, None),)
