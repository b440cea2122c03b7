"""Select the entries and the part of their forms that a run tests."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortablegen.schemas.registry import import_problem, installed_torch
from tests.rotation import rotation_seed
from tests.specs.test_cases import ENTRIES

from .runner import Entry, Job

TENTH = 10


@dataclass(frozen=True)
class Part:
    """The ``number``-th of ``count`` equal parts of all forms, counted from 0."""

    number: int = 0
    count: int = 1

    def has(self, job: Job) -> bool:
        """Return whether a form belongs to the part; forms are spread evenly and reproducibly."""
        text = f"{job.entry.key} {job.number} {job.form.name}"
        return zlib.crc32(text.encode()) % self.count == self.number


def rotating(count: int, seed: int | None = None) -> Part:
    """Return the part that the commit selects, or part ``seed``."""
    return Part((rotation_seed() if seed is None else seed) % count, count)


def key_of(entry: Entry) -> str:
    """Return ``aten::add.Tensor``, with a version range where an operator has several entries."""
    return entry.key + entry.schema.suffix


def chosen(selection: str = "", part: str = "1/1") -> list[Entry]:
    """Return the entries of a part that the installed torch has and that ``selection`` names."""
    number, _, count = part.partition("/")
    entries = [ENTRIES[key] for key in sorted(ENTRIES)[int(number) - 1 :: int(count)]]
    return [e for e in entries if _is_available(e) and (not selection or _matches(e, selection))]


def _is_available(entry: Entry) -> bool:
    if not entry.versions.has(installed_torch()):
        return False
    return entry.requires is None or import_problem(entry.requires) is None


def _matches(entry: Entry, selection: str) -> bool:
    name = entry.key.partition("::")[2]
    names = (name, name.partition(".")[0], Path(entry.file).stem)
    return any(item in names for item in selection.split())


def deviations(entries: Iterable[Entry]) -> dict[str, Sequence[str]]:
    """Return the declared deviations of entries, as patterns of derived samples."""
    return {
        key_of(entry): [pattern for row in entry.deviates for pattern in row.derived]
        for entry in entries
        if getattr(entry, "deviates", ())
    }
