# Generated from specs/onnx/random.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: random."""

from ortable import inference


def infer_Bernoulli(inputs, attrs, n_outputs, opset):
    """Bernoulli(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(attrs.get('dtype'), input.dtype), input.shape, None),)


def infer_Multinomial(inputs, attrs, n_outputs, opset):
    """Multinomial(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(attrs.get('dtype', 6)), inference.keep_leading(input.shape, 1, (attrs.get('sample_size', 1),)), None),)


def infer_RandomNormal(inputs, attrs, n_outputs, opset):
    """RandomNormal() -> (output: T)"""
    return ((inference.dtype_attr(attrs.get('dtype', 1)), inference.tuple_of(inference.required_attribute(attrs, 'shape', 'RandomNormal')), None),)


def infer_RandomNormalLike(inputs, attrs, n_outputs, opset):
    """RandomNormalLike(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(attrs.get('dtype'), input.dtype), input.shape, None),)


def infer_RandomUniform(inputs, attrs, n_outputs, opset):
    """RandomUniform() -> (output: T)"""
    return ((inference.dtype_attr(attrs.get('dtype', 1)), inference.tuple_of(inference.required_attribute(attrs, 'shape', 'RandomUniform')), None),)


def infer_RandomUniformLike(inputs, attrs, n_outputs, opset):
    """RandomUniformLike(input: T1) -> (output: T2)"""
    input = inputs[0]
    return ((inference.dtype_attr(attrs.get('dtype'), input.dtype), input.shape, None),)
