"""Products of groups of rows with one matrix each (grouped GEMM), as a mixture of experts computes
them.
"""

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
    """Multiply rows [s, k] by matrices [e, k, n], or [e, n, k] where ``transposed``.

    The first ``sizes[0]`` rows take the first matrix. With ``rest`` there is one size more, of rows
    at the end that take none and give zeros. There is one MatMul a group: its matrix is a constant
    of the session, which kernels pack once, and a row is multiplied by nothing but its own.

    Raises:
        UnsupportedCase: the number of groups is dynamic.
    """
    op, count = OpBuilder(graph), static(dim_of(graph, weight, 0))
    inner, outer = (
        dim_of(graph, weight, 2 if transposed else 1),
        dim_of(graph, weight, 1 if transposed else 2),
    )
    splits = op.Split(rows, sizes, outputs=count + rest, axis=0)
    parts = [splits] if isinstance(splits, str) else list(splits)
    products = []
    for index, part in enumerate(parts[:count]):
        size = dims.make_symbol(graph.unique_name("group"))  # known when the model runs
        graph.set_shape(part, (size, inner))
        matrix = op.Gather(weight, const(graph, index, dtypes.int64), axis=0)
        if transposed:
            products.append(op.Gemm(part, matrix, transB=1))
        else:
            products.append(op.MatMul(part, matrix))
        graph.set_shape(products[-1], (size, outer))
    if rest:
        products.append(_zero_rows(graph, parts[-1], inner, outer, graph.get_type(weight)))
    return products[0] if len(products) == 1 else op("Concat", products, axis=0)


def _zero_rows(graph: Graph, rows: str, inner: Dim, outer: Dim, dtype: int) -> str:
    """Zeros [s, n] whose shape follows from that of the rows, whose number is known only at run
    time.
    """
    op = OpBuilder(graph)
    graph.set_shape(rows, (dims.make_symbol(graph.unique_name("group")), inner))
    ends = [consts(graph, [value], dtypes.int64) for value in (0, 1, 1)]
    column = op.Slice(rows, *ends)
    finite = cast(graph, cast(graph, column, dtypes.boolean), dtype)  # 0 or 1, also of NaN
    return op.Mul(finite, zeros_of(graph, [1, outer], dtype))
