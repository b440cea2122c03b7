"""`generate` of transformers with a compiled forward gives eager's tokens with few graphs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.utils import counters

from tests.exporter.language_models import VOCABULARY, build

pytestmark = pytest.mark.alternates(parts=3)

STATIC = {"cache_implementation": "static", "disable_compile": True}


def make_model(name):
    model = build(name)
    model.generation_config.pad_token_id = 0
    return model


def generate(model, count=7, **keywords):
    torch.manual_seed(0)
    ids = torch.randint(3, VOCABULARY, (2, 5))
    mask = torch.ones_like(ids)
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=count, do_sample=False, **keywords
    )


def count_graphs():
    return counters["stats"]["unique_graphs"]


def compile_forward(model, dynamic=None, **options):
    torch._dynamo.reset()
    counters.clear()
    model.forward = torch.compile(
        model.forward, backend="ortable", dynamic=dynamic, options=options or None
    )


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize(
    ("dynamic", "keywords", "max_graphs"),
    [
        (True, {}, 2),
        (None, {}, 3),
        (None, STATIC, 2),
        (True, {"num_beams": 3}, 2),
    ],
    ids=["dynamic sizes", "automatic", "static cache", "beams"],
)
def test_tokens_and_graphs(name, dynamic, keywords, max_graphs) -> None:
    model = make_model(name)
    expected = generate(model, **keywords)
    compile_forward(model, dynamic)
    assert torch.equal(generate(model, **keywords), expected)
    assert count_graphs() <= max_graphs
    count_before = count_graphs()
    if not keywords:  # longer texts need no new graph
        assert generate(model, 20).shape == (2, 25)
        assert count_graphs() == count_before


@pytest.mark.alternates(parts=2)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mistral", "gemma2"])
def test_sliding_windows(name) -> None:
    model = make_model(name)
    expected = generate(model, 12)
    compile_forward(model, True)
    assert torch.equal(generate(model, 12), expected)
    assert count_graphs() <= 3


@pytest.mark.slow
def test_a_smaller_model_proposes_tokens() -> None:
    model = make_model("llama")
    assistant = copy.deepcopy(model)
    with torch.no_grad():
        for weight in assistant.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.01)
    ids = torch.arange(3, 8)[None]
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 9, "do_sample": False}
    expected = model.generate(ids, **options)
    compile_forward(model, True)
    assert torch.equal(model.generate(ids, assistant_model=assistant, **options), expected)


@pytest.mark.alternates(parts=2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_small_weights_decode(kind) -> None:
    """Tokens equal those of the rounded model at every step; group sizes fit the small model."""
    options = {"weights": {"kind": kind, "group_size": 16}}
    model = make_model("llama")
    compile_forward(model, True, **options)
    tokens = generate(model)
    assert tokens.shape == (2, 12)
    second_model = make_model("llama")
    compile_forward(second_model, None, **options)
    with torch.no_grad():
        logits = second_model.forward(input_ids=tokens[:, :-1], use_cache=False).logits
    predicted = logits.argmax(-1)[:, 4:]
    assert (predicted == tokens[:, 5:]).double().mean() > 0.7
