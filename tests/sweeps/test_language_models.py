"""Language models whose query heads share key heads, as their users run them: generation with
either cache, fine-tuning, LoRA. Small random models of transformers and PEFT, next to eager."""

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


def small(family):
    """A random model of a family; its weights are large enough for tokens to differ."""
    name, settings = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**SIZES, **settings)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
    return model


def pair(family):
    """A model to compile, and the same one to run in eager."""
    model = small(family)
    return model, copy.deepcopy(model)


def prompt(batch=2, length=5):
    return torch.randint(2, 37, (batch, length))


@pytest.mark.parametrize(
    ("family", "cache", "dynamic"),
    [(family, cache, None) for family in FAMILIES for cache in ("dynamic", "static")]
    + [("llama", "dynamic", True), ("mistral", "dynamic", True)],
)
def test_generation(family, cache, dynamic):
    """Prefill and seven steps, past the sliding window; a second prompt of another length."""
    model, eager = pair(family)
    model.forward = compiled(model.forward, dynamic=dynamic)
    settings = {
        "max_new_tokens": 8,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_logits": True,
        "cache_implementation": None if cache == "dynamic" else cache,
    }
    for tokens in (prompt(), prompt(length=7)):
        got, expected = model.generate(tokens, **settings), eager.generate(tokens, **settings)
        assert torch.equal(got.sequences, expected.sequences)
        assert_close(got.logits, expected.logits)


@every_family
def test_fine_tuning_step(family):
    model, eager = pair(family)
    tokens, fn = prompt(), compiled(model.train())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-2) for each in (model, eager.train())]
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
    """A step of the adapters, then merged into the weights, taken out again, and unloaded."""
    from peft import LoraConfig, get_peft_model

    models = pair(family)
    settings = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    model = get_peft_model(models[0], settings)
    eager = get_peft_model(models[1], settings)
    eager.load_state_dict(model.state_dict())
    fn, tokens = compiled(model, fullgraph=False), prompt()

    def assert_equal_calls():
        with torch.no_grad():
            got, expected = fn(tokens).logits, eager(tokens).logits
        assert_close(got, expected)
        return got

    def step():
        for run, each in ((fn, model), (eager, eager)):
            each.zero_grad()
            run(tokens, labels=tokens).loss.backward()
            trained = [w for w in each.parameters() if w.requires_grad]
            assert trained
            torch.optim.SGD(trained, lr=0.1).step()
        pairs = zip(model.parameters(), eager.parameters(), strict=True)
        grads = [(a.grad, b.grad) for a, b in pairs if a.requires_grad]
        assert_close([a for a, _ in grads], [b for _, b in grads])
        assert_close(list(model.parameters()), list(eager.parameters()))
        # two steps amplify an ulp of a weight: eager is 7e-4 from its float64 self by then
        eager.load_state_dict(model.state_dict())

    def change(name):
        for each in (model, eager):
            getattr(each, name)()

    step()
    adapted = assert_equal_calls()
    change("merge_adapter")
    assert_close(assert_equal_calls(), adapted)
    change("unmerge_adapter")
    assert_close(assert_equal_calls(), adapted)
    step()
    change("merge_adapter")  # the graph of the first merge again, with other weights
    adapted = assert_equal_calls()
    plain, plain_eager = model.merge_and_unload(), eager.merge_and_unload()
    with torch.no_grad():
        got, expected = compiled(plain)(tokens).logits, plain_eager(tokens).logits
    assert_close(got, expected)
    assert_close(got, adapted)
