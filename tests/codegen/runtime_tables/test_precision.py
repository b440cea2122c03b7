"""The numeric deviations in the kernel table are those of the installed ONNX Runtime.

These tests run a sample of the operators; `tests/sweeps/test_kernel_numbers.py` runs all of them.
`kernel_fixes.yaml` lists what newer versions of ONNX Runtime fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml

from ortablegen.runtime_tables.kernels import flatten_numbers, measure_numbers
from ortablegen.runtime_tables.precision import DEVIATIONS, classify_result
from ortablegen.runtime_tables.probes import PROBES, VARIANTS, Probe
from ortablegen.schemas.onnx import versions_between

_SPECS = Path(__file__).parents[3] / "specs" / "runtime"
_ROWS = yaml.safe_load((_SPECS / "kernels_cpu.yaml").read_text())
_FIXES = yaml.safe_load((_SPECS / "kernel_fixes.yaml").read_text()) or []
_SAMPLE = (
    "ArgMax", "Clip", "Erf", "GRU", "Gemm", "LSTM", "LogSoftmax", "MaxPool", "Mod", "Range",
    "ReduceMax", "ReduceSum", "Relu", "ScatterND", "Sign", "Softplus", "TopK", "Where",
)  # fmt: skip
# Number of operators of the standard domain whose kernels are not measured; it may only shrink.
_MAX_UNMEASURED = 97


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["op"], row["since"], row.get("opset", row["since"])


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _expected(row: Mapping[str, Any]) -> set[tuple[str, ...]]:
    installed = _version(onnxruntime.__version__)
    fixed = {
        text
        for fix in _FIXES
        if _key(fix) == _key(row) and _version(fix["onnxruntime"]) <= installed
        for text in fix["fixed"]
    }
    return {words for words in flatten_numbers(row["numbers"]) if " ".join(words) not in fixed}


def compare(rows: list[Mapping[str, Any]]) -> None:
    """Compare rows of the table with measurements of the installed kernels."""
    for row in rows:
        schema = next(s for s in versions_between(row["op"]) if s.since == row["since"])
        deviations = measure_numbers(row, schema)
        assert deviations is not None, f"{_key(row)} no longer runs"
        assert deviations == _expected(row), (
            f"{_key(row)}: run `python -m ortablegen kernels`, or `kernel-fixes` for newer versions"
        )


def load_measured_rows() -> list[Mapping[str, Any]]:
    """Return the rows of the table that list numeric deviations."""
    return [row for row in _ROWS if "numbers" in row]


def test_the_table_says_what_a_sample_of_kernels_does() -> None:
    compare([row for row in load_measured_rows() if row["op"] in _SAMPLE])


def test_what_is_not_measured_only_shrinks() -> None:
    rows = [row for row in _ROWS if not row.get("domain")]
    unmeasured = {row["op"] for row in rows} - {row["op"] for row in load_measured_rows()}
    assert len(unmeasured) <= _MAX_UNMEASURED, sorted(unmeasured)
    assert not unmeasured & (PROBES.keys() | VARIANTS.keys())


@pytest.mark.parametrize(
    ("result", "expected", "deviation"),
    [
        (np.array([2**53 + 2]), np.array([2**53 + 1], object), "via double"),
        (np.array([2**25]), np.array([2**25 + 1], object), "via float"),
        (np.array([1]), np.array([2**31 + 1], object), "wrong"),
        (np.array([2**63 - 1]), np.array([2**63 + 7], object), "saturates"),
        (np.array([-(2**63)]), np.array([2**63], object), None),
        (np.array([1.0]), np.array([np.nan]), "drops NaN"),
        (np.array([np.finfo(np.float64).max]), np.array([np.inf]), "drops infinity"),
        (np.array([np.inf]), np.array([88.0]), "overflows"),
        (np.array([0.0]), np.array([-0.0]), "drops sign of 0"),
        (np.array([1.0 + 1e-9]), np.array([1.0]), None),
        (np.array([1.0 + 1e-7]), np.array([1.0]), "loses digits"),
    ],
)
def test_a_result_is_judged_by_what_is_wrong_with_it(
    result: np.ndarray, expected: np.ndarray, deviation: str | None
) -> None:
    probe = Probe((result,), lambda _: expected)
    assert classify_result(probe, result) == ({deviation} if deviation else set())
    assert deviation is None or deviation in DEVIATIONS
