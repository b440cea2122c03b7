"""Integers that torch computes through floats (``ceil(n / 0.5)``): the steps that lead to them, in
double as torch takes them. `symints` notes the steps, sessions and calls follow them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .expression import ATOMS, RECIPES, Dim, Recipe, SymDim

# sympy's functions as ONNX operators of float64; Trunc is a Cast to int64 and back
_OPERATORS = {
    "FloatTrueDiv": "Div", "IntTrueDiv": "Div", "ToFloat": "", "Add": "Add", "Mul": "Mul",
    "CeilToInt": "Ceil", "FloorToInt": "Floor", "RoundToInt": "Round", "TruncToInt": "Trunc",
    "Max": "Max", "Min": "Min",
}  # fmt: skip
_PYTHON: dict[str, Callable[..., float]] = {
    "Div": lambda a, b: a / b, "Add": lambda a, b: a + b, "Mul": lambda a, b: a * b,
    "Ceil": math.ceil, "Floor": math.floor, "Round": round, "Trunc": math.trunc,
    "Max": max, "Min": min,
}  # fmt: skip


def note_recipe(text: str, expr: Any, free: Sequence[Any]) -> None:
    """Remembers how a sympy expression of this text is computed from its symbols, if every function
    in it is known."""
    recipe = _recipe(expr, list(free))
    if recipe is not None:
        RECIPES[text] = recipe


def _recipe(expr: Any, free: list[Any]) -> Recipe | None:
    if getattr(expr, "is_Symbol", False):
        return free.index(expr) if expr.is_integer else None
    if getattr(expr, "is_Integer", False) or getattr(expr, "is_Float", False):
        return float(expr)
    operator = _OPERATORS.get(type(expr).__name__)
    found = [_recipe(arg, free) for arg in expr.args]
    if operator is None or None in found:
        return None
    made: Any = found[0]
    for each in found[1:]:
        made = (operator, made, each)
    return made if len(found) > 1 or not operator else (operator, made)


def recipe_of(dim: SymDim) -> tuple[Recipe, tuple[Dim, ...]] | None:
    """How an opaque part is computed through floats, and from which dimensions; None where that is
    not known."""
    atom = ATOMS[dim.terms[0][0][0]]
    recipe = RECIPES.get(atom.name)
    return None if recipe is None else (recipe, atom.args[:-1])


def computed(text: str, args: Sequence[int]) -> int | None:
    """The value of an opaque part for values of its arguments; None where no steps are known."""
    recipe = RECIPES.get(text)
    return None if recipe is None else int(_follow(recipe, args))


def _follow(recipe: Recipe, args: Sequence[int]) -> float:
    if isinstance(recipe, int):
        return float(args[recipe])
    if isinstance(recipe, float):
        return recipe
    operator, *parts = recipe
    return _PYTHON[operator](*(float(_follow(part, args)) for part in parts))
