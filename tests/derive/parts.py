"""Which entries and which forms a run takes.

In: names, parts, the commit. Out: entries, and a `Part` of the forms. Called by ``__main__`` and
test_rotating.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortablegen.schemas.registry import import_problem, installed_torch
from tests.rotation import turn
from tests.specs.test_cases import ENTRIES

from .runner import Entry, Job

TENTH = 10


@dataclass(frozen=True)
class Part:
    """The ``number``-th of ``count`` equal parts of all forms, counted from 0."""

    number: int = 0
    count: int = 1

    def has(self, job: Job) -> bool:
        """Whether a form is of the part; forms are spread evenly, always in the same way."""
        text = f"{job.entry.key} {job.number} {job.form.name}"
        return zlib.crc32(text.encode()) % self.count == self.number


def rotating(count: int, seed: int | None = None) -> Part:
    """The part whose turn it is, or the one that ``seed`` says."""
    return Part((turn() if seed is None else seed) % count, count)


def key_of(entry: Entry) -> str:
    """``aten::add.Tensor``, with the range of versions where an operator has several entries."""
    return entry.key + entry.schema.suffix


def chosen(words: str = "", part: str = "1/1") -> list[Entry]:
    """The entries of a part, of those that the installed torch has and that ``words`` name."""
    number, _, count = part.partition("/")
    entries = [ENTRIES[key] for key in sorted(ENTRIES)[int(number) - 1 :: int(count)]]
    return [each for each in entries if _is_here(each) and (not words or _named(each, words))]


def _is_here(entry: Entry) -> bool:
    if not entry.versions.has(installed_torch()):
        return False
    return entry.requires is None or import_problem(entry.requires) is None


def _named(entry: Entry, words: str) -> bool:
    name = entry.key.partition("::")[2]
    names = (name, name.partition(".")[0], Path(entry.file).stem)
    return any(word in names for word in words.split())


def deviations(entries: Iterable[Entry]) -> dict[str, Sequence[str]]:
    """What entries declare as deviations of ONNX Runtime, as patterns of derived samples."""
    return {
        key_of(entry): [pattern for each in entry.deviates for pattern in each.derived]
        for entry in entries
        if getattr(entry, "deviates", ())
    }
