# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import activation, arithmetic, attention, casts, convolution, linear, masks, normalization, ort_attention, ort_norm, ort_pointwise, ort_rotary, rotary, selection

RULES: tuple[Rule, ...] = (
    *activation.RULES,
    *arithmetic.RULES,
    *attention.RULES,
    *casts.RULES,
    *convolution.RULES,
    *linear.RULES,
    *masks.RULES,
    *normalization.RULES,
    *ort_attention.RULES,
    *ort_norm.RULES,
    *ort_pointwise.RULES,
    *ort_rotary.RULES,
    *rotary.RULES,
    *selection.RULES,
)
