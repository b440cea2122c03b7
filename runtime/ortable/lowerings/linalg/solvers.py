"""Dense linear algebra: factorisations of matrices, or batches of them, and solvers that use them.

The algorithms are loops in ``factor`` and ``jacobi``.
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
    """[rows, columns] with ones on the diagonal."""
    down = unsqueezed(graph, iota(graph, 0, rows, 1), [1])
    same = OpBuilder(graph).Equal(down, iota(graph, 0, columns, 1))
    return field.as_kind(graph, same, dtype)


def with_unit_diagonal(graph: Graph, x: Tensor) -> Tensor:
    """Matrices with ones in place of their diagonals."""
    unit = unit_matrix(graph, dim_of(graph, x, -2), dim_of(graph, x, -1), dtypes.boolean)
    return field.map_parts(graph, "Where", [unit, field.scalar_const(graph, 1, x), x])


def unit_like(graph: Graph, x: Tensor) -> Tensor:
    """Unit matrices for a batch of square matrices ``x``, in its shape."""
    unit = unit_matrix(graph, dim_of(graph, x, -2), dim_of(graph, x, -1), dtype_of(graph, x))
    return expanded(graph, unit, shape_of(graph, x))


def longer_side(graph: Graph, x: Tensor) -> SymInt:
    """How many rows or columns matrices have, whichever is more."""
    return dims.max_of(*shape_of(graph, x)[-2:])


def diagonal_elements(graph: Graph, x: Tensor) -> Tensor:
    """The diagonals of matrices as vectors."""
    count = smaller_side(graph, x)
    square = cropped(graph, x, [count, count])
    unit = unit_matrix(graph, count, count, dtypes.boolean)
    diagonal_only = field.map_parts(graph, "Where", [unit, square, field.scalar_const(graph, 0, x)])
    return field.map_parts(graph, "ReduceSum", [diagonal_only, _last_axis(graph, x)], keepdims=0)


def _last_axis(graph: Graph, x: Tensor) -> str:
    # counted from the front: from the end, ONNX Runtime gives a wrong shape for an empty axis
    return consts(graph, [rank_of(graph, x) - 1], dtypes.int64)


# -- factorisations ------------------------------------------------------------------------------


def lu_factors(graph: Graph, x: Tensor) -> Tensors:
    """[LU, pivots]: L without its unit diagonal below U; LAPACK's int32 pivots, from 1."""
    batch = matrix.batch_of(graph, x)
    factors, pivots, _ = factor.decompose_lu(graph, matrix.flat_batch(graph, x))
    return [matrix.with_batch(graph, part, batch) for part in (factors, pivots)]


def kept_factors(graph: Graph, x: Tensor) -> Tensors:
    """[LU, pivots] that torch's determinants save for the backward pass: those of the transpose
    where the first argument is contiguous, which spares LAPACK a copy, else those of the matrix.

    Raises:
        UnsupportedCase: the memory layout of the matrix is unknown.
    """
    argument = next(iter(getattr(graph.origin, "args", ())), None)
    tensor = getattr(argument, "meta", {}).get("val")
    if tensor is None:
        raise UnsupportedCase(
            "LU factors of a matrix whose memory layout is unknown; give example inputs (args)"
        )
    return lu_factors(graph, matrix_transpose(graph, x) if tensor.is_contiguous() else x)


def lu_permutation(graph: Graph, pivots: Tensor, rows: SymInt, dtype: Dtype) -> Tensor:
    """P of A = P L U, from LAPACK's pivots."""
    order = factor.row_order(graph, matrix.flat_batch(graph, pivots, 1), rows)
    result = factor.permutation_matrix(graph, order, dtype)
    return matrix.with_batch(graph, result, matrix.batch_of(graph, pivots, 1))


def lu_info(graph: Graph, factors: Tensor) -> Result:
    """int32: the first column, from 1, whose pivot is exactly zero; else 0."""
    op = OpBuilder(graph)
    zeros = field.is_zero(graph, diagonal_elements(graph, factors))
    size = smaller_side(graph, factors)
    # largest for the first column, so that the maximum finds it
    from_end = iota(graph, size, size, -1)
    marks = op.Where(zeros, from_end, 0)
    nothing = expanded(
        graph, consts(graph, [0], dtypes.int64), [*matrix.batch_of(graph, factors), 1]
    )
    marks = op.Concat(marks, nothing, axis=-1)
    best = op.ReduceMax(marks, _last_axis(graph, marks), keepdims=0)
    column = op.Sub(const(graph, size + 1, dtypes.int64), best)
    none = op.Equal(best, 0)
    return cast(graph, op.Where(none, 0, column), dtypes.int32)


def _exchange_sign(graph: Graph, factors: Tensor, pivots: str) -> Tensor:
    """1 or -1: the sign of the row exchanges of ``pivots``; complex for complex factors, whose
    zeros have signs, too.
    """
    op, count = OpBuilder(graph), smaller_side(graph, factors)
    own = cast(graph, iota(graph, 1, count, 1), dtypes.int32)
    moved = op.Not(op.Equal(pivots, own))
    ones = cast(graph, moved, dtypes.int64)
    times = op.ReduceSum(ones, _last_axis(graph, ones), keepdims=0)
    odd = op.Mod(times, 2)
    signs = op.Sub(1, op.Add(odd, odd))
    return field.from_real(graph, cast(graph, signs, part_type(dtype_of(graph, factors))), factors)


def lu_solved(
    graph: Graph, factors: Tensor, pivots: Tensor, b: Tensor, adjoint: Bool = False
) -> Tensor:
    """x of A x = b, or of A' x = b, from LU factors; leading dimensions broadcast."""
    rows = dim_of(graph, factors, -1)
    together = matrix.joint_batch(graph, [factors, b])
    flat = [matrix.flat_batch(graph, matrix.in_batch(graph, x, together)) for x in (factors, b)]
    pivots = expanded(graph, pivots, [*together, rows])
    order = factor.row_order(graph, matrix.flat_batch(graph, pivots, 1), rows)
    result = factor.lu_solution(graph, flat[0], order, flat[1], adjoint)
    return matrix.with_batch(graph, result, together)


def solved(graph: Graph, a: Tensor, b: Tensor, left: Bool = True, vector: Bool = False) -> Tensor:
    """x of a x = b (of x a = b without ``left``) by LU factors; leading dimensions broadcast.

    ``vector``: ``b`` holds vectors.
    """
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
    """x of a x = b for a triangular ``a``; leading dimensions broadcast."""
    together = matrix.joint_batch(graph, [a, b])
    flat = [matrix.flat_batch(graph, matrix.in_batch(graph, x, together)) for x in (a, b)]
    return matrix.with_batch(
        graph, factor.solve_triangular(graph, flat[0], flat[1], upper, unit), together
    )


def cholesky_factor(graph: Graph, x: Tensor, upper: Bool) -> Tensors:
    """[factor, info] of positive definite matrices, of which the triangle in question is read."""
    flat = matrix.flat_batch(graph, x)
    result, info = factor.decompose_cholesky(graph, matrix_adjoint(graph, flat) if upper else flat)
    result = matrix_adjoint(graph, result) if upper else result
    batch = matrix.batch_of(graph, x)
    return [matrix.with_batch(graph, result, batch), matrix.with_batch(graph, info, batch)]


def reflectors_of(graph: Graph, x: Tensor) -> Tensors:
    """[a, tau] of LAPACK's geqrf: R and below it Householder's reflectors."""
    result = factor.householder_reflectors(graph, matrix.flat_batch(graph, x))
    batch = matrix.batch_of(graph, x)
    return [matrix.with_batch(graph, part, batch) for part in result]


def orthogonal_part(graph: Graph, x: Tensor, tau: Tensor, columns: SymInt) -> Tensor:
    """The first columns of the product of the reflectors ``x`` and ``tau``."""
    flat = matrix.flat_batch(graph, x)
    result = factor.orthogonal_columns(graph, flat, matrix.flat_batch(graph, tau, 1), columns)
    return matrix.with_batch(graph, result, matrix.batch_of(graph, x))


def reflected(graph: Graph, x: Tensor, tau: Tensor, other: Tensor, adjoint: Bool) -> Tensor:
    """Q ``other``, or its adjoint, for the product Q of the reflectors ``x`` and ``tau``."""
    flat = [matrix.flat_batch(graph, x), matrix.flat_batch(graph, tau, 1)]
    result = factor.apply_reflectors(
        graph, flat[0], flat[1], matrix.flat_batch(graph, other), adjoint
    )
    return matrix.with_batch(graph, result, matrix.batch_of(graph, other))


# -- eigenvalues and singular values -------------------------------------------------------------


def symmetric_parts(graph: Graph, x: Tensor, uplo: Str = "L") -> Tensors:
    """[values, vectors] of symmetric or Hermitian matrices, ascending; one triangle of ``x`` is
    read."""
    op = OpBuilder(graph)
    dtype = dtype_of(graph, x)
    # sweeps add up rounding errors
    x = field.in_precision(graph, x, dtypes.complex128 if is_complex(graph, x) else dtypes.float64)
    rows = dim_of(graph, x, -1)
    # torch does not always say that both sides are one size
    flat = reshape_to(
        graph, matrix.flat_batch(graph, x), [dims.product_of(matrix.batch_of(graph, x)), rows, rows]
    )
    order = ("LessOrEqual", "GreaterOrEqual")[uplo.upper() == "L"]
    triangle = graph.make_node(
        order, [matrix.axis_indices(graph, flat, -2), matrix.axis_indices(graph, flat, -1)]
    )
    flat = field.map_parts(graph, "Where", [triangle, flat, matrix_adjoint(graph, flat)])
    if field.is_pair(flat):
        # like LAPACK, ignore the imaginary part of the diagonal
        off = op.Not(unit_matrix(graph, rows, rows, dtypes.boolean))
        imag = op.Where(off, flat.imag, 0)
        flat = ComplexValue(flat.real, imag, flat.dtype)
    batch = matrix.batch_of(graph, x)
    values, vectors = jacobi.symmetric_eigen(graph, flat)
    result = [cast(graph, values, part_type(dtype)), field.in_precision(graph, vectors, dtype)]
    return [matrix.with_batch(graph, part, batch) for part in result]


def symmetric_root(graph: Graph, x: Tensor) -> Tensor:
    """The principal square root of symmetric or Hermitian matrices, of which the lower triangle is
    read; NaN for those with negative eigenvalues."""
    values, vectors = symmetric_parts(graph, x)
    roots = OpBuilder(graph).Sqrt(values)
    scaled = field.mul_elements(graph, vectors, unsqueezed(graph, roots, [-2]))
    return matrix_product(graph, scaled, matrix_adjoint(graph, vectors))


def singular_lengths(graph: Graph, x: Tensor) -> Result:
    """The singular values of matrices, descending."""
    flat = _make_tall(graph, x)[0]
    result = _first_elements(
        graph, jacobi.singular_decomposition(graph, flat)[1], smaller_side(graph, x)
    )
    return matrix.with_batch(graph, result, matrix.batch_of(graph, x))


def singular_parts(graph: Graph, x: Tensor, full: Bool) -> Tensors:
    """[u, s, v'] of matrices; ``full`` completes u and v to squares."""
    op = OpBuilder(graph)
    count, batch = smaller_side(graph, x), matrix.batch_of(graph, x)
    flat, wide = _make_tall(graph, x)
    scaled, lengths, right = jacobi.singular_decomposition(graph, flat)
    rows = dim_of(graph, flat, 1)
    # the columns of u * s are orthogonal: reflectors normalise and complete them
    packed, tau = factor.householder_reflectors(graph, _first_elements(graph, scaled, count))
    left = factor.orthogonal_columns(graph, packed, tau, rows if full else count)
    heads = diagonal_elements(graph, field.real_of(packed))
    negative = op.Less(heads, 0)
    flips = op.Where(negative, *(const_like(graph, n, heads) for n in (-2, 0)))
    # the batch is on the left: ONNX Runtime's MatMul fails for an empty one on the right alone
    square = unit_matrix(graph, count, dim_of(graph, left, 2), dtype_of(graph, flips))
    total = matrix_product(graph, unsqueezed(graph, flips, [1]), square)
    total = op.Add(total, 1)
    left = field.mul_elements(graph, left, total)
    right = right if full else _first_elements(graph, right, count)
    parts = (right, left) if wide else (left, right)
    result = [parts[0], _first_elements(graph, lengths, count), matrix_adjoint(graph, parts[1])]
    return [matrix.with_batch(graph, part, batch) for part in result]


def polar_parts(graph: Graph, x: Tensor) -> Tensors:
    """[u, h] with x = u h, of matrices with at least as many rows as columns: u has orthonormal
    columns, and h is Hermitian (Higham, Functions of Matrices, 8.1)."""
    left, lengths, right = singular_parts(graph, x, False)
    stretched = field.mul_elements(graph, right, unsqueezed(graph, lengths, [-1]))
    return [
        matrix_product(graph, left, right),
        matrix_product(graph, matrix_adjoint(graph, right), stretched),
    ]


def noise_floor(
    graph: Graph, values: Result, size: SymInt, atol: Tensor | None, rtol: Tensor | None
) -> Result:
    """The threshold of significant singular values: max(atol, rtol * the largest one), with torch's
    defaults for matrices whose longer side is ``size``.
    """
    op, own = OpBuilder(graph), graph.get_type(values)
    zero = const(graph, 0, own)
    atol = None if atol is None else cast(graph, atol, own)
    if rtol is None:
        rtol = op.Mul(const(graph, machine_epsilon(own), own), const(graph, size, own))
        if atol is not None:
            rtol = op.Where(op.Greater(atol, zero), zero, rtol)
    nothing = zeros_of(graph, [*shape_of(graph, values)[:-1], 1], own)
    padded = op.Concat(values, nothing, axis=-1)
    most = op.ReduceMax(padded, _last_axis(graph, padded), keepdims=0)
    floor = op.Mul(cast(graph, rtol, own), most)
    if atol is not None:
        floor = op.Max(floor, atol)
    # a tolerance may have more axes than the values
    return op.Unsqueeze(floor, consts(graph, [-1], dtypes.int64))


def pseudo_inverse(
    graph: Graph, x: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: Bool
) -> Tensor:
    """The inverse on the space of the singular values (or eigenvalues) above ``noise_floor``."""
    op, own = OpBuilder(graph), part_type(dtype_of(graph, x))
    zero, one = const(graph, 0, own), const(graph, 1, own)
    if hermitian:
        values, right = symmetric_parts(graph, x)
        left = right
    else:
        left, values, across = singular_parts(graph, x, False)
        right = matrix_adjoint(graph, across)
    size = op.Abs(values)
    is_significant = op.Greater(size, noise_floor(graph, size, longer_side(graph, x), atol, rtol))
    scales = op.Where(is_significant, op.Reciprocal(op.Where(is_significant, values, one)), zero)
    scales = op.Unsqueeze(scales, consts(graph, [-2], dtypes.int64))
    scaled = field.mul_elements(graph, right, scales)
    return matrix_product(graph, scaled, matrix_adjoint(graph, left))


def _make_tall(graph: Graph, x: Tensor) -> tuple[Tensor, bool]:
    """Flatten a batch of matrices, transposed if they are known to be wide; also returns whether it
    was.
    """
    rows, columns = shape_of(graph, x)[-2:]
    flat = matrix.flat_batch(graph, x)
    wide = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    return (matrix_adjoint(graph, flat) if wide else flat), wide


def _first_elements(graph: Graph, x: Tensor, count: SymInt) -> Tensor:
    return sliced(graph, x, rank_of(graph, x) - 1, 0, count)


# -- norms ---------------------------------------------------------------------------------------


def vector_norm(graph: Graph, x: Tensor, power: Float, axes: Ints, keepdim: Bool) -> Result:
    """The norm of vectors over ``axes`` of a float result; 0 for empty ones."""
    x = field.abs_elements(graph, x) if field.is_pair(x) else x
    if any(dims.always_equal(dim_of(graph, x, axis), 0) for axis in axes):
        return _zero_norm(graph, x, axes, keepdim)
    return power_norm(graph, x, power, axes, keepdim)


def _zero_norm(graph: Graph, x: Tensor, axes: Ints, keepdim: bool) -> str:
    shape = [1 if at in axes else size for at, size in enumerate(shape_of(graph, x))]
    result = zeros_of(graph, shape, part_type(dtype_of(graph, x)))
    return result if keepdim else squeezed(graph, result, sorted(axes))


def matrix_norm(graph: Graph, x: Tensor, power: Any, axes: Ints, keepdim: Bool) -> Result:
    """The norm of matrices in two ``axes`` (counted from the front): "fro", "nuc", or a number."""
    if power == "fro":
        return vector_norm(graph, x, 2.0, axes, keepdim)
    if power != "nuc" and abs(power) != 2:
        x = field.abs_elements(graph, x) if field.is_pair(x) else x
    if any(dims.always_equal(dim_of(graph, x, axis), 0) for axis in axes):
        return _zero_norm(graph, x, axes, keepdim)
    if power == "nuc" or abs(power) == 2:
        rank = rank_of(graph, x)
        front = permuted(graph, x, [axis for axis in range(rank) if axis not in axes] + list(axes))
        values = singular_lengths(graph, front)
        last = [rank - 2]
        if power == "nuc":
            over = consts(graph, last, dtypes.int64)
            result = OpBuilder(graph).ReduceSum(values, over, keepdims=0)
        else:
            result = reduced_extreme(graph, values, last, False, power > 0)
        return unsqueezed(graph, result, sorted(axes)) if keepdim else result
    summed, rest = axes if abs(power) == 1 else axes[::-1]
    total = vector_norm(graph, x, 1.0, [summed], True)
    result = reduced_extreme(graph, total, [rest], True, power > 0)
    return result if keepdim else squeezed(graph, result, sorted(axes))


# -- determinants --------------------------------------------------------------------------------


def determinant(graph: Graph, x: Tensor) -> Tensor:
    """The determinants of square matrices; from LU factors where Det has no kernel."""
    size = dim_of(graph, x, -1)
    if dtype_of(graph, x) == dtypes.float32 and not (isinstance(size, int) and size == 0):
        return OpBuilder(graph).Det(x)
    factors, pivots = lu_factors(graph, x)
    result = _last_axis_product(graph, _with_one(graph, factors))
    return field.mul_elements(graph, result, _exchange_sign(graph, factors, pivots))


def log_determinant(graph: Graph, x: Tensor) -> Tensors:
    """[sign, log of the absolute value] of the determinants of square matrices."""
    factors, pivots = lu_factors(graph, x)
    op, diagonal = OpBuilder(graph), _with_one(graph, factors)
    last = _last_axis(graph, diagonal)
    size = field.abs_elements(graph, diagonal)
    logs = op.ReduceSum(op.Log(size), last, keepdims=0)
    if field.is_pair(diagonal):
        one, zero = const_like(graph, 1, size), const_like(graph, 0, size)
        safe = op.Where(op.Equal(size, zero), one, size)
        signs = _last_axis_product(graph, field.div_elements(graph, diagonal, safe))
    else:
        signs = _last_axis_product(graph, op.Sign(diagonal))
    return [field.mul_elements(graph, signs, _exchange_sign(graph, factors, pivots)), logs]


def _last_axis_product(graph: Graph, x: Tensor) -> Tensor:
    """The product along the last axis, which is not empty."""
    last = rank_of(graph, x) - 1
    if not field.is_pair(x):
        return OpBuilder(graph).ReduceProd(x, _last_axis(graph, x), keepdims=0)

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        return [
            field.mul_elements(body, result, field.map_parts(body, "Gather", [x, index], axis=last))
        ]

    one = expanded(graph, field.scalar_const(graph, 1, x), list(shape_of(graph, x))[:-1])
    return matrix.run_loop(graph, dim_of(graph, x, last), [one], loop_body)[0]


def _with_one(graph: Graph, factors: Tensor) -> Tensor:
    """The diagonals with a 1 appended, so that no reduction is over an empty axis."""
    one = expanded(
        graph, field.scalar_const(graph, 1, factors), [*matrix.batch_of(graph, factors), 1]
    )
    return field.map_parts(graph, "Concat", [diagonal_elements(graph, factors), one], axis=-1)
