"""Elementwise functions on float64, integers and booleans, as ONNX defines them.

The caller in `terms` rounds the results. A function takes the record of undefined elements, its
attributes and its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

TIES = ("first", "second", "plus")
COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Equal"})
# variadic terms: the binary operation that folds the arguments from left to right
FOLDED = {"Total": "Add", "Largest": "Max", "Smallest": "Min", "Product": "Mul"}


class Undefined:
    """The elements without a defined result, and the zero that Max and Min select from two."""

    def __init__(self, count: int, ties: str = "first") -> None:
        self.mask = np.zeros(count, dtype=bool)
        self.ties = ties


def _max(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    result = np.where(x > y, x, y)
    if result.dtype.kind == "f":
        return _resolve_nan_and_zeros(undefined, x, y, result)
    return result


def _min(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    result = np.where(x < y, x, y)
    if result.dtype.kind == "f":
        return _resolve_nan_and_zeros(undefined, x, y, result, for_min=True)
    return result


def _resolve_nan_and_zeros(
    undefined: Undefined, x: Array, y: Array, result: Array, for_min: bool = False
) -> Array:
    """Propagate NaN, and select one of two zeros."""
    if undefined.ties == "plus":
        positive = np.where(np.signbit(x) == for_min, x, y)
        result = np.where(x == y, positive, result)
    else:
        result = np.where(x == y, x if undefined.ties == "first" else y, result)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, result)


def _clip(undefined: Undefined, attrs: Any, x: Array, low: Array, high: Array) -> Array:
    return _min(undefined, (), _max(undefined, (), x, low), high)


def _relu(undefined: Undefined, attrs: Any, x: Array) -> Array:
    return _max(undefined, (), x, np.zeros_like(x))


def _divide(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    undefined.mask |= y == 0
    divisor = np.where(y == 0, 1, y)
    magnitude = np.abs(x) // np.abs(divisor)
    return np.where((x < 0) != (divisor < 0), -magnitude, magnitude)


def _modulo(undefined: Undefined, attrs: Any, x: Array, y: Array) -> Array:
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
    target = attrs[0]
    if target == "bool":
        return x != 0
    if target == "float":
        return x.astype(np.float64)
    if x.dtype.kind == "f":
        low, high = attrs[1:]
        out_of_range = ~np.isfinite(x) | (np.trunc(x) < low) | (np.trunc(x) > high)
        undefined.mask |= out_of_range
        return np.where(out_of_range, 0, np.trunc(x)).astype(np.int64)
    return x.astype(np.int64)


def _softplus(undefined: Undefined, attrs: Any, x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(undefined: Undefined, attrs: Any, x: Array) -> Array:
    exponential = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + exponential), exponential / (1 + exponential))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(undefined: Undefined, attrs: Any, x: Array) -> Array:
    if attrs and attrs[0] == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _hard_sigmoid(undefined: Undefined, attrs: Any, x: Array) -> Array:
    alpha, beta = attrs
    return np.maximum(0.0, np.minimum(1.0, alpha * x + beta))


def _numpy(function: Callable[..., Array]) -> Function:
    return lambda undefined, attrs, *args: function(*args)


FUNCTIONS: dict[str, Function] = {
    "Add": _numpy(np.add), "Sub": _numpy(np.subtract), "Mul": _numpy(np.multiply),
    "Div": _divide, "Mod": _modulo, "Pow": _power, "Max": _max, "Min": _min,
    "Neg": _numpy(np.negative), "Abs": _numpy(np.abs), "Sqrt": _numpy(np.sqrt),
    "Reciprocal": _numpy(lambda x: 1.0 / x), "Exp": _numpy(np.exp), "Log": _numpy(np.log),
    "Tanh": _numpy(np.tanh), "Sin": _numpy(np.sin), "Cos": _numpy(np.cos), "Erf": _numpy(_erf),
    "Sigmoid": _sigmoid, "Softplus": _softplus, "Relu": _relu, "Clip": _clip, "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda u, a, x: np.where(x < 0, a[0] * x, x),
    "Elu": lambda u, a, x: np.where(x < 0, a[0] * np.expm1(x), x),
    "Not": _numpy(np.logical_not), "And": _numpy(np.logical_and), "Or": _numpy(np.logical_or),
    "Equal": _numpy(np.equal), "Less": _numpy(np.less), "Greater": _numpy(np.greater),
    "LessOrEqual": _numpy(np.less_equal), "GreaterOrEqual": _numpy(np.greater_equal),
    "Where": _numpy(np.where), "Cast": _cast,
    "Rint": _numpy(np.rint),
}  # fmt: skip
