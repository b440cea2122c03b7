"""``python -m tests.hf``: every class that transformers builds for a configuration, made small, in
eager mode and exported by ortable: with static sizes, with dynamic ones at a second size, and one
step of generation after a prompt. Exit status 1 when one is not exact and not listed in
exceptions.yaml, or that file is out of date."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from tests.suites.command import Suite, main
from tests.suites.expected import LISTABLE, Expectations
from tests.suites.model_check import count_exact, mode_of
from tests.suites.workers import Record

from . import models

BASE, DECODERS = "MODEL_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
MODES = {"static": BASE, "dynamic": BASE, "decode": DECODERS}
EXCEPTIONS = Path(__file__).parent / "exceptions.yaml"
# What may be listed: what others cannot do, what we refuse, and faults of ours that have a name.
OUTCOMES = (*LISTABLE, "fault")
FAULTS = ("error", "mismatch", "timeout", "crash")
SLOW_S = 10.0
KINDS = {
    "input_ids": "tokens", "pixel_values": "images", "pixel_values_videos": "images",
    "input_features": "sound", "input_values": "sound", "past_values": "series",
}  # fmt: skip


def cases() -> list[str]:
    """``model_type/Class/mode``, those of one model beside one another."""
    found = [
        f"{name}/{mode}" for mode, mapping in MODES.items() for name in models.class_names(mapping)
    ]
    return sorted(found)


def exceptions(path: Path = EXCEPTIONS) -> Expectations:
    """What is listed; ``model_type/Class`` stands for all modes that there are.

    Raises ValueError for a group without outcome, reason or cases, or a case that is listed twice.
    """
    content = yaml.safe_load(path.read_text())
    everything = cases()
    listed: dict[str, str] = {}
    for group in content["exceptions"] or ():
        outcome, names = group.get("outcome"), group.get("cases") or []
        if outcome not in OUTCOMES or not group.get("reason") or not names:
            raise ValueError(f"{path.name}: a group needs outcome, reason and cases: {group}")
        for name in names:
            whole = name.count("/") == 2
            found = [name] if whole else [c for c in everything if c.rpartition("/")[0] == name]
            if not found or any(case in listed for case in found):
                raise ValueError(f"{path.name}: listed twice, or no such class: {name}")
            listed.update(dict.fromkeys(found, outcome))
    return Expectations(listed, content.get("floors") or {})


def check(case: str) -> Record:
    """A record of one case; every fault of ours is one outcome, which the detail explains."""
    from .check import check_case

    record = check_case(case)
    if record.outcome in FAULTS:
        record.where, record.outcome = f"{record.outcome}, {record.where}", "fault"
    return record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """How many cases of each mode are exact."""
    return count_exact(records, tuple(MODES))


def kind_of(case: str) -> str:
    """What the class takes in the first place; text models that take something else beside it are
    among the tokens."""
    import transformers

    try:
        model = getattr(transformers, case.split("/")[1])
        return KINDS.get(str(model.main_input_name), "others")
    except (AttributeError, ImportError):
        return "others"


def summary(console: Console, records: Sequence[Record]) -> None:
    """Outcomes by what models take and by mode, the share of exact ones among those that run in
    eager mode, and what took long."""
    shown = {
        "exact": "exact", "fault": "fault", "refused": "refused", "missing": "missing",
        "uncaptured": "torch", "unrunnable": "not run", "timeout": "late", "crash": "crash",
    }  # fmt: skip
    table = Table(*("takes", "mode", *shown.values(), "share"))
    found = Counter((kind_of(r.case), mode_of(r.case), r.outcome) for r in records)
    for kind, mode in sorted({key[:2] for key in found}):
        row = [found[kind, mode, outcome] for outcome in shown]
        runs = sum(row) - found[kind, mode, "unrunnable"]
        share = f"{row[0] / runs:.1%}" if runs else "-"
        table.add_row(kind, mode, *(str(count or "") for count in row), share)
    console.print(table)
    for record in sorted(records, key=lambda each: -each.seconds):
        if record.seconds > SLOW_S:
            console.print(f"{record.case}: {record.seconds:.0f} s", highlight=False)


def prepare() -> None:
    """What every worker needs is imported once, before it is forked."""
    import torch
    import transformers

    import ortable

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    ortable.register_transformers()


def collected() -> list[str]:
    """The cases, in a process that is ready to fork workers."""
    prepare()
    return cases()


SUITE = Suite(
    name="hf",
    collect=collected,
    check=check,
    counts=counts,
    parts=36,
    limit_s=300.0,  # torch traces some recurrences for two minutes
    exceptions=exceptions,
    summary=summary,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
