"""Lower powers and the exponential of matrices, and chains of matrix products."""

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
from .matrix import batch_dims, flatten_batch, identity_batch, run_loop, unflatten_batch
from .solvers import solved, unit_like

_DEGREE = 18
# Up to these 1-norms, the Taylor polynomial of degree 18 has the dtype's accuracy (Bader, Blanes,
# Casas).
_MAX_NORMS = {dtypes.float32: 3.010066362817634, dtypes.float64: 1.090863719290036}


def matrix_power(graph: Graph, res: ResultSpec, self: Tensor, n: int) -> Tensor:
    """Lower aten::linalg_matrix_power to repeated squaring, of the inverse if n < 0."""
    if n == 0:
        return unit_like(graph, self)
    if n < 0:
        self = solved(graph, self, unit_like(graph, self))
    result: Tensor | None = None
    exponent = abs(n)
    while exponent:
        if exponent & 1:
            result = self if result is None else matrix_product(graph, result, self)
        exponent >>= 1
        self = matrix_product(graph, self, self) if exponent else self
    assert result is not None
    return map_parts(graph, "Identity", [result])


def multi_dot(graph: Graph, res: ResultSpec, tensors: Sequence[Tensor]) -> Tensor:
    """Lower aten::linalg_multi_dot and aten::chain_matmul to products from left to right."""
    result = tensors[0]
    for factor in tensors[1:]:
        result = matrix_product(graph, result, factor)
    return result


def matrix_exp(graph: Graph, res: ResultSpec, self: Tensor) -> Tensor:
    """Lower aten::linalg_matrix_exp by scaling and squaring.

    The matrix is divided by 2 ** s, and the Taylor polynomial of the quotient is squared s times.
    Half floats are unsupported, because torch uses other bounds for them.
    """
    dtype = part_type(dtype_of(graph, self))
    if dtype not in _MAX_NORMS:
        raise UnsupportedCase("aten::linalg_matrix_exp of a dtype other than float32 and float64")
    op, batch, x = OpBuilder(graph), batch_dims(graph, self), flatten_batch(graph, self)
    column_sums = op.ReduceSum(abs_elements(graph, x), consts(graph, [1], dtypes.int64), keepdims=1)
    norm = op.ReduceMax(
        op.Concat(column_sums, _zero_like_batch(graph, column_sums), axis=2),
        consts(graph, [2], dtypes.int64),
        keepdims=1,
    )
    halvings = op.Ceil(
        op.Div(
            op.Log(op.Div(norm, const(graph, _MAX_NORMS[dtype], dtype))),
            0.6931471805599453,  # log(2)
        ),
    )
    is_valid = op.And(
        op.Greater(halvings, 0),
        op.Less(halvings, 1100),  # false for an infinite norm; float64 needs at most 1024
    )
    halvings = op.Where(is_valid, halvings, 0)
    scaled = div_elements(graph, x, op.Pow(const_like(graph, 2, halvings), halvings))
    identity = identity_batch(graph, x, dim_of(graph, x, 1), dim_of(graph, x, 1))
    result = _taylor_polynomial(graph, scaled, identity)
    return unflatten_batch(graph, _square_repeatedly(graph, result, halvings), batch)


def _zero_like_batch(graph: Graph, x: str) -> str:
    """Return zeros [batch, 1, 1] to append, so that the maximum of an empty matrix is defined."""
    return zeros_of(graph, [dim_of(graph, x, 0), 1, 1], graph.get_type(x))


def _taylor_polynomial(graph: Graph, x: Tensor, identity: Tensor) -> Tensor:
    """Evaluate I + x / 1 (I + x / 2 (I + ...)) by Horner's scheme."""

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        divisor = op.Sub(const(body, _DEGREE, dtypes.int64), index)
        quotient = div_elements(body, x, cast(body, divisor, part_type(dtype_of(graph, x))))
        return [map_parts(body, "Add", [mul_matrices(body, quotient, result), identity])]

    return run_loop(graph, _DEGREE, [identity], loop_body)[0]


def _square_repeatedly(graph: Graph, x: Tensor, times: str) -> Tensor:
    """Square each matrix as often as its element of ``times`` [batch, 1, 1] says."""
    op = OpBuilder(graph)
    zero = consts(graph, [0], graph.get_type(times))
    flat_times = op.Concat(op.Reshape(times, consts(graph, [-1], dtypes.int64)), zero, axis=0)
    max_times = cast(graph, op.ReduceMax(flat_times, keepdims=0), dtypes.int64)

    def loop_body(body: Graph, index: str, result: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        active = op.Less(cast(body, index, graph.get_type(times)), times)
        return [map_parts(body, "Where", [active, mul_matrices(body, result, result), result])]

    return run_loop(graph, max_times, [x], loop_body)[0]
