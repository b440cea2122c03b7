"""Decisions that were taken before: in this process by key, for others in files of `cache_dir`. In
come what was compiled and the class of the sizes, out comes a Decision; called by `tuned`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ortable.backend.cache.graph_key import Uncacheable
from ortable.backend.cache.keys import disk_key
from ortable.backend.folder import DECISION, Measurements, processor

from .trial import Decision

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
        self._folder = folder
        self._parts = None if any(part is None for part in parts) else list(parts)

    def find(self, sizes: tuple[int, ...]) -> Decision | None:
        """The decision for a class of sizes, of this process or of an earlier one."""
        key = self._key(sizes)
        found = None if key is None else _taken.get(key)
        if found is None and key is not None:
            name = self._name(key)
            found = None if name is None else _FILES.load(self._folder, name)
        return found

    def keep(self, sizes: tuple[int, ...], decision: Decision) -> None:
        """Notes a decision."""
        key = self._key(sizes)
        if key is None:
            return
        if len(_taken) >= _MOST:
            _taken.clear()
        _taken[key] = decision
        name = self._name(key)
        if name is not None:
            _FILES.save(self._folder, name, asdict(decision))

    def _key(self, sizes: tuple[int, ...]) -> str | None:
        if self._parts is None:
            return None
        text = json.dumps([self._parts, sizes, processor()])
        return hashlib.sha256(text.encode()).hexdigest()

    def _name(self, key: str) -> str | None:
        """The key for other processes, with the installed versions in it, too."""
        try:
            return disk_key(key)
        except Uncacheable:
            return None


def _parse(told: Any) -> Decision:
    kept, ours, torchs = told["kept"], float(told["onnxruntime"]), float(told["torch"])
    if kept not in ("onnxruntime", "torch"):
        raise ValueError(f"{kept!r} is no candidate")
    return Decision(kept, ours, torchs)


_FILES = Measurements(DECISION, _parse)
