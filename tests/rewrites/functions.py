"""Elementwise functions on float64, integers and truth values, as ONNX defines them; `terms` rounds
what they give. A function takes what is undefined, its attributes, and its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

TIES = ("first", "second", "plus")
COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Equal"})
# a term of many arguments: which operation of two it is, from left to right
FOLDED = {"Total": "Add", "Largest": "Max", "Smallest": "Min", "Product": "Mul"}


class Undefined:
    """Where a computation has no result that ONNX says, and which zero Max and Min take of two."""

    def __init__(self, count: int, ties: str = "first") -> None:
        self.mask = np.zeros(count, dtype=bool)
        self.ties = ties


def _larger(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    found = np.where(x > y, x, y)
    if found.dtype.kind == "f":
        return _of_equal(undefined, x, y, found)
    return found


def _smaller(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    found = np.where(x < y, x, y)
    if found.dtype.kind == "f":
        return _of_equal(undefined, x, y, found, least=True)
    return found


def _of_equal(undefined: Undefined, x: Array, y: Array, found: Array, least: bool = False) -> Array:
    """NaN of NaN; one of the two zeros."""
    if undefined.ties == "plus":
        positive = np.where(np.signbit(x) == least, x, y)
        found = np.where(x == y, positive, found)
    else:
        found = np.where(x == y, x if undefined.ties == "first" else y, found)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, found)


def _clip(undefined: Undefined, attrs: Any, x: Array, low: Array, high: Array) -> Array:
    return _smaller(undefined, (), _larger(undefined, (), x, low), high)


def _relu(undefined: Undefined, attrs: Any, x: Array) -> Array:
    return _larger(undefined, (), x, np.zeros_like(x))


def _quotient(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    undefined.mask |= y == 0
    divisor = np.where(y == 0, 1, y)
    found = np.abs(x) // np.abs(divisor)
    return np.where((x < 0) != (divisor < 0), -found, found)


def _remainder(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    undefined.mask |= y == 0
    divisor = np.where(y == 0, 1, y)
    return np.fmod(x, divisor) if attrs and attrs[0] else np.mod(x, divisor)


def _power(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.power(x, y.astype(np.float64))
    undefined.mask |= y < 0
    return np.power(x, np.where(y < 0, 0, y).astype(np.int64))


def _cast(undefined: Undefined, attrs: Any, x: Array) -> Array:
    kind = attrs[0]
    if kind == "bool":
        return x != 0
    if kind == "float":
        return x.astype(np.float64)
    if x.dtype.kind == "f":
        low, high = attrs[1:]
        outside = ~np.isfinite(x) | (np.trunc(x) < low) | (np.trunc(x) > high)
        undefined.mask |= outside
        return np.where(outside, 0, np.trunc(x)).astype(np.int64)
    return x.astype(np.int64)


def _softplus(undefined: Undefined, attrs: Any, x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(undefined: Undefined, attrs: Any, x: Array) -> Array:
    part = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + part), part / (1 + part))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(undefined: Undefined, attrs: Any, x: Array) -> Array:
    if attrs and attrs[0] == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _hard_sigmoid(undefined: Undefined, attrs: Any, x: Array) -> Array:
    alpha, beta = attrs
    return np.maximum(0.0, np.minimum(1.0, alpha * x + beta))


def _plain(function: Callable[..., Array]) -> Function:
    return lambda undefined, attrs, *args: function(*args)


FUNCTIONS: dict[str, Function] = {
    "Add": _plain(np.add), "Sub": _plain(np.subtract), "Mul": _plain(np.multiply),
    "Div": _quotient, "Mod": _remainder, "Pow": _power, "Max": _larger, "Min": _smaller,
    "Neg": _plain(np.negative), "Abs": _plain(np.abs), "Sqrt": _plain(np.sqrt),
    "Reciprocal": _plain(lambda x: 1.0 / x), "Exp": _plain(np.exp), "Log": _plain(np.log),
    "Tanh": _plain(np.tanh), "Sin": _plain(np.sin), "Cos": _plain(np.cos), "Erf": _plain(_erf),
    "Sigmoid": _sigmoid, "Softplus": _softplus, "Relu": _relu, "Clip": _clip, "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda u, a, x: np.where(x < 0, a[0] * x, x),
    "Elu": lambda u, a, x: np.where(x < 0, a[0] * np.expm1(x), x),
    "Not": _plain(np.logical_not), "And": _plain(np.logical_and), "Or": _plain(np.logical_or),
    "Equal": _plain(np.equal), "Less": _plain(np.less), "Greater": _plain(np.greater),
    "LessOrEqual": _plain(np.less_equal), "GreaterOrEqual": _plain(np.greater_equal),
    "Where": _plain(np.where), "Cast": _cast,
    "Rint": _plain(np.rint),
}  # fmt: skip
