# Generated from specs/runtime/decompositions.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Operators that torch decomposes before conversion."""

DECOMPOSE: tuple[str, ...] = (
    "aten::_fused_rms_norm_backward",
    "aten::cosine_similarity",
    "aten::cross",
    "aten::diff",
    "aten::gelu_backward",
    "aten::kron",
    "aten::linalg_cond",
    "aten::linalg_vecdot",
    "aten::native_group_norm_backward",
    "aten::native_layer_norm_backward",
    "aten::pairwise_distance",
    "aten::tensordot",
    "aten::upsample_bicubic2d.vec",
    "aten::upsample_bilinear2d.vec",
    "aten::upsample_linear1d.vec",
    "aten::upsample_nearest1d.vec",
    "aten::upsample_nearest2d.vec",
    "aten::upsample_nearest3d.vec",
    "aten::upsample_trilinear3d.vec",
)
