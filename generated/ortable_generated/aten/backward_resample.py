# Generated from specs/aten/backward_resample.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.grid_gradient import grid_sampler_backward
from ortable.lowerings.resize import edge_weights, resample_weights
from ortable.prelude.facts import dtype_of, shape_of
from ortable.prelude.matrices import summed_back
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Bools, Float, Int, Result, SymInts


def aten__upsample_bicubic2d_aa_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('smooth cubic', input_size, output_size, align_corners, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten__upsample_bilinear2d_aa_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('smooth linear', input_size, output_size, align_corners, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten__upsample_lanczos2d_aa_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_lanczos2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('smooth lanczos', input_size, output_size, align_corners, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten__upsample_nearest_exact1d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None) -> Tensor"""
    weights = resample_weights('exact', input_size, output_size, False, [scales], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten__upsample_nearest_exact2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('exact', input_size, output_size, False, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten__upsample_nearest_exact3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('exact', input_size, output_size, False, [scales_d, scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_grid_sampler_2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool, output_mask: Bools) -> Any:
    """aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"""
    return grid_sampler_backward(graph, res, grad_output=grad_output, input=input, grid=grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners, output_mask=output_mask)


def aten_grid_sampler_3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool, output_mask: Bools) -> Any:
    """aten::grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"""
    return grid_sampler_backward(graph, res, grad_output=grad_output, input=input, grid=grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners, output_mask=output_mask)


def aten_replication_pad1d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor"""
    return summed_back(graph, grad_output, edge_weights(shape_of(graph, self)[-1:], padding, dtype_of(graph, self)))


def aten_replication_pad2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor"""
    return summed_back(graph, grad_output, edge_weights(shape_of(graph, self)[-2:], padding, dtype_of(graph, self)))


def aten_replication_pad3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor"""
    return summed_back(graph, grad_output, edge_weights(shape_of(graph, self)[-3:], padding, dtype_of(graph, self)))


def aten_upsample_bicubic2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('cubic', input_size, output_size, align_corners, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_bilinear2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('linear', input_size, output_size, align_corners, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_linear1d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales: Float | None = None) -> Result:
    """aten::upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, bool align_corners, float? scales=None) -> Tensor"""
    weights = resample_weights('linear', input_size, output_size, align_corners, [scales], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_nearest1d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales: Float | None = None) -> Result:
    """aten::upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None) -> Tensor"""
    weights = resample_weights('nearest', input_size, output_size, False, [scales], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_nearest2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('nearest', input_size, output_size, False, [scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_nearest3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('nearest', input_size, output_size, False, [scales_d, scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def aten_upsample_trilinear3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    weights = resample_weights('linear', input_size, output_size, align_corners, [scales_d, scales_h, scales_w], dtype_of(graph, grad_output))
    return summed_back(graph, grad_output, weights)


def complex_aten_replication_pad1d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor"""
    return each_part(graph, res, aten_replication_pad1d_backward, {'grad_output': grad_output, 'self': self}, padding=padding)


def complex_aten_replication_pad2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor"""
    return each_part(graph, res, aten_replication_pad2d_backward, {'grad_output': grad_output, 'self': self}, padding=padding)


def complex_aten_replication_pad3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor"""
    return each_part(graph, res, aten_replication_pad3d_backward, {'grad_output': grad_output, 'self': self}, padding=padding)


def rule_aten__upsample_bicubic2d_aa_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten__upsample_bilinear2d_aa_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten__upsample_lanczos2d_aa_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten__upsample_nearest_exact1d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten__upsample_nearest_exact2d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten__upsample_nearest_exact3d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_grid_sampler_2d_backward(graph: Graph, grad_output: Result, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool, output_mask: Bools) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, grid), shape_or_none(graph, grid)),)


def rule_aten_grid_sampler_3d_backward(graph: Graph, grad_output: Result, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool, output_mask: Bools) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, grid), shape_or_none(graph, grid)),)


def rule_aten_replication_pad1d_backward(graph: Graph, grad_output: Result, self: Result, padding: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_replication_pad2d_backward(graph: Graph, grad_output: Result, self: Result, padding: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_replication_pad3d_backward(graph: Graph, grad_output: Result, self: Result, padding: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_upsample_bicubic2d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_bilinear2d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_linear1d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_nearest1d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_nearest2d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_nearest3d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)


def rule_aten_upsample_trilinear3d_backward(graph: Graph, grad_output: Result, output_size: SymInts, input_size: SymInts, align_corners: Bool, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_size)),)
