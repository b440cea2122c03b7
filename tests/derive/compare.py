"""Strict comparison with eager, element by element, and the kind of a difference.

In: what a session gave and what eager gives. Out: None, or (kind, text). Called by `runner`.

The sign of a zero counts everywhere. Where torch and ONNX promise none (the larger one of 0.0 and
-0.0, a sum that begins at 0.0, a power) `known.yaml` lists the entry with that reason.
"""

from __future__ import annotations

import torch

from ortable.testing.entries import TOLERANCES

Difference = tuple[str, str]

# within so many times the tolerance a difference is one of precision
IMPRECISE = 50.0


def bound_of(dtype: torch.dtype, scale: float) -> float:
    """The tolerance of floats of a dtype, relative and absolute."""
    return TOLERANCES[dtype] * scale


def difference(
    got: torch.Tensor, want: torch.Tensor, scale: float = 1.0, norm: bool = False
) -> Difference | None:
    """How ``got`` differs from eager's ``want``: in dtype, shape, NaN, infinity, value, precision
    or the sign of a zero. ``scale`` multiplies the tolerance of the dtype; with ``norm`` it is
    relative to the largest finite number of ``want``."""
    if got.dtype != want.dtype:
        return "dtype", f"{got.dtype}, eager has {want.dtype}"
    if tuple(got.shape) != tuple(want.shape):
        return "shape", f"{tuple(got.shape)}, eager has {tuple(want.shape)}"
    if want.dtype not in TOLERANCES:
        wrong = got != want
        return ("value", _at(wrong, got, want)) if bool(wrong.any()) else None
    return _of_floats(got.detach(), want.detach(), bound_of(want.dtype, scale), norm)


def _of_floats(
    got: torch.Tensor, want: torch.Tensor, bound: float, norm: bool
) -> Difference | None:
    g, w = got.double(), want.double()
    for kind, wrong in (
        ("nan", g.isnan() != w.isnan()),
        ("inf", (g != w) & (g.isinf() | w.isinf()) & ~g.isnan() & ~w.isnan()),
    ):
        if bool(wrong.any()):
            return kind, _at(wrong, got, want)
    finite = g.isfinite() & w.isfinite()
    gap = torch.where(finite, (g - w).abs(), 0.0)
    size = torch.where(finite, w.abs(), 0.0)
    if norm and size.numel():
        size = size.max().expand_as(size)
    allowed = bound + bound * size
    wrong = gap > allowed
    if bool(wrong.any()):
        kind = "imprecise" if bool((gap <= allowed * IMPRECISE).all()) else "value"
        return kind, _at(wrong, got, want)
    wrong = (g == 0) & (w == 0) & (g.signbit() != w.signbit())
    return ("sign", _at(wrong, got, want)) if bool(wrong.any()) else None


def _at(wrong: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> str:
    place = tuple(int(i) for i in wrong.nonzero()[0].tolist())
    count = int(wrong.sum())
    here, there = got[place].item(), want[place].item()
    return f"{here} at {place}, eager has {there}; {count} of {wrong.numel()}"
