"""What the commands of the shell ask of a file before they start."""

from __future__ import annotations

from pathlib import Path

from ortable.errors import OptionError


def existing(path: str) -> str:
    """``path`` itself; FileNotFoundError where nothing is, OptionError for a folder."""
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    if Path(path).is_dir():
        raise OptionError(f"{path!r} is a folder; give a file")
    return path
