"""Small language models with random weights and flat caches, and greedy decoding."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import onnxruntime
import torch
import transformers
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

import ortable

VOCABULARY, LAYERS, HEADS, WIDTH = 97, 2, 4, 8
DYNAMIC = torch.export.Dim.DYNAMIC
_TEXT = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_LLAMA = {
    **_TEXT, "hidden_size": HEADS * WIDTH, "intermediate_size": 64, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip

# The argument of forward that holds the cache, renamed in transformers 5.24.
CACHE = (
    "cache"
    if "cache" in inspect.signature(transformers.LlamaForCausalLM.forward).parameters
    else "past_key_values"
)

# Architecture of transformers -> arguments of its configuration.
DECODERS: dict[str, dict[str, Any]] = {
    "gpt2": {**_TEXT, "n_layer": LAYERS, "n_head": HEADS, "n_embd": 32, "n_positions": 64},
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "sliding_window": 6},
    "qwen3": {**_LLAMA, "head_dim": WIDTH},
    "gemma2": {**_LLAMA, "num_key_value_heads": 1, "head_dim": WIDTH, "sliding_window": 6},
}
ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "t5": {
        "vocab_size": VOCABULARY, "d_model": 32, "d_kv": WIDTH, "d_ff": 64, "num_layers": LAYERS,
        "num_heads": HEADS, "decoder_start_token_id": 0, "eos_token_id": None,
    },
    "whisper": {
        **_TEXT, "d_model": HEADS * WIDTH, "decoder_start_token_id": 1, "num_mel_bins": 8,
        "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_source_positions": 20, "max_target_positions": 32,
        "suppress_tokens": [], "begin_suppress_tokens": [],
    },
}  # fmt: skip


def build(name: str) -> Any:
    """Return a model of transformers with random weights, in eval mode."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**DECODERS, **ENCODER_DECODERS}[name])
    auto_class = (
        transformers.AutoModelForCausalLM
        if name in DECODERS
        else transformers.AutoModelForSpeechSeq2Seq
        if name == "whisper"
        else transformers.AutoModelForSeq2SeqLM
    )
    model = auto_class.from_config(config).eval()
    model.generation_config.eos_token_id = None  # no early stop
    return model


def flattened(cache: Any) -> list[torch.Tensor]:
    """Return the keys and values of a cache, layer by layer."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def random_cache(batch: int, heads: int, past: int) -> list[torch.Tensor]:
    """Return random keys and values for all layers."""
    return [torch.randn(batch, heads, past, WIDTH) for _ in range(2 * LAYERS)]


class Decoder(torch.nn.Module):
    """A decoder whose cache is a list of tensors: keys and values of layer 0, of layer 1, ..."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        out = self.model(
            input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return out.logits, flattened(out.past_key_values)

    def example(self, batch: int, sequence: int, past: int) -> tuple[Any, ...]:
        """Return random arguments of a call."""
        config = self.model.config
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        return (
            torch.randint(3, VOCABULARY, (batch, sequence)),
            torch.ones(batch, past + sequence, dtype=torch.int64),
            torch.arange(past, past + sequence).repeat(batch, 1),
            random_cache(batch, heads, past),
        )


class StaticDecoder(torch.nn.Module):
    """A decoder that writes keys and values into tensors of a fixed length, in place."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, position: torch.Tensor, cache: list[torch.Tensor]
    ) -> torch.Tensor:
        static = StaticCache(config=self.model.config, max_cache_len=cache[0].shape[2])
        for layer, keys, values in zip(static.layers, cache[::2], cache[1::2], strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            layer.cumulative_length = position.clone()
        return self.model(input_ids, past_key_values=static, use_cache=True).logits


class Encoder(torch.nn.Module):
    """An encoder that also returns the keys and values of cross attention."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.get_encoder()
        layers = model.get_decoder()
        if hasattr(layers, "block"):
            attentions = [block.layer[1].EncDecAttention for block in layers.block]
            pairs = [(attention.k, attention.v) for attention in attentions]
        else:
            pairs = [(layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
                     for layer in layers.layers]  # fmt: skip
        self.projections = torch.nn.ModuleList(linear for pair in pairs for linear in pair)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        hidden = self.encoder(features).last_hidden_state
        shape = (*hidden.shape[:2], HEADS, WIDTH)
        cross = [linear(hidden).view(shape).transpose(1, 2) for linear in self.projections]
        return hidden, cross


class CrossDecoder(torch.nn.Module):
    """A decoder with its own growing cache and the encoder's fixed cache."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        hidden: torch.Tensor,
        past: list[torch.Tensor],
        cross: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        caches = [
            DynamicCache(list(zip(flat[::2], flat[1::2], strict=True))) for flat in (past, cross)
        ]
        out = self.model(
            encoder_outputs=(hidden,),
            decoder_input_ids=input_ids,
            past_key_values=EncoderDecoderCache(*caches),
            use_cache=True,
        )
        return out.logits, flattened(out.past_key_values.self_attention_cache)


def session_of(model: Any) -> onnxruntime.InferenceSession:
    """Return a session of ONNX Runtime on the CPU."""
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def call(session: onnxruntime.InferenceSession, tensors: Sequence[Any]) -> list[torch.Tensor]:
    """Run a session with tensors in the order of its inputs."""
    flat = torch.utils._pytree.tree_leaves(tuple(tensors))
    names = [spec.name for spec in session.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in zip(names, flat, strict=True)}
    return [torch.from_numpy(value) for value in session.run(None, feeds)]


@functools.cache
def exported_decoder(name: str) -> tuple[Decoder, onnxruntime.InferenceSession]:
    """Return a decoder and its session, whose batch, sequence and past length are dynamic."""
    decoder = Decoder(build(name))
    model = ortable.to_onnx(
        decoder,
        decoder.example(2, 3, 4),
        dynamic_shapes=(
            {0: "batch", 1: "sequence"},
            {0: "batch", 1: DYNAMIC},
            {0: "batch", 1: "sequence"},
            [{0: "batch", 2: "past"}] * (2 * LAYERS),
        ),
    )
    return decoder, session_of(model)


@functools.cache
def exported_encoder_decoder(name: str) -> tuple[Any, Any, Any]:
    """Return the model, the session of its encoder and the session of its decoder."""
    model = build(name)
    features = sample_of_encoder(name, 2)
    encoder, decoder = Encoder(model), CrossDecoder(model)
    length = {} if name == "whisper" else {1: "length"}
    encoded = ortable.to_onnx(encoder, (features,), dynamic_shapes=({0: "batch", **length},))
    hidden, cross = encoder(features)
    cross_shape = {0: "batch", **({2: "length"} if length else {})}
    decoded = ortable.to_onnx(
        decoder,
        (torch.zeros(2, 3, dtype=torch.int64), hidden, random_cache(2, HEADS, 4), cross),
        dynamic_shapes=(
            {0: "batch", 1: "sequence"},
            {0: "batch", **length},
            [{0: "batch", 2: "past"}] * (2 * LAYERS),
            [cross_shape] * (2 * LAYERS),
        ),
    )
    return model, session_of(encoded), session_of(decoded)


def sample_of_encoder(name: str, batch: int, length: int = 7) -> torch.Tensor:
    """Return random tokens, or for Whisper a spectrogram of the only length that it supports."""
    if name == "whisper":
        return torch.randn(batch, 8, 40)
    return torch.randint(3, VOCABULARY, (batch, length))


def greedy(
    step: Callable[[torch.Tensor, list[torch.Tensor]], list[torch.Tensor]],
    prompt: torch.Tensor,
    cache: list[torch.Tensor],
    count: int,
) -> torch.Tensor:
    """Return the prompt and ``count`` greedy tokens; ``step`` takes new tokens and the cache."""
    tokens, new_tokens = prompt, prompt
    for _ in range(count):
        logits, *cache = step(new_tokens, cache)
        new_tokens = logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, new_tokens], dim=1)
    return tokens
