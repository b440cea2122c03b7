"""Compute sums, products and norms over axes, as exact as torch's and fast in ONNX Runtime.

ONNX Runtime adds the elements of a row one after the other in float32, so that a sum of a million
elements loses a digit or two, and reduces int64 in double. Long sums of float32 are therefore split
into equal parts, whose sums are added in float64. Sums of int64 are matrix products, which wrap
around as in torch. Means and variances are in `lowerings.reductions`.
"""

from __future__ import annotations

import math

from ortable import dims, dtypes
from ortable.ir import Graph

from .complex_value import by_parts
from .facts import Bool, Ints, Result, SymInts, Tensor, dim_of, is_static, shape_of
from .op_builder import OpBuilder
from .promotion import opmath
from .values import cast, const, consts, filled, permuted, reshape_to

__all__ = [
    "count_true",
    "l2_norm",
    "product_over",
    "summed_over",
]

_MIN_ROWS = 8  # with fewer rows, a ReduceSum and a MatMul cost the same

# How many elements one ReduceSum adds up as exactly as torch: along the last axes the kernel has
# eight or more partial sums, elsewhere one for each result. Parts of a longer sum are smaller.
_MAX_LAST_TERMS, _MAX_SINGLE_TERMS, _LAST_PART = 4096, 512, 1024
_MAX_TERMS, _PART = 256, 128
_MIN_PART = 16  # smaller parts leave too many elements to float64
_FEW_COLUMNS = 64  # with fewer results, their errors stand out as that of a single result
_MAX_EXACT_INT = 2**53  # double represents every int up to this one


# -- sums ---------------------------------------------------------------------------------------


@by_parts
def summed_over(graph: Graph, x: Tensor, axes: Ints, keepdim: Bool) -> Tensor:
    """Sum over non-negative ``axes`` in the dtype of ``x``.

    Long sums have several steps. Ints wrap around; 16-bit floats are added in float32.
    """
    dtype = graph.get_type(x)
    if not axes:
        return x
    if not dtypes.is_float_type(dtype):
        return _int_sum(graph, x, axes, keepdim)
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return cast(graph, summed_over(graph, cast(graph, x, dtypes.float32), axes, keepdim), dtype)
    return cast(graph, float_sum(graph, x, axes, keepdim, False), dtype)


def count_true(graph: Graph, marks: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return how many of the bools are true over non-negative ``axes``, as int64.

    The bools are summed as floats, which represent the counts exactly, in a tenth of the time.
    """
    if not axes:
        return cast(graph, marks, dtypes.int64)
    count = dims.product_of([dim_of(graph, marks, axis) for axis in axes])
    fits_float32 = isinstance(count, int) and count <= 2**24
    wide = cast(graph, marks, dtypes.float32 if fits_float32 else dtypes.float64)
    return cast(graph, _plain_sum(graph, wide, axes, keepdim), dtypes.int64)


def l2_norm(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return the root of the sum of squares of floats over non-negative ``axes``."""
    op = OpBuilder(graph)
    wide = opmath(graph, x)
    total = summed_over(graph, op.Mul(wide, wide), axes, keepdim)
    return cast(graph, op.Sqrt(total), graph.get_type(x))


def l1_norm(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return the sum of the absolute values over non-negative ``axes``."""
    return summed_over(graph, OpBuilder(graph).Abs(x), axes, keepdim)


def _plain_sum(graph: Graph, x: str, axes: Ints, keepdim: bool) -> str:
    axes_input = consts(graph, axes, dtypes.int64)
    return OpBuilder(graph).ReduceSum(x, axes_input, keepdims=int(keepdim))


def _product_sum(graph: Graph, x: str, axes: Ints, keepdim: bool) -> str:
    """Sum over the leading axes by multiplying a row of ones with a matrix.

    A product is 1.5 times faster than a ReduceSum, and 8 times if ReduceSum has no fast path.
    """
    sizes, count = list(shape_of(graph, x)), len(axes)
    rows, columns = dims.product_of(sizes[:count]), dims.product_of(sizes[count:])
    ones = filled(graph, [1, rows], 1, graph.get_type(x))
    total = OpBuilder(graph).MatMul(ones, reshape_to(graph, x, [rows, columns]))
    return reshape_to(graph, total, [1] * count * keepdim + sizes[count:])


# -- long sums of floats ------------------------------------------------------------------------


def float_sum(graph: Graph, x: str, axes: Ints, keepdim: bool, fine: bool) -> str:
    """Sum float32 or float64 over ``axes``.

    A long sum of float32 has parts that are added in float32; their sums are added in float64.
    ``fine`` splits sums of any length, into smaller parts.
    """
    if not graph.has_shape(x):
        return _plain_sum(graph, x, axes, keepdim)
    sizes = list(shape_of(graph, x))
    x, needs_float64 = _add_partial_sums(graph, x, axes, fine)
    if needs_float64 or _is_open_ended(graph, x, axes):
        return _plain_sum(graph, cast(graph, x, dtypes.float64), axes, keepdim)
    count = len(axes)
    is_leading = 0 < count < len(sizes) and sorted(axes) == list(range(count))
    if (
        graph.target == "onnxruntime"
        and graph.get_type(x) == dtypes.float32
        and is_leading
        and is_static(sizes)
        and dims.product_of(sizes[:count]) >= _MIN_ROWS
        and dims.product_of(sizes[count:]) >= _MIN_ROWS
    ):
        return _product_sum(graph, x, axes, keepdim)
    return _plain_sum(graph, x, axes, keepdim)


def is_long_sum(graph: Graph, x: str, axes: Ints) -> bool:
    """Whether a sum over ``axes`` is split into parts."""
    sizes = shape_of(graph, x) if graph.has_shape(x) else ()
    return any(
        dims.product_of(sizes[start:end]) > _max_terms(sizes, start, end)
        for start, end in _axis_runs(sizes, axes)
    )


def _is_last(sizes: SymInts, end: int) -> bool:
    return all(isinstance(size, int) and size == 1 for size in sizes[end:])


def _max_terms(sizes: SymInts, start: int, end: int) -> int:
    """Return how many elements of a run one ReduceSum may add up; fewer for a single result."""
    if not _is_last(sizes, end):
        return _MAX_TERMS
    is_single = dims.always_equal(dims.product_of(sizes[:start]), 1)
    return _MAX_SINGLE_TERMS if is_single else _MAX_LAST_TERMS


def _axis_runs(sizes: SymInts, axes: Ints) -> list[tuple[int, int]]:
    """Return runs of adjacent ``axes`` of static size, and single dynamic axes, as (start, end)."""
    result: list[tuple[int, int]] = []
    for axis in sorted(axes) if sizes else []:
        is_known = isinstance(sizes[axis], int)
        if is_known and result and result[-1][1] == axis and isinstance(sizes[axis - 1], int):
            result[-1] = (result[-1][0], axis + 1)
        else:
            result.append((axis, axis + 1))
    return result


def _add_partial_sums(graph: Graph, x: str, axes: Ints, fine: bool) -> tuple[str, bool]:
    """Add up parts of a long sum over ``axes``.

    Returns the result, in which ``axes`` are shorter or 1, and whether float64 must add the rest.
    Of several dynamic sizes, all but the first are summed at once, because a product of dynamic
    sizes (the area of an image) is large, while each size is not.
    """
    sizes = list(shape_of(graph, x))
    runs = _axis_runs(sizes, axes)
    unknown = [axis for axis in axes if not isinstance(sizes[axis], int)]
    for start, end in reversed(runs):
        count = dims.product_of(sizes[start:end])
        if isinstance(count, int) and count > (_PART if fine else _max_terms(sizes, start, end)):
            is_last_axis = _is_last(sizes, end) and not fine
            max_part = min(_LAST_PART, count // 8) if is_last_axis else _PART
            return _sum_in_parts(graph, x, start, end, max_part), True
        if fine or (start > min(unknown, default=start) and count != 1):
            x = _plain_sum(graph, x, list(range(start, end)), True)
        if fine:
            return x, True
    return x, False


def _sum_in_parts(graph: Graph, x: str, start: int, end: int, max_part: int) -> str:
    """Replace a run of axes by the sums of equal parts of up to ``max_part`` elements."""
    sizes = list(shape_of(graph, x))
    before, after = sizes[:start] + [1] * (end - start - 1), sizes[end:]
    count, columns = math.prod(sizes[start:end]), dims.product_of(after)
    part = _largest_divisor(count, max_part)
    if part < _MIN_PART:
        # the count has no suitable divisor: append zeros to get equal parts
        part, missing = max_part, -count % max_part
        x = reshape_to(graph, x, [*before, count, *after])
        pads = [0] * (len(sizes) + end - 1) + [missing] + [0] * (len(sizes) - end)
        zero = const(graph, 0, graph.get_type(x))
        x = OpBuilder(graph).Pad(x, consts(graph, pads, dtypes.int64), zero)
        count += missing
    # sums of blocks of rows use vector instructions, sums of a few columns do not
    has_few_columns = isinstance(columns, int) and 1 < columns < _FEW_COLUMNS
    split_shape = [part, count // part] if has_few_columns else [count // part, part]
    x = reshape_to(graph, x, [*before, *split_shape, *after])
    return _plain_sum(graph, x, [end - 1 if has_few_columns else end], False)


def _largest_divisor(count: int, limit: int) -> int:
    return next(part for part in range(limit, 0, -1) if count % part == 0)


def _is_open_ended(graph: Graph, x: str, axes: Ints) -> bool:
    """Whether few results are sums of unknown length, so that float32 must be added in float64."""
    if graph.get_type(x) != dtypes.float32:
        return False
    sizes = shape_of(graph, x)
    count = dims.product_of([size for axis, size in enumerate(sizes) if axis not in axes])
    return (
        isinstance(count, int)
        and count < _FEW_COLUMNS
        and not is_static([sizes[axis] for axis in axes])
    )


def _int_sum(graph: Graph, x: str, axes: Ints, keepdim: bool) -> str:
    """Sum ints over ``axes`` by a product of int64 matrices, unless a ReduceSum is exact.

    ONNX Runtime's ReduceSum computes in double and saturates at the largest int. The matrix product
    wraps around as torch does, and takes a fourth of the time.
    """
    dtype = graph.get_type(x)
    if dtype != dtypes.int64:
        return cast(graph, _int_sum(graph, cast(graph, x, dtypes.int64), axes, keepdim), dtype)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    # no tensor has more than 2**37 elements of 1 or 2 bytes
    if largest_int(graph, x) * (count if isinstance(count, int) else 2**37) <= _MAX_EXACT_INT:
        return _plain_sum(graph, x, axes, keepdim)
    sizes = list(shape_of(graph, x))
    kept_axes = [axis for axis in range(len(sizes)) if axis not in axes]
    out_shape = [size if axis in kept_axes else 1 for axis, size in enumerate(sizes)]
    out_shape = out_shape if keepdim else [sizes[axis] for axis in kept_axes]
    rows = dims.product_of([sizes[axis] for axis in kept_axes])
    if sorted(axes) == list(range(len(axes))) and kept_axes:
        flat = reshape_to(graph, x, [count, rows])
        pair = [filled(graph, [1, count], 1, dtypes.int64), flat]
    else:
        flat = reshape_to(graph, permuted(graph, x, [*kept_axes, *sorted(axes)]), [rows, count])
        pair = [flat, filled(graph, [count, 1], 1, dtypes.int64)]
    return reshape_to(graph, graph.make_node("MatMul", pair), out_shape)


def largest_int(graph: Graph, x: str) -> int:
    """Return a bound of the absolute values of an int result, from its dtype and casts above it."""
    result = 2**64
    while True:
        dtype = graph.get_type(x)
        if dtype == dtypes.boolean:
            return 1
        if dtypes.is_float_type(dtype):
            return result
        result = min(result, 2 ** (8 * dtypes.itemsize(dtype)))
        node = graph.values[x].producer
        if node is None or node.op_type != "Cast":
            return result
        x = node.inputs[0]


def int_product(graph: Graph, x: str, axes: Ints, keepdim: bool) -> str:
    """Multiply halves of rows until one column is left, because ReduceProd computes in double."""
    sizes = list(shape_of(graph, x))
    kept_axes = [axis for axis in range(len(sizes)) if axis not in axes]
    out_shape = [size if axis in kept_axes else 1 for axis, size in enumerate(sizes)]
    out_shape = out_shape if keepdim else [sizes[axis] for axis in kept_axes]
    count = dims.product_of([sizes[axis] for axis in axes])
    rows = dims.product_of([sizes[axis] for axis in kept_axes])
    flat = reshape_to(graph, permuted(graph, x, [*kept_axes, *sorted(axes)]), [rows, count])
    if not isinstance(count, int) or not isinstance(rows, int):
        return reshape_to(graph, _product_by_loop(graph, flat), out_shape)
    if count == 0:
        return filled(graph, out_shape, 1, graph.get_type(x))
    rest = []
    while count > 1:
        half = count // 2
        if count % 2:
            rest.append(_slice_columns(graph, flat, count - 1, count))
        pair = [_slice_columns(graph, flat, 0, half), _slice_columns(graph, flat, half, 2 * half)]
        flat, count = graph.make_node("Mul", pair), half
    for column in rest:
        flat = OpBuilder(graph).Mul(flat, column)
    return reshape_to(graph, flat, out_shape)


def _slice_columns(graph: Graph, x: str, start: int, end: int) -> str:
    bounds = [consts(graph, [bound], dtypes.int64) for bound in (start, end, 1)]
    return OpBuilder(graph).Slice(x, *bounds)


def _product_by_loop(graph: Graph, x: str) -> str:
    """Compute `int_product` for a dynamic number of columns, with a column of ones prepended."""
    dtype = graph.get_type(x)
    rows = dim_of(graph, x, 0)
    ones = filled(graph, [rows, 1], 1, dtype)
    start = OpBuilder(graph).Concat(ones, x, axis=1)
    body = graph.subgraph("halve")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    columns = graph.unique_name("whole")
    body.make_tensor_input(columns, dtype, None)
    op = OpBuilder(body)
    size = op.Shape(columns, start=1, end=2)
    two, zero, one = (consts(body, [value], dtypes.int64) for value in (2, 0, 1))
    half = op.Div(size, two)
    even_size = op.Mul(half, two)
    first_half = op.Slice(columns, zero, half, one)
    second_half = op.Slice(columns, half, even_size, one)
    rest = op.Slice(columns, even_size, size, one)
    result = op.Concat(op.Mul(first_half, second_half), rest, axis=1)
    new_size = op.Squeeze(op.Sub(size, half), zero)
    is_unfinished = op.Greater(new_size, 1)
    for name in (is_unfinished, result):
        body.make_tensor_output(name)
    rounds, going = const(graph, 63, dtypes.int64), const(graph, True, dtypes.boolean)
    outputs = OpBuilder(graph).Loop(rounds, going, start, outputs=1, body=body)
    name = outputs if isinstance(outputs, str) else outputs[0]
    graph.set_shape(name, (rows, 1))
    return name


def product_over(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Multiply over non-negative ``axes``; ints wrap around, bools are True if all are."""
    dtype = graph.get_type(x)
    if not axes:
        return x
    if dtype == dtypes.boolean:
        as_int = cast(graph, x, dtypes.int64)
        return cast(graph, product_over(graph, as_int, axes, keepdim), dtype)
    if not dtypes.is_float_type(dtype) and largest_int(graph, x) > 1:
        return int_product(graph, x, axes, keepdim)
    axes_input = consts(graph, axes, dtypes.int64)
    return OpBuilder(graph).ReduceProd(x, axes_input, keepdims=int(keepdim))
