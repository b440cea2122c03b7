"""Stored decisions of `autotune`: in memory, and in files of `cache_dir` for other processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ortable.backend.cache.keys import disk_key
from ortable.backend.store import DECISION, Store, Uncacheable, describe_processor, encode_as_json

from .trial import CANDIDATES, Decision


class Decisions:
    """Decisions about one graph, by the class of its sizes.

    Args:
        parts: the session keys of the parts that ONNX Runtime runs, and any digest of the graph
            around them. If a part has no key (None), no decision is stored.
        folder: a folder that shares decisions with other processes; None for no folder.
    """

    def __init__(self, parts: Sequence[str | None], folder: str | None) -> None:
        self._folder = folder
        self._parts = None if None in parts else list(parts)

    def find_decision(self, size_class: tuple[int, ...]) -> Decision | None:
        """Find the decision for a class of sizes that this process or an earlier one stored."""
        key, name = self.make_keys(size_class)
        decision = STORE.get(key) if key else None
        return STORE.load(self._folder, name) if name and decision is None else decision

    def store_decision(self, size_class: tuple[int, ...], decision: Decision) -> None:
        """Store a decision in memory and in the folder."""
        key, name = self.make_keys(size_class)
        if key:
            STORE.put(key, decision)
        if name:
            STORE.save(self._folder, name, decision)

    def make_keys(self, size_class: tuple[int, ...]) -> tuple[str, str]:
        """Return the key of a class of sizes in this process, and the name of its file.

        The name also depends on the installed versions. Key and name are empty if a session key is
        missing; the name is empty if the user's specs contain functions (`disk_key`).
        """
        if self._parts is None:
            return "", ""
        text = json.dumps([self._parts, size_class, describe_processor()])
        key = hashlib.sha256(text.encode()).hexdigest()
        try:
            return key, disk_key(key)
        except Uncacheable:
            return key, ""


def _decode_decision(_: str, content: bytes) -> Decision:
    fields = json.loads(content)
    kept, seconds = fields["kept"], {k: float(v) for k, v in fields["seconds"].items()}
    if kept not in seconds or not seconds.keys() <= set(CANDIDATES):
        raise ValueError(f"{kept!r} of {sorted(seconds)} is not a candidate")
    return Decision(kept, seconds)  # type: ignore[arg-type]


STORE: Store[Decision] = Store(DECISION, encode_as_json, _decode_decision)
