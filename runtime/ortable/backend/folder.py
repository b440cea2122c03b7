"""Files of a folder that processes share: conversions, decisions of `autotune`, settings of `tune`.
In come a path and what it shall hold; called by `cache.disk`, `autotune.decisions` and
`sessions.tune`.

A file appears whole (`write_whole`). A folder is kept within a size and an age: files go that were
not read for longest, and it may be emptied at any time."""

from __future__ import annotations

import contextlib
import os
import stat
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from ortable.ir.proto.atomic_files import NEW, write_file

__all__ = ["CONVERSION", "DECISION", "SETTINGS", "Limits", "bound", "readable", "write_whole"]

CONVERSION, DECISION, SETTINGS = ".ortable", ".autotune", ".tuned.json"  # suffixes
_KEPT = (CONVERSION, DECISION, SETTINGS)  # what counts, and may go
_ABANDONED = 3600  # seconds: what a process that is gone has not finished writing
_LOOK = 600  # seconds between two looks at a folder that cannot be too large

_refused: set[str] = set()  # folders that were warned about
_folders: dict[str, tuple[int, float]] = {}  # bytes in a folder, and when they were counted


@dataclass(frozen=True)
class Limits:
    """How large a folder may grow (bytes), and how long a file stays that nobody reads (seconds);
    0: no limit."""

    size: int = 0
    seconds: float = 0


def readable(folder: Path) -> bool:
    """Whether what lies in a folder may be put to use: it is this user's, or root's, and not
    everybody may write into it. Where it is not, a warning says so, once a folder.

    What is read from a folder decides what runs and where memory lies: who writes into it is
    trusted as who wrote the program."""
    owner = getattr(os, "getuid", None)
    if owner is None:
        return True  # Windows, whose folders have no such owner or mode
    try:
        state = folder.stat()
    except OSError:
        return True  # it is made when something is written
    wrong = None
    if state.st_uid not in (owner(), 0):
        wrong = "it belongs to another user"
    elif state.st_mode & stat.S_IWOTH:
        wrong = "everybody may write into it"
    if wrong is not None and str(folder) not in _refused:
        _refused.add(str(folder))
        warnings.warn(
            f"ortable: nothing is read from the folder {str(folder)!r}: {wrong}. Give cache_dir a "
            "folder of your own.",
            RuntimeWarning,
            stacklevel=2,
        )
    return wrong is None


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file in its place when all of it is written, and makes the folder.

    :raises OSError: the folder does not let it; nothing is left behind
    """
    path.parent.mkdir(0o755, parents=True, exist_ok=True)  # not writable by all, as `readable`
    write_file(path, content)


def bound(written: Path, size: int, limits: Limits) -> None:
    """Removes what is too old or too much of a folder into which a file was written; it is read
    through only now and then, and when it may be too large."""
    folder = str(written.parent)
    total, looked = _folders.get(folder, (0, 0.0))
    now = time.time()
    if looked and now - looked < _LOOK and (not limits.size or total + size <= limits.size):
        _folders[folder] = (total + size, looked)
        return
    _folders[folder] = (_prune(written, limits, now), now)


def _prune(written: Path, limits: Limits, now: float) -> int:
    """The bytes that are left of a folder."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(written.parent) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                state = entry.stat()
                if entry.name.endswith(_KEPT):
                    found.append((state.st_mtime, state.st_size, entry.path))
                elif entry.name.startswith(NEW) and now - state.st_mtime > _ABANDONED:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):  # the one that was used longest ago first
        old = limits.seconds and now - used > limits.seconds
        much = limits.size and total > limits.size
        if (old or much) and path != str(written):
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
    return total
