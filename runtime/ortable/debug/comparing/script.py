"""The program of a difference: one operator, called in eager and through ortable, on the values
that it had. In come a node and its arguments, out come the text of a script and the tensors that
it reads; called for the first difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ortable.errors import OptionError

if TYPE_CHECKING:
    from .records import Difference

__all__ = ["save_script"]


def save_script(difference: Difference, path: Path) -> Path:
    """Writes the script of a difference, and its tensors into the file that the script reads.

    :raises OptionError: there is no script
    """
    if not difference.script:
        raise OptionError(f"FX node '{difference.node}' has no script: it is not one call alone.")
    path.write_text(difference.script, encoding="utf-8")
    if difference.tensors:
        torch.save(dict(difference.tensors), path.with_suffix(".pt"))
    return path
