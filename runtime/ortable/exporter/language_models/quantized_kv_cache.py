"""Quantize the key-value cache of a decoder to int8 codes (integers) with scales.

The quantized decoder is a torch module, which is exported and validated like any other. Called by
export.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import torch

from ortable.errors import ExportError, InputError, OptionError

from .decoder import Decoder, max_text_length

_MIN_CODE, _MAX_CODE = -128, 127  # int8 codes
# Channels with smaller values become zero, since the inverse of their scale would overflow.
_MIN_MAGNITUDE = 1e-30
_TEXTS, _TOKENS = 4, 64  # size of the default calibration texts


@dataclass(frozen=True)
class CacheOptions:
    """Settings of ``export_language_model(cache=...)`` for a quantized cache.

    A key or value becomes ``code = round(x / scale)``, an integer from -128 to 127, and attention
    uses ``code * scale``. This needs a quarter of the memory of float32. Scales are constants of
    the graph, measured once; values of a later text that exceed the range of the codes are clamped.

    Args:
        kind: ``"int8"``: codes of 8 bits.
        scales: ``"channel"``: a scale for each head and channel of a layer; ``"tensor"``: a scale
            for all keys of a layer and one for its values.
        texts: tokens to measure the scales on, integers (texts, tokens), representative of the
            texts that the model will process. By default, tokens are sampled from the whole
            vocabulary.

    Raises:
        OptionError: an option has an invalid value.
    """

    kind: Literal["int8"] = "int8"
    scales: Literal["channel", "tensor"] = "channel"
    texts: torch.Tensor | Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.kind != "int8":
            raise OptionError(f"cache: kind is 'int8', not {self.kind!r:.80}")
        if self.scales not in ("channel", "tensor"):
            raise OptionError(f"cache: scales is 'channel' or 'tensor', not {self.scales!r:.80}")


Cache: TypeAlias = Literal["keep", "int8"] | Mapping[str, Any] | CacheOptions


def checked_cache(requested: Cache | None) -> CacheOptions | None:
    """Parse ``cache=``, None to keep the model's dtype; raise OptionError for invalid values."""
    if requested is None or (isinstance(requested, str) and requested == "keep"):
        return None
    if isinstance(requested, CacheOptions):
        return requested
    if isinstance(requested, str):
        return CacheOptions(kind=requested)  # type: ignore[arg-type]
    if not isinstance(requested, Mapping):
        raise OptionError(
            f"cache is 'keep', 'int8', a dict of settings or CacheOptions, not {requested!r:.80}"
        )
    names = {option_field.name for option_field in fields(CacheOptions)}
    unknown = [name for name in requested if name not in names]
    if unknown:
        raise OptionError(
            f"cache: there is no setting {unknown[0]!r:.80}; it has {', '.join(sorted(names))}"
        )
    return CacheOptions(**requested)


def quantize_cache(
    decoder: Decoder, options: CacheOptions, adapters: Sequence[list[torch.Tensor]] = ()
) -> Decoder:
    """Return the decoder with a quantized cache, whose scales are measured on ``options.texts``.

    The scales are for the model without an adapter and with each of ``adapters``, arguments of its
    forward.

    Raises InputError for texts that are not tokens of the model, and ExportError if the cache is
    not float32, or has NaN or infinities on these texts.
    """
    unsupported_dtypes = {layer.dtype for layer in decoder.layers} - {torch.float32}
    if unsupported_dtypes:
        raise ExportError(
            f"cache='int8' needs a cache of float32, and that of {decoder.name} is "
            f"{', '.join(map(str, unsupported_dtypes))}: give weights='float32' too"
        )
    scales = _measure_scales(decoder, options, adapters)
    layers = tuple(replace(layer, dtype=torch.int8) for layer in decoder.layers)
    return replace(
        decoder,
        model=QuantizedCacheModel(decoder, scales).eval(),
        layers=layers,
        cache="past_key_values",
        has_quantized_cache=True,
    )


class QuantizedCacheModel(torch.nn.Module):
    """A language model whose cache is a list of int8 tensors, keys and values of each layer."""

    def __init__(
        self, decoder: Decoder, scales: Sequence[tuple[torch.Tensor, torch.Tensor]]
    ) -> None:
        super().__init__()
        self.model, self.cache = decoder.model, decoder.cache
        self.config, self.generation_config = decoder.model.config, decoder.model.generation_config
        self.device, self.base_name = decoder.model.device, decoder.name
        self.layer_count = len(scales)
        for number, pair in enumerate(scales):
            for kind, scale in zip(("key", "value"), pair, strict=True):
                self.register_buffer(f"{kind}_scale_{number}", scale)
                self.register_buffer(f"{kind}_inverse_{number}", 1 / scale)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        past_key_values: Sequence[torch.Tensor] = (),
        use_cache: bool = True,
        logits_to_keep: int | None = None,
        adapters: Sequence[torch.Tensor] | None = None,
    ) -> Any:
        """Run the model and return logits and the cache.

        Args:
            input_ids: int64 (batch, sequence).
            attention_mask: int64 (batch, past + sequence).
            position_ids: int64 (batch, sequence), if the model has position ids.
            past_key_values: int8 (batch, heads, past, width), two tensors for each layer; empty
                before the first token.
            use_cache: always True.
            logits_to_keep: how many of the last tokens get logits, if forward has the argument.
            adapters: the matrices of an adapter, if forward has the argument.
        """
        from transformers.cache_utils import Cache as TransformersCache
        from transformers.modeling_outputs import CausalLMOutputWithPast

        layers = [self._make_layer(number, past_key_values) for number in range(self.layer_count)]
        options = {
            "position_ids": position_ids,
            "logits_to_keep": logits_to_keep,
            "adapters": adapters,
        }
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            use_cache=use_cache,
            **{self.cache: TransformersCache(layers=layers)},
            **{name: value for name, value in options.items() if value is not None},
        )
        codes: Any = [tensor for layer in layers for tensor in (layer.keys, layer.values)]
        return CausalLMOutputWithPast(logits=output.logits, past_key_values=codes)

    def _make_layer(self, number: int, past: Sequence[torch.Tensor]) -> Any:
        scales = [
            getattr(self, f"{kind}_{suffix}_{number}")
            for kind in ("key", "value")
            for suffix in ("scale", "inverse")
        ]
        return _layer_class()(scales, past[2 * number : 2 * number + 2])


@functools.cache
def _layer_class() -> Any:
    """Return the class of a quantized cache layer, defined here as transformers is optional."""
    from transformers.cache_utils import DynamicLayer

    class QuantizedCacheLayer(DynamicLayer):  # type: ignore[misc]
        """A cache layer whose ``keys`` and ``values`` are the codes."""

        def __init__(self, scales: Sequence[torch.Tensor], past: Sequence[torch.Tensor]) -> None:
            super().__init__()
            self.key_scale, self.key_inverse, self.value_scale, self.value_inverse = scales
            self.past = past

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """Append new keys and values, and return all of them as floats."""
            new = [
                _quantize(key_states, self.key_inverse),
                _quantize(value_states, self.value_inverse),
            ]
            if self.past:
                new = [torch.cat(pair, dim=2) for pair in zip(self.past, new, strict=True)]
            self.keys, self.values = self.past = new
            self.is_initialized = True
            return (
                self.keys.to(key_states.dtype) * self.key_scale,
                self.values.to(value_states.dtype) * self.value_scale,
            )

        def get_seq_length(self) -> int:
            """Return the number of tokens in the cache."""
            return self.past[0].shape[2] if self.past else 0

    return QuantizedCacheLayer


def _quantize(x: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
    # multiply by the inverse instead of dividing, as ONNX Runtime's kernel does
    return torch.clamp(torch.round(x * inverse), _MIN_CODE, _MAX_CODE).to(torch.int8)


def _measure_scales(
    decoder: Decoder, options: CacheOptions, adapters: Sequence[list[torch.Tensor]]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the scales of keys and values of each layer, float32 (1, heads, 1, width) or (1,)."""
    texts = _calibration_texts(decoder, options.texts)
    caches = []
    for arguments in ({}, *({"adapters": adapter} for adapter in adapters)):
        with torch.no_grad():
            output = decoder.model(
                input_ids=texts, attention_mask=torch.ones_like(texts), use_cache=True, **arguments
            )
        caches.append(getattr(output, decoder.cache).layers)
    scales = []
    for layers in zip(*caches, strict=True):
        keys, values = (
            _compute_scale(decoder, torch.cat(states), options)
            for states in zip(*((layer.keys, layer.values) for layer in layers), strict=True)
        )
        scales.append((keys, values))
    return scales


def _compute_scale(decoder: Decoder, states: torch.Tensor, options: CacheOptions) -> torch.Tensor:
    magnitude = states.abs().amax(dim=(0, 2), keepdim=True)
    if not bool(torch.isfinite(magnitude).all()):
        raise ExportError(
            f"the cache of {decoder.name} has NaN or infinities on the texts that "
            "its scales are measured on: give other texts, cache={'kind': 'int8', 'texts': ..}"
        )
    if options.scales == "tensor":
        magnitude = magnitude.max().reshape(1)
    return torch.where(magnitude > _MIN_MAGNITUDE, magnitude / _MAX_CODE, 1.0)


def _calibration_texts(decoder: Decoder, requested: Any) -> torch.Tensor:
    config = decoder.model.config.get_text_config()
    if requested is None:
        count = min(_TOKENS, max_text_length(config) or _TOKENS)
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(config.vocab_size, (_TEXTS, count), generator=generator)
        return tokens.to(decoder.model.device)
    texts = torch.as_tensor(requested, device=decoder.model.device)
    if texts.dim() != 2 or 0 in texts.shape or texts.is_floating_point():
        description = f"{texts.dtype} of shape {tuple(texts.shape)}"
        raise InputError(f"cache: texts is tokens, integers (texts, tokens), not {description}")
    if int(texts.min()) < 0 or int(texts.max()) >= config.vocab_size:
        raise InputError(
            f"cache: texts has tokens from {int(texts.min())} to {int(texts.max())}, and the "
            f"vocabulary of the model has {config.vocab_size}"
        )
    return texts.to(torch.int64)
