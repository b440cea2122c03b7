"""The versions of the libraries that ortable is tested with, and what is said of others. Looked
at when `to_onnx` or the backend is first used, never when ortable is imported."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path

from ortable.errors import UntestedVersionWarning, VersionError

# Oldest first. Of each of these the newest release is what the tests run with.
TESTED: dict[str, tuple[str, ...]] = {
    "torch": ("2.13", "2.14", "2.15"),
    "onnx": ("1.23",),
    "onnxruntime": ("1.31", "1.32"),
}

_HERE = str(Path(__file__).parent.parent)
_checked: set[str] = set()


def installed(library: str) -> str:
    """The version of a library, as it tells it itself."""
    return str(getattr(import_module(library), "__version__", "of an unknown version"))


def check_versions(*libraries: str) -> None:
    """Looks once in a process at the version of each library.

    :raises VersionError: one is older than what ortable is tested with
    :warns UntestedVersionWarning: one is newer
    """
    for library in libraries:
        if library not in _checked:
            _check(library, installed(library))
            _checked.add(library)


def _check(library: str, version: str) -> None:
    found, tested = _minor(version), TESTED[library]
    if found is None:
        return  # a build of one's own says nothing
    oldest, newest = tested[0], tested[-1]
    if found < (_minor(oldest) or found):
        raise VersionError(
            f"{library} {version} is older than what ortable works with: {library} {oldest} to "
            f'{newest}. Install it: pip install "{library}>={oldest}"'
        )
    if found > (_minor(newest) or found):
        warnings.warn(
            f"{library} {version} is newer than what ortable is tested with: {library} {oldest} to "
            f"{newest}. Public interfaces are expected to work; an interface that is gone is named "
            "by the error. To silence this: "
            'warnings.filterwarnings("ignore", category=ortable.errors.UntestedVersionWarning)',
            UntestedVersionWarning,
            stacklevel=_users_level(),
        )


def _minor(version: str) -> tuple[int, int] | None:
    """``2.15.0+cu132`` and ``2.16.0.dev20261101`` -> (2, 15) and (2, 16)."""
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _users_level() -> int:
    """How far up the caller is who is neither ortable nor torch, so that the line shown is his."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def _is_library(file: str) -> bool:
    if file.startswith((_HERE, "<")) or file.endswith("contextlib.py"):
        return True
    return "/torch/" in file.replace("\\", "/")
