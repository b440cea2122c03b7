# Generated from specs/onnx/microsoft.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: microsoft."""

from ortable import dtypes, inference


def infer_com_microsoft_Attention(inputs, attrs, n_outputs, opset):
    """Attention(input: T, weights: T, bias?: T, mask_index?: M, past?: T, attention_bias?: T, past_sequence_length?: M) -> (output: T, present?: T)"""
    input = inputs[0]
    weights = inputs[1]
    if n_outputs == 1:
        return ((input.dtype or weights.dtype, inference.ms_attention_shape(input.shape, weights.shape, attrs.get('qkv_hidden_sizes')), None),)
    known = (
        (input.dtype or weights.dtype, inference.ms_attention_shape(input.shape, weights.shape, attrs.get('qkv_hidden_sizes')), None),
        (input.dtype or weights.dtype, None, None),
    )
    return known[:n_outputs]


def infer_com_microsoft_BiasGelu(inputs, attrs, n_outputs, opset):
    """BiasGelu(A: T, B: T) -> (C: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, A.shape, None),)


def infer_com_microsoft_CausalConvWithState(inputs, attrs, n_outputs, opset):
    """CausalConvWithState(input: T, weight: T, bias?: T, past_state?: T) -> (output: T, present_state: T)"""
    input = inputs[0]
    weight = inputs[1]
    if n_outputs == 1:
        return ((input.dtype or weight.dtype, input.shape, None),)
    known = (
        (input.dtype or weight.dtype, input.shape, None),
        (input.dtype or weight.dtype, inference.causal_state_shape(input.shape, weight.shape, attrs.get('ndim', 1), attrs.get('channels_last', 0), attrs.get('dilation', 1), attrs.get('state_window', 0)), None),
    )
    return known[:n_outputs]


def infer_com_microsoft_FastGelu(inputs, attrs, n_outputs, opset):
    """FastGelu(X: T, bias?: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_com_microsoft_FusedConv(inputs, attrs, n_outputs, opset):
    """FusedConv(X: T, W: T, B?: T, Z?: T) -> (Y: T)"""
    X = inputs[0]
    W = inputs[1]
    return ((X.dtype or W.dtype, inference.conv_shape(X.shape, W.shape, attrs.get('kernel_shape'), attrs.get('strides'), attrs.get('pads'), attrs.get('dilations'), attrs.get('group', 1), attrs.get('auto_pad', 'NOTSET')), None),)


def infer_com_microsoft_FusedGemm(inputs, attrs, n_outputs, opset):
    """FusedGemm(A: T, B: T, C?: T) -> (Y: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.gemm_shape(A.shape, B.shape, attrs.get('transA', 0), attrs.get('transB', 0)), None),)


def infer_com_microsoft_FusedMatMul(inputs, attrs, n_outputs, opset):
    """FusedMatMul(A: T, B: T) -> (Y: T)"""
    A = inputs[0]
    B = inputs[1]
    return ((A.dtype or B.dtype, inference.fused_matmul_shape(A.shape, B.shape, attrs.get('transA', 0), attrs.get('transB', 0), attrs.get('transBatchA', 0), attrs.get('transBatchB', 0)), None),)


def infer_com_microsoft_GatherBlockQuantized(inputs, attrs, n_outputs, opset):
    """GatherBlockQuantized(data: T1, indices: Tind, scales: T2, zero_points?: T1) -> (output: T2)"""
    # codes of uint8 are packed along the last axis
    data = inputs[0]
    indices = inputs[1]
    scales = inputs[2]
    return ((scales.dtype, inference.gather_block_quantized_shape(data.shape, indices.shape, attrs.get('gather_axis', 0), data.dtype == dtypes.uint8, attrs.get('bits', 4)), None),)


def infer_com_microsoft_Gelu(inputs, attrs, n_outputs, opset):
    """Gelu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_com_microsoft_GroupQueryAttention(inputs, attrs, n_outputs, opset):
    """GroupQueryAttention(query: T, key?: T, value?: T, past_key?: T_CACHE, past_value?: T_CACHE, seqlens_k: M, total_sequence_length: M, cos_cache?: T, sin_cache?: T, position_ids?: tensor(int64), attention_bias?: T, head_sink?: T, k_scale?: T_KV_SCALE, v_scale?: T_KV_SCALE, q_norm_weight?: T, k_norm_weight?: T) -> (output: T, present_key?: T_CACHE, present_value?: T_CACHE, output_qk?: T)"""
    # without a key the query holds all three, packed
    query = inputs[0]
    key = inputs[1] if len(inputs) > 1 else None
    past_key = inputs[3] if len(inputs) > 3 else None
    past_value = inputs[4] if len(inputs) > 4 else None
    if n_outputs == 1:
        return ((query.dtype, query.shape if key is not None else None, None),)
    known = (
        (query.dtype, query.shape if key is not None else None, None),
        (query.dtype if past_key is None else past_key.dtype, None, None),
        (query.dtype if past_value is None else past_value.dtype, None, None),
        (query.dtype, None, None),
    )
    return known[:n_outputs]


def infer_com_microsoft_Inverse(inputs, attrs, n_outputs, opset):
    """Inverse(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_com_microsoft_LinearAttention(inputs, attrs, n_outputs, opset):
    """LinearAttention(query: T, key: T, value: T, past_state?: S, decay?: T, beta?: T) -> (output: T, present_state: S)"""
    query = inputs[0]
    key = inputs[1]
    value = inputs[2]
    past_state = inputs[3] if len(inputs) > 3 else None
    if n_outputs == 1:
        return ((query.dtype or key.dtype or value.dtype, value.shape if inference.required_attribute(attrs, 'q_num_heads', 'com.microsoft::LinearAttention') <= inference.required_attribute(attrs, 'kv_num_heads', 'com.microsoft::LinearAttention') else None, None),)
    known = (
        (query.dtype or key.dtype or value.dtype, value.shape if inference.required_attribute(attrs, 'q_num_heads', 'com.microsoft::LinearAttention') <= inference.required_attribute(attrs, 'kv_num_heads', 'com.microsoft::LinearAttention') else None, None),
        (query.dtype if past_state is None else past_state.dtype, inference.linear_state_shape(query.shape, value.shape, inference.required_attribute(attrs, 'q_num_heads', 'com.microsoft::LinearAttention'), inference.required_attribute(attrs, 'kv_num_heads', 'com.microsoft::LinearAttention')) if past_state is None else past_state.shape, None),
    )
    return known[:n_outputs]


def infer_com_microsoft_MatMulNBits(inputs, attrs, n_outputs, opset):
    """MatMulNBits(A: T1, B: T2, scales: T1, zero_points?: T3, g_idx?: T4, bias?: T1) -> (Y: T1)"""
    A = inputs[0]
    scales = inputs[2]
    return ((A.dtype or scales.dtype, inference.matmul_nbits_shape(A.shape, inference.required_attribute(attrs, 'N', 'com.microsoft::MatMulNBits')), None),)


def infer_com_microsoft_MultiHeadAttention(inputs, attrs, n_outputs, opset):
    """MultiHeadAttention(query: T, key?: T, value?: T, bias?: T, key_padding_mask?: M, attention_bias?: T, past_key?: T, past_value?: T, past_sequence_length?: M, cache_indirection?: M) -> (output: T, present_key?: T, present_value?: T, qk?: QK)"""
    # without a value the key holds both, or the query all three, packed
    query = inputs[0]
    value = inputs[2] if len(inputs) > 2 else None
    if n_outputs == 1:
        return ((query.dtype, inference.ms_multi_head_attention_shape(query.shape, None if value is None else value.shape), None),)
    known = (
        (query.dtype, inference.ms_multi_head_attention_shape(query.shape, None if value is None else value.shape), None),
        (query.dtype, None, None),
        (query.dtype, None, None),
        (None, None, None),
    )
    return known[:n_outputs]


def infer_com_microsoft_QuickGelu(inputs, attrs, n_outputs, opset):
    """QuickGelu(X: T) -> (Y: T)"""
    X = inputs[0]
    return ((X.dtype, X.shape, None),)


def infer_com_microsoft_RotaryEmbedding(inputs, attrs, n_outputs, opset):
    """RotaryEmbedding(input: T, position_ids: M, cos_cache: T, sin_cache: T) -> (output: T)"""
    input = inputs[0]
    cos_cache = inputs[2]
    sin_cache = inputs[3]
    return ((input.dtype or cos_cache.dtype or sin_cache.dtype, input.shape, None),)


def infer_com_microsoft_SkipLayerNormalization(inputs, attrs, n_outputs, opset):
    """SkipLayerNormalization(input: T, skip: T, gamma: T, beta?: T, bias?: T) -> (output: T, mean?: U, inv_std_var?: U, input_skip_bias_sum?: T)"""
    input = inputs[0]
    skip = inputs[1]
    gamma = inputs[2]
    if n_outputs == 1:
        return ((input.dtype or skip.dtype or gamma.dtype, input.shape, None),)
    known = (
        (input.dtype or skip.dtype or gamma.dtype, input.shape, None),
        (dtypes.float32, None, None),
        (dtypes.float32, None, None),
        (input.dtype or skip.dtype or gamma.dtype, input.shape, None),
    )
    return known[:n_outputs]


def infer_com_microsoft_SkipSimplifiedLayerNormalization(inputs, attrs, n_outputs, opset):
    """SkipSimplifiedLayerNormalization(input: T, skip: T, gamma: T, bias?: T) -> (output: T, mean?: U, inv_std_var?: U, input_skip_bias_sum?: T)"""
    input = inputs[0]
    skip = inputs[1]
    gamma = inputs[2]
    if n_outputs == 1:
        return ((input.dtype or skip.dtype or gamma.dtype, input.shape, None),)
    known = (
        (input.dtype or skip.dtype or gamma.dtype, input.shape, None),
        (dtypes.float32, None, None),
        (dtypes.float32, None, None),
        (input.dtype or skip.dtype or gamma.dtype, input.shape, None),
    )
    return known[:n_outputs]
