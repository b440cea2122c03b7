# Generated from specs/onnx/elementwise.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: elementwise."""

from ortable import dtypes, inference


def infer_Abs(inputs, attrs, n_outputs, opset):
    """Abs(X: T) -> (Y: T)"""
    X = inputs[0]
    dtype = X.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.abs_value(X.value))
    return ((dtype, X.shape, value),)


def infer_Acos(inputs, attrs, n_outputs, opset):
    """Acos(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Acosh(inputs, attrs, n_outputs, opset):
    """Acosh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Add(inputs, attrs, n_outputs, opset):
    """Add(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    dtype = A.dtype or B.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.add_value(A.value, B.value))
    return ((dtype, inference.broadcast(A.shape, B.shape), value),)


def infer_And(inputs, attrs, n_outputs, opset):
    """And(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_Asin(inputs, attrs, n_outputs, opset):
    """Asin(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Asinh(inputs, attrs, n_outputs, opset):
    """Asinh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Atan(inputs, attrs, n_outputs, opset):
    """Atan(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Atanh(inputs, attrs, n_outputs, opset):
    """Atanh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_BitCast(inputs, attrs, n_outputs, opset):
    """BitCast(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(inference.required_attribute(attrs, 'to', 'BitCast')), input.shape, None),)


def infer_BitShift(inputs, attrs, n_outputs, opset):
    """BitShift(X: T, Y: T) -> (Z: T)"""
    X = inputs[0]
    Y = inputs[1]
    return ((X.dtype or Y.dtype, inference.broadcast(X.shape, Y.shape), None),)


def infer_BitwiseAnd(inputs, attrs, n_outputs, opset):
    """BitwiseAnd(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.broadcast(A.shape, B.shape), None),)


def infer_BitwiseNot(inputs, attrs, n_outputs, opset):
    """BitwiseNot(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_BitwiseOr(inputs, attrs, n_outputs, opset):
    """BitwiseOr(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.broadcast(A.shape, B.shape), None),)


def infer_BitwiseXor(inputs, attrs, n_outputs, opset):
    """BitwiseXor(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.broadcast(A.shape, B.shape), None),)


def infer_Cast(inputs, attrs, n_outputs, opset):
    """Cast(input: T1) -> (output: T2)"""
    input = inputs[0]
    dtype = inference.dtype_attr(inference.required_attribute(attrs, 'to', 'Cast'))
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.cast_value(input.value, input.dtype, inference.required_attribute(attrs, 'to', 'Cast')))
    return ((dtype, input.shape, value),)


def infer_CastLike(inputs, attrs, n_outputs, opset):
    """CastLike(input: T1, target_type: T2) -> (output: T2)"""
    input = inputs[0]
    target_type = inputs[1]
    dtype = target_type.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.cast_value(input.value, input.dtype, target_type.dtype))
    return ((dtype, input.shape, value),)


def infer_Ceil(inputs, attrs, n_outputs, opset):
    """Ceil(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Celu(inputs, attrs, n_outputs, opset):
    """Celu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((dtypes.float32, X.shape, None),)


def infer_Clip(inputs, attrs, n_outputs, opset):
    """Clip(input: T, min?: T, max?: T) -> (output: T)"""
    input = inputs[0]
    min = inputs[1] if len(inputs) > 1 else None
    max = inputs[2] if len(inputs) > 2 else None
    dtype = input.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.clip_value(input.value, () if min is None else min.value, () if max is None else max.value))
    return ((dtype, input.shape, value),)


def infer_Cos(inputs, attrs, n_outputs, opset):
    """Cos(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Cosh(inputs, attrs, n_outputs, opset):
    """Cosh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_CumProd(inputs, attrs, n_outputs, opset):
    """CumProd(x: T, axis: T2) -> (y: T)"""
    x = inputs[0]
    return ((x.dtype, x.shape, None),)


def infer_CumSum(inputs, attrs, n_outputs, opset):
    """CumSum(x: T, axis: T2) -> (y: T)"""
    x = inputs[0]
    return ((x.dtype, x.shape, None),)


def infer_Div(inputs, attrs, n_outputs, opset):
    """Div(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    dtype = A.dtype or B.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.div_value(A.value, B.value))
    return ((dtype, inference.broadcast(A.shape, B.shape), value),)


def infer_Dropout(inputs, attrs, n_outputs, opset):
    """Dropout(data: T, ratio?: T1, training_mode?: T2) -> (output: T, mask?: T2)"""
    data = inputs[0]
    if n_outputs == 1:
        return ((data.dtype, data.shape, None),)
    known = (
        (data.dtype, data.shape, None),
        (dtypes.boolean, data.shape, None),
    )
    return known[:n_outputs]


def infer_Elu(inputs, attrs, n_outputs, opset):
    """Elu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Equal(inputs, attrs, n_outputs, opset):
    """Equal(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_Erf(inputs, attrs, n_outputs, opset):
    """Erf(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Exp(inputs, attrs, n_outputs, opset):
    """Exp(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Floor(inputs, attrs, n_outputs, opset):
    """Floor(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Gelu(inputs, attrs, n_outputs, opset):
    """Gelu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Greater(inputs, attrs, n_outputs, opset):
    """Greater(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_GreaterOrEqual(inputs, attrs, n_outputs, opset):
    """GreaterOrEqual(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_HardSigmoid(inputs, attrs, n_outputs, opset):
    """HardSigmoid(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_HardSwish(inputs, attrs, n_outputs, opset):
    """HardSwish(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Hardmax(inputs, attrs, n_outputs, opset):
    """Hardmax(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Identity(inputs, attrs, n_outputs, opset):
    """Identity(input: V) -> (output: V)"""
    input = inputs[0]
    dtype = input.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, input.value)
    return ((dtype, input.shape, value),)


def infer_IsInf(inputs, attrs, n_outputs, opset):
    """IsInf(X: T1) -> (Y: T2)"""
    X = inputs[0]
    return ((dtypes.boolean, X.shape, None),)


def infer_IsNaN(inputs, attrs, n_outputs, opset):
    """IsNaN(X: T1) -> (Y: T2)"""
    X = inputs[0]
    return ((dtypes.boolean, X.shape, None),)


def infer_LeakyRelu(inputs, attrs, n_outputs, opset):
    """LeakyRelu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Less(inputs, attrs, n_outputs, opset):
    """Less(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_LessOrEqual(inputs, attrs, n_outputs, opset):
    """LessOrEqual(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_Log(inputs, attrs, n_outputs, opset):
    """Log(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_LogSoftmax(inputs, attrs, n_outputs, opset):
    """LogSoftmax(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Max(inputs, attrs, n_outputs, opset):
    """Max(data_0*: T) -> (max: T)"""
    dtype = inputs[0].dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.max_value([v.value for v in inputs]))
    return ((dtype, inference.broadcast(*[v.shape for v in inputs]), value),)


def infer_Mean(inputs, attrs, n_outputs, opset):
    """Mean(data_0*: T) -> (mean: T)"""
    return ((inputs[0].dtype, inference.broadcast(*[v.shape for v in inputs]), None),)


def infer_Min(inputs, attrs, n_outputs, opset):
    """Min(data_0*: T) -> (min: T)"""
    dtype = inputs[0].dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.min_value([v.value for v in inputs]))
    return ((dtype, inference.broadcast(*[v.shape for v in inputs]), value),)


def infer_Mish(inputs, attrs, n_outputs, opset):
    """Mish(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Mod(inputs, attrs, n_outputs, opset):
    """Mod(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    dtype = A.dtype or B.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.mod_value(A.value, B.value, attrs.get('fmod', 0)))
    return ((dtype, inference.broadcast(A.shape, B.shape), value),)


def infer_Mul(inputs, attrs, n_outputs, opset):
    """Mul(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    dtype = A.dtype or B.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.mul_value(A.value, B.value))
    return ((dtype, inference.broadcast(A.shape, B.shape), value),)


def infer_Neg(inputs, attrs, n_outputs, opset):
    """Neg(X: T) -> (Y: T)"""
    X = inputs[0]
    dtype = X.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.neg_value(X.value))
    return ((dtype, X.shape, value),)


def infer_Not(inputs, attrs, n_outputs, opset):
    """Not(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((dtypes.boolean, X.shape, None),)


def infer_Or(inputs, attrs, n_outputs, opset):
    """Or(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)


def infer_PRelu(inputs, attrs, n_outputs, opset):
    """PRelu(X: T, slope: T) -> (Y: T)"""
    # slope stretches to X, never X to slope
    X = inputs[0]
    slope = inputs[1]
    return ((X.dtype or slope.dtype, X.shape, None),)


def infer_Pow(inputs, attrs, n_outputs, opset):
    """Pow(X: T, Y: T1) -> (Z: T)"""
    X = inputs[0]
    Y = inputs[1]
    return ((X.dtype, inference.broadcast(X.shape, Y.shape), None),)


def infer_Reciprocal(inputs, attrs, n_outputs, opset):
    """Reciprocal(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Relu(inputs, attrs, n_outputs, opset):
    """Relu(X: T) -> (Y: T)"""
    X = inputs[0]
    dtype = X.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.clip_value(X.value, 0, ()))
    return ((dtype, X.shape, value),)


def infer_Round(inputs, attrs, n_outputs, opset):
    """Round(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Selu(inputs, attrs, n_outputs, opset):
    """Selu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Shrink(inputs, attrs, n_outputs, opset):
    """Shrink(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Sigmoid(inputs, attrs, n_outputs, opset):
    """Sigmoid(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Sign(inputs, attrs, n_outputs, opset):
    """Sign(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Sin(inputs, attrs, n_outputs, opset):
    """Sin(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Sinh(inputs, attrs, n_outputs, opset):
    """Sinh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Softmax(inputs, attrs, n_outputs, opset):
    """Softmax(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Softplus(inputs, attrs, n_outputs, opset):
    """Softplus(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Softsign(inputs, attrs, n_outputs, opset):
    """Softsign(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Sqrt(inputs, attrs, n_outputs, opset):
    """Sqrt(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Sub(inputs, attrs, n_outputs, opset):
    """Sub(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    dtype = A.dtype or B.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.sub_value(A.value, B.value))
    return ((dtype, inference.broadcast(A.shape, B.shape), value),)


def infer_Sum(inputs, attrs, n_outputs, opset):
    """Sum(data_0*: T) -> (sum: T)"""
    dtype = inputs[0].dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.sum_value([v.value for v in inputs]))
    return ((dtype, inference.broadcast(*[v.shape for v in inputs]), value),)


def infer_Swish(inputs, attrs, n_outputs, opset):
    """Swish(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Tan(inputs, attrs, n_outputs, opset):
    """Tan(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Tanh(inputs, attrs, n_outputs, opset):
    """Tanh(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_ThresholdedRelu(inputs, attrs, n_outputs, opset):
    """ThresholdedRelu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_Trilu(inputs, attrs, n_outputs, opset):
    """Trilu(input: T, k?: tensor(int64)) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_Where(inputs, attrs, n_outputs, opset):
    """Where(condition: B, X: T, Y: T) -> (output: T)"""
    condition = inputs[0]
    X = inputs[1]
    Y = inputs[2]
    dtype = X.dtype or Y.dtype
    value = None
    if dtype in inference.INDEX_TYPES:
        value = inference.fitting_value(dtype, inference.where_value(X.value, Y.value))
    return ((dtype, inference.broadcast(condition.shape, X.shape, Y.shape), value),)


def infer_Xor(inputs, attrs, n_outputs, opset):
    """Xor(A: T, B: T) -> (C: T1)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.boolean, inference.broadcast(A.shape, B.shape), None),)
