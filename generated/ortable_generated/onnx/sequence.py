# Generated from specs/onnx/sequence.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Shape and type rules of ONNX operators: sequence."""

from ortable import dtypes, inference


def infer_ConcatFromSequence(inputs, attrs, n_outputs, opset):
    """ConcatFromSequence(input_sequence: S) -> (concat_result: T)"""
    return ((None, None, None),)


def infer_Optional(inputs, attrs, n_outputs, opset):
    """Optional(input?: V) -> (output: O)"""
    return ((None, None, None),)


def infer_OptionalGetElement(inputs, attrs, n_outputs, opset):
    """OptionalGetElement(input: O) -> (output: V)"""
    return ((None, None, None),)


def infer_OptionalHasElement(inputs, attrs, n_outputs, opset):
    """OptionalHasElement(input?: O) -> (output: B)"""
    return ((dtypes.boolean, (), None),)


def infer_RegexFullMatch(inputs, attrs, n_outputs, opset):
    """RegexFullMatch(X: T1) -> (Y: T2)"""
    X = inputs[0]
    return ((dtypes.boolean, X.shape, None),)


def infer_SequenceAt(inputs, attrs, n_outputs, opset):
    """SequenceAt(input_sequence: S, position: I) -> (tensor: T)"""
    return ((None, None, None),)


def infer_SequenceConstruct(inputs, attrs, n_outputs, opset):
    """SequenceConstruct(inputs*: T) -> (output_sequence: S)"""
    return ((None, None, None),)


def infer_SequenceEmpty(inputs, attrs, n_outputs, opset):
    """SequenceEmpty() -> (output: S)"""
    return ((None, None, None),)


def infer_SequenceErase(inputs, attrs, n_outputs, opset):
    """SequenceErase(input_sequence: S, position?: I) -> (output_sequence: S)"""
    input_sequence = inputs[0]
    return ((input_sequence.dtype, None, None),)


def infer_SequenceInsert(inputs, attrs, n_outputs, opset):
    """SequenceInsert(input_sequence: S, tensor: T, position?: I) -> (output_sequence: S)"""
    input_sequence = inputs[0]
    return ((input_sequence.dtype, None, None),)


def infer_SequenceLength(inputs, attrs, n_outputs, opset):
    """SequenceLength(input_sequence: S) -> (length: I)"""
    return ((dtypes.int64, (), None),)


def infer_SequenceMap(inputs, attrs, n_outputs, opset):
    """SequenceMap(input_sequence: S, additional_inputs*: V) -> (out_sequence*: S)"""
    return ((None, None, None),) * n_outputs


def infer_SplitToSequence(inputs, attrs, n_outputs, opset):
    """SplitToSequence(input: T, split?: I) -> (output_sequence: S)"""
    return ((None, None, None),)


def infer_StringConcat(inputs, attrs, n_outputs, opset):
    """StringConcat(X: T, Y: T) -> (Z: T)"""
    X = inputs[0]
    Y = inputs[1]
    return ((dtypes.string, inference.broadcast(X.shape, Y.shape), None),)


def infer_StringNormalizer(inputs, attrs, n_outputs, opset):
    """StringNormalizer(X: tensor(string)) -> (Y: tensor(string))"""
    # stop words are dropped
    X = inputs[0]
    return ((dtypes.string, X.shape if attrs.get('stopwords') is None else None, None),)


def infer_StringSplit(inputs, attrs, n_outputs, opset):
    """StringSplit(X: T1) -> (Y: T2, Z: T3)"""
    X = inputs[0]
    if n_outputs == 1:
        return ((dtypes.string, None, None),)
    known = (
        (dtypes.string, None, None),
        (dtypes.int64, X.shape, None),
    )
    return known[:n_outputs]


def infer_TfIdfVectorizer(inputs, attrs, n_outputs, opset):
    """TfIdfVectorizer(X: T) -> (Y: T1)"""
    X = inputs[0]
    return ((dtypes.float32, inference.tf_idf_shape(X.shape, inference.required_attribute(attrs, 'ngram_indexes', 'TfIdfVectorizer')), None),)
