"""Decisions that were taken before: in this process by key, for others in files of `cache_dir`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ortable.backend.cache.keys import disk_key
from ortable.backend.store import DECISION, Store, Uncacheable, encode_measured, processor

from .trial import Decision


class Decisions:
    """What was decided about one graph, by the class of its sizes.

    Args:
        parts: keys of what ONNX Runtime runs of it, and the text of what else there is; None where
            it has no key, so that nothing is kept.
        folder: where other processes find it, too; None: nowhere.
    """

    def __init__(self, parts: Sequence[str | None], folder: str | None) -> None:
        self._folder = folder
        self._parts = None if None in parts else list(parts)

    def find(self, sizes: tuple[int, ...]) -> Decision | None:
        """The decision for a class of sizes, of this process or of an earlier one."""
        key, name = self.names(sizes)
        found = STORE.get(key) if key else None
        return STORE.load(self._folder, name) if name and found is None else found

    def keep(self, sizes: tuple[int, ...], decision: Decision) -> None:
        """Note a decision."""
        key, name = self.names(sizes)
        if key:
            STORE.put(key, decision)
        if name:
            STORE.save(self._folder, name, decision)

    def names(self, sizes: tuple[int, ...]) -> tuple[str, str]:
        """The key of a class of sizes in this process, and the name of its file, which has the
        installed versions in it, too; empty where there is none."""
        if self._parts is None:
            return "", ""
        text = json.dumps([self._parts, sizes, processor()])
        key = hashlib.sha256(text.encode()).hexdigest()
        try:
            return key, disk_key(key)
        except Uncacheable:
            return key, ""


def _decode(_: str, file: bytes) -> Decision:
    told = json.loads(file)
    kept, ours, torchs = told["kept"], float(told["onnxruntime"]), float(told["torch"])
    if kept not in ("onnxruntime", "torch"):
        raise ValueError(f"{kept!r} is no candidate")
    return Decision(kept, ours, torchs)


STORE: Store[Decision] = Store(DECISION, encode_measured, _decode)
