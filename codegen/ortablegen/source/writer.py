"""Write changed files of the generated tree, and delete files that no spec generates any more."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WriteReport:
    """The changes of a run, as sorted paths relative to the root; a count of unchanged files."""

    written: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: int


def compare_tree(files: Mapping[str, str], root: Path) -> WriteReport:
    """Return the changes that :func:`write_tree` would make, without making them."""
    changed = [name for name, text in files.items() if _read_bytes(root / name) != text.encode()]
    return WriteReport(
        tuple(sorted(changed)), tuple(_find_orphans(files, root)), len(files) - len(changed)
    )


def write_tree(files: Mapping[str, str], root: Path) -> WriteReport:
    """Replace and delete files one by one until ``root`` has exactly ``files`` (path -> text).

    Each replacement is atomic. Folders ``__pycache__`` stay.
    """
    report = compare_tree(files, root)
    for name in report.written:
        _replace_file(root / name, files[name].encode())
    for name in report.deleted:
        (root / name).unlink()
        _remove_empty_parents((root / name).parent, root)
    return report


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _find_orphans(files: Mapping[str, str], root: Path) -> list[str]:
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(name for name in names if name not in files and "__pycache__" not in name)


def _replace_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def _remove_empty_parents(folder: Path, root: Path) -> None:
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
