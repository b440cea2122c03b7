"""Files of a folder that processes share: conversions, decisions of `autotune`, settings of `tune`,
and the processor that the latter were measured on.
In come a path and what it shall hold; called by `cache.disk`, `autotune.decisions` and
`sessions.tune`.

A file appears whole (`write_whole`). A folder is kept within a size and an age: files go that were
not read for longest, and it may be emptied at any time."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import stat
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortable.ir.proto.atomic_files import NEW, write_file

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


class Measurements:
    """Files of what was measured, one for each key: a line of JSON, with the processor in it for
    people. What cannot be read is measured again.

    Args:
        suffix: how the names of the files end.
        parse: makes a value of what a file holds; any exception says that it cannot be used.
    """

    def __init__(self, suffix: str, parse: Callable[[Any], Any]) -> None:
        self._suffix, self._parse = suffix, parse

    def load(self, folder: str | None, key: str) -> Any:
        """What another process measured; None where there is none, or, with a warning, none that
        can be used."""
        if folder is None or not readable(Path(folder)):
            return None
        path = self.path(folder, key)
        try:
            return self._parse(json.loads(path.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:  # whatever a damaged file makes a reader raise
            _warn(f"{path} is not used ({error}): it is measured again.")
            return None

    def save(self, folder: str | None, key: str, value: Mapping[str, Any]) -> None:
        """Write what was measured, where there is a folder."""
        if folder is None:
            return
        path = self.path(folder, key)
        try:
            write_whole(path, json.dumps({**value, "processor": processor()}).encode() + b"\n")
        except OSError as error:
            _warn(f"{path} cannot be written ({error}): other processes measure again.")

    def path(self, folder: str, key: str) -> Path:
        """The file of a key."""
        return Path(folder) / f"{key}{self._suffix}"


def _warn(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=3)


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


@functools.cache
def processor() -> str:
    """The kind of the processors, how many this process may use, and their instructions."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    named = {key.strip(): value.strip() for key, value in told.items()}
    flags = named.get("flags", named.get("Features", ""))
    kind = named.get("model name") or platform.processor() or platform.machine()
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed is not None else os.cpu_count()
    return f"{count} x {kind}, {hashlib.sha256(flags.encode()).hexdigest()[:12]}"
