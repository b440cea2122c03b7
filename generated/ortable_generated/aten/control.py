# Generated from specs/aten/control.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase
from ortable.lowerings.attention import flex_attention
from ortable.lowerings.control_flow import lower_cond, lower_switch, out_dtype, with_effects
from ortable.lowerings.loops import associative_scan, lower_scan, map_impl, while_loop, while_loop_stack_output

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec


def hop_associative_scan(graph: Graph, res: ResultSpec, combine_fn: Any, xs: Any, additional_inputs: Any) -> Any:
    """Higher-order operator associative_scan(combine_fn, xs, additional_inputs)"""
    return associative_scan(graph, res, combine_fn, xs, additional_inputs)


def hop_auto_functionalized(graph: Graph, res: ResultSpec, *args: Any, **kwargs: Any) -> Any:
    """Higher-order operator auto_functionalized, refused"""
    raise UnsupportedCase('auto_functionalized: it stands for an operator that writes into its inputs; give to_onnx a converter (Dispatcher), or write its functional form')


def hop_auto_functionalized_v2(graph: Graph, res: ResultSpec, *args: Any, **kwargs: Any) -> Any:
    """Higher-order operator auto_functionalized_v2, refused"""
    raise UnsupportedCase('auto_functionalized_v2: it stands for an operator that writes into its inputs; give to_onnx a converter (Dispatcher), or write its functional form')


def hop_cond(graph: Graph, res: ResultSpec, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    """Higher-order operator cond(pred, true_fn, false_fn, operands)"""
    return lower_cond(graph, res, pred, true_fn, false_fn, operands)


def hop_flex_attention(graph: Graph, res: ResultSpec, query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, kernel_options: Any, score_mod_other_buffers: Any, mask_mod_other_buffers: Any) -> Any:
    """Higher-order operator flex_attention(query, key, value, score_mod, block_mask, scale, kernel_options, score_mod_other_buffers, mask_mod_other_buffers)"""
    return flex_attention(graph, res, query, key, value, score_mod, block_mask, scale, kernel_options, score_mod_other_buffers, mask_mod_other_buffers)


def hop_flex_attention_backward(graph: Graph, res: ResultSpec, *args: Any, **kwargs: Any) -> Any:
    """Higher-order operator flex_attention_backward, refused"""
    raise UnsupportedCase('flex_attention_backward: its score and mask functions are graphs over single elements; use scaled_dot_product_attention with a mask')


def hop_inline_asm_elementwise(graph: Graph, res: ResultSpec, *args: Any, **kwargs: Any) -> Any:
    """Higher-order operator inline_asm_elementwise, refused"""
    raise UnsupportedCase('inline_asm_elementwise: it runs machine code of one device')


def hop_map_impl(graph: Graph, res: ResultSpec, f: Any, xs: Any, pos_args: Any) -> Any:
    """Higher-order operator map_impl(f, xs, pos_args)"""
    return map_impl(graph, res, f, xs, pos_args)


def hop_out_dtype(graph: Graph, res: ResultSpec, op: Any, output_dtype: Any, *operands: Any) -> Any:
    """Higher-order operator out_dtype(op, output_dtype, *operands)"""
    return out_dtype(graph, res, op, output_dtype, *operands)


def hop_scan(graph: Graph, res: ResultSpec, combine_fn: Any, init: Any, xs: Any, additional_inputs: Any) -> Any:
    """Higher-order operator scan(combine_fn, init, xs, additional_inputs)"""
    return lower_scan(graph, res, combine_fn, init, xs, additional_inputs)


def hop_switch(graph: Graph, res: ResultSpec, index: Any, branches: Any, operands: Any) -> Any:
    """Higher-order operator switch(index, branches, operands)"""
    return lower_switch(graph, res, index, branches, operands)


def hop_while_loop(graph: Graph, res: ResultSpec, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any) -> Any:
    """Higher-order operator while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)"""
    return while_loop(graph, res, cond_fn, body_fn, carried_inputs, additional_inputs)


def hop_while_loop_stack_output(graph: Graph, res: ResultSpec, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any) -> Any:
    """Higher-order operator while_loop_stack_output(cond_fn, body_fn, carried_inputs, additional_inputs)"""
    return while_loop_stack_output(graph, res, cond_fn, body_fn, carried_inputs, additional_inputs)


def hop_with_effects(graph: Graph, res: ResultSpec, token: Any, op: Any, *operands: Any, **options: Any) -> Any:
    """Higher-order operator with_effects(token, op, *operands, **options)"""
    return with_effects(graph, res, token, op, *operands, **options)
