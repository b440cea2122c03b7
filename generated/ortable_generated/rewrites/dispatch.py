# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from ortable.rewrite.rule import Rule

from . import basic, concat, dims, expand, gather, linear, reshape, slice, transpose

RULES: tuple[Rule, ...] = (
    *basic.RULES,
    *concat.RULES,
    *dims.RULES,
    *expand.RULES,
    *gather.RULES,
    *linear.RULES,
    *reshape.RULES,
    *slice.RULES,
    *transpose.RULES,
)
