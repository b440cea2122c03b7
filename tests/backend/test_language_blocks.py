"""Blocks of language models and small whole models: static, at every length, and with a cache."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import mark_dynamic

from tests.backend.against_eager import assert_close, assert_equal_to_eager, compiled

F = torch.nn.functional


def load_family(family):
    """Return a transformers module, a configuration, a model class and a class name prefix."""
    if family == "llama":
        from transformers import LlamaConfig as Config
        from transformers import LlamaForCausalLM as Model
        from transformers.models.llama import modeling_llama as module
    else:
        from transformers import PhiConfig as Config
        from transformers import PhiForCausalLM as Model
        from transformers.models.phi import modeling_phi as module
    prefix = family.capitalize()
    config = Config(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=37,
        max_position_embeddings=64,
    )
    return module, config, Model, prefix


class Block(torch.nn.Module):
    """A rotary embedding and an attention or decoder layer."""

    def __init__(self, family, kind, attention):
        super().__init__()
        module, config, _, prefix = load_family(family)
        config._attn_implementation = attention
        self.rotary = getattr(module, f"{prefix}RotaryEmbedding")(config)
        self.block = getattr(module, f"{prefix}{kind}")(config, 0)

    def forward(self, x, mask):
        positions = torch.arange(x.shape[1])[None]
        rotated = self.rotary(x, positions)
        result = self.block(x, position_embeddings=rotated, attention_mask=mask)
        return result[0] if isinstance(result, tuple) else result


class LanguageModel(torch.nn.Module):
    def __init__(self, family, attention):
        super().__init__()
        _, config, model, _ = load_family(family)
        config._attn_implementation = attention
        self.model = model(config).eval()

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


def make_masked_input(batch, length):
    x = torch.randn(batch, length, 16)
    mask = torch.full((length, length), float("-inf")).triu(1)
    return x, mask.expand(batch, 1, length, length).contiguous()


def mark_sizes(args):
    """Mark batch and length of the arguments as dynamic."""
    mark_dynamic(args[0], (0, 1))
    if len(args) > 1:
        mark_dynamic(args[1], (0, 2, 3))
    return args


@pytest.mark.parametrize(
    ("kind", "attention"), [("Attention", "eager"), ("Attention", "sdpa"), ("DecoderLayer", "sdpa")]
)
@pytest.mark.alternates("family")
@pytest.mark.parametrize("family", ["llama", "phi"])
def test_blocks_of_language_models(family, kind, attention):
    records = assert_equal_to_eager(Block(family, kind, attention), [make_masked_input(2, 5)])
    assert [r["kind"] for r in records] == ["inference", "forward", "backward"]


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "Attention"), ("llama", "DecoderLayer"), ("phi", "DecoderLayer")]
)
def test_blocks_of_language_models_at_every_length(family, kind):
    calls = [mark_sizes(make_masked_input(*sizes)) for sizes in ((2, 5), (3, 7))]
    records = assert_equal_to_eager(Block(family, kind, "sdpa"), calls, dynamic=None)
    assert [r["kind"] for r in records] == ["inference", "forward", "backward"]


@pytest.mark.alternates("family")
@pytest.mark.parametrize("family", ["llama", "phi"])
def test_whole_language_models(family):
    calls = [(torch.randint(0, 37, (2, 5)),)]
    assert_equal_to_eager(LanguageModel(family, "sdpa"), calls)


@pytest.mark.alternates("family")
@pytest.mark.parametrize("family", ["llama", "phi"])
def test_whole_language_models_at_every_length(family):
    calls = [mark_sizes((torch.randint(0, 37, sizes),)) for sizes in ((2, 5), (3, 7), (4, 12))]
    records = assert_equal_to_eager(LanguageModel(family, "sdpa"), calls, train=False, dynamic=None)
    assert len(records) == 1


def test_default_call_where_heads_share_keys():
    """With a cache and no mask, the model passes fewer key heads than query heads to attention."""
    _, config, model_class, _ = load_family("llama")
    model, eager = model_class(config), model_class(config)
    eager.load_state_dict(model.state_dict())
    tokens, storage = torch.randint(0, 37, (2, 5)), {}
    fn = compiled(model, storage=storage)
    with torch.no_grad():
        got, expected = fn(tokens), eager(tokens)
    assert_close(got.logits, expected.logits)
    assert_close(got.past_key_values.layers[0].keys, expected.past_key_values.layers[0].keys)
    assert got.past_key_values.layers[0].keys.shape[1] == 2
    losses = fn(tokens, labels=tokens).loss, eager(tokens, labels=tokens).loss
    for loss in losses:
        loss.backward()
    assert_close(*losses)
    for parameter, expected_parameter in zip(model.parameters(), eager.parameters(), strict=True):
        assert_close(parameter.grad, expected_parameter.grad)
    assert [r["kind"] for r in storage["instance"]] == ["inference", "forward", "backward"]


@pytest.mark.alternates("family")
@pytest.mark.parametrize("family", ["llama", "phi"])
def test_decoding_with_a_static_cache(family):
    """Each step writes one token into the cache in place."""
    from transformers import StaticCache

    _, config, model_class, _ = load_family(family)
    config._attn_implementation = "sdpa"
    model = model_class(config).eval()

    def step(tokens, positions, cache):
        return model(tokens, position_ids=positions, past_key_values=cache, use_cache=True).logits

    caches = [StaticCache(config=config, max_cache_len=16) for _ in range(2)]
    run = compiled(step)
    with torch.no_grad():
        for position in range(3):
            tokens = torch.randint(0, 37, (1, 1))
            positions = torch.tensor([[position]])
            assert_close(run(tokens, positions, caches[0]), step(tokens, positions, caches[1]))
            assert_close(caches[0].layers[0].keys, caches[1].layers[0].keys)
            assert float(caches[0].layers[0].keys[:, :, position].abs().sum()) > 0
