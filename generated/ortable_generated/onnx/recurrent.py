# Generated from specs/onnx/recurrent.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: recurrent."""

from ortable import inference


def infer_GRU(inputs, attrs, n_outputs, opset):
    """GRU(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T) -> (Y?: T, Y_h?: T)"""
    X = inputs[0]
    W = inputs[1]
    R = inputs[2]
    if n_outputs == 1:
        return ((X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),)
    known = (
        (X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
        (X.dtype or W.dtype or R.dtype, inference.rnn_state_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
    )
    return known[:n_outputs]


def infer_LSTM(inputs, attrs, n_outputs, opset):
    """LSTM(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T, initial_c?: T, P?: T) -> (Y?: T, Y_h?: T, Y_c?: T)"""
    X = inputs[0]
    W = inputs[1]
    R = inputs[2]
    if n_outputs == 1:
        return ((X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),)
    known = (
        (X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
        (X.dtype or W.dtype or R.dtype, inference.rnn_state_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
        (X.dtype or W.dtype or R.dtype, inference.rnn_state_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
    )
    return known[:n_outputs]


def infer_RNN(inputs, attrs, n_outputs, opset):
    """RNN(X: T, W: T, R: T, B?: T, sequence_lens?: T1, initial_h?: T) -> (Y?: T, Y_h?: T)"""
    X = inputs[0]
    W = inputs[1]
    R = inputs[2]
    if n_outputs == 1:
        return ((X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),)
    known = (
        (X.dtype or W.dtype or R.dtype, inference.rnn_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
        (X.dtype or W.dtype or R.dtype, inference.rnn_state_shape(X.shape, R.shape, attrs.get('hidden_size'), attrs.get('direction', 'forward'), attrs.get('layout', 0)), None),
    )
    return known[:n_outputs]
