# Generated from specs/aten/resize.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.lowerings.resize import resized
from ortable.prelude.metadata import dtype_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Floats, Result, SymInts


def aten__upsample_bicubic2d_aa(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'cubic_filter', align_corners)


def aten__upsample_bicubic2d_aa_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'cubic_filter', align_corners)


def aten__upsample_bilinear2d_aa(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'linear_filter', align_corners)


def aten__upsample_bilinear2d_aa_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'linear_filter', align_corners)


def aten__upsample_lanczos2d_aa(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'lanczos_filter', align_corners)


def aten__upsample_lanczos2d_aa_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'lanczos_filter', align_corners)


def aten__upsample_nearest_exact1d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"""
    return resized(graph, self, output_size, [scales], 'nearest_exact')


def aten__upsample_nearest_exact1d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest_exact')


def aten__upsample_nearest_exact2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'nearest_exact')


def aten__upsample_nearest_exact2d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest_exact')


def aten__upsample_nearest_exact3d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_d, scales_h, scales_w], 'nearest_exact')


def aten__upsample_nearest_exact3d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest_exact')


def aten_upsample_bicubic2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'cubic', align_corners)


def aten_upsample_bicubic2d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'cubic', align_corners)


def aten_upsample_bilinear2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'linear', align_corners)


def aten_upsample_bilinear2d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'linear', align_corners)


def aten_upsample_linear1d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales: Float | None = None) -> Result:
    """aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor"""
    return resized(graph, self, output_size, [scales], 'linear', align_corners)


def aten_upsample_linear1d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'linear', align_corners)


def aten_upsample_nearest1d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales: Float | None = None) -> Result:
    """aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"""
    return resized(graph, self, output_size, [scales], 'nearest')


def aten_upsample_nearest1d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest')


def aten_upsample_nearest2d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_h, scales_w], 'nearest')


def aten_upsample_nearest2d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest')


def aten_upsample_nearest3d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_d, scales_h, scales_w], 'nearest')


def aten_upsample_nearest3d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Result:
    """aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'nearest')


def aten_upsample_trilinear3d(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, align_corners: Bool, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Result:
    """aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return resized(graph, self, output_size, [scales_d, scales_h, scales_w], 'linear', align_corners)


def aten_upsample_trilinear3d_vec(graph: Graph, res: ResultSpec, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Result:
    """aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"""
    return resized(graph, input, output_size, scale_factors, 'linear', align_corners)


def rule_aten__upsample_bicubic2d_aa(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_bicubic2d_aa_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten__upsample_bilinear2d_aa(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_bilinear2d_aa_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten__upsample_lanczos2d_aa(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_lanczos2d_aa_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten__upsample_nearest_exact1d(graph: Graph, self: Result, output_size: SymInts, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_nearest_exact1d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten__upsample_nearest_exact2d(graph: Graph, self: Result, output_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_nearest_exact2d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten__upsample_nearest_exact3d(graph: Graph, self: Result, output_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__upsample_nearest_exact3d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_bicubic2d(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_bicubic2d_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_bilinear2d(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_bilinear2d_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_linear1d(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_linear1d_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_nearest1d(graph: Graph, self: Result, output_size: SymInts, scales: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_nearest1d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_nearest2d(graph: Graph, self: Result, output_size: SymInts, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_nearest2d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_nearest3d(graph: Graph, self: Result, output_size: SymInts, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_nearest3d_vec(graph: Graph, input: Result, output_size: SymInts | None, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_upsample_trilinear3d(graph: Graph, self: Result, output_size: SymInts, align_corners: Bool, scales_d: Float | None = None, scales_h: Float | None = None, scales_w: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_upsample_trilinear3d_vec(graph: Graph, input: Result, output_size: SymInts | None, align_corners: Bool, scale_factors: Floats | None) -> Rules:
    return ((dtype_or_none(graph, input), None),)
