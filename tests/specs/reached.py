"""How many sample calls reach each case of an entry: ``python -m tests.specs.reached`` (`make
case-counts`) counts anew for entries that have changed, and writes `specs/runtime/cases.yaml`, from
which codegen takes the numbers of `ortable ops`.

What comes in are the entries and the record; a sample reaches a case when it takes it at one of the
opsets that matter to the entry, with or without a target."""

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
    """The lowest and the newest opset, and both sides of those that a case names."""
    named = {case.opset[1] for case in entry.all_cases() if case.opset is not None}
    return [FLOOR, CEILING, *sorted(named | {version - 1 for version in named})]


def reached_by(entry: OpEntry) -> list[int]:
    """For each case of an entry, how many of its sample calls take it somewhere."""
    counts = [0] * len(entry.all_cases())
    for sample in entry.samples:
        check, taken = harness.SampleCheck(entry.schema, sample), set[int]()
        for opset, target in itertools.product(opsets_of(entry), ("onnxruntime", None)):
            if sample.applies_at(opset, target):
                with contextlib.suppress(Exception):  # a refusal is a case, too
                    check.convert(opset, target)
                taken.add(check.case)
        for number in taken - {0}:
            counts[number - 1] += 1
    return counts


def numbered(root: Path = ROOT) -> dict[str, OpEntry]:
    """The entries with several cases that this torch and its packages have, by name."""
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
    """Count what has changed, and write the record after every twentieth entry."""
    path = ROOT / CASES
    known, entries = load_cases(path), numbered()
    found = {name: known[name] for name in entries if name in known}
    stale = [n for n, e in entries.items() if found.get(n, ("", ()))[0] != case_digest(e)]
    for done, name in enumerate(stale, 1):
        found[name] = (case_digest(entries[name]), tuple(reached_by(entries[name])))
        if done % 20 == 0 or done == len(stale):
            _write(path, found)
            print(f"{done} of {len(stale)}", file=sys.stderr)
    _write(path, found)


def _write(path: Path, found: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    lines = [
        f'"{name}": {{of: "{digest}", reached: "{" ".join(map(str, counts))}"}}\n'
        for name, (digest, counts) in sorted(found.items())
    ]
    path.write_text(_HEAD + "".join(lines))


if __name__ == "__main__":
    main()
