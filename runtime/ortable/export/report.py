"""The report of a conversion, in Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .record import ExportRecord


def write_report(path: str | os.PathLike[str], record: ExportRecord, model: Any) -> None:
    """Write the report of ``model``, a ModelProto or LargeModel, to ``path``."""
    rows = [f"| {phase} | {seconds:.3f} |" for phase, seconds in record.seconds.items()]
    lines = ["# Export", "", "| phase | seconds |", "|---|---:|", *rows, ""]
    Path(path).write_text("\n".join(lines), encoding="utf-8")
