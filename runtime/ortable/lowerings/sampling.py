"""Lower random numbers, drawn with ONNX's operators.

Shape, dtype and distribution are those of torch; the numbers are not. ONNX Runtime has kernels for
RandomUniform, RandomNormal and Multinomial only below opset 22. From opset 22, numbers are
assembled from the masks of Dropout, whose elements are random bits.
"""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import (
    Dtype,
    Float,
    Result,
    Results,
    Scalar,
    SymInt,
    SymInts,
    is_static,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.values import as_vec, cast, const, consts, filled, reshape_to

__all__ = [
    "random_choices",
    "random_dropout",
    "random_exponential",
    "random_features",
    "random_integers",
    "random_normal",
    "random_slopes",
    "random_uniform",
]


# The count of equidistant numbers in [0, 1) that a 16-bit float holds; with more, some round to 1.
_STEPS = {dtypes.float16: 2**11, dtypes.bfloat16: 2**8}


# The number of random bits that fill the mantissa of a float in [0, 1).
_BITS = {dtypes.float32: 24, dtypes.float64: 53}


def check_random(graph: Graph) -> None:
    """Raise UnsupportedCase if the target is ONNX Runtime, because torch's generator must draw."""
    if graph.target == "onnxruntime":
        raise UnsupportedCase(
            "ONNX Runtime would draw numbers of its own and ignore torch.manual_seed"
        )


def random_uniform(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Draw numbers in [0, 1) of a float dtype."""
    op = OpBuilder(graph)
    result = _draw_uniform(graph, shape, opmath_dtype(dtype))
    if dtype not in _STEPS:
        return result
    steps = const(graph, _STEPS[dtype], dtypes.float32)
    step_index = op.Floor(op.Mul(result, steps))
    return cast(graph, op.Div(step_index, steps), dtype)


def random_normal(graph: Graph, shape: SymInts, mean: Float, std: Float, dtype: Dtype) -> Result:
    """Draw normally distributed numbers of a float dtype."""
    op = OpBuilder(graph)
    compute_dtype = opmath_dtype(dtype)
    result = _draw_normal(graph, shape, compute_dtype)
    if std != 1:
        # not the attribute: ONNX Runtime aborts the process for a standard deviation of 0
        result = op.Mul(result, const(graph, std, compute_dtype))
    if mean != 0:
        result = op.Add(result, const(graph, mean, compute_dtype))
    return cast(graph, result, dtype)


def random_slopes(graph: Graph, x: Result, lower: Float, upper: Float) -> Result:
    """Draw a number in ``[lower, upper)`` for each element of ``x``, in its dtype."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    draws = random_uniform(graph, shape_of(graph, x), dtype)
    offsets = op.Mul(draws, const(graph, upper - lower, dtype))
    return op.Add(offsets, const(graph, lower, dtype))


def random_integers(
    graph: Graph, shape: SymInts, low: Scalar, high: Scalar, dtype: Dtype
) -> Result:
    """Draw integers from ``low`` to ``high - 1`` and cast them to ``dtype``."""
    op, compute_dtype = OpBuilder(graph), dtypes.float64
    span = const(graph, high - low, compute_dtype)
    offsets = op.Floor(op.Mul(random_uniform(graph, shape, compute_dtype), span))
    # the product may have rounded up to the span
    offsets = op.Min(offsets, op.Sub(span, 1))
    int_offsets = cast(graph, offsets, dtypes.int64)
    return cast(graph, op.Add(int_offsets, const(graph, low, dtypes.int64)), dtype)


def random_exponential(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Draw exponentially distributed numbers of rate 1 in a float dtype; none is 0 or infinite."""
    op = OpBuilder(graph)
    compute_dtype = opmath_dtype(dtype)
    uniform = random_uniform(graph, shape, compute_dtype)
    tiny = const(graph, 0.5 ** _BITS[compute_dtype], compute_dtype)
    complement = op.Max(op.Sub(1, uniform), tiny)
    result = op.Neg(op.Log(complement))
    return cast(graph, op.Max(result, tiny), dtype)


def random_choices(graph: Graph, weights: Result, count: SymInt) -> Result:
    """Draw ``count`` indices of the last axis, with replacement, in proportion to ``weights``."""
    check_random(graph)
    op, shape = OpBuilder(graph), shape_of(graph, weights)
    if _has_kernels(graph) and is_static([count]):
        rows = reshape_to(graph, cast(graph, weights, dtypes.float32), [-1, shape[-1]])
        sizes = {"sample_size": static(count), "dtype": dtypes.int64}
        result = op.Multinomial(op.Log(rows), **sizes)
        return reshape_to(graph, result, [*shape[:-1], count])
    # summed in float64, in which a draw of 24 bits times the total never rounds to the total
    double_weights = cast(graph, weights, dtypes.float64)
    bounds = op.CumSum(double_weights, const(graph, -1, dtypes.int64))
    total = op.Gather(bounds, as_vec(graph, -1), axis=-1)
    draws = random_uniform(graph, [*shape[:-1], count], dtypes.float32)
    draws = op.Mul(cast(graph, draws, dtypes.float64), total)
    last_axis, bound_axis = as_vec(graph, -1), as_vec(graph, -2)
    passed = op.GreaterOrEqual(op.Unsqueeze(draws, last_axis), op.Unsqueeze(bounds, bound_axis))
    ones = filled(graph, [shape[-1]], 1, dtypes.float64)
    return cast(
        graph, _multiply_vector(graph, cast(graph, passed, dtypes.float64), ones), dtypes.int64
    )


def _has_kernels(graph: Graph) -> bool:
    """Whether ONNX Runtime has kernels for the random operators of the opset."""
    return graph.opset < 22


def _draw_uniform(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Draw numbers in [0, 1) of float32 or float64."""
    if _has_kernels(graph):
        return _draw_by_kernel(graph, "RandomUniform", shape, dtype)
    check_random(graph)
    bits = _BITS[dtype]
    mask = _dropout_mask(graph, filled(graph, [*shape, bits], 0, dtypes.float32), 0.5)
    weights = consts(graph, [0.5 ** (bit + 1) for bit in range(bits)], dtype)
    # the sum of distinct powers of two within the mantissa is exact in any order
    return _multiply_vector(graph, cast(graph, mask, dtype), weights)


def _multiply_vector(graph: Graph, rows: Result, vector: Result) -> Result:
    """Multiply the last axis by a vector, as a column: MatMul of zero rows by a vector fails."""
    op = OpBuilder(graph)
    column = op.MatMul(rows, reshape_to(graph, vector, [-1, 1]))
    return op.Squeeze(column, as_vec(graph, -1))


def _draw_normal(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Draw standard normal numbers; from opset 22, as in torch, by the Box-Muller transform."""
    if _has_kernels(graph):
        return _draw_by_kernel(graph, "RandomNormal", shape, dtype)
    op = OpBuilder(graph)
    squared_radius = op.Mul(random_exponential(graph, shape, dtype), 2)
    angle = op.Mul(_draw_uniform(graph, shape, dtype), 2 * math.pi)
    return op.Mul(op.Sqrt(squared_radius), op.Cos(angle))


def _draw_by_kernel(graph: Graph, op_type: str, shape: SymInts, dtype: int) -> str:
    check_random(graph)
    if len(shape) == 0:
        return reshape_to(graph, _draw_by_kernel(graph, op_type, [1], dtype), [])
    if is_static(shape):
        return graph.make_node(op_type, [], shape=list(shape), dtype=dtype)
    like = filled(graph, shape, 0, dtype)
    return graph.make_node(f"{op_type}Like", [like], dtype=dtype)


# -- dropout ------------------------------------------------------------------------------------


def random_dropout(graph: Graph, x: Result, p: Float) -> Results:
    """Lower dropout in training with ONNX's operator: return [output, mask of kept elements].

    The output is computed from the mask, because ONNX Runtime's EliminateDropout removes a Dropout
    whose mask is unused, also in training.
    """
    op = OpBuilder(graph)
    if graph.target == "onnxruntime":
        raise UnsupportedCase(
            "dropout: ONNX Runtime would draw numbers of its own and ignore torch.manual_seed"
        )
    mask = _dropout_mask(graph, x, p)
    dtype = graph.get_type(x)
    compute_dtype = opmath_dtype(dtype)
    kept_scale = cast(graph, const(graph, 1 / (1 - p), dtype), compute_dtype)
    factor = op.Where(mask, kept_scale, 0)
    return [
        cast(graph, op.Mul(cast(graph, x, compute_dtype), factor), dtype),
        mask,
    ]


def random_features(graph: Graph, x: Result, p: Float) -> Result:
    """Draw the mask of channel dropout: bools ``[N, C, 1, ...]``, False with probability ``p``."""
    check_random(graph)
    shape = [*shape_of(graph, x)[:2], *[1] * (rank_of(graph, x) - 2)]
    return _dropout_mask(graph, filled(graph, shape, 0, dtypes.float32), p)


def _dropout_mask(graph: Graph, x: Result, p: Float) -> Result:
    """Return the mask of a Dropout of ``x``: each element is False with probability ``p``."""
    ratio, training = const(graph, p, dtypes.float32), const(graph, True, dtypes.boolean)
    return OpBuilder(graph).Dropout(x, ratio, training, outputs=2)[1]
