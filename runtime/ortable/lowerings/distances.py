"""Distances between all pairs of rows, by products or by differences as torch chooses."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Float, Int, Result, dim_of, rank_of, shape_of
from ortable.prelude.matrices import matrix_product, matrix_transpose
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_scalar, const, filled, unsqueezed

from .linalg.solvers import vector_norm

__all__ = [
    "euclidean_distances",
    "pair_distances",
]

_MAX_ROWS = 25  # torch's limit: for more rows, its distances are products
_MAX_DIFFERENCES = 2**23  # elements: larger differences are taken row by row


def pair_distances(graph: Graph, x: Result, y: Result, power: Float, mode: Int) -> Result:
    """The p-norms of the differences of all rows of ``x`` and ``y``: [..., n, m].

    ``mode`` is torch's: by products for more than 25 rows (0), always (1) or never (2), where the
    norm is that of p = 2."""
    op = OpBuilder(graph)
    counts = [dim_of(graph, operand, -2) for operand in (x, y)]
    if power != 2 or mode == 2 or dims.always_equal(dim_of(graph, x, -1), 0):
        return _by_differences(graph, x, y, power)
    if mode == 1 or any(count > _MAX_ROWS for count in counts):
        return euclidean_distances(graph, x, y)
    if all(count <= _MAX_ROWS for count in counts):
        return _by_differences(graph, x, y, power)
    most = graph.make_node("Max", [as_scalar(graph, count) for count in counts])
    many = op.Greater(most, const(graph, _MAX_ROWS, dtypes.int64))
    branches = [graph.subgraph(name) for name in ("by_products", "by_differences")]
    distances = euclidean_distances(branches[0], x, y)
    branches[0].make_tensor_output(distances)
    branches[1].make_tensor_output(_by_differences(branches[1], x, y, power))
    result = op.If(many, then_branch=branches[0], else_branch=branches[1])
    graph.set_type(result, graph.get_type(x))
    if branches[0].has_shape(distances):
        graph.set_shape(result, branches[0].get_shape(distances))
    return result


def euclidean_distances(graph: Graph, x: Result, y: Result) -> Result:
    """The roots of ``|x|^2 + |y|^2 - 2xy``, in one product of matrices with two more columns."""
    op, last = OpBuilder(graph), rank_of(graph, x) - 1
    squares = [
        summed_over(graph, op.Mul(operand, operand), [rank_of(graph, operand) - 1], True)
        for operand in (x, y)
    ]
    ones = [
        filled(graph, [*shape_of(graph, operand)[:-1], 1], 1, graph.get_type(operand))
        for operand in (x, y)
    ]
    minus = op.Mul(x, -2)
    left = op.Concat(minus, squares[0], ones[0], axis=last)
    right = op.Concat(y, ones[1], squares[1], axis=rank_of(graph, y) - 1)
    total = matrix_product(graph, left, matrix_transpose(graph, right))
    return op.Sqrt(op.Relu(total))


def _by_differences(graph: Graph, x: str, y: str, power: float) -> str:
    counts = [dim_of(graph, operand, -2) for operand in (x, y)]
    size = dims.product_of([*shape_of(graph, x), counts[1]])
    if isinstance(size, int) and size > _MAX_DIFFERENCES:
        if counts[0] <= counts[1]:
            return _row_by_row(graph, x, y, power, -2)
        return _row_by_row(graph, y, x, power, -1)
    first = unsqueezed(graph, x, [rank_of(graph, x) - 1])
    second = unsqueezed(graph, y, [rank_of(graph, y) - 2])
    apart = OpBuilder(graph).Sub(first, second)
    return vector_norm(graph, apart, power, [rank_of(graph, apart) - 1], False)


def _row_by_row(graph: Graph, x: str, y: str, power: float, axis: int) -> str:
    """A Scan over the rows of ``x``, which lie along ``axis`` of the result: all differences at
    once would need the memory of ``y`` for each of them.
    """
    shape, rank = shape_of(graph, x), rank_of(graph, x)
    body = graph.subgraph("row")
    row = graph.unique_name("row")
    body.make_tensor_input(row, graph.get_type(x), (*shape[:-2], shape[-1]))
    apart = OpBuilder(body).Sub(unsqueezed(body, row, [rank - 2]), y)
    last = rank_of(body, apart) - 1
    body.make_tensor_output(vector_norm(body, apart, power, [last], False))
    return OpBuilder(graph).Scan(
        x,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[rank - 2],
        scan_output_axes=[last + 1 + axis],
    )
