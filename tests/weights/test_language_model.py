"""`weights=` of export_language_model: quantized layers in a data file shared with the loop."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import ortable

from .models import build, linears, operators


def build_llama() -> torch.nn.Module:
    llama, _ = build("llama")
    llama.config.use_cache = True
    llama.generation_config.eos_token_id = None
    llama.generation_config.pad_token_id = 0
    return llama


def data_size(folder: Path) -> int:
    return (folder / "model.onnx.data").stat().st_size


@pytest.mark.alternates("kind")
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_in_one_data_file(kind, tmp_path) -> None:
    max_ratio = {"int8": 0.3, "int4": 0.2}[kind]
    llama = build_llama()
    ids = torch.arange(3, 9)[None]
    unquantized = ortable.export_language_model(llama, tmp_path / "whole")
    quantized = ortable.export_language_model(
        llama, tmp_path / "small", weights=kind, loop="greedy"
    )
    counts = operators(onnx.load(quantized.folder / "model.onnx", load_external_data=False))
    assert counts["MatMulNBits"] == linears(llama)
    assert counts["GatherBlockQuantized"] == 1
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
    if kind == "int8":
        assert torch.equal(tokens, llama.generate(ids, max_new_tokens=8, do_sample=False))
