"""The tested versions of libraries, and the check of the installed versions.

The check runs when `to_onnx` or the backend is first used, not when ortable is imported.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path

from ortable.errors import UntestedVersionWarning, VersionError

# Oldest first. The tests run with the newest release of each of these versions.
TESTED: dict[str, tuple[str, ...]] = {
    "torch": ("2.13", "2.14", "2.15"),
    "onnx": ("1.23",),
    "onnxruntime": ("1.31", "1.32"),
}

_HERE = str(Path(__file__).parent.parent)
_checked: set[str] = set()


def installed_version(library: str) -> str:
    """Return the version that a library reports."""
    return str(getattr(import_module(library), "__version__", "of an unknown version"))


def check_versions(*libraries: str) -> None:
    """Check the version of each library, once per process.

    A version newer than the tested ones causes an UntestedVersionWarning.

    Args:
        *libraries: names of packages.

    Raises:
        VersionError: a library is older than the tested versions.
    """
    for library in libraries:
        if library not in _checked:
            _check_version(library, installed_version(library))
            _checked.add(library)


def _check_version(library: str, version: str) -> None:
    minor, tested = _parse_minor(version), TESTED[library]
    if minor is None:
        return  # a local build without a release number
    oldest, newest = tested[0], tested[-1]
    if minor < (_parse_minor(oldest) or minor):
        raise VersionError(
            f"{library} {version} is older than the supported versions: {library} {oldest} to "
            f'{newest}. Install it: pip install "{library}>={oldest}"'
        )
    if minor > (_parse_minor(newest) or minor):
        warnings.warn(
            f"{library} {version} is newer than the tested versions: {library} {oldest} to "
            f"{newest}. Public interfaces are expected to work; if one is missing, the error names "
            "it. To silence this: "
            'warnings.filterwarnings("ignore", category=ortable.errors.UntestedVersionWarning)',
            UntestedVersionWarning,
            stacklevel=_caller_stacklevel(),
        )


def _parse_minor(version: str) -> tuple[int, int] | None:
    """Parse ``2.15.0+cu132`` as (2, 15); return None for a text without a release number."""
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _caller_stacklevel() -> int:
    """Return the stack level of the first caller outside of ortable and torch, for warnings."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_library_file(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def _is_library_file(file: str) -> bool:
    if file.startswith((_HERE, "<")) or file.endswith("contextlib.py"):
        return True
    return "/torch/" in file.replace("\\", "/")
