# Generated from specs/aten/histogram.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import float32, float64, int32, int64
from ortable.lowerings.histogram import bincount, grid_counts, grid_counts_between, grid_edges, histogram_between, lower_histc, lower_histogram
from ortable.prelude.facts import count_of, dtype_of, is_float
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.pointwise import larger_of
from ortable.prelude.shapes import zeros_of
from ortable.prelude.values import as_vec, cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Floats, Int, Ints, Result, Results, Scalar, SymInt


def aten__histogramdd_bin_edges(graph: Graph, res: ResultSpec, self: Result, bins: Ints, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Any:
    """aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]"""
    return grid_edges(graph, res, self=self, bins=bins, range=range)


def aten__histogramdd_from_bin_cts(graph: Graph, res: ResultSpec, self: Result, bins: Ints, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Result:
    """aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor"""
    return grid_counts(graph, res, self=self, bins=bins, range=range, weight=weight, density=density)


def aten__histogramdd_from_bin_tensors(graph: Graph, res: ResultSpec, self: Result, bins: Results, *, weight: Result | None = None, density: Bool = False) -> Result:
    """aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor"""
    return grid_counts_between(graph, res, self=self, bins=bins, weight=weight, density=density)


def aten_bincount(graph: Graph, res: ResultSpec, self: Result, weights: Result | None = None, minlength: SymInt = 0) -> Result:
    """aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    if count_of(graph, self) == 0:
        graph.case = 1
        return zeros_of(graph, [minlength], int64)
    graph.case = 2
    numbers = cast(graph, self, int64)
    longest = graph.make_node('Add', [graph.make_node('ReduceMax', [numbers], keepdims=1), const(graph, 1, int64)])
    return bincount(graph, numbers, weights, larger_of(graph, longest, as_vec(graph, minlength)), dtype_of(graph, res))


def aten_histc(graph: Graph, res: ResultSpec, self: Result, bins: Int = 100, min: Scalar = 0, max: Scalar = 0) -> Result:
    """aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    return lower_histc(graph, res, self=self, bins=bins, min=min, max=max)


def aten_histogram_bin_ct(graph: Graph, res: ResultSpec, self: Result, bins: Int = 100, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Any:
    """aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)"""
    return lower_histogram(graph, res, self=self, bins=bins, range=range, weight=weight, density=density)


def aten_histogram_bins_tensor(graph: Graph, res: ResultSpec, self: Result, bins: Result, *, weight: Result | None = None, density: Bool = False) -> Any:
    """aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)"""
    return histogram_between(graph, res, self=self, bins=bins, weight=weight, density=density)


def check_aten_bincount(graph: Graph, self: Result, weights: Result | None = None, minlength: SymInt = 0) -> list[DataCheck]:
    return [
        DataCheck(self, 0, None, 'RuntimeError', 'bincount only supports 1-d non-negative integral inputs.', None),
    ]


def check_aten_histc(graph: Graph, self: Result, bins: Int = 100, min: Scalar = 0, max: Scalar = 0) -> list[DataCheck]:
    return [
        *([DataCheck(cast(graph, graph.make_node('Not', [graph.make_node('Or', [graph.make_node('IsNaN', [self]), graph.make_node('IsInf', [self])])]), int32), 1, None, 'RuntimeError', 'torch.histc: range of the data is not finite', None)] if min == max and is_float(graph, self) else []),
    ]


def rule_aten__histogramdd_bin_edges(graph: Graph, self: Result, bins: Ints, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__histogramdd_from_bin_cts(graph: Graph, self: Result, bins: Ints, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(bins)),)


def rule_aten__histogramdd_from_bin_tensors(graph: Graph, self: Result, bins: Results, *, weight: Result | None = None, density: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_bincount(graph: Graph, self: Result, weights: Result | None = None, minlength: SymInt = 0) -> Rules:
    return ((int64 if weights is None else float32 if dtype_of(graph, weights) == float32 else float64, None),)


def rule_aten_histc(graph: Graph, self: Result, bins: Int = 100, min: Scalar = 0, max: Scalar = 0) -> Rules:
    return ((dtype_or_none(graph, self), given_shape([bins])),)


def rule_aten_histogram_bin_ct(graph: Graph, self: Result, bins: Int = 100, *, range: Floats | None = None, weight: Result | None = None, density: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), given_shape([bins])), (dtype_or_none(graph, self), given_shape([bins + 1])),)


def rule_aten_histogram_bins_tensor(graph: Graph, self: Result, bins: Result, *, weight: Result | None = None, density: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (dtype_or_none(graph, self), shape_or_none(graph, bins)),)
