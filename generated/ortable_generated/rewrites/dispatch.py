# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import activation, basic, convolution, linear, normalization

RULES: tuple[Rule, ...] = (
    *activation.RULES,
    *basic.RULES,
    *convolution.RULES,
    *linear.RULES,
    *normalization.RULES,
)
