# Generated from specs/aten/norm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64, uint8
from ortable.errors import UnsupportedCase
from ortable.lowerings.normalization import batch_norm_backward, batch_norm_known, batch_norm_of_batch, batch_norm_single, batch_norm_training, batch_norm_update, group_instances, group_normalized, is_short_group, is_short_layer, layer_norm_backward, or_filled, rms_normalized, rows_normalized
from ortable.lowerings.reductions import mean_over
from ortable.prelude.facts import axes_of, axis_of, differs, dim_of, dtype_of, fits_attribute, is_used, rank_of
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.promotion import machine_epsilon, opmath_dtype, promoted_dtype
from ortable.prelude.shapes import along_axis, other_axes
from ortable.prelude.sums import l2_norm
from ortable.prelude.values import as_vec, cast, const, consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Bools, Float, Int, Ints, Result, SymInt, SymInts


def aten__batch_norm_no_update(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, momentum: Float, eps: Float) -> Any:
    """aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"""
    if running_mean is not None and running_var is not None:
        graph.case = 1
        result = batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
        none = consts(graph, [], dtype_of(graph, res[1]))
        return (result, none, none, consts(graph, [], uint8))
    graph.case = 2
    raise UnsupportedCase('aten::_batch_norm_no_update: evaluation without running statistics')


def aten__batch_norm_with_update_functional(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, momentum: Float, eps: Float) -> Any:
    """aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""
    return batch_norm_update(graph, res, input=input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var, momentum=momentum, eps=eps)


def aten__fused_rms_norm(graph: Graph, res: ResultSpec, input: Result, normalized_shape: Ints, weight: Result | None, eps: Float | None) -> Any:
    """aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    least = eps if eps is not None else machine_epsilon(compute_dtype)
    axes = list(range(rank_of(graph, input) - len(normalized_shape), rank_of(graph, input)))
    x = cast(graph, input, compute_dtype)
    square = mean_over(graph, graph.make_node('Mul', [x, x]), axes, True)
    inverse = graph.make_node('Reciprocal', [graph.make_node('Sqrt', [graph.make_node('Add', [square, const(graph, least, compute_dtype)])])])
    normal = graph.make_node('Mul', [x, inverse])
    result = graph.make_node('Mul', [normal, cast(graph, weight, compute_dtype)]) if weight is not None else normal
    return (cast(graph, result, dtype_of(graph, res)), cast(graph, inverse, dtype_of(graph, res[1])))


def aten__native_batch_norm_legit_functional(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, training: Bool, momentum: Float, eps: Float) -> Any:
    """aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""
    if not training:
        graph.case = 1
        result = batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
        mean, spread_ = (consts(graph, [], dtype_of(graph, res[1])), consts(graph, [], dtype_of(graph, res[2])))
        kept = (cast(graph, running_mean, dtype_of(graph, res[3])), cast(graph, running_var, dtype_of(graph, res[4])))
        return (result, mean, spread_, kept[0], kept[1])
    graph.case = 2
    return batch_norm_training(graph, res, input=input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var, momentum=momentum, eps=eps)


def aten__native_batch_norm_legit_no_stats(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, training: Bool, momentum: Float, eps: Float) -> Any:
    """aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    if not training:
        graph.case = 1
        raise UnsupportedCase('aten::_native_batch_norm_legit.no_stats: evaluation without running statistics')
    graph.case = 2
    return batch_norm_of_batch(graph, res, input=input, weight=weight, bias=bias, eps=eps)


def aten__native_batch_norm_legit_no_training(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, momentum: Float, eps: Float) -> Any:
    """aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    result = batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
    none = consts(graph, [], dtype_of(graph, res[1]))
    kept = differs(dim_of(graph, res[1], 0), 0)
    wide = [cast(graph, x, dtype_of(graph, res[1])) for x in [running_mean, running_var]]
    total = graph.make_node('Add', [wide[1], const(graph, eps, dtype_of(graph, res[1]))]) if kept else none
    return (result, graph.make_node('Identity', [wide[0]]) if kept else none, graph.make_node('Reciprocal', [graph.make_node('Sqrt', [total])]) if kept else none)


def aten__weight_norm(graph: Graph, res: ResultSpec, v: Result, g: Result, dim: Int = 0) -> Result:
    """aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, v))
    axes = axes_of(graph, v, []) if dim == -1 else other_axes(rank_of(graph, v), [axis_of(graph, v, dim)])
    direction = cast(graph, v, compute_dtype)
    norms = l2_norm(graph, direction, axes, True)
    return cast(graph, graph.make_node('Mul', [direction, graph.make_node('Div', [cast(graph, g, compute_dtype), norms])]), dtype_of(graph, v))


def aten_batch_norm(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, training: Bool, momentum: Float, eps: Float, cudnn_enabled: Bool) -> Result:
    """aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if running_mean is not None and running_var is not None and (not training):
        graph.case = 1
        return batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
    if running_mean is None and running_var is None:
        graph.case = 2
        return batch_norm_single(graph, res, input=input, weight=weight, bias=bias, eps=eps)
    graph.case = 3
    raise UnsupportedCase('aten::batch_norm: training uses and updates statistics; functionalised, it is another operator')


def aten_group_norm(graph: Graph, res: ResultSpec, input: Result, num_groups: Int, weight: Result | None = None, bias: Result | None = None, eps: Float = 1e-05, cudnn_enabled: Bool = True) -> Result:
    """aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor"""
    if dtype_of(graph, input) == float32 and rank_of(graph, input) > 2 and is_short_group(graph, input, num_groups):
        graph.case = 1
        x = group_instances(graph, input, num_groups, eps)
        y = x if weight is None else graph.make_node('Mul', [x, along_axis(graph, cast(graph, weight, float32), 1, rank_of(graph, x))])
        return y if bias is None else graph.make_node('Add', [y, along_axis(graph, cast(graph, bias, float32), 1, rank_of(graph, x))], res.outputs)
    graph.case = 2
    return group_normalized(graph, input, num_groups, weight, bias, eps)[0]


def aten_instance_norm(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, use_input_stats: Bool, momentum: Float, eps: Float, cudnn_enabled: Bool) -> Result:
    """aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if running_mean is not None and running_var is not None and (not use_input_stats):
        graph.case = 1
        return batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        graph.case = 2
        raise UnsupportedCase('aten::instance_norm: training updates the running statistics in place; functionalised, it is another operator')
    if dtype_of(graph, input) == float32 and rank_of(graph, input) > 2 and is_short_group(graph, input, dim_of(graph, input, 1)):
        graph.case = 3
        size = [dim_of(graph, input, 1)]
        gain = or_filled(graph, weight, size, 1, float32)
        return graph.make_node('InstanceNormalization', [input, gain, or_filled(graph, bias, size, 0, float32)], res.outputs, epsilon=eps)
    graph.case = 4
    return group_normalized(graph, input, dim_of(graph, input, 1), weight, bias, eps)[0]


def aten_layer_norm(graph: Graph, res: ResultSpec, input: Result, normalized_shape: SymInts, weight: Result | None = None, bias: Result | None = None, eps: Float = 1e-05, cudnn_enable: Bool = True) -> Result:
    """aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    first = 0 - len(normalized_shape)
    if is_short_layer(normalized_shape) and fits_attribute(graph, eps, input):
        graph.case = 1
        gain = or_filled(graph, weight, normalized_shape, 1, compute_dtype)
        shift = cast(graph, bias, compute_dtype) if bias is not None else None
        result = graph.make_node('LayerNormalization', [cast(graph, input, compute_dtype), gain, shift], axis=first, epsilon=eps)
        return cast(graph, result, dtype_of(graph, input))
    # ONNX Runtime's kernel adds up a row one by one, and its epsilon is float32
    graph.case = 2
    x = cast(graph, input, compute_dtype)
    result = rows_normalized(graph, x, normalized_shape, weight, bias, eps)[0]
    return cast(graph, result, dtype_of(graph, input))


def aten_native_batch_norm(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, training: Bool, momentum: Float, eps: Float) -> Any:
    """aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    if running_mean is not None and running_var is not None and (not training):
        graph.case = 1
        result = batch_norm_known(graph, input, weight, bias, running_mean, running_var, eps)
        none = consts(graph, [], dtype_of(graph, res[1]))
        return (result, none, none)
    if running_mean is None and running_var is None:
        graph.case = 2
        return batch_norm_of_batch(graph, res, input=input, weight=weight, bias=bias, eps=eps)
    graph.case = 3
    raise UnsupportedCase('aten::native_batch_norm: training uses and updates statistics; functionalised, it is another operator')


def aten_native_batch_norm_backward(graph: Graph, res: ResultSpec, grad_out: Result, input: Result, weight: Result | None, running_mean: Result | None, running_var: Result | None, save_mean: Result | None, save_invstd: Result | None, train: Bool, eps: Float, output_mask: Bools) -> Any:
    """aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"""
    return batch_norm_backward(graph, res, grad_out=grad_out, input=input, weight=weight, running_mean=running_mean, running_var=running_var, save_mean=save_mean, save_invstd=save_invstd, train=train, eps=eps, output_mask=output_mask)


def aten_native_group_norm(graph: Graph, res: ResultSpec, input: Result, weight: Result | None, bias: Result | None, N: SymInt, C: SymInt, HxW: SymInt, group: Int, eps: Float) -> Any:
    """aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)"""
    result, mean, inverse = group_normalized(graph, input, group, weight, bias, eps)
    flat = as_vec(graph, [N, group])
    middle = cast(graph, graph.make_node('Reshape', [mean, flat]), dtype_of(graph, res[1])) if is_used(res[1]) else None
    spread_out = cast(graph, graph.make_node('Reshape', [inverse, flat]), dtype_of(graph, res[2])) if is_used(res[2]) else None
    return (result, middle, spread_out)


def aten_native_layer_norm(graph: Graph, res: ResultSpec, input: Result, normalized_shape: SymInts, weight: Result | None, bias: Result | None, eps: Float) -> Any:
    """aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    first = 0 - len(normalized_shape)
    if compute_dtype == float64 and (is_used(res[1]) or is_used(res[2])):
        # LayerNormalization gives its statistics in float32
        graph.case = 1
        result, mean, inverse = rows_normalized(graph, input, normalized_shape, weight, bias, eps)
        return (result, mean, inverse)
    if not is_short_layer(normalized_shape) or not fits_attribute(graph, eps, input):
        # ONNX Runtime's kernel adds up a row one by one, and its epsilon is float32
        graph.case = 2
        x = cast(graph, input, compute_dtype)
        result, mean, inverse = rows_normalized(graph, x, normalized_shape, weight, bias, eps)
        stats = dtype_of(graph, res[1])
        return (cast(graph, result, dtype_of(graph, input)), cast(graph, mean, stats), cast(graph, inverse, stats))
    graph.case = 3
    gain = or_filled(graph, weight, normalized_shape, 1, compute_dtype)
    shift = cast(graph, bias, compute_dtype) if bias is not None else None
    x = cast(graph, input, compute_dtype)
    result, mean, inverse = graph.make_node('LayerNormalization', [x, gain, shift], 3, axis=first, epsilon=eps)
    stats = dtype_of(graph, res[1])
    return (cast(graph, result, dtype_of(graph, input)), cast(graph, mean, stats), cast(graph, inverse, stats))


def aten_native_layer_norm_backward(graph: Graph, res: ResultSpec, grad_out: Result, input: Result, normalized_shape: SymInts, mean: Result, rstd: Result, weight: Result | None, bias: Result | None, output_mask: Bools) -> Any:
    """aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"""
    return layer_norm_backward(graph, res, grad_out=grad_out, input=input, normalized_shape=normalized_shape, mean=mean, rstd=rstd, weight=weight, output_mask=output_mask)


def aten_rms_norm(graph: Graph, res: ResultSpec, input: Result, normalized_shape: SymInts, weight: Result | None = None, eps: Float | None = None) -> Result:
    """aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    least = eps if eps is not None else machine_epsilon(compute_dtype)
    normal = rms_normalized(graph, cast(graph, input, compute_dtype), normalized_shape, weight, least)
    return cast(graph, normal, dtype_of(graph, res))


def rule_aten__batch_norm_no_update(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), given_shape(0)), (dtype_or_none(graph, input), given_shape(0)), (uint8, given_shape(0)),)


def rule_aten__batch_norm_with_update_functional(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, running_mean), shape_or_none(graph, running_mean)), (dtype_or_none(graph, running_mean), shape_or_none(graph, running_mean)), (uint8, given_shape(0)), (dtype_or_none(graph, running_mean), shape_or_none(graph, running_mean)), (dtype_or_none(graph, running_mean), shape_or_none(graph, running_var)),)


def rule_aten__fused_rms_norm(graph: Graph, input: Result, normalized_shape: Ints, weight: Result | None, eps: Float | None) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), None),)


def rule_aten__native_batch_norm_legit_functional(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, training: Bool, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, running_mean), None), (dtype_or_none(graph, running_mean), None), (dtype_or_none(graph, running_mean), shape_or_none(graph, running_mean)), (dtype_or_none(graph, running_var), shape_or_none(graph, running_var)),)


def rule_aten__native_batch_norm_legit_no_stats(graph: Graph, input: Result, weight: Result | None, bias: Result | None, training: Bool, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (promoted_dtype(graph, 'default', input), given_shape([dim_of(graph, input, 1)])), (promoted_dtype(graph, 'default', input), given_shape([dim_of(graph, input, 1)])),)


def rule_aten__native_batch_norm_legit_no_training(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result, running_var: Result, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, running_mean), None), (dtype_or_none(graph, running_mean), None),)


def rule_aten__weight_norm(graph: Graph, v: Result, g: Result, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, v), shape_or_none(graph, v)),)


def rule_aten_batch_norm(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, training: Bool, momentum: Float, eps: Float, cudnn_enabled: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_group_norm(graph: Graph, input: Result, num_groups: Int, weight: Result | None = None, bias: Result | None = None, eps: Float = 1e-05, cudnn_enabled: Bool = True) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_instance_norm(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, use_input_stats: Bool, momentum: Float, eps: Float, cudnn_enabled: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_layer_norm(graph: Graph, input: Result, normalized_shape: SymInts, weight: Result | None = None, bias: Result | None = None, eps: Float = 1e-05, cudnn_enable: Bool = True) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_native_batch_norm(graph: Graph, input: Result, weight: Result | None, bias: Result | None, running_mean: Result | None, running_var: Result | None, training: Bool, momentum: Float, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), None), (dtype_or_none(graph, input), None),)


def rule_aten_native_batch_norm_backward(graph: Graph, grad_out: Result, input: Result, weight: Result | None, running_mean: Result | None, running_var: Result | None, save_mean: Result | None, save_invstd: Result | None, train: Bool, eps: Float, output_mask: Bools) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), None), (dtype_or_none(graph, input), None),)


def rule_aten_native_group_norm(graph: Graph, input: Result, weight: Result | None, bias: Result | None, N: SymInt, C: SymInt, HxW: SymInt, group: Int, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), given_shape([N, group])), (dtype_or_none(graph, input), given_shape([N, group])),)


def rule_aten_native_layer_norm(graph: Graph, input: Result, normalized_shape: SymInts, weight: Result | None, bias: Result | None, eps: Float) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), None), (dtype_or_none(graph, input), None),)


def rule_aten_native_layer_norm_backward(graph: Graph, grad_out: Result, input: Result, normalized_shape: SymInts, mean: Result, rstd: Result, weight: Result | None, bias: Result | None, output_mask: Bools) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, input), given_shape(normalized_shape)), (dtype_or_none(graph, input), given_shape(normalized_shape)),)


def rule_aten_rms_norm(graph: Graph, input: Result, normalized_shape: SymInts, weight: Result | None = None, eps: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)
