"""Exported models with states (Mamba and hybrids), compared with `generate` of transformers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest
import torch
import transformers

import ortable
from ortable.errors import ExportError, OptionError
from ortable.exporter.language_models.state_space import StateGraph, make_state_space

from .helpers import assert_close

pytestmark = pytest.mark.alternates(parts=3)

VOCABULARY, TOKENS, CHUNK = 97, 8, 8
_TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "bos_token_id": 1,
    "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
_ATTENTION = {
    "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}  # fmt: skip
_MAMBA = {**_TEXT, "state_size": 8, "conv_kernel": 4, "time_step_rank": 4}
# Model type -> arguments of its configuration.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "mamba": {**_MAMBA, "num_hidden_layers": 1},
    "bamba": {
        **_TEXT, **_ATTENTION, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1,
        "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_chunk_size": CHUNK, "attn_layer_indices": [1],
    },
}  # fmt: skip
# Run with the sweeps.
SLOW: dict[str, dict[str, Any]] = {
    "falcon_mamba": _MAMBA,
    "jamba": {
        **_TEXT, **_ATTENTION, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_dt_rank": 4,
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "num_experts": 2, "use_mamba_kernels": False,
    },
    "lfm2": {
        **_TEXT, **_ATTENTION, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3,
    },
    "lfm3": {
        **_TEXT, **_ATTENTION, "num_hidden_layers": 3, "head_dim": 16, "sliding_window": 4,
        "layer_types": ["conv", "sliding_attention", "full_attention"],
    },
    "mamba2": {
        **_TEXT, "state_size": 8, "conv_kernel": 4, "num_heads": 8, "head_dim": 8, "n_groups": 2,
        "chunk_size": CHUNK,
    },
    "olmo_hybrid": {
        **_TEXT, **_ATTENTION, "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 16,
    },
    "qwen3_5_text": {
        **_TEXT, **_ATTENTION, "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "head_dim": 16,
    },
}  # fmt: skip
every_architecture = pytest.mark.parametrize(
    "name", [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)


def build(name: str) -> Any:
    """Return a model with random weights, in eval mode, without an end token."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**ARCHITECTURES, **SLOW}[name])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(3)
    return model


def build_with_images() -> Any:
    """Return a small model like Qwen3.5 that reads images."""
    text = {**SLOW["qwen3_5_text"], "vocab_size": VOCABULARY}
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "depth": 1}
    vision = {**sizes, "out_hidden_size": 32, "num_position_embeddings": 16}
    config = transformers.Qwen3_5Config(text_config=text, vision_config=vision)
    return transformers.Qwen3_5ForConditionalGeneration(config).eval()


def make_texts(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random prompts and their mask; the first of several is padded on the left."""
    texts = torch.randint(3, VOCABULARY, (batch, length))
    mask = torch.ones_like(texts)
    if batch > 1:
        mask[0, : length // 2] = 0
    return texts * mask, mask


Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Return a function that exports a model once."""

    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model, folder = build(name), tmp_path_factory.mktemp("models") / name
        ortable.export_language_model(model, folder, logits="all")
        return model, ortable.OnnxLanguageModel.load(folder)

    return export_model


@pytest.mark.alternates(parts=2)
@every_architecture
def test_tokens_are_those_of_generate(name: str, exporter: Exporter) -> None:
    """Prompts are shorter than the convolution, whole chunks, and longer, with padding."""
    model, exported = exporter(name)
    for batch, length in ((1, 1), (2, 2), (1, 3), (2, CHUNK), (2, 9), (1, 2 * CHUNK)):
        texts, mask = make_texts(batch, length)
        expected = model.generate(
            texts, attention_mask=mask, do_sample=False, max_new_tokens=TOKENS
        )
        tokens = exported.generate(texts, mask, max_new_tokens=TOKENS)
        assert torch.equal(tokens, expected), (batch, length)


@every_architecture
def test_logits_of_each_step(name: str, exporter: Exporter) -> None:
    """The logits and the cache after the prompt, and after each of 8 tokens, are those of eager."""
    model, exported = exporter(name)
    parts = make_state_space(model, False)
    graph = StateGraph(parts)
    texts, mask = make_texts(3, 6)
    logits, cache = exported.step(texts, mask)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    past: list[torch.Tensor] = []
    tokens = texts
    for _ in range(1 + TOKENS):
        values = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
        call = {key: values[key] for key in parts.text_inputs(bool(past))}
        with torch.no_grad():
            expected, past = graph(**call, past=past)
        real = mask[:, -tokens.shape[1] :].bool()
        names = parts.cache_names("present")
        assert {f"present.{key}" for key in cache} == {*names}
        assert_close([logits[real]], [expected[real]])
        results = [cache[key.removeprefix("present.")].numpy() for key in names]
        for key, value, reference in zip(names, results, past, strict=True):
            if key.endswith("_state"):  # keys of padding are not read
                assert_close([torch.from_numpy(value)], [reference])
        tokens = expected[:, -1:].argmax(-1)
        mask = torch.cat([mask, torch.ones_like(tokens)], 1)
        positions = positions[:, -1:] + 1
        logits, cache = exported.step(tokens, mask, cache)


def test_a_piece_is_fed_token_by_token(exporter: Exporter) -> None:
    """The graph of a token takes one token, and `step` calls it for each of several."""
    model, exported = exporter("bamba")
    texts = torch.randint(3, VOCABULARY, (2, 7))
    with torch.no_grad():
        expected = model(texts).logits
    first, cache = exported.step(texts[:, :3], torch.ones(2, 3))
    second, _ = exported.step(texts[:, 3:], torch.ones(2, 7), cache)
    assert_close([torch.cat([first, second], 1)], [expected])
    with pytest.raises(OptionError, match="has states"):
        exported.generate(make_texts(1, 3)[0][:1], prompt_lookup_num_tokens=2)


def test_names_and_sizes(exporter: Exporter) -> None:
    """Layers of attention have keys and values, others have states."""
    _, exported = exporter("bamba")
    assert exported.files == ("decoder_model.onnx", "decoder_with_past_model.onnx")
    session = onnxruntime.InferenceSession(exported.folder / exported.files[1])
    shapes = {value.name: value.shape for value in session.get_inputs()}
    batch, past = "batch_size", "past_sequence_length"
    assert shapes == {
        "input_ids": [batch, 1],
        "attention_mask": [batch, f"{past} + 1"],
        "position_ids": [batch, 1],
        "past_key_values.0.conv_state": [batch, 80, 4],
        "past_key_values.0.recurrent_state": [batch, 8, 8, 8],
        "past_key_values.1.key": [batch, 2, past, 8],
        "past_key_values.1.value": [batch, 2, past, 8],
    }
    _, exported = exporter("mamba")
    assert exported.input_names == [
        "input_ids", "past_key_values.0.conv_state", "past_key_values.0.recurrent_state"
    ]  # fmt: skip


def test_layers_of_other_kinds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache = build("mamba"), transformers.DynamicCache()

    def forward(input_ids: torch.Tensor, use_cache: bool, cache_params: Any = None) -> Any:
        return SimpleNamespace(cache_params=cache)

    monkeypatch.setattr(model, "forward", forward)
    keys = torch.rand(1, 2, 3, 4)
    for layer in (SimpleNamespace(), SimpleNamespace(number_of_states=2, keys=keys, values=keys)):
        cache.layers = [layer]
        with pytest.raises(ExportError, match=r"layer 0 of the cache of Mamba.* a Simple"):
            make_state_space(model, False)
    cache.layers = [type("DummyLayer", (), {})(), SimpleNamespace(keys=keys, values=keys)]
    assert [len(layer) for layer in make_state_space(model, False).layers] == [0, 2]


@pytest.mark.slow  # a model of two kinds of layers is exported
def test_small_weights(exporter: Exporter, tmp_path: Path) -> None:
    model, _ = exporter("bamba")
    small = ortable.export_language_model(model, tmp_path / "small", weights="int8")
    assert small.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=2).shape == (1, 5)


def test_refusals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = build("mamba")
    for options, message in [
        ({"loop": "greedy"}, "has states in place of keys and values, and loop='greedy' is"),
        ({"cache": "int8"}, "cache is for causal models"),
        ({"genai": True}, "genai=True is for causal models"),
    ]:
        with pytest.raises(OptionError, match=message):
            ortable.export_language_model(model, tmp_path / "model", **options)
    with pytest.raises(ExportError, match="reads images and has layers with states"):
        ortable.export_language_model(build_with_images(), tmp_path / "model")
    # a graph that computes something else
    graph = StateGraph(make_state_space(model, False))
    monkeypatch.setattr(
        "ortable.exporter.language_models.state_space.export",
        lambda *_, **__: lambda **call: (graph(**call)[0] + 1, []),
    )
    with pytest.raises(ExportError, match="differs from the model at 1 tokens"):
        ortable.export_language_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
