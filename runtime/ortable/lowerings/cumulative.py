"""Lower cumulative operators that ONNX lacks, most to a parallel prefix scan in a Loop; and diff.

Trip k of the Loop combines every element with the element 2 ** k before it (Hillis and Steele), so
a length of n takes log2(n) trips.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.complex_arithmetic import Complex, c_add, c_exp, c_log, c_where
from ortable.prelude.complex_value import ComplexValue
from ortable.prelude.facts import (
    Dtype,
    Int,
    axis_of,
    dim_of,
    dtype_max,
    dtype_min,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import larger_of, log1p_of, smaller_of
from ortable.prelude.shapes import along_axis, iota, sliced
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts, filled

from .complex.arithmetic import c_log1p
from .shapes import cat_list

__all__ = [
    "c_logcumsumexp",
]


Combine = Callable[["Graph", list[str], list[str]], list[str]]


def lower_cumprod(graph: Graph, res: ResultSpec, self: str, dim: int) -> str:
    """Lower aten::cumprod; ONNX has CumProd from opset 26."""
    axis, dtype = axis_of(graph, self, dim), res.dtype
    assert dtype is not None, "the result of cumprod is a tensor"
    # CumProd has no small int dtypes; the low bits of a wider product are the wrapped result
    is_small_int = dtype in (dtypes.int8, dtypes.int16, dtypes.uint8)
    compute_dtype = dtypes.int32 if is_small_int else sum_dtype(dtype)
    result = cast(graph, cast(graph, self, dtype), compute_dtype)
    if graph.opset >= 26:
        result = OpBuilder(graph).CumProd(result, const(graph, axis, dtypes.int64))
    else:
        result = prefix_scan(graph, axis, [result], [1], _combine_product)[0]
    return cast(graph, result, dtype)


def lower_cummax(graph: Graph, res: ResultSpec, self: str, dim: int) -> tuple[str, str]:
    """Lower aten::cummax: return the values and the latest index of each."""
    return _running_extreme(graph, self, dim, True)


def lower_cummin(graph: Graph, res: ResultSpec, self: str, dim: int) -> tuple[str, str]:
    """Lower aten::cummin: return the values and the latest index of each."""
    return _running_extreme(graph, self, dim, False)


def lower_logcumsumexp(graph: Graph, res: ResultSpec, self: str, dim: int) -> str:
    """Lower aten::logcumsumexp: combine pairs as max + log1p(exp(min - max))."""
    dtype, axis = graph.get_type(self), axis_of(graph, self, dim)
    values = cast(graph, self, sum_dtype(dtype))
    return cast(
        graph, prefix_scan(graph, axis, [values], [dtype_min(dtype)], _combine_log_sum)[0], dtype
    )


def c_logcumsumexp(graph: Graph, x: Complex, axis: Int) -> Complex:
    """Lower complex logcumsumexp to a Scan: the order of sums decides the branch of the angle."""
    dtype, shape = graph.get_type(x.real), list(shape_of(graph, x.real))
    if shape[axis] == 0:
        return x
    slice_shape, compute_dtype = tuple(shape[:axis] + shape[axis + 1 :]), sum_dtype(dtype)
    starts = [filled(graph, list(slice_shape), value, compute_dtype) for value in (-math.inf, 0)]
    body = graph.subgraph("accumulate")
    before = [graph.unique_name("before") for _ in starts]
    after = [graph.unique_name("after") for _ in starts]
    for name in (*before, *after):
        body.make_tensor_input(name, compute_dtype, slice_shape)
    sums = _combine_complex_log_sum(body, before, after)
    for name in (*sums, *(OpBuilder(body).Identity(total) for total in sums)):
        body.make_tensor_output(name)
    parts = [cast(graph, part, compute_dtype) for part in (x.real, x.imag)]
    scanned = OpBuilder(graph).Scan(
        *starts,
        *parts,
        outputs=4,
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[axis, axis],
        scan_output_axes=[axis, axis],
    )
    for name in scanned[2:]:
        graph.set_shape(name, tuple(shape))
    real, imag = (cast(graph, part, dtype) for part in scanned[2:])
    return ComplexValue(real, imag, x.dtype)


def lower_diff(
    graph: Graph,
    res: ResultSpec,
    self: str,
    n: int,
    dim: int,
    prepend: str | None,
    append: str | None,
) -> str:
    """Lower aten::diff: subtract neighbours along ``dim``, ``n`` times; bools use xor."""
    axis, op = axis_of(graph, self, dim), OpBuilder(graph)
    if n == 0:
        return self
    parts = cat_list(graph, [x for x in (prepend, self, append) if x is not None])
    result = parts[0] if len(parts) == 1 else op("Concat", parts, axis=axis)
    op_type = "Xor" if graph.get_type(result) == dtypes.boolean else "Sub"
    length = dim_of(graph, result, axis)
    # if a dynamic size was below n in the trace, only torch's result shape shows how many
    # differences torch took
    removed = length - res.shapes[0][axis] if res.shapes[0] is not None else n
    for index in range(n):
        size = dim_of(graph, result, axis)
        if isinstance(size, int) and size == 0:
            break
        shape = list(shape_of(graph, result))
        later = sliced(graph, result, axis, 1, sys.maxsize)
        result = op(op_type, [later, sliced(graph, result, axis, 0, -1)])
        if not graph.has_shape(result):
            shape[axis] = length - min(index + 1, removed if isinstance(removed, int) else n)
            graph.set_shape(result, tuple(shape))
    return result


def _running_extreme(graph: Graph, x: str, dim: int, largest: bool) -> tuple[str, str]:
    """Return the running maximum or minimum and the latest index at which it occurs.

    NaN compares as more extreme than any number. The values are gathered from ``x`` at the index,
    because the sign of 0 in the running extreme is unreliable.
    """
    if rank_of(graph, x) == 0:
        return x, const(graph, 0, dtypes.int64)
    dtype, axis, rank = graph.get_type(x), axis_of(graph, x, dim), rank_of(graph, x)
    size, op = dim_of(graph, x, axis), OpBuilder(graph)
    is_float = dtypes.is_float_type(dtype)
    compute_dtype = dtype
    if dtypes.itemsize(dtype) < 4:
        compute_dtype = dtypes.float32 if is_float else dtypes.int32
    values = cast(graph, x, compute_dtype)
    neutral = dtype_min(compute_dtype) if largest else dtype_max(compute_dtype)
    running = prefix_scan(
        graph, axis, [values], [neutral], _combine_max if largest else _combine_min
    )[0]
    is_extreme = op.Equal(values, running)
    if is_float:
        is_extreme = op.Or(is_extreme, op.IsNaN(values))
    # older versions of ONNX Runtime have no exact int64 Max; float64 represents the indices
    index_dtype = dtypes.int32 if isinstance(size, int) and size < 2**31 else dtypes.float64
    positions = cast(graph, along_axis(graph, iota(graph, 0, size, 1), axis, rank), index_dtype)
    latest = op.Where(is_extreme, positions, 0)
    position = cast(graph, prefix_scan(graph, axis, [latest], [0], _combine_max)[0], dtypes.int64)
    return op.GatherElements(x, position, axis=axis), position


def _combine_max(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [larger_of(graph, before[0], after[0])]


def _combine_min(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [smaller_of(graph, before[0], after[0])]


def _combine_product(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [OpBuilder(graph).Mul(before[0], after[0])]


def _combine_log_sum(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    """Compute log(exp(a) + exp(b)); two equal infinities are returned unchanged."""
    op, a, b = OpBuilder(graph), before[0], after[0]
    is_larger = op.Greater(a, b)
    high, low = op.Where(is_larger, a, b), op.Where(is_larger, b, a)
    total = op.Add(high, log1p_of(graph, op.Exp(op.Sub(low, high))))
    equal_infinities = op.And(op.Equal(a, b), op.IsInf(a))
    return [op.Where(equal_infinities, a, total)]


def _combine_complex_log_sum(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    """Compute log(exp(a) + exp(b)) of complex numbers.

    The number with the larger real part is factored out. A real part of minus infinity adds
    nothing. Equal infinite real parts are not subtracted, because their difference is NaN.
    """
    op, dtype = OpBuilder(graph), dtypes.complex128
    is_after_larger = op.GreaterOrEqual(after[0], before[0])
    pairs = list(zip(before, after, strict=True))
    larger = [op.Where(is_after_larger, new, old) for old, new in pairs]
    smaller = [op.Where(is_after_larger, old, new) for old, new in pairs]
    high = ComplexValue(larger[0], larger[1], dtype)
    low = ComplexValue(smaller[0], smaller[1], dtype)
    log_factor = c_log1p(graph, c_exp(graph, c_add(graph, low, high, -1)))
    total = c_add(graph, high, log_factor, 1)
    infinite = op.And(op.Equal(before[0], after[0]), op.IsInf(after[0]))
    positive = op.And(infinite, op.Greater(after[0], 0))
    log_sum = c_log(graph, c_add(graph, c_exp(graph, low), c_exp(graph, high), 1))
    adds_nothing = op.Equal(low.real, -math.inf)
    result = c_where(graph, adds_nothing, high, total)
    result = c_where(graph, infinite, c_where(graph, positive, log_sum, low), result)
    return [result.real, result.imag]


def prefix_scan(
    graph: Graph,
    axis: int,
    states: list[str],
    neutral: list[float],
    combine: Combine,
) -> list[str]:
    """Combine each element with all elements before it along ``axis``.

    ``combine`` takes and returns one tensor for each of ``states``; ``neutral`` holds its identity
    element for each of them.
    """
    shape = list(shape_of(graph, states[0]))
    size = dim_of(graph, states[0], axis)
    if isinstance(size, int) and size < 2:
        return states
    body = graph.subgraph("accumulate")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    step = graph.unique_name("step")
    body.make_tensor_input(step, dtypes.int64, (1,))
    after = [graph.unique_name("state") for _ in states]
    for name, state in zip(after, states, strict=True):
        body.make_tensor_input(name, graph.get_type(state), tuple(shape))
    op, end, axes = OpBuilder(body), as_vec(graph, size), as_vec(graph, axis)
    zero = as_vec(graph, 0)
    zero_counts = (axis, 2 * len(shape) - axis - 1)
    zero_pads = [consts(body, [0] * count, dtypes.int64) for count in zero_counts if count]
    pads = op.Concat(*zero_pads[: bool(axis)], step, *zero_pads[bool(axis) :], axis=0)
    before = []
    for name, value in zip(after, neutral, strict=True):
        padded = op.Pad(name, pads, const(graph, value, body.get_type(name)))
        before.append(op.Slice(padded, zero, end, axes))
        body.set_shape(before[-1], tuple(shape))
    result = combine(body, before, after)
    next_step = op.Add(step, step)
    continues = op.Less(next_step, end)
    going = op.Squeeze(continues, zero)
    for name in (going, next_step, *result):
        body.make_tensor_output(name)
    has_trips = OpBuilder(graph).Less(1, as_scalar(graph, size))
    max_trips = const(graph, 63, dtypes.int64)
    inputs = [max_trips, has_trips, as_vec(graph, 1), *states]
    results = graph.make_node("Loop", inputs, 1 + len(states), body=body)
    for name in results[1:]:
        graph.set_shape(name, tuple(shape))
    return list(results[1:])


def sum_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype in which torch accumulates sequential sums."""
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32
    return dtypes.float64 if dtype == dtypes.float32 else dtype
