"""What a run over mutants says: the table, the survivors, and the record of the last whole run.

In come mutants and Verdicts, out comes text; called by the command line and by the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .mutants import KINDS, Mutant, digest
from .runner import Verdict

RECORD = Path(__file__).with_name("recorded.yaml")
WANTED = 0.95  # of all mutants, those that tests notice


def counts(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> dict[str, list[int]]:
    """Killed and tried, by kind, in the order of KINDS."""
    found = {}
    for kind in KINDS:
        tried = [verdicts[each.name] for each in mutants if each.kind == kind]
        if tried:
            found[kind] = [sum(each.killed for each in tried), len(tried)]
    return found


def table(found: Mapping[str, Sequence[int]]) -> str:
    """Killed and tried by kind, as Markdown."""
    rows = ["| kind | killed | mutants |", "|---|---:|---:|"]
    rows += [f"| {kind} | {killed} | {tried} |" for kind, (killed, tried) in found.items()]
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    return "\n".join([*rows, f"| all | {total[0]} | {total[1]} |"])


def faulty(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> list[str]:
    """What makes a run fail: a mutant that survives without a reason, one that is said to survive
    and does not, one that breaks more than it should, or too few that are noticed."""
    lines = []
    for mutant in mutants:
        verdict = verdicts[mutant.name]
        if verdict.outcome in ("broken", "empty"):
            lines.append(f"{mutant.name} is {verdict.outcome}: {verdict.test} {verdict.said}")
        elif verdict.killed and mutant.survives:
            lines.append(f"{mutant.name} is noticed now: take out `survives`")
        elif not verdict.killed and not mutant.survives:
            lines.append(f"{mutant.name} survives ({mutant.breaks}): {' '.join(mutant.run)}")
    killed = sum(verdicts[each.name].killed for each in mutants)
    if killed < WANTED * len(mutants):
        lines.append(f"only {killed} of {len(mutants)} are noticed")
    return lines


def survivors(mutants: Sequence[Mutant]) -> list[str]:
    """The mutants that no test notices, each with the reason."""
    return [f"{each.name}: {each.survives}" for each in mutants if each.survives]


def record(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> str:
    """The text of recorded.yaml for a run over the whole list."""
    said = {"list": digest(mutants), "kinds": counts(mutants, verdicts)}
    head = "# Written by `make mutate ARGS=--record`: killed and tried, by kind.\n"
    return head + yaml.safe_dump(said, sort_keys=False, default_flow_style=None)


def read_record(path: Path = RECORD) -> dict[str, Any]:
    """The last run over the whole list."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found
