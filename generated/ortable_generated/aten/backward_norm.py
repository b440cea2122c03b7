# Generated from specs/aten/backward_norm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import bfloat16, float32
from ortable.prelude.facts import axis_of, dtype_of, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import other_axes
from ortable.prelude.sums import l2_norm, summed_over
from ortable.prelude.values import cast
from ortable_generated.aten.norm import aten_native_batch_norm_backward, rule_aten_native_batch_norm_backward

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Bools, Float, Int, Result


def aten__weight_norm_interface(graph: Graph, res: ResultSpec, v: Result, g: Result, dim: Int = 0) -> Any:
    """aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)"""
    axes = other_axes(rank_of(graph, v), [axis_of(graph, v, dim)])
    compute_dtype = opmath_dtype(dtype_of(graph, v))
    direction = cast(graph, v, compute_dtype)
    norms = l2_norm(graph, direction, axes, True)
    factor = graph.make_node('Div', [cast(graph, g, compute_dtype), norms])
    return (cast(graph, graph.make_node('Mul', [direction, factor]), dtype_of(graph, v)), cast(graph, norms, dtype_of(graph, res[1])))


def aten__weight_norm_interface_backward(graph: Graph, res: ResultSpec, grad_w: Result, saved_v: Result, saved_g: Result, saved_norms: Result, dim: Int) -> Any:
    """aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) -> (Tensor, Tensor)"""
    axes = other_axes(rank_of(graph, saved_v), [axis_of(graph, saved_v, dim)])
    compute_dtype = opmath_dtype(dtype_of(graph, saved_v))
    grad, norms = (cast(graph, grad_w, compute_dtype), cast(graph, saved_norms, compute_dtype))
    direction = cast(graph, saved_v, compute_dtype)
    along = summed_over(graph, graph.make_node('Mul', [grad, direction]), axes, True)
    share = graph.make_node('Mul', [direction, graph.make_node('Div', [along, graph.make_node('Mul', [norms, norms])])])
    grad_v = graph.make_node('Mul', [graph.make_node('Div', [cast(graph, saved_g, compute_dtype), norms]), graph.make_node('Sub', [grad, share])])
    return (cast(graph, grad_v, dtype_of(graph, saved_v)), cast(graph, graph.make_node('Div', [along, norms]), dtype_of(graph, saved_g)))


def aten_batch_norm_backward(graph: Graph, res: ResultSpec, grad_out: Result, input: Result, weight: Result, running_mean: Result | None, running_var: Result | None, save_mean: Result | None, save_var: Result | None, update: Bool, eps: Float, output_mask: Bools, reserve: Result) -> Any:
    """aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)"""
    return aten_native_batch_norm_backward(graph, res, grad_out=grad_out, input=input, weight=weight, running_mean=running_mean, running_var=running_var, save_mean=save_mean, save_invstd=save_var, train=update, eps=eps, output_mask=output_mask)


def rule_aten__weight_norm_interface(graph: Graph, v: Result, g: Result, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, v), shape_or_none(graph, v)), (float32 if dtype_of(graph, g) == bfloat16 else dtype_or_none(graph, g), shape_or_none(graph, g)),)


def rule_aten__weight_norm_interface_backward(graph: Graph, grad_w: Result, saved_v: Result, saved_g: Result, saved_norms: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, saved_v), shape_or_none(graph, saved_v)), (dtype_or_none(graph, saved_g), shape_or_none(graph, saved_g)),)


def rule_aten_batch_norm_backward(graph: Graph, grad_out: Result, input: Result, weight: Result, running_mean: Result | None, running_var: Result | None, save_mean: Result | None, save_var: Result | None, update: Bool, eps: Float, output_mask: Bools, reserve: Result) -> Rules:
    return rule_aten_native_batch_norm_backward(graph, grad_out=grad_out, input=input, weight=weight, running_mean=running_mean, running_var=running_var, save_mean=save_mean, save_invstd=save_var, train=update, eps=eps, output_mask=output_mask)
