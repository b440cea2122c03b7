# Generated from specs/aten/margin_loss.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.errors import UnsupportedCase
from ortable.inference import promote_to_float
from ortable.lowerings.loss import multilabel_margin
from ortable.prelude.facts import axes_of, dim_of, dtype_of, rank_of, shape_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import promote_values
from ortable.prelude.reductions import loss_reduced, power_norm
from ortable.prelude.shapes import iota
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, cast_all, const, reshape_to, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, Scalar


def aten_cosine_embedding_loss(graph: Graph, res: ResultSpec, input1: Result, input2: Result, target: Result, margin: Float = 0.0, reduction: Int = 1) -> Result:
    """aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, res)
    axis = 0 if rank_of(graph, target) == 0 else 1
    x, y = cast_all(graph, [input1, input2], dtype)
    least = const(graph, 1e-12, dtype)
    squares = [graph.make_node('Add', [summed_over(graph, graph.make_node('Mul', [each, each]), [axis], False), least]) for each in [x, y]]
    result = graph.make_node('Div', [summed_over(graph, graph.make_node('Mul', [x, y]), [axis], False), graph.make_node('Sqrt', [graph.make_node('Mul', [squares[0], squares[1]])])])
    none = const(graph, 0, dtype)
    apart = graph.make_node('Max', [graph.make_node('Sub', [result, const(graph, margin, dtype)]), none])
    near = graph.make_node('Where', [graph.make_node('Equal', [target, const(graph, 1, dtype_of(graph, target))]), graph.make_node('Sub', [const(graph, 1, dtype), result]), none])
    far = graph.make_node('Where', [graph.make_node('Equal', [target, const(graph, -1, dtype_of(graph, target))]), apart, none])
    return loss_reduced(graph, graph.make_node('Add', [near, far]), reduction)


def aten_margin_ranking_loss(graph: Graph, res: ResultSpec, input1: Result, input2: Result, target: Result, margin: Float = 0.0, reduction: Int = 1) -> Result:
    """aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor"""
    input1, input2, target = promote_values(graph, 'default', [input1, input2, target])
    dtype = dtype_of(graph, res)
    signed = graph.make_node('Mul', [graph.make_node('Sub', [const(graph, 0, dtype_of(graph, target)), target]), graph.make_node('Sub', [input1, input2])])
    moved = graph.make_node('Add', [cast(graph, signed, dtype), const(graph, margin, dtype)])
    return loss_reduced(graph, graph.make_node('Max', [moved, const(graph, 0, dtype)]), reduction)


def aten_multi_margin_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, p: Scalar = 1, margin: Scalar = 1, weight: Result | None = None, reduction: Int = 1) -> Result:
    """aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    rows = dim_of(graph, target, 0) if rank_of(graph, target) > 0 else 1
    count = dim_of(graph, self, -1) if rank_of(graph, self) > 0 else 1
    if reduction == 0 and rank_of(graph, self) < 2 and (rank_of(graph, target) == 0):
        graph.case = 1
        raise UnsupportedCase('aten::multi_margin_loss: one loss that is not reduced, whose shape torch gives as [] and as [1]')
    graph.case = 2
    x = reshape_to(graph, self, [rows, count])
    class_ = reshape_to(graph, target, [rows])
    own = unsqueezed(graph, class_, [1])
    kept = graph.make_node('GatherElements', [x, own], axis=1)
    gap = graph.make_node('Add', [graph.make_node('Sub', [const(graph, margin, dtype), kept]), x])
    mine = graph.make_node('Or', [graph.make_node('Equal', [own, iota(graph, 0, count, 1)]), graph.make_node('LessOrEqual', [gap, const(graph, 0, dtype)])])
    lost = graph.make_node('Where', [graph.make_node('Or', [mine, graph.make_node('IsNaN', [gap])]), const(graph, 0, dtype), graph.make_node('Mul', [gap, gap]) if p == 2 else gap])
    heavy = graph.make_node('Mul', [lost, graph.make_node('Gather', [weight, own], axis=0)]) if weight is not None else lost
    total = graph.make_node('Div', [summed_over(graph, heavy, [1], False), const(graph, count, dtype)])
    return loss_reduced(graph, total, reduction)


def aten_multi_margin_loss_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, target: Result, p: Scalar, margin: Scalar, weight: Result | None = None, reduction: Int = 1) -> Result:
    """aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor"""
    dtype = dtype_of(graph, self)
    rows = dim_of(graph, target, 0) if rank_of(graph, target) > 0 else 1
    count = dim_of(graph, self, -1) if rank_of(graph, self) > 0 else 1
    x = reshape_to(graph, self, [rows, count])
    own = unsqueezed(graph, reshape_to(graph, target, [rows]), [1])
    gap = graph.make_node('Add', [graph.make_node('Sub', [const(graph, margin, dtype), graph.make_node('GatherElements', [x, own], axis=1)]), x])
    mine = graph.make_node('Equal', [own, iota(graph, 0, count, 1)])
    lost = graph.make_node('And', [graph.make_node('Not', [mine]), graph.make_node('Greater', [gap, const(graph, 0, dtype)])])
    slope = graph.make_node('Mul', [gap, const(graph, 2, dtype)]) if p == 2 else const(graph, 1, dtype)
    heavy = graph.make_node('Mul', [slope, graph.make_node('Gather', [weight, own], axis=0)]) if weight is not None else slope
    moved = graph.make_node('Where', [lost, graph.make_node('Div', [heavy, const(graph, count, dtype)]), const(graph, 0, dtype)])
    pulled = graph.make_node('Neg', [summed_over(graph, moved, [1], True)])
    mean = graph.make_node('Div', [grad_output, const(graph, rows, dtype)]) if reduction == 1 else grad_output
    spread = reshape_to(graph, mean, [rows, 1]) if reduction == 0 and rank_of(graph, grad_output) > 0 else mean
    return reshape_to(graph, graph.make_node('Mul', [graph.make_node('Where', [mine, pulled, moved]), spread]), shape_of(graph, self))


def aten_multilabel_margin_loss(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int = 1) -> Result:
    """aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    if reduction == 0 and rank_of(graph, self) < 2:
        graph.case = 1
        raise UnsupportedCase('aten::multilabel_margin_loss: one loss that is not reduced, whose shape torch gives as [] and as [1]')
    graph.case = 2
    return multilabel_margin(graph, self, target, reduction)[0]


def aten_multilabel_margin_loss_forward(graph: Graph, res: ResultSpec, self: Result, target: Result, reduction: Int) -> Any:
    """aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)"""
    if reduction == 0 and rank_of(graph, self) < 2:
        graph.case = 1
        raise UnsupportedCase('aten::multilabel_margin_loss_forward: one loss that is not reduced, whose shape torch gives as [] and as [1]')
    graph.case = 2
    loss, chosen = multilabel_margin(graph, self, target, reduction)
    return (loss, chosen)


def aten_poisson_nll_loss(graph: Graph, res: ResultSpec, input: Result, target: Result, log_input: Bool, full: Bool, eps: Float, reduction: Int) -> Result:
    """aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor"""
    input, target = promote_values(graph, 'default', [input, target])
    dtype = dtype_of(graph, res)
    x = cast(graph, input, dtype)
    y = cast(graph, target, dtype)
    rate = graph.make_node('Exp', [x]) if log_input else x
    logs = x if log_input else graph.make_node('Log', [graph.make_node('Add', [x, const(graph, eps, dtype)])])
    lost = graph.make_node('Sub', [rate, graph.make_node('Mul', [y, logs])])
    more = graph.make_node('Where', [graph.make_node('LessOrEqual', [y, const(graph, 1, dtype)]), const(graph, 0, dtype), graph.make_node('Add', [graph.make_node('Sub', [graph.make_node('Mul', [y, graph.make_node('Log', [y])]), y]), graph.make_node('Mul', [graph.make_node('Log', [graph.make_node('Mul', [y, const(graph, 2 * 3.141592653589793, dtype)])]), const(graph, 0.5, dtype)])])]) if full else None
    return loss_reduced(graph, graph.make_node('Add', [lost, more]) if more is not None else lost, reduction)


def aten_triplet_margin_loss(graph: Graph, res: ResultSpec, anchor: Result, positive: Result, negative: Result, margin: Float = 1.0, p: Float = 2.0, eps: Float = 1e-06, swap: Bool = False, reduction: Int = 1) -> Result:
    """aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor"""
    anchor, positive, negative = promote_values(graph, 'default', [anchor, positive, negative])
    dtype = dtype_of(graph, res)
    last = axes_of(graph, anchor, -1)
    least = const(graph, eps, dtype)
    near = power_norm(graph, graph.make_node('Add', [cast(graph, graph.make_node('Sub', [anchor, positive]), dtype), least]), p, last, False)
    far = power_norm(graph, graph.make_node('Add', [cast(graph, graph.make_node('Sub', [anchor, negative]), dtype), least]), p, last, False)
    between = graph.make_node('Add', [cast(graph, graph.make_node('Sub', [positive, negative]), dtype), least])
    other = power_norm(graph, between, p, last, False) if swap else far
    away = graph.make_node('Min', [far, other]) if swap else far
    lost = graph.make_node('Max', [graph.make_node('Sub', [graph.make_node('Add', [near, const(graph, margin, dtype)]), away]), const(graph, 0, dtype)])
    return loss_reduced(graph, lost, reduction)


def check_aten_multi_margin_loss(graph: Graph, self: Result, target: Result, p: Scalar = 1, margin: Scalar = 1, weight: Result | None = None, reduction: Int = 1) -> list[DataCheck]:
    return [
        DataCheck(target, 0, 1 if rank_of(graph, self) == 0 else dim_of(graph, self, -1), 'RuntimeError', 'target out of range', None),
    ]


def check_aten_multilabel_margin_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1) -> list[DataCheck]:
    return [
        DataCheck(target, -1, 1 if rank_of(graph, self) == 0 else dim_of(graph, self, -1), 'RuntimeError', "argument #2 'target' is out of range", None),
    ]


def check_aten_multilabel_margin_loss_forward(graph: Graph, self: Result, target: Result, reduction: Int) -> list[DataCheck]:
    return [
        DataCheck(target, -1, 1 if rank_of(graph, self) == 0 else dim_of(graph, self, -1), 'RuntimeError', "argument #2 'target' is out of range", None),
    ]


def rule_aten_cosine_embedding_loss(graph: Graph, input1: Result, input2: Result, target: Result, margin: Float = 0.0, reduction: Int = 1) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, input1), dtype_or_none(graph, input2)), None),)


def rule_aten_margin_ranking_loss(graph: Graph, input1: Result, input2: Result, target: Result, margin: Float = 0.0, reduction: Int = 1) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, input1), dtype_or_none(graph, input2), dtype_or_none(graph, target)), None),)


def rule_aten_multi_margin_loss(graph: Graph, self: Result, target: Result, p: Scalar = 1, margin: Scalar = 1, weight: Result | None = None, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_multi_margin_loss_backward(graph: Graph, grad_output: Result, self: Result, target: Result, p: Scalar, margin: Scalar, weight: Result | None = None, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_multilabel_margin_loss(graph: Graph, self: Result, target: Result, reduction: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_multilabel_margin_loss_forward(graph: Graph, self: Result, target: Result, reduction: Int) -> Rules:
    return ((dtype_or_none(graph, self), None), (dtype_or_none(graph, self), shape_or_none(graph, target)),)


def rule_aten_poisson_nll_loss(graph: Graph, input: Result, target: Result, log_input: Bool, full: Bool, eps: Float, reduction: Int) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, input), dtype_or_none(graph, target)), None),)


def rule_aten_triplet_margin_loss(graph: Graph, anchor: Result, positive: Result, negative: Result, margin: Float = 1.0, p: Float = 2.0, eps: Float = 1e-06, swap: Bool = False, reduction: Int = 1) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, anchor), dtype_or_none(graph, positive), dtype_or_none(graph, negative)), None),)
