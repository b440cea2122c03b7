"""Cumulative operators that ONNX lacks: a prefix scan in a Loop in which every element is combined
with the one 1, 2, 4, ... before it (Hillis and Steele), so that a length of n takes log2(n) trips.
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
    """aten::cumprod; from opset 26 ONNX has it."""
    axis, dtype = axis_of(graph, self, dim), res.dtype
    assert dtype is not None, "the result of cumprod is a tensor"
    # the low bits of a wider product are those of the small ints, which ONNX leaves out
    small = dtype in (dtypes.int8, dtypes.int16, dtypes.uint8)
    compute_dtype = dtypes.int32 if small else sum_dtype(dtype)
    result = cast(graph, cast(graph, self, dtype), compute_dtype)
    if graph.opset >= 26:
        result = OpBuilder(graph).CumProd(result, const(graph, axis, dtypes.int64))
    else:
        result = prefix_scan(graph, axis, [result], [1], _combine_product)[0]
    return cast(graph, result, dtype)


def lower_cummax(graph: Graph, res: ResultSpec, self: str, dim: int) -> tuple[str, str]:
    """aten::cummax: (values, the latest place of each)."""
    return _running_extreme(graph, self, dim, True)


def lower_cummin(graph: Graph, res: ResultSpec, self: str, dim: int) -> tuple[str, str]:
    """aten::cummin: (values, the latest place of each)."""
    return _running_extreme(graph, self, dim, False)


def lower_logcumsumexp(graph: Graph, res: ResultSpec, self: str, dim: int) -> str:
    """aten::logcumsumexp: each pair by max + log1p(exp(min - max)), in the dtype of sums."""
    dtype, axis = graph.get_type(self), axis_of(graph, self, dim)
    wide = cast(graph, self, sum_dtype(dtype))
    return cast(
        graph, prefix_scan(graph, axis, [wide], [dtype_min(dtype)], _combine_log_sum)[0], dtype
    )


def c_logcumsumexp(graph: Graph, x: Complex, axis: Int) -> Complex:
    """logcumsumexp of a complex tensor, in the dtype of sums: one element after the other, as the
    turn of the imaginary part depends on the order."""
    dtype, shape = graph.get_type(x.real), list(shape_of(graph, x.real))
    if shape[axis] == 0:
        return x
    rest, wide = tuple(shape[:axis] + shape[axis + 1 :]), sum_dtype(dtype)
    starts = [filled(graph, list(rest), value, wide) for value in (-math.inf, 0)]
    body = graph.subgraph("accumulate")
    before = [graph.unique_name("before") for _ in starts]
    after = [graph.unique_name("after") for _ in starts]
    for name in (*before, *after):
        body.make_tensor_input(name, wide, rest)
    sums = _combine_complex_log_sum(body, before, after)
    for name in (*sums, *(OpBuilder(body).Identity(total) for total in sums)):
        body.make_tensor_output(name)
    parts = [cast(graph, part, wide) for part in (x.real, x.imag)]
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
    """aten::diff: ``n`` times the difference of neighbours along ``dim``; bools differ by xor."""
    axis, op = axis_of(graph, self, dim), OpBuilder(graph)
    if n == 0:
        return self
    parts = cat_list(graph, [x for x in (prepend, self, append) if x is not None])
    result = parts[0] if len(parts) == 1 else op("Concat", parts, axis=axis)
    how = "Xor" if graph.get_type(result) == dtypes.boolean else "Sub"
    length = dim_of(graph, result, axis)
    # where torch traced a dynamic size below n, torch's shape tells the number of differences
    less = length - res.shapes[0][axis] if res.shapes[0] is not None else n
    for number in range(n):
        size = dim_of(graph, result, axis)
        if isinstance(size, int) and size == 0:
            break
        shape = list(shape_of(graph, result))
        later = sliced(graph, result, axis, 1, sys.maxsize)
        result = op(how, [later, sliced(graph, result, axis, 0, -1)])
        if not graph.has_shape(result):
            shape[axis] = length - min(number + 1, less if isinstance(less, int) else n)
            graph.set_shape(result, tuple(shape))
    return result


def _running_extreme(graph: Graph, x: str, dim: int, largest: bool) -> tuple[str, str]:
    """The running extreme first, NaN beating numbers; then the latest index at which an element is
    equal to it, and the element there: the sign of 0 of a running extreme is unreliable.
    """
    if rank_of(graph, x) == 0:
        return x, const(graph, 0, dtypes.int64)
    dtype, axis, rank = graph.get_type(x), axis_of(graph, x, dim), rank_of(graph, x)
    size, op = dim_of(graph, x, axis), OpBuilder(graph)
    is_float = dtypes.is_float_type(dtype)
    compute_dtype = dtype
    if dtypes.itemsize(dtype) < 4:
        compute_dtype = dtypes.float32 if is_float else dtypes.int32
    wide = cast(graph, x, compute_dtype)
    neutral = dtype_min(compute_dtype) if largest else dtype_max(compute_dtype)
    running = prefix_scan(
        graph, axis, [wide], [neutral], _combine_max if largest else _combine_min
    )[0]
    reached = op.Equal(wide, running)
    if is_float:
        reached = op.Or(reached, op.IsNaN(wide))
    # int64 has no exact maximum in older versions of ONNX Runtime; float64 holds its places
    index = dtypes.int32 if isinstance(size, int) and size < 2**31 else dtypes.float64
    places = cast(graph, along_axis(graph, iota(graph, 0, size, 1), axis, rank), index)
    marks = op.Where(reached, places, 0)
    position = cast(graph, prefix_scan(graph, axis, [marks], [0], _combine_max)[0], dtypes.int64)
    return op.GatherElements(x, position, axis=axis), position


def _combine_max(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [larger_of(graph, before[0], after[0])]


def _combine_min(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [smaller_of(graph, before[0], after[0])]


def _combine_product(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [OpBuilder(graph).Mul(before[0], after[0])]


def _combine_log_sum(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    """log(exp(a) + exp(b)); two equal infinities are unchanged."""
    op, a, b = OpBuilder(graph), before[0], after[0]
    first = op.Greater(a, b)
    high, low = op.Where(first, a, b), op.Where(first, b, a)
    total = op.Add(high, log1p_of(graph, op.Exp(op.Sub(low, high))))
    endless = op.And(op.Equal(a, b), op.IsInf(a))
    return [op.Where(endless, a, total)]


def _combine_complex_log_sum(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    """`_combine_log_sum` of complex numbers: the one with the larger real part is factored out. A
    real part of minus infinity adds nothing, and two infinite ones are not subtracted.
    """
    op, wide = OpBuilder(graph), dtypes.complex128
    first = op.GreaterOrEqual(after[0], before[0])
    pairs = list(zip(before, after, strict=True))
    larger = [op.Where(first, new, old) for old, new in pairs]
    smaller = [op.Where(first, old, new) for old, new in pairs]
    high = ComplexValue(larger[0], larger[1], wide)
    low = ComplexValue(smaller[0], smaller[1], wide)
    part = c_log1p(graph, c_exp(graph, c_add(graph, low, high, -1)))
    total = c_add(graph, high, part, 1)
    endless = op.And(op.Equal(before[0], after[0]), op.IsInf(after[0]))
    above = op.And(endless, op.Greater(after[0], 0))
    ends = c_log(graph, c_add(graph, c_exp(graph, low), c_exp(graph, high), 1))
    nothing = op.Equal(low.real, -math.inf)
    result = c_where(graph, nothing, high, total)
    result = c_where(graph, endless, c_where(graph, above, ends, low), result)
    return [result.real, result.imag]


def prefix_scan(
    graph: Graph,
    axis: int,
    states: list[str],
    neutral: list[float],
    combine: Combine,
) -> list[str]:
    """Combine each state with everything before it along ``axis``; ``neutral`` is the identity of
    ``combine``.
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
    op, end, along = OpBuilder(body), as_vec(graph, size), as_vec(graph, axis)
    zero = as_vec(graph, 0)
    sides = (axis, 2 * len(shape) - axis - 1)
    others = [consts(body, [0] * count, dtypes.int64) for count in sides if count]
    pads = op.Concat(*others[: bool(axis)], step, *others[bool(axis) :], axis=0)
    before = []
    for name, value in zip(after, neutral, strict=True):
        padded = op.Pad(name, pads, const(graph, value, body.get_type(name)))
        before.append(op.Slice(padded, zero, end, along))
        body.set_shape(before[-1], tuple(shape))
    result = combine(body, before, after)
    longer = op.Add(step, step)
    more = op.Less(longer, end)
    going = op.Squeeze(more, zero)
    for name in (going, longer, *result):
        body.make_tensor_output(name)
    start = OpBuilder(graph).Less(1, as_scalar(graph, size))
    rounds = const(graph, 63, dtypes.int64)
    parts = [rounds, start, as_vec(graph, 1), *states]
    results = graph.make_node("Loop", parts, 1 + len(states), body=body)
    for name in results[1:]:
        graph.set_shape(name, tuple(shape))
    return list(results[1:])


def sum_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which torch accumulates sequential sums."""
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32
    return dtypes.float64 if dtype == dtypes.float32 else dtype
