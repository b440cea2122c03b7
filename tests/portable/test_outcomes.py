"""Comparison of results, messages of runtimes, and files of inputs and results."""

from __future__ import annotations

import json

import numpy as np
import pytest

from .__main__ import EQUAL, EXPECTED, compare, find_unexpected, markdown
from .runtimes import RUNTIMES, error_text, read_results, write_inputs


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (np.array([1.0, 2.0]), EQUAL),
        (np.array([1.0, 2.00001]), EQUAL),
        (np.array([1.0, 2.1]), "differs: result 0 by 5.0e-02"),
        (np.array([1.0, np.nan]), "differs: result 0 by nan"),
        (np.array([[1.0, 2.0]]), "differs: result 0 has shape (1, 2), not (2,)"),
    ],
)
def test_results_are_compared_by_shape_and_value(result, outcome):
    assert compare([result], [np.array([1.0, 2.0])], 1e-4) == outcome
    assert compare([result] * 2, [result], 1e-4) == "differs: 2 results, not 1"


def test_an_error_is_told_without_its_frames():
    text = "Traceback:\n  x\ntract.TractError: no\nCaused by:\n  y\nStack backtrace:\n 0: main\n"
    assert error_text(text) == "no Caused by: y"
    assert error_text("") == ""


def test_outcomes_other_than_expected_are_found():
    (model,) = list(EXPECTED["tract"])[:1]
    outcomes = {model: {"tract": EQUAL, "openvino": EQUAL}, "mlp": {"tract": "fails: x"}}
    lines = find_unexpected(outcomes)
    assert [line.split(": ", 1)[1] for line in lines] == [
        f"{model}, tract: {EQUAL}",
        "mlp, tract: fails: x",
    ]
    assert "- mlp, tract: fails: x" in markdown(outcomes, 18)


def test_inputs_and_results_go_through_files(tmp_path):
    arrays = {"x": np.arange(6, dtype=np.int64).reshape(2, 3), "y": np.array([True, False])}
    write_inputs(tmp_path, arrays)
    listed = json.loads((tmp_path / "inputs.json").read_text())
    assert [(item["name"], item["type"], item["dims"]) for item in listed] == [
        ("x", "int64", [2, 3]),
        ("y", "bool", [2]),
    ]
    (tmp_path / "results.json").write_text(json.dumps(listed))
    for result, array in zip(read_results(tmp_path), arrays.values(), strict=True):
        assert result.dtype == array.dtype and np.array_equal(result, array)


def test_every_runtime_has_pinned_packages():
    for runtime in RUNTIMES:
        assert all("==" in package or "@" in package for package in runtime.packages)
    assert set(EXPECTED) <= {runtime.name for runtime in RUNTIMES}
