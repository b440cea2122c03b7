"""Comparison of results, messages of runtimes, and files of inputs and results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ortable.debug.arrays import to_numpy

from .__main__ import EQUAL, EXPECTED, compare, find_unexpected, markdown
from .run_python import read_inputs, write_arrays
from .runtimes import RUNTIMES, error_text, read_results
from .samples import VARYING, collect_cases, load_listed, load_varying, summarize


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
    text = "no\nCaused by:\n  y\nStack backtrace:\n 0: main\n"
    assert error_text(text) == "no Caused by: y"
    text = "Exception from src/core.cpp:1:\nCheck 'a > b' failed at src/x.cpp:2:\nno Loop"
    assert error_text(text) == "no Loop"


def test_outcomes_other_than_expected_are_found():
    (model,) = list(EXPECTED["tract"])[:1]
    outcomes = {model: {"tract": EQUAL, "openvino": EQUAL}, "mlp": {"tract": "fails: x"}}
    lines = find_unexpected(outcomes, 18)
    assert [line.split(": ", 1)[1] for line in lines] == [
        f"{model}, tract: {EQUAL}",
        "mlp, tract: fails: x",
    ]
    assert "- mlp, tract: fails: x" in markdown(outcomes, 18)


def test_inputs_and_results_go_through_files(tmp_path):
    bfloat16 = torch.ones(2, dtype=torch.bfloat16)
    arrays = {"x": np.arange(6).reshape(2, 3), "y": np.array(True), "z": to_numpy(bfloat16)}
    for kind in ("input", "result"):
        write_arrays(tmp_path, kind, arrays)
    results = dict(zip(arrays, read_results(tmp_path), strict=True))
    for read in (read_inputs(tmp_path), results):
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype and np.array_equal(read[name], array)


def test_samples_are_listed_by_runtime():
    runtimes = [runtime for runtime in RUNTIMES if not runtime.is_importer]
    listed = load_listed(runtimes).listed
    assert set(listed) <= set(collect_cases()), "samples.yaml lists sample calls that are gone"
    assert summarize({"openvino": "exact", "tract": "failing"}) == "failing in tract"
    assert all(f"{VARYING} in {name}" in listed[case] for name, case in load_varying())
    assert set(load_listed(runtimes[:1]).listed) < set(listed)


def test_every_runtime_has_pinned_packages():
    for runtime in RUNTIMES:
        assert all("==" in package or "@" in package for package in runtime.packages)
    assert {name.partition(",")[0] for name in EXPECTED} <= {r.name for r in RUNTIMES}
