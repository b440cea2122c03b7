"""Steps that append to their cache in place, by one node of attention for each layer.

The nodes are those of passes/rewrite/helpers/growing_caches.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import OrtValue

import ortable
from ortable.exporter.language_models.decoder import make_decoder

from .helpers import assert_close
from .test_export_language_model import build

pytestmark = pytest.mark.alternates(parts=3)

# Nodes of a layer of each model, at most.
LAYER_NODES = {"llama": 18, "gpt2": 16, "mistral": 18, "gemma3_text": 38, "qwen3": 22, "phi3": 26}
PLACES = 12
# Two texts, the first of which has padding before, inside and behind its tokens.
TEXTS = torch.tensor([[0, 0, 43, 17, 25, 0, 12], [61, 12, 80, 33, 9, 54, 11]])
MASK = torch.tensor([[0, 0, 1, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1]])


def load_graph(exported: ortable.OnnxLanguageModel) -> onnx.GraphProto:
    return onnx.load(exported.folder / "model.onnx", load_external_data=False).graph


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", LAYER_NODES)
def test_a_layer_attends_and_appends_in_one_node(name: str, tmp_path: Path) -> None:
    model = build(name)
    layers = model.config.num_hidden_layers
    graph = load_graph(ortable.export_language_model(model, tmp_path / "lm"))
    counts = Counter(node.op_type for node in graph.node)
    assert counts["GroupQueryAttention"] == layers
    assert counts["Softmax"] == counts["GatherND"] == 0
    around = 55  # masks, rows without a key, angles, embeddings and logits
    assert len(graph.node) <= around + layers * LAYER_NODES[name]


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_a_cache_with_free_places_is_written_in_place(name: str, tmp_path: Path) -> None:
    """The prompt, then tokens: logits of every position that eager has, whatever was masked."""
    model = build(name)
    exported = ortable.export_language_model(model, tmp_path / "lm", logits="all")
    session = onnxruntime.InferenceSession(
        exported.folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    shapes = {
        value.name: (2, value.shape[1], PLACES, value.shape[3])
        for value in session.get_inputs()
        if value.name.startswith("past")
    }
    # places behind the text hold anything
    caches = {
        name: OrtValue.ortvalue_from_numpy(np.full(shape, np.nan, np.float32))
        for name, shape in shapes.items()
    }
    positions = (MASK.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = model(input_ids=TEXTS, attention_mask=MASK, position_ids=positions).logits
    for start, end in ((0, 4), (4, 5), (5, 6), (6, 7)):
        binding = session.io_binding()
        feeds = {
            "input_ids": TEXTS[:, start:end],
            "attention_mask": MASK[:, :end],
            "position_ids": positions[:, start:end],
        }
        for key, value in feeds.items():
            binding.bind_cpu_input(key, value.contiguous().numpy())
        binding.bind_output("logits")
        for key, cache in caches.items():
            binding.bind_ortvalue_input(key, cache)
            binding.bind_ortvalue_output(key.replace("past_key_values", "present"), cache)
        session.run_with_iobinding(binding)
        logits = torch.from_numpy(binding.copy_outputs_to_cpu()[0])
        assert_close([logits], [expected[:, start:end]])


def test_pieces_of_several_texts_are_a_step_of_each_token(tmp_path: Path) -> None:
    model = build("llama")
    for logits in ("all", "last"):
        exported = ortable.export_language_model(model, tmp_path / logits, logits=logits)  # type: ignore[arg-type]
        _, cache = exported.step(TEXTS[:, :3], MASK[:, :3])
        computed, cache = exported.step(TEXTS[:, 3:], MASK, cache)
        positions = (MASK.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            expected = model(input_ids=TEXTS, attention_mask=MASK, position_ids=positions).logits
        assert_close([computed], [expected[:, 3:] if logits == "all" else expected[:, -1:]])
        assert cache["0.key"].shape()[2] == TEXTS.shape[1]


def test_the_graph_refuses_pieces_of_several_texts_and_validation_knows(tmp_path: Path) -> None:
    exported = ortable.export_language_model(build("llama"), tmp_path / "lm", validate=True)
    _, cache = exported.step(TEXTS[:, :3], MASK[:, :3])
    with pytest.raises(Exception, match="batch_size must be 1 when sequence_length > 1"):
        exported._step_runner.run_step(TEXTS[:, 3:], MASK, cache)


@pytest.mark.parametrize("name", ["llama", "opt"])
def test_validation_compares_logits_that_are_not_zero(name: str) -> None:
    """The embedding of the padding token is zero, and so is all that follows from it."""
    model = build(name)
    with torch.no_grad():
        logits = model(**make_decoder(model).example_call()).logits
    assert logits.abs().amax(-1).min() > 1e-3


def test_a_standard_graph_takes_a_cache_of_the_past_alone(tmp_path: Path) -> None:
    model = build("llama")
    exported = ortable.export_language_model(model, tmp_path / "lm", target=None)
    assert not exported._step_runner.has_shared_cache
    texts = exported.generate(TEXTS[1:, :3], max_new_tokens=4)
    assert torch.equal(texts, model.generate(TEXTS[1:, :3], do_sample=False, max_new_tokens=4))
