"""The example of docs/adding-an-operator.md: to_onnx and torch.compile use an entry in YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ortable
from ortable.testing.entries import run_onnx
from ortable_generated.aten import dispatch

ROOT = Path(__file__).parents[2]
INPUT = torch.tensor([[0.5, 2.0, 0.0], [-1.0, float("nan"), float("inf")]])


class Entropy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.entr(x).sum(dim=-1)


def _find_entry(text: str) -> list[str]:
    lines = [line.strip() for line in text.split("\n")]
    start = next(i for i, line in enumerate(lines) if line.startswith("- op: aten::special_entr"))
    return lines[start : start + 12]


def test_the_page_shows_the_entry_that_is_in_the_specs() -> None:
    page = (ROOT / "docs" / "adding-an-operator.md").read_text().split("### Write the entry")[1]
    spec = (ROOT / "specs" / "aten" / "special.yaml").read_text()
    assert _find_entry(page)[:11] == _find_entry(spec)[:11]


def test_without_the_entry_the_error_gives_the_lines_to_start_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(dispatch.CONVERTERS, "aten::special_entr")
    with pytest.raises(ortable.FunctionNotFoundError) as exc_info:
        ortable.to_onnx(Entropy(), (INPUT,))
    assert "- op: aten::special_entr(Tensor self) -> Tensor" in str(exc_info.value)


def test_the_operator_exports() -> None:
    proto = ortable.to_onnx(Entropy(), (INPUT,), input_names=["x"])
    (result,) = run_onnx(proto, {"x": INPUT})
    torch.testing.assert_close(result, Entropy()(INPUT), equal_nan=True)


def test_the_operator_compiles() -> None:
    compiled = torch.compile(Entropy(), backend=ortable.onnx_custom_backend, fullgraph=True)
    torch.testing.assert_close(compiled(INPUT), Entropy()(INPUT), equal_nan=True)
