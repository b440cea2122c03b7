# Generated from specs/aten/torchvision.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, int32, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.quantize import float32_below
from ortable.lowerings.vision import roi_align, roi_pool
from ortable.prelude.facts import dtype_of, fits_attribute, is_used, static
from ortable.prelude.metadata import dtype_or_none
from ortable.prelude.values import const, consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, SymInt


def rule_torchvision_deform_conv2d(graph: Graph, input: Result, weight: Result, offset: Result, mask: Result, bias: Result, stride_h: SymInt, stride_w: SymInt, pad_h: SymInt, pad_w: SymInt, dilation_h: SymInt, dilation_w: SymInt, groups: SymInt, offset_groups: SymInt, use_mask: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_torchvision_nms(graph: Graph, dets: Result, scores: Result, iou_threshold: Float) -> Rules:
    return ((int64, None),)


def rule_torchvision_ps_roi_align(graph: Graph, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt, sampling_ratio: Int) -> Rules:
    return ((dtype_or_none(graph, input), None), (int32, None),)


def rule_torchvision_ps_roi_pool(graph: Graph, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt) -> Rules:
    return ((dtype_or_none(graph, input), None), (int32, None),)


def rule_torchvision_roi_align(graph: Graph, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt, sampling_ratio: Int, aligned: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_torchvision_roi_pool(graph: Graph, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt) -> Rules:
    return ((dtype_or_none(graph, input), None), (int32, None),)


def torchvision_deform_conv2d(graph: Graph, res: ResultSpec, input: Result, weight: Result, offset: Result, mask: Result, bias: Result, stride_h: SymInt, stride_w: SymInt, pad_h: SymInt, pad_w: SymInt, dilation_h: SymInt, dilation_w: SymInt, groups: SymInt, offset_groups: SymInt, use_mask: Bool) -> Result:
    """torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"""
    pads = static([pad_h, pad_w, pad_h, pad_w])
    strides = static([stride_h, stride_w])
    dilations = static([dilation_h, dilation_w])
    parts = static(groups)
    shifts = static(offset_groups)
    if graph.opset >= 19 and use_mask:
        graph.case = 1
        return graph.make_node('DeformConv', [input, weight, offset, bias, mask], res.outputs, pads=pads, strides=strides, dilations=dilations, group=parts, offset_group=shifts)
    if graph.opset >= 19:
        graph.case = 2
        return graph.make_node('DeformConv', [input, weight, offset, bias], res.outputs, pads=pads, strides=strides, dilations=dilations, group=parts, offset_group=shifts)
    graph.case = 3
    raise UnsupportedCase('torchvision::deform_conv2d: ONNX has DeformConv from opset 19 on')


def torchvision_nms(graph: Graph, res: ResultSpec, dets: Result, scores: Result, iou_threshold: Float) -> Result:
    """torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"""
    if dtype_of(graph, dets) != float32:
        graph.case = 1
        raise UnsupportedCase('torchvision::nms: ONNX compares boxes in float32 only')
    if iou_threshold < 0:
        graph.case = 2
        raise UnsupportedCase('torchvision::nms: ONNX takes thresholds between 0 and 1; below 0 every other box goes')
    # the greatest float32 below the threshold; a float32 exceeds both or none
    graph.case = 3
    left, low, right, high = graph.make_node('Split', [dets, consts(graph, [1, 1, 1, 1], int64)], 4, axis=1)
    boxes = graph.make_node('Unsqueeze', [graph.make_node('Concat', [low, left, high, right], axis=1), consts(graph, [0], int64)])
    ranks = graph.make_node('Unsqueeze', [scores, consts(graph, [0, 1], int64)])
    bound = consts(graph, [float32_below(min(iou_threshold, 1.0))], float32)
    kept = graph.make_node('NonMaxSuppression', [boxes, ranks, consts(graph, [2147483647], int64), bound])
    return graph.make_node('Gather', [kept, const(graph, 2, int64)], res.outputs, axis=1)


def torchvision_ps_roi_align(graph: Graph, res: ResultSpec, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt, sampling_ratio: Int) -> Any:
    """torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)"""
    raise UnsupportedCase('torchvision::ps_roi_align: ONNX has no operator for position-sensitive regions; roi_align has one')


def torchvision_ps_roi_pool(graph: Graph, res: ResultSpec, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt) -> Any:
    """torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)"""
    raise UnsupportedCase('torchvision::ps_roi_pool: ONNX has no operator for position-sensitive regions; roi_pool has one')


def torchvision_roi_align(graph: Graph, res: ResultSpec, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt, sampling_ratio: Int, aligned: Bool) -> Result:
    """torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"""
    bins = static([pooled_height, pooled_width])
    samples = max(sampling_ratio, 0)
    mode = 'half_pixel' if aligned else 'output_half_pixel'
    if graph.opset < 22 and fits_attribute(graph, spatial_scale, input):
        # ONNX Runtime has no kernel of the newer versions
        graph.case = 1
        images, corners = graph.make_node('Split', [rois, consts(graph, [1, 4], int64)], 2, axis=1)
        indices = graph.make_node('Cast', [graph.make_node('Squeeze', [images, consts(graph, [1], int64)])], to=int64)
        return graph.make_node('RoiAlign', [input, corners, indices], res.outputs, output_height=bins[0], output_width=bins[1], spatial_scale=spatial_scale, sampling_ratio=samples, coordinate_transformation_mode=mode)
    graph.case = 2
    return roi_align(graph, res, input=input, rois=rois, spatial_scale=spatial_scale, pooled_height=pooled_height, pooled_width=pooled_width, sampling_ratio=sampling_ratio, aligned=aligned)


def torchvision_roi_pool(graph: Graph, res: ResultSpec, input: Result, rois: Result, spatial_scale: Float, pooled_height: SymInt, pooled_width: SymInt) -> Any:
    """torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)"""
    if is_used(res[1]):
        graph.case = 1
        raise UnsupportedCase('torchvision::roi_pool: the places of the maxima, which only a gradient reads')
    graph.case = 2
    return roi_pool(graph, res, input=input, rois=rois, spatial_scale=spatial_scale, pooled_height=pooled_height, pooled_width=pooled_width)
