"""Eigenvalues of symmetric matrices and singular values by Jacobi's rotations, half of all pairs of
columns in each trip of a Loop (round robin), until a sweep over all pairs changes nothing.

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
    real_of,
    scalar_const,
)
from .matrix import axis_indices, run_loop, scale_of, sum_of_squares, unit_batch

_SWEEPS = 30


class _PairSchedule:
    """Which columns are rotated together in each round (round robin).

    Column i is paired with (round - i) mod odd, where odd is the size or one less; the last column
    of an even size is paired with the one that would be paired with itself.
    """

    def __init__(self, graph: Graph, size: Dim) -> None:
        self.size = size
        self.odd = as_scalar(graph, size - 1 + size % 2)
        self.half = as_scalar(graph, (size + size % 2) // 2)
        self.last = as_scalar(graph, size - 1)
        self.even = const(graph, 1 - size % 2, dtypes.boolean)
        self.trips = as_scalar(graph, (size - 1 + size % 2) * _SWEEPS)

    def find_partners(self, body: Graph, round_index: str, own: str) -> str:
        """int64[size]: the partner of each in the round at ``round_index``."""
        op = OpBuilder(body)
        result = op.Mod(op.Sub(round_index, own), self.odd)
        alone = op.And(op.Equal(result, own), self.even)
        result = op.Where(alone, self.last, result)
        # the one that meets itself: 2 i = round, modulo an odd number
        other = op.Mod(op.Mul(round_index, self.half), self.odd)
        return op.Where(op.Equal(own, self.odd), other, result)

    def is_sweep_end(self, body: Graph, round_index: str) -> str:
        """True in the last round of a sweep."""
        after = OpBuilder(body).Add(round_index, 1)
        rest = OpBuilder(body).Mod(after, self.odd)
        return OpBuilder(body).Equal(rest, 0)


def _compute_rotation(
    body: Graph, lengths: str, products: Tensor, own: str, partner: str, idle: str
) -> tuple[str, Tensor]:
    """Cosine and sine [batch, 1, size] that make the ``products`` of partners zero. A complex sine
    has the phase of the product, conjugated."""
    if is_pair(products):
        size = abs_elements(body, products)
        cosine, sine = _compute_rotation(body, lengths, size, own, partner, idle)
        safe = OpBuilder(body).Where(is_zero(body, products), 1, size)
        phase = div_elements(body, conj_elements(body, products), safe)
        return cosine, mul_elements(body, sine, phase)
    op, one = OpBuilder(body), const_like(body, 1, lengths)
    zero, two = const_like(body, 0, lengths), const_like(body, 2, lengths)
    idle = op.Or(idle, op.Equal(own, partner))
    divisor = op.Where(idle, one, op.Mul(two, products))
    other = op.Gather(lengths, partner, axis=2)
    zeta = op.Div(op.Sub(other, lengths), divisor)
    # partners turn in opposite directions, also where zeta is 0 for both
    first = op.Where(op.Less(own, partner), one, op.Neg(one))
    sign = op.Where(op.Equal(zeta, zero), first, op.Sign(zeta))
    root = op.Sqrt(op.Add(op.Mul(zeta, zeta), one))
    tangent = op.Div(sign, op.Add(op.Abs(zeta), root))
    tangent = op.Where(idle, zero, tangent)
    cosine = op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), one)))
    return cosine, op.Mul(tangent, cosine)


def _rotate_columns(body: Graph, x: Tensor, other: Tensor, cosine: str, sine: Tensor) -> Tensor:
    return map_parts(body, "Sub", [mul_elements(body, x, cosine), mul_elements(body, other, sine)])


def _any_rotated(body: Graph, marks: str, before: str) -> str:
    """``before`` or whether a pair was rotated."""
    total = OpBuilder(body).ReduceSum(cast(body, marks, dtypes.int32), keepdims=0)
    return OpBuilder(body).Or(before, OpBuilder(body).Greater(total, 0))


def _loop_conditions(
    body: Graph, schedule: _PairSchedule, round_index: str, busy: str, idle: str
) -> list[str]:
    """(whether to go on, whether this sweep rotated something)."""
    op = OpBuilder(body)
    busy = _any_rotated(body, op.Not(idle), busy)
    over = schedule.is_sweep_end(body, round_index)
    return [op.Or(busy, op.Not(over)), op.And(busy, op.Not(over))]


def symmetric_eigen(graph: Graph, a: Tensor) -> tuple[str, Tensor]:
    """Ascending eigenvalues [batch, n] and eigenvectors [batch, n, n] of symmetric or Hermitian
    matrices."""
    size = dim_of(graph, a, 1)
    schedule, own = _PairSchedule(graph, size), axis_indices(graph, a, -1)
    diagonal = OpBuilder(graph).Equal(axis_indices(graph, a, -2), own)
    op, over = OpBuilder(graph), consts(graph, [1], dtypes.int64)
    both = consts(graph, [1, 2], dtypes.int64)
    epsilon = const(graph, machine_epsilon(part_type(dtype_of(graph, a))), _part_dtype(graph, a))
    length = op.ReduceL2(real_of(a), both, keepdims=1)
    if is_pair(a):
        length = hypot_of(graph, length, op.ReduceL2(a.imag, both, keepdims=1))
    floor = op.Mul(length, epsilon)

    def on_diagonal(body: Graph, x: Tensor) -> Tensor:
        diagonal_only = map_parts(body, "Where", [diagonal, x, scalar_const(body, 0, x)])
        return map_parts(body, "ReduceSum", [diagonal_only, over], keepdims=1)

    def loop_body(
        body: Graph, round_index: str, busy: str, a: Tensor, vectors: Tensor
    ) -> list[Tensor]:
        op = OpBuilder(body)
        partner = schedule.find_partners(body, round_index, own)
        other = map_parts(body, "Gather", [a, partner], axis=2)
        products = on_diagonal(body, other)
        # NaN counts as small, or the loop would not end early
        idle = op.Not(op.Greater(abs_elements(body, products), floor))
        idle = op.Or(idle, op.Equal(own, partner))
        lengths = on_diagonal(body, real_of(a))
        cosine, sine = _compute_rotation(body, lengths, products, own, partner, idle)
        a = _rotate_columns(body, a, other, cosine, sine)
        down = [matrix_transpose(body, cosine), matrix_adjoint(body, sine)]
        a = _rotate_columns(body, a, map_parts(body, "Gather", [a, partner], axis=1), *down)
        across = map_parts(body, "Gather", [vectors, partner], axis=2)
        vectors = _rotate_columns(body, vectors, across, cosine, sine)
        return [*_loop_conditions(body, schedule, round_index, busy, idle), a, vectors]

    start = [const(graph, False, dtypes.boolean), a, unit_batch(graph, a, size, size)]
    _, a, vectors = run_loop(graph, schedule.trips, start, loop_body, going=True)
    values = op.Squeeze(on_diagonal(graph, real_of(a)), over)
    values, order = op("TopK", [values, as_vec(graph, size)], 2, axis=1, largest=0)
    return values, _columns_at(graph, vectors, order)


def _part_dtype(graph: Graph, x: Tensor) -> int:
    """The dtype of a real result, or of the parts of a pair."""
    result: int = part_type(dtype_of(graph, x))
    return result


def _squared_norm(graph: Graph, a: Tensor) -> str:
    """[batch, 1, 1]: the sum of the squares of all elements."""
    over = consts(graph, [1, 2], dtypes.int64)
    if not is_pair(a):
        return OpBuilder(graph).ReduceSumSquare(a, over, keepdims=1)
    return graph.make_node("Add", [_squared_norm(graph, part) for part in (a.real, a.imag)])


def _columns_at(graph: Graph, x: Tensor, order: str) -> Tensor:
    """The columns of ``x`` [batch, rows, columns] in ``order`` [batch, columns]."""
    if dims.always_equal(dim_of(graph, x, 2), 0):  # ONNX Runtime drops the Expand below
        return x
    index = OpBuilder(graph).Unsqueeze(order, consts(graph, [1], dtypes.int64))
    index = expanded(graph, index, shape_of(graph, x))
    return map_parts(graph, "GatherElements", [x, index], axis=2)


def singular_decomposition(graph: Graph, a: Tensor) -> tuple[Tensor, str, Tensor]:
    """(a v, sigma, v): orthogonal columns [batch, m, n] up to a factor, the singular values
    [batch, n], descending, and the orthogonal v [batch, n, n]."""
    size, op = dim_of(graph, a, 2), OpBuilder(graph)
    schedule, own = _PairSchedule(graph, size), axis_indices(graph, a, -1)
    scale = scale_of(graph, a)
    a = map_parts(graph, "Div", [a, scale])
    over = consts(graph, [1], dtypes.int64)
    epsilon = machine_epsilon(_part_dtype(graph, a)) / 2
    near, far = (
        const(graph, value, _part_dtype(graph, a)) for value in (epsilon, epsilon * epsilon)
    )
    floor = op.Mul(_squared_norm(graph, a), far)

    def loop_body(
        body: Graph, round_index: str, busy: str, a: Tensor, vectors: Tensor
    ) -> list[Tensor]:
        op = OpBuilder(body)
        partner = schedule.find_partners(body, round_index, own)
        other = map_parts(body, "Gather", [a, partner], axis=2)
        lengths = sum_of_squares(body, a)
        pairs = mul_elements(body, conj_elements(body, a), other)
        products = map_parts(body, "ReduceSum", [pairs, over], keepdims=1)
        pair = op.Sqrt(op.Mul(lengths, op.Gather(lengths, partner, axis=2)))
        small = op.Max(op.Mul(pair, near), floor)
        idle = op.Not(op.Greater(abs_elements(body, products), small))
        idle = op.Or(idle, op.Equal(own, partner))
        cosine, sine = _compute_rotation(body, lengths, products, own, partner, idle)
        a = _rotate_columns(body, a, other, cosine, sine)
        across = map_parts(body, "Gather", [vectors, partner], axis=2)
        vectors = _rotate_columns(body, vectors, across, cosine, sine)
        return [*_loop_conditions(body, schedule, round_index, busy, idle), a, vectors]

    start = [const(graph, False, dtypes.boolean), a, unit_batch(graph, a, size, size)]
    _, a, vectors = run_loop(graph, schedule.trips, start, loop_body, going=True)
    long = op.ReduceL2(real_of(a), over, keepdims=1)
    if is_pair(a):
        long = hypot_of(graph, long, op.ReduceL2(a.imag, over, keepdims=1))
    lengths = op.Squeeze(long, over)
    values, order = op("TopK", [lengths, as_vec(graph, size)], 2, axis=1, largest=1)
    values = op.Mul(values, op.Squeeze(scale, over))
    return _columns_at(graph, a, order), values, _columns_at(graph, vectors, order)
