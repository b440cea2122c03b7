"""Powers and the exponential of matrices, chains of products."""

from __future__ import annotations

from collections.abc import Sequence

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.prelude.complex_value import part_type
from ortable.prelude.facts import Tensor, dim_of, dtype_of
from ortable.prelude.matrices import matrix_product
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import zeros_of
from ortable.prelude.values import cast, const, consts

from .field import abs_elements, div_elements, map_parts, mul_matrices
from .matrix import batch_of, flat_batch, run_loop, unit_batch, with_batch
from .solvers import solved, unit_like

_DEGREE = 18
# Bader, Blanes, Casas: up to these norms a Taylor polynomial of degree 18 is exact to the dtype.
_REACH = {dtypes.float32: 3.010066362817634, dtypes.float64: 1.090863719290036}


def matrix_power(graph: Graph, res: ResultSpec, self: Tensor, n: int) -> Tensor:
    """aten::linalg_matrix_power: repeated squaring, of the inverse for n < 0."""
    if n == 0:
        return unit_like(graph, self)
    if n < 0:
        self = solved(graph, self, unit_like(graph, self))
    result: Tensor | None = None
    times = abs(n)
    while times:
        if times & 1:
            result = self if result is None else matrix_product(graph, result, self)
        times >>= 1
        self = matrix_product(graph, self, self) if times else self
    assert result is not None
    return map_parts(graph, "Identity", [result])


def multi_dot(graph: Graph, res: ResultSpec, tensors: Sequence[Tensor]) -> Tensor:
    """aten::linalg_multi_dot, aten::chain_matmul: from the left; torch's order differs in rounding
    alone."""
    result = tensors[0]
    for factor in tensors[1:]:
        result = matrix_product(graph, result, factor)
    return result


def matrix_exp(graph: Graph, res: ResultSpec, self: Tensor) -> Tensor:
    """aten::linalg_matrix_exp: a Taylor polynomial of the matrix divided by a power of two, squared
    as often.

    Raises:
        UnsupportedCase: half floats, which torch computes with other bounds.
    """
    dtype = part_type(dtype_of(graph, self))
    if dtype not in _REACH:
        raise UnsupportedCase("aten::linalg_matrix_exp of another dtype than float32 and float64")
    op, batch, x = OpBuilder(graph), batch_of(graph, self), flat_batch(graph, self)
    size = op.ReduceSum(abs_elements(graph, x), consts(graph, [1], dtypes.int64), keepdims=1)
    nothing = op.ReduceMax(
        op.Concat(size, _zero_like_batch(graph, size), axis=2),
        consts(graph, [2], dtypes.int64),
        keepdims=1,
    )
    times = op.Ceil(
        op.Div(
            op.Log(op.Div(nothing, const(graph, _REACH[dtype], dtype))),
            0.6931471805599453,
        ),
    )
    sane = op.And(
        op.Greater(times, 0),
        op.Less(times, 1100),
    )
    times = op.Where(sane, times, 0)
    scaled = div_elements(graph, x, op.Pow(const_like(graph, 2, times), times))
    one = unit_batch(graph, x, dim_of(graph, x, 1), dim_of(graph, x, 1))
    result = _taylor_polynomial(graph, scaled, one)
    return with_batch(graph, _square_repeatedly(graph, result, times), batch)


def _zero_like_batch(graph: Graph, x: str) -> str:
    """[batch, 1, 1] of zeros: a maximum with it exists for empty matrices, too."""
    return zeros_of(graph, [dim_of(graph, x, 0), 1, 1], graph.get_type(x))


def _taylor_polynomial(graph: Graph, x: Tensor, one: Tensor) -> Tensor:
    """Horner's scheme for 1 + x / 1 (1 + x / 2 (1 + ...))."""

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        number = op.Sub(const(body, _DEGREE, dtypes.int64), index)
        part = div_elements(body, x, cast(body, number, part_type(dtype_of(graph, x))))
        return [map_parts(body, "Add", [mul_matrices(body, part, result), one])]

    return run_loop(graph, _DEGREE, [one], loop_body)[0]


def _square_repeatedly(graph: Graph, x: Tensor, times: str) -> Tensor:
    """Square each matrix ``times`` [batch, 1, 1] times."""
    op = OpBuilder(graph)
    zero = consts(graph, [0], graph.get_type(times))
    flat = op.Concat(op.Reshape(times, consts(graph, [-1], dtypes.int64)), zero, axis=0)
    most = cast(graph, op.ReduceMax(flat, keepdims=0), dtypes.int64)

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        open_ = op.Less(cast(body, index, graph.get_type(times)), times)
        return [map_parts(body, "Where", [open_, mul_matrices(body, result, result), result])]

    return run_loop(graph, most, [x], loop_body)[0]
