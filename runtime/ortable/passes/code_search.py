"""Search the scales, zero points and codes of groups of weights by weighted least squares.

A number of a group is stored as ``(code - zero point) * scale``. A scale whose codes just reach the
extremes of a group wastes codes: a smaller one clips the extremes and rounds the rest more finely.
So each group tries several scales, fits each to its own codes by least squares, and keeps the one
with the smallest error. Called by `weight_quantization.quantize_matrix`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Candidates of a scale let the codes reach this many steps less than the extremes of the group.
_CLIPPED_STEPS = np.arange(-2, 11) / 2
_REFINEMENTS = 2  # how often codes are rounded again with the scale that fits them


class CodedGroups(NamedTuple):
    """Codes of groups [size, M]: ``steps`` are code - zero point [size, M], as floats.

    ``scales`` [M] are float32, ``zeros`` [M] are zero points among the codes 0 to 2**bits - 1.
    """

    steps: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray

    def squared_error(self, x: np.ndarray, importance: np.ndarray | None = None) -> np.ndarray:
        """Return the sum of squared differences of each group [M], weighted by importance."""
        difference = self.steps * self.scales
        difference -= x
        difference *= difference
        if importance is not None:
            difference *= importance
        return _sum_columns(difference)


def search_codes(
    x: np.ndarray, bits: int, symmetric: bool, importance: np.ndarray | None = None
) -> CodedGroups:
    """Return codes of groups with the smallest error that the search finds.

    The error of a group is never above that of `round_to_nearest`.

    Args:
        x: groups of finite float32 numbers, [size, M]: one column a group.
        bits: the bits of a code.
        symmetric: whether the zero point is the middle code.
        importance: weights of squared errors, broadcast to [size, M]. None prefers scales that are
            good for large numbers, as llama.cpp does: the outputs of trained models then change
            less, though the sum of all squared errors is not the smallest.
    """
    exponents = np.clip(np.frexp(np.abs(x).max(0))[1], -126, 126)
    x = np.ldexp(x, -exponents)  # exact, and no square underflows
    nearest = round_to_nearest(x, bits, symmetric)
    weights = np.abs(x) + np.sqrt((x * x).mean(0)) if importance is None else importance
    scales = _search_scales(x, nearest, bits, symmetric, weights)
    scales = np.ldexp(np.ldexp(scales, exponents), -exponents)  # as they are stored
    steps = round_steps(x, scales, nearest.zeros, bits, np.empty_like(x))
    coded = CodedGroups(steps, scales, nearest.zeros)
    is_worse = coded.squared_error(x, importance) >= nearest.squared_error(x, importance)
    np.copyto(steps, nearest.steps, where=is_worse)
    scales = np.where(is_worse, nearest.scales, scales)
    return CodedGroups(steps, np.ldexp(scales, exponents), nearest.zeros)


def round_to_nearest(x: np.ndarray, bits: int, symmetric: bool) -> CodedGroups:
    """Return codes [size, M] of a scale that reaches the extremes of each group.

    With ``symmetric``, the number with the largest magnitude gets the code 0, so the scale may be
    negative. Otherwise codes reach from the smallest number to the largest, and 0 is exact.
    """
    top = (1 << bits) - 1
    low, high = x.min(0), x.max(0)
    if symmetric:
        middle = (top + 1) // 2
        scales = np.where(high > -low, high, low) / np.float32(-middle)
        zeros = np.full_like(scales, middle)
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        scales = (high - low) / np.float32(top)
        zeros = np.clip(np.rint(safe_divide(-low, scales)), 0, top)
    return CodedGroups(round_steps(x, scales, zeros, bits, np.empty_like(x)), scales, zeros)


def _search_scales(
    x: np.ndarray, nearest: CodedGroups, bits: int, symmetric: bool, importance: np.ndarray
) -> np.ndarray:
    """Return the least-squares scale [M] of the best candidate, for the zeros of ``nearest``.

    Codes of steps u fit x best with the scale sum(u x) / sum(u u), and then the squared error is
    sum(x x) - sum(u x)**2 / sum(u u); so the candidate with the largest second term is the best.
    """
    reach = np.float32(1 << (bits - 1) if symmetric else (1 << bits) - 1)
    best, best_gain = nearest.scales, np.full_like(nearest.scales, -1)
    steps, weighted = np.empty_like(x), np.empty_like(x)
    target = x * importance

    def fit_scales(candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return least-squares scales for codes of the candidates, and the errors they remove."""
        round_steps(x, candidates, nearest.zeros, bits, steps)
        np.multiply(steps, steps, out=weighted)
        squares = _sum_columns(np.multiply(weighted, importance, out=weighted))
        products = _sum_columns(np.multiply(steps, target, out=weighted))
        scales = safe_divide(products, squares)
        return scales, scales * products

    for clipped in _CLIPPED_STEPS:
        for sign in (1, -1) if symmetric else (1,):
            candidates = nearest.scales * np.float32(sign * reach / (reach + clipped))
            scales, gain = fit_scales(candidates)
            is_better = gain > best_gain
            best, best_gain = np.where(is_better, scales, best), np.maximum(gain, best_gain)
    for _ in range(_REFINEMENTS):
        best = fit_scales(best)[0]
    return best


def round_steps(
    x: np.ndarray, scales: np.ndarray, zeros: np.ndarray, bits: int, out: np.ndarray
) -> np.ndarray:
    """Return the nearest steps of numbers, limited to the codes that exist."""
    np.multiply(x, safe_divide(np.float32(1), scales), out=out)
    np.rint(out, out=out)
    np.maximum(out, -zeros, out=out)
    return np.minimum(out, (1 << bits) - 1 - zeros, out=out)


def safe_divide(values: np.ndarray | np.floating[Any], divisors: np.ndarray) -> np.ndarray:
    """Return quotients, and 0 where the divisor is 0 or so small that the quotient overflows."""
    has_quotient = np.abs(divisors) >= np.finfo(np.float32).tiny
    return np.divide(values, divisors, out=np.zeros_like(divisors), where=has_quotient)


def _sum_columns(values: np.ndarray) -> np.ndarray:
    total: np.ndarray = values.sum(0)
    return total
