# Generated from specs/aten/linear_loss.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.lowerings.linear_loss import lower_linear_cross_entropy, lower_linear_cross_entropy_rows
from ortable.prelude.metadata import dtype_or_none, scalar_shape

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Result, Str, SymInt


def rule_torch_nn__linear_cross_entropy_batch_chunked(graph: Graph, input: Result, linear_weight: Result, target: Result, linear_bias: Result | None, weight: Result | None, reduction: Str, ignore_index: SymInt, label_smoothing: Float, batch_chunk_size: SymInt, acc_policy: Str, acc_dtype: Dtype, allow_retain_graph: Bool, compute_input_grad: Bool, compute_linear_weight_grad: Bool, compute_linear_bias_grad: Bool) -> Rules:
    return ((dtype_or_none(graph, input), scalar_shape()), (dtype_or_none(graph, input), None), (dtype_or_none(graph, input), None), (dtype_or_none(graph, input), None),)


def rule_torch_nn__linear_cross_entropy_batch_chunked_no_reduction(graph: Graph, input: Result, linear_weight: Result, target: Result, linear_bias: Result | None, weight: Result | None, ignore_index: SymInt, batch_chunk_size: SymInt, acc_policy: Str, acc_dtype: Dtype) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def torch_nn__linear_cross_entropy_batch_chunked(graph: Graph, res: ResultSpec, input: Result, linear_weight: Result, target: Result, linear_bias: Result | None, weight: Result | None, reduction: Str, ignore_index: SymInt, label_smoothing: Float, batch_chunk_size: SymInt, acc_policy: Str, acc_dtype: Dtype, allow_retain_graph: Bool, compute_input_grad: Bool, compute_linear_weight_grad: Bool, compute_linear_bias_grad: Bool) -> Any:
    """torch_nn::_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, str reduction, SymInt ignore_index, float label_smoothing, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype, bool allow_retain_graph, bool compute_input_grad, bool compute_linear_weight_grad, bool compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)"""
    return lower_linear_cross_entropy(graph, res, input=input, linear_weight=linear_weight, target=target, linear_bias=linear_bias, weight=weight, reduction=reduction, ignore_index=ignore_index, acc_dtype=acc_dtype, compute_input_grad=compute_input_grad, compute_linear_weight_grad=compute_linear_weight_grad, compute_linear_bias_grad=compute_linear_bias_grad)


def torch_nn__linear_cross_entropy_batch_chunked_no_reduction(graph: Graph, res: ResultSpec, input: Result, linear_weight: Result, target: Result, linear_bias: Result | None, weight: Result | None, ignore_index: SymInt, batch_chunk_size: SymInt, acc_policy: Str, acc_dtype: Dtype) -> Result:
    """torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, SymInt ignore_index, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype) -> Tensor"""
    return lower_linear_cross_entropy_rows(graph, res, input=input, linear_weight=linear_weight, target=target, linear_bias=linear_bias, weight=weight, ignore_index=ignore_index, acc_dtype=acc_dtype)
