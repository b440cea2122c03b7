"""The table of other engines: where they win comes first, and wrong results have no time."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.rivals.measure import OURS
from benchmarks.rivals.report import OTHERS, lead, markdown


def make_record(name: str, **ratios: float) -> dict[str, Any]:
    """Return a record in which all candidates take half of eager's time but for `ratios`."""
    ratio = dict.fromkeys((*OURS, *OTHERS), 0.5) | ratios
    return {
        "name": name, "seconds": {"eager": 0.01}, "ratio": ratio, "band": 0.01, "errors": {},
        "difference": dict.fromkeys(ratio, 0.0),
    }  # fmt: skip


def test_rows_that_we_lose_come_first_and_only_exact_engines_count() -> None:
    won, lost = make_record("won", ortable=0.4), make_record("lost", OpenVINO=0.4)
    wrong, failed = make_record("wrong", OpenVINO=0.1), make_record("failed")
    wrong["difference"]["OpenVINO"] = 0.2
    del failed["difference"]["ExecuTorch"], failed["ratio"]["ExecuTorch"]
    failed["errors"]["ExecuTorch"] = "RuntimeError: no kernel"
    assert [lead(record) for record in (won, lost, wrong)] == pytest.approx([0.8, 1.25, 1.0])
    run = {"commit": "c", "date": "d", "versions": {}, "machine": "m"}
    text = markdown({**run, "records": [won, wrong, failed, lost]})
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows[:4]] == ["| lost", "| wrong", "| failed", "| won"]
    assert "wrong by 2e-01" in rows[1] and "fails" in rows[2]
    assert "- failed, ExecuTorch: RuntimeError: no kernel" in text
    assert lead({**won, "difference": {"ortable": 0.0}}) is None
