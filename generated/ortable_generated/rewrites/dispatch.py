# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import arithmetic, casts, linear, ort_attention, ort_norm, ort_rotary, selection

RULES: tuple[Rule, ...] = (
    *arithmetic.RULES,
    *casts.RULES,
    *linear.RULES,
    *ort_attention.RULES,
    *ort_norm.RULES,
    *ort_rotary.RULES,
    *selection.RULES,
)
