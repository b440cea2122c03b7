"""Products of groups of rows: what a mixture of experts computes once its rows are sorted by
expert."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import dim_of, shape_of, static
from ortable.prelude.values import as_vec, cast, const, consts


def grouped_rows(graph: Graph, res: ResultSpec, input: str, weight: str, offs: str) -> str:
    """Rows [s, k] times weights [e, k, n] -> [s, n]: group i is the rows from offs[i - 1] up to
    offs[i]. Rows behind the last group give zeros.

    Each row is multiplied once. Raises UnsupportedCase when the number of groups is dynamic.
    """
    make, count = graph.make_node, static(dim_of(graph, weight, 0))
    rows, _ = shape_of(graph, input)
    ends = cast(graph, offs, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    edges = make("Concat", [zero, ends, as_vec(graph, rows)], axis=0)
    before = make("Slice", [edges, zero, consts(graph, [-1], dtypes.int64)])
    after = make(
        "Slice", [edges, consts(graph, [1], dtypes.int64), consts(graph, [2**62], dtypes.int64)]
    )
    sizes = make("Sub", [after, before])
    parts = make("Split", [input, sizes], count + 1, axis=0)
    products = [
        make("MatMul", [part, make("Gather", [weight, const(graph, index, dtypes.int64)], axis=0)])
        for index, part in enumerate(parts[:-1])
    ]
    joined = products[0] if count == 1 else make("Concat", products, axis=0)
    rest = make(
        "Slice", [sizes, consts(graph, [-1], dtypes.int64), consts(graph, [2**62], dtypes.int64)]
    )
    pads = make("Concat", [zero, zero, rest, zero], axis=0)
    result = make("Pad", [joined, pads])
    graph.set_shape(result, (rows, dim_of(graph, weight, 2)))
    return result
