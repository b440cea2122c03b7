"""Multiply groups of rows by one matrix each (grouped GEMM), as in a mixture of experts."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.ir import Graph

from .facts import dim_of, static
from .op_builder import OpBuilder
from .shapes import zeros_of
from .values import cast, const, consts

__all__: list[str] = []


def grouped_matmul(
    graph: Graph, rows: str, sizes: str, weight: str, transposed: bool, rest: bool = False
) -> str:
    """Multiply rows [s, k] by matrices [e, k, n], or [e, n, k] if ``transposed``.

    The first ``sizes[0]`` rows use the first matrix, and so on. With ``rest``, ``sizes`` has one
    more item, the number of rows at the end that use no matrix and give zeros. Each group is a
    separate MatMul: its matrix is a constant of the session, which kernels pack once, and no row is
    multiplied by a matrix of another group.

    Raises:
        UnsupportedCase: the number of groups is dynamic.
    """
    op, count = OpBuilder(graph), static(dim_of(graph, weight, 0))
    in_features, out_features = (
        dim_of(graph, weight, 2 if transposed else 1),
        dim_of(graph, weight, 1 if transposed else 2),
    )
    splits = op.Split(rows, sizes, outputs=count + rest, axis=0)
    row_groups = [splits] if isinstance(splits, str) else list(splits)
    products = []
    for index, part in enumerate(row_groups[:count]):
        size = dims.make_symbol(graph.unique_name("group"))  # known only at run time
        graph.set_shape(part, (size, in_features))
        matrix = op.Gather(weight, const(graph, index, dtypes.int64), axis=0)
        if transposed:
            products.append(op.Gemm(part, matrix, transB=1))
        else:
            products.append(op.MatMul(part, matrix))
        graph.set_shape(products[-1], (size, out_features))
    if rest:
        products.append(
            _zero_rows(graph, row_groups[-1], in_features, out_features, graph.get_type(weight))
        )
    return products[0] if len(products) == 1 else op("Concat", products, axis=0)


def _zero_rows(graph: Graph, rows: str, in_features: Dim, out_features: Dim, dtype: int) -> str:
    """Return zeros [s, n], whose number of rows is that of ``rows`` at run time."""
    op = OpBuilder(graph)
    graph.set_shape(rows, (dims.make_symbol(graph.unique_name("group")), in_features))
    slice_inputs = [consts(graph, [value], dtypes.int64) for value in (0, 1, 1)]
    column = op.Slice(rows, *slice_inputs)
    zero_or_one = cast(
        graph, cast(graph, column, dtypes.boolean), dtype
    )  # the cast to bool makes NaN 1
    return op.Mul(zero_or_one, zeros_of(graph, [1, out_features], dtype))
