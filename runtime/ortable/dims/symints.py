"""Convert torch.SymInt and sympy expressions to dimensions.

Types are recognized by attributes and class names, because the module does not import torch; of
sympy it imports only the printer, and only to print an expression.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ortable.errors import BuilderError

from .expression import (
    SYMBOL,
    Atom,
    Dim,
    SymDim,
    ceil_div,
    floor_div,
    floor_mod,
    make_opaque,
    make_symbol,
    max_of,
    min_of,
)
from .float_recipes import record_recipe
from .traverse import free_symbols, map_atoms, product_of

# Dimensions by sympy expression, for each ShapeEnv, because it has the ranges of the symbols. The
# plain cache is for expressions without a ShapeEnv.
_env_caches: WeakKeyDictionary[Any, dict[Any, Dim]] = WeakKeyDictionary()
_plain_cache: dict[Any, Dim] = {}
Names: TypeAlias = Mapping[str, str | SymDim]  # new names, or expressions, of symbols
_rename_cache: dict[tuple[Dim, tuple[tuple[str, str | SymDim], ...]], Dim] = {}


def from_torch(value: Any, rename: Names | None = None) -> Dim:
    """Convert a Python int, a ``torch.SymInt`` or a sympy expression to a dimension.

    Args:
        value: the size. An unsupported function becomes an opaque atom with sympy's text.
        rename: maps torch's symbols to the user's names (``{"s77": "batch"}``), or to expressions
            of them.

    Raises:
        BuilderError: ``value`` is a float, or an expression that is not an integer.
    """
    if isinstance(value, SymDim):
        return value
    if isinstance(value, int):
        return int(value)
    node = getattr(value, "node", None)
    if node is None and isinstance(value, Integral):
        return int(value)
    if node is None:
        cache, expr, env = _plain_cache, value, None
    else:
        expr, env = node.expr, getattr(node, "shape_env", None)
        if isinstance(expr, int):
            return int(expr)
        cache = _plain_cache if env is None else _env_caches.setdefault(env, {})
    dim = cache.get(expr)
    if dim is None:
        dim = cache[expr] = _from_sympy(expr, env)
    if not rename or isinstance(dim, int):
        return dim
    renaming = tuple((n, rename[n]) for n in sorted(free_symbols(dim)) if n in rename)
    if not renaming:
        return dim
    renamed = _rename_cache.get((dim, renaming))
    if renamed is None:
        renamed = _rename_cache[dim, renaming] = _rename_symbols(dim, dict(renaming))
    return renamed


def _rename_symbols(dim: Dim, names: dict[str, str | SymDim]) -> Dim:
    def value_of(atom: Atom) -> Dim:
        if atom.kind == SYMBOL:
            name = names.get(atom.name, atom.name)
            return make_symbol(name, atom.args[0]) if isinstance(name, str) else name
        return make_opaque(
            atom.name, [map_atoms(x, value_of) for x in atom.args[:-1]], atom.args[-1]
        )

    return map_atoms(dim, value_of)


def _from_sympy(expr: Any, env: Any) -> Dim:
    type_name = type(expr).__name__
    if getattr(expr, "is_Integer", False):
        return int(expr)
    if type_name in ("Symbol", "Dummy"):
        return make_symbol(expr.name, _symbol_minimum(expr, env))
    args: tuple[Any, ...] = tuple(getattr(expr, "args", ()))
    if type_name == "Pow":
        exponent = args[1]
        if getattr(exponent, "is_Integer", False) and int(exponent) >= 0:
            return product_of([_from_sympy(args[0], env)] * int(exponent))
    elif type_name in ("FloorToInt", "CeilToInt") and type(args[0]).__name__ == "IntTrueDiv":
        a, b = (_from_sympy(arg, env) for arg in args[0].args)
        return floor_div(a, b) if type_name == "FloorToInt" else ceil_div(a, b)
    elif type_name == "ModularIndexing":
        base, divisor, modulus = (_from_sympy(arg, env) for arg in args)
        return floor_mod(floor_div(base, divisor), modulus)
    elif type_name in _SYMPY and (type_name != "Mul" or not any(_is_fraction(arg) for arg in args)):
        return _SYMPY[type_name](*(_from_sympy(arg, env) for arg in args))
    if getattr(expr, "is_integer", None) is not True:
        raise BuilderError(
            f"{expr} ({type_name}) is not an integer, so it cannot be a dimension; "
            "only integer symbols (torch.SymInt) are supported."
        )
    symbols = sorted(getattr(expr, "free_symbols", ()), key=str)
    minimum = 0 if getattr(expr, "is_nonnegative", None) else None
    text = exact_text(expr)
    record_recipe(text, expr, symbols)
    return make_opaque(text, [_from_sympy(x, env) for x in symbols], minimum)


def exact_text(expr: Any) -> str:
    """Return the text of a sympy expression with all digits of floats; sympy prints 15 digits."""
    return str(_exact_printer().doprint(expr))


@functools.cache
def _exact_printer() -> Any:
    from sympy.printing.str import StrPrinter

    class ExactPrinter(StrPrinter):  # type: ignore[misc]
        def _print_Float(self, expr: Any) -> str:
            return repr(float(expr))

    return ExactPrinter()


def _is_fraction(expr: Any) -> bool:
    return bool(getattr(expr, "is_Rational", False)) and not expr.is_Integer


def _symbol_minimum(expr: Any, env: Any) -> int | None:
    """Return 0 for a size, and None for an integer that may be negative (``tensor.item()``)."""
    ranges = getattr(env, "var_to_range", None)
    value_range = ranges.get(expr) if ranges is not None else None
    if value_range is not None:
        return 0 if value_range.lower >= 0 else None
    if getattr(expr, "is_nonnegative", None):
        return 0
    # torch names integers that depend on data u0, u1, ...
    return None if expr.name[:1] == "u" and expr.name[1:].isdigit() else 0


_SYMPY: dict[str, Callable[..., Dim]] = {
    "Add": lambda *args: sum(args[1:], start=args[0]),
    "Mul": lambda *args: product_of(args),
    "FloorDiv": floor_div,
    "CleanDiv": floor_div,
    "CeilDiv": ceil_div,
    "PythonMod": floor_mod,
    "Mod": floor_mod,
    "Max": max_of,
    "Min": min_of,
    "Identity": lambda arg: arg,
}
