# Generated from specs/aten/random.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, float32
from ortable.errors import UnsupportedCase
from ortable.known import known_dtype, known_shape
from ortable.prelude import shape_of
from ortable.prelude_make import const, filled

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Float, Result


def aten_native_dropout(graph: GraphBuilder, res: Res, input: Result, p: Float, train: Bool | None) -> Any:
    """aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if train is not None and (not train):
        return (input, filled(graph, shape_of(graph, input), True, boolean))
    if graph.target == 'onnxruntime':
        raise UnsupportedCase('aten::native_dropout: ONNX Runtime would draw numbers of its own and ignore torch.manual_seed')
    output, mask = graph.make_node('Dropout', [input, const(graph, p, float32), const(graph, True, boolean)], 2)
    return (output, mask)


def rule_aten_native_dropout(graph: GraphBuilder, input: Result, p: Float, train: Bool | None) -> Rules:
    return ((known_dtype(graph, input), known_shape(graph, input)), (boolean, known_shape(graph, input)),)
