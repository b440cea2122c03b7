"""export_language_model(cache="int8"): keys and values are codes of 8 bits. Steps of the exported
graph are those of the model in torch over a cache that rounds in numpy; ONNX Runtime's kernel reads
the codes (passes/rewrite/helpers/quantized_caches.py); what cannot be coded is refused."""

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

# Architectures, and whether attention of each layer is one node that reads the codes.
READ_IN_PLACE = {"gpt2": True, "llama": True, "mistral": True, "bloom": False}
SLOW = {"gpt2", "mistral", "bloom"}  # run with the sweeps
every_architecture = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in READ_IN_PLACE]
)
Made = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


class Coded(DynamicLayer):
    """A layer of a cache that rounds in numpy."""

    def __init__(self, scales: list[np.ndarray], past: list[np.ndarray]) -> None:
        super().__init__()
        self.scales, self.codes, self.is_initialized = scales, past, True

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        for number, states in enumerate((key_states, value_states)):
            inverse = np.float32(1) / self.scales[number]
            new = np.clip(np.rint(states.numpy() * inverse), -128, 127).astype(np.int8)
            self.codes[number] = np.concatenate([self.codes[number], new], axis=2)
        floats = [codes * scale for codes, scale in zip(self.codes, self.scales, strict=True)]
        return tuple(torch.from_numpy(each.astype(np.float32)) for each in floats)

    def get_seq_length(self) -> int:
        return self.codes[0].shape[2]


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Made:
    @functools.cache
    def made(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model = build(name)
        folder = tmp_path_factory.mktemp("coded") / name
        return model, ortable.export_language_model(
            model, folder, cache="int8", loop="greedy", context_length=length_of(name)
        )

    return made


def graph_of(made: ortable.OnnxLanguageModel) -> Any:
    return onnx.load(made.folder / "model.onnx").graph


def every_operator(graph: Any) -> Counter[str]:
    """How often each operator is there, in branches too."""
    found: Counter[str] = Counter()
    for node in graph.node:
        found[node.op_type] += 1
        for attribute in node.attribute:
            found += every_operator(attribute.g)
    return found


def scales_of(graph: Any) -> list[list[np.ndarray]]:
    """Those of keys and of values of each layer."""
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    count = sum(name.startswith("key_scale_") for name in stored)
    assert count
    return [[stored[f"{kind}_scale_{n}"] for kind in ("key", "value")] for n in range(count)]


@every_architecture
def test_steps_are_those_of_a_cache_that_rounds(name: str, coded: Made) -> None:
    model, made = coded(name)
    graph = graph_of(made)
    scales = scales_of(graph)
    rng = np.random.default_rng(0)
    for batch, past, sequence, filling in SIZES:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[0, :filling] = 0
        before = [
            [rng.integers(-127, 128, (batch, s.shape[1], past, s.shape[3]), np.int8) for s in both]
            for both in scales
        ]
        call = {
            "input_ids": torch.from_numpy(rng.integers(3, VOCABULARY, (batch, sequence))),
            "attention_mask": mask,
            "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -sequence:],
        }
        call = {key: value for key, value in call.items() if key in made.input_names}
        caches = {
            f"past_key_values.{number}.{kind}": torch.from_numpy(codes)
            for number, pair in enumerate(before)
            for kind, codes in zip(("key", "value"), pair, strict=True)
        }
        layers: Any = [Coded(both, list(past)) for both, past in zip(scales, before, strict=True)]
        with torch.no_grad():
            out = model(**call, **{CACHE: Cache(layers=layers)}, use_cache=True)
        found = run(made.folder / "model.onnx", {**call, **caches})
        assert_close([found["logits"]], [out.logits])
        for number, layer in enumerate(layers):
            for kind, codes in zip(("key", "value"), layer.codes, strict=True):
                got = found[f"present.{number}.{kind}"]
                assert got.dtype == torch.int8
                # a value half way between two codes, off by the order of a sum, goes either way
                assert np.abs(got.numpy().astype(int) - codes).max(initial=0) <= 1
                assert (got.numpy() != codes).mean() < 0.01


@every_architecture
def test_the_kernel_reads_the_codes(name: str, coded: Made) -> None:
    _, made = coded(name)
    in_place = READ_IN_PLACE[name]
    graph = graph_of(made)
    layers = len(scales_of(graph))
    outside = Counter(node.op_type for node in graph.node)
    assert outside["Softmax"] == (0 if in_place else layers)
    assert outside["If"] == (layers if in_place else 0)
    assert every_operator(graph)["GroupQueryAttention"] == outside["If"]
    kinds = {each.name: each.type.tensor_type.elem_type for each in (*graph.input, *graph.output)}
    assert {kinds[name] for name in kinds if "key" in name or "value" in name} == {3}


@every_architecture
def test_texts_are_those_of_the_steps(name: str, coded: Made) -> None:
    """The loop in one graph, the small loop, and prompts in pieces agree."""
    _, made = coded(name)
    texts = made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS)
    assert torch.equal(searched(made.folder / "greedy_search.onnx"), texts)
    whole, cache = made.step(texts[:, :8], torch.ones(2, 8))
    first, part = made.step(texts[:, :3], torch.ones(2, 3))
    second, part = made.step(texts[:, 3:8], torch.ones(2, 8), part)
    assert_close([torch.cat([first, second], dim=1)], [whole])
    assert cache["0.key"].shape() == part["0.key"].shape()


@pytest.mark.slow
def test_heads_that_the_kernel_does_not_take_are_read_without_it(tmp_path: Path) -> None:
    """The kernel's heads are a multiple of 8 wide: others are turned into floats before."""
    torch.manual_seed(0)
    settings = {**ARCHITECTURES["llama"], "head_dim": 12}
    model = LlamaForCausalLM(LlamaConfig(**settings)).eval()
    made = ortable.export_language_model(model, tmp_path / "lm", cache="int8", loop="greedy")
    graph = graph_of(made)
    assert {each.shape[-1] for both in scales_of(graph) for each in both} == {12}
    assert not every_operator(graph)["GroupQueryAttention"]
    texts = made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS)
    assert torch.equal(searched(made.folder / "greedy_search.onnx"), texts)


@pytest.mark.slow
def test_codes_are_close_to_what_they_stand_for(tmp_path: Path) -> None:
    model = build("llama")
    plain = ortable.export_language_model(model, tmp_path / "plain")
    exact, _ = plain.step(PROMPTS, MASK)
    errors = {}
    for scales in ("channel", "tensor"):
        options = ortable.CacheOptions(scales=scales, texts=PROMPTS)  # type: ignore[arg-type]
        made = ortable.export_language_model(model, tmp_path / scales, cache=options)
        found, cache = made.step(PROMPTS, MASK)
        assert cache["0.value"].data_type() == "tensor(int8)"
        errors[scales] = float((found - exact).abs().max() / exact.abs().max())
    assert 0 < errors["channel"] < 0.02
    assert 0 < errors["tensor"] < 0.05
    assert torch.equal(generated(model)[:, :6], made.generate(PROMPTS, MASK, max_new_tokens=1))


@pytest.mark.slow
def test_other_forms_of_the_folder(tmp_path: Path) -> None:
    model = build("llama")
    standard = ortable.export_language_model(model, tmp_path / "a", cache="int8", target=None)
    assert {opset.domain for opset in onnx.load(tmp_path / "a/model.onnx").opset_import} == {""}
    both = {
        "two graphs": ortable.export_language_model(
            model, tmp_path / "b", cache={"kind": "int8"}, merged=False
        ),
        "small weights": ortable.export_language_model(
            model, tmp_path / "c", cache="int8", weights={"kind": "int8", "group_size": 16}
        ),
    }
    expected, _ = standard.step(PROMPTS, MASK)
    found, cache = both["two graphs"].step(PROMPTS, MASK)
    assert_close([found], [expected])
    logits, _ = both["two graphs"].step(PROMPTS[:, :1], torch.cat([MASK, MASK[:, -1:]], 1), cache)
    assert logits.shape == (2, 1, VOCABULARY)
    found, _ = both["small weights"].step(PROMPTS, MASK)
    assert float((found - expected).abs().max()) < 0.05 * float(expected.abs().max())
    operators = every_operator(graph_of(both["small weights"]))
    assert operators["MatMulNBits"] and operators["GroupQueryAttention"]


@pytest.mark.parametrize("cache", [pytest.param(None, marks=pytest.mark.slow), "int8"])
def test_weights_are_called_as_in_the_model(cache: Any, tmp_path: Path) -> None:
    """Those that stay as they are do so in the step, over codes too, and in the loop."""
    weights = {"kind": "int8", "group_size": 16, "exclude": ["lm_head.weight"], "embeddings": False}
    made = ortable.export_language_model(
        build("llama"), tmp_path / "x", weights=weights, cache=cache, loop="greedy"
    )
    for name in ("model.onnx", "greedy_search.onnx"):
        graph = onnx.load(made.folder / name, load_external_data=False).graph
        kept = [each.name for each in graph.initializer if "lm_head.weight" in each.name]
        assert kept and not any("codes" in each for each in kept), name
        assert every_operator(graph)["MatMulNBits"] == 7


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
    half = build("llama").to(torch.float16)
    with pytest.raises(ExportError, match="cache of float32, and that of LlamaForCausalLM is"):
        ortable.export_language_model(half, tmp_path / "x", cache="int8")
    broken = build("llama")
    with torch.no_grad():
        broken.model.layers[0].self_attn.k_proj.weight[3] = float("inf")
    with pytest.raises(ExportError, match="has NaN or infinities on the texts"):
        ortable.export_language_model(broken, tmp_path / "x", cache="int8")
