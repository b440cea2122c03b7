"""One layer of each kind of sequence model of transformers, with random weights.

Each is a module that takes and returns tensors, with the arguments of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

WIDTH, FFN_SIZE, HEADS, LENGTH = 512, 1024, 8, 128
_TEXT = {
    "vocab_size": 1000, "hidden_size": WIDTH, "intermediate_size": FFN_SIZE, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "max_position_embeddings": 4096,
}  # fmt: skip
_LLAMA = {**_TEXT, "num_key_value_heads": HEADS}
_EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}


@dataclass(frozen=True)
class Layer:
    """A layer: ``kind`` is a class of transformers, ``config`` the arguments of its configuration.

    ``length`` is the sequence length, and ``inputs`` names the arguments of a call (`_ARGUMENTS`).
    """

    kind: str
    description: str
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
            "vocab_size": 1000, "d_model": WIDTH, "d_kv": 64, "d_ff": FFN_SIZE, "num_layers": 1,
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
            "decoder_attention_heads": HEADS, "decoder_ffn_dim": FFN_SIZE, "pad_token_id": 0,
            "max_target_positions": 448, "bos_token_id": 1, "eos_token_id": 2,
        },
        length=1, inputs="kept frames",
    ),
}  # fmt: skip


class FirstOutput(torch.nn.Module):
    """A model of ids that returns only its first output."""

    def __init__(self, model: torch.nn.Module, **arguments: Any) -> None:
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(ids, **self.arguments)[0]
        return output


class WithPositions(torch.nn.Module):
    """A model of embeddings, with three positions for each token."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(inputs_embeds=rows, position_ids=positions)[0]
        return output


class WindowAttention(torch.nn.Module):
    """Attention within windows, without masked rows and without global attention."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        false_mask = torch.zeros(rows.shape[:2], dtype=torch.bool)
        output: torch.Tensor = self.attention(
            rows, attention_mask=false_mask.float(), is_index_masked=false_mask,
            is_index_global_attn=false_mask, is_global_attn=False,
        )[0]  # fmt: skip
        return output


class DecoderStep(torch.nn.Module):
    """A decoder step whose arguments include keys and values of the text and of the frames."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: torch.Tensor, frames: torch.Tensor, *states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        from transformers import DynamicCache, EncoderDecoderCache

        self_cache, cross_cache = DynamicCache(), DynamicCache()
        self_cache.update(states[0], states[1], 0)
        cross_cache.update(states[2], states[3], 0)
        cache = EncoderDecoderCache(self_cache, cross_cache)
        output = self.model(ids, encoder_hidden_states=frames, past_key_values=cache)
        layer = cache.self_attention_cache.layers[0]
        return output[0], layer.keys, layer.values


def build(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Build the layer in eval mode with random weights, and the arguments of a call."""
    torch.manual_seed(0)
    layer = LAYERS[name]
    module: Any = _build_experts(layer) if layer.kind == "mixtral" else _build_model(layer)
    for parameter in module.parameters():
        if parameter.ndim > 1:  # a router of zeros gives all experts the same score
            torch.nn.init.normal_(parameter, std=0.05)
    return module.eval().requires_grad_(False), _ARGUMENTS[layer.inputs](layer)


def _build_experts(layer: Layer) -> torch.nn.Module:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    settings = {key: value for key, value in layer.config.items() if key != "spelled"}
    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=FFN_SIZE, **settings)
    config._experts_implementation = layer.config.get("spelled", "grouped_mm")
    return MixtralSparseMoeBlock(config)


def _build_model(layer: Layer) -> torch.nn.Module:
    import importlib

    import transformers

    modules = {
        "Qwen2VLTextModel": "transformers.models.qwen2_vl.modeling_qwen2_vl",
        "WhisperDecoder": "transformers.models.whisper.modeling_whisper",
    }
    if layer.kind == "LongformerSelfAttention":
        from transformers.models.longformer import modeling_longformer as longformer

        config = transformers.LongformerConfig(**layer.config)
        return WindowAttention(longformer.LongformerSelfAttention(config, layer_id=0))
    path = modules.get(layer.kind)
    cls = getattr(importlib.import_module(path) if path else transformers, layer.kind)
    model = cls(cls.config_class(**layer.config))
    if layer.inputs == "ids":
        return FirstOutput(model)
    return WithPositions(model) if layer.inputs == "three positions" else DecoderStep(model)


def _make_ids(layer: Layer) -> tuple[torch.Tensor, ...]:
    return ((torch.arange(layer.length) * 7919 % 1000)[None],)


def _make_rows(layer: Layer) -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, layer.length, WIDTH),)


def _make_positions(layer: Layer) -> tuple[torch.Tensor, ...]:
    return torch.randn(1, layer.length, WIDTH), torch.arange(layer.length).expand(3, 1, -1).clone()


def _make_step_inputs(layer: Layer) -> tuple[torch.Tensor, ...]:
    def rand(length: int) -> torch.Tensor:
        return torch.randn(1, HEADS, length, WIDTH // HEADS)

    frames = torch.randn(1, 500, WIDTH)
    return *_make_ids(layer), frames, rand(LENGTH), rand(LENGTH), rand(500), rand(500)


_ARGUMENTS: dict[str, Callable[[Layer], tuple[torch.Tensor, ...]]] = {
    "ids": _make_ids, "kept frames": _make_step_inputs, "rows": _make_rows,
    "three positions": _make_positions,
}  # fmt: skip
