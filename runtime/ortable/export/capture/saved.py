"""Saves the exported program that a model was made from: the .pt2 file of torch.export.save, and
the graph as text beside it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from torch.export import ExportedProgram

from ortable.errors import ExportError


def save_program(exported: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Write ``exported`` to ``path`` and its text to ``<path>.graph``; each file appears whole or
    not at all.

    Raises ExportError when the folder is missing, or torch cannot serialise the program (weights
    without data, inputs of a class without a serialised name).
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ExportError(f"folder '{target.parent}' of ExportOptions.save_ep does not exist")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        program, text = Path(folder) / "program.pt2", Path(folder) / "program.graph"
        try:
            torch.export.save(exported, str(program))
        except Exception as error:  # torch's serialiser raises its own and builtin classes
            raise ExportError(
                f"ExportOptions.save_ep: torch cannot save the exported program: "
                f"{type(error).__name__}: {error}"
            ) from error
        text.write_text(str(exported), encoding="utf-8")
        os.replace(program, target)
        os.replace(text, f"{target}.graph")
