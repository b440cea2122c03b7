# Generated from specs/onnx/signal.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: signal."""

from ortable import inference


def infer_BlackmanWindow(inputs, attrs, n_outputs, opset):
    """BlackmanWindow(size: T1) -> (output: T2)"""
    size = inputs[0]
    return ((inference.dtype_attr(attrs.get('output_datatype', 1)), inference.window_shape(size.value), None),)


def infer_HammingWindow(inputs, attrs, n_outputs, opset):
    """HammingWindow(size: T1) -> (output: T2)"""
    size = inputs[0]
    return ((inference.dtype_attr(attrs.get('output_datatype', 1)), inference.window_shape(size.value), None),)


def infer_HannWindow(inputs, attrs, n_outputs, opset):
    """HannWindow(size: T1) -> (output: T2)"""
    size = inputs[0]
    return ((inference.dtype_attr(attrs.get('output_datatype', 1)), inference.window_shape(size.value), None),)


def infer_MelWeightMatrix(inputs, attrs, n_outputs, opset):
    """MelWeightMatrix(num_mel_bins: T1, dft_length: T1, sample_rate: T1, lower_edge_hertz: T2, upper_edge_hertz: T2) -> (output: T3)"""
    num_mel_bins = inputs[0]
    dft_length = inputs[1]
    return ((inference.dtype_attr(attrs.get('output_datatype', 1)), inference.mel_weights_shape(dft_length.value, num_mel_bins.value), None),)


def infer_STFT(inputs, attrs, n_outputs, opset):
    """STFT(signal: T1, frame_step: T2, window?: T1, frame_length?: T2) -> (output: T1)"""
    signal = inputs[0]
    frame_step = inputs[1]
    window = inputs[2] if len(inputs) > 2 else None
    frame_length = inputs[3] if len(inputs) > 3 else None
    return ((signal.dtype, inference.stft_shape(signal.shape, frame_step.value, () if window is None else window.shape, () if frame_length is None else frame_length.value, attrs.get('onesided', 1)), None),)
