"""Detect whether anything changed since codegen last ran, by a digest of its inputs and outputs.

`__main__` checks the digest before it imports torch; `cli` writes it after a ``generate`` without
errors. ``python -m ortablegen check`` ignores the digest: it generates and compares everything.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

PLACE = Path("build") / "codegen.stamp"
# Inputs and outputs of codegen. The runtime is an input, since specs call its functions.
_FOLDERS = ("specs", "codegen/ortablegen", "runtime/ortable", "generated")
_PAGES = ("docs/operators.md", "docs/optimizers.md", "docs/sessions.md", "docs/language.md")
_LIBRARIES = ("torch", "onnx", "onnxruntime", "jinja2", "pyyaml")


def is_unchanged(root: Path) -> bool:
    """Whether the stamp of ``root`` equals the digest of its current files."""
    try:
        return (root / PLACE).read_text(encoding="utf-8") == digest(root)
    except OSError:
        return False


def write_stamp(root: Path) -> None:
    """Write the stamp of ``root``; call this only after a run without errors."""
    path = root / PLACE
    path.parent.mkdir(exist_ok=True)
    path.write_text(digest(root), encoding="utf-8")


def digest(root: Path) -> str:
    """Return a SHA-256 over codegen's files and the versions of Python and of its libraries."""
    state = hashlib.sha256(platform.python_version().encode())
    for library in _LIBRARIES:
        state.update(f"{library} {_version(library)}\n".encode())
    for path in _files(root):
        data = path.read_bytes()
        state.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "none"


def _files(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        paths = (root / folder).rglob("*")
        yield from sorted(p for p in paths if "__pycache__" not in p.parts and p.is_file())
    yield from (root / page for page in _PAGES if (root / page).is_file())
