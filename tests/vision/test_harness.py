"""The harness of `make vision`, with runs in child processes, as torchvision affects others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.child import python
from tests.suites.expected import load
from tests.suites.workers import Record

from . import models
from .__main__ import cases, counts


def test_the_cases_and_their_exceptions_fit() -> None:
    for library, name, min_count in (("timm", "timm", 290), ("torchvision", "vision", 130)):
        all_cases = cases(library)
        assert len(all_cases) == len(set(all_cases)) >= min_count
        assert set(load(name).listed) <= set(all_cases)
    assert "timm/swin_transformer/compile" in cases("timm")
    # a list of images has no dynamic batch
    assert "torchvision/detection/fcos_resnet50_fpn/static" in cases("torchvision")
    assert "torchvision/detection/fcos_resnet50_fpn/dynamic" not in cases("torchvision")


def test_an_entry_has_a_model() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        models._entry("x", {"size": 3})
    assert models._entry("x", {"model": "y", "size": [4, 6]}).size == (4, 6)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("timm/byoanet", [(2, 3, 256, 256)]),
        ("torchvision/video/r3d_18", [(2, 3, 8, 64, 64)]),
        ("torchvision/optical_flow/raft_small", [(2, 3, 128, 128)] * 2),
    ],
)
def test_calls_are_described_by_the_table(name: str, shapes: list[tuple[int, ...]]) -> None:
    arguments = models.make(name, 2)
    assert [tuple(tensor.shape) for tensor in arguments] == shapes
    assert not torch.equal(arguments[0], models.make(name, 2, seed=1)[0])


def test_what_is_all_equal_gets_noise() -> None:
    norm = torch.nn.BatchNorm2d(8)
    norm.register_buffer("window", torch.ones(8))
    models._fill(norm)
    assert all(tensor.std() > 0 for tensor in [norm.weight, norm.bias, norm.running_mean])
    assert bool((norm.running_var > 0).all()) and bool((norm.window == 1).all())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "case"),
    [
        ("timm", "timm/vision_transformer/dynamic"),
        ("torchvision", "torchvision/*/squeezenet1_1/static"),
    ],
)
def test_models_are_built_exported_and_compared(library: str, case: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    process = python("-m", "tests.vision", library, case, "--results", results, "--jobs", "1")
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    assert "as expected" in process.stdout
    assert results.read_text().count('"exact"') == len(results.read_text().splitlines()) > 0


def test_exact_cases_are_counted_by_mode() -> None:
    records = [Record("timm/a/static", "exact"), Record("timm/a/compile", "error")]
    assert counts(records) == {"static exact": 1, "dynamic exact": 0, "compile exact": 0}
