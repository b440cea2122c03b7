"""Lower dense linear algebra: factorizations of batches of matrices, and solvers that use them.

The loops of the algorithms are in ``factor``, ``jacobi`` and ``ldl``.
"""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import matrix_adjoint
from ortable.prelude.complex_value import ComplexValue, part_type
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Ints,
    Result,
    Str,
    SymInt,
    Tensor,
    Tensors,
    dim_of,
    dtype_of,
    is_complex,
    rank_of,
    shape_of,
)
from ortable.prelude.matrices import matrix_product, matrix_transpose, smaller_side
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.promotion import machine_epsilon
from ortable.prelude.reductions import power_norm, reduced_extreme
from ortable.prelude.shapes import expanded, iota, sliced, zeros_of
from ortable.prelude.values import (
    cast,
    const,
    consts,
    cropped,
    permuted,
    reshape_to,
    squeezed,
    unsqueezed,
)

from . import factor, field, jacobi, matrix

__all__ = [
    "cholesky_factor",
    "determinant",
    "kept_factors",
    "log_determinant",
    "lu_factors",
    "lu_info",
    "lu_permutation",
    "lu_solved",
    "matrix_norm",
    "noise_floor",
    "orthogonal_part",
    "polar_parts",
    "pseudo_inverse",
    "reflected",
    "reflectors_of",
    "singular_lengths",
    "singular_parts",
    "solved",
    "symmetric_parts",
    "symmetric_root",
    "triangular_solved",
    "unit_like",
    "vector_norm",
    "with_unit_diagonal",
]


def unit_matrix(graph: Graph, rows: SymInt, columns: SymInt, dtype: Dtype) -> Result:
    """Return a matrix [rows, columns] with ones on the diagonal."""
    row_indices = unsqueezed(graph, iota(graph, 0, rows, 1), [1])
    is_diagonal = OpBuilder(graph).Equal(row_indices, iota(graph, 0, columns, 1))
    return field.cast_to_field(graph, is_diagonal, dtype)


def with_unit_diagonal(graph: Graph, x: Tensor) -> Tensor:
    """Replace the diagonals of matrices by ones."""
    is_diagonal = unit_matrix(graph, dim_of(graph, x, -2), dim_of(graph, x, -1), dtypes.boolean)
    return field.map_parts(graph, "Where", [is_diagonal, field.scalar_const(graph, 1, x), x])


def unit_like(graph: Graph, x: Tensor) -> Tensor:
    """Return identity matrices in the shape of a batch of square matrices ``x``."""
    unit = unit_matrix(graph, dim_of(graph, x, -2), dim_of(graph, x, -1), dtype_of(graph, x))
    return expanded(graph, unit, shape_of(graph, x))


def longer_side(graph: Graph, x: Tensor) -> SymInt:
    """Return the larger of the numbers of rows and columns."""
    return dims.max_of(*shape_of(graph, x)[-2:])


def diagonal_elements(graph: Graph, x: Tensor) -> Tensor:
    """Return the diagonals of matrices as vectors."""
    count = smaller_side(graph, x)
    square = cropped(graph, x, [count, count])
    unit = unit_matrix(graph, count, count, dtypes.boolean)
    diagonal_only = field.map_parts(graph, "Where", [unit, square, field.scalar_const(graph, 0, x)])
    return field.map_parts(graph, "ReduceSum", [diagonal_only, _last_axis(graph, x)], keepdims=0)


def _last_axis(graph: Graph, x: Tensor) -> str:
    # a nonnegative axis: for -1, ONNX Runtime infers a wrong shape if the axis is empty
    return consts(graph, [rank_of(graph, x) - 1], dtypes.int64)


# -- factorizations ------------------------------------------------------------------------------


def lu_factors(graph: Graph, x: Tensor) -> Tensors:
    """Return [LU, pivots]: L without its unit diagonal below U; LAPACK's int32 pivots, from 1."""
    batch = matrix.batch_dims(graph, x)
    factors, pivots, _ = factor.decompose_lu(graph, matrix.flatten_batch(graph, x))
    return [matrix.unflatten_batch(graph, part, batch) for part in (factors, pivots)]


def kept_factors(graph: Graph, x: Tensor) -> Tensors:
    """Return the [LU, pivots] that torch's determinants save for the backward pass.

    torch factorizes the transpose of a contiguous matrix, which saves a copy for LAPACK, and any
    other matrix itself. The layout is that of the first argument of the FX node.
    """
    argument = next(iter(getattr(graph.origin, "args", ())), None)
    tensor = getattr(argument, "meta", {}).get("val")
    if tensor is None:
        raise UnsupportedCase(
            "LU factors of a matrix whose memory layout is unknown; give example inputs (args)"
        )
    return lu_factors(graph, matrix_transpose(graph, x) if tensor.is_contiguous() else x)


def lu_permutation(graph: Graph, pivots: Tensor, rows: SymInt, dtype: Dtype) -> Tensor:
    """Return P of A = P L U from LAPACK's pivots."""
    order = factor.rows_from_pivots(graph, matrix.flatten_batch(graph, pivots, 1), rows)
    result = factor.permutation_matrix(graph, order, dtype)
    return matrix.unflatten_batch(graph, result, matrix.batch_dims(graph, pivots, 1))


def lu_info(graph: Graph, factors: Tensor) -> Result:
    """Return the first column, from 1, whose pivot is exactly zero, else 0, as int32."""
    op = OpBuilder(graph)
    has_zero_pivot = field.is_zero(graph, diagonal_elements(graph, factors))
    size = smaller_side(graph, factors)
    # from_end is largest for the first column, so the maximum selects the first zero pivot
    from_end = iota(graph, size, size, -1)
    candidates = op.Where(has_zero_pivot, from_end, 0)
    sentinel = expanded(
        graph, consts(graph, [0], dtypes.int64), [*matrix.batch_dims(graph, factors), 1]
    )
    candidates = op.Concat(candidates, sentinel, axis=-1)
    largest = op.ReduceMax(candidates, _last_axis(graph, candidates), keepdims=0)
    column = op.Sub(const(graph, size + 1, dtypes.int64), largest)
    is_regular = op.Equal(largest, 0)
    return cast(graph, op.Where(is_regular, 0, column), dtypes.int32)


def _exchange_sign(graph: Graph, factors: Tensor, pivots: str) -> Tensor:
    """Return 1 or -1, the sign of the row exchanges of ``pivots``.

    It is complex for complex factors, because a real factor would give zeros of other signs.
    """
    op, count = OpBuilder(graph), smaller_side(graph, factors)
    identity_pivots = cast(graph, iota(graph, 1, count, 1), dtypes.int32)
    is_exchanged = op.Not(op.Equal(pivots, identity_pivots))
    exchanges = cast(graph, is_exchanged, dtypes.int64)
    exchange_count = op.ReduceSum(exchanges, _last_axis(graph, exchanges), keepdims=0)
    parity = op.Mod(exchange_count, 2)
    signs = op.Sub(1, op.Add(parity, parity))
    return field.embed_real(graph, cast(graph, signs, part_type(dtype_of(graph, factors))), factors)


def lu_solved(
    graph: Graph, factors: Tensor, pivots: Tensor, b: Tensor, adjoint: Bool = False
) -> Tensor:
    """Solve A x = b, or A' x = b if ``adjoint``, from LU factors; leading dimensions broadcast."""
    rows = dim_of(graph, factors, -1)
    batch = matrix.broadcast_batch_dims(graph, [factors, b])
    flat = [
        matrix.flatten_batch(graph, matrix.broadcast_to_batch(graph, x, batch))
        for x in (factors, b)
    ]
    pivots = expanded(graph, pivots, [*batch, rows])
    order = factor.rows_from_pivots(graph, matrix.flatten_batch(graph, pivots, 1), rows)
    result = factor.solve_lu(graph, flat[0], order, flat[1], adjoint)
    return matrix.unflatten_batch(graph, result, batch)


def solved(graph: Graph, a: Tensor, b: Tensor, left: Bool = True, vector: Bool = False) -> Tensor:
    """Solve a x = b, or x a = b if not ``left``, by LU; with ``vector``, ``b`` holds vectors."""
    if vector:
        last = consts(graph, [-1], dtypes.int64)
        b = field.map_parts(graph, "Unsqueeze", [b, last])
        return field.map_parts(graph, "Squeeze", [solved(graph, a, b), last])
    if not left:
        result = solved(graph, matrix_transpose(graph, a), matrix_transpose(graph, b))
        return matrix_transpose(graph, result)
    factors = lu_factors(graph, a)
    return lu_solved(graph, factors[0], factors[1], b)


def triangular_solved(
    graph: Graph, a: Tensor, b: Tensor, upper: Bool, unit: Bool = False
) -> Tensor:
    """Solve a x = b for a triangular ``a``; leading dimensions broadcast."""
    batch = matrix.broadcast_batch_dims(graph, [a, b])
    flat = [matrix.flatten_batch(graph, matrix.broadcast_to_batch(graph, x, batch)) for x in (a, b)]
    return matrix.unflatten_batch(
        graph, factor.solve_triangular(graph, flat[0], flat[1], upper, unit), batch
    )


def cholesky_factor(graph: Graph, x: Tensor, upper: Bool) -> Tensors:
    """Return [factor, info] of positive definite matrices, from the upper or lower triangle."""
    flat = matrix.flatten_batch(graph, x)
    result, info = factor.decompose_cholesky(graph, matrix_adjoint(graph, flat) if upper else flat)
    result = matrix_adjoint(graph, result) if upper else result
    batch = matrix.batch_dims(graph, x)
    return [
        matrix.unflatten_batch(graph, result, batch),
        matrix.unflatten_batch(graph, info, batch),
    ]


def reflectors_of(graph: Graph, x: Tensor) -> Tensors:
    """Return [a, tau] of LAPACK's geqrf: R, with the Householder reflectors below its diagonal."""
    result = factor.householder_reflectors(graph, matrix.flatten_batch(graph, x))
    batch = matrix.batch_dims(graph, x)
    return [matrix.unflatten_batch(graph, part, batch) for part in result]


def orthogonal_part(graph: Graph, x: Tensor, tau: Tensor, columns: SymInt) -> Tensor:
    """Return the first ``columns`` columns of the product of the reflectors ``x`` and ``tau``."""
    flat = matrix.flatten_batch(graph, x)
    result = factor.orthogonal_columns(graph, flat, matrix.flatten_batch(graph, tau, 1), columns)
    return matrix.unflatten_batch(graph, result, matrix.batch_dims(graph, x))


def reflected(graph: Graph, x: Tensor, tau: Tensor, other: Tensor, adjoint: Bool) -> Tensor:
    """Return Q ``other``, or Q' ``other`` if ``adjoint``, for Q of the reflectors (x, tau)."""
    flat = [matrix.flatten_batch(graph, x), matrix.flatten_batch(graph, tau, 1)]
    result = factor.apply_reflectors(
        graph, flat[0], flat[1], matrix.flatten_batch(graph, other), adjoint
    )
    return matrix.unflatten_batch(graph, result, matrix.batch_dims(graph, other))


# -- eigenvalues and singular values -------------------------------------------------------------


def symmetric_parts(graph: Graph, x: Tensor, uplo: Str = "L") -> Tensors:
    """Return [ascending eigenvalues, eigenvectors] of Hermitian matrices, from one triangle."""
    op = OpBuilder(graph)
    dtype = dtype_of(graph, x)
    # computed in double precision, because rounding errors accumulate over the sweeps
    x = field.in_precision(graph, x, dtypes.complex128 if is_complex(graph, x) else dtypes.float64)
    rows = dim_of(graph, x, -1)
    # torch's shape does not always show that both sides have the same size
    flat = reshape_to(
        graph,
        matrix.flatten_batch(graph, x),
        [dims.product_of(matrix.batch_dims(graph, x)), rows, rows],
    )
    comparison = ("LessOrEqual", "GreaterOrEqual")[uplo.upper() == "L"]
    triangle = graph.make_node(
        comparison, [matrix.axis_indices(graph, flat, -2), matrix.axis_indices(graph, flat, -1)]
    )
    flat = field.map_parts(graph, "Where", [triangle, flat, matrix_adjoint(graph, flat)])
    if field.is_pair(flat):
        # like LAPACK, ignore the imaginary part of the diagonal
        is_off_diagonal = op.Not(unit_matrix(graph, rows, rows, dtypes.boolean))
        imag = op.Where(is_off_diagonal, flat.imag, 0)
        flat = ComplexValue(flat.real, imag, flat.dtype)
    batch = matrix.batch_dims(graph, x)
    values, vectors = jacobi.symmetric_eigen(graph, flat)
    result = [cast(graph, values, part_type(dtype)), field.in_precision(graph, vectors, dtype)]
    return [matrix.unflatten_batch(graph, part, batch) for part in result]


def symmetric_root(graph: Graph, x: Tensor) -> Tensor:
    """Return the principal square root of Hermitian matrices; negative eigenvalues give NaN."""
    values, vectors = symmetric_parts(graph, x)
    roots = OpBuilder(graph).Sqrt(values)
    scaled = field.mul_elements(graph, vectors, unsqueezed(graph, roots, [-2]))
    return matrix_product(graph, scaled, matrix_adjoint(graph, vectors))


def singular_lengths(graph: Graph, x: Tensor) -> Result:
    """Return the singular values of matrices, descending."""
    flat = _make_tall(graph, x)[0]
    result = _first_elements(
        graph, jacobi.singular_decomposition(graph, flat)[1], smaller_side(graph, x)
    )
    return matrix.unflatten_batch(graph, result, matrix.batch_dims(graph, x))


def singular_parts(graph: Graph, x: Tensor, full: Bool) -> Tensors:
    """Return [u, s, v'] of matrices; ``full`` completes u and v to square matrices."""
    op = OpBuilder(graph)
    count, batch = smaller_side(graph, x), matrix.batch_dims(graph, x)
    flat, is_wide = _make_tall(graph, x)
    scaled, values, right = jacobi.singular_decomposition(graph, flat)
    rows = dim_of(graph, flat, 1)
    # the columns of u * s are orthogonal, so reflectors normalize and complete them
    packed, tau = factor.householder_reflectors(graph, _first_elements(graph, scaled, count))
    left = factor.orthogonal_columns(graph, packed, tau, rows if full else count)
    diagonal = diagonal_elements(graph, field.real_part(packed))
    is_negative = op.Less(diagonal, 0)
    sign_shifts = op.Where(is_negative, *(const_like(graph, shift, diagonal) for shift in (-2, 0)))
    # the product pads the shifts with 0 for the columns that complete u; signs are 1 + shift
    # batch on the left: ONNX Runtime's MatMul fails if only the right operand has an empty batch
    unit = unit_matrix(graph, count, dim_of(graph, left, 2), dtype_of(graph, sign_shifts))
    signs = matrix_product(graph, unsqueezed(graph, sign_shifts, [1]), unit)
    signs = op.Add(signs, 1)
    left = field.mul_elements(graph, left, signs)
    right = right if full else _first_elements(graph, right, count)
    parts = (right, left) if is_wide else (left, right)
    result = [parts[0], _first_elements(graph, values, count), matrix_adjoint(graph, parts[1])]
    return [matrix.unflatten_batch(graph, part, batch) for part in result]


def polar_parts(graph: Graph, x: Tensor) -> Tensors:
    """Return [u, h] of the polar decomposition x = u h.

    u has orthonormal columns and h is Hermitian. The matrices have at least as many rows as columns
    (Higham, Functions of Matrices, 8.1).
    """
    left, values, right_adjoint = singular_parts(graph, x, False)
    scaled = field.mul_elements(graph, right_adjoint, unsqueezed(graph, values, [-1]))
    return [
        matrix_product(graph, left, right_adjoint),
        matrix_product(graph, matrix_adjoint(graph, right_adjoint), scaled),
    ]


def noise_floor(
    graph: Graph, values: Result, size: SymInt, atol: Tensor | None, rtol: Tensor | None
) -> Result:
    """Return max(atol, rtol * largest value) [..., 1]; ``size`` is the matrices' longer side.

    The default of ``rtol`` is epsilon * ``size``, or 0 where ``atol`` is positive.
    """
    op, dtype = OpBuilder(graph), graph.get_type(values)
    zero = const(graph, 0, dtype)
    atol = None if atol is None else cast(graph, atol, dtype)
    if rtol is None:
        rtol = op.Mul(const(graph, machine_epsilon(dtype), dtype), const(graph, size, dtype))
        if atol is not None:
            rtol = op.Where(op.Greater(atol, zero), zero, rtol)
    zero_column = zeros_of(graph, [*shape_of(graph, values)[:-1], 1], dtype)
    padded = op.Concat(values, zero_column, axis=-1)
    largest = op.ReduceMax(padded, _last_axis(graph, padded), keepdims=0)
    floor = op.Mul(cast(graph, rtol, dtype), largest)
    if atol is not None:
        floor = op.Max(floor, atol)
    # axis -1, because a tolerance may have more axes than the values
    return op.Unsqueeze(floor, consts(graph, [-1], dtypes.int64))


def pseudo_inverse(
    graph: Graph, x: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: Bool
) -> Tensor:
    """Return the pseudo-inverse from the singular values (or eigenvalues) above `noise_floor`."""
    op, dtype = OpBuilder(graph), part_type(dtype_of(graph, x))
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    if hermitian:
        values, right = symmetric_parts(graph, x)
        left = right
    else:
        left, values, right_adjoint = singular_parts(graph, x, False)
        right = matrix_adjoint(graph, right_adjoint)
    magnitudes = op.Abs(values)
    is_significant = op.Greater(
        magnitudes, noise_floor(graph, magnitudes, longer_side(graph, x), atol, rtol)
    )
    scales = op.Where(is_significant, op.Reciprocal(op.Where(is_significant, values, one)), zero)
    scales = op.Unsqueeze(scales, consts(graph, [-2], dtypes.int64))
    scaled = field.mul_elements(graph, right, scales)
    return matrix_product(graph, scaled, matrix_adjoint(graph, left))


def _make_tall(graph: Graph, x: Tensor) -> tuple[Tensor, bool]:
    """Return a flattened batch (adjoints if known to be wide) and whether it holds adjoints."""
    rows, columns = shape_of(graph, x)[-2:]
    flat = matrix.flatten_batch(graph, x)
    is_wide = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    return (matrix_adjoint(graph, flat) if is_wide else flat), is_wide


def _first_elements(graph: Graph, x: Tensor, count: SymInt) -> Tensor:
    return sliced(graph, x, rank_of(graph, x) - 1, 0, count)


# -- norms ---------------------------------------------------------------------------------------


def vector_norm(graph: Graph, x: Tensor, power: Float, axes: Ints, keepdim: Bool) -> Result:
    """Return the ``power``-norm over ``axes`` of a float result; empty vectors have norm 0."""
    x = field.abs_elements(graph, x) if field.is_pair(x) else x
    if any(dims.always_equal(dim_of(graph, x, axis), 0) for axis in axes):
        return _zero_norm(graph, x, axes, keepdim)
    return power_norm(graph, x, power, axes, keepdim)


def _zero_norm(graph: Graph, x: Tensor, axes: Ints, keepdim: bool) -> str:
    shape = [1 if axis in axes else size for axis, size in enumerate(shape_of(graph, x))]
    result = zeros_of(graph, shape, part_type(dtype_of(graph, x)))
    return result if keepdim else squeezed(graph, result, sorted(axes))


def matrix_norm(graph: Graph, x: Tensor, power: Any, axes: Ints, keepdim: Bool) -> Result:
    """Return the matrix norm ``power`` ("fro", "nuc" or a number) over two nonnegative ``axes``."""
    if power == "fro":
        return vector_norm(graph, x, 2.0, axes, keepdim)
    if power != "nuc" and abs(power) != 2:
        x = field.abs_elements(graph, x) if field.is_pair(x) else x
    if any(dims.always_equal(dim_of(graph, x, axis), 0) for axis in axes):
        return _zero_norm(graph, x, axes, keepdim)
    if power == "nuc" or abs(power) == 2:
        rank = rank_of(graph, x)
        moved = permuted(graph, x, [axis for axis in range(rank) if axis not in axes] + list(axes))
        values = singular_lengths(graph, moved)
        last = [rank - 2]
        if power == "nuc":
            value_axis = consts(graph, last, dtypes.int64)
            result = OpBuilder(graph).ReduceSum(values, value_axis, keepdims=0)
        else:
            result = reduced_extreme(graph, values, last, False, power > 0)
        return unsqueezed(graph, result, sorted(axes)) if keepdim else result
    summed_axis, remaining = axes if abs(power) == 1 else axes[::-1]
    total = vector_norm(graph, x, 1.0, [summed_axis], True)
    result = reduced_extreme(graph, total, [remaining], True, power > 0)
    return result if keepdim else squeezed(graph, result, sorted(axes))


# -- determinants --------------------------------------------------------------------------------


def determinant(graph: Graph, x: Tensor) -> Tensor:
    """Return the determinants of square matrices: Det for float32, else from LU factors."""
    size = dim_of(graph, x, -1)
    if dtype_of(graph, x) == dtypes.float32 and not (isinstance(size, int) and size == 0):
        return OpBuilder(graph).Det(x)
    factors, pivots = lu_factors(graph, x)
    result = _last_axis_product(graph, _padded_diagonal(graph, factors))
    return field.mul_elements(graph, result, _exchange_sign(graph, factors, pivots))


def log_determinant(graph: Graph, x: Tensor) -> Tensors:
    """Return [sign, log of the absolute value] of the determinants of square matrices."""
    factors, pivots = lu_factors(graph, x)
    op, diagonal = OpBuilder(graph), _padded_diagonal(graph, factors)
    last = _last_axis(graph, diagonal)
    magnitudes = field.abs_elements(graph, diagonal)
    logs = op.ReduceSum(op.Log(magnitudes), last, keepdims=0)
    if field.is_pair(diagonal):
        one, zero = const_like(graph, 1, magnitudes), const_like(graph, 0, magnitudes)
        safe = op.Where(op.Equal(magnitudes, zero), one, magnitudes)
        signs = _last_axis_product(graph, field.div_elements(graph, diagonal, safe))
    else:
        signs = _last_axis_product(graph, op.Sign(diagonal))
    return [field.mul_elements(graph, signs, _exchange_sign(graph, factors, pivots)), logs]


def _last_axis_product(graph: Graph, x: Tensor) -> Tensor:
    """Return the product along the last axis, which is not empty."""
    last = rank_of(graph, x) - 1
    if not field.is_pair(x):
        return OpBuilder(graph).ReduceProd(x, _last_axis(graph, x), keepdims=0)

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        return [
            field.mul_elements(body, result, field.map_parts(body, "Gather", [x, index], axis=last))
        ]

    one = expanded(graph, field.scalar_const(graph, 1, x), list(shape_of(graph, x))[:-1])
    return matrix.run_loop(graph, dim_of(graph, x, last), [one], loop_body)[0]


def _padded_diagonal(graph: Graph, factors: Tensor) -> Tensor:
    """Return the diagonals with a 1 appended, so that no reduction is over an empty axis."""
    one = expanded(
        graph, field.scalar_const(graph, 1, factors), [*matrix.batch_dims(graph, factors), 1]
    )
    return field.map_parts(graph, "Concat", [diagonal_elements(graph, factors), one], axis=-1)
