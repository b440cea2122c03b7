"""Generation, fine-tuning and LoRA of small random language models with grouped-query attention."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers

from tests.backend.against_eager import assert_close, compiled
from tests.backend.conftest import fresh_compiler  # noqa: F401

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 37,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
FAMILIES = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "mistral": ("Mistral", {"sliding_window": 4}),
    "gemma2": (
        "Gemma2",
        {
            "head_dim": 8,
            "sliding_window": 4,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 3.0,
        },
    ),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def make_small_model(family):
    """Make a random model of a family with weights large enough for distinct tokens."""
    name, settings = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**SIZES, **settings)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
    return model


def make_pair(family):
    """Make a model to compile and a copy to run in eager."""
    model = make_small_model(family)
    return model, copy.deepcopy(model)


def make_prompt(batch=2, length=5):
    return torch.randint(2, 37, (batch, length))


@pytest.mark.parametrize(
    ("family", "cache", "dynamic"),
    [(family, cache, None) for family in FAMILIES for cache in ("dynamic", "static")]
    + [("llama", "dynamic", True), ("mistral", "dynamic", True)],
)
def test_generation(family, cache, dynamic):
    """Generate seven tokens after prefill, beyond the sliding window, for two prompt lengths."""
    model, eager = make_pair(family)
    model.forward = compiled(model.forward, dynamic=dynamic)
    settings = {
        "max_new_tokens": 8,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_logits": True,
        "cache_implementation": None if cache == "dynamic" else cache,
    }
    for tokens in (make_prompt(), make_prompt(length=7)):
        actual, expected = model.generate(tokens, **settings), eager.generate(tokens, **settings)
        assert torch.equal(actual.sequences, expected.sequences)
        assert_close(actual.logits, expected.logits)


@every_family
def test_fine_tuning_step(family):
    model, eager = make_pair(family)
    tokens, fn = make_prompt(), compiled(model.train())
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, eager.train())]
    for _ in range(2):
        losses = fn(tokens, labels=tokens).loss, eager(tokens, labels=tokens).loss
        assert_close(*losses)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
        assert_close([w.grad for w in model.parameters()], [w.grad for w in eager.parameters()])
        for optimizer in optimizers:
            optimizer.step()
    assert_close(list(model.parameters()), list(eager.parameters()))


@every_family
def test_lora(family):
    """Train LoRA adapters for a step, then merge, unmerge and unload them."""
    from peft import LoraConfig, get_peft_model

    models = make_pair(family)
    settings = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    model = get_peft_model(models[0], settings)
    eager = get_peft_model(models[1], settings)
    eager.load_state_dict(model.state_dict())
    fn, tokens = compiled(model, fullgraph=False), make_prompt()

    def assert_equal_calls():
        with torch.no_grad():
            actual, expected = fn(tokens).logits, eager(tokens).logits
        assert_close(actual, expected)
        return actual

    def train_step():
        for run, module in ((fn, model), (eager, eager)):
            module.zero_grad()
            run(tokens, labels=tokens).loss.backward()
            trained = [w for w in module.parameters() if w.requires_grad]
            assert trained
            torch.optim.SGD(trained, lr=0.1).step()
        pairs = zip(model.parameters(), eager.parameters(), strict=True)
        grads = [(a.grad, b.grad) for a, b in pairs if a.requires_grad]
        assert_close([a for a, _ in grads], [b for _, b in grads])
        assert_close(list(model.parameters()), list(eager.parameters()))
        # two steps amplify an ulp of a weight: eager then differs by 7e-4 from eager in float64
        eager.load_state_dict(model.state_dict())

    def call_both(name):
        for module in (model, eager):
            getattr(module, name)()

    train_step()
    adapted = assert_equal_calls()
    call_both("merge_adapter")
    assert_close(assert_equal_calls(), adapted)
    call_both("unmerge_adapter")
    assert_close(assert_equal_calls(), adapted)
    train_step()
    call_both("merge_adapter")  # reuses the graph of the first merge, with other weights
    adapted = assert_equal_calls()
    merged, merged_eager = model.merge_and_unload(), eager.merge_and_unload()
    with torch.no_grad():
        actual, expected = compiled(merged)(tokens).logits, merged_eager(tokens).logits
    assert_close(actual, expected)
    assert_close(actual, adapted)
