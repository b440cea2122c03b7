"""The sample calls of operators that only some supported versions of torch have.

`make support` runs them with the newest torch; the oldest, in `make test`, lacks them.
"""

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
