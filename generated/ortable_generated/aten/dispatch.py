# Generated from specs/aten by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ortable_generated.aten import (
    attention,
    cast,
    control,
    conv,
    create,
    indexing,
    pool,
    random,
    reduce,
    rnn,
    shape,
    special,
    symbolic,
)


class CallTarget(NamedTuple):
    """What a Python function or tensor method stands for: packet, fixed keyword arguments, the list that packs varargs."""

    packet: str
    fixed: dict[str, Any]
    pack: str | None


CONVERTERS: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention.aten__scaled_dot_product_flash_attention_for_cpu,
    "aten::_to_copy": cast.aten__to_copy,
    "aten::convolution": conv.aten_convolution,
    "aten::convolution_backward": conv.aten_convolution_backward,
    "aten::full": create.aten_full,
    "aten::index.Tensor": indexing.aten_index_Tensor,
    "aten::index_put": indexing.aten_index_put,
    "aten::lstm.input": rnn.aten_lstm_input,
    "aten::max_pool2d_with_indices": pool.aten_max_pool2d_with_indices,
    "aten::native_dropout": random.aten_native_dropout,
    "aten::special_entr": special.aten_special_entr,
    "aten::split.Tensor": shape.aten_split_Tensor,
    "aten::sum.dim_IntList": reduce.aten_sum_dim_IntList,
    "aten::sym_size.int": symbolic.aten_sym_size_int,
    "aten::view": shape.aten_view,
}

RULES: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention.rule_aten__scaled_dot_product_flash_attention_for_cpu,
    "aten::_to_copy": cast.rule_aten__to_copy,
    "aten::convolution": conv.rule_aten_convolution,
    "aten::convolution_backward": conv.rule_aten_convolution_backward,
    "aten::full": create.rule_aten_full,
    "aten::index.Tensor": indexing.rule_aten_index_Tensor,
    "aten::index_put": indexing.rule_aten_index_put,
    "aten::lstm.input": rnn.rule_aten_lstm_input,
    "aten::max_pool2d_with_indices": pool.rule_aten_max_pool2d_with_indices,
    "aten::native_dropout": random.rule_aten_native_dropout,
    "aten::special_entr": special.rule_aten_special_entr,
    "aten::split.Tensor": shape.rule_aten_split_Tensor,
    "aten::sum.dim_IntList": reduce.rule_aten_sum_dim_IntList,
    "aten::sym_size.int": symbolic.rule_aten_sym_size_int,
    "aten::view": shape.rule_aten_view,
}

HOPS: dict[str, Callable[..., Any]] = {
    "cond": control.hop_cond,
}

CALLABLES: dict[str, CallTarget] = {
}

METHODS: dict[str, CallTarget] = {
}

MUTATES: dict[str, str] = {
}

SPEC_FILES: dict[str, str] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "specs/aten/attention.yaml",
    "aten::_to_copy": "specs/aten/cast.yaml",
    "aten::convolution": "specs/aten/conv.yaml",
    "aten::convolution_backward": "specs/aten/conv.yaml",
    "aten::full": "specs/aten/create.yaml",
    "aten::index.Tensor": "specs/aten/indexing.yaml",
    "aten::index_put": "specs/aten/indexing.yaml",
    "aten::lstm.input": "specs/aten/rnn.yaml",
    "aten::max_pool2d_with_indices": "specs/aten/pool.yaml",
    "aten::native_dropout": "specs/aten/random.yaml",
    "aten::special_entr": "specs/aten/special.yaml",
    "aten::split.Tensor": "specs/aten/shape.yaml",
    "aten::sum.dim_IntList": "specs/aten/reduce.yaml",
    "aten::sym_size.int": "specs/aten/symbolic.yaml",
    "aten::view": "specs/aten/shape.yaml",
}
