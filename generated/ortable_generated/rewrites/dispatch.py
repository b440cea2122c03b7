# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import activation, attention, basic, convolution, linear, masks, normalization, rotary

RULES: tuple[Rule, ...] = (
    *activation.RULES,
    *attention.RULES,
    *basic.RULES,
    *convolution.RULES,
    *linear.RULES,
    *masks.RULES,
    *normalization.RULES,
    *rotary.RULES,
)
