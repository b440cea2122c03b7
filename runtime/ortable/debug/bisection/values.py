"""What one run of a model leaves behind, and how two runs differ. In come results, gradients and
buffers, out comes a text that says which value differs most, or None; called by `runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.exporter.account.tolerances import EXACT, Tolerance, tolerance_of

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Tolerances:
    """How far floats may be from eager's: by dtype where nothing is given."""

    atol: float | None = None
    rtol: float | None = None

    def of(self, dtype: torch.dtype) -> Tolerance:
        """The tolerance of a dtype; none for integers and booleans."""
        if dtype.is_complex:
            dtype = torch.float64 if dtype is torch.complex128 else torch.float32
        default = tolerance_of(dtype)
        if default == EXACT:
            return EXACT
        return Tolerance(
            default.atol if self.atol is None else self.atol,
            default.rtol if self.rtol is None else self.rtol,
        )


def collected(prefix: str, tree: Any) -> dict[str, Any]:
    """The leaves of a result by their path, tensors as copies."""
    found: dict[str, Any] = {}
    for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
        value = leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        found[prefix + pytree.keystr(path)] = value
    return found


def differing(expected: Values, got: Values, tolerances: Tolerances) -> str | None:
    """The first value that differs, in words; None where all agree."""
    for name, value in expected.items():
        if name not in got:
            return f"{name} is missing"
        what = _difference(value, got[name], tolerances)
        if what is not None:
            return f"{name}: {what}"
    return None


def _difference(expected: Any, got: Any, tolerances: Tolerances) -> str | None:
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return _plain(expected, got)
    if expected.dtype != got.dtype:
        return f"dtype {got.dtype} in place of {expected.dtype}"
    if expected.shape != got.shape:
        return f"shape {list(got.shape)} in place of {list(expected.shape)}"
    if not expected.numel() or expected.layout is not torch.strided:
        return None
    atol, rtol = tolerances.of(expected.dtype)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    a, b = expected.detach().cpu().to(wide), got.detach().cpu().to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    gap = (a - b).abs().masked_fill(same, 0.0)
    wrong = ~same & ~(gap <= atol + rtol * a.abs())
    count = int(wrong.sum())
    if not count:
        return None
    gap = gap.nan_to_num(nan=float("inf")).masked_fill(~wrong, -1.0)
    flat = int(gap.flatten().argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(flat), gap.shape)]
    here = f" at {place}" if place else ""
    return (
        f"{count} of {wrong.numel()} values, most{here}: {b.flatten()[flat].item():g} in place of "
        f"{a.flatten()[flat].item():g} (atol {atol:g}, rtol {rtol:g})"
    )


def _plain(expected: Any, got: Any) -> str | None:
    if type(expected) is not type(got):
        return f"{type(got).__name__} in place of {type(expected).__name__}"
    if isinstance(expected, float):
        return _difference(
            torch.tensor(expected, dtype=torch.float64),
            torch.tensor(got, dtype=torch.float64),
            Tolerances(),
        )
    if isinstance(expected, bool | int | str | complex) and expected != got:
        return f"{got!r} in place of {expected!r}"
    return None
