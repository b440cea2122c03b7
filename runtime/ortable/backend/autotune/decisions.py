"""Decisions that were taken before: in this process by key, for others in files of `cache_dir`. In
come what was compiled and the class of the sizes, out comes a Decision; called by `tuned`.

A file is a line of JSON, named by its key, with the processor in it for people; it is moved into
its place when it is whole. What cannot be read is measured again."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from ortable.backend.cache.graph_key import Uncacheable
from ortable.backend.cache.keys import disk_key
from ortable.backend.folder import DECISION, readable, write_whole
from ortable.backend.processor import processor

from .trial import Decision

__all__ = ["Decisions", "forget"]

_MOST = 4096
_taken: dict[str, Decision] = {}


def forget() -> None:
    """Forgets what this process decided."""
    _taken.clear()


class Decisions:
    """What was decided about one graph, by the class of its sizes.

    :param parts: keys of what ONNX Runtime runs of it, and the text of what else there is; None
        where it has no key, so that nothing is kept
    :param folder: where other processes find it, too; None: nowhere
    """

    def __init__(self, parts: Sequence[str | None], folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._parts = None if any(part is None for part in parts) else list(parts)

    def find(self, sizes: tuple[int, ...]) -> Decision | None:
        """The decision for a class of sizes, of this process or of an earlier one."""
        key = self._key(sizes)
        found = None if key is None else _taken.get(key)
        if found is None and key is not None:
            path = self._path(key)
            found = None if path is None or not readable(path.parent) else _load(path)
        return found

    def keep(self, sizes: tuple[int, ...], decision: Decision) -> None:
        """Notes a decision."""
        key = self._key(sizes)
        if key is None:
            return
        if len(_taken) >= _MOST:
            _taken.clear()
        _taken[key] = decision
        path = self._path(key)
        if path is not None:
            _save(path, decision)

    def _key(self, sizes: tuple[int, ...]) -> str | None:
        if self._parts is None:
            return None
        text = json.dumps([self._parts, sizes, processor()])
        return hashlib.sha256(text.encode()).hexdigest()

    def _path(self, key: str) -> Path | None:
        """The file of a decision, whose name has the installed versions in it, too."""
        if self._folder is None:
            return None
        try:
            return self._folder / f"{disk_key(key)}{DECISION}"
        except Uncacheable:
            return None


def _load(path: Path) -> Decision | None:
    try:
        told = json.loads(path.read_text())
        kept, ours, torchs = told["kept"], float(told["onnxruntime"]), float(told["torch"])
        if kept not in ("onnxruntime", "torch"):
            raise ValueError(f"{kept!r} is no candidate")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # whatever a damaged file makes a reader raise
        _warn(f"{path} is not used ({error}): the graph is measured again.")
        return None
    return Decision(kept, ours, torchs)


def _save(path: Path, decision: Decision) -> None:
    told = {
        "kept": decision.kept,
        "onnxruntime": decision.onnxruntime,
        "torch": decision.torch,
        "processor": processor(),
    }
    try:
        write_whole(path, json.dumps(told).encode() + b"\n")
    except OSError as error:
        _warn(f"{path} cannot be written ({error}): other processes measure again.")


def _warn(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=2)
