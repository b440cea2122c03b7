# Generated from specs/aten/segment.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dispatch import DataCheck
from ortable.dtypes import int32, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.segments import segment_reduce
from ortable.prelude.facts import dim_of, rank_of
from ortable.prelude.metadata import dtype_or_none
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_scalar, cast

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


def check_aten_segment_reduce(graph: Graph, data: Result, reduce: Str, *, lengths: Result | None = None, indices: Result | None = None, offsets: Result | None = None, axis: Int = 0, unsafe: Bool = False, initial: Scalar | None = None) -> list[DataCheck]:
    return [
        *([DataCheck(lengths, 0, None, 'RuntimeError', 'lengths contains negative value!', None)] if lengths is not None and (not unsafe) else []),
        *([DataCheck(cast(graph, graph.make_node('Equal', [summed_over(graph, cast(graph, lengths, int64), [rank_of(graph, lengths) - 1], False), as_scalar(graph, dim_of(graph, data, axis))]), int32), 1, None, 'RuntimeError', 'segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.', None)] if lengths is not None and (not unsafe) else []),
    ]


def rule_aten_segment_reduce(graph: Graph, data: Result, reduce: Str, *, lengths: Result | None = None, indices: Result | None = None, offsets: Result | None = None, axis: Int = 0, unsafe: Bool = False, initial: Scalar | None = None) -> Rules:
    return ((dtype_or_none(graph, data), None),)
