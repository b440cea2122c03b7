"""Caches of 8-bit codes: export_language_model(cache="int8") against a cache rounded in numpy.

The attention over them is written by passes/rewrite/helpers/quantized_caches.py.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import Cache, DynamicLayer

import ortable
from ortable.errors import ExportError, InputError, OptionError

from .helpers import assert_close
from .language_models import CACHE
from .test_export_language_model import (
    ARCHITECTURES,
    MASK,
    NEW_TOKENS,
    PROMPTS,
    SIZES,
    VOCABULARY,
    build,
    generated,
    length_of,
    run,
    searched,
)

pytestmark = pytest.mark.alternates(parts=3)

# Architectures, and whether ONNX Runtime's attention kernel reads the codes.
KERNEL_READS_CODES = {"gpt2": True, "llama": True, "mistral": True, "bloom": False}
SLOW = {"gpt2", "mistral", "bloom"}  # run with the sweeps
every_architecture = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in KERNEL_READS_CODES]
)
Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


class QuantizedLayer(DynamicLayer):
    """A layer of a cache that quantizes in numpy."""

    def __init__(self, scales: list[np.ndarray], past: list[np.ndarray]) -> None:
        super().__init__()
        self.scales, self.codes, self.is_initialized = scales, past, True

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        for index, states in enumerate((key_states, value_states)):
            inverse = np.float32(1) / self.scales[index]
            new = np.clip(np.rint(states.numpy() * inverse), -128, 127).astype(np.int8)
            self.codes[index] = np.concatenate([self.codes[index], new], axis=2)
        floats = [codes * scale for codes, scale in zip(self.codes, self.scales, strict=True)]
        return tuple(torch.from_numpy(array.astype(np.float32)) for array in floats)

    def get_seq_length(self) -> int:
        return self.codes[0].shape[2]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model = build(name)
        folder = tmp_path_factory.mktemp("coded") / name
        return model, ortable.export_language_model(
            model, folder, cache="int8", loop="greedy", logits="all", context_length=length_of(name)
        )

    return export_model


def load_graph(exported: ortable.OnnxLanguageModel) -> Any:
    return onnx.load(exported.folder / "model.onnx").graph


def count_operators(graph: Any) -> Counter[str]:
    """Count each operator, including those in branches."""
    counts: Counter[str] = Counter()
    for node in graph.node:
        counts[node.op_type] += 1
        for attribute in node.attribute:
            counts += count_operators(attribute.g)
    return counts


def read_scales(graph: Any) -> list[list[np.ndarray]]:
    """Return the scales of keys and of values of each layer."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    count = sum(name.startswith("key_scale_") for name in stored)
    assert count
    return [[stored[f"{kind}_scale_{n}"] for kind in ("key", "value")] for n in range(count)]


@every_architecture
def test_steps_are_those_of_a_cache_that_rounds(name: str, exporter: Exporter) -> None:
    model, exported = exporter(name)
    graph = load_graph(exported)
    scales = read_scales(graph)
    rng = np.random.default_rng(0)
    for batch, past, sequence, padding in SIZES:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[0, :padding] = 0
        initial_codes = [
            [rng.integers(-127, 128, (batch, s.shape[1], past, s.shape[3]), np.int8) for s in pair]
            for pair in scales
        ]
        call = {
            "input_ids": torch.from_numpy(rng.integers(3, VOCABULARY, (batch, sequence))),
            "attention_mask": mask,
            "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -sequence:],
        }
        call = {key: value for key, value in call.items() if key in exported.input_names}
        caches = {
            f"past_key_values.{index}.{kind}": torch.from_numpy(codes)
            for index, layer_codes in enumerate(initial_codes)
            for kind, codes in zip(("key", "value"), layer_codes, strict=True)
        }
        layers: Any = [
            QuantizedLayer(pair, list(past))
            for pair, past in zip(scales, initial_codes, strict=True)
        ]
        with torch.no_grad():
            out = model(**call, **{CACHE: Cache(layers=layers)}, use_cache=True)
        outputs = run(exported.folder / "model.onnx", {**call, **caches})
        assert_close([outputs["logits"]], [out.logits])
        for index, layer in enumerate(layers):
            for kind, codes in zip(("key", "value"), layer.codes, strict=True):
                result_codes = outputs[f"present.{index}.{kind}"]
                assert result_codes.dtype == torch.int8
                # Another order of summation rounds a value between two codes the other way.
                assert np.abs(result_codes.numpy().astype(int) - codes).max(initial=0) <= 1
                assert (result_codes.numpy() != codes).mean() < 0.01


@every_architecture
def test_the_kernel_reads_the_codes(name: str, exporter: Exporter) -> None:
    _, exported = exporter(name)
    reads_codes = KERNEL_READS_CODES[name]
    graph = load_graph(exported)
    layers = len(read_scales(graph))
    top_level = Counter(node.op_type for node in graph.node)
    assert top_level["Softmax"] == (0 if reads_codes else layers)
    assert top_level["If"] == (layers if reads_codes else 0)
    assert count_operators(graph)["GroupQueryAttention"] == top_level["If"]
    dtypes = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    assert {dtypes[name] for name in dtypes if "key" in name or "value" in name} == {3}


@every_architecture
def test_texts_are_those_of_the_steps(name: str, exporter: Exporter) -> None:
    """The loop in one graph, the loop over steps, and prompts in chunks agree."""
    _, exported = exporter(name)
    texts = exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS)
    assert torch.equal(searched(exported.folder / "greedy_search.onnx"), texts)
    all_logits, cache = exported.step(texts[:, :8], torch.ones(2, 8))
    first, chunk_cache = exported.step(texts[:, :3], torch.ones(2, 3))
    second, chunk_cache = exported.step(texts[:, 3:8], torch.ones(2, 8), chunk_cache)
    assert_close([torch.cat([first, second], dim=1)], [all_logits])
    assert cache["0.key"].shape() == chunk_cache["0.key"].shape()


@pytest.mark.slow
def test_heads_that_the_kernel_does_not_take_are_read_without_it(tmp_path: Path) -> None:
    """The kernel requires head widths that are multiples of 8; others are dequantized first."""
    torch.manual_seed(0)
    config = {**ARCHITECTURES["llama"], "head_dim": 12}
    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    exported = ortable.export_language_model(model, tmp_path / "lm", cache="int8", loop="greedy")
    graph = load_graph(exported)
    assert {scale.shape[-1] for pair in read_scales(graph) for scale in pair} == {12}
    assert not count_operators(graph)["GroupQueryAttention"]
    texts = exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS)
    assert torch.equal(searched(exported.folder / "greedy_search.onnx"), texts)


@pytest.mark.slow
def test_codes_are_close_to_what_they_stand_for(tmp_path: Path) -> None:
    model = build("llama")
    float_lm = ortable.export_language_model(model, tmp_path / "plain")
    expected, _ = float_lm.step(PROMPTS, MASK)
    errors = {}
    for scales in ("channel", "tensor"):
        options = ortable.CacheOptions(scales=scales, texts=PROMPTS)  # type: ignore[arg-type]
        exported = ortable.export_language_model(model, tmp_path / scales, cache=options)
        logits, cache = exported.step(PROMPTS, MASK)
        assert cache["0.value"].data_type() == "tensor(int8)"
        errors[scales] = float((logits - expected).abs().max() / expected.abs().max())
    assert 0 < errors["channel"] < 0.02
    assert 0 < errors["tensor"] < 0.05
    assert torch.equal(generated(model)[:, :6], exported.generate(PROMPTS, MASK, max_new_tokens=1))


@pytest.mark.slow
def test_other_forms_of_the_folder(tmp_path: Path) -> None:
    """Coded caches work without a target, with two graphs, and with quantized weights."""
    model = build("llama")
    standard = ortable.export_language_model(model, tmp_path / "a", cache="int8", target=None)
    assert {opset.domain for opset in onnx.load(tmp_path / "a/model.onnx").opset_import} == {""}
    models = {
        "two graphs": ortable.export_language_model(
            model, tmp_path / "b", cache={"kind": "int8"}, merged=False
        ),
        "small weights": ortable.export_language_model(
            model, tmp_path / "c", cache="int8", weights={"kind": "int8", "group_size": 16}
        ),
    }
    expected, _ = standard.step(PROMPTS, MASK)
    results, cache = models["two graphs"].step(PROMPTS, MASK)
    assert_close([results], [expected])
    logits, _ = models["two graphs"].step(PROMPTS[:, :1], torch.cat([MASK, MASK[:, -1:]], 1), cache)
    assert logits.shape == (2, 1, VOCABULARY)
    results, _ = models["small weights"].step(PROMPTS, MASK)
    assert float((results - expected).abs().max()) < 0.05 * float(expected.abs().max())
    operators = count_operators(load_graph(models["small weights"]))
    assert operators["MatMulNBits"] and operators["GroupQueryAttention"]


@pytest.mark.parametrize("cache", [pytest.param(None, marks=pytest.mark.slow), "int8"])
def test_weights_are_called_as_in_the_model(cache: Any, tmp_path: Path) -> None:
    """Excluded weights keep their names and values in the step and in the loop."""
    weights = {"kind": "int8", "group_size": 16, "exclude": ["lm_head.weight"], "embeddings": False}
    exported = ortable.export_language_model(
        build("llama"), tmp_path / "x", weights=weights, cache=cache, loop="greedy"
    )
    for name in ("model.onnx", "greedy_search.onnx"):
        graph = onnx.load(exported.folder / name, load_external_data=False).graph
        heads = [tensor.name for tensor in graph.initializer if "lm_head.weight" in tensor.name]
        assert heads and not any("codes" in head for head in heads), name
        assert count_operators(graph)["MatMulNBits"] == 4  # joined: query, key, value; gate, up


@pytest.mark.parametrize(
    ("cache", "error", "text"),
    [
        ("int4", OptionError, "kind is 'int8', not 'int4'"),
        (3, OptionError, "cache is 'keep', 'int8', a dict of settings or CacheOptions, not 3"),
        ({"kinds": "int8"}, OptionError, "there is no setting 'kinds'; it has kind, scales, texts"),
        ({"scales": "row"}, OptionError, "scales is 'channel' or 'tensor', not 'row'"),
        ({"texts": torch.zeros(3)}, InputError, r"integers \(texts, tokens\), not torch.float32"),
        (
            {"texts": [[1, 400]]},
            InputError,
            "tokens from 1 to 400, and the vocabulary of the model has 97",
        ),
    ],
)
def test_bad_options_are_named(cache: Any, error: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        ortable.export_language_model(build("llama"), tmp_path / "x", cache=cache)
    assert not (tmp_path / "x").exists()


def test_caches_that_codes_cannot_hold(tmp_path: Path) -> None:
    """Caches of float16, or with infinities, are refused."""
    float16_lm = build("llama").to(torch.float16)
    with pytest.raises(ExportError, match="cache of float32, and that of LlamaForCausalLM is"):
        ortable.export_language_model(float16_lm, tmp_path / "x", cache="int8")
    broken = build("llama")
    with torch.no_grad():
        broken.model.layers[0].self_attn.k_proj.weight[3] = float("inf")
    with pytest.raises(ExportError, match="has NaN or infinities on the texts"):
        ortable.export_language_model(broken, tmp_path / "x", cache="int8")
