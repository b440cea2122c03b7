# Generated from specs/aten/synonyms.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable_generated.aten.cumulative import aten_logcumsumexp, rule_aten_logcumsumexp
from ortable_generated.aten.indexing import aten_index_Tensor, aten_index_put, complex_aten_index_Tensor, complex_aten_index_put, rule_aten_index_Tensor, rule_aten_index_put
from ortable_generated.aten.reduce import aten_all_dims, aten_aminmax, aten_any_dims, complex_aten_all_dims, complex_aten_any_dims, rule_aten_all_dims, rule_aten_aminmax, rule_aten_any_dims
from ortable_generated.aten.shape_join import aten_split_with_sizes, aten_stack, complex_aten_split_with_sizes, complex_aten_stack, rule_aten_split_with_sizes, rule_aten_stack

if TYPE_CHECKING:
    from ortable.ir import Graph, Res
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result, Results


def aten__aminmax(graph: Graph, res: Res, self: Result) -> Any:
    """aten::_aminmax(Tensor self) -> (Tensor, Tensor)"""
    return aten_aminmax(graph, res, self=self, dim=None, keepdim=False)


def aten__aminmax_dim(graph: Graph, res: Res, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)"""
    return aten_aminmax(graph, res, self=self, dim=dim, keepdim=keepdim)


def aten__index_put_impl(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Result:
    """aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten__is_all_true(graph: Graph, res: Res, self: Result) -> Result:
    """aten::_is_all_true(Tensor self) -> Tensor"""
    return aten_all_dims(graph, res, self=self, dim=None)


def aten__is_any_true(graph: Graph, res: Res, self: Result) -> Result:
    """aten::_is_any_true(Tensor self) -> Tensor"""
    return aten_any_dims(graph, res, self=self, dim=None)


def aten__logcumsumexp(graph: Graph, res: Res, self: Result, dim: Int) -> Result:
    """aten::_logcumsumexp(Tensor self, int dim) -> Tensor"""
    return aten_logcumsumexp(graph, res, self=self, dim=dim)


def aten__stack(graph: Graph, res: Res, tensors: Results, dim: Int = 0) -> Result:
    """aten::_stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return aten_stack(graph, res, tensors=tensors, dim=dim)


def aten__unsafe_index_Tensor_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return aten_index_Tensor(graph, res, self=self, indices=indices)


def aten__unsafe_index_put_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_index_Tensor_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results) -> Result:
    """aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return aten_index_Tensor(graph, res, self=self, indices=indices)


def aten_index_put_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_split(graph: Graph, res: Res, self: Result, split_sizes: Ints, dim: Int = 0) -> Any:
    """aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def complex_aten__index_put_impl(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Result:
    """aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten__is_all_true(graph: Graph, res: Res, self: Result) -> Result:
    """aten::_is_all_true(Tensor self) -> Tensor"""
    return complex_aten_all_dims(graph, res, self=self, dim=None)


def complex_aten__is_any_true(graph: Graph, res: Res, self: Result) -> Result:
    """aten::_is_any_true(Tensor self) -> Tensor"""
    return complex_aten_any_dims(graph, res, self=self, dim=None)


def complex_aten__stack(graph: Graph, res: Res, tensors: Results, dim: Int = 0) -> Result:
    """aten::_stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return complex_aten_stack(graph, res, tensors=tensors, dim=dim)


def complex_aten__unsafe_index_Tensor_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return complex_aten_index_Tensor(graph, res, self=self, indices=indices)


def complex_aten__unsafe_index_put_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten_index_Tensor_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results) -> Result:
    """aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return complex_aten_index_Tensor(graph, res, self=self, indices=indices)


def complex_aten_index_put_hacked_twin(graph: Graph, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten_split(graph: Graph, res: Res, self: Result, split_sizes: Ints, dim: Int = 0) -> Any:
    """aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return complex_aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def rule_aten__aminmax(graph: Graph, self: Result) -> Rules:
    return rule_aten_aminmax(graph, self=self, dim=None, keepdim=False)


def rule_aten__aminmax_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return rule_aten_aminmax(graph, self=self, dim=dim, keepdim=keepdim)


def rule_aten__index_put_impl(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten__is_all_true(graph: Graph, self: Result) -> Rules:
    return rule_aten_all_dims(graph, self=self, dim=None)


def rule_aten__is_any_true(graph: Graph, self: Result) -> Rules:
    return rule_aten_any_dims(graph, self=self, dim=None)


def rule_aten__logcumsumexp(graph: Graph, self: Result, dim: Int) -> Rules:
    return rule_aten_logcumsumexp(graph, self=self, dim=dim)


def rule_aten__stack(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return rule_aten_stack(graph, tensors=tensors, dim=dim)


def rule_aten__unsafe_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> Rules:
    return rule_aten_index_Tensor(graph, self=self, indices=indices)


def rule_aten__unsafe_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> Rules:
    return rule_aten_index_Tensor(graph, self=self, indices=indices)


def rule_aten_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_split(graph: Graph, self: Result, split_sizes: Ints, dim: Int = 0) -> Rules:
    return rule_aten_split_with_sizes(graph, self=self, split_sizes=split_sizes, dim=dim)
