"""Language models, from configurations of transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from .architecture import BATCH, LENGTH, Architecture, Call, named

VOCABULARY = 99

# Settings that most configurations share, at the size of the tests.
SMALL_CONFIG = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def ids(small: bool, batch: int, length: int, **_: int) -> torch.Tensor:
    """Return random tokens without special tokens: int64[batch, length]."""
    return torch.randint(3, VOCABULARY if small else 1000, (batch, length))


def padded(batch: int, length: int) -> torch.Tensor:
    """Return a mask whose last row ends in padding: int64[batch, length]."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length - length // 4 :] = 0
    return mask


def token_inputs(small: bool, batch: int, length: int) -> Call:
    return named(input_ids=ids(small, batch, length))


def masked_inputs(small: bool, batch: int, length: int) -> Call:
    return named(input_ids=ids(small, batch, length), attention_mask=padded(batch, length))


TOKEN_DIMS = {"input_ids": {0: BATCH, 1: LENGTH}}
MASKED_DIMS = {**TOKEN_DIMS, "attention_mask": {0: BATCH, 1: LENGTH}}


def text(
    name: str,
    make: Callable[[bool], nn.Module],
    mask: bool = True,
    sizes: Mapping[str, int] | None = None,
    **options: Any,
) -> Architecture:
    """Define a text model of dynamic batch and length; its second batch has size 1."""
    return Architecture(
        name,
        make,
        masked_inputs if mask else token_inputs,
        MASKED_DIMS if mask else TOKEN_DIMS,
        sizes or {"batch": 1, "length": 128},
        {"batch": 2, "length": 12},
        {"batch": 1, "length": 7},
        **options,
    )


def plain(
    model: str, config: str, small: Mapping[str, Any], full: Mapping[str, Any], **common: Any
) -> Callable[[bool], nn.Module]:
    """Return a function that builds class `model`; `common` settings are for both sizes."""

    def make(is_small: bool) -> nn.Module:
        import transformers

        settings = getattr(transformers, config)(**common, **(small if is_small else full))
        return getattr(transformers, model)(settings)

    return make


def decoder(model: str, config: str, **overrides: Any) -> Callable[[bool], nn.Module]:
    """Return a function that builds a Llama-like decoder without a cache."""
    full = {
        "num_hidden_layers": 8,
        "hidden_size": 512,
        "intermediate_size": 1376,
        "num_attention_heads": 8,
        "vocab_size": 32000,
    }
    settings = {"use_cache": False, **ENDS, **overrides}
    return plain(model, config, SMALL_CONFIG, full, **settings)


class CachedDecoder(nn.Module):
    """A decoder whose cache is passed and returned as tensors: key and value of each layer.

    float32[batch, heads, past, width] -> float32[batch, heads, past + length, width].
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        output = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        layers = output.past_key_values.layers
        return (output.logits, *(t for layer in layers for t in (layer.keys, layer.values)))


def llama_cached(small: bool) -> nn.Module:
    return CachedDecoder(decoder("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2)(small))


def llama_cached_inputs(small: bool, batch: int, length: int, past: int) -> Call:
    layers, width = (2, 8) if small else (8, 64)
    states = [torch.randn(batch, 2, past, width) for _ in range(2 * layers)]
    return (ids(small, batch, length), *states), {}


def llama_cached_dims(small: bool) -> dict[str, Any]:
    state = {0: BATCH, 2: Dim("past", min=2, max=256)}
    return {"input_ids": {0: BATCH, 1: LENGTH}, "past": (state,) * (4 if small else 16)}


def mixtral(small: bool) -> nn.Module:
    return decoder(
        "MixtralForCausalLM",
        "MixtralConfig",
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
    )(small)


def translation_inputs(small: bool, batch: int, length: int, target: int) -> Call:
    return named(
        input_ids=ids(small, batch, length),
        attention_mask=padded(batch, length),
        decoder_input_ids=ids(small, batch, target),
    )


TRANSLATION_DIMS = {
    **MASKED_DIMS,
    "decoder_input_ids": {0: BATCH, 1: Dim("target", min=2, max=256)},
}


def seq2seq(name: str, make: Callable[[bool], nn.Module]) -> Architecture:
    """Define an encoder-decoder with dynamic batch and lengths."""
    return Architecture(
        name,
        make,
        translation_inputs,
        TRANSLATION_DIMS,
        {"batch": 1, "length": 128, "target": 64},
        {"batch": 2, "length": 12, "target": 8},
        {"batch": 1, "length": 9, "target": 5},
    )


BERT_FULL: dict[str, Any] = {}  # the defaults of each configuration are the base model
T5_SMALL = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
BART_SMALL = {
    f"{side}_{key}": value
    for side in ("encoder", "decoder")
    for key, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
}
DISTIL_SMALL = {"vocab_size": VOCABULARY, "n_layers": 2, "n_heads": 4, "dim": 32, "hidden_dim": 48}
GPT2_SMALL = {"vocab_size": VOCABULARY, "n_layer": 2, "n_head": 4, "n_embd": 32}
HALF = {"num_hidden_layers": 6}
NO_CACHE = {"use_cache": False, **ENDS}
MAMBA_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
MAMBA_FULL = {"hidden_size": 256, "num_hidden_layers": 4}

LANGUAGE_MODELS = (
    text("bert", plain("BertModel", "BertConfig", SMALL_CONFIG, BERT_FULL)),
    text("distilbert", plain("DistilBertModel", "DistilBertConfig", DISTIL_SMALL, {})),
    text("roberta", plain("RobertaForSequenceClassification", "RobertaConfig", SMALL_CONFIG, HALF)),
    text(
        "electra",
        plain("ElectraModel", "ElectraConfig", {**SMALL_CONFIG, "embedding_size": 16}, {}),
    ),
    text(
        "albert",
        plain(
            "AlbertModel",
            "AlbertConfig",
            {**SMALL_CONFIG, "embedding_size": 16},
            {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
        ),
    ),
    text(
        "deberta",
        plain(
            "DebertaV2Model",
            "DebertaV2Config",
            SMALL_CONFIG,
            {
                "hidden_size": 384,
                "num_hidden_layers": 6,
                "num_attention_heads": 6,
                "intermediate_size": 1536,
                "vocab_size": 32000,
            },
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=16,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
        ),
    ),
    text("gpt2", plain("GPT2LMHeadModel", "GPT2Config", GPT2_SMALL, {}, **NO_CACHE), mask=False),
    text("gpt_neox", decoder("GPTNeoXForCausalLM", "GPTNeoXConfig"), mask=False),
    text("llama", decoder("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2)),
    Architecture(
        "llama_cached",
        llama_cached,
        llama_cached_inputs,
        llama_cached_dims,
        {"batch": 1, "length": 16, "past": 128},
        {"batch": 2, "length": 3, "past": 5},
        {"batch": 1, "length": 1, "past": 9},
    ),
    text(
        "mistral",
        decoder("MistralForCausalLM", "MistralConfig", num_key_value_heads=2, sliding_window=8),
    ),
    text("qwen2", decoder("Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2), mask=False),
    text(
        "gemma2",
        decoder("Gemma2ForCausalLM", "Gemma2Config", num_key_value_heads=2, head_dim=8),
    ),
    text("phi", decoder("PhiForCausalLM", "PhiConfig"), mask=False),
    text("mixtral", mixtral),
    # without kernels, the scan is a Python loop over the length, which is therefore static
    Architecture(
        "mamba",
        plain("MambaModel", "MambaConfig", MAMBA_SMALL, MAMBA_FULL, **NO_CACHE),
        token_inputs,
        {"input_ids": {0: BATCH}},
        {"batch": 1, "length": 16},
        {"batch": 2, "length": 6},
        {"batch": 1, "length": 6},
    ),
    seq2seq(
        "t5",
        plain("T5Model", "T5Config", {**T5_SMALL, "vocab_size": VOCABULARY}, {}, use_cache=False),
    ),
    seq2seq(
        "bart",
        plain(
            "BartModel",
            "BartConfig",
            {**BART_SMALL, "vocab_size": VOCABULARY, "d_model": 32},
            {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512},
            use_cache=False,
        ),
    ),
)
