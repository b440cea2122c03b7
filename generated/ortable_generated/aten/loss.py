# Generated from specs/aten/loss.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import float64, int32
from ortable.inference import broadcast
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.loss import cross_entropy, nll_loss, nll_loss_backward, nll_loss_single, without_ignored
from ortable.prelude.complex_arithmetic import c_abs, c_add
from ortable.prelude.facts import count_of, dim_of, dtype_of, is_int, minimum, rank_of
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.pointwise import in_interval, larger_of, log1p_of
from ortable.prelude.promotion import promote_values, promoted_dtype
from ortable.prelude.reductions import loss_reduced
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, SymInt


def aten_binary_cross_entropy(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1) -> Result:
    """aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    one = const(graph, 1, dtype)
    hit = graph.make_node('Max', [graph.make_node('Log', [self]), const(graph, -100, dtype)])
    miss = graph.make_node('Max', [graph.make_node('Log', [graph.make_node('Sub', [one, self])]), const(graph, -100, dtype)])
    terms = graph.make_node('Sub', [graph.make_node('Mul', [graph.make_node('Sub', [target, one]), miss]), graph.make_node('Mul', [target, hit])])
    return loss_reduced(graph, graph.make_node('Mul', [terms, weight]) if weight is not None else terms, reduction)


def aten_binary_cross_entropy_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1) -> Result:
    """aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    least = 9.999999960041972e-13
    spread_out = graph.make_node('Max', [graph.make_node('Mul', [graph.make_node('Sub', [const(graph, 1, dtype), self]), self]), const(graph, least, dtype)])
    slope = graph.make_node('Div', [graph.make_node('Mul', [grad_output, graph.make_node('Sub', [self, target])]), spread_out])
    heavy = graph.make_node('Mul', [slope, weight]) if weight is not None else slope
    return graph.make_node('Div', [heavy, const(graph, count_of(graph, self), dtype)], res.outputs) if reduction == 1 else heavy


def aten_binary_cross_entropy_with_logits(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None = None, pos_weight: Result | None = None, reduction: Int = 1) -> Result:
    """aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    one = const(graph, 1, dtype)
    logs = graph.make_node('Add', [graph.make_node('Max', [graph.make_node('Neg', [self]), const(graph, 0, dtype)]), log1p_of(graph, graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Abs', [self])])]))])
    lift = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sub', [pos_weight, one]), target]), one]) if pos_weight is not None else None
    lost = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sub', [one, target]), self]), graph.make_node('Mul', [lift, logs]) if lift is not None else logs])
    return loss_reduced(graph, graph.make_node('Mul', [lost, weight]) if weight is not None else lost, reduction)


def aten_cross_entropy_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100, label_smoothing: Float = 0.0) -> Result:
    """aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor"""
    return cross_entropy(graph, res, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)


def aten_hinge_embedding_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, margin: Float = 1.0, reduction: Int = 1) -> Result:
    """aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    zero = const(graph, 0, dtype)
    away = larger_of(graph, graph.make_node('Sub', [const(graph, margin, dtype), self]), zero)
    far = graph.make_node('Where', [graph.make_node('Equal', [target, const(graph, 1, dtype_of(graph, target))]), zero, away])
    near = graph.make_node('Where', [graph.make_node('Equal', [target, const(graph, -1, dtype_of(graph, target))]), zero, self])
    return loss_reduced(graph, graph.make_node('Add', [far, near]), reduction)


def aten_huber_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1, delta: Float = 1.0) -> Result:
    """aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor"""
    self, target = promote_values(graph, 'default', [self, target])
    dtype = dtype_of(graph, res)
    away = graph.make_node('Abs', [graph.make_node('Sub', [self, target])])
    near = graph.make_node('Min', [away, const(graph, delta, dtype)])
    return loss_reduced(graph, graph.make_node('Mul', [near, graph.make_node('Sub', [away, graph.make_node('Mul', [near, const(graph, 0.5, dtype)])])]), reduction)


def aten_kl_div(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1, *, log_target: Bool = False) -> Result:
    """aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor"""
    self, target = promote_values(graph, 'default', [self, target])
    dtype = dtype_of(graph, res)
    if log_target:
        graph.case = 1
        return loss_reduced(graph, graph.make_node('Mul', [graph.make_node('Exp', [target]), graph.make_node('Sub', [target, self])]), reduction)
    # 0 log 0 is 0
    graph.case = 2
    logs = graph.make_node('Where', [graph.make_node('Equal', [target, const(graph, 0, dtype)]), const(graph, 0, dtype), graph.make_node('Mul', [target, graph.make_node('Log', [target])])])
    return loss_reduced(graph, graph.make_node('Sub', [logs, graph.make_node('Mul', [target, self])]), reduction)


def aten_l1_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1) -> Result:
    """aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    self, target = promote_values(graph, 'complex_to_float', [self, target])
    graph.case = 1
    return loss_reduced(graph, graph.make_node('Abs', [graph.make_node('Sub', [self, target])]), reduction)


def aten_mse_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1) -> Result:
    """aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    self, target = promote_values(graph, 'default', [self, target])
    away = graph.make_node('Sub', [self, target])
    return loss_reduced(graph, graph.make_node('Mul', [away, away]), reduction)


def aten_mse_loss_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, target: Result, reduction: Int) -> Result:
    """aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor"""
    self, target, grad_output = promote_values(graph, 'default', [self, target, grad_output])
    dtype = dtype_of(graph, res)
    if reduction == 1:
        # torch scales first, by a number of the dtype, which of ints is mostly 0
        graph.case = 1
        share = graph.make_node('Div', [const(graph, 2, float64), const(graph, count_of(graph, self), float64)])
        return graph.make_node('Mul', [graph.make_node('Mul', [graph.make_node('Sub', [self, target]), cast(graph, share, dtype)]), grad_output], res.outputs)
    graph.case = 2
    return graph.make_node('Mul', [graph.make_node('Mul', [graph.make_node('Sub', [self, target]), const(graph, 2, dtype)]), grad_output], res.outputs)


def aten_nll_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> Result:
    """aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor"""
    return aten_nll_loss_nd(graph, res, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def aten_nll_loss2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt, total_weight: Result) -> Result:
    """aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"""
    return aten_nll_loss_backward(graph, res, grad_output=grad_output, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index, total_weight=total_weight)


def aten_nll_loss2d_forward(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> Any:
    """aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"""
    return aten_nll_loss_forward(graph, res, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def aten_nll_loss_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt, total_weight: Result) -> Result:
    """aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"""
    return nll_loss_backward(graph, res, grad_output=grad_output, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index, total_weight=total_weight)


def aten_nll_loss_forward(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> Any:
    """aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"""
    return nll_loss(graph, res, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def aten_nll_loss_nd(graph: Graph, res: ResultSpec, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> Result:
    """aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor"""
    return nll_loss_single(graph, res, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def aten_smooth_l1_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1, beta: Float = 1.0) -> Result:
    """aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor"""
    self, target = promote_values(graph, 'default', [self, target])
    dtype = dtype_of(graph, res)
    if beta == 0:
        graph.case = 1
        return loss_reduced(graph, graph.make_node('Abs', [graph.make_node('Sub', [self, target])]), reduction)
    graph.case = 2
    away = graph.make_node('Abs', [graph.make_node('Sub', [self, target])])
    near = graph.make_node('Min', [away, const(graph, beta, dtype)])
    slope = near if beta == 1 else graph.make_node('Div', [near, const(graph, beta, dtype)])
    return loss_reduced(graph, graph.make_node('Mul', [slope, graph.make_node('Sub', [away, graph.make_node('Mul', [near, const(graph, 0.5, dtype)])])]), reduction)


def aten_soft_margin_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1) -> Result:
    """aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    return loss_reduced(graph, log1p_of(graph, graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Mul', [self, target])])])), reduction)


def check_aten_binary_cross_entropy(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1) -> list[DataCheck]:
    return [
        DataCheck(cast(graph, in_interval(graph, self, 0, 1), int32), 1, None, 'RuntimeError', 'all elements of input should be between 0 and 1', None),
        DataCheck(cast(graph, in_interval(graph, target, 0, 1), int32), 1, None, 'RuntimeError', 'all elements of target should be between 0 and 1', None),
    ]


def check_aten_cross_entropy_loss(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100, label_smoothing: Float = 0.0) -> list[DataCheck]:
    return [
        *([DataCheck(without_ignored(graph, target, ignore_index, dim_of(graph, self, min(rank_of(graph, self) - 1, 1))), minimum(dim_of(graph, self, min(rank_of(graph, self) - 1, 1)) - 1, 0), dim_of(graph, self, min(rank_of(graph, self) - 1, 1)), 'IndexError', 'Target {value} is out of bounds.', None)] if is_int(graph, target) else []),
    ]


def check_aten_nll_loss(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> list[DataCheck]:
    return check_aten_nll_loss_nd(graph, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def check_aten_nll_loss2d_forward(graph: Graph, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> list[DataCheck]:
    return check_aten_nll_loss_forward(graph, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def check_aten_nll_loss_forward(graph: Graph, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> list[DataCheck]:
    return [
        DataCheck(without_ignored(graph, target, ignore_index, dim_of(graph, self, min(rank_of(graph, self) - 1, 1))), minimum(dim_of(graph, self, min(rank_of(graph, self) - 1, 1)) - 1, 0), dim_of(graph, self, min(rank_of(graph, self) - 1, 1)), 'IndexError', 'Target {value} is out of bounds.', None),
    ]


def check_aten_nll_loss_nd(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> list[DataCheck]:
    return [
        DataCheck(without_ignored(graph, target, ignore_index, dim_of(graph, self, min(rank_of(graph, self) - 1, 1))), minimum(dim_of(graph, self, min(rank_of(graph, self) - 1, 1)) - 1, 0), dim_of(graph, self, min(rank_of(graph, self) - 1, 1)), 'IndexError', 'Target {value} is out of bounds.', None),
    ]


def complex_aten_l1_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1) -> Result:
    """aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    self, target = promote_complex(graph, 'complex_to_float', [self, target])
    graph.case = 2
    return loss_reduced(graph, c_abs(graph, c_add(graph, self, target, -1)), reduction)


def rule_aten_binary_cross_entropy(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self) if reduction == 0 else scalar_shape()),)


def rule_aten_binary_cross_entropy_backward(graph: Graph, grad_output: Result, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_binary_cross_entropy_with_logits(graph: Graph, self: Result, target: Result, weight: Result | None = None, pos_weight: Result | None = None, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_cross_entropy_loss(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100, label_smoothing: Float = 0.0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_hinge_embedding_loss(graph: Graph, self: Result, target: Result, margin: Float = 1.0, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_huber_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1, delta: Float = 1.0) -> Rules:
    return ((promoted_dtype(graph, 'default', self, target), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_kl_div(graph: Graph, self: Result, target: Result, reduction: Int = 1, *, log_target: Bool = False) -> Rules:
    return ((promoted_dtype(graph, 'default', self, target), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_l1_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1) -> Rules:
    return ((promoted_dtype(graph, 'complex_to_float', self, target), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_mse_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, target), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_mse_loss_backward(graph: Graph, grad_output: Result, self: Result, target: Result, reduction: Int) -> Rules:
    return ((promoted_dtype(graph, 'default', self, target, grad_output), broadcast(shape_or_none(graph, self), shape_or_none(graph, target))),)


def rule_aten_nll_loss(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> Rules:
    return rule_aten_nll_loss_nd(graph, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def rule_aten_nll_loss2d_backward(graph: Graph, grad_output: Result, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt, total_weight: Result) -> Rules:
    return rule_aten_nll_loss_backward(graph, grad_output=grad_output, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index, total_weight=total_weight)


def rule_aten_nll_loss2d_forward(graph: Graph, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> Rules:
    return rule_aten_nll_loss_forward(graph, self=self, target=target, weight=weight, reduction=reduction, ignore_index=ignore_index)


def rule_aten_nll_loss_backward(graph: Graph, grad_output: Result, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt, total_weight: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_nll_loss_forward(graph: Graph, self: Result, target: Result, weight: Result | None, reduction: Int, ignore_index: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), None), (dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_nll_loss_nd(graph: Graph, self: Result, target: Result, weight: Result | None = None, reduction: Int = 1, ignore_index: SymInt = -100) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_smooth_l1_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1, beta: Float = 1.0) -> Rules:
    return ((promoted_dtype(graph, 'default', self, target), broadcast(shape_or_none(graph, self), shape_or_none(graph, target)) if reduction == 0 else scalar_shape()),)


def rule_aten_soft_margin_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self) if reduction == 0 else scalar_shape()),)
