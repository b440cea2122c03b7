# Generated from specs/onnx/linalg.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: linalg."""

from ortable import dtypes, inference


def infer_Attention(inputs, attrs, n_outputs, opset):
    """Attention(Q: T1, K: T1, V: T2, attn_mask?: U, past_key?: T1, past_value?: T2, nonpad_kv_seqlen?: tensor(int64)) -> (Y: T1, present_key?: T1, present_value?: T2, qk_matmul_output?: T1)"""
    Q = inputs[0]
    K = inputs[1]
    V = inputs[2]
    past_key = inputs[4] if len(inputs) > 4 else None
    past_value = inputs[5] if len(inputs) > 5 else None
    if n_outputs == 1:
        return ((Q.dtype or K.dtype, inference.attention_shape(Q.shape, K.shape, V.shape, attrs.get('q_num_heads'), attrs.get('kv_num_heads')), None),)
    known = (
        (Q.dtype or K.dtype, inference.attention_shape(Q.shape, K.shape, V.shape, attrs.get('q_num_heads'), attrs.get('kv_num_heads')), None),
        (Q.dtype or K.dtype, inference.attention_present_shape(K.shape, () if past_key is None else past_key.shape, attrs.get('kv_num_heads')), None),
        (V.dtype, inference.attention_present_shape(V.shape, () if past_value is None else past_value.shape, attrs.get('kv_num_heads')), None),
        (Q.dtype or K.dtype, inference.attention_scores_shape(Q.shape, K.shape, () if past_key is None else past_key.shape, attrs.get('q_num_heads')), None),
    )
    return known[:n_outputs]


def infer_BatchNormalization(inputs, attrs, n_outputs, opset):
    """BatchNormalization(X: T, scale: T1, B: T1, input_mean: T2, input_var: T2) -> (Y: T, running_mean?: T2, running_var?: T2)"""
    X = inputs[0]
    input_mean = inputs[3]
    input_var = inputs[4]
    if n_outputs == 1:
        return ((X.dtype, X.shape, None),)
    known = (
        (X.dtype, X.shape, None),
        (input_mean.dtype or input_var.dtype, input_mean.shape, None),
        (input_mean.dtype or input_var.dtype, input_var.shape, None),
    )
    return known[:n_outputs]


def infer_Det(inputs, attrs, n_outputs, opset):
    """Det(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, inference.det_shape(X.shape), None),)


def infer_Einsum(inputs, attrs, n_outputs, opset):
    """Einsum(Inputs*: T) -> (Output: T)"""
    return ((inputs[0].dtype, inference.einsum_shape(inference.required_attribute(attrs, 'equation', 'Einsum'), [v.shape for v in inputs]), None),)


def infer_Gemm(inputs, attrs, n_outputs, opset):
    """Gemm(A: T, B: T, C?: T) -> (Y: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.gemm_shape(A.shape, B.shape, attrs.get('transA', 0), attrs.get('transB', 0)), None),)


def infer_GroupNormalization(inputs, attrs, n_outputs, opset):
    """GroupNormalization(X: T, scale: T, bias: T) -> (Y: T)"""
    X = inputs[0]
    scale = inputs[1]
    bias = inputs[2]
    return ((X.dtype or scale.dtype or bias.dtype, X.shape, None),)


def infer_InstanceNormalization(inputs, attrs, n_outputs, opset):
    """InstanceNormalization(input: T, scale: T, B: T) -> (output: T)"""
    input = inputs[0]
    scale = inputs[1]
    B = inputs[2]
    return ((input.dtype or scale.dtype or B.dtype, input.shape, None),)


def infer_LRN(inputs, attrs, n_outputs, opset):
    """LRN(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_LayerNormalization(inputs, attrs, n_outputs, opset):
    """LayerNormalization(X: T, Scale: T, B?: T) -> (Y: T, Mean?: U, InvStdDev?: U)"""
    X = inputs[0]
    Scale = inputs[1]
    if n_outputs == 1:
        return ((X.dtype or Scale.dtype, X.shape, None),)
    known = (
        (X.dtype or Scale.dtype, X.shape, None),
        (inference.dtype_attr(attrs.get('stash_type', 1)), inference.norm_stats_shape(X.shape, attrs.get('axis', -1)), None),
        (inference.dtype_attr(attrs.get('stash_type', 1)), inference.norm_stats_shape(X.shape, attrs.get('axis', -1)), None),
    )
    return known[:n_outputs]


def infer_LpNormalization(inputs, attrs, n_outputs, opset):
    """LpNormalization(input: T) -> (output: T)"""
    input = inputs[0]
    return ((input.dtype, input.shape, None),)


def infer_MatMul(inputs, attrs, n_outputs, opset):
    """MatMul(A: T, B: T) -> (Y: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.matmul_shape(A.shape, B.shape), None),)


def infer_MatMulInteger(inputs, attrs, n_outputs, opset):
    """MatMulInteger(A: T1, B: T2, a_zero_point?: T1, b_zero_point?: T2) -> (Y: T3)"""
    A = inputs[0]
    B = inputs[1]
    return ((dtypes.int32, inference.matmul_shape(A.shape, B.shape), None),)


def infer_MeanVarianceNormalization(inputs, attrs, n_outputs, opset):
    """MeanVarianceNormalization(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_NegativeLogLikelihoodLoss(inputs, attrs, n_outputs, opset):
    """NegativeLogLikelihoodLoss(input: T, target: Tind, weight?: T) -> (loss: T)"""
    input = inputs[0]
    target = inputs[1]
    return ((input.dtype, inference.loss_shape(target.shape, attrs.get('reduction', 'mean')), None),)


def infer_QLinearMatMul(inputs, attrs, n_outputs, opset):
    """QLinearMatMul(a: T1, a_scale: TS, a_zero_point: T1, b: T2, b_scale: TS, b_zero_point: T2, y_scale: TS, y_zero_point: T3) -> (y: T3)"""
    a = inputs[0]
    b = inputs[3]
    y_zero_point = inputs[7]
    return ((y_zero_point.dtype, inference.matmul_shape(a.shape, b.shape), None),)


def infer_RMSNormalization(inputs, attrs, n_outputs, opset):
    """RMSNormalization(X: T, scale: V) -> (Y: V)"""
    X = inputs[0]
    scale = inputs[1]
    return ((scale.dtype, X.shape, None),)


def infer_RotaryEmbedding(inputs, attrs, n_outputs, opset):
    """RotaryEmbedding(X: T, cos_cache: T, sin_cache: T, position_ids?: M) -> (Y: T)"""
    X = inputs[0]
    cos_cache = inputs[1]
    sin_cache = inputs[2]
    return ((X.dtype or cos_cache.dtype or sin_cache.dtype, X.shape, None),)


def infer_SimplifiedLayerNormalization(inputs, attrs, n_outputs, opset):
    """SimplifiedLayerNormalization(X: T, scale: V) -> (Y: V, inv_std_var?: U)"""
    # ONNX Runtime's own operator in the standard domain
    X = inputs[0]
    scale = inputs[1]
    if n_outputs == 1:
        return ((scale.dtype, X.shape, None),)
    known = (
        (scale.dtype, X.shape, None),
        (inference.dtype_attr(attrs.get('stash_type', 1)), inference.norm_stats_shape(X.shape, attrs.get('axis', -1)), None),
    )
    return known[:n_outputs]


def infer_SoftmaxCrossEntropyLoss(inputs, attrs, n_outputs, opset):
    """SoftmaxCrossEntropyLoss(scores: T, labels: Tind, weights?: T) -> (output: T, log_prob?: T)"""
    scores = inputs[0]
    labels = inputs[1]
    if n_outputs == 1:
        return ((scores.dtype, inference.loss_shape(labels.shape, attrs.get('reduction', 'mean')), None),)
    known = (
        (scores.dtype, inference.loss_shape(labels.shape, attrs.get('reduction', 'mean')), None),
        (scores.dtype, scores.shape, None),
    )
    return known[:n_outputs]
