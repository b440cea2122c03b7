"""Exceptions of a suite, and the verdict on a run.

Exceptions are cases that are known not to be exact, in groups with a reason. A case fails the run
if it is neither exact nor listed, or if its outcome is not the listed one: the list only shrinks. A
fault can not be listed. Floors are minimal counts, so that a run without cases fails.

Groups of ``undefined`` are patterns of cases whose expected result is undefined (an integer that
overflows in a float, equal elements in any order): these may differ, or raise an error, but not
crash. A whole run fails for a pattern of which no case differs.
"""

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
FACTS = ("deviates", "unsized")  # listed in addition to an outcome
FOLDER = Path(__file__).parent / "expected"


@dataclass(frozen=True)
class Expectations:
    """The outcomes of listed cases, minimal counts, and patterns of undefined results.

    ``deviations``: cases in which a runtime differs from the expected result; ``unsized``: cases
    with outputs of which the rules of inference do not determine all sizes.
    """

    listed: Mapping[str, str]
    floors: Mapping[str, int]
    deviations: frozenset[str] = field(default_factory=frozenset)
    unsized: frozenset[str] = field(default_factory=frozenset)
    undefined: tuple[str, ...] = ()

    def is_undefined(self, case: str) -> bool:
        """Return whether the expected result of a case is undefined."""
        return any(fnmatch.fnmatchcase(case, pattern) for pattern in self.undefined)


def load(name: str) -> Expectations:
    """Read ``expected/<name>.yaml``; raise ValueError for invalid groups and duplicate cases."""
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    listed: dict[str, str] = {}
    facts: dict[str, set[str]] = {name: set() for name in FACTS}
    for group in content.get("exceptions") or ():
        outcome, cases = group.get("outcome"), parse_cases(group.get("cases") or ())
        if not group.get("reason") or not cases or outcome not in (*LISTABLE, *FACTS):
            raise ValueError(f"{name}.yaml: a group needs outcome, reason and cases: {group}")
        previous = facts[outcome] if outcome in facts else set(listed)
        duplicates = [case for case in cases if case in previous]
        if duplicates or len(set(cases)) != len(cases):
            raise ValueError(f"{name}.yaml: listed twice: {duplicates or cases}")
        if outcome in facts:
            previous.update(cases)
        else:
            listed.update(dict.fromkeys(cases, outcome))
    deviations, unsized = (frozenset(facts[name]) for name in FACTS)
    return Expectations(
        listed, content.get("floors") or {}, deviations, unsized, _read_undefined(name, content)
    )


def _read_undefined(name: str, content: Mapping[str, Any]) -> tuple[str, ...]:
    patterns: list[str] = []
    for group in content.get("undefined") or ():
        if not group.get("reason") or not group.get("cases"):
            raise ValueError(f"{name}.yaml: a group needs reason and cases: {group}")
        patterns += group["cases"]
    if len(set(patterns)) != len(patterns):
        raise ValueError(f"{name}.yaml: listed twice as undefined: {patterns}")
    return tuple(patterns)


def parse_cases(listed: Sequence[Any]) -> list[str]:
    """Parse cases: names, or ``{prefix: "0-3,7"}`` for ``prefix/0`` to ``prefix/3``."""
    cases = []
    for row in listed:
        if not isinstance(row, Mapping):
            cases.append(str(row))
            continue
        for prefix, numbers in row.items():
            for span in str(numbers).split(","):
                first, _, last = span.strip().partition("-")
                cases += [f"{prefix}/{n}" for n in range(int(first), int(last or first) + 1)]
    return cases


def compact(cases: Iterable[str]) -> list[Any]:
    """Return cases as `load` reads them, with numbered cases of one prefix in one line."""
    numbers: dict[str, list[int]] = {}
    unnumbered = []
    for case in cases:
        prefix, _, last = case.rpartition("/")
        if prefix and last.isdigit():
            numbers.setdefault(prefix, []).append(int(last))
        else:
            unnumbered.append(case)
    return [*sorted(unnumbered), *({key: _spans(sorted(numbers[key]))} for key in sorted(numbers))]


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
    selected: Sequence[str],
    all_cases: Sequence[str],
    expected: Expectations,
    counts: Mapping[str, int],
) -> list[str]:
    """Return the problems of a run, one line each.

    Args:
        records: of the cases that ran.
        selected: the cases that should have run.
        all_cases: the cases that the suite collects.
        expected: the exceptions and floors.
        counts: counts of a whole run, in addition to ``collected`` and ``exact``.
    """
    problems = []
    outcomes = {record.case: record for record in records}
    problems += [f"{case}: did not run" for case in selected if case not in outcomes]
    for case in selected:
        record, listed = outcomes.get(case), expected.listed.get(case, "exact")
        allowed = UNDEFINED if expected.is_undefined(case) else (listed,)
        if record is not None and record.outcome not in allowed:
            problems.append(f"{case}: {listed} expected, {record.outcome}: {record.detail[:200]}")
        if record is not None and bool(record.facts.get("deviates")) != (
            case in expected.deviations
        ):
            deviation = record.facts.get("deviation") or "no deviation"
            problems.append(
                f"{case}: the deviation of the runtime is not as listed: {deviation[:200]}"
            )
        inferred = "sizes" if record is None else record.facts.get("inferred", "sizes")
        if record is not None and (inferred != "sizes") != (case in expected.unsized):
            problems.append(f"{case}: the inferred shapes are not as listed: {inferred}")
    problems += [
        f"{case}: listed, and no such case"
        for case in (*expected.listed, *expected.deviations, *expected.unsized)
        if case not in all_cases
    ]
    is_whole = set(selected) == set(all_cases)
    differing_cases = [r.case for r in records if r.outcome in UNDEFINED[1:]]
    problems += [
        f"{pattern}: listed as undefined, and no case differs"
        for pattern in expected.undefined
        if is_whole and not matching(differing_cases, [pattern])
    ]
    totals = {"collected": len(all_cases)}
    if is_whole:
        totals |= {"exact": sum(r.outcome == "exact" for r in records), **counts}
    for name, floor in expected.floors.items():
        if name in totals and totals[name] < floor:
            problems.append(f"{totals[name]} {name}, at least {floor} are expected")
    if not selected:
        problems.append("nothing was run")
    return problems


def part_of(cases: Sequence[str], part: int, parts: int) -> list[str]:
    """Return each ``parts``-th case, starting at ``part``."""
    return [case for index, case in enumerate(cases) if index % parts == part % parts]


def matching(cases: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the cases that match one of the patterns; all without patterns."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(fnmatch.fnmatch(case, pattern) for pattern in patterns)]
