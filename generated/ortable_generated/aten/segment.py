# Generated from specs/aten/segment.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.errors import UnsupportedCase
from ortable.lowerings.segments import segment_reduce
from ortable.prelude.metadata import dtype_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, Scalar, Str


def aten_segment_reduce(graph: Graph, res: ResultSpec, data: Result, reduce: Str, *, lengths: Result | None = None, indices: Result | None = None, offsets: Result | None = None, axis: Int = 0, unsafe: Bool = False, initial: Scalar | None = None) -> Result:
    """aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor"""
    if indices is not None:
        graph.case = 1
        raise UnsupportedCase('aten::segment_reduce: segments given by indices, which torch refuses, too')
    graph.case = 2
    return segment_reduce(graph, res, data=data, reduce=reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial)


def rule_aten_segment_reduce(graph: Graph, data: Result, reduce: Str, *, lengths: Result | None = None, indices: Result | None = None, offsets: Result | None = None, axis: Int = 0, unsafe: Bool = False, initial: Scalar | None = None) -> Rules:
    return ((dtype_or_none(graph, data), None),)
