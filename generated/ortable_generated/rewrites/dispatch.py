# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import activation, arithmetic, attention, casts, convolution, linear, masks, normalization, rotary, selection

RULES: tuple[Rule, ...] = (
    *activation.RULES,
    *arithmetic.RULES,
    *attention.RULES,
    *casts.RULES,
    *convolution.RULES,
    *linear.RULES,
    *masks.RULES,
    *normalization.RULES,
    *rotary.RULES,
    *selection.RULES,
)
