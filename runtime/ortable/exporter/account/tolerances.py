"""How far floats may be from eager torch's: one table for validation of a model, the check of an
exported program, and the comparison of the debug backend. In comes the name of a dtype, out goes a
`Tolerance`. Called by `validate.py`, `capture/check.py` and `debug/comparing`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


class Tolerance(NamedTuple):
    """A value may be off by ``atol + rtol * abs(eager's)``."""

    atol: float
    rtol: float


EXACT = Tolerance(0.0, 0.0)
_FLOATS = {
    "float64": Tolerance(atol=1e-9, rtol=1e-7),
    "float32": Tolerance(atol=1e-4, rtol=1e-3),
    "float16": Tolerance(atol=1e-2, rtol=1e-2),
    "bfloat16": Tolerance(atol=5e-2, rtol=5e-2),
}


def tolerance_of(dtype: object) -> Tolerance:
    """The tolerance of a dtype of torch or numpy, or of its name; integers and booleans are
    equal."""
    return _FLOATS.get(str(dtype).removeprefix("torch."), EXACT)


@dataclass(frozen=True)
class AskedTolerance:
    """How far a float may be from eager's: ``atol + rtol * abs(eager's)``; by dtype where nothing
    is given."""

    atol: float | None = None
    rtol: float | None = None

    def of(self, dtype: torch.dtype) -> Tolerance:
        """The tolerance of a dtype; none for integers and booleans."""
        if not dtype.is_floating_point:
            return EXACT
        default = tolerance_of(dtype)
        return Tolerance(
            default.atol if self.atol is None else self.atol,
            default.rtol if self.rtol is None else self.rtol,
        )
