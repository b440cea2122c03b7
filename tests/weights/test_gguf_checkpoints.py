"""GGUF files, compared with the floats that transformers makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers

import ortable
from ortable.errors import InputError

from .gguf_checkpoints import write_gguf
from .models import distance, operators

pytestmark = pytest.mark.alternates(parts=3)

ROUNDING_ERROR = 1e-5
IDS = torch.arange(3, 9)[None]
WIDE = {"width": 256, "key_width": 64, "layers": 1}  # types of blocks of 256
FILES: dict[str, dict[str, Any]] = {
    "llama": {"types": ["Q4_0", "Q8_0"]},
    "llama, tied": {"types": ["Q4_K", "Q6_K"], "tied": True, **WIDE},
    "qwen2": {"types": ["Q5_0", "Q4_1"], "tied": True},
    # widths and a token that transformers does not read
    "qwen3": {"types": ["Q5_1"], "tied": True, "key_width": 128},
    "phi3": {"types": ["Q5_K", "Q3_K", "Q2_K"], "vocabulary": 32064, **WIDE},
    "gemma2": {"types": ["Q4_0"], "tied": True, "key_width": 32},
    "gemma3": {"types": ["Q8_0"], "tied": True, "key_width": 32},
}


def load_floats(folder: Any) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="model.gguf", dtype=torch.float32
    )
    model.generation_config.eos_token_id = None
    return model.eval()


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


@pytest.mark.parametrize("name", FILES)
def test_a_file_computes_what_transformers_makes_of_it(name, tmp_path) -> None:
    write_gguf(tmp_path / "model.gguf", name.partition(",")[0], **FILES[name])
    loaded = ortable.load_quantized_checkpoint(tmp_path / "model.gguf")
    assert distance(logits_of(loaded), logits_of(load_floats(tmp_path))) < ROUNDING_ERROR
    layers = [module for module in loaded.modules() if hasattr(module, "codes")]
    assert len(layers) == sum(
        isinstance(module, torch.nn.Linear | torch.nn.Embedding)
        for module in load_floats(tmp_path).modules()
    )


@pytest.mark.parametrize("name", ["llama", "llama, tied", "gemma3"])
def test_tokens_of_an_exported_file(name, tmp_path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, name.partition(",")[0], **FILES[name])
    exported = ortable.export_language_model(path, tmp_path / "onnx")
    model = load_floats(tmp_path)
    expected = model.generate(IDS, do_sample=False, max_new_tokens=8)
    assert torch.equal(exported.generate(IDS, max_new_tokens=8), expected)
    counts = operators(onnx.load(tmp_path / "onnx" / "model.onnx", load_external_data=False))
    assert counts["MatMulNBits"]
    # sums of groups times the minima of Q4_K
    assert counts["MatMul"] == (4 if name == "llama, tied" else 0)


def test_divisors_of_rotary_frequencies(tmp_path) -> None:
    factors = np.linspace(1, 8, 8).astype(np.float32)
    sizes = {**FILES["llama"], "rotary_factors": factors}
    write_gguf(tmp_path / "model.gguf", "llama", **sizes)
    loaded = ortable.load_quantized_checkpoint(tmp_path / "model.gguf")
    rotary = load_floats(tmp_path).model.rotary_emb
    expected = rotary.inv_freq / torch.from_numpy(factors)
    assert torch.equal(loaded.model.rotary_emb.inv_freq, expected)


def test_what_is_not_read_is_refused(tmp_path) -> None:
    write_gguf(tmp_path / "model.gguf", "starcoder2", **FILES["llama"])
    with pytest.raises(InputError, match="architecture 'starcoder2'"):
        ortable.load_quantized_checkpoint(tmp_path / "model.gguf")
