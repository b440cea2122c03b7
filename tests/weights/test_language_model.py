"""`weights=` of export_language_model: one graph for prompt and tokens whose layers read codes, in
a data file that the loop over all tokens shares."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import ortable

from .models import build, linears, operators


def model() -> torch.nn.Module:
    made, _ = build("llama")
    made.config.use_cache = True
    made.generation_config.eos_token_id = None
    made.generation_config.pad_token_id = 0
    return made


def size(folder: Path) -> int:
    return (folder / "model.onnx.data").stat().st_size


@pytest.mark.alternates("kind")
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_in_one_data_file(kind, tmp_path) -> None:
    share = {"int8": 0.3, "int4": 0.2}[kind]
    llama = model()
    ids = torch.arange(3, 9)[None]
    whole = ortable.export_language_model(llama, tmp_path / "whole")
    small = ortable.export_language_model(llama, tmp_path / "small", weights=kind, loop="greedy")
    counts = operators(onnx.load(small.folder / "model.onnx", load_external_data=False))
    assert counts["MatMulNBits"] == linears(llama)
    assert counts["GatherBlockQuantized"] == 1
    assert size(Path(small.folder)) < share * size(Path(whole.folder))
    tokens = small.generate(ids, max_new_tokens=8)

    import onnxruntime

    session = onnxruntime.InferenceSession(Path(small.folder) / "greedy_search.onnx")
    feeds = {
        "input_ids": ids.numpy(),
        "attention_mask": torch.ones_like(ids).numpy(),
        "max_new_tokens": torch.tensor(8).numpy(),
    }
    assert session.run(None, feeds)[0].tolist() == tokens.tolist()
    if kind == "int8":
        assert torch.equal(tokens, llama.generate(ids, max_new_tokens=8, do_sample=False))
