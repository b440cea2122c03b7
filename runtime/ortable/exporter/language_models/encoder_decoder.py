"""Export an encoder-decoder model of transformers as a graph of the encoder and one of the decoder.

The encoder's graph also returns the keys and values that cross attention reads, so that they are
computed once for each text. Called by export.py; encoder_decoder_runner.py runs the graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ortable.builder import LargeModel
from ortable.errors import ExportError, OptionError
from ortable.exporter.language_models.decoder import (
    BATCH,
    CacheLayer,
    cache_layers,
    check_model,
)
from ortable.exporter.language_models.decoding import special_tokens
from ortable.exporter.language_models.model_folder import (
    ENCODER_MODEL,
    PAST_MODEL,
    PROMPT_MODEL,
    externalize_weights,
    search_settings,
)
from ortable.exporter.to_onnx import export

# Names of dimensions, as in optimum.
_SOURCE, _TARGET = "encoder_sequence_length", "decoder_sequence_length"
_PAST = "past_decoder_sequence_length"
# Sizes of the example: torch specializes on 0 and 1. The exported graphs also support 0 and 1.
_BATCH, _SOURCE_LENGTH, _TARGET_LENGTH, _PAST_LENGTH = 2, 5, 3, 4
_KINDS = ("key", "value")
# Positions of the encoder for which onnxruntime-genai makes buffers, whatever the configuration.
_GENAI_POSITIONS = 1500
_GENAI_SESSION: dict[str, Any] = {"log_id": "onnxruntime-genai", "provider_options": []}
_CACHES = ("decoder", "encoder")
TOKENS, FEATURES = "input_ids", "input_features"
# Methods of `generate` that models override, and that the runner of the folder follows: its own
# cache replaces that of the model, and Whisper's `generate` is code of transformers without layers.
_SUPPORTED_OVERRIDES = {
    "": frozenset(("_prepare_cache_for_generation",)),
    "whisper": frozenset(("generate", "prepare_inputs_for_generation")),
}


def is_encoder_decoder(model: Any) -> bool:
    """Return whether a model of transformers has an encoder and a decoder."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


@dataclass(frozen=True)
class EncoderDecoder:
    """A model, the name of the encoder's input, and the sizes of both caches.

    ``cache`` is the name of the cache among the arguments and results of forward, and
    ``encoder_output`` the class of the encoder's results.
    """

    model: Any
    source: str
    cache: str
    encoder_output: type
    self_layers: tuple[CacheLayer, ...]
    cross_layers: tuple[CacheLayer, ...]

    @property
    def takes_mask(self) -> bool:
        """Whether texts are padded: Whisper reads audio of one length, without a mask."""
        return self.source == TOKENS

    def cache_names(self, prefix: str, parts: Sequence[str]) -> list[str]:
        """Return ``<prefix>.0.decoder.key``, ..., layer by layer; a part is decoder or encoder."""
        numbers = range(len(self.self_layers))
        return [f"{prefix}.{n}.{part}.{kind}" for n in numbers for part in parts for kind in _KINDS]

    def example_source(self) -> dict[str, torch.Tensor]:
        """Return an example of the encoder's inputs."""
        return _example_source(self.model, self.source)

    def example_step(self) -> dict[str, Any]:
        """Return an example of the decoder's inputs, with a cache of zeros."""
        device = self.model.device
        length = _source_length(self.model, self.source)
        mask = torch.ones(_BATCH, length, dtype=torch.int64, device=device)
        tensors = []
        for self_layer, cross_layer in zip(self.self_layers, self.cross_layers, strict=True):
            for layer, past in ((self_layer, _PAST_LENGTH), (cross_layer, self.cross_length())):
                for width in (layer.key_width, layer.value_width):
                    shape = (_BATCH, layer.heads, past, width)
                    tensors.append(torch.zeros(shape, dtype=layer.dtype, device=device))
        return {
            "input_ids": torch.zeros(_BATCH, _TARGET_LENGTH, dtype=torch.int64, device=device),
            **({"encoder_attention_mask": mask} if self.takes_mask else {}),
            "past": tensors,
        }

    def cross_length(self) -> int:
        """Return the length of the example's encoder states."""
        if self.takes_mask:
            return _SOURCE_LENGTH
        return int(self.model.config.max_source_positions)


class EncoderGraph(torch.nn.Module):
    """The encoder, and the projections of cross attention in all layers of the decoder."""

    def __init__(self, parts: EncoderDecoder) -> None:
        super().__init__()
        self.model, self.source, self.cache = parts.model, parts.source, parts.cache

    def forward(
        self, source: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the last hidden state, and keys and values of each layer's cross attention.

        They are what the decoder leaves in its cache when it reads a token; the export drops the
        other results of that call.
        """
        mask = {} if attention_mask is None else {"attention_mask": attention_mask}
        encoded = self.model.get_encoder()(**{self.source: source}, **mask, return_dict=True)
        token = torch.zeros(source.shape[0], 1, dtype=torch.int64, device=source.device)
        output = self.model(
            encoder_outputs=encoded, decoder_input_ids=token, use_cache=True, **mask
        )
        cross_cache = getattr(output, self.cache).cross_attention_cache
        return encoded.last_hidden_state, _flatten_caches(cross_cache)


class DecoderGraph(torch.nn.Module):
    """A step of the decoder, which reads the cache of cross attention."""

    def __init__(self, parts: EncoderDecoder) -> None:
        super().__init__()
        self.model, self.cache = parts.model, parts.cache
        self.width, self.encoder_output = _hidden_size(parts.model), parts.encoder_output

    def forward(
        self,
        input_ids: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        *,
        past: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the logits of new tokens, and the keys and values of self attention.

        ``past`` has four tensors of each layer: keys and values of self attention, then those of
        cross attention.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        self_cache, cross_cache = (
            DynamicCache(list(zip(past[start::4], past[start + 1 :: 4], strict=True)))
            for start in (0, 2)
        )
        mask = {} if encoder_attention_mask is None else {"attention_mask": encoder_attention_mask}
        cross_keys = past[2]
        # Only the size is read: cross attention takes its keys and values from the cache.
        hidden = cross_keys.new_zeros(
            (cross_keys.shape[0], cross_keys.shape[2], self.width), dtype=self.model.dtype
        )
        output = self.model(
            encoder_outputs=self.encoder_output(last_hidden_state=hidden),
            decoder_input_ids=input_ids,
            use_cache=True,
            **mask,
            **{self.cache: EncoderDecoderCache(self_cache, cross_cache)},
        )
        return output.logits, _flatten_caches(getattr(output, self.cache).self_attention_cache)


class PromptGraph(torch.nn.Module):
    """The first step of the decoder as optimum has it, which reads the encoder's states."""

    def __init__(self, parts: EncoderDecoder) -> None:
        super().__init__()
        self.model, self.cache, self.encoder_output = parts.model, parts.cache, parts.encoder_output

    def forward(
        self,
        input_ids: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the logits, and keys and values of self and of cross attention by layer."""
        mask = {} if encoder_attention_mask is None else {"attention_mask": encoder_attention_mask}
        output = self.model(
            encoder_outputs=self.encoder_output(last_hidden_state=encoder_hidden_states),
            decoder_input_ids=input_ids,
            use_cache=True,
            **mask,
        )
        cache = getattr(output, self.cache)
        tensors = _flatten_caches(cache.self_attention_cache, cache.cross_attention_cache)
        return output.logits, tensors


def make_encoder_decoder(model: Any) -> EncoderDecoder:
    """Return the description of an encoder-decoder model; runs the model on a few tokens.

    Raises InputError if ``model`` is in training mode or has no weights, and ExportError if its
    input, its cache or its `generate` is of a kind that the two graphs do not have.
    """
    check_model(model)
    name = type(model).__name__
    _check_overrides(model)
    source = model.main_input_name
    if source != TOKENS and (source, model.config.model_type) != (FEATURES, "whisper"):
        raise ExportError(
            f"the encoder of {name} takes {source}: export_language_model knows encoders of "
            "input_ids, and Whisper's. Export both parts with to_onnx"
        )
    parameters = inspect.signature(model.forward).parameters
    cache_argument = "cache" if "cache" in parameters else "past_key_values"
    call = _example_source(model, source)
    tokens = torch.zeros(_BATCH, _TARGET_LENGTH, dtype=torch.int64, device=model.device)
    with torch.no_grad():
        encoded = model.get_encoder()(**call, return_dict=True)
        mask = {name: value for name, value in call.items() if name != source}
        output = model(encoder_outputs=encoded, decoder_input_ids=tokens, use_cache=True, **mask)
    layers = _layers_of_caches(model, getattr(output, cache_argument, None))
    parts = EncoderDecoder(model, source, cache_argument, type(encoded), *layers)
    _check_cached_step(parts, call, tokens, output.logits)
    return parts


def check_causal_options(model: Any, kind: str, causal_options: Mapping[str, Any]) -> None:
    """Raise OptionError for options, by name, that need a causal model and are not None.

    ``kind`` says what the model has beside a decoder.
    """
    refused = [name for name, value in causal_options.items() if value is not None]
    if refused:
        raise OptionError(
            f"{type(model).__name__} {kind}, and {', '.join(refused)} is for causal models: leave "
            "it out"
        )


def export_encoder_decoder(
    parts: EncoderDecoder, merged: bool, keywords: Mapping[str, Any]
) -> dict[str, LargeModel]:
    """Return the graphs by file name; ``keywords`` are those of `export`.

    Without ``merged``, optimum's graph of the prompt is a third one.
    """
    call = parts.example_source()
    mask = ["attention_mask"] if parts.takes_mask else []
    texts = {0: BATCH, 1: _SOURCE} if parts.takes_mask else {0: BATCH}
    encoder = export(
        EncoderGraph(parts).eval(),
        kwargs={"source": call[parts.source], **{name: call[name] for name in mask}},
        dynamic_shapes={"source": texts, **dict.fromkeys(mask, texts)},
        input_names=[parts.source, *mask],
        output_names=["last_hidden_state", *parts.cache_names("present", ["encoder"])],
        **keywords,
    ).model
    step = parts.example_step()
    sizes = [{0: BATCH, 2: _PAST}] * 2 + [{0: BATCH, 2: _SOURCE} if mask else {0: BATCH}] * 2
    decoder = export(
        DecoderGraph(parts).eval(),
        kwargs=step,
        dynamic_shapes={
            "input_ids": {0: BATCH, 1: _TARGET},
            **({"encoder_attention_mask": texts} if mask else {}),
            "past": sizes * len(parts.self_layers),
        },
        input_names=[*list(step)[:-1], *parts.cache_names("past_key_values", _CACHES)],
        output_names=["logits", *parts.cache_names("present", ["decoder"])],
        **keywords,
    ).model
    models = {ENCODER_MODEL: encoder, PAST_MODEL: decoder}
    if not merged:
        models[PROMPT_MODEL] = _export_prompt(parts, texts, keywords)
    return {name: externalize_weights(model) for name, model in models.items()}


def _export_prompt(
    parts: EncoderDecoder, texts: dict[int, str], keywords: Mapping[str, Any]
) -> Any:
    step = parts.example_step()
    del step["past"]
    shape = (_BATCH, parts.cross_length(), _hidden_size(parts.model))
    states = torch.zeros(shape, dtype=parts.model.dtype, device=parts.model.device)
    kwargs = {"input_ids": step.pop("input_ids"), "encoder_hidden_states": states, **step}
    return export(
        PromptGraph(parts).eval(),
        kwargs=kwargs,
        dynamic_shapes={
            "input_ids": {0: BATCH, 1: _TARGET},
            "encoder_hidden_states": texts,
            **dict.fromkeys(step, texts),
        },
        input_names=list(kwargs),
        output_names=["logits", *parts.cache_names("present", _CACHES)],
        **keywords,
    ).model


def genai_config_of_whisper(parts: EncoderDecoder, genai: bool | None) -> dict[str, Any] | None:
    """Return the content of genai_config.json, or None for models that onnxruntime-genai lacks.

    Raises ExportError if ``genai`` is True for such a model.
    """
    has_type = _has_genai_type(parts)
    if genai and not has_type:
        raise ExportError(
            f"onnxruntime-genai has no type for {type(parts.model).__name__}: of encoders and "
            f"decoders of transformers it runs Whisper's, of {_GENAI_POSITIONS} positions. "
            "genai=False writes the model without genai_config.json"
        )
    if genai is False or not has_type:
        return None
    config, generation = parts.model.config, parts.model.generation_config
    tokens = special_tokens(generation.to_dict())
    length = config.max_target_positions
    return {
        "model": {
            **{f"{kind}_token_id": value for kind, value in tokens.items() if value is not None},
            "context_length": length,
            "decoder": _genai_decoder(parts),
            "encoder": _genai_encoder(parts),
            "type": "whisper",
            "vocab_size": config.vocab_size,
        },
        "search": {
            **search_settings(generation),
            "early_stopping": True,
            "max_length": length,
            "min_length": 0,
            "past_present_share_buffer": False,
        },
    }


def _has_genai_type(parts: EncoderDecoder) -> bool:
    layers = (*parts.self_layers, *parts.cross_layers)
    widths = {width for layer in layers for width in (layer.key_width, layer.value_width)}
    positions = getattr(parts.model.config, "max_source_positions", None)
    return parts.source == FEATURES and positions == _GENAI_POSITIONS and len(widths) == 1


def _genai_decoder(parts: EncoderDecoder) -> dict[str, Any]:
    config, layer = parts.model.config, parts.self_layers[0]
    return {
        "session_options": _GENAI_SESSION,
        "filename": PAST_MODEL,
        "head_size": layer.key_width,
        "hidden_size": config.d_model,
        "inputs": {
            "input_ids": "input_ids",
            **_genai_names("past", "past_key_values", "decoder"),
            **_genai_names("cross_past", "past_key_values", "encoder"),
        },
        "outputs": {"logits": "logits", **_genai_names("present", "present", "decoder")},
        "num_attention_heads": config.decoder_attention_heads,
        "num_hidden_layers": len(parts.self_layers),
        "num_key_value_heads": layer.heads,
    }


def _genai_encoder(parts: EncoderDecoder) -> dict[str, Any]:
    config = parts.model.config
    return {
        "session_options": _GENAI_SESSION,
        "filename": ENCODER_MODEL,
        "head_size": parts.cross_layers[0].key_width,
        "hidden_size": config.d_model,
        "inputs": {"audio_features": FEATURES},
        "outputs": {
            "encoder_hidden_states": "last_hidden_state",
            **_genai_names("cross_present", "present", "encoder"),
        },
        "num_attention_heads": config.encoder_attention_heads,
        "num_hidden_layers": config.encoder_layers,
    }


def _genai_names(role: str, prefix: str, part: str) -> dict[str, str]:
    return {f"{role}_{kind}_names": f"{prefix}.%d.{part}.{kind}" for kind in _KINDS}


def _flatten_caches(*caches: Any) -> list[torch.Tensor]:
    """Return keys and values layer by layer, of several caches one after another in a layer."""
    layers = zip(*(cache.layers for cache in caches), strict=True)
    return [tensor for parts in layers for layer in parts for tensor in (layer.keys, layer.values)]


def _hidden_size(model: Any) -> int:
    encoder_config = getattr(model.config, "encoder", None)
    config: Any = encoder_config if hasattr(encoder_config, "get_text_config") else model.config
    return int(config.get_text_config().hidden_size)


def _source_length(model: Any, source: str) -> int:
    """Return the length of the example: Whisper's encoder takes features of one length."""
    if source == TOKENS:
        return _SOURCE_LENGTH
    encoder = model.get_encoder()
    stride = encoder.conv1.stride[0] * encoder.conv2.stride[0]
    return int(model.config.max_source_positions * stride)


def _example_source(model: Any, source: str) -> dict[str, torch.Tensor]:
    length, device = _source_length(model, source), model.device
    if source == TOKENS:
        tokens = torch.zeros(_BATCH, length, dtype=torch.int64, device=device)
        return {source: tokens, "attention_mask": torch.ones_like(tokens)}
    shape = (_BATCH, model.config.num_mel_bins, length)
    return {source: torch.zeros(shape, dtype=model.dtype, device=device)}


def _check_overrides(model: Any) -> None:
    """Raise ExportError if ``generate`` of the model differs from that of transformers."""
    from transformers import GenerationMixin

    supported = _SUPPORTED_OVERRIDES[""] | _SUPPORTED_OVERRIDES.get(
        model.config.model_type, frozenset()
    )
    functions = [name for name, value in vars(GenerationMixin).items() if inspect.isfunction(value)]
    overridden = [
        name
        for name in functions
        if getattr(type(model), name, None) is not getattr(GenerationMixin, name)
        and name not in supported
    ]
    if overridden:
        raise ExportError(
            f"{type(model).__name__} generates by code of its own ({', '.join(overridden)}), which "
            "a folder of graphs does not contain: export its parts with to_onnx"
        )


def _layers_of_caches(
    model: Any, cache: Any
) -> tuple[tuple[CacheLayer, ...], tuple[CacheLayer, ...]]:
    from transformers import EncoderDecoderCache

    if not isinstance(cache, EncoderDecoderCache):
        raise ExportError(
            f"the cache of {type(model).__name__} is a {type(cache).__name__}, not an "
            "EncoderDecoderCache of keys and values: export its parts with to_onnx"
        )
    return (
        cache_layers(model, cache.self_attention_cache),
        cache_layers(model, cache.cross_attention_cache),
    )


def _check_cached_step(
    parts: EncoderDecoder,
    call: Mapping[str, torch.Tensor],
    tokens: torch.Tensor,
    expected: torch.Tensor,
) -> None:
    """Raise ExportError if the decoder reads more of the encoder than the cache of its layers."""
    mask = [call["attention_mask"]] if parts.takes_mask else []
    with torch.no_grad():
        _, cross = EncoderGraph(parts)(call[parts.source], *mask)
        past = []
        for number, layer in enumerate(parts.self_layers):
            for width in (layer.key_width, layer.value_width):
                shape = (_BATCH, layer.heads, 0, width)
                past.append(torch.zeros(shape, dtype=layer.dtype, device=tokens.device))
            past += cross[2 * number : 2 * number + 2]
        logits, _ = DecoderGraph(parts)(tokens, *mask, past=past)
    if not torch.allclose(logits.float(), expected.float(), rtol=1e-2, atol=1e-3, equal_nan=True):
        raise ExportError(
            f"the decoder of {type(parts.model).__name__} reads the encoder's states beside the "
            "keys and values in its cache: export its parts with to_onnx"
        )
