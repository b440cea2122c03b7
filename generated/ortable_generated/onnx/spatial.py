# Generated from specs/onnx/spatial.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: spatial."""

from ortable import dtypes, inference


def infer_AffineGrid(inputs, attrs, n_outputs, opset):
    """AffineGrid(theta: T1, size: T2) -> (grid: T1)"""
    theta = inputs[0]
    size = inputs[1]
    return ((theta.dtype, inference.affine_grid_shape(size.value), None),)


def infer_AveragePool(inputs, attrs, n_outputs, opset):
    """AveragePool(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.pool_shape(X.shape, inference.required_attribute(attrs, 'kernel_shape', 'AveragePool'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('auto_pad', 'NOTSET'), attrs.get('ceil_mode', 0)), None),)


def infer_Col2Im(inputs, attrs, n_outputs, opset):
    """Col2Im(input: T, image_shape: tensor(int64), block_shape: tensor(int64)) -> (output: T)"""
    input = inputs[0]
    image_shape = inputs[1]
    block_shape = inputs[2]
    return ((input.dtype, inference.col2im_shape(input.shape, image_shape.value, block_shape.value), None),)


def infer_Conv(inputs, attrs, n_outputs, opset):
    """Conv(X: T, W: T, B?: T) -> (Y: T)"""
    X = inputs[0]
    W = inputs[1]
    return ((X.dtype or W.dtype, inference.conv_shape(X.shape, W.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), attrs.get('auto_pad', 'NOTSET')), None),)


def infer_ConvInteger(inputs, attrs, n_outputs, opset):
    """ConvInteger(x: T1, w: T2, x_zero_point?: T1, w_zero_point?: T2) -> (y: T3)"""
    x = inputs[0]
    w = inputs[1]
    return ((dtypes.int32, inference.conv_shape(x.shape, w.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), attrs.get('auto_pad', 'NOTSET')), None),)


def infer_ConvTranspose(inputs, attrs, n_outputs, opset):
    """ConvTranspose(X: T, W: T, B?: T) -> (Y: T)"""
    X = inputs[0]
    W = inputs[1]
    return ((X.dtype or W.dtype, inference.conv_transpose(X.shape, W.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), attrs.get('auto_pad', 'NOTSET'), attrs.get('output_padding'), attrs.get('output_shape')), None),)


def infer_DeformConv(inputs, attrs, n_outputs, opset):
    """DeformConv(X: T, W: T, offset: T, B?: T, mask?: T) -> (Y: T)"""
    X = inputs[0]
    W = inputs[1]
    offset = inputs[2]
    return ((X.dtype or W.dtype or offset.dtype, inference.conv_shape(X.shape, W.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), 'NOTSET'), None),)


def infer_GlobalAveragePool(inputs, attrs, n_outputs, opset):
    """GlobalAveragePool(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.global_pool_shape(X.shape), None),)


def infer_GlobalLpPool(inputs, attrs, n_outputs, opset):
    """GlobalLpPool(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.global_pool_shape(X.shape), None),)


def infer_GlobalMaxPool(inputs, attrs, n_outputs, opset):
    """GlobalMaxPool(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.global_pool_shape(X.shape), None),)


def infer_GridSample(inputs, attrs, n_outputs, opset):
    """GridSample(X: T1, grid: T2) -> (Y: T1)"""
    X = inputs[0]
    grid = inputs[1]
    return ((X.dtype, inference.grid_sample_shape(X.shape, grid.shape), None),)


def infer_ImageDecoder(inputs, attrs, n_outputs, opset):
    """ImageDecoder(encoded_stream: T1) -> (image: T2)"""
    # the size stands in the encoded image
    return ((dtypes.uint8, None, None),)


def infer_LpPool(inputs, attrs, n_outputs, opset):
    """LpPool(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.pool_shape(X.shape, inference.required_attribute(attrs, 'kernel_shape', 'LpPool'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('auto_pad', 'NOTSET'), attrs.get('ceil_mode', 0)), None),)


def infer_MaxPool(inputs, attrs, n_outputs, opset):
    """MaxPool(X: T) -> (Y: T, Indices?: I)"""
    X = inputs[0]
    if n_outputs == 1:
        return ((X.dtype, inference.pool_shape(X.shape, inference.required_attribute(attrs, 'kernel_shape', 'MaxPool'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('auto_pad', 'NOTSET'), attrs.get('ceil_mode', 0)), None),)
    known = (
        (X.dtype, inference.pool_shape(X.shape, inference.required_attribute(attrs, 'kernel_shape', 'MaxPool'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('auto_pad', 'NOTSET'), attrs.get('ceil_mode', 0)), None),
        (dtypes.int64, inference.pool_shape(X.shape, inference.required_attribute(attrs, 'kernel_shape', 'MaxPool'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('auto_pad', 'NOTSET'), attrs.get('ceil_mode', 0)), None),
    )
    return known[:n_outputs]


def infer_MaxRoiPool(inputs, attrs, n_outputs, opset):
    """MaxRoiPool(X: T, rois: T) -> (Y: T)"""
    X = inputs[0]
    rois = inputs[1]
    return ((X.dtype or rois.dtype, inference.roi_align_shape(X.shape, rois.shape, inference.required_attribute(attrs, 'pooled_shape', 'MaxRoiPool')[0], inference.required_attribute(attrs, 'pooled_shape', 'MaxRoiPool')[1]), None),)


def infer_MaxUnpool(inputs, attrs, n_outputs, opset):
    """MaxUnpool(X: T1, I: T2, output_shape?: T2) -> (output: T1)"""
    X = inputs[0]
    output_shape = inputs[2] if len(inputs) > 2 else None
    return ((X.dtype, inference.max_unpool_shape(X.shape, () if output_shape is None else output_shape.value, inference.required_attribute(attrs, 'kernel_shape', 'MaxUnpool'), attrs.get('strides'), attrs.get('pads')), None),)


def infer_NonMaxSuppression(inputs, attrs, n_outputs, opset):
    """NonMaxSuppression(boxes: tensor(float), scores: tensor(float), max_output_boxes_per_class?: tensor(int64), iou_threshold?: tensor(float), score_threshold?: tensor(float)) -> (selected_indices: tensor(int64))"""
    # the data decides how many boxes stay
    return ((dtypes.int64, None, None),)


def infer_QLinearConv(inputs, attrs, n_outputs, opset):
    """QLinearConv(x: T1, x_scale: tensor(float), x_zero_point: T1, w: T2, w_scale: tensor(float), w_zero_point: T2, y_scale: tensor(float), y_zero_point: T3, B?: T4) -> (y: T3)"""
    x = inputs[0]
    w = inputs[3]
    y_zero_point = inputs[7]
    return ((y_zero_point.dtype, inference.conv_shape(x.shape, w.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), attrs.get('auto_pad', 'NOTSET')), None),)


def infer_Resize(inputs, attrs, n_outputs, opset):
    """Resize(X: T1, roi?: T2, scales?: tensor(float), sizes?: tensor(int64)) -> (Y: T1)"""
    X = inputs[0]
    scales = inputs[2] if len(inputs) > 2 else None
    sizes = inputs[3] if len(inputs) > 3 else None
    return ((X.dtype, inference.resize_shape(X.shape, scales, sizes, attrs.get('axes'), attrs.get('keep_aspect_ratio_policy', 'stretch')), None),)


def infer_RoiAlign(inputs, attrs, n_outputs, opset):
    """RoiAlign(X: T1, rois: T1, batch_indices: T2) -> (Y: T1)"""
    X = inputs[0]
    rois = inputs[1]
    return ((X.dtype or rois.dtype, inference.roi_align_shape(X.shape, rois.shape, attrs.get('output_height', 1), attrs.get('output_width', 1)), None),)
