# Generated from specs/aten/channels.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import known_dtype, known_shape
from ortable.prelude import axis_of, dtype_of, rank_of, shape_of, static, swapped
from ortable.prelude_make import cast, consts, permuted, reshape_to
from ortable.prelude_nn import without

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Int, Result, SymInt


def aten__weight_norm_interface(graph: GraphBuilder, res: Res, v: Result, g: Result, dim: Int = 0) -> Any:
    """aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)"""
    axes = without([axis_of(graph, v, dim)], rank_of(graph, v))
    norms = graph.make_node('ReduceL2', [v, consts(graph, axes, int64)], keepdims=1)
    return (graph.make_node('Mul', [v, graph.make_node('Div', [g, norms])]), cast(graph, norms, dtype_of(graph, res[1])))


def aten_channel_shuffle(graph: GraphBuilder, res: Res, self: Result, groups: SymInt) -> Result:
    """aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    shape = list(shape_of(graph, self))
    count = static(groups)
    blocks = reshape_to(graph, self, [shape[0], count, shape[1] // count] + shape[2:])
    turned = permuted(graph, blocks, swapped(len(shape) + 1, 1, 2))
    return reshape_to(graph, turned, shape)


def aten_conv_tbc(graph: GraphBuilder, res: Res, self: Result, weight: Result, bias: Result, pad: Int = 0) -> Result:
    """aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor"""
    x = permuted(graph, self, [1, 2, 0])
    kernel = permuted(graph, weight, [2, 1, 0])
    return permuted(graph, graph.make_node('Conv', [x, kernel, bias], pads=[pad, pad]), [2, 0, 1])


def rule_aten__weight_norm_interface(graph: GraphBuilder, v: Result, g: Result, dim: Int = 0) -> Rules:
    return ((known_dtype(graph, v), known_shape(graph, v)), (known_dtype(graph, g), None),)


def rule_aten_channel_shuffle(graph: GraphBuilder, self: Result, groups: SymInt) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_conv_tbc(graph: GraphBuilder, self: Result, weight: Result, bias: Result, pad: Int = 0) -> Rules:
    return ((known_dtype(graph, self), None),)
