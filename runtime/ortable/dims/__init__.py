"""Symbolic dimensions: plain ints, or interned polynomials with integer coefficients.

Equal polynomials are the same object. Arithmetic makes dimensions; no text is parsed.
"""

from __future__ import annotations

from .expression import (
    Dim,
    Shape,
    SymDim,
    always_differ,
    ceil_div,
    floor_div,
    floor_mod,
    make_opaque,
    make_symbol,
    max_of,
    min_of,
)
from .float_recipes import Recipe, recipe_of
from .symints import Names, from_torch
from .traverse import (
    Factor,
    always_equal,
    evaluate_dim,
    free_symbols,
    is_symbol,
    product_of,
    split_terms,
    substitute_symbols,
)

__all__ = [
    "Dim",
    "Factor",
    "Names",
    "Recipe",
    "Shape",
    "SymDim",
    "always_differ",
    "always_equal",
    "ceil_div",
    "evaluate_dim",
    "floor_div",
    "floor_mod",
    "free_symbols",
    "from_torch",
    "is_symbol",
    "make_opaque",
    "make_symbol",
    "max_of",
    "min_of",
    "product_of",
    "recipe_of",
    "split_terms",
    "substitute_symbols",
]
