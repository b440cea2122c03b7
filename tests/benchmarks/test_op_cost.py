"""Scaled sample calls, and the placement table that is computed from their measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from benchmarks.op_cost.entries import choose_samples, read_entries
from benchmarks.op_cost.measure import measure_sample
from benchmarks.op_cost.placement import choose_threshold, is_costly, write_placement
from benchmarks.op_cost.report import MAX_RATIO, exceeding, exceeding_memory, read_reasons
from benchmarks.op_cost.scaling import scale_sample

ROOT = Path(__file__).parents[2]
ENTRIES = {entry.key: entry for entry in read_entries()}


def row(eager_ms, session_ms, elements=1_000_000, megabytes=(0, 0)):
    return {
        "elements": elements,
        "ms": {"eager": eager_ms, "session": session_ms},
        "mb": dict(zip(("eager", "session"), megabytes, strict=True)),
    }


def test_samples_grow_to_the_requested_size_in_a_way_that_eager_accepts():
    number = dict(choose_samples(ENTRIES["aten::addmm"]))["float32"]
    call = next(scale_sample(ENTRIES["aten::addmm"], number, 10_000))
    _, left, right = call.tensors
    assert left.shape[1] == right.shape[0]
    assert 5_000 < max(tensor.numel() for tensor in call.tensors) < 20_000


def test_a_measured_call_has_times_and_memory_of_both_sides():
    number = dict(choose_samples(ENTRIES["aten::relu"]))["float32"]
    *_, record = measure_sample(ENTRIES["aten::relu"], number, 5_000, ["session", "ortable"])
    assert set(record["ms"]) == {"eager", "session", "ortable"} == set(record["mb"])
    assert not record["failed"]


@pytest.mark.parametrize(
    ("measured", "costly"),
    [
        (row(1.0, 1.7), False),
        (row(1.0, 1.9), True),
        (row(0.1, 0.3), False),  # the loss is too small to matter
        (row(1.0, 1.0, megabytes=(4, 200)), True),
        (row(1.0, 1.0, megabytes=(80, 200)), False),
    ],
)
def test_costly_calls_lose_time_or_memory_that_a_user_feels(measured, costly):
    assert is_costly(measured) is costly


def test_the_threshold_is_where_the_loss_pays_for_leaving_a_session():
    assert choose_threshold(row(1.0, 2.5), row(0.0, 0.0, 10_000)) == 110_000
    assert choose_threshold(row(1.0, 2.5), None) == 100_000
    assert choose_threshold(row(1.0, 99.0), row(0.01, 0.31, 10_000)) == 5_000
    assert choose_threshold(row(1.0, 1.1), None) is None


def test_a_row_with_a_reason_stays_as_it_is(tmp_path):
    path = tmp_path / "operator_cost.yaml"
    sign = {"op": "aten::sign", "dtype": "float32", "ratio": 3, "why": "it joins its neighbors"}
    path.write_text(yaml.safe_dump([sign]))
    rows = {
        "aten::sign float32 large": row(1.0, 5.0),
        "aten::cummax float32 large": row(1.0, 31.0),
        "aten::t float32 large": row(0.0, 5.0),
    }
    write_placement(rows, path)
    table = yaml.safe_load(path.read_text())
    assert table == [
        {"op": "aten::cummax", "dtype": "float32", "from": 5_000, "ratio": 31},
        sign,
    ]


def test_gradients_are_compared_with_those_of_eager():
    rows = {"a": {"ms": {"eager": 1.0, "training eager": 4.0, "training ortable": 9.0}}}
    assert exceeding(rows, "training ortable") == {"a": 2.25}


def test_memory_that_a_session_takes_anyway_does_not_count():
    rows = {
        "a": {"mb": {"eager": 0.0, "ortable": 60.0}},
        "b": {"mb": {"eager": 30.0, "ortable": 150.0}},
        "c": {"mb": {"eager": 90.0, "ortable": 250.0}},
    }
    assert exceeding_memory(rows, "ortable") == {"b": 5.0}


def test_the_record_holds_the_limits():
    rows = json.loads((ROOT / "benchmarks" / "results" / "op_cost.json").read_text())["rows"]
    large = {name: row for name, row in rows.items() if name.endswith(" large")}
    slow = {name.rpartition(" ")[0] for name in exceeding(large, "ortable")}
    assert slow <= set(read_reasons()) and len(slow) <= 10
    assert not exceeding(large, "ortable", MAX_RATIO)
    assert not exceeding_memory(large, "ortable", MAX_RATIO)
