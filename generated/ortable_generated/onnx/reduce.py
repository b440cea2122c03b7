# Generated from specs/onnx/reduce.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: reduce."""

from ortable import dtypes, inference


def infer_ArgMax(inputs, attrs, n_outputs, opset):
    """ArgMax(data: T) -> (reduced: tensor(int64))"""
    data = inputs[0]
    return ((dtypes.int64, inference.arg_reduce_shape(data.shape, attrs.get('axis', 0), attrs.get('keepdims', 1)), None),)


def infer_ArgMin(inputs, attrs, n_outputs, opset):
    """ArgMin(data: T) -> (reduced: tensor(int64))"""
    data = inputs[0]
    return ((dtypes.int64, inference.arg_reduce_shape(data.shape, attrs.get('axis', 0), attrs.get('keepdims', 1)), None),)


def infer_ReduceL1(inputs, attrs, n_outputs, opset):
    """ReduceL1(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_ReduceL2(inputs, attrs, n_outputs, opset):
    """ReduceL2(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_ReduceLogSum(inputs, attrs, n_outputs, opset):
    """ReduceLogSum(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_ReduceLogSumExp(inputs, attrs, n_outputs, opset):
    """ReduceLogSumExp(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_ReduceMax(inputs, attrs, n_outputs, opset):
    """ReduceMax(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reduce_value('max', data.value, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)))
    return ((dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), value),)


def infer_ReduceMean(inputs, attrs, n_outputs, opset):
    """ReduceMean(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_ReduceMin(inputs, attrs, n_outputs, opset):
    """ReduceMin(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reduce_value('min', data.value, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)))
    return ((dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), value),)


def infer_ReduceProd(inputs, attrs, n_outputs, opset):
    """ReduceProd(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reduce_value('prod', data.value, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)))
    return ((dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), value),)


def infer_ReduceSum(inputs, attrs, n_outputs, opset):
    """ReduceSum(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reduce_value('sum', data.value, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)))
    return ((dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), value),)


def infer_ReduceSumSquare(inputs, attrs, n_outputs, opset):
    """ReduceSumSquare(data: T, axes?: tensor(int64)) -> (reduced: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    return ((data.dtype, inference.reduce_axes(data.shape, () if axes is None else axes.value, attrs.get('keepdims', 1), attrs.get('noop_with_empty_axes', 0)), None),)


def infer_TopK(inputs, attrs, n_outputs, opset):
    """TopK(X: T, K: tensor(int64)) -> (Values: T, Indices: I)"""
    X = inputs[0]
    K = inputs[1]
    if n_outputs == 1:
        return ((X.dtype, inference.top_k_shape(X.shape, K.value, attrs.get('axis', -1)), None),)
    known = (
        (X.dtype, inference.top_k_shape(X.shape, K.value, attrs.get('axis', -1)), None),
        (dtypes.int64, inference.top_k_shape(X.shape, K.value, attrs.get('axis', -1)), None),
    )
    return known[:n_outputs]
