# Generated from specs/aten/onnx_ops.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import bfloat16, boolean, float16, float64
from ortable.errors import UnsupportedCase
from ortable.lowerings.attention import mask_of_onnx
from ortable.lowerings.symbolic_nodes import lower_symbolic, lower_symbolic_multi_out
from ortable.prelude.facts import differs, dim_of, dtype_of, is_used, rank_of, static
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Floats, Int, Ints, Result, Results, Str, Strs, SymInt, SymInts


def onnx_Attention_opset23(graph: Graph, res: ResultSpec, Q: Result, K: Result, V: Result, attn_mask: Result | None = None, past_key: Result | None = None, past_value: Result | None = None, *, is_causal: Bool = False, kv_num_heads: SymInt = 0, q_num_heads: SymInt = 0, qk_matmul_output_mode: SymInt = 0, scale: Float | None = None, softcap: Float = 0.0, softmax_precision: SymInt | None = None) -> Any:
    """onnx::Attention.opset23(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? past_value=None, *, bool is_causal=False, SymInt kv_num_heads=0, SymInt q_num_heads=0, SymInt qk_matmul_output_mode=0, float? scale=None, float softcap=0., SymInt? softmax_precision=None) -> (Tensor, Tensor, Tensor, Tensor)"""
    heads = None if q_num_heads == 0 or rank_of(graph, Q) == 4 else static(q_num_heads)
    pairs = None if kv_num_heads == 0 or rank_of(graph, Q) == 4 else static(kv_num_heads)
    kind = None if softmax_precision is None else static(softmax_precision)
    mode = static(qk_matmul_output_mode) if is_used(res[3]) else 0
    is_bool = attn_mask is not None and dtype_of(graph, attn_mask) == boolean
    past = 0 if past_key is None else dim_of(graph, past_key, -2)
    lengths = [dim_of(graph, Q, -2), dim_of(graph, K, -2) + past]
    if graph.opset >= 23 and scale is not None and scale <= 0:
        graph.case = 1
        raise UnsupportedCase("onnx::Attention.opset23: Attention of ONNX takes the root of its scale, which must be above 0: negate the query, or export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23 and (softcap > 0 and (attn_mask is not None or is_causal)):
        graph.case = 2
        raise UnsupportedCase("onnx::Attention.opset23: Attention of ONNX masks scores after the softcap, torch before it, so that its hidden keys count: export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23 and is_causal and attn_mask is not None:
        graph.case = 3
        raise UnsupportedCase('onnx::Attention.opset23: torch 2.15 computes no attention with is_causal and a mask: put both into the mask')
    if graph.opset >= 23 and is_causal and past_key is not None:
        graph.case = 4
        raise UnsupportedCase("onnx::Attention.opset23: Attention of ONNX with is_causal and past_key lets a query see the whole past, torch counts the first query as the first key: pass the mask, or export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23 and (mode in (1, 2) and (is_bool or is_causal)):
        graph.case = 5
        raise UnsupportedCase("onnx::Attention.opset23: the scores of qk_matmul_output_mode 1 and 2 have -inf at hidden keys in torch, and the lowest number in ONNX Runtime: pass a float mask, or export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23 and kind in (float16, bfloat16) and dtype_of(graph, Q) != kind:
        graph.case = 6
        raise UnsupportedCase("onnx::Attention.opset23: torch rounds scores to the softmax_precision, ONNX Runtime does not: leave it away, or export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23 and dtype_of(graph, Q) == float64 and is_bool:
        graph.case = 7
        raise UnsupportedCase("onnx::Attention.opset23: Attention of float64 is NaN in ONNX Runtime 1.31 where a mask hides every key, and 0 in torch: export with target_opset=22, where torch's own steps are written out")
    if graph.opset >= 23:
        # Mode 1 of torch's scores is ONNX's mode 2, with the mask; without a
        # mask both of torch's first modes are the bare product.
        graph.case = 8
        mask = mask_of_onnx(graph, attn_mask, lengths)
        shown = mode if differs(mode, 1) else 0 if attn_mask is None else 2
        y, key, value, scores = graph.make_node('Attention', [Q, K, V, mask, past_key, past_value], 4, is_causal=int(is_causal), q_num_heads=heads, kv_num_heads=pairs, scale=scale, softcap=softcap, qk_matmul_output_mode=shown, softmax_precision=kind)
        return (y, key, value, scores)
    graph.case = 9
    raise UnsupportedCase('onnx::Attention.opset23: Attention is an operator of opset 23: export with target_opset=23 or newer')


def onnx_RotaryEmbedding_opset23(graph: Graph, res: ResultSpec, x: Result, cos_cache: Result, sin_cache: Result, position_ids: Result | None = None, *, interleaved: Bool = False, num_heads: SymInt = 0, rotary_embedding_dim: SymInt = 0) -> Result:
    """onnx::RotaryEmbedding.opset23(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, bool interleaved=False, SymInt num_heads=0, SymInt rotary_embedding_dim=0) -> Tensor"""
    heads = static(num_heads)
    part = static(rotary_embedding_dim)
    if graph.opset >= 23:
        graph.case = 1
        return graph.make_node('RotaryEmbedding', [x, cos_cache, sin_cache, position_ids], res.outputs, num_heads=heads, interleaved=int(interleaved), rotary_embedding_dim=part)
    graph.case = 2
    raise UnsupportedCase('onnx::RotaryEmbedding.opset23: RotaryEmbedding is an operator of opset 23: export with target_opset=23 or newer')


def onnx_symbolic__symbolic(graph: Graph, res: ResultSpec, inputs: Results, op_type: Str, onnx_dtype: Int, *, shape: SymInts, attr_keys: Strs, attr_types: Strs, attr_pos: Any, attr_ints: Ints, attr_floats: Floats, attr_strs: Strs, metadata_props_keys: Strs, metadata_props_values: Strs, domain: Str = '', version: Int | None = None) -> Result:
    '''onnx_symbolic::_symbolic(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, str[] metadata_props_keys, str[] metadata_props_values, str domain="", int? version=None) -> Tensor'''
    return lower_symbolic(graph, res, inputs=inputs, op_type=op_type, onnx_dtype=onnx_dtype, shape=shape, attr_keys=attr_keys, attr_types=attr_types, attr_pos=attr_pos, attr_ints=attr_ints, attr_floats=attr_floats, attr_strs=attr_strs, metadata_props_keys=metadata_props_keys, metadata_props_values=metadata_props_values, domain=domain, version=version)


def onnx_symbolic__symbolic_multi_out(graph: Graph, res: ResultSpec, inputs: Results, op_type: Str, onnx_dtypes: Ints, *, shapes: Any, attr_keys: Strs, attr_types: Strs, attr_pos: Any, attr_ints: Ints, attr_floats: Floats, attr_strs: Strs, metadata_props_keys: Strs, metadata_props_values: Strs, domain: Str = '', version: Int | None = None) -> Any:
    '''onnx_symbolic::_symbolic_multi_out(Tensor?[] inputs, str op_type, int[] onnx_dtypes, *, SymInt[][] shapes, str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, str[] metadata_props_keys, str[] metadata_props_values, str domain="", int? version=None) -> Tensor[]'''
    return lower_symbolic_multi_out(graph, res, inputs=inputs, op_type=op_type, onnx_dtypes=onnx_dtypes, shapes=shapes, attr_keys=attr_keys, attr_types=attr_types, attr_pos=attr_pos, attr_ints=attr_ints, attr_floats=attr_floats, attr_strs=attr_strs, metadata_props_keys=metadata_props_keys, metadata_props_values=metadata_props_values, domain=domain, version=version)


def rule_onnx_Attention_opset23(graph: Graph, Q: Result, K: Result, V: Result, attn_mask: Result | None = None, past_key: Result | None = None, past_value: Result | None = None, *, is_causal: Bool = False, kv_num_heads: SymInt = 0, q_num_heads: SymInt = 0, qk_matmul_output_mode: SymInt = 0, scale: Float | None = None, softcap: Float = 0.0, softmax_precision: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, Q), None), (dtype_or_none(graph, Q), None), (dtype_or_none(graph, Q), None), (dtype_or_none(graph, Q), None),)


def rule_onnx_RotaryEmbedding_opset23(graph: Graph, x: Result, cos_cache: Result, sin_cache: Result, position_ids: Result | None = None, *, interleaved: Bool = False, num_heads: SymInt = 0, rotary_embedding_dim: SymInt = 0) -> Rules:
    return ((dtype_or_none(graph, x), shape_or_none(graph, x)),)


def rule_onnx_symbolic__symbolic(graph: Graph, inputs: Results, op_type: Str, onnx_dtype: Int, *, shape: SymInts, attr_keys: Strs, attr_types: Strs, attr_pos: Any, attr_ints: Ints, attr_floats: Floats, attr_strs: Strs, metadata_props_keys: Strs, metadata_props_values: Strs, domain: Str = '', version: Int | None = None) -> Rules:
    return ((onnx_dtype, given_shape(shape)),)


def rule_onnx_symbolic__symbolic_multi_out(graph: Graph, inputs: Results, op_type: Str, onnx_dtypes: Ints, *, shapes: Any, attr_keys: Strs, attr_types: Strs, attr_pos: Any, attr_ints: Ints, attr_floats: Floats, attr_strs: Strs, metadata_props_keys: Strs, metadata_props_values: Strs, domain: Str = '', version: Int | None = None) -> Rules:
    return ((onnx_dtypes[0], None),)
