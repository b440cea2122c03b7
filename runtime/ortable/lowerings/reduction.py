"""Cumulative products before ONNX had an operator for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.prelude import axis_of, shape_of
from ortable.prelude_make import as_vec, cast, const, consts, filled

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def cumprod(graph: GraphBuilder, res: Res, self: str, dim: int) -> str:
    """aten::cumprod; before opset 26 in log2(length) steps, each of which multiplies by the values
    moved along ``dim`` by 1, 2, 4, ... places.

    Raises:
        UnsupportedCase: the length along ``dim`` is dynamic.
    """
    axis = axis_of(graph, self, dim)
    dtype = res.dtype
    assert dtype is not None, "the result of cumprod is a tensor"
    found = cast(graph, self, dtype)
    if graph.opset >= 26:
        return graph.make_node("CumProd", [found, const(graph, axis, dtypes.int64)])
    shape = list(shape_of(graph, self))
    length = shape[axis]
    if not isinstance(length, int):
        raise UnsupportedCase(
            f"aten::cumprod along the dynamic dimension '{length}' needs opset 26"
        )
    step = 1
    while step < length:
        ones = filled(graph, [*shape[:axis], step, *shape[axis + 1 :]], 1, dtype)
        ends = [as_vec(graph, 0), as_vec(graph, length - step), consts(graph, [axis], dtypes.int64)]
        kept = graph.make_node("Slice", [found, *ends])
        found = graph.make_node("Mul", [found, graph.make_node("Concat", [ones, kept], axis=axis)])
        step *= 2
    return found
