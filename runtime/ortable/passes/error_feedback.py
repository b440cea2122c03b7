"""Quantize a matrix so that its products with typical inputs change least.

With M the second moment of the inputs, a row with the error e changes the squared results by
e M e^T. Rounding a column makes an error that later columns can cancel: GPTQ (Frantar et al. 2022)
adds it to them before they are rounded. Coordinate descent then revises one column after the other,
as in QuantEase (Behdin et al. 2023). Called by `weight_quantization.quantize_matrix`.

Matrices are transposed here, [K, N] with the groups along K, so that a column of the weight is a
contiguous row, and a group of columns has the layout of `code_search`.
"""

from __future__ import annotations

import numpy as np
import torch

from .code_search import CodedGroups, round_steps, round_to_nearest, safe_divide, search_codes

_DAMPING = 0.01  # of the mean diagonal, added to it: inputs of few calls do not say everything
_SWEEPS = 3  # of coordinate descent


def quantize_with_feedback(
    weight: np.ndarray, moment: np.ndarray, bits: int, group_size: int, symmetric: bool
) -> CodedGroups:
    """Return the codes of groups, row after row of the untransposed weight.

    The error of a row, weighted by the damped moment, is never above that of `round_to_nearest`.

    Args:
        weight: finite float32 numbers [K, N]; K is a multiple of the group size.
        moment: the second moment of the inputs, not zero: [K, K], or smaller if the weight is
            padded with zeros.
        bits: the bits of a code.
        group_size: how many numbers share a scale.
        symmetric: whether zero points are the middle code.
    """
    exponent = np.clip(np.frexp(np.abs(weight).max())[1], -126, 126)
    weight = np.ldexp(weight, -exponent)
    hessian = _damp_moment(moment, len(weight))
    groups = _feed_errors(weight, hessian, bits, group_size, symmetric)
    _descend_coordinates(weight, groups, hessian, bits)
    nearest = [
        round_to_nearest(weight[begin : begin + group_size], bits, symmetric)
        for begin in range(0, len(weight), group_size)
    ]
    is_worse = _row_errors(weight, groups, hessian) > _row_errors(weight, nearest, hessian)
    steps, scales, zeros = (
        np.stack([np.where(is_worse, *pair) for pair in zip(*parts, strict=True)], -1)
        for parts in zip(zip(*nearest, strict=True), zip(*groups, strict=True), strict=True)
    )
    scales = np.ldexp(scales, exponent)
    return CodedGroups(steps.reshape(group_size, -1), scales.ravel(), zeros.ravel())


def _damp_moment(moment: np.ndarray, size: int) -> np.ndarray:
    """Return a moment [size, size] with a mean diagonal of about 1, and a part of it added."""
    hessian = np.zeros((size, size), np.float32)
    hessian[: len(moment), : len(moment)] = moment / moment.diagonal().mean(dtype=np.float64)
    hessian[np.diag_indices(size)] += np.float32(_DAMPING)
    return hessian


def _feed_errors(
    weight: np.ndarray, hessian: np.ndarray, bits: int, group_size: int, symmetric: bool
) -> list[CodedGroups]:
    """Round column after column, and add the error of each to those that follow.

    Row j of the upper Cholesky factor of the inverse Hessian says how.
    """
    factor = torch.linalg.cholesky(torch.from_numpy(hessian).double())
    inverse = torch.linalg.cholesky(torch.cholesky_inverse(factor), upper=True)
    feedback = inverse.float().numpy()
    importance = (1 / feedback.diagonal() ** 2)[:, None]
    rest, groups = weight.copy(), []
    for begin in range(0, len(weight), group_size):
        end = begin + group_size
        block, rows = rest[begin:end], feedback[begin:end]
        coded = search_codes(block, bits, symmetric, importance[begin:end])
        errors = np.empty_like(block)
        for column in range(group_size):
            round_steps(block[column], coded.scales, coded.zeros, bits, coded.steps[column])
            error = block[column] - coded.steps[column] * coded.scales
            errors[column] = error / rows[column, begin + column]
            later = rows[column, begin + column + 1 : end, None]
            block[column + 1 :] -= later * errors[column]
        rest[end:] -= rows[:, end:].T @ errors
        groups.append(coded)
    return groups


def _descend_coordinates(
    weight: np.ndarray, groups: list[CodedGroups], hessian: np.ndarray, bits: int
) -> None:
    """Change codes and scales, in place, one at a time, each to its best value given the others."""
    size = len(groups[0].steps)
    gradient = hessian @ _difference(weight, groups)
    for _ in range(_SWEEPS):
        for number, coded in enumerate(groups):
            part = slice(number * size, (number + 1) * size)
            slopes, curvature = gradient[part].copy(), hessian[part, part]
            before = coded.steps * coded.scales
            for column in range(size):
                steps = coded.steps[column].copy()
                target = steps * coded.scales + slopes[column] / curvature[column, column]
                round_steps(target, coded.scales, coded.zeros, bits, coded.steps[column])
                change = (coded.steps[column] - steps) * coded.scales
                slopes -= curvature[:, column, None] * change
            steepness = (coded.steps * (curvature @ coded.steps)).sum(0)
            coded.scales[:] += safe_divide((coded.steps * slopes).sum(0), steepness)
            gradient -= hessian[:, part] @ (coded.steps * coded.scales - before)


def _difference(weight: np.ndarray, groups: list[CodedGroups]) -> np.ndarray:
    """Return the weight minus what the codes stand for."""
    return weight - np.concatenate([coded.steps * coded.scales for coded in groups])


def _row_errors(weight: np.ndarray, groups: list[CodedGroups], hessian: np.ndarray) -> np.ndarray:
    """Return the error of each row [N], weighted by the Hessian."""
    difference = _difference(weight, groups)
    errors: np.ndarray = (difference * (hessian @ difference)).sum(0)
    return errors
