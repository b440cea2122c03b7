# Generated from specs/onnx/quantize.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: quantize."""

from ortable import dtypes, inference


def infer_DequantizeLinear(inputs, attrs, n_outputs, opset):
    """DequantizeLinear(x: T1, x_scale: T2, x_zero_point?: T1) -> (y: T3)"""
    x = inputs[0]
    x_scale = inputs[1]
    return ((inference.dtype_attr(attrs.get('output_dtype', 0), x_scale.dtype), x.shape, None),)


def infer_DynamicQuantizeLinear(inputs, attrs, n_outputs, opset):
    """DynamicQuantizeLinear(x: T1) -> (y: T2, y_scale: tensor(float), y_zero_point: T2)"""
    x = inputs[0]
    if n_outputs == 1:
        return ((dtypes.uint8, x.shape, None),)
    known = (
        (dtypes.uint8, x.shape, None),
        (dtypes.float32, (), None),
        (dtypes.uint8, (), None),
    )
    return known[:n_outputs]


def infer_QuantizeLinear(inputs, attrs, n_outputs, opset):
    """QuantizeLinear(x: T1, y_scale: T2, y_zero_point?: T3) -> (y: T3)"""
    x = inputs[0]
    y_zero_point = inputs[2] if len(inputs) > 2 else None
    return ((inference.dtype_attr(attrs.get('output_dtype', 0), dtypes.uint8 if y_zero_point is None else y_zero_point.dtype), x.shape, None),)
