# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import arithmetic, casts, linear, selection

RULES: tuple[Rule, ...] = (
    *arithmetic.RULES,
    *casts.RULES,
    *linear.RULES,
    *selection.RULES,
)
