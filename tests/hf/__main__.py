"""Export all models of transformers, made small, and compare: ``python -m tests.hf``.

Modes are static sizes, dynamic sizes with a second size, one step of generation after a prompt, and
the tokens that `ortable.export_language_model` generates.
The exit status is 1 when a case is not exact and not listed in exceptions.yaml, or when that file
is out of date.
"""

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

BASE, DECODERS = ("MODEL_MAPPING_NAMES",), ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",)
GENERATORS = (*DECODERS, "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES")
MODES = {"static": BASE, "dynamic": BASE, "decode": DECODERS, "generate": GENERATORS}
EXCEPTIONS = Path(__file__).parent / "exceptions.yaml"
# Outcomes that may be listed: failures of others, refusals, and known faults.
OUTCOMES = (*LISTABLE, "fault")
FAULTS = ("error", "mismatch", "timeout", "crash")
SLOW_S = 10.0
KINDS = {
    "input_ids": "tokens", "pixel_values": "images", "pixel_values_videos": "images",
    "input_features": "sound", "input_values": "sound", "past_values": "series",
}  # fmt: skip


def cases() -> list[str]:
    """Return ``model_type/Class/mode`` of all cases, sorted by model, those that generate last.

    A worker runs many cases, and generation registers the classes of caches in its process.
    """
    names = {
        f"{name}/{mode}"
        for mode, mappings in MODES.items()
        for mapping in mappings
        for name, model_type in models.class_names(mapping).items()
    }
    return sorted(names, key=lambda name: (name.endswith("/generate"), name))


def exceptions(path: Path = EXCEPTIONS) -> Expectations:
    """Return the listed cases; ``model_type/Class`` stands for all modes of the class.

    Raises ValueError for a group without outcome, reason or cases, or for a duplicate case.
    """
    content = yaml.safe_load(path.read_text())
    all_cases = cases()
    listed: dict[str, str] = {}
    for group in content["exceptions"] or ():
        outcome, names = group.get("outcome"), group.get("cases") or []
        if outcome not in OUTCOMES or not group.get("reason") or not names:
            raise ValueError(f"{path.name}: a group needs outcome, reason and cases: {group}")
        for name in names:
            has_mode = name.count("/") == 2
            matching = (
                [name] if has_mode else [c for c in all_cases if c.rpartition("/")[0] == name]
            )
            if not matching or any(case in listed for case in matching):
                raise ValueError(f"{path.name}: listed twice, or no such class: {name}")
            listed.update(dict.fromkeys(matching, outcome))
    return Expectations(listed, content.get("floors") or {})


def check(case: str) -> Record:
    """Return the record of a case; all faults of ortable have one outcome."""
    from .check import check_case

    record = check_case(case)
    if record.outcome in FAULTS:
        record.where, record.outcome = f"{record.outcome}, {record.where}", "fault"
    return record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """Return the number of exact cases of each mode."""
    return count_exact(records, tuple(MODES))


def kind_of(case: str) -> str:
    """Return the kind of a model's main input, ``others`` where it is unknown."""
    import transformers

    try:
        model = getattr(transformers, case.split("/")[1])
        return KINDS.get(str(model.main_input_name), "others")
    except (AttributeError, ImportError):
        return "others"


def summary(console: Console, records: Sequence[Record]) -> None:
    """Print outcomes by kind and mode, the share of exact cases, and slow cases."""
    titles = {
        "exact": "exact", "fault": "fault", "refused": "refused", "missing": "missing",
        "uncaptured": "torch", "unrunnable": "not run", "timeout": "late", "crash": "crash",
    }  # fmt: skip
    table = Table(*("takes", "mode", *titles.values(), "share"))
    counters = Counter((kind_of(r.case), mode_of(r.case), r.outcome) for r in records)
    for kind, mode in sorted({key[:2] for key in counters}):
        row = [counters[kind, mode, outcome] for outcome in titles]
        runs = sum(row) - counters[kind, mode, "unrunnable"]
        share = f"{row[0] / runs:.1%}" if runs else "-"
        table.add_row(kind, mode, *(str(count or "") for count in row), share)
    console.print(table)
    for record in sorted(records, key=lambda item: -item.seconds):
        if record.seconds > SLOW_S:
            console.print(f"{record.case}: {record.seconds:.0f} s", highlight=False)


def prepare() -> None:
    """Import the modules that every worker needs, before the first fork."""
    import torch
    import transformers

    import ortable

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    ortable.register_transformers()


def collect_cases() -> list[str]:
    """Return the cases, and prepare the process for workers."""
    prepare()
    return cases()


SUITE = Suite(
    name="hf",
    collect=collect_cases,
    check=check,
    counts=counts,
    parts=42,
    limit_s=300.0,  # tracing some recurrences takes two minutes
    exceptions=exceptions,
    summary=summary,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
