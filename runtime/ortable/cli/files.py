"""What the commands of the shell ask of a file before they start."""

from __future__ import annotations

import os
from pathlib import Path

from ortable.errors import OptionError


def existing(path: str) -> str:
    """``path`` itself; FileNotFoundError where nothing is, OptionError for a folder or a file with
    nothing in it."""
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    if Path(path).is_dir():
        raise OptionError(f"{path!r} is a folder; give a file")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise OptionError(f"{path!r} is empty")
    return path


def writable(path: str) -> str:
    """``path`` itself, of a file to write; OptionError where it cannot be written."""
    file = Path(path)
    if not path:
        raise OptionError(f"{path!r} is no file to write")
    if not file.parent.is_dir():
        raise OptionError(f"folder '{file.parent}' does not exist")
    if file.is_dir():
        raise OptionError(f"'{path}' cannot be written: it is a folder")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OptionError(f"'{path}' cannot be written")
    return path


def folder(path: str) -> str:
    """``path`` itself, of a folder that may not be there yet; OptionError where none can be."""
    place = Path(path)
    while path and not place.exists():
        place = place.parent
    if not path or not place.is_dir():
        raise OptionError(f"{path!r} cannot be a folder: '{place}' is none")
    if not os.access(place, os.W_OK):
        raise OptionError(f"{path!r} cannot be written: folder '{place}' is closed")
    return path
