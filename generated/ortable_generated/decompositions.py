# Generated from specs/runtime/decompositions.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Operators that torch decomposes before conversion."""

DECOMPOSE: tuple[str, ...] = (
    "aten::_fused_rms_norm_backward",
    "aten::diff",
    "aten::gelu_backward",
    "aten::native_group_norm_backward",
    "aten::native_layer_norm_backward",
)
