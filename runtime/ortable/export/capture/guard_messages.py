"""What the caller hears about the conditions on sizes under which a model is the module: a warning
or an error, as ``ExportOptions.guards`` says. to_onnx.py calls it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ortable.errors import ExportError
from ortable.export.request.record import Guard
from ortable.export.signature.dimension_names import callers_level

_MOST = 8  # that are quoted

_REMEDY = (
    "For other sizes its results may be wrong. Take the branch out of the model, write it with "
    "torch.cond, give the dimension a torch.export.Dim with a range in which the condition holds, "
    "or export a model for each side. ExportOptions(guards='ignore') leaves this out; the model's "
    "metadata has it under 'ortable.guards'."
)


def tell_guards(guards: Sequence[Guard], way: str) -> None:
    """Warn about the guards, or raise ExportError; nothing when there are none, or they are to be
    ignored."""
    if not guards or way == "ignore":
        return
    lines = [f"  {guard}" for guard in guards[:_MOST]]
    if len(guards) > _MOST:
        lines.append(f"  ... and {len(guards) - _MOST} more")
    text = "\n".join(["the model holds only for sizes with", *lines, _REMEDY])
    if way == "error":
        raise ExportError(text)
    warnings.warn(text, UserWarning, stacklevel=callers_level())
