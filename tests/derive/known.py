"""Read ``known.yaml``, the derived samples that are known to fail, and judge outcomes by it.

The list only shrinks. A pattern matches the kind of the outcome and the name of the derived sample,
such as ``nan float16/+inf``; ``*`` matches any text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from .runner import Outcome

FILE = Path(__file__).with_name("known.yaml")


@dataclass
class Known:
    """The patterns of each entry, and those that matched a failure."""

    patterns: dict[str, list[str]]
    used: set[tuple[str, str]] = field(default_factory=set)

    def unknown(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Return the failures that no pattern matches."""
        failures = []
        for outcome in outcomes:
            if not outcome.fails:
                continue
            text = f"{outcome.kind} {outcome.name}"
            matching = [p for p in self.patterns.get(outcome.entry, ()) if fnmatchcase(text, p)]
            self.used.update((outcome.entry, pattern) for pattern in matching)
            if not matching:
                failures.append(outcome)
        return failures

    def stale(self, entries: Iterable[str]) -> list[str]:
        """Return the patterns of completely tested entries that matched no failure."""
        return [
            f"{entry}: {pattern}"
            for entry in entries
            for pattern in self.patterns.get(entry, ())
            if (entry, pattern) not in self.used
        ]


def read_known(deviations: dict[str, Sequence[str]] | None = None) -> Known:
    """Return the list, with the deviations that entries declare."""
    patterns: dict[str, list[str]] = {}
    for group in yaml.safe_load(FILE.read_text())["groups"]:
        assert group["why"].strip(), "a group of known failures needs a reason"
        for entry, entry_patterns in group["entries"].items():
            patterns.setdefault(entry, []).extend(entry_patterns)
    for entry, declared in (deviations or {}).items():
        patterns.setdefault(entry, []).extend(declared)
    return Known(patterns)


def families() -> list[str]:
    """Return the files of specs/aten whose derived samples have been reviewed."""
    names: list[str] = yaml.safe_load(FILE.read_text())["families"]
    return names


def shortened(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return patterns for failures: the fills or the forms, for each entry and kind."""
    patterns_by_entry: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        form, _, fill = outcome.name.rpartition("/")
        fails = outcome.kind in ("convert", "model", "session", "died", "shape", "dtype")
        if outcome.kind == "sign":
            patterns_by_entry.setdefault(outcome.entry, {})["sign *"] = None
            continue
        pattern = (
            f"{outcome.kind} {form}/*" if fails or fill == "drawn" else f"{outcome.kind} */{fill}"
        )
        patterns_by_entry.setdefault(outcome.entry, {})[pattern] = None
    return {entry: sorted(patterns) for entry, patterns in sorted(patterns_by_entry.items())}
