# Generated from specs/aten/unique.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.sorting import compressed, equality_codes, run_lengths, run_starts
from ortable.prelude.facts import axis_of, shape_of
from ortable.prelude.indexing import argsort, run_ids
from ortable.prelude.metadata import dtype_or_none
from ortable.prelude.shapes import as_flat
from ortable.prelude.values import consts, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result


def aten__unique(graph: Graph, res: ResultSpec, self: Result, sorted: Bool = True, return_inverse: Bool = False) -> Any:
    """aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"""
    flat = as_flat(graph, self)
    order = argsort(graph, flat, 0)
    starts = run_starts(graph, graph.make_node('Gather', [flat, order]), 0)
    values = compressed(graph, graph.make_node('Gather', [flat, order]), starts, 0)
    ids = graph.make_node('ScatterElements', [order, order, run_ids(graph, starts)], axis=0) if return_inverse else None
    inverse = consts(graph, [], int64) if ids is None else reshape_to(graph, ids, shape_of(graph, self))
    return (values, inverse)


def aten__unique2(graph: Graph, res: ResultSpec, self: Result, sorted: Bool = True, return_inverse: Bool = False, return_counts: Bool = False) -> Any:
    """aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"""
    flat = as_flat(graph, self)
    order = argsort(graph, flat, 0)
    starts = run_starts(graph, graph.make_node('Gather', [flat, order]), 0)
    values = compressed(graph, graph.make_node('Gather', [flat, order]), starts, 0)
    ids = graph.make_node('ScatterElements', [order, order, run_ids(graph, starts)], axis=0) if return_inverse else None
    inverse = consts(graph, [], int64) if ids is None else reshape_to(graph, ids, shape_of(graph, self))
    return (values, inverse, run_lengths(graph, starts) if return_counts else consts(graph, [], int64))


def aten_unique_consecutive(graph: Graph, res: ResultSpec, self: Result, return_inverse: Bool = False, return_counts: Bool = False, dim: Int | None = None) -> Any:
    """aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)"""
    if dim is None:
        graph.case = 1
        starts = run_starts(graph, as_flat(graph, self), 0)
        ids = run_ids(graph, starts) if return_inverse else None
        inverse = consts(graph, [], int64) if ids is None else reshape_to(graph, ids, shape_of(graph, self))
        counts = run_lengths(graph, starts) if return_counts else consts(graph, [], int64)
        return (compressed(graph, as_flat(graph, self), starts, 0), inverse, counts)
    if dim < 0:
        graph.case = 2
        raise UnsupportedCase("aten::unique_consecutive: a dimension counted from the end, for which torch's own shape of the result is wrong")
    # along a dimension torch gives the places and counts in any case
    graph.case = 3
    starts = run_starts(graph, self, axis_of(graph, self, dim))
    values = compressed(graph, self, starts, axis_of(graph, self, dim))
    return (values, run_ids(graph, starts), run_lengths(graph, starts))


def aten_unique_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, sorted: Bool = True, return_inverse: Bool = False, return_counts: Bool = False) -> Any:
    """aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"""
    axis = axis_of(graph, self, dim)
    # integer codes, because ONNX leaves open how NaN is ordered (torch does, too, and makes each of its rows distinct)
    _, first, inverse, counts = graph.make_node('Unique', [equality_codes(graph, self)], 4, axis=axis, sorted=1)
    return (graph.make_node('Gather', [self, first], axis=axis), inverse, counts)


def rule_aten__unique(graph: Graph, self: Result, sorted: Bool = True, return_inverse: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)


def rule_aten__unique2(graph: Graph, self: Result, sorted: Bool = True, return_inverse: Bool = False, return_counts: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None), (int64, None),)


def rule_aten_unique_consecutive(graph: Graph, self: Result, return_inverse: Bool = False, return_counts: Bool = False, dim: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None), (int64, None),)


def rule_aten_unique_dim(graph: Graph, self: Result, dim: Int, sorted: Bool = True, return_inverse: Bool = False, return_counts: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None), (int64, None),)
