# Generated from specs/aten/channels.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float64
from ortable.errors import UnsupportedCase
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.facts import dim_of, dtype_of, is_float, shape_of, static, transpose_perm
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.values import permuted, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Int, Result, SymInt


def aten_channel_shuffle(graph: Graph, res: ResultSpec, self: Result, groups: SymInt) -> Result:
    """aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    shape = list(shape_of(graph, self))
    count = static(groups)
    blocks = reshape_to(graph, self, [shape[0], count, shape[1] // count] + shape[2:])
    transposed = permuted(graph, blocks, transpose_perm(len(shape) + 1, 1, 2))
    return reshape_to(graph, transposed, shape)


def aten_conv_tbc(graph: Graph, res: ResultSpec, self: Result, weight: Result, bias: Result, pad: Int = 0) -> Result:
    """aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor"""
    if dtype_of(graph, self) == float64 or not is_float(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::conv_tbc: a convolution over time first in float64 or ints, for which onnxruntime has no kernel')
    if dim_of(graph, self, 2) == 0:
        graph.case = 2
        raise UnsupportedCase('aten::conv_tbc: a convolution over time first without channels, at which onnxruntime does not come back')
    graph.case = 3
    x = permuted(graph, self, [1, 2, 0])
    kernel = permuted(graph, weight, [2, 1, 0])
    return permuted(graph, graph.make_node('Conv', [x, kernel, bias], pads=[pad, pad]), [2, 0, 1])


def complex_aten_channel_shuffle(graph: Graph, res: ResultSpec, self: Result, groups: SymInt) -> Result:
    """aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    return each_part(graph, res, aten_channel_shuffle, {'self': self}, groups=groups)


def rule_aten_channel_shuffle(graph: Graph, self: Result, groups: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_conv_tbc(graph: Graph, self: Result, weight: Result, bias: Result, pad: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)
