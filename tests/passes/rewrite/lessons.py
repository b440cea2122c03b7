"""Graphs that resemble the pattern of a rule without matching it: name, inputs, and builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dtypes

F32, F64, F16, BF16 = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16
INF = float("inf")
END = 2**62
REVERSED = (-1, -END, 0, -1)


def f(*values: Any) -> np.ndarray:
    """Return a float32 array."""
    return np.asarray(values[0] if len(values) == 1 else values, dtype=np.float32)


def _i64(value: int) -> np.ndarray:
    return np.array([value])


def _length(op: Any) -> str:
    return str(op.Shape("x", start=0, end=1))


# -- graphs: name -> (inputs, builder) -----------------------------------------------------------

X = {"x": "f32[2,3]"}
DYNAMIC = {"x": "f32[n=4,3]"}
INTEGERS = {"i": "i64[5] = [-7, -1, 0, 3, 8]"}

GRAPHS: dict[str, tuple[dict[str, str], Callable[[Any], Any]]] = {
    # types
    "cast_half_back": (X, lambda op: op.Cast(op.Cast("x", to=F16), to=F32)),
    "cast_bfloat16_back": (X, lambda op: op.Cast(op.Cast("x", to=BF16), to=F32)),
    "cast_bfloat16_half": (X, lambda op: op.Cast(op.Cast("x", to=BF16), to=F16)),
    "cast_wide_half": (X, lambda op: op.Cast(op.Cast("x", to=F64), to=F16)),
    "cast_and_mul": (
        X,
        lambda op: op.Cast(op.Mul(op.Cast("x", to=BF16), op.Cast("x", to=BF16)), to=F32),
    ),
    "cast_integer_float_back": (
        {"i": "i64[4] = [16777217, 9007199254740993, -3, 4611686018427387905]"},
        lambda op: [op.Cast(op.Cast("i", to=kind), to=dtypes.int64) for kind in (F32, F64)],
    ),
    "cast_integer_narrow_back": (
        {"i": "i64[4] = [4294967297, -1, 2147483648, 7]"},
        lambda op: op.Cast(op.Cast("i", to=dtypes.int32), to=dtypes.int64),
    ),
    "cast_sign": (
        {"i": "i32[3] = [-1, 0, 300]"},
        lambda op: [
            op.Cast(op.Cast("i", to=dtypes.uint8), to=dtypes.int32),
            op.Cast(op.Cast("i", to=dtypes.uint8), to=dtypes.int64),
        ],
    ),
    "cast_bool_back": (X, lambda op: op.Cast(op.Cast("x", to=dtypes.boolean), to=F32)),
    "cast_truncates": (
        {"x": "f32[4] = [1.7, -1.7, 0.2, 300.5]"},
        lambda op: op.Cast(op.Cast("x", to=dtypes.int32), to=F32),
    ),
    "quantised_back": (
        {"x": "f32[4] = [0.3, -1.7, 0.26, 300.5]"},
        lambda op: op.DequantizeLinear(
            op.QuantizeLinear("x", f(0.5), np.int8(3)), f(0.5), np.int8(3)
        ),
    ),
    # neutral elements
    "add_zero": (X, lambda op: [op.Add("x", f(0.0)), op.Add(f(0.0), "x"), op.Add("x", f(-0.0))]),
    "sub_zero": (X, lambda op: [op.Sub("x", f(0.0)), op.Sub(f(0.0), "x"), op.Sub("x", f(-0.0))]),
    "mul_one": (X, lambda op: [op.Mul("x", f([[[1.0]]])), op.Mul(f([1.0]), "x")]),
    "mul_zero": (X, lambda op: [op.Mul("x", f(0.0)), op.Mul("x", f(-1.0)), op.Sub("x", "x")]),
    "div_one": (X, lambda op: [op.Div("x", f(1.0)), op.Div(f(1.0), "x"), op.Div("x", "x")]),
    "div_constant": (X, lambda op: [op.Div("x", f(n)) for n in (3.0, 2.0, 10.0, 1e-40, 0.0)]),
    "div_of_div": (X, lambda op: op.Div(op.Div(f(1.0), "x"), f(4.0))),
    "wider_neutral": (
        {"x": "f32[3]"},
        lambda op: [
            op.Mul("x", np.ones((2, 1), np.float32)), op.Add("x", np.zeros((2, 3), np.float32)),
        ],
    ),
    "integer_neutral": (
        INTEGERS,
        lambda op: [
            op.Add("i", np.array([0])), op.Mul("i", np.array([[1]])), op.Div("i", np.array(1)),
            op.Mod("i", np.array(1)), op.Mul("i", np.array(0)), op.Sub(np.array(0), "i"),
        ],
    ),
    "powers": (
        {"x": "f32[7] = [inf, -inf, nan, 0.0, -0.0, 4.0, -2.0]"},
        lambda op: [op.Pow("x", f(n)) for n in (0.5, 1.0, 2.0, 0.0)],
    ),
    "power_of_integers": (
        INTEGERS, lambda op: [op.Pow("i", f(2.0)), op.Pow("i", np.array(1)), op.Pow("i", f(0.5))],
    ),
    "minus_minus": (X, lambda op: [op.Neg(op.Neg("x")), op.Abs(op.Neg("x")), op.Neg(op.Abs("x"))]),
    "reciprocals": (X, lambda op: [op.Reciprocal(op.Reciprocal("x")), op.Reciprocal(op.Neg("x"))]),
    "floors": (
        X,
        lambda op: [op.Floor(op.Floor("x")), op.Ceil(op.Floor("x")), op.Floor(op.Neg("x"))],
    ),
    # integers
    "quotients": (
        INTEGERS,
        lambda op: [
            op.Mul(op.Div("i", np.array(2)), np.array(2)),
            op.Div(op.Mul("i", np.array(2)), np.array(2)),
            op.Div(op.Div("i", np.array(2)), np.array(3)),
            op.Div(op.Mul("i", np.array(2)), np.array(4)),
            op.Mod(op.Mod("i", np.array(4)), np.array(2)),
            op.Mod("i", np.array(3), fmod=1), op.Mod("i", np.array(-3)),
        ],
    ),
    "overflow": (
        {"i": "i64[3] = [4611686018427387904, -4611686018427387904, 5]"},
        lambda op: op.Div(op.Mul("i", np.array(4)), np.array(4)),
    ),
    # bounds
    "clips": (
        {"x": "f32[8] = [-3, -0.5, 0.0, -0.0, 0.5, 3, inf, -inf]"},
        lambda op: [
            op.Clip("x", f(1.0), f(-1.0)), op.Clip(op.Clip("x", f(0.0), f(1.0)), f(2.0), f(3.0)),
            op.Clip(op.Clip("x", f(2.0), f(3.0)), f(0.0), f(1.0)), op.Clip("x"),
            op.Clip(op.Clip("x", "", f(1.0)), f(2.0)), op.Clip(op.Clip("x", f(2.0)), "", f(1.0)),
            op.Relu(op.Clip("x", f(-2.0), f(-1.0))), op.Clip(op.Relu("x"), "", f(-1.0)),
            op.Relu(op.Clip("x", f(1.0), f(-1.0))), op.Clip(op.Relu("x"), f(1.0), f(-1.0)),
            op.Clip("x", f(-INF), f(INF)), op.Clip(op.Clip("x", f(1.0), f(-1.0)), f(-5.0), f(5.0)),
        ],
    ),
    "clip_bounds_are_inputs": (
        {"x": "f32[3]", "low": "f32[] in 1..2", "high": "f32[] in -2..-1"},
        lambda op: [op.Clip("x", "low", "high"), op.Clip(op.Clip("x", "low"), "", "high")],
    ),
    "extremes": (
        {"x": "f32[2,3]", "y": "f32[3]"},
        lambda op: [
            op.Max("x", "x"), op.Max(op.Max("x", "y"), "y"), op.Min(op.Max("x", "y"), "y"),
            op.Max("x"), op.Sum("x"), op.Mean("x"), op.Max("x", "y", "x"),
        ],
    ),
    "choices": (
        {"c": "b[2,1]", "x": "f32[3]", "y": "f32[2,3]"},
        lambda op: [
            op.Where("c", "x", "x"), op.Where("c", "y", "y"), op.Where("c", f(1.0), f(0.0)),
            op.Where(op.Not("c"), "y", "x"), op.Where(np.array(True), "x", "y"),
            op.Where(np.array([[True], [False]]), "x", "y"), op.Where("c", "x", f(-INF)),
        ],
    ),
    "comparisons": (
        {"x": "f32[9]", "y": "f32[9]"},
        lambda op: [
            op.Not(op.Less("x", "y")), op.Not(op.GreaterOrEqual("x", "y")), op.Equal("x", "x"),
            op.Not(op.Equal("x", "y")), op.Not(op.Not(op.Greater("x", "y"))),
        ],
    ),
    # shapes
    "transposes": (
        {"x": "f32[1,3,1,2]"},
        lambda op: [
            op.Transpose("x"), op.Transpose(op.Transpose("x")),
            op.Transpose("x", perm=[2, 1, 0, 3]),
            op.Transpose(op.Transpose("x", perm=[1, 2, 3, 0]), perm=[1, 2, 3, 0]),
            op.Transpose(op.Transpose("x", perm=[1, 2, 3, 0])),
        ],
    ),
    "reshapes": (
        DYNAMIC,
        lambda op: [
            op.Reshape(op.Reshape("x", np.array([-1])), np.array([-1, 3])),
            op.Reshape(op.Reshape("x", np.array([0, -1, 1])), np.array([0, 0])),
            op.Reshape("x", np.array([0, 3])), op.Reshape("x", np.array([-1, 3])),
            op.Reshape(op.Reshape("x", np.array([3, -1])), np.array([-1, 3])),
            op.Reshape(op.Reshape("x", np.array([3, -1])), np.array([0, 0])),
            op.Flatten("x", axis=0), op.Flatten("x", axis=2), op.Flatten("x", axis=-1),
            op.Flatten(op.Unsqueeze("x", np.array([1]))),
        ],
    ),
    "reshapes_of_nothing": (
        {"x": "f32[0,3]"},
        lambda op: [
            op.Reshape("x", np.array([3, 0]), allowzero=1), op.Reshape("x", np.array([0, 3])),
            op.Reshape("x", np.array([0, 1, 3])), op.Reshape("x", np.array([0, 5]), allowzero=1),
            op.Reshape(op.Reshape("x", np.array([3, 0]), allowzero=1), np.array([0, 0])),
        ],
    ),
    "squeezes": (
        {"x": "f32[1,3,1]"},
        lambda op: [
            op.Squeeze("x"), op.Squeeze("x", np.array([-1])), op.Unsqueeze("x", np.array([0, -1])),
            op.Squeeze(op.Unsqueeze("x", np.array([1])), np.array([0])),
            op.Unsqueeze(op.Squeeze("x", np.array([0])), np.array([2])),
            op.Unsqueeze(op.Unsqueeze("x", np.array([0])), np.array([-1])),
            op.Squeeze(op.Squeeze("x", np.array([0])), np.array([1])),
            op.Unsqueeze(op.Unsqueeze("x", np.array([2])), np.array([1])),
        ],
    ),
    "expands": (
        {"x": "f32[3,1]"},
        lambda op: [
            op.Expand("x", np.array([3, 1])), op.Expand("x", np.array([1])),
            op.Expand("x", np.array([1, 3, 1])), op.Expand("x", np.array([3, 4])),
            op.Mul(op.Expand("x", np.array([3, 4])), f(2.0)),
            op.Mul(op.Expand("x", np.array([2, 3, 1])), np.ones(4, np.float32)),
            op.Expand(op.Expand("x", np.array([3, 4])), np.array([2, 1, 1])),
            op.Tile("x", np.array([1, 1])), op.Tile("x", np.array([1, 2])),
        ],
    ),
    "slices": (
        {"x": "f32[n=7,2]"},
        lambda op: [
            op.Slice(op.Slice("x", *map(_i64, a)), *map(_i64, b))
            for a in ((1, END, 0, 1), (0, -1, 0, 1), REVERSED, (0, END, 0, 2))
            for b in ((1, END, 0, 1), (0, 2, 0, 1), (-2, END, 0, 1), (0, 1, 1, 1), REVERSED)
        ],
    ),
    "whole_slices": (
        {"x": "f32[n=7,2]"},
        lambda op: [
            op.Slice("x", *map(_i64, (0, END, 0, 1))), op.Slice("x", *map(_i64, (0, 7, 0, 1))),
            op.Slice("x", *map(_i64, (0, 2, 1, 1))), op.Slice("x", *map(_i64, (0, 2, -1, 1))),
            op.Slice("x", *map(_i64, (0, END, 0, 2))), op.Slice("x", _i64(0), _i64(2)),
        ],
    ),
    "gathers": (
        {"x": "f32[4,3]", "i": "i64[2] in -4..4"},
        lambda op: [
            op.Gather("x", np.array(-1)), op.Gather("x", np.array([-1])),
            op.Gather("x", np.array([0, 1, 2, 3])), op.Gather("x", np.array([1, 2]), axis=0),
            op.Gather(op.Gather("x", np.array([3, 0])), np.array(-1)), op.Gather("x", "i"),
            op.Gather("x", np.array([[0, 2]]), axis=1), op.Gather("x", np.array([2, 1, 0]), axis=1),
        ],
    ),
    "concatenations": (
        {"x": "f32[2,3]", "y": "f32[2,3]"},
        lambda op: [
            op.Concat("x", axis=0), op.Concat(op.Concat("x", "y", axis=1), "x", axis=1),
            op.Concat(op.Concat("x", "y", axis=0), op.Concat("y", "x", axis=0), axis=1),
            op.Concat(op.Concat("x", "y", axis=-1), "x", axis=1),
            op.Slice(op.Concat("x", "y", axis=0), _i64(0), _i64(2), _i64(0)),
            op.Slice(op.Concat("x", "y", axis=0), _i64(1), _i64(3), _i64(0)),
        ],
    ),
    "splits": (
        {"x": "f32[4,6]"},
        lambda op: [
            op.Concat(*op.Split("x", np.array([2, 4]), axis=1, outputs=2), axis=1),
            op.Concat(*op.Split("x", np.array([3, 3]), axis=1, outputs=2)[::-1], axis=1),
            op.Concat(*op.Split("x", np.array([3, 3]), axis=1, outputs=2), axis=0),
            op.Concat(*op.Split("x", np.array([1, 2, 1]), axis=0, outputs=3)[:2], axis=0),
            op.Concat(*op.Split("x", num_outputs=3, axis=1, outputs=3), axis=1),
        ],
    ),
    "pads": (
        X,
        lambda op: [
            op.Pad("x", np.array([0, 0, 0, 0])), op.Pad("x", np.array([0, -1, 0, 1])),
            op.Pad(op.Pad("x", np.array([0, 1, 0, 0])), np.array([0, 0, 0, 1]), f(2.0)),
            op.Pad("x", np.array([0, 0, 0, 0]), f(1.0), mode="reflect"),
        ],
    ),
    "sizes": (
        DYNAMIC,
        lambda op: [
            op.Slice("x", _i64(0), op.Mul(op.Div(_length(op), _i64(2)), _i64(2)), _i64(0)),
            op.Slice("x", _i64(0), op.Div(op.Mul(_length(op), _i64(2)), _i64(2)), _i64(0)),
            op.Slice("x", _i64(0), op.Sub(op.Add(_length(op), _i64(2)), _i64(2)), _i64(0)),
            op.Reshape("x", op.Concat(_i64(3), _length(op), axis=0)),
            op.Expand(op.Reshape("x", np.array([-1])), op.Mul(_length(op), _i64(3))),
            op.Shape(op.Transpose("x", perm=[1, 0])), op.Shape("x", start=-1), op.Size("x"),
            op.Gather(op.Shape("x"), np.array(-1)), op.Cast(op.Shape("x"), to=F32),
        ],
    ),
    # logic
    "logic": (
        {"x": "b[4]", "y": "b[4]"},
        lambda op: [
            op.Not(op.And("x", "y")), op.And("x", "x"), op.Or("x", op.Not("x")), op.Xor("x", "x"),
            op.And("x", np.array(True)), op.Or("x", np.array([[True]])),
            op.Xor("x", np.array(True)),
        ],
    ),
}  # fmt: skip


# -- rounding is allowed -------------------------------------------------------------------------

Y = {"x": "f32[2,3]", "y": "f32[3,4]"}
IMAGE = {"x": "f32[1,2,4,4]"}
W = np.linspace(-1, 1, 8).astype(np.float32).reshape(4, 2, 1, 1)

ROUNDED: dict[str, tuple[dict[str, str], Callable[[Any], Any]]] = {
    "products_and_sums": (
        Y,
        lambda op: [
            op.Add(op.MatMul("x", "y"), np.ones(shape, np.float32))
            for shape in ((4,), (1, 4), (2, 1), (2, 4), (), (1,), (2, 2, 4), (2, 1, 1))
        ],
    ),
    "gemm": (
        Y,
        lambda op: [
            op.Gemm("x", "y", np.ones(4, np.float32), alpha=0.5, beta=2.0),
            op.Add(op.Gemm("x", "y"), np.ones((2, 1), np.float32)),
            op.Add(op.Gemm("x", "y", np.ones(4, np.float32)), np.ones(4, np.float32)),
            op.Gemm(op.Transpose("x"), "y", transA=1), op.Transpose(op.MatMul("x", "y")),
            op.Mul(op.MatMul("x", "y"), np.ones((3, 1, 1), np.float32)),
            op.Mul(op.MatMul("x", "y"), np.arange(4, dtype=np.float32)),
        ],
    ),
    "convolutions": (
        IMAGE,
        lambda op: [
            *(
                op.Add(op.Conv("x", W), np.arange(4, dtype=np.float32).reshape(shape))
                for shape in ((1, 4, 1, 1), (4, 1, 1), (4,), (1, 1, 4, 1))
            ),
            op.Add(op.Conv("x", W, np.ones(4, np.float32)), np.ones((2, 4, 1, 1), np.float32)),
            op.Relu(op.Add(op.Conv("x", W), f(1.0))), op.Mul(op.Conv("x", W), f(2.0)),
            op.BatchNormalization(op.Conv("x", W), *(np.arange(1, 5, dtype=np.float32),) * 4),
        ],
    ),
    "scales": (
        X,
        lambda op: [
            op.Mul(op.Mul("x", f(3.0)), f(7.0)), op.Div(op.Mul("x", f(3.0)), f(7.0)),
            op.Add(op.Add("x", f(0.1)), f(0.2)), op.Sub(op.Add("x", f(0.1)), f(0.2)),
            op.Mul(op.Mul("x", f([1, 2, 3])), f([[1.0], [2.0]])),
            op.Add(op.Sub(f(1.0), "x"), f(2.0)),
        ],
    ),
    "softmax": (
        {"x": "f32[2,3,4]"},
        lambda op: [
            *(op.Softmax("x", axis=axis) for axis in (0, 1, -1)),
            op.Log(op.Softmax("x", axis=1)), op.Exp(op.LogSoftmax("x", axis=1)),
            op.Transpose(op.Softmax(op.Transpose("x", perm=[0, 2, 1]), axis=1), perm=[0, 2, 1]),
            op.Div(op.Exp("x"), op.ReduceSum(op.Exp("x"), np.array([-1]))),
        ],
    ),
    "reductions": (
        {"x": "f32[2,3,4]"},
        lambda op: [
            op.ReduceMean(op.ReduceMean("x", np.array([2]), keepdims=0), np.array([1]), keepdims=0),
            op.ReduceMean(op.ReduceMean("x", np.array([0]), keepdims=0), np.array([0]), keepdims=0),
            op.ReduceSum("x", np.array([], dtype=np.int64), noop_with_empty_axes=1),
            op.ReduceSum("x", np.array([], dtype=np.int64)), op.ReduceSum("x", keepdims=0),
            op.ReduceMax(op.ReduceMax("x", np.array([1])), np.array([1])),
            op.Squeeze(op.ReduceSum("x", np.array([1])), np.array([1])),
            op.Unsqueeze(op.ReduceSum("x", np.array([1]), keepdims=0), np.array([0])),
            op.ReduceMean(op.Mul("x", "x"), np.array([-1])),
            op.ReduceSum(op.Mul("x", "x"), np.array([1])),
        ],
    ),
}  # fmt: skip
