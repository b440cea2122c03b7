"""Every sample call of every spec entry equals eager, at the chosen opsets, for both targets; its
rules too."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortable.debug.harness import entries as harness
from ortablegen.aten.model import AliasEntry, OpEntry
from ortablegen.aten.read import read_folder
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]


def _entries() -> list:
    diagnostics = Diagnostics()
    specs = read_folder(ROOT / "specs" / "aten", ROOT, diagnostics)
    diagnostics.raise_if_any()
    return [*specs.ops, *specs.aliases]


# an operator with an entry for each of several ranges of torch's versions has them by these names
ENTRIES = {entry.key + entry.schema.suffix: entry for entry in _entries()}


def skip_absent(entry: OpEntry | AliasEntry) -> None:
    """Skip the test when the installed torch has no such operator, or the module that registers it
    cannot be imported."""
    if not entry.versions.has(installed_torch()):
        pytest.skip(f"only torch {entry.versions.present} has {entry.key}")
    problem = import_problem(entry.requires) if entry.requires is not None else None
    if problem is not None:
        pytest.skip(problem)


def _opsets(config: pytest.Config) -> list[int]:
    if config.getoption("--opsets") == "all":
        return list(range(FLOOR, CEILING + 1))
    return [FLOOR, CEILING]


@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_sample_calls_equal_eager(key: str, request: pytest.FixtureRequest) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    for sample in entry.samples:
        check = harness.SampleCheck(entry.schema, sample)
        for opset in _opsets(request.config):
            for target in (None, "onnxruntime"):
                try:
                    check.run(opset, target)
                except Exception as error:
                    where = f"{key}, sample at {sample.span}, opset {opset}, target {target}"
                    raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_rules_equal_eager(key: str) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    for sample in entry.samples:
        if sample.refused is None:
            harness.check_rule(entry.schema, sample)
