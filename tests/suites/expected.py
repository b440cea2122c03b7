"""Exceptions of a suite: which cases are known not to be exact, each group with its reason, and
floors of what must be there. In comes a YAML file and the records of a run, out comes a verdict.

A case that is not exact and not listed fails the run, and so does a listed one whose outcome is
another one, exact included: the list only shrinks. A fault can not be listed. Floors count what was
collected, and what the cases of a whole run have in common: a run over nothing is no success.

Groups of ``undefined`` name, with wildcards, cases whose expected result means nothing (an integer
that overflows in a float, equal elements in any order): these may differ, or raise an error, but
not crash. A pattern under which no case of a whole run differs fails that run."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .workers import Record

LISTABLE = ("uncaptured", "refused", "missing", "unrunnable")
UNDEFINED = ("exact", "different", "error")  # outcomes of a case whose result is undefined
FACTS = ("deviates", "unsized")  # listed besides an outcome
FOLDER = Path(__file__).parent / "expected"


@dataclass(frozen=True)
class Expectations:
    """``listed``: the outcome of each case that is listed; ``floors``: least counts;
    ``deviations``: cases in which a runtime itself differs, with the fact that tells of it;
    ``unsized``: cases of whose outputs the rules of inference do not know all sizes;
    ``undefined``: patterns of the cases whose expected result means nothing."""

    listed: Mapping[str, str]
    floors: Mapping[str, int]
    deviations: frozenset[str] = field(default_factory=frozenset)
    unsized: frozenset[str] = field(default_factory=frozenset)
    undefined: tuple[str, ...] = ()

    def is_undefined(self, case: str) -> bool:
        """Whether the expected result of a case means nothing."""
        return any(fnmatch.fnmatchcase(case, pattern) for pattern in self.undefined)


def load(name: str) -> Expectations:
    """Read ``expected/<name>.yaml``; ValueError for a group without reason, with an outcome that
    can not be listed, or for a case that is listed twice."""
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    listed: dict[str, str] = {}
    facts: dict[str, set[str]] = {name: set() for name in FACTS}
    for group in content.get("exceptions") or ():
        outcome, cases = group.get("outcome"), _cases(group.get("cases") or ())
        if not group.get("reason") or not cases or outcome not in (*LISTABLE, *FACTS):
            raise ValueError(f"{name}.yaml: a group needs outcome, reason and cases: {group}")
        known = facts[outcome] if outcome in facts else set(listed)
        twice = [case for case in cases if case in known]
        if twice or len(set(cases)) != len(cases):
            raise ValueError(f"{name}.yaml: listed twice: {twice or cases}")
        if outcome in facts:
            known.update(cases)
        else:
            listed.update(dict.fromkeys(cases, outcome))
    deviations, unsized = (frozenset(facts[name]) for name in FACTS)
    return Expectations(
        listed, content.get("floors") or {}, deviations, unsized, _undefined(name, content)
    )


def _undefined(name: str, content: Mapping[str, Any]) -> tuple[str, ...]:
    patterns: list[str] = []
    for group in content.get("undefined") or ():
        if not group.get("reason") or not group.get("cases"):
            raise ValueError(f"{name}.yaml: a group needs reason and cases: {group}")
        patterns += group["cases"]
    if len(set(patterns)) != len(patterns):
        raise ValueError(f"{name}.yaml: listed twice as undefined: {patterns}")
    return tuple(patterns)


def _cases(listed: Sequence[Any]) -> list[str]:
    """Cases are written as names, or as ``{prefix: "0-3,7"}`` for ``prefix/0`` to ``prefix/3``."""
    found = []
    for each in listed:
        if not isinstance(each, Mapping):
            found.append(str(each))
            continue
        for prefix, numbers in each.items():
            for span in str(numbers).split(","):
                first, _, last = span.strip().partition("-")
                found += [f"{prefix}/{n}" for n in range(int(first), int(last or first) + 1)]
    return found


def compact(cases: Iterable[str]) -> list[Any]:
    """The inverse of what `load` reads: numbered cases of one prefix in one line."""
    numbers: dict[str, list[int]] = {}
    plain = []
    for case in cases:
        prefix, _, last = case.rpartition("/")
        if prefix and last.isdigit():
            numbers.setdefault(prefix, []).append(int(last))
        else:
            plain.append(case)
    return [*sorted(plain), *({key: _spans(sorted(numbers[key]))} for key in sorted(numbers))]


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def judge(
    records: Sequence[Record],
    chosen: Sequence[str],
    everything: Sequence[str],
    expected: Expectations,
    counts: Mapping[str, int],
) -> list[str]:
    """What is wrong with a run, a line each; nothing when it is as expected.

    Args:
        records: of the cases that ran.
        chosen: the cases that should have run.
        everything: the cases that the suite collects.
        expected: what is listed.
        counts: what is counted besides ``collected`` and ``exact``, in a whole run.
    """
    wrong = []
    outcomes = {record.case: record for record in records}
    wrong += [f"{case}: did not run" for case in chosen if case not in outcomes]
    for case in chosen:
        record, known = outcomes.get(case), expected.listed.get(case, "exact")
        allowed = UNDEFINED if expected.is_undefined(case) else (known,)
        if record is not None and record.outcome not in allowed:
            wrong.append(f"{case}: {known} expected, {record.outcome}: {record.detail[:200]}")
        if record is not None and bool(record.facts.get("deviates")) != (
            case in expected.deviations
        ):
            said = record.facts.get("deviation") or "no deviation any more"
            wrong.append(f"{case}: what the runtime itself does is not as listed: {said[:200]}")
        inferred = "sizes" if record is None else record.facts.get("inferred", "sizes")
        if record is not None and (inferred != "sizes") != (case in expected.unsized):
            wrong.append(f"{case}: what the rules know is not as listed: {inferred}")
    wrong += [
        f"{case}: listed, and no such case"
        for case in (*expected.listed, *expected.deviations, *expected.unsized)
        if case not in everything
    ]
    whole = set(chosen) == set(everything)
    differing = [r.case for r in records if r.outcome in UNDEFINED[1:]]
    wrong += [
        f"{pattern}: listed as undefined, and no case differs"
        for pattern in expected.undefined
        if whole and not matching(differing, [pattern])
    ]
    found = {"collected": len(everything)}
    if whole:
        found |= {"exact": sum(r.outcome == "exact" for r in records), **counts}
    for what, floor in expected.floors.items():
        if what in found and found[what] < floor:
            wrong.append(f"{found[what]} {what}, at least {floor} are expected")
    if not chosen:
        wrong.append("nothing was run")
    return wrong


def part_of(cases: Sequence[str], part: int, parts: int) -> list[str]:
    """Each ``parts``-th case, from the ``part``-th on (0 is the first)."""
    return [case for place, case in enumerate(cases) if place % parts == part % parts]


def matching(cases: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The cases that one of the patterns fits, with wildcards; all without patterns."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(fnmatch.fnmatch(case, each) for each in patterns)]
