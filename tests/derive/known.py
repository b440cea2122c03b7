"""Derived samples that are known to fail, and why: ``known.yaml``, which only shrinks.

In: outcomes. Out: those that nobody wrote down, and what is written down but fails no more.
A pattern is matched with the kind of the outcome and the name of the derived sample, such as
``nan float16/+inf``; ``*`` stands for anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from .runner import Outcome

PLACE = Path(__file__).with_name("known.yaml")


@dataclass
class Known:
    """The patterns of each entry, and which of them matched a failure."""

    patterns: dict[str, list[str]]
    used: set[tuple[str, str]] = field(default_factory=set)

    def unknown(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The failures that no pattern covers."""
        found = []
        for each in outcomes:
            if not each.fails:
                continue
            text = f"{each.kind} {each.name}"
            matching = [p for p in self.patterns.get(each.entry, ()) if fnmatchcase(text, p)]
            self.used.update((each.entry, pattern) for pattern in matching)
            if not matching:
                found.append(each)
        return found

    def stale(self, entries: Iterable[str]) -> list[str]:
        """Patterns of these entries, all of whose samples were run, that matched no failure."""
        return [
            f"{entry}: {pattern}"
            for entry in entries
            for pattern in self.patterns.get(entry, ())
            if (entry, pattern) not in self.used
        ]


def read_known(deviations: dict[str, Sequence[str]] | None = None) -> Known:
    """The written list, with what the entries themselves declare as deviations."""
    patterns: dict[str, list[str]] = {}
    for group in yaml.safe_load(PLACE.read_text())["groups"]:
        assert group["why"].strip(), "a group of known failures says why"
        for entry, found in group["entries"].items():
            patterns.setdefault(entry, []).extend(found)
    for entry, declared in (deviations or {}).items():
        patterns.setdefault(entry, []).extend(declared)
    return Known(patterns)


def families() -> list[str]:
    """The files of specs/aten whose derived samples have all been looked at."""
    found: list[str] = yaml.safe_load(PLACE.read_text())["families"]
    return found


def shortened(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """Patterns that cover failures: for each entry and kind, the fills or the forms."""
    found: dict[str, dict[str, None]] = {}
    for each in outcomes:
        form, _, fill = each.name.rpartition("/")
        broken = each.kind in ("convert", "model", "session", "died", "shape", "dtype")
        if each.kind == "sign":
            found.setdefault(each.entry, {})["sign *"] = None
            continue
        pattern = f"{each.kind} {form}/*" if broken or fill == "drawn" else f"{each.kind} */{fill}"
        found.setdefault(each.entry, {})[pattern] = None
    return {entry: sorted(patterns) for entry, patterns in sorted(found.items())}
