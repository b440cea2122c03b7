"""Sizes, rounds, ratios and tables of benchmarks.rewrites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.models.inference import MODELS
from benchmarks.rewrites import report
from benchmarks.rewrites.measure import LONGER, Size, figures, rounds_for, size_of
from benchmarks.sessions import difference
from ortable.backend.timing import calls_per_block

SERIES = {
    "torch.onnx": [2.0, 4.0, 2.0, 2.0, 2.0],
    "without": [2.0, 4.0, 2.0, 2.0, 2.0],
    "with": [0.9, 2.2, 1.0, 1.0, 1.0],
    "with, again": [1.1, 1.8, 1.0, 1.0, 1.0],
    "torch.onnx, again": [2.0, 4.0, 2.0, 2.0, 2.0],
}


def record(name: str, series: dict[str, list[float]], **overrides: Any) -> dict[str, Any]:
    """Make the record of a model with these series of seconds."""
    nodes = {"torch.onnx": 10, "without": 9, "with": 5}
    without_rules = {"total": 0.02, "rules": 0.0, "share": 0.0}
    with_rules = {"total": 0.02, "rules": 0.001, "share": 0.05}
    values = {
        "name": name,
        "shape": [1, 128],
        "nodes": nodes,
        "kernels": nodes,
        "opset": dict.fromkeys(nodes, 18),
        "rules": {"some_rule": 3},
        "fx_nodes": 20,
        "errors": {},
        "wall": 1.0,
        "difference": {"without": 1e-7, "with": 1e-7},
        "conversion": {"without": without_rules, "with": with_rules},
        **figures(series),
    }
    return {**values, **overrides}


def make_run(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"machine": "a machine", "set": ["default"], "records": records, "depths": []}


def render(records: list[dict[str, Any]]) -> str:
    """Format the tables of these records."""
    return report.markdown(make_run(records))


def test_sizes() -> None:
    assert size_of("mlp") == Size("mlp")
    assert size_of("bert@4x128") == Size("bert", 4, 128)
    for name in (*MODELS, *LONGER):
        assert size_of(name).name in MODELS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bart", "unknown model 'bart'; known: tiny_mlp"),
        ("bert@4", "a size is BATCHxLENGTH"),
        ("bert@4x", "a size is BATCHxLENGTH"),
        ("bert@0x128", "a size is BATCHxLENGTH"),
        ("mlp@4x128", "only language models take a size"),
    ],
)
def test_sizes_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        size_of(text)


def test_a_longer_size_has_arguments_of_that_shape() -> None:
    model, (ids, mask) = size_of("bert@3x24").make(small=True)
    assert ids.shape == mask.shape == (3, 24)
    assert bool((mask == 1).all())
    assert model(ids, mask).shape[:2] == (3, 24)


@pytest.mark.parametrize("seconds", [0.00001, 0.01, 0.5])
@pytest.mark.parametrize("candidates", [3, 5, 7])
def test_rounds_fit_and_every_candidate_begins_equally_often(
    seconds: float, candidates: int
) -> None:
    count = calls_per_block(seconds, 0.03)
    rounds = rounds_for([seconds] * candidates, count, budget=20.0, most=40)
    assert rounds % candidates == 0
    assert 5 <= rounds <= 40
    minimum = candidates * -(-5 // candidates)
    needed = rounds * candidates * (0.03 + (1 + count) * seconds)
    assert needed <= 20.0 or rounds == minimum


def test_ratios_are_those_of_means_inside_a_round() -> None:
    result = figures(SERIES)
    assert result["ratio"] == {
        "without / torch.onnx": 1.0,
        "with / torch.onnx": 0.5,
        "with / without": 0.5,
    }
    assert result["spread"]["with / torch.onnx"] == 0.0
    assert result["band"] == {"with": 0.0, "torch.onnx": 0.0}
    assert result["latency"]["with"] == 1.0


def test_a_drifting_second_session_widens_the_band() -> None:
    series = {**SERIES, "with, again": [2 * value for value in SERIES["with"]]}
    assert figures(series)["band"]["with"] == 0.5


def test_series_without_torch() -> None:
    result = figures({name: SERIES[name] for name in ("without", "with", "with, again")})
    assert list(result["ratio"]) == ["with / without"]
    assert result["ratio"]["with / without"] == 0.5


def test_the_summary_has_the_mean_without_dlrm_and_the_worst() -> None:
    slower = {**SERIES, "torch.onnx": SERIES["with"], "torch.onnx, again": SERIES["with"]}
    records = [record("bert", SERIES), record("gpt2", slower), record("dlrm", SERIES)]
    rows = render(records)
    lines = [line for line in rows.splitlines() if line.startswith("|")]

    def ratios(title: str) -> list[str]:
        row = next(line for line in lines if line.startswith(f"| {title} |") and "0." in line)
        return [cell.strip() for cell in row.strip("|").split("|")][2:4]

    assert ratios("geometric mean without dlrm") == ["0.707", "0.500"]
    assert ratios("worst") == ["1.000", "0.500"]
    assert "| `some_rule` | 3 | 9 |" in report.details(make_run(records))


def test_models_outside_the_band_are_named() -> None:
    slower = {**SERIES, "with": SERIES["without"], "with, again": SERIES["without"]}
    slower["torch.onnx"] = slower["torch.onnx, again"] = SERIES["with"]
    text = render([record("bert", SERIES), record("gpt2", slower)])
    assert "with / torch.onnx: below 1 by more than the band: 1 of 2; above: `gpt2` (2.000" in text
    assert "with / without: below 1 by more than the band: 1 of 2; above: none." in text


def test_a_difference_from_eager_is_named() -> None:
    assert "of the largest value: none." in render([record("bert", SERIES)])
    wrong = record("bert", SERIES, difference={"without": 1e-7, "with": 0.3})
    assert "of the largest value: `bert` with rewrites (3e-01)." in render([wrong])


def test_a_model_that_failed_is_named() -> None:
    text = render([record("bert", SERIES), {"name": "vit", "failed": "exit code 1: no memory"}])
    assert "- `vit`: exit code 1: no memory" in text


def test_later_files_replace_what_earlier_ones_say(tmp_path: Path) -> None:
    runs: list[dict[str, Any]] = [
        {"machine": "a", "set": ["default"], "records": [{"name": "bert", "nodes": 1}]},
        {"machine": "b", "set": ["default"], "records": [{"name": "bert", "ablation": {"r": 2}}]},
    ]
    paths = [tmp_path / f"{number}.json" for number in range(len(runs))]
    for path, run in zip(paths, runs, strict=True):
        path.write_text(json.dumps({**run, "depths": []}))
    assert report.merged(paths)["records"] == [{"name": "bert", "nodes": 1, "ablation": {"r": 2}}]


def test_differences_see_what_is_not_a_number() -> None:
    expected = torch.tensor([1.0, -2.0, float("inf"), float("nan")])
    assert difference(expected.numpy(), expected) == 0.0
    assert difference((expected * torch.tensor([2.0, 1.0, 1.0, 1.0])).numpy(), expected) == 0.5
    for index in range(3):
        wrong = expected.clone()
        wrong[index] = float("nan")
        assert difference(wrong.numpy(), expected) > 1e6
