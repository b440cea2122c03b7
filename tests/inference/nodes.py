"""ONNX nodes with concrete inputs, on which the inference rules are tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

F, D, H, I64, I32, U8, B = (
    np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.bool_,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A node: operator, inputs, attributes, number of outputs, opset and domain.

    An input is an array, None if omitted, or a list for a sequence.
    """

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18
    domain: str = ""

    def __str__(self) -> str:
        arguments = ", ".join(
            [*map(_describe, self.inputs), *(f"{k}={_text(v)}" for k, v in self.attrs.items())]
        )
        return f"{self.domain and 'ms.'}{self.op}-{self.opset}({arguments})"


def _describe(value: Any) -> str:
    """Return the dtype and sizes of an input, and the values of a few numbers."""
    if value is None or isinstance(value, list):
        return "none" if value is None else f"[{', '.join(map(_describe, value))}]"
    sizes = f"{value.dtype.kind}{value.dtype.itemsize}[{','.join(map(str, value.shape))}]"
    shows_values = (
        value.size < 5 if value.dtype.kind in "iu" else value.dtype.kind == "f" and not value.ndim
    )
    return f"{sizes}={_text(value)}" if shows_values else sizes


def _text(value: Any) -> str:
    printable = value.tolist() if isinstance(value, np.ndarray) else value
    return str(printable).replace(" ", "")


def f(*shape: int, dtype: Any = F) -> np.ndarray:
    """Return an array of positive numbers with the given shape."""
    return (np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape) / 7 % 1 + 0.125).astype(
        dtype
    )


def i(*values: int, dtype: Any = I64) -> np.ndarray:
    """Return a vector of integers."""
    return np.array(values, dtype=dtype)


def s(value: Any, dtype: Any = I64) -> np.ndarray:
    """Return a scalar array."""
    return np.array(value, dtype=dtype)


def c(
    op: str,
    *inputs: Any,
    outputs: int = 1,
    opset: int = 18,
    domain: str = "",
    **attrs: Any,
) -> Case:
    return Case(op, inputs, attrs, outputs, opset, domain)


_END = 2**63 - 1
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid "
    "HardSwish Identity LeakyRelu Log LogSoftmax Mish Neg Reciprocal Relu Round Selu Shrink "
    "Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Hardmax "
    "LpNormalization MeanVarianceNormalization"
)
_REDUCE = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

ELEMENTWISE = [
    *(c(op, f(2, 3, 4, 5) if op == "MeanVarianceNormalization" else f(2, 3) + F(op == "Acosh"))
      for op in _UNARY.split()),
    *(c(op, f(2, 1, 4), f(3, 1)) for op in ("Add", "Sub", "Mul", "Div", "Pow")),
    c("Add", i(1, 2, 3), s(5)), c("Sub", i(1, 2), i(5, 9)), c("Mul", s(3), s(4)),
    c("Div", i(7, 9), i(2)), c("Div", i(-7, 7), i(2)), c("Div", i(-7, 7), i(-2)),
    c("Mod", i(7, -7), i(4)), c("Mod", i(7, -7), i(4), fmod=1),
    c("Add", i(2**31 - 1, dtype=I32), i(1, dtype=I32)), c("Neg", i(4, -2)), c("Abs", i(4, -2)),
    c("Max", i(1, 5), i(4), i(2, 2)), c("Min", i(1, 5), i(4)), c("Max", f(2, 3), f(3)),
    c("Sum", f(2, 1), f(3), f(1, 1)), c("Mean", f(2, 3), f(1)),
    c("Clip", f(2, 3), s(0.2, F), s(0.5, F)), c("Clip", i(1, 9), s(2), s(4)),
    c("Clip", i(1, 9), None, s(4)), c("Relu", i(3, 4, dtype=I32)),
    c("And", f(2, 1) > 0, f(3) > 0.4), c("Not", f(2, 3) > 0.3), c("Or", f(2) > 0, f(2) > 0),
    c("Xor", f(1) > 0, f(4) > 0), c("Equal", f(2, 3), f(3)), c("Less", f(2, 1), f(1, 3)),
    c("LessOrEqual", f(0, 3), f(1, 3)), c("Greater", f(2, 3), f(2, 3)),
    c("GreaterOrEqual", f(2, 0), f(1)), c("BitwiseAnd", i(6, 5), i(3)), c("BitwiseOr", i(6), i(3)),
    c("BitwiseXor", i(6), i(3)), c("BitwiseNot", i(6, 1)),
    c("BitShift", i(6, 1, dtype=U8), i(1, dtype=U8), direction="LEFT"), c("IsNaN", f(2, 3)),
    c("IsInf", f(2, 3), opset=20), c("Cast", i(3, 4), to=1), c("Cast", i(3, 4), to=6),
    c("Cast", i(3, 2**40), to=6), c("Cast", f(2), to=7), c("CastLike", i(3, 4), f(1)),
    c("CastLike", i(3, 4), i(1, dtype=I32)), c("CumSum", f(2, 3), s(1)), c("PRelu", f(2, 3), f(3)),
    c("Gelu", f(2, 3), opset=20), c("Where", f(2, 1) > 0.2, f(3), f(1, 1)),
    c("Where", np.array([True, False]), i(3, 4), i(3, 4)), c("Trilu", f(3, 4), s(1)),
    c("Dropout", f(2, 3), outputs=2), c("Swish", f(2, 3), opset=24),
    c("LRN", f(1, 4, 2, 2), size=3),
]  # fmt: skip

REDUCE = [
    *(c(f"Reduce{op}", f(2, 3, 4), i(1)) for op in _REDUCE.split()),
    *(c(f"Reduce{op}", f(2, 3, 4), i(-1, 0), keepdims=0) for op in _REDUCE.split()),
    c("ReduceSum", f(2, 3)), c("ReduceSum", f(2, 3), keepdims=0),
    c("ReduceSum", f(2, 3), noop_with_empty_axes=1), c("ReduceMean", f(2, 3), i()),
    c("ReduceMean", f(2, 3), i(), noop_with_empty_axes=1),
    c("ReduceMax", f(4), i(0), keepdims=0, opset=20),
    c("ReduceProd", i(2, 3, 4), i(0), keepdims=0), c("ReduceProd", i(2, 3, 4), keepdims=1),
    c("ReduceSum", i(2, 3, 4)), c("ReduceMax", i(2, 9, 4), keepdims=0),
    c("ReduceMin", i(2, 9, 4), i(-1), keepdims=0), c("ArgMax", f(2, 3, 4), axis=-1),
    c("ArgMin", f(2, 3, 4), axis=1, keepdims=0), c("ArgMax", f(5), keepdims=0),
    c("TopK", f(2, 5), i(3), outputs=2), c("TopK", f(6, 2), i(4), outputs=2, axis=0, largest=0),
]  # fmt: skip

VIEW = [
    c("Reshape", f(2, 3, 4), i(6, 4)), c("Reshape", f(2, 3, 4), i(-1)),
    c("Reshape", f(2, 3, 4), i(0, -1)), c("Reshape", f(2, 3, 4), i(4, -1, 2)),
    c("Reshape", f(2, 3, 4), i(0, 0, 2, 2)), c("Reshape", f(0, 4), i(0, 2), allowzero=1),
    c("Reshape", f(1), i()), c("Reshape", i(5), i()), c("Reshape", i(5, 6), i(-1)),
    c("Reshape", s(5), i(1)), c("Reshape", f(4, 6), i(3, 8)), c("Reshape", f(8, 6), i(0, 2, -1)),
    c("Reshape", f(2, 5, 7), i(-1, 7)), c("Reshape", f(3, 4), i(0, -1), opset=24),
    c("Flatten", f(2, 3, 4)), c("Flatten", f(2, 3, 4), axis=0), c("Flatten", f(2, 3, 4), axis=-1),
    c("Flatten", f(2, 3), axis=2), c("Transpose", f(2, 3, 4), perm=[2, 0, 1]),
    c("Transpose", f(2, 3, 4)), c("Transpose", i(2, 3)),
    c("Concat", f(2, 3), f(2, 1), f(2, 4), axis=1), c("Concat", f(2, 3), f(5, 3), axis=-2),
    c("Concat", i(1, 2), i(3), axis=0), c("Concat", f(0, 3), f(5, 3), axis=0),
    c("Slice", f(5, 6), i(1), i(4)), c("Slice", f(5, 6), i(0, 2), i(_END, -1), i(0, 1)),
    c("Slice", f(5, 6), i(-3), i(100), i(1), i(2)),
    c("Slice", f(5), i(-1), i(-(2**62)), i(0), i(-1)), c("Slice", f(7), i(5), i(0), i(0), i(-2)),
    c("Slice", f(5), i(3), i(2)), c("Slice", f(5), i(9), i(12)), c("Slice", f(5), i(-9), i(2)),
    c("Slice", f(5), i(0), i(-9)), c("Slice", f(7), i(0), i(7), i(-1), i(3)),
    c("Slice", i(5, 6, 7, 8), i(1), i(3)), c("Slice", i(5, 6, 7, 8), i(-1), i(_END)),
    c("Slice", i(5, 6, 7, 8), i(0), i(-1), i(0), i(2)),
    c("Slice", i(5, 6, 7, 8), i(-1), i(-(2**62)), i(0), i(-1)), c("Slice", f(0, 3), i(0), i(_END)),
    c("Slice", f(6), i(2), i(2**31 - 1)), c("Split", f(7, 2), i(3, 4), outputs=2),
    c("Split", f(2, 7), i(3, 0, 4), outputs=3, axis=-1),
    c("Split", f(6, 2), outputs=3, num_outputs=3), c("Split", f(7, 2), outputs=3, num_outputs=3),
    c("Split", i(4, 5, 6), i(1, 2), outputs=2), c("Squeeze", f(1, 3, 1), i(0)),
    c("Squeeze", f(1, 3, 1), i(-1, 0)), c("Squeeze", f(1, 3, 1)), c("Squeeze", i(4), i(0)),
    c("Squeeze", i(4)), c("Unsqueeze", f(2, 3), i(0, -1)), c("Unsqueeze", f(2, 3), i(1)),
    c("Unsqueeze", s(4), i(0)), c("Unsqueeze", i(4, 5), i(0)), c("Expand", f(3, 1), i(2, 1, 4)),
    c("Expand", f(3, 1), i(1)), c("Expand", s(3), i(4)), c("Expand", f(3, 4), i(3, 1)),
    c("Tile", f(2, 3), i(2, 1)), c("Tile", i(3), i(4)), c("Tile", i(3, 4), i(2)),
    c("Pad", f(2, 3), i(1, 0, 2, 1)), c("Pad", f(4, 5), i(-1, 2), None, i(-1)),
    c("Pad", f(4, 5), i(1, 1), s(0.5, F), i(0), opset=21), c("Gather", f(5, 3), i(0, 2)),
    c("Gather", f(5, 3), s(1), axis=1), c("Gather", f(5, 3), np.zeros((2, 2), I64), axis=-1),
    c("Gather", i(7, 8, 9), s(1)), c("Gather", i(7, 8, 9), i(-1, 0)),
    c("Gather", i(7, 8, 9), np.zeros((1, 2), I64)),
    c("GatherElements", f(3, 3), np.zeros((2, 3), I64), axis=0),
    c("GatherND", f(2, 3, 4), np.zeros((5, 2), I64)),
    c("GatherND", f(2, 3, 4), np.zeros((2, 1), I64), batch_dims=1),
    c("ScatterElements", f(3, 3), np.zeros((1, 3), I64), f(1, 3)),
    c("ScatterND", f(4, 3), np.zeros((2, 1), I64), f(2, 3)), c("OneHot", i(1, 2), s(4), f(2)),
    c("OneHot", np.zeros((2, 3), I64), i(4), f(2), axis=1), c("Shape", f(2, 3, 4)),
    c("Shape", f(2, 3, 4), start=1), c("Shape", f(2, 3, 4), start=-2, end=-1),
    c("Shape", f(2, 3, 4), start=2, end=9), c("Shape", f(2, 3, 4), start=3, end=1),
    c("Shape", s(1)), c("Size", f(2, 3)), c("Size", s(1)), c("Range", s(2), s(9), s(3)),
    c("Range", s(9), s(2), s(-3)), c("Range", s(3), s(1), s(1)),
    c("Range", s(0), s(9), s(1)), c("Range", s(0, F), s(5, F), s(1, F)),
    c("Range", s(0, F), s(1, F), s(0.25, F)),
    c("ConstantOfShape", i(2, 3)), c("ConstantOfShape", i(3), value=np.array([7], I64)),
    c("ConstantOfShape", i(), value=np.array([7], I64)),
    c("ConstantOfShape", i(2), value=np.array([True])), c("EyeLike", f(3, 4)),
    c("EyeLike", f(3, 4), dtype=7),
    c("Compress", f(3, 4), np.array([True, False]), axis=1),
    c("NonZero", f(3, 4)), c("Unique", f(5), outputs=4),
    c("DepthToSpace", f(1, 8, 2, 3), blocksize=2), c("SpaceToDepth", f(1, 2, 4, 6), blocksize=2),
    c("CenterCropPad", f(5, 6), i(3, 8)), c("CenterCropPad", f(5, 6), i(3), axes=[-1]),
    c("ReverseSequence", f(3, 4), i(1, 2, 3, 2)), c("Constant", value=np.arange(3)),
    c("Constant", value_int=5), c("Constant", value_ints=[5, 6]), c("Constant", value_float=5.0),
    c("Constant", value_floats=[5.0, 6.0]),
    c("TensorScatter", f(2, 1, 6, 3), f(2, 1, 2, 3), i(0, 1), opset=24),
]  # fmt: skip

LINALG = [
    c("MatMul", f(2, 3), f(3, 4)), c("MatMul", f(3), f(3, 4)), c("MatMul", f(2, 3), f(3)),
    c("MatMul", f(3), f(3)), c("MatMul", f(5, 2, 3), f(3, 4)),
    c("MatMul", f(5, 1, 2, 3), f(6, 3, 4)), c("MatMul", f(5, 2, 3), f(3)),
    c("MatMul", f(3), f(5, 3, 4)), c("Gemm", f(2, 3), f(3, 4)),
    c("Gemm", f(3, 2), f(4, 3), f(4), transA=1, transB=1),
    c("Einsum", f(2, 3), f(3, 4), equation="ij,jk->ik"),
    c("Einsum", f(2, 3), f(3, 4), equation="ij,jk"),
    c("Einsum", f(5, 2, 3), equation="...ij->...ji"), c("Einsum", f(3, 3), equation="ii->i"),
    c("Einsum", f(2, 5, 3), f(2, 4, 3), equation="bid,bjd->bij"),
    c("Einsum", f(2, 3), equation="ij->"), c("Det", f(2, 3, 3)),
    c("MatMulInteger", np.ones((2, 3), U8), np.ones((3, 4), U8)),
    c("BatchNormalization", f(2, 3, 4), f(3), f(3), f(3), f(3)),
    c("BatchNormalization", f(2, 3, 4), f(3), f(3), f(3), f(3), outputs=3, training_mode=1),
    c("InstanceNormalization", f(2, 3, 4), f(3), f(3)),
    c("LayerNormalization", f(2, 3, 4), f(4), f(4), outputs=3),
    c("LayerNormalization", f(2, 3, 4), f(3, 4), outputs=3, axis=1),
    c("GroupNormalization", f(2, 4, 3), f(4), f(4), opset=21, num_groups=2),
    c("RMSNormalization", f(2, 3, 4), f(4), opset=23),
    c("SimplifiedLayerNormalization", f(2, 3, 4), f(4), outputs=2),
    c("Attention", f(1, 2, 5, 4), f(1, 2, 6, 4), f(1, 2, 6, 3), opset=23),
    c("Attention", f(1, 5, 8), f(1, 6, 8), f(1, 6, 12), opset=23, q_num_heads=2, kv_num_heads=2),
    c("Attention", f(1, 2, 5, 4), f(1, 2, 6, 4), f(1, 2, 6, 4), None, f(1, 2, 3, 4), f(1, 2, 3,
        4), opset=23, outputs=4),
    c("Attention", f(1, 5, 8), f(1, 6, 4), f(1, 6, 4), None, f(1, 1, 3, 4), f(1, 1, 3, 4),
        opset=24, outputs=4, q_num_heads=2, kv_num_heads=1),
    c("RotaryEmbedding", f(1, 2, 3, 4), f(1, 3, 2), f(1, 3, 2), opset=23),
    c("NegativeLogLikelihoodLoss", f(3, 5), i(0, 1, 2)),
    c("NegativeLogLikelihoodLoss", f(3, 5, 2), np.zeros((3, 2), I64), reduction="none"),
    c("SoftmaxCrossEntropyLoss", f(3, 5), i(0, 1, 2), outputs=2),
    c("SoftmaxCrossEntropyLoss", f(3, 5), i(0, 1, 2), outputs=2, reduction="none"),
    c("QuantizeLinear", f(2, 3), s(0.1, F), s(1, U8)), c("QuantizeLinear", f(2, 3), s(0.1, F)),
    c("QuantizeLinear", f(2, 3), s(0.1, F), output_dtype=3, opset=21),
    c("DequantizeLinear", np.ones((2, 3), U8), s(0.1, F)),
    c("DynamicQuantizeLinear", f(2, 3), outputs=3),
    c("LSTM", f(5, 2, 3), f(1, 16, 3), f(1, 16, 4), hidden_size=4, outputs=3),
    c("LSTM", f(5, 2, 3), f(2, 16, 3), f(2, 16, 4), hidden_size=4, outputs=3,
        direction="bidirectional"),
    c("GRU", f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), hidden_size=4, outputs=2),
    c("RNN", f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), outputs=2, hidden_size=4),
]  # fmt: skip

_CONV = [
    {}, {"pads": [1, 1, 1, 1]}, {"strides": [2, 3]}, {"dilations": [2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "VALID", "strides": [2, 2]},
    {"pads": [0, 1, 2, 3], "strides": [3, 2]},
]  # fmt: skip
_POOL = [
    {}, {"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"auto_pad": "VALID", "strides": [3, 3]},
]  # fmt: skip
_CEIL = [
    {"strides": [2, 2], "ceil_mode": 1}, {"strides": [3, 3], "ceil_mode": 1},
    {"strides": [4, 4], "ceil_mode": 1}, {"strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1},
]  # fmt: skip

SPATIAL = [
    *(c("Conv", f(1, 2, 9, 8), f(4, 2, 3, 3), kernel_shape=[3, 3], **a) for a in _CONV),
    c("Conv", f(1, 4, 9), f(4, 1, 3), group=4), c("Conv", f(2, 2, 5, 6, 7), f(3, 2, 1, 2, 3)),
    *(c("ConvTranspose", f(1, 2, 4, 5), f(2, 3, 3, 3), **a) for a in _CONV[:3]),
    c("ConvTranspose", f(1, 2, 4, 5), f(2, 3, 3, 3), strides=[2, 2], output_padding=[1, 0],
        pads=[1, 1, 1, 1]),
    c("ConvTranspose", f(1, 2, 4, 5), f(2, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    c("ConvTranspose", f(1, 2, 4, 5), f(2, 3, 3, 3), strides=[2, 2], output_shape=[9, 10]),
    c("ConvTranspose", f(1, 4, 4), f(4, 1, 3), group=2),
    c("ConvTranspose", f(1, 2, 4, 5), f(2, 3, 3, 3), strides=[2, 2], auto_pad="VALID"),
    *(c(op, f(1, 2, 9, 8), kernel_shape=[3, 2], opset=v, **a) for op in ("MaxPool",
        "AveragePool", "LpPool") for v in (18, 22) for a in _POOL + _CEIL),
    c("MaxPool", f(1, 2, 9, 8), kernel_shape=[3, 3], outputs=2),
    c("MaxPool", f(1, 2, 9, 8), kernel_shape=[3, 3], dilations=[2, 2]),
    c("MaxPool", f(1, 2, 9, 7), kernel_shape=[3, 3], dilations=[2, 2], outputs=2),
    c("MaxPool", f(1, 2, 10), kernel_shape=[1], strides=[3], ceil_mode=1),
    c("MaxPool", f(1, 2, 11), kernel_shape=[2], strides=[4], pads=[0, 1], ceil_mode=1),
    c("GlobalAveragePool", f(1, 2, 3, 4)), c("GlobalMaxPool", f(1, 2, 3)),
    c("GlobalLpPool", f(1, 2, 3)),
    c("MaxUnpool", f(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2],
        strides=[2, 2]),
    c("MaxUnpool", f(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), i(1, 1, 5, 5),
        kernel_shape=[2, 2], strides=[2, 2]),
    c("Resize", f(1, 1, 4, 5), None, None, i(1, 1, 7, 3)),
    c("Resize", f(1, 1, 4, 5), None, np.array([1, 1, 2, 1.5], F)),
    c("Resize", f(1, 1, 4, 5), None, np.array([0.6, 0.35], F), axes=[2, 3]),
    c("Resize", f(1, 1, 4, 5), None, np.array([1, 1, 0.5, 3], F), mode="linear"),
    c("Resize", f(1, 1, 4, 5), None, None, i(8, 6), axes=[2, 3],
        keep_aspect_ratio_policy="not_larger"),
    c("GridSample", f(1, 2, 4, 5), f(1, 3, 6, 2)),
    c("GridSample", f(1, 2, 3, 4, 5), f(1, 2, 3, 6, 3), opset=20),
    c("AffineGrid", f(1, 2, 3), i(1, 2, 4, 5), opset=20),
    c("Col2Im", f(1, 8, 6), i(3, 4), i(2, 2)),
    c("RoiAlign", f(1, 2, 6, 6), f(3, 4), i(0, 0, 0), output_height=2, output_width=3),
    c("MaxRoiPool", f(1, 2, 6, 6), f(3, 5) * 0, pooled_shape=[2, 3]),
    c("ConvInteger", np.ones((1, 2, 5, 5), U8), np.ones((3, 2, 3, 3), U8)),
    c("DeformConv", f(1, 2, 5, 5), f(3, 2, 3, 3), f(1, 18, 3, 3), opset=19),
    c("DFT", f(2, 6, 2), axis=1, inverse=1, onesided=1), c("DFT", f(2, 6, 1), axis=1),
    c("DFT", f(2, 6, 1), axis=1, onesided=1),
    c("DFT", f(2, 6, 2), s(4), opset=20), c("DFT", f(2, 6, 1), None, s(1), opset=20, onesided=1),
    c("STFT", f(2, 16, 1), s(4), f(8)), c("STFT", f(2, 16, 1), s(4), None, s(8), onesided=0),
    c("HannWindow", s(10)), c("HammingWindow", s(10), output_datatype=11),
    c("BlackmanWindow", s(10), periodic=0),
    c("MelWeightMatrix", s(8), s(16), s(8000), s(0.0, F), s(4000.0, F)),
    c("RandomNormal", shape=[2, 3]), c("RandomUniform", shape=[2], dtype=11),
    c("RandomNormalLike", f(2, 3)), c("RandomUniformLike", i(2, 3), dtype=1),
    c("Bernoulli", f(2, 3)), c("Bernoulli", f(2, 3), dtype=7),
    c("Multinomial", f(2, 3), sample_size=5),
]  # fmt: skip

MS = "com.microsoft"
MICROSOFT = [
    c("Gelu", f(2, 3), domain=MS), c("FastGelu", f(2, 3), domain=MS),
    c("QuickGelu", f(2, 3), domain=MS), c("BiasGelu", f(2, 3), f(3), domain=MS),
    c("FusedMatMul", f(2, 3), f(4, 3), transB=1, domain=MS),
    c("FusedMatMul", f(5, 3, 2), f(5, 3, 4), transA=1, domain=MS),
    c("Inverse", np.eye(3, dtype=F), domain=MS),
    c("FusedConv", f(1, 2, 5, 5), f(3, 2, 3, 3), activation="Relu", domain=MS),
    c("FusedGemm", f(2, 3), f(3, 4), activation="Relu", domain=MS),
    c("SkipLayerNormalization", f(2, 3, 4), f(2, 3, 4), f(4), f(4), domain=MS),
    c("SkipSimplifiedLayerNormalization", f(2, 3, 4), f(2, 3, 4), f(4), domain=MS),
    c("MultiHeadAttention", f(1, 5, 8), f(1, 6, 8), f(1, 6, 12), num_heads=2, domain=MS),
    c("Attention", f(1, 5, 8), f(8, 24), f(24), num_heads=2, domain=MS),
    c("RotaryEmbedding", f(1, 2, 3, 4), s(0).reshape(1), f(8, 2), f(8, 2), domain=MS),
]  # fmt: skip

_BYTES = np.arange(64, dtype=U8)
_AT_ONE = {"domain": MS, "outputs": 2, "q_num_heads": 2, "kv_num_heads": 2}
STATES = [
    c("GroupQueryAttention", f(1, 1, 32), f(1, 1, 32), f(1, 1, 32), f(1, 2, 4, 16),
        f(1, 2, 4, 16), i(4, dtype=I32), s(5, I32), num_heads=2, kv_num_heads=2, domain=MS,
        outputs=3),
    c("GroupQueryAttention", f(1, 3, 96), None, None, None, None, i(2, dtype=I32), s(3, I32),
        num_heads=2, kv_num_heads=2, domain=MS, outputs=3),
    c("LinearAttention", f(1, 3, 8), f(1, 3, 8), f(1, 3, 10), f(1, 2, 4, 5),
        update_rule="linear", **_AT_ONE),
    c("LinearAttention", f(1, 3, 8), f(1, 3, 8), f(1, 3, 10), update_rule="linear", **_AT_ONE),
    c("CausalConvWithState", f(1, 4, 6), f(4, 1, 3), f(4), f(1, 4, 2), domain=MS, outputs=2),
    c("CausalConvWithState", f(1, 4, 6), f(4, 1, 3), domain=MS, outputs=2),
    c("MultiHeadAttention", f(1, 5, 8), f(1, 6, 8), f(1, 6, 8), num_heads=2, domain=MS, outputs=3),
    c("MatMulNBits", f(2, 3, 32), _BYTES[:64].reshape(4, 1, 16), f(4), K=32, N=4, bits=4,
        block_size=32, domain=MS),
    c("GatherBlockQuantized", _BYTES.reshape(4, 16), i(0, 2), f(4, 2), bits=4, block_size=16,
        quantize_axis=1, gather_axis=0, domain=MS),
    c("GatherBlockQuantized", _BYTES.reshape(2, 32), np.zeros((2, 3), I64), f(2, 2), bits=8,
        block_size=16, quantize_axis=1, gather_axis=0, domain=MS),
]  # fmt: skip

_TEXTS = np.array([["one two", "three"], ["four", "five six"]], dtype=object)
_BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 5, 1, 6]]], F)
OTHERS = [
    c("BitCast", f(2, 3), to=6, opset=26), c("CumProd", f(2, 3), s(1), opset=26),
    c("QLinearConv", np.ones((1, 2, 5, 5), U8), s(0.5, F), s(1, U8), np.ones((3, 2, 3, 3), U8),
        s(0.5, F), s(1, U8), s(0.5, F), s(1, U8), pads=[1, 1, 0, 0]),
    c("QLinearMatMul", np.ones((2, 3), U8), s(0.5, F), s(1, U8), np.ones((3, 4), U8), s(0.5, F),
        s(1, U8), s(0.5, F), s(1, U8)),
    c("NonMaxSuppression", _BOXES, f(1, 1, 3), s(3), s(0.5, F), s(0.0, F)),
    c("StringConcat", _TEXTS, _TEXTS[:1], opset=20),
    c("RegexFullMatch", _TEXTS, opset=20, pattern="f.*"),
    c("StringSplit", _TEXTS, opset=20, outputs=2, delimiter=" "),
    c("StringNormalizer", _TEXTS[0], case_change_action="UPPER"),
    c("StringNormalizer", _TEXTS[0], stopwords=["three"]),
    c("TfIdfVectorizer", np.array([[1, 2, 3], [3, 2, 1]], I32), mode="TF", min_gram_length=1,
        max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2],
        pool_int64s=[1, 2, 3]),
    c("TfIdfVectorizer", i(1, 2, 3, dtype=I32), mode="TF", min_gram_length=1, max_gram_length=1,
        max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 4], pool_int64s=[1, 2]),
    c("OneHot", i(1, 2), s(4.0, F), f(2)),
    *(c(f"Bitwise{op}", f(2, 3, dtype=I64), f(3, dtype=I64)) for op in ("And", "Or", "Xor")),
    c("BitwiseNot", f(2, 3, dtype=I64)),
]  # fmt: skip

_LIST = [f(2, 3), f(2, 3), f(2, 3)]
SEQUENCES = [
    c("SequenceConstruct", f(2, 3), f(4)), c("SequenceEmpty", dtype=1),
    c("SequenceInsert", _LIST, f(2, 3), s(1)), c("SequenceErase", _LIST, s(0)),
    c("SequenceAt", _LIST, s(0)), c("SequenceLength", _LIST),
    c("ConcatFromSequence", _LIST, axis=1), c("ConcatFromSequence", _LIST, axis=0, new_axis=1),
    c("SplitToSequence", f(6, 2), s(3)), c("Optional", f(2, 3)), c("OptionalHasElement", f(2, 3)),
    c("OptionalGetElement", f(2, 3)),
]  # fmt: skip

CASES = [*ELEMENTWISE, *REDUCE, *VIEW, *LINALG, *SPATIAL, *MICROSOFT, *STATES, *OTHERS, *SEQUENCES]
