"""Lower symmetric eigenvalues and singular values to Jacobi rotations in a Loop.

Each trip rotates disjoint pairs of columns (a round-robin schedule). A sweep is as many trips as
cover all pairs; the loop ends after a sweep without a rotation, or after ``_MAX_SWEEPS``.

Sources: Golub and Van Loan, Matrix Computations, 8.5 (eigenvalues) and 8.6.3 (one-sided).
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import matrix_adjoint
from ortable.prelude.complex_value import part_type
from ortable.prelude.facts import Tensor, dim_of, dtype_of, shape_of
from ortable.prelude.matrices import matrix_transpose
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, hypot_of
from ortable.prelude.promotion import machine_epsilon
from ortable.prelude.shapes import expanded
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts

from .field import (
    abs_elements,
    conj_elements,
    div_elements,
    is_pair,
    is_zero,
    map_parts,
    mul_elements,
    real_part,
    scalar_const,
)
from .matrix import axis_indices, identity_batch, overflow_scale, run_loop, sum_of_squares

_MAX_SWEEPS = 30


class _PairSchedule:
    """Round-robin schedule: the pairs of columns that each round rotates.

    Let ``odd`` be the size if it is odd, else the size minus 1. Column i is paired with (round - i)
    mod ``odd``. A column paired with itself is not rotated, or, with an even size, is paired with
    the last column. Size 4 has the rounds (0, 3) (1, 2); (0, 1) (2, 3); (0, 2) (1, 3).
    """

    def __init__(self, graph: Graph, size: Dim) -> None:
        self.size = size
        self.odd = as_scalar(graph, size - 1 + size % 2)
        self.half = as_scalar(graph, (size + size % 2) // 2)
        self.last = as_scalar(graph, size - 1)
        self.even = const(graph, 1 - size % 2, dtypes.boolean)
        self.trips = as_scalar(graph, (size - 1 + size % 2) * _MAX_SWEEPS)

    def find_partners(self, body: Graph, round_index: str, columns: str) -> str:
        """Return int64[size]: the partner of each column in the round at ``round_index``."""
        op = OpBuilder(body)
        partners = op.Mod(op.Sub(round_index, columns), self.odd)
        is_unpaired = op.And(op.Equal(partners, columns), self.even)
        partners = op.Where(is_unpaired, self.last, partners)
        # the unpaired column i solves 2 i = round, modulo odd; half is the inverse of 2
        unpaired_column = op.Mod(op.Mul(round_index, self.half), self.odd)
        return op.Where(op.Equal(columns, self.odd), unpaired_column, partners)

    def is_sweep_end(self, body: Graph, round_index: str) -> str:
        """Return a bool result: whether this round is the last of a sweep."""
        next_round = OpBuilder(body).Add(round_index, 1)
        position = OpBuilder(body).Mod(next_round, self.odd)
        return OpBuilder(body).Equal(position, 0)


def _compute_rotation(
    body: Graph, diagonal: str, products: Tensor, columns: str, partners: str, converged: str
) -> tuple[str, Tensor]:
    """Return cosines and sines [batch, 1, size] that zero the ``products`` of partner columns.

    ``products`` are the elements (column, partner) of a Hermitian matrix, and ``diagonal`` is its
    diagonal. Columns where ``converged`` is true are not rotated. A complex sine has the conjugated
    phase of the product.
    """
    if is_pair(products):
        magnitude = abs_elements(body, products)
        cosine, sine = _compute_rotation(body, diagonal, magnitude, columns, partners, converged)
        safe_magnitude = OpBuilder(body).Where(is_zero(body, products), 1, magnitude)
        phase = div_elements(body, conj_elements(body, products), safe_magnitude)
        return cosine, mul_elements(body, sine, phase)
    op, one = OpBuilder(body), const_like(body, 1, diagonal)
    zero, two = const_like(body, 0, diagonal), const_like(body, 2, diagonal)
    converged = op.Or(converged, op.Equal(columns, partners))
    divisor = op.Where(converged, one, op.Mul(two, products))
    partner_diagonal = op.Gather(diagonal, partners, axis=2)
    zeta = op.Div(op.Sub(partner_diagonal, diagonal), divisor)
    # the signs of two partners must be opposite, also where zeta is 0 for both
    tie_sign = op.Where(op.Less(columns, partners), one, op.Neg(one))
    sign = op.Where(op.Equal(zeta, zero), tie_sign, op.Sign(zeta))
    root = op.Sqrt(op.Add(op.Mul(zeta, zeta), one))
    tangent = op.Div(sign, op.Add(op.Abs(zeta), root))
    tangent = op.Where(converged, zero, tangent)
    cosine = op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), one)))
    return cosine, op.Mul(tangent, cosine)


def _rotate_columns(body: Graph, x: Tensor, partners: Tensor, cosine: str, sine: Tensor) -> Tensor:
    return map_parts(
        body, "Sub", [mul_elements(body, x, cosine), mul_elements(body, partners, sine)]
    )


def _update_rotated(body: Graph, rotated: str, sweep_rotated: str) -> str:
    """Return whether ``sweep_rotated`` or an element of ``rotated`` is true."""
    rotated_count = OpBuilder(body).ReduceSum(cast(body, rotated, dtypes.int32), keepdims=0)
    return OpBuilder(body).Or(sweep_rotated, OpBuilder(body).Greater(rotated_count, 0))


def _loop_conditions(
    body: Graph, schedule: _PairSchedule, round_index: str, sweep_rotated: str, converged: str
) -> list[str]:
    """Return whether the loop continues, and the next ``sweep_rotated``: false after a sweep."""
    op = OpBuilder(body)
    sweep_rotated = _update_rotated(body, op.Not(converged), sweep_rotated)
    is_sweep_end = schedule.is_sweep_end(body, round_index)
    return [op.Or(sweep_rotated, op.Not(is_sweep_end)), op.And(sweep_rotated, op.Not(is_sweep_end))]


def symmetric_eigen(graph: Graph, a: Tensor) -> tuple[str, Tensor]:
    """Return ascending eigenvalues [batch, n] and the eigenvectors of Hermitian ``a``."""
    size = dim_of(graph, a, 1)
    schedule, columns = _PairSchedule(graph, size), axis_indices(graph, a, -1)
    diagonal_mask = OpBuilder(graph).Equal(axis_indices(graph, a, -2), columns)
    op, row_axis = OpBuilder(graph), consts(graph, [1], dtypes.int64)
    matrix_axes = consts(graph, [1, 2], dtypes.int64)
    epsilon = const(graph, machine_epsilon(part_type(dtype_of(graph, a))), _part_dtype(graph, a))
    frobenius_norm = op.ReduceL2(real_part(a), matrix_axes, keepdims=1)
    if is_pair(a):
        frobenius_norm = hypot_of(
            graph, frobenius_norm, op.ReduceL2(a.imag, matrix_axes, keepdims=1)
        )
    threshold = op.Mul(frobenius_norm, epsilon)

    def extract_diagonal(body: Graph, x: Tensor) -> Tensor:
        diagonal_only = map_parts(body, "Where", [diagonal_mask, x, scalar_const(body, 0, x)])
        return map_parts(body, "ReduceSum", [diagonal_only, row_axis], keepdims=1)

    def loop_body(
        body: Graph, round_index: str, sweep_rotated: str, a: Tensor, vectors: Tensor
    ) -> list[Tensor]:
        op = OpBuilder(body)
        partners = schedule.find_partners(body, round_index, columns)
        partner_columns = map_parts(body, "Gather", [a, partners], axis=2)
        products = extract_diagonal(body, partner_columns)
        # Not(Greater) treats NaN as converged, unlike LessOrEqual, so the loop ends early
        converged = op.Not(op.Greater(abs_elements(body, products), threshold))
        converged = op.Or(converged, op.Equal(columns, partners))
        diagonal = extract_diagonal(body, real_part(a))
        cosine, sine = _compute_rotation(body, diagonal, products, columns, partners, converged)
        a = _rotate_columns(body, a, partner_columns, cosine, sine)
        row_rotation = [matrix_transpose(body, cosine), matrix_adjoint(body, sine)]
        a = _rotate_columns(
            body, a, map_parts(body, "Gather", [a, partners], axis=1), *row_rotation
        )
        partner_vectors = map_parts(body, "Gather", [vectors, partners], axis=2)
        vectors = _rotate_columns(body, vectors, partner_vectors, cosine, sine)
        return [
            *_loop_conditions(body, schedule, round_index, sweep_rotated, converged),
            a,
            vectors,
        ]

    initial_states = [const(graph, False, dtypes.boolean), a, identity_batch(graph, a, size, size)]
    _, a, vectors = run_loop(graph, schedule.trips, initial_states, loop_body, going=True)
    values = op.Squeeze(extract_diagonal(graph, real_part(a)), row_axis)
    values, order = op("TopK", [values, as_vec(graph, size)], 2, axis=1, largest=0)
    return values, _gather_columns(graph, vectors, order)


def _part_dtype(graph: Graph, x: Tensor) -> int:
    """Return the dtype of a real tensor, or of the real and imaginary parts of a complex one."""
    result: int = part_type(dtype_of(graph, x))
    return result


def _squared_norm(graph: Graph, a: Tensor) -> str:
    """Return the squared Frobenius norm [batch, 1, 1]."""
    matrix_axes = consts(graph, [1, 2], dtypes.int64)
    if not is_pair(a):
        return OpBuilder(graph).ReduceSumSquare(a, matrix_axes, keepdims=1)
    return graph.make_node("Add", [_squared_norm(graph, part) for part in (a.real, a.imag)])


def _gather_columns(graph: Graph, x: Tensor, order: str) -> Tensor:
    """Return the columns of ``x`` [batch, rows, columns] in ``order`` [batch, columns]."""
    if dims.always_equal(dim_of(graph, x, 2), 0):  # ONNX Runtime removes an Expand of no elements
        return x
    index = OpBuilder(graph).Unsqueeze(order, consts(graph, [1], dtypes.int64))
    index = expanded(graph, index, shape_of(graph, x))
    return map_parts(graph, "GatherElements", [x, index], axis=2)


def singular_decomposition(graph: Graph, a: Tensor) -> tuple[Tensor, str, Tensor]:
    """Return (a v / scale, sigma, v) of the singular value decomposition a = u sigma v^H.

    Returns:
        The orthogonal columns a v [batch, m, n], divided by `overflow_scale` of ``a``; the singular
        values [batch, n], descending; and the unitary v [batch, n, n].
    """
    size, op = dim_of(graph, a, 2), OpBuilder(graph)
    schedule, columns = _PairSchedule(graph, size), axis_indices(graph, a, -1)
    scale = overflow_scale(graph, a)
    a = map_parts(graph, "Div", [a, scale])
    row_axis = consts(graph, [1], dtypes.int64)
    epsilon = machine_epsilon(_part_dtype(graph, a)) / 2
    relative_tolerance, squared_tolerance = (
        const(graph, value, _part_dtype(graph, a)) for value in (epsilon, epsilon * epsilon)
    )
    absolute_threshold = op.Mul(_squared_norm(graph, a), squared_tolerance)

    def loop_body(
        body: Graph, round_index: str, sweep_rotated: str, a: Tensor, vectors: Tensor
    ) -> list[Tensor]:
        op = OpBuilder(body)
        partners = schedule.find_partners(body, round_index, columns)
        partner_columns = map_parts(body, "Gather", [a, partners], axis=2)
        squared_norms = sum_of_squares(body, a)
        elementwise_products = mul_elements(body, conj_elements(body, a), partner_columns)
        products = map_parts(body, "ReduceSum", [elementwise_products, row_axis], keepdims=1)
        norm_products = op.Sqrt(op.Mul(squared_norms, op.Gather(squared_norms, partners, axis=2)))
        threshold = op.Max(op.Mul(norm_products, relative_tolerance), absolute_threshold)
        converged = op.Not(op.Greater(abs_elements(body, products), threshold))
        converged = op.Or(converged, op.Equal(columns, partners))
        cosine, sine = _compute_rotation(
            body, squared_norms, products, columns, partners, converged
        )
        a = _rotate_columns(body, a, partner_columns, cosine, sine)
        partner_vectors = map_parts(body, "Gather", [vectors, partners], axis=2)
        vectors = _rotate_columns(body, vectors, partner_vectors, cosine, sine)
        return [
            *_loop_conditions(body, schedule, round_index, sweep_rotated, converged),
            a,
            vectors,
        ]

    initial_states = [const(graph, False, dtypes.boolean), a, identity_batch(graph, a, size, size)]
    _, a, vectors = run_loop(graph, schedule.trips, initial_states, loop_body, going=True)
    column_norms = op.ReduceL2(real_part(a), row_axis, keepdims=1)
    if is_pair(a):
        column_norms = hypot_of(graph, column_norms, op.ReduceL2(a.imag, row_axis, keepdims=1))
    norms = op.Squeeze(column_norms, row_axis)
    values, order = op("TopK", [norms, as_vec(graph, size)], 2, axis=1, largest=1)
    values = op.Mul(values, op.Squeeze(scale, row_axis))
    return _gather_columns(graph, a, order), values, _gather_columns(graph, vectors, order)
