"""Lower distances between all pairs of rows, by matrix products or by differences as torch does."""

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

_MAX_ROWS = 25  # torch's limit: it computes the distances of more rows by a matrix product
_MAX_DIFFERENCES = 2**23  # elements; a larger tensor of differences is computed row by row


def pair_distances(graph: Graph, x: Result, y: Result, power: Float, mode: Int) -> Result:
    """Return the p-norms of the differences of all rows of ``x`` and ``y``: [..., n, m].

    ``mode`` is torch's compute mode for p = 2: 0 uses a matrix product for more than 25 rows, 1
    uses it always, and 2 never.
    """
    op = OpBuilder(graph)
    counts = [dim_of(graph, operand, -2) for operand in (x, y)]
    if power != 2 or mode == 2 or dims.always_equal(dim_of(graph, x, -1), 0):
        return _distances_by_differences(graph, x, y, power)
    if mode == 1 or any(count > _MAX_ROWS for count in counts):
        return euclidean_distances(graph, x, y)
    if all(count <= _MAX_ROWS for count in counts):
        return _distances_by_differences(graph, x, y, power)
    max_rows = graph.make_node("Max", [as_scalar(graph, count) for count in counts])
    uses_product = op.Greater(max_rows, const(graph, _MAX_ROWS, dtypes.int64))
    branches = [graph.subgraph(name) for name in ("by_products", "by_differences")]
    distances = euclidean_distances(branches[0], x, y)
    branches[0].make_tensor_output(distances)
    branches[1].make_tensor_output(_distances_by_differences(branches[1], x, y, power))
    result = op.If(uses_product, then_branch=branches[0], else_branch=branches[1])
    graph.set_type(result, graph.get_type(x))
    if branches[0].has_shape(distances):
        graph.set_shape(result, branches[0].get_shape(distances))
    return result


def euclidean_distances(graph: Graph, x: Result, y: Result) -> Result:
    """Return the roots of ``|x|^2 + |y|^2 - 2xy`` by one matrix product with added columns."""
    op, last_axis = OpBuilder(graph), rank_of(graph, x) - 1
    squares = [
        summed_over(graph, op.Mul(operand, operand), [rank_of(graph, operand) - 1], True)
        for operand in (x, y)
    ]
    ones = [
        filled(graph, [*shape_of(graph, operand)[:-1], 1], 1, graph.get_type(operand))
        for operand in (x, y)
    ]
    scaled_x = op.Mul(x, -2)
    left = op.Concat(scaled_x, squares[0], ones[0], axis=last_axis)
    right = op.Concat(y, ones[1], squares[1], axis=rank_of(graph, y) - 1)
    total = matrix_product(graph, left, matrix_transpose(graph, right))
    return op.Sqrt(op.Relu(total))


def _distances_by_differences(graph: Graph, x: str, y: str, power: float) -> str:
    counts = [dim_of(graph, operand, -2) for operand in (x, y)]
    size = dims.product_of([*shape_of(graph, x), counts[1]])
    if isinstance(size, int) and size > _MAX_DIFFERENCES:
        if counts[0] <= counts[1]:
            return _distances_by_rows(graph, x, y, power, -2)
        return _distances_by_rows(graph, y, x, power, -1)
    rows = unsqueezed(graph, x, [rank_of(graph, x) - 1])
    columns = unsqueezed(graph, y, [rank_of(graph, y) - 2])
    differences = OpBuilder(graph).Sub(rows, columns)
    return vector_norm(graph, differences, power, [rank_of(graph, differences) - 1], False)


def _distances_by_rows(graph: Graph, x: str, y: str, power: float, axis: int) -> str:
    """Compute the distances in a Scan over the rows of ``x``.

    The rows lie along ``axis`` of the result. All differences at once would need the memory of
    ``y`` for each row.
    """
    shape, rank = shape_of(graph, x), rank_of(graph, x)
    body = graph.subgraph("row")
    row = graph.unique_name("row")
    body.make_tensor_input(row, graph.get_type(x), (*shape[:-2], shape[-1]))
    differences = OpBuilder(body).Sub(unsqueezed(body, row, [rank - 2]), y)
    last_axis = rank_of(body, differences) - 1
    body.make_tensor_output(vector_norm(body, differences, power, [last_axis], False))
    return OpBuilder(graph).Scan(
        x,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[rank - 2],
        scan_output_axes=[last_axis + 1 + axis],
    )
