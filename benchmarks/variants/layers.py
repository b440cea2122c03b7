"""One layer of each kind of sequence model, as transformers has it, with random weights.

In comes a name, out go a module that takes and returns tensors and the arguments of a call. Called
by `measure`; the report takes what a layer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

WIDTH, INNER, HEADS, LENGTH = 512, 1024, 8, 128
_TEXT = {
    "vocab_size": 1000, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "max_position_embeddings": 4096,
}  # fmt: skip
_LLAMA = {**_TEXT, "num_key_value_heads": HEADS}
_EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}


@dataclass(frozen=True)
class Layer:
    """``kind`` names the class of the model in transformers, ``config`` what its configuration
    says; ``length`` is the number of places of a call, ``inputs`` how it is called (`_ARGUMENTS`).
    """

    kind: str
    what: str
    config: dict[str, Any] = field(default_factory=dict)
    length: int = LENGTH
    inputs: str = "ids"


LAYERS = {
    "mamba": Layer(
        "MambaModel", "a state for each channel", {
            "vocab_size": 1000, "hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 16,
            "use_cache": False,
        },
        length=32,
    ),
    "mamba2": Layer(
        "Mamba2Model", "a state for each head", {
            "vocab_size": 1000, "hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 64,
            "num_heads": 16, "head_dim": 64, "n_groups": 1, "use_cache": False,
        },
    ),
    "rwkv": Layer(
        "RwkvModel", "a decayed sum for each channel; two layers", {
            "vocab_size": 1000, "hidden_size": WIDTH, "attention_hidden_size": WIDTH,
            "num_hidden_layers": 2, "rescale_every": 0, "use_cache": False,
        },
        length=32,
    ),
    "gated delta": Layer(
        "Qwen3NextModel", "gated delta rule", {
            **_LLAMA, "layer_types": ["linear_attention"], "num_experts": 4, "head_dim": 64,
            "num_experts_per_tok": 2, "moe_intermediate_size": 64, "use_cache": False,
            "shared_expert_intermediate_size": 64, "linear_num_value_heads": 8,
            "linear_num_key_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
            "mlp_only_layers": [0],
        },
    ),
    "experts": Layer("mixtral", "8 experts, a row takes 2", _EXPERTS, inputs="rows"),
    "experts, a token": Layer("mixtral", "the same", _EXPERTS, length=1, inputs="rows"),
    "experts, gathered": Layer(
        "mixtral", "the same, spelled batched_mm", {**_EXPERTS, "spelled": "batched_mm"},
        length=32, inputs="rows",
    ),
    "deberta": Layer(
        "DebertaV2Model", "disentangled attention", {
            **_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 64, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        },
    ),
    "longformer": Layer(
        "LongformerSelfAttention", "sliding windows of 128, the attention alone",
        {**_TEXT, "attention_window": [128]}, length=512, inputs="rows",
    ),
    "bigbird": Layer(
        "BigBirdModel", "blocks: windows, global and random", {
            **_TEXT, "attention_type": "block_sparse", "block_size": 32, "num_random_blocks": 2,
        },
        length=512,
    ),
    "relative": Layer(
        "T5EncoderModel", "relative positions added to scores", {
            "vocab_size": 1000, "d_model": WIDTH, "d_kv": 64, "d_ff": INNER, "num_layers": 1,
            "num_heads": HEADS,
        },
    ),
    "alibi": Layer(
        "BloomModel", "ALiBi: distances added to scores", {
            "vocab_size": 1000, "hidden_size": WIDTH, "n_layer": 1, "n_head": HEADS,
            "use_cache": False,
        },
    ),
    "m-rope": Layer(
        "Qwen2VLTextModel", "rotary by three positions", {
            **_LLAMA, "use_cache": False,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12],
            },
        },
        inputs="three positions",
    ),
    "partial rotary": Layer(
        "GPTNeoXModel", "rotary of a quarter of a head", {**_TEXT, "use_cache": False},
    ),
    "interleaved rotary": Layer(
        "CohereModel", "rotary of neighbours", {**_LLAMA, "use_cache": False},
    ),
    "cross attention": Layer(
        "WhisperDecoder", "a token; keys of 500 frames are kept", {
            "vocab_size": 1000, "d_model": WIDTH, "decoder_layers": 1, "encoder_layers": 1,
            "decoder_attention_heads": HEADS, "decoder_ffn_dim": INNER, "pad_token_id": 0,
            "max_target_positions": 448, "bos_token_id": 1, "eos_token_id": 2,
        },
        length=1, inputs="kept frames",
    ),
}  # fmt: skip


class First(torch.nn.Module):
    """A model of ids, and what it returns first."""

    def __init__(self, model: torch.nn.Module, **given: Any) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(ids, **self.given)[0]
        return found


class Positioned(torch.nn.Module):
    """A model of embeddings and of three positions for each place."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(inputs_embeds=rows, position_ids=positions)[0]
        return found


class Windows(torch.nn.Module):
    """Attention within windows, of rows none of which is hidden or seen from everywhere."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        none = torch.zeros(rows.shape[:2], dtype=torch.bool)
        found: torch.Tensor = self.attention(
            rows, attention_mask=none.float(), is_index_masked=none,
            is_index_global_attn=none, is_global_attn=False,
        )[0]  # fmt: skip
        return found


class Step(torch.nn.Module):
    """A decoder's next token; keys and values of text and frames are arguments."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: torch.Tensor, frames: torch.Tensor, *kept: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        from transformers import DynamicCache, EncoderDecoderCache

        own, cross = DynamicCache(), DynamicCache()
        own.update(kept[0], kept[1], 0)
        cross.update(kept[2], kept[3], 0)
        cache = EncoderDecoderCache(own, cross)
        found = self.model(ids, encoder_hidden_states=frames, past_key_values=cache)
        layer = cache.self_attention_cache.layers[0]
        return found[0], layer.keys, layer.values


def build(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The layer in eval mode, with random weights, and the arguments of a call."""
    torch.manual_seed(0)
    layer = LAYERS[name]
    module: Any = _experts(layer) if layer.kind == "mixtral" else _model(layer)
    for parameter in module.parameters():
        if parameter.ndim > 1:  # a router of zeros likes all experts
            torch.nn.init.normal_(parameter, std=0.05)
    return module.eval().requires_grad_(False), _ARGUMENTS[layer.inputs](layer)


def _experts(layer: Layer) -> torch.nn.Module:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    known = {key: value for key, value in layer.config.items() if key != "spelled"}
    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=INNER, **known)
    config._experts_implementation = layer.config.get("spelled", "grouped_mm")
    return MixtralSparseMoeBlock(config)


def _model(layer: Layer) -> torch.nn.Module:
    import importlib

    import transformers

    places = {
        "Qwen2VLTextModel": "transformers.models.qwen2_vl.modeling_qwen2_vl",
        "WhisperDecoder": "transformers.models.whisper.modeling_whisper",
    }
    if layer.kind == "LongformerSelfAttention":
        from transformers.models.longformer import modeling_longformer as longformer

        config = transformers.LongformerConfig(**layer.config)
        return Windows(longformer.LongformerSelfAttention(config, layer_id=0))
    own = places.get(layer.kind)
    kind = getattr(importlib.import_module(own) if own else transformers, layer.kind)
    model = kind(kind.config_class(**layer.config))
    if layer.inputs == "ids":
        return First(model)
    return Positioned(model) if layer.inputs == "three positions" else Step(model)


def _ids(layer: Layer) -> tuple[torch.Tensor, ...]:
    return ((torch.arange(layer.length) * 7919 % 1000)[None],)


def _rows(layer: Layer) -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, layer.length, WIDTH),)


def _three(layer: Layer) -> tuple[torch.Tensor, ...]:
    return torch.randn(1, layer.length, WIDTH), torch.arange(layer.length).expand(3, 1, -1).clone()


def _kept(layer: Layer) -> tuple[torch.Tensor, ...]:
    def heads(length: int) -> torch.Tensor:
        return torch.randn(1, HEADS, length, WIDTH // HEADS)

    frames = torch.randn(1, 500, WIDTH)
    return *_ids(layer), frames, heads(LENGTH), heads(LENGTH), heads(500), heads(500)


_ARGUMENTS: dict[str, Callable[[Layer], tuple[torch.Tensor, ...]]] = {
    "ids": _ids, "kept frames": _kept, "rows": _rows, "three positions": _three,
}  # fmt: skip
