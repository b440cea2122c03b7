# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.passes.rewrite.rule import Rule

from . import activation, arithmetic, attention, casts, concat, convolution, dims, expand, gather, linear, masks, normalization, optimizers, ort_attention, ort_norm, ort_pointwise, ort_rotary, reshape, rotary, selection, slice, training, transpose

RULES: tuple[Rule, ...] = (
    *activation.RULES,
    *arithmetic.RULES,
    *attention.RULES,
    *casts.RULES,
    *concat.RULES,
    *convolution.RULES,
    *dims.RULES,
    *expand.RULES,
    *gather.RULES,
    *linear.RULES,
    *masks.RULES,
    *normalization.RULES,
    *optimizers.RULES,
    *ort_attention.RULES,
    *ort_norm.RULES,
    *ort_pointwise.RULES,
    *ort_rotary.RULES,
    *reshape.RULES,
    *rotary.RULES,
    *selection.RULES,
    *slice.RULES,
    *training.RULES,
    *transpose.RULES,
)
