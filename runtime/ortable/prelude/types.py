"""Lower-case words of the spec language that answer with a dtype or with sizes computed from other
sizes."""

from __future__ import annotations

from ortable import dims
from ortable.ir import Graph

from .facts import Dtype, Int, Result, Results, SymInt, SymInts, dim_of
from .promotion import result_type

__all__ = ["ceil_div", "chunk_sizes", "common_dtype"]


def common_dtype(graph: Graph, values: Results) -> Dtype:
    """``torch.result_type`` of a list of results and numbers."""
    return result_type(graph, values)


def chunk_sizes(graph: Graph, x: Result, axis: Int, size: SymInt, count: Int) -> SymInts:
    """Sizes of ``count`` chunks of ``size`` along ``axis``; the last one holds what is left."""
    return [size] * (count - 1) + [dim_of(graph, x, axis) - size * (count - 1)]


def ceil_div(value: SymInt, divisor: SymInt) -> SymInt:
    """``value / divisor`` rounded up."""
    return dims.ceildiv(value, divisor)
