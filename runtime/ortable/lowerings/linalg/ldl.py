"""Factors of symmetric and Hermitian matrices that need not be definite, A = L D L', as LAPACK's
unblocked sytf2 and hetf2 find them in the lower triangle, with the pivots of Bunch and Kaufman: D
has blocks of one and of two rows. And what sytrs and hetrs solve with them.

In come batches of matrices, out go results: the words ``ldl_factors`` and ``ldl_solved`` of specs.
One column in each trip of a Loop: a matrix of the batch whose block has two rows takes both in one
trip, and rests in the next one. The operations are those of LAPACK, in its order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import matrix_adjoint
from ortable.prelude.complex_value import ComplexValue
from ortable.prelude.facts import Bool, Tensor, Tensors, dim_of
from ortable.prelude.matrices import matrix_transpose, triu
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import expanded, zeros_of
from ortable.prelude.values import as_scalar, cast, const, consts, reshape_to, unsqueezed

from .factor import exchanged
from .field import (
    conjugate,
    each,
    is_pair,
    is_zero,
    modulus,
    multiplied,
    number,
    product,
    quotient,
    real_of,
    rough_size,
)
from .matrix import (
    batch_of,
    first_axis,
    flat_batch,
    in_batch,
    joint_batch,
    places,
    run_loop,
    with_batch,
)

__all__ = ["ldl_factors", "ldl_solved"]

_ALPHA = (1 + 17**0.5) / 8  # keeps the growth of a step with two rows to that of two with one


@dataclass(frozen=True)
class _Frame:
    """What all trips share: the places of rows [n, 1] and columns [n], the last place, and how the
    upper triangle follows from the lower one."""

    rows: str
    columns: str
    last: str
    hermitian: bool

    def mirrored(self, body: Graph, x: Tensor) -> Tensor:
        """The transpose, conjugated for Hermitian matrices."""
        turn: Callable[..., Tensor] = matrix_adjoint if self.hermitian else matrix_transpose
        return turn(body, x)

    def other_half(self, body: Graph, x: Tensor) -> Tensor:
        """A number of the upper triangle, from that of the lower one."""
        return conjugate(body, x) if self.hermitian else x


@dataclass(frozen=True)
class _Pivot:
    """[batch, 1, 1] each: the row to exchange, whether two rows are taken, whether the column is
    zero."""

    row: str
    two: str
    nothing: str


def ldl_factors(graph: Graph, x: Tensor, hermitian: Bool) -> Tensors:
    """[LD, pivots, info]: L below D, which has blocks of one and of two rows; LAPACK's int32
    pivots, from 1, negative for blocks of two; the first block that is zero, from 1, else 0."""
    batch, size = batch_of(graph, x), dim_of(graph, x, -1)
    # torch does not always say that both sides are one size
    a = reshape_to(graph, flat_batch(graph, x), [dims.prod(batch), size, size])
    count = dim_of(graph, a, 0)
    frame = _frame(graph, a, hermitian)

    def step(
        body: Graph, place: str, a: Tensor, pivots: str, info: str, second: str
    ) -> list[Tensor]:
        op, zero = OpBuilder(body), const(body, 0, dtypes.int64)
        whole = _whole(body, frame, a)
        pivot = _pivot(body, frame, whole, place)
        first = op.Not(second)
        two = op.And(pivot.two, first)
        row = op.Where(second, place, pivot.row)
        end = op.Add(place, cast(body, two, dtypes.int64))
        source = exchanged(body, frame.rows, end, row)
        whole = each(body, "GatherND", [whole, source], batch_dims=1)
        whole = each(body, "GatherND", [frame.mirrored(body, whole), source], batch_dims=1)
        whole = _eliminated(body, frame, whole, place, two)
        open_ = [op.GreaterOrEqual(axis, place) for axis in (frame.rows, frame.columns)]
        a = each(body, "Where", [op.And(op("And", open_), first), whole, a])
        told = op.Add(row, 1)
        told = op.Where(two, op.Neg(told), told)
        here = op.And(op.Equal(frame.rows, place), first)
        beside = op.And(op.Equal(frame.rows, end), two)
        pivots = op.Where(op.Or(here, beside), told, pivots)
        news = op.And(op.And(pivot.nothing, first), op.Equal(info, zero))
        after = op.Add(place, 1)
        return [a, pivots, op.Where(news, after, info), two]

    nothing = [zeros_of(graph, [count, rows, 1], dtypes.int64) for rows in (size, 1)]
    second = expanded(graph, const(graph, False, dtypes.boolean), [count, 1, 1])
    a, *told, _ = run_loop(graph, size, [a, *nothing, second], step)
    pivots, info = (cast(graph, each, dtypes.int32) for each in told)
    shapes = ([*batch, size], batch)
    told = [reshape_to(graph, *pair) for pair in zip((pivots, info), shapes, strict=True)]
    return [with_batch(graph, triu(graph, a, False), batch), *told]


def _frame(graph: Graph, a: Tensor, hermitian: bool) -> _Frame:
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)
    return _Frame(places(graph, a, -2), places(graph, a, -1), last, hermitian)


def _whole(body: Graph, frame: _Frame, a: Tensor) -> Tensor:
    """The symmetric or Hermitian matrix of which ``a`` has the lower triangle."""
    lower = OpBuilder(body).GreaterOrEqual(frame.rows, frame.columns)
    whole = each(body, "Where", [lower, a, frame.mirrored(body, a)])
    if not frame.hermitian or not is_pair(whole):
        return whole
    # as LAPACK does, what stands beside the real diagonal is not read
    diagonal = OpBuilder(body).Equal(frame.rows, frame.columns)
    imag = OpBuilder(body).Where(diagonal, 0, whole.imag)
    return ComplexValue(whole.real, imag, whole.dtype)


def _pivot(body: Graph, frame: _Frame, whole: Tensor, place: str) -> _Pivot:
    """What Bunch and Kaufman do at ``place``: keep its row, exchange it for that of the largest
    number in its column, or take both."""
    op, at = OpBuilder(body), first_axis(body, place)
    column = rough_size(body, each(body, "Gather", [whole, at], axis=2))
    zero, alpha = const_like(body, 0, column), const_like(body, _ALPHA, column)
    head = op.Gather(column, at, axis=1)
    under = op.Greater(frame.rows, place)
    best = op.Where(under, column, -1)
    best = op.Max(op.ArgMax(best, axis=1, keepdims=1), place)
    most = _largest(body, under, column, 1)
    across = rough_size(body, each(body, "GatherND", [whole, best], batch_dims=1))
    own = op.Equal(frame.columns, best)
    others = op.And(op.GreaterOrEqual(frame.columns, place), op.Not(own))
    widest = _largest(body, others, across, 2)
    bound = op.Mul(alpha, most)
    kept = op.GreaterOrEqual(head, bound)
    bound = op.Mul(bound, op.Div(most, widest))
    kept = op.Or(kept, op.GreaterOrEqual(head, bound))
    size = _largest(body, own, across, 2)
    alone = op.GreaterOrEqual(size, op.Mul(alpha, widest))
    two = op.And(op.Not(op.Or(kept, alone)), op.Less(place, frame.last))
    nothing = op("And", [op.Equal(x, zero) for x in (head, most)])
    return _Pivot(op.Where(kept, place, best), two, nothing)


def _largest(body: Graph, mask: str, x: str, axis: int) -> str:
    """The largest of the sizes under the mask, 0 for none."""
    kept = OpBuilder(body).Where(mask, x, 0)
    return OpBuilder(body).ReduceMax(kept, consts(body, [axis], dtypes.int64), keepdims=1)


def _eliminated(body: Graph, frame: _Frame, whole: Tensor, place: str, two: str) -> Tensor:
    """``whole`` with the factors below the block at ``place`` in place of its columns, and what
    they make of the numbers behind it."""
    op, one = OpBuilder(body), const(body, 1, dtypes.int64)
    at = first_axis(body, place)
    left, right = _columns(body, frame, whole, place)
    pivot = each(body, "Gather", [left, at], axis=1)
    pivot = real_of(pivot) if frame.hermitian else pivot
    # a pivot of zero stands over zeros
    unit = number(body, 1, pivot)
    divisor = each(body, "Where", [is_zero(body, pivot), unit, pivot])
    single = product(body, left, quotient(body, unit, divisor))
    block = _block(body, whole, place, op.Min(op.Add(place, one), frame.last))
    both = (_hermitian_pair if frame.hermitian else _symmetric_pair)(body, block, left, right)
    first = each(body, "Where", [two, both[0], single])
    rest = each(body, "Sub", [whole, product(body, left, frame.mirrored(body, first))])
    more = each(body, "Sub", [rest, product(body, right, frame.mirrored(body, both[1]))])
    rest = each(body, "Where", [two, more, rest])
    end = op.Add(place, cast(body, two, dtypes.int64))
    factors = each(body, "Where", [op.Equal(frame.columns, place), first, both[1]])
    inside = each(body, "Where", [op.Greater(frame.columns, end), rest, factors])
    return each(body, "Where", [op.Greater(frame.rows, end), inside, whole])


def _columns(body: Graph, frame: _Frame, x: Tensor, place: str) -> list[Tensor]:
    """The columns of ``x`` at ``place`` and after it; the last one twice."""
    after = OpBuilder(body).Add(place, 1)
    after = OpBuilder(body).Min(after, frame.last)
    return [each(body, "Gather", [x, first_axis(body, at)], axis=2) for at in (place, after)]


def _block(body: Graph, x: Tensor, first: str, second: str) -> tuple[Tensor, Tensor, Tensor]:
    """x[first, first], x[second, first] and x[second, second], [batch, 1, 1] each."""
    at, after = first_axis(body, first), first_axis(body, second)
    left, right = (each(body, "Gather", [x, column], axis=2) for column in (at, after))
    return (
        each(body, "Gather", [left, at], axis=1),
        each(body, "Gather", [left, after], axis=1),
        each(body, "Gather", [right, after], axis=1),
    )


def _symmetric_pair(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """The columns ``left`` and ``right`` times the inverse of the block."""
    head, below, tail = block
    one = number(body, 1, below)
    heads, tails = quotient(body, head, below), quotient(body, tail, below)
    scale = each(body, "Sub", [product(body, tails, heads), one])
    scale = quotient(body, quotient(body, one, scale), below)
    first = each(body, "Sub", [product(body, tails, left), right])
    second = each(body, "Sub", [product(body, heads, right), left])
    return product(body, scale, first), product(body, scale, second)


def _hermitian_pair(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """``_symmetric_pair`` for Hermitian blocks; of real ones it is the same."""
    if not is_pair(left):
        return _symmetric_pair(body, block, left, right)
    head, below, tail = block
    size = modulus(body, below)
    one = number(body, 1, size)
    heads, tails = (quotient(body, real_of(x), size) for x in (head, tail))
    scale = each(body, "Sub", [product(body, tails, heads), one])
    scale = quotient(body, quotient(body, one, scale), size)
    phase = quotient(body, below, size)
    first = each(body, "Sub", [product(body, left, tails), product(body, phase, right)])
    back = product(body, conjugate(body, phase), left)
    second = each(body, "Sub", [product(body, right, heads), back])
    return product(body, first, scale), product(body, second, scale)


# -- what is solved with the factors -------------------------------------------------------------


def ldl_solved(graph: Graph, factors: Tensor, pivots: Tensor, b: Tensor, hermitian: Bool) -> Tensor:
    """x of A x = b, from what ``ldl_factors`` gives; leading dimensions broadcast."""
    together, size = joint_batch(graph, [factors, b]), dim_of(graph, factors, -1)
    factors, b = (flat_batch(graph, in_batch(graph, x, together)) for x in (factors, b))
    pivots = unsqueezed(graph, cast(graph, pivots, dtypes.int64), [len(batch_of(graph, pivots, 0))])
    pivots = flat_batch(graph, expanded(graph, pivots, [*together, size, 1]))
    frame = _frame(graph, factors, hermitian)
    x = _divided(graph, frame, factors, pivots, b)
    return with_batch(graph, _back(graph, frame, factors, pivots, x), together)


def _step(body: Graph, pivots: str, place: str, second: str, alone: str) -> tuple[str, str]:
    """(row, two): the row to exchange and whether two are taken, [batch, 1, 1] each; at the place
    ``alone`` and in the second trip of a block one is."""
    op = OpBuilder(body)
    told = op.Gather(pivots, first_axis(body, place), axis=1)
    two = op.Less(told, 0)
    two = op.And(two, op.Not(op.Or(second, op.Equal(place, alone))))
    row = op.Sub(op.Abs(told), 1)
    return row, two


def _divided(graph: Graph, frame: _Frame, factors: Tensor, pivots: str, b: Tensor) -> Tensor:
    """x of L D x = b, from the first row to the last."""

    def step(body: Graph, place: str, x: Tensor, second: str) -> list[Tensor]:
        op = OpBuilder(body)
        row, two = _step(body, pivots, place, second, frame.last)
        end = op.Add(place, cast(body, two, dtypes.int64))
        source = exchanged(body, frame.rows, end, op.Where(second, end, row))
        moved = each(body, "GatherND", [x, source], batch_dims=1)
        left, right = _columns(body, frame, factors, place)
        at = first_axis(body, place)
        after = op.Min(op.Add(place, 1), frame.last)
        upper = each(body, "Gather", [moved, at], axis=1)
        lower = each(body, "Gather", [moved, first_axis(body, after)], axis=1)
        rest = each(body, "Sub", [moved, product(body, left, upper)])
        more = each(body, "Sub", [rest, product(body, right, lower)])
        rest = each(body, "Where", [two, more, rest])
        pivot = each(body, "Gather", [left, at], axis=1)
        pivot = real_of(pivot) if frame.hermitian else pivot
        single = product(body, upper, quotient(body, number(body, 1, pivot), pivot))
        both = _block_solved(body, frame, _block(body, factors, place, after), upper, lower)
        first = each(body, "Where", [two, both[0], single])
        done = each(body, "Where", [op.Equal(frame.rows, end), both[1], moved])
        done = each(body, "Where", [op.Equal(frame.rows, place), first, done])
        done = each(body, "Where", [op.Greater(frame.rows, end), rest, done])
        return [each(body, "Where", [second, x, done]), two]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _never(graph, b)], step)[0]


def _never(graph: Graph, b: Tensor) -> str:
    return expanded(graph, const(graph, False, dtypes.boolean), [dim_of(graph, b, 0), 1, 1])


def _block_solved(
    body: Graph, frame: _Frame, block: tuple[Tensor, Tensor, Tensor], upper: Tensor, lower: Tensor
) -> tuple[Tensor, Tensor]:
    """The two rows that a block of D times gives ``upper`` and ``lower``."""
    head, below, tail = block
    above = frame.other_half(body, below)
    head, tail = quotient(body, head, above), quotient(body, tail, below)
    divisor = each(body, "Sub", [product(body, head, tail), number(body, 1, below)])
    upper, lower = quotient(body, upper, above), quotient(body, lower, below)
    first = each(body, "Sub", [product(body, tail, upper), lower])
    second = each(body, "Sub", [product(body, head, lower), upper])
    return quotient(body, first, divisor), quotient(body, second, divisor)


def _back(graph: Graph, frame: _Frame, factors: Tensor, pivots: str, b: Tensor) -> Tensor:
    """x of L' x = b, from the last row to the first."""
    start = const(graph, 0, dtypes.int64)

    def step(body: Graph, place: str, x: Tensor, second: str) -> list[Tensor]:
        op = OpBuilder(body)
        place = op.Sub(frame.last, place)
        row, two = _step(body, pivots, place, second, start)
        before = op.Max(op.Sub(place, 1), start)
        under = op.Greater(frame.rows, place)
        zero = number(body, 0, x)
        known = each(body, "Where", [under, x, zero])
        done = x
        for at, mask in ((before, two), (place, None)):
            index = first_axis(body, at)
            column = each(body, "Gather", [factors, index], axis=2)
            column = each(body, "Where", [under, column, zero])
            value = each(body, "Gather", [x, index], axis=1)
            earlier = multiplied(body, frame.mirrored(body, column), known)
            value = each(body, "Sub", [value, earlier])
            here = op.Equal(frame.rows, at)
            here = here if mask is None else op.And(here, mask)
            done = each(body, "Where", [here, value, done])
        done = each(body, "GatherND", [done, exchanged(body, frame.rows, place, row)], batch_dims=1)
        return [each(body, "Where", [second, x, done]), two]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _never(graph, b)], step)[0]
