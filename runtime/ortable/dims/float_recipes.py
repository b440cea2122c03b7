"""Recipes of integers that torch computes with floats (``ceil(n / 0.5)``), in double precision.

`symints` records the recipes. Nodes of the graph compute them (`ir.shape_materializer`), and so
does `compute_opaque` for known sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .expression import ATOMS, RECIPES, Dim, Recipe, SymDim

# sympy's functions as ONNX operators of float64; "Trunc" is a Cast to int64 and back, "" the input
_OPERATORS = {
    "FloatTrueDiv": "Div", "IntTrueDiv": "Div", "ToFloat": "", "Add": "Add", "Mul": "Mul",
    "CeilToInt": "Ceil", "FloorToInt": "Floor", "RoundToInt": "Round", "TruncToInt": "Trunc",
    "Max": "Max", "Min": "Min",
}  # fmt: skip
# The same operators in Python, with which `compute_opaque` evaluates recipes.
_PYTHON: dict[str, Callable[..., float]] = {
    "Div": lambda a, b: a / b, "Add": lambda a, b: a + b, "Mul": lambda a, b: a * b,
    "Ceil": math.ceil, "Floor": math.floor, "Round": round, "Trunc": math.trunc,
    "Max": max, "Min": min,
}  # fmt: skip


def record_recipe(text: str, expr: Any, symbols: Sequence[Any]) -> None:
    """Record how to compute a sympy expression, if all of its functions are supported.

    ``text`` is the text of its opaque atom, and ``symbols`` are its symbols in the order of the
    atom's arguments.
    """
    recipe = _build_recipe(expr, list(symbols))
    if recipe is not None:
        RECIPES[text] = recipe


def _build_recipe(expr: Any, symbols: list[Any]) -> Recipe | None:
    """Return the recipe, such as ``("Ceil", ("Div", 0, 0.5))`` for ``ceil(n / 0.5)``, or None."""
    if getattr(expr, "is_Symbol", False):
        return symbols.index(expr) if expr.is_integer else None
    if getattr(expr, "is_Integer", False) or getattr(expr, "is_Float", False):
        return float(expr)
    operator = _OPERATORS.get(type(expr).__name__)
    inputs = [_build_recipe(arg, symbols) for arg in expr.args]
    if operator is None or None in inputs:
        return None
    result: Any = inputs[0]
    for item in inputs[1:]:
        result = (operator, result, item)
    return result if len(inputs) > 1 or not operator else (operator, result)


def recipe_of(dim: SymDim) -> tuple[Recipe, tuple[Dim, ...]] | None:
    """Return the recipe of ``dim``, an opaque atom, and its arguments; None without a recipe."""
    atom = ATOMS[dim.terms[0][0][0]]
    recipe = RECIPES.get(atom.name)
    return None if recipe is None else (recipe, atom.args[:-1])


def compute_opaque(text: str, args: Sequence[int]) -> int | None:
    """Evaluate the opaque atom ``text`` for values of its arguments; None without a recipe."""
    recipe = RECIPES.get(text)
    return None if recipe is None else int(_evaluate_recipe(recipe, args))


def _evaluate_recipe(recipe: Recipe, args: Sequence[int]) -> float:
    if isinstance(recipe, int):
        return float(args[recipe])
    if isinstance(recipe, float):
        return recipe
    operator, *parts = recipe
    return _PYTHON[operator](*(float(_evaluate_recipe(part, args)) for part in parts))
