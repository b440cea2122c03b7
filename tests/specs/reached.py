"""Count the sample calls that reach each case of an entry: ``python -m tests.specs.reached``.

`make case-counts` counts for changed entries and writes `specs/runtime/cases.yaml`, from which
codegen takes the numbers of `ortable ops`. A sample reaches a case when the converter takes it at
one of the entry's opsets, with or without a target.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path

from ortable.testing import entries as harness
from ortablegen.aten.coverage import CASES, case_digest, load_cases
from ortablegen.aten.model import OpEntry
from ortablegen.aten.read import read_folder
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
_HEAD = """\
# How many sample calls reach each case of an entry, in order, for entries that have several; `of`
# is a digest of the cases and samples that were counted. Written by `make case-counts`.
"""


def opsets_of(entry: OpEntry) -> list[int]:
    """Return the lowest and the newest opset, and both sides of opsets that a case names."""
    case_opsets = {case.opset[1] for case in entry.all_cases() if case.opset is not None}
    return [FLOOR, CEILING, *sorted(case_opsets | {version - 1 for version in case_opsets})]


def reached_by(entry: OpEntry) -> list[int]:
    """Return for each case of an entry the number of its sample calls that reach it."""
    counts = [0] * len(entry.all_cases())
    for sample in entry.samples:
        check, cases = harness.SampleCheck(entry.schema, sample), set[int]()
        for opset, target in itertools.product(opsets_of(entry), ("onnxruntime", None)):
            if sample.applies_at(opset, target):
                with contextlib.suppress(Exception):  # a refusal is a case, too
                    check.convert(opset, target)
                cases.add(check.case)
        for number in cases - {0}:
            counts[number - 1] += 1
    return counts


def entries_with_cases(root: Path = ROOT) -> dict[str, OpEntry]:
    """Return by name the entries with several cases that this torch and its packages have."""
    diagnostics = Diagnostics()
    specs = read_folder(root / "specs" / "aten", root, diagnostics)
    diagnostics.raise_if_any()
    return {
        entry.key + entry.schema.suffix: entry
        for entry in specs.ops
        if entry.case_names()
        and entry.versions.has(installed_torch())
        and (entry.requires is None or import_problem(entry.requires) is None)
    }


def main() -> None:
    """Count for changed entries, and write the record after every twentieth entry."""
    path = ROOT / CASES
    recorded, entries = load_cases(path), entries_with_cases()
    counts = {name: recorded[name] for name in entries if name in recorded}
    stale = [n for n, e in entries.items() if counts.get(n, ("", ()))[0] != case_digest(e)]
    for number, name in enumerate(stale, 1):
        counts[name] = (case_digest(entries[name]), tuple(reached_by(entries[name])))
        if number % 20 == 0 or number == len(stale):
            _write(path, counts)
            print(f"{number} of {len(stale)}", file=sys.stderr)
    _write(path, counts)


def _write(path: Path, records: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    lines = [
        f'"{name}": {{of: "{digest}", reached: "{" ".join(map(str, counts))}"}}\n'
        for name, (digest, counts) in sorted(records.items())
    ]
    path.write_text(_HEAD + "".join(lines))


if __name__ == "__main__":
    main()
