"""Compare results with eager strictly, element by element, and classify the difference.

The sign of a zero counts. Where torch and ONNX do not define it (the larger of 0.0 and -0.0, a sum
that begins at 0.0, a power), `known.yaml` lists the entry with that reason.
"""

from __future__ import annotations

import torch

from ortable.testing.entries import TOLERANCES

Difference = tuple[str, str]

# a difference within this multiple of the tolerance is imprecise
IMPRECISE = 50.0


def bound_of(dtype: torch.dtype, scale: float) -> float:
    """Return the tolerance of floats of a dtype, relative and absolute."""
    return TOLERANCES[dtype] * scale


def difference(
    result: torch.Tensor, eager: torch.Tensor, scale: float = 1.0, norm: bool = False
) -> Difference | None:
    """Return the kind and the text of a difference: dtype, shape, nan, inf, value, sign...

    ``scale`` multiplies the tolerance; ``norm`` makes it relative to the largest finite number.
    """
    if result.dtype != eager.dtype:
        return "dtype", f"{result.dtype}, eager has {eager.dtype}"
    if tuple(result.shape) != tuple(eager.shape):
        return "shape", f"{tuple(result.shape)}, eager has {tuple(eager.shape)}"
    if eager.dtype not in TOLERANCES:
        wrong = result != eager
        return ("value", _describe_first(wrong, result, eager)) if bool(wrong.any()) else None
    return _compare_floats(result.detach(), eager.detach(), bound_of(eager.dtype, scale), norm)


def _compare_floats(
    result: torch.Tensor, eager: torch.Tensor, bound: float, norm: bool
) -> Difference | None:
    ours, theirs = result.double(), eager.double()
    for kind, wrong in (
        ("nan", ours.isnan() != theirs.isnan()),
        (
            "inf",
            (ours != theirs) & (ours.isinf() | theirs.isinf()) & ~ours.isnan() & ~theirs.isnan(),
        ),
    ):
        if bool(wrong.any()):
            return kind, _describe_first(wrong, result, eager)
    finite = ours.isfinite() & theirs.isfinite()
    gap = torch.where(finite, (ours - theirs).abs(), 0.0)
    size = torch.where(finite, theirs.abs(), 0.0)
    if norm and size.numel():
        size = size.max().expand_as(size)
    limit = bound + bound * size
    wrong = gap > limit
    if bool(wrong.any()):
        kind = "imprecise" if bool((gap <= limit * IMPRECISE).all()) else "value"
        return kind, _describe_first(wrong, result, eager)
    wrong = (ours == 0) & (theirs == 0) & (ours.signbit() != theirs.signbit())
    return ("sign", _describe_first(wrong, result, eager)) if bool(wrong.any()) else None


def _describe_first(wrong: torch.Tensor, result: torch.Tensor, eager: torch.Tensor) -> str:
    index = tuple(int(i) for i in wrong.nonzero()[0].tolist())
    count = int(wrong.sum())
    value, eager_value = result[index].item(), eager[index].item()
    return f"{value} at {index}, eager has {eager_value}; {count} of {wrong.numel()}"
