# Generated from specs/onnx/view.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: view."""

from ortable import dtypes, inference


def infer_CenterCropPad(inputs, attrs, n_outputs, opset):
    """CenterCropPad(input_data: T, shape: Tind) -> (output_data: T)"""
    input_data = inputs[0]
    shape = inputs[1]
    return ((input_data.dtype, inference.center_crop_pad_shape(input_data.shape, shape.value, attrs.get('axes')), None),)


def infer_Compress(inputs, attrs, n_outputs, opset):
    """Compress(input: T, condition: T1) -> (output: T)"""
    # the data decides how many elements stay
    input = inputs[0]
    return ((input.dtype, None, None),)


def infer_Concat(inputs, attrs, n_outputs, opset):
    """Concat(inputs*: T) -> (concat_result: T)"""
    dtype = inputs[0].dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.concat_value([v.value for v in inputs]))
    return ((dtype, inference.concat_shape([v.shape for v in inputs], inference.required_attribute(attrs, 'axis', 'Concat')), value),)


def infer_ConstantOfShape(inputs, attrs, n_outputs, opset):
    """ConstantOfShape(input: T1) -> (output: T2)"""
    input = inputs[0]
    dtype = inference.tensor_dtype(attrs.get('value'), dtypes.float32)
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.filled_value(attrs.get('value'), input.value))
    return ((dtype, inference.shape_from_value(input.value), value),)


def infer_DepthToSpace(inputs, attrs, n_outputs, opset):
    """DepthToSpace(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, inference.depth_to_space_shape(input.shape, inference.required_attribute(attrs, 'blocksize', 'DepthToSpace')), None),)


def infer_Expand(inputs, attrs, n_outputs, opset):
    """Expand(input: T, shape: tensor(int64)) -> (output: T)"""
    input = inputs[0]
    shape = inputs[1]
    dtype = input.dtype
    result = inference.expand_shape(input.shape, shape.value)
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reshape_value(input.value, shape.value, result))
    return ((dtype, result, value),)


def infer_EyeLike(inputs, attrs, n_outputs, opset):
    """EyeLike(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(attrs.get('dtype'), input.dtype), input.shape, None),)


def infer_Flatten(inputs, attrs, n_outputs, opset):
    """Flatten(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, inference.flatten_shape(input.shape, attrs.get('axis', 1)), None),)


def infer_Gather(inputs, attrs, n_outputs, opset):
    """Gather(data: T, indices: Tind) -> (output: T)"""
    data = inputs[0]
    indices = inputs[1]
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.gather_value(data.value, indices.value))
    return ((dtype, inference.gather_shape(data.shape, indices.shape, attrs.get('axis', 0)), value),)


def infer_GatherElements(inputs, attrs, n_outputs, opset):
    """GatherElements(data: T, indices: Tind) -> (output: T)"""
    data = inputs[0]
    indices = inputs[1]
    return ((data.dtype, indices.shape, None),)


def infer_GatherND(inputs, attrs, n_outputs, opset):
    """GatherND(data: T, indices: tensor(int64)) -> (output: T)"""
    data = inputs[0]
    indices = inputs[1]
    return ((data.dtype, inference.gather_nd_shape(data.shape, indices.shape, attrs.get('batch_dims', 0)), None),)


def infer_NonZero(inputs, attrs, n_outputs, opset):
    """NonZero(X: T) -> (Y: tensor(int64))"""
    # the data decides how many elements are not zero
    return ((dtypes.int64, None, None),)


def infer_OneHot(inputs, attrs, n_outputs, opset):
    """OneHot(indices: T1, depth: T2, values: T3) -> (output: T3)"""
    # depth may be a float
    indices = inputs[0]
    depth = inputs[1]
    values = inputs[2]
    return ((values.dtype, inference.one_hot_shape(indices.shape, inference.whole_number(depth), attrs.get('axis', -1)), None),)


def infer_Pad(inputs, attrs, n_outputs, opset):
    """Pad(data: T, pads: tensor(int64), constant_value?: T, axes?: Tind) -> (output: T)"""
    data = inputs[0]
    pads = inputs[1]
    axes = inputs[3] if len(inputs) > 3 else None
    return ((data.dtype, inference.pad_shape(data.shape, pads.value, () if axes is None else axes.value), None),)


def infer_Range(inputs, attrs, n_outputs, opset):
    """Range(start: T, limit: T, delta: T) -> (output: T)"""
    start = inputs[0]
    limit = inputs[1]
    delta = inputs[2]
    dtype = start.dtype or limit.dtype or delta.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.range_value(start.value, limit.value, delta.value))
    return ((dtype, inference.range_length(start, limit, delta), value),)


def infer_Reshape(inputs, attrs, n_outputs, opset):
    """Reshape(data: T, shape: tensor(int64)) -> (reshaped: T)"""
    data = inputs[0]
    shape = inputs[1]
    dtype = data.dtype
    result = inference.reshape_shape(data.shape, shape.value, attrs.get('allowzero', 0))
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reshape_value(data.value, shape.value, result))
    return ((dtype, result, value),)


def infer_ReverseSequence(inputs, attrs, n_outputs, opset):
    """ReverseSequence(input: T, sequence_lens: tensor(int64)) -> (Y: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_ScatterElements(inputs, attrs, n_outputs, opset):
    """ScatterElements(data: T, indices: Tind, updates: T) -> (output: T)"""
    data = inputs[0]
    updates = inputs[2]
    return ((data.dtype or updates.dtype, data.shape, None),)


def infer_ScatterND(inputs, attrs, n_outputs, opset):
    """ScatterND(data: T, indices: tensor(int64), updates: T) -> (output: T)"""
    data = inputs[0]
    updates = inputs[2]
    return ((data.dtype or updates.dtype, data.shape, None),)


def infer_Shape(inputs, attrs, n_outputs, opset):
    """Shape(data: T) -> (shape: T1)"""
    data = inputs[0]
    dtype = dtypes.int64
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.shape_value(data.shape, attrs.get('start', 0), attrs.get('end')))
    return ((dtype, inference.shape_of_shape(data.shape, attrs.get('start', 0), attrs.get('end')), value),)


def infer_Size(inputs, attrs, n_outputs, opset):
    """Size(data: T) -> (size: T1)"""
    data = inputs[0]
    dtype = dtypes.int64
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.size_value(data.shape))
    return ((dtype, (), value),)


def infer_Slice(inputs, attrs, n_outputs, opset):
    """Slice(data: T, starts: Tind, ends: Tind, axes?: Tind, steps?: Tind) -> (output: T)"""
    data = inputs[0]
    starts = inputs[1]
    ends = inputs[2]
    axes = inputs[3] if len(inputs) > 3 else None
    steps = inputs[4] if len(inputs) > 4 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.slice_value(data.value, starts.value, ends.value, () if axes is None else axes.value, () if steps is None else steps.value))
    return ((dtype, inference.slice_shape(data.shape, starts.value, ends.value, () if axes is None else axes.value, () if steps is None else steps.value), value),)


def infer_SpaceToDepth(inputs, attrs, n_outputs, opset):
    """SpaceToDepth(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, inference.space_to_depth_shape(input.shape, inference.required_attribute(attrs, 'blocksize', 'SpaceToDepth')), None),)


def infer_Split(inputs, attrs, n_outputs, opset):
    """Split(input: T, split?: tensor(int64)) -> (outputs*: T)"""
    input = inputs[0]
    split = inputs[1] if len(inputs) > 1 else None
    dtype = input.dtype
    result = inference.split_shapes(input.shape, () if split is None else split.value, attrs.get('num_outputs'), attrs.get('axis', 0), n_outputs)
    values = (None,) * n_outputs
    if dtype in inference.INDEX_TYPES:
        values = inference.split_value(input.value, result)
    return tuple((dtype, shape, value) for shape, value in zip(result, values))


def infer_Squeeze(inputs, attrs, n_outputs, opset):
    """Squeeze(data: T, axes?: tensor(int64)) -> (squeezed: T)"""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else None
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.squeeze_value(data.value))
    return ((dtype, inference.squeeze_shape(data.shape, () if axes is None else axes.value), value),)


def infer_TensorScatter(inputs, attrs, n_outputs, opset):
    """TensorScatter(past_cache: T, update: T, write_indices?: tensor(int64)) -> (present_cache: T)"""
    past_cache = inputs[0]
    update = inputs[1]
    return ((past_cache.dtype or update.dtype, past_cache.shape, None),)


def infer_Tile(inputs, attrs, n_outputs, opset):
    """Tile(input: T, repeats: T1) -> (output: T)"""
    input = inputs[0]
    repeats = inputs[1]
    dtype = input.dtype
    result = inference.tile_shape(input.shape, repeats.value)
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.reshape_value(input.value, repeats.value, result))
    return ((dtype, result, value),)


def infer_Transpose(inputs, attrs, n_outputs, opset):
    """Transpose(data: T) -> (transposed: T)"""
    data = inputs[0]
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, data.value)
    return ((dtype, inference.permute_shape(data.shape, attrs.get('perm')), value),)


def infer_Unique(inputs, attrs, n_outputs, opset):
    """Unique(X: T) -> (Y: T, indices?: tensor(int64), inverse_indices?: tensor(int64), counts?: tensor(int64))"""
    # the data decides how many elements are different
    X = inputs[0]
    if n_outputs == 1:
        return ((X.dtype, None, None),)
    known = (
        (X.dtype, None, None),
        (dtypes.int64, None, None),
        (dtypes.int64, None, None),
        (dtypes.int64, None, None),
    )
    return known[:n_outputs]


def infer_Unsqueeze(inputs, attrs, n_outputs, opset):
    """Unsqueeze(data: T, axes: tensor(int64)) -> (expanded: T)"""
    data = inputs[0]
    axes = inputs[1]
    dtype = data.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.unsqueeze_value(data.value, axes.value))
    return ((dtype, inference.unsqueeze_shape(data.shape, axes.value), value),)
