"""Operators that not every supported torch has. `make test` runs the oldest one, and an operator
that it has is no newer one; `make support` runs the newest, and there their sample calls run."""

from __future__ import annotations

import pytest

from ortable.testing import entries as harness
from ortablegen.schemas.registry import installed_torch, registered_schema

from .test_cases import ENDS, ENTRIES, naming

RANGED = sorted(key for key, entry in ENTRIES.items() if entry.versions.present.bounds)


@pytest.mark.parametrize("key", RANGED)
def test_an_operator_of_some_versions(key: str) -> None:
    entry = ENTRIES[key]
    if not entry.versions.has(installed_torch()):
        assert registered_schema(key) is None
        return
    assert entry.samples
    for sample in entry.samples:
        check = harness.SampleCheck(entry.schema, sample)
        for opset, target in ENDS:
            with naming(key):
                check.run(opset, target)
