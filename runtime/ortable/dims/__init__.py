"""Dimensions: plain ints, or interned polynomials with integer coefficients over symbols and opaque
floor divisions, remainders, maxima and minima.  Equal polynomials are one object; nothing is
parsed."""

from __future__ import annotations

from .expression import (
    Dim,
    Shape,
    SymDim,
    ceildiv,
    differs,
    floordiv,
    maximum,
    minimum,
    mod,
    opaque,
    symbol,
)
from .float_recipes import Recipe, recipe_of
from .symints import from_torch
from .traverse import Part, evaluate, is_symbol, parts, prod, same, substitute, symbols

__all__ = [
    "Dim",
    "Part",
    "Recipe",
    "Shape",
    "SymDim",
    "ceildiv",
    "differs",
    "evaluate",
    "floordiv",
    "from_torch",
    "is_symbol",
    "maximum",
    "minimum",
    "mod",
    "opaque",
    "parts",
    "prod",
    "recipe_of",
    "same",
    "substitute",
    "symbol",
    "symbols",
]
