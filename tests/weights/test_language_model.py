"""`weights=` of export_language_model: quantized layers in a data file shared with the loop."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import ortable
from ortable.errors import OptionError

from .models import build, count_products, distance, linears, operators

pytestmark = pytest.mark.alternates(parts=3)


def build_llama() -> torch.nn.Module:
    llama, _ = build("llama")
    llama.config.use_cache = True
    llama.generation_config.eos_token_id = None
    llama.generation_config.pad_token_id = 0
    return llama


def logits_distance(exported, llama: torch.nn.Module, ids: torch.Tensor) -> float:
    with torch.no_grad():
        return distance(exported.step(ids, torch.ones_like(ids))[0], llama(ids).logits)


def data_size(folder: Path) -> int:
    return (folder / "model.onnx.data").stat().st_size


def test_texts_calibrate_codes(tmp_path) -> None:
    llama = build_llama()
    torch.manual_seed(1)
    texts = [torch.randint(96, (2, length)) for length in (20, 9)]
    errors = []
    for calibration in (None, texts):
        exported = ortable.export_language_model(
            llama, tmp_path / "folder", weights="int4", calibration=calibration, logits="all"
        )
        errors.append(logits_distance(exported, llama, texts[0]))
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"loop": "greedy"}, "needs merged=True without loop"),
        ({"merged": False}, "needs merged=True without loop"),
        ({"calibration": torch.zeros(2, 3).long()}, "is a list of token ids"),
        ({"calibration": [torch.zeros(2, 3)]}, "is a list of token ids"),
        ({"weights": None}, "give weights="),
    ],
)
def test_texts_that_cannot_calibrate_are_refused(keywords, message, tmp_path) -> None:
    values = {"weights": "int4", "calibration": [torch.zeros(2, 3).long()], **keywords}
    with pytest.raises(OptionError, match=message):
        ortable.export_language_model(build_llama(), tmp_path / "folder", **values)


@pytest.mark.alternates("kind")
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_in_one_data_file(kind, tmp_path) -> None:
    max_ratio = {"int8": 0.3, "int4": 0.2}[kind]
    llama = build_llama()
    ids = torch.arange(3, 9)[None]
    unquantized = ortable.export_language_model(llama, tmp_path / "whole")
    quantized = ortable.export_language_model(
        llama, tmp_path / "small", weights=kind, loop="greedy", logits="all"
    )
    step = onnx.load(quantized.folder / "model.onnx", load_external_data=False)
    assert count_products(step) == linears(llama)
    assert operators(step)["GatherBlockQuantized"] == 1
    assert data_size(Path(quantized.folder)) < max_ratio * data_size(Path(unquantized.folder))
    tokens = quantized.generate(ids, max_new_tokens=8)

    import onnxruntime

    session = onnxruntime.InferenceSession(Path(quantized.folder) / "greedy_search.onnx")
    feeds = {
        "input_ids": ids.numpy(),
        "attention_mask": torch.ones_like(ids).numpy(),
        "max_new_tokens": torch.tensor(8).numpy(),
    }
    assert session.run(None, feeds)[0].tolist() == tokens.tolist()
    assert logits_distance(quantized, llama, ids) < {"int8": 0.02, "int4": 0.25}[kind]
