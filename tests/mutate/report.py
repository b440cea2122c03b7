"""The report of a mutation run: the table, the survivors, and the record of the last full run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .mutants import KINDS, Mutant, digest
from .runner import Verdict

RECORD = Path(__file__).with_name("recorded.yaml")
WANTED = 0.95  # required share of mutants that tests notice


def counts(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> dict[str, list[int]]:
    """Return the numbers of killed and of all mutants for each kind, in the order of KINDS."""
    numbers = {}
    for kind in KINDS:
        results = [verdicts[mutant.name] for mutant in mutants if mutant.kind == kind]
        if results:
            numbers[kind] = [sum(mutant.killed for mutant in results), len(results)]
    return numbers


def table(numbers: Mapping[str, Sequence[int]]) -> str:
    """Format the numbers of killed and of all mutants by kind as a Markdown table."""
    rows = ["| kind | killed | mutants |", "|---|---:|---:|"]
    rows += [f"| {kind} | {killed} | {tried} |" for kind, (killed, tried) in numbers.items()]
    total = [sum(column) for column in zip(*numbers.values(), strict=True)]
    return "\n".join([*rows, f"| all | {total[0]} | {total[1]} |"])


def faulty(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the reasons why a run fails.

    They are a survivor without a reason, a listed survivor that is killed, a mutant that breaks
    collection, and too few killed mutants.
    """
    lines = []
    for mutant in mutants:
        verdict = verdicts[mutant.name]
        if verdict.outcome in ("broken", "empty"):
            lines.append(f"{mutant.name} is {verdict.outcome}: {verdict.test} {verdict.message}")
        elif verdict.killed and mutant.survives:
            lines.append(f"{mutant.name} is noticed now: take out `survives`")
        elif not verdict.killed and not mutant.survives:
            lines.append(f"{mutant.name} survives ({mutant.breaks}): {' '.join(mutant.run)}")
    killed = sum(verdicts[item.name].killed for item in mutants)
    if killed < WANTED * len(mutants):
        lines.append(f"only {killed} of {len(mutants)} are noticed")
    return lines


def survivors(mutants: Sequence[Mutant]) -> list[str]:
    """Return the mutants that no test can notice, each with the reason."""
    return [f"{mutant.name}: {mutant.survives}" for mutant in mutants if mutant.survives]


def record(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> str:
    """Return the text of recorded.yaml for a run over the full list."""
    content = {"list": digest(mutants), "kinds": counts(mutants, verdicts)}
    head = "# Written by `make mutate ARGS=--record`: killed and tried, by kind.\n"
    return head + yaml.safe_dump(content, sort_keys=False, default_flow_style=None)


def read_record(path: Path = RECORD) -> dict[str, Any]:
    """Return the record of the last run over the full list."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content
