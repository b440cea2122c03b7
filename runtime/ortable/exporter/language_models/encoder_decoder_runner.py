"""Run the graphs of an encoder-decoder model in `generate` of transformers.

The class that `make_generator` returns has two sessions in place of layers, so that the search
(greedy, beams, samples) and the settings of generation_config.json are those of transformers.
encoder_decoder.py exports the graphs. Called by runner.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ortable.compat.onnxruntime import tensor_over
from ortable.errors import OptionError

from .generation import (
    CPU_DEVICE,
    PAST,
    PRESENT,
    StepCache,
    check_input,
    check_mask,
    check_settings,
    load_config,
    make_generation_config,
    normalize_settings,
    run_session,
    run_step,
)
from .steps import empty_value, host_tensor, place_tensor

_MASK = "attention_mask"


class EncoderSession(torch.nn.Module):
    """The encoder as a module: its result also has the cache of cross attention."""

    def __init__(self, session: Any, device: str) -> None:
        super().__init__()
        self.session, self.device = session, device
        self.input_names = [value.name for value in session.get_inputs()]
        self.main_input_name = self.input_names[0]

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_features: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return a BaseModelOutput with the attribute ``cross_cache``: OrtValues by name."""
        from transformers.modeling_outputs import BaseModelOutput

        source = input_ids if input_features is None else input_features
        assert source is not None, "generate gives the encoder its input"
        feeds = {self.main_input_name: source}
        if _MASK in self.input_names:
            mask = torch.ones_like(source) if attention_mask is None else attention_mask
            feeds[_MASK] = mask.to(torch.int64)
        results = run_session(self.session, feeds, self.device)
        output = BaseModelOutput(last_hidden_state=tensor_over(results.pop("last_hidden_state")))
        output.cross_cache = {name.removeprefix(PRESENT): value for name, value in results.items()}
        return output


@functools.cache
def _generator_class(model_type: str) -> Any:
    """Return a class for `make_generator`; made at first use, since it imports transformers."""
    from transformers import GenerationMixin, PreTrainedModel
    from transformers.modeling_outputs import Seq2SeqLMOutput

    base = GenerationMixin
    if model_type == "whisper":
        from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

        base = WhisperGenerationMixin

    names = {output_field.name for output_field in fields(Seq2SeqLMOutput)}
    cache_field = "cache" if "cache" in names else "past_key_values"  # renamed in 5.24

    class Generator(base, PreTrainedModel):  # type: ignore[misc, valid-type]
        """A model of transformers whose encoder and decoder are sessions of ONNX Runtime."""

        device, dtype = CPU_DEVICE, torch.float32  # of tokens and logits

        def __init__(self, config: Any, sessions: list[Any], device: str) -> None:
            super().__init__(config)
            self.encoder = EncoderSession(sessions[0], device)
            self.session, self.cache_device = sessions[1], device
            self.main_input_name = self.encoder.main_input_name
            if model_type == "whisper":  # its `generate` reads the strides of the encoder
                strides = {f"conv{n}": SimpleNamespace(stride=(n,)) for n in (1, 2)}
                self.model = SimpleNamespace(encoder=SimpleNamespace(**strides), config=config)

        def get_encoder(self, modality: str | None = None) -> Any:
            return self.encoder

        def forward(
            self,
            input_ids: torch.Tensor | None = None,
            attention_mask: torch.Tensor | None = None,
            decoder_input_ids: torch.Tensor | None = None,
            decoder_attention_mask: torch.Tensor | None = None,
            encoder_outputs: Any = None,
            input_features: torch.Tensor | None = None,
            use_cache: bool = True,
            **kwargs: Any,
        ) -> Any:
            """Return the logits of new tokens, and the cache, which arrives among ``kwargs``."""
            _check_unread(decoder_attention_mask, kwargs)
            assert decoder_input_ids is not None, "generate gives the decoder its tokens"
            cache = next((v for v in kwargs.values() if isinstance(v, StepCache)), None)
            if cache is None:
                encoded = encoder_outputs or self.encoder(input_ids, attention_mask, input_features)
                cache = _start_cache(
                    self.session, encoded.cross_cache, len(decoder_input_ids), self.cache_device
                )
            logits = _run_decoder(self.session, decoder_input_ids, attention_mask, cache)
            next_cache = {cache_field: cache} if use_cache else {}
            return Seq2SeqLMOutput(logits=logits, **next_cache)

    return Generator


def _check_unread(decoder_mask: torch.Tensor | None, arguments: Mapping[str, Any]) -> None:
    """Raise OptionError for tensors that the graph of the decoder does not have as inputs."""
    unread = [
        name
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and name != "cache_position"  # older transformers
    ]
    if decoder_mask is not None and not decoder_mask.all():
        unread.append("decoder_attention_mask")
    if unread:
        raise OptionError(
            f"the decoder of the folder takes no {', '.join(unread)}: give prefixes of one length"
        )


def make_generator(
    folder: Path, sessions: list[Any], settings: Mapping[str, Any], device: str
) -> Any:
    """Return a model of transformers that runs the sessions of the encoder and the decoder.

    ``settings`` is the content of generation_config.json, and ``device`` that of the caches.

    Raises InputError if config.json is not that of a model of transformers.
    """
    config = load_config(folder)
    generator = _generator_class(config.model_type)(config, sessions, device).eval()
    generator.generation_config = make_generation_config(settings)
    return generator


def generate_sequences(
    generator: Any, source: Any, attention_mask: Any, settings: Mapping[str, Any]
) -> torch.Tensor:
    """Return the tokens of `generate`, int64 (batch, length), which start with the decoder's.

    Raises InputError for inputs of another type or shape, and OptionError for settings that
    `generate` does not have or that the graphs do not support.
    """
    settings = normalize_settings(settings)
    check_settings(generator, settings, ("decoder_input_ids",))
    inputs = check_input(generator.encoder.session.get_inputs()[0], source)
    mask = {}
    if attention_mask is not None:
        is_text = generator.main_input_name == "input_ids"
        mask[_MASK] = (
            check_mask(attention_mask, inputs) if is_text else torch.as_tensor(attention_mask)
        )
    tokens = generator.generate(inputs, **mask, **{"do_sample": False, **settings})
    return torch.as_tensor(tokens)


def _start_cache(session: Any, cross: Mapping[str, Any], batch: int, device: str) -> StepCache:
    """Return the cache of a step without a past: beams share the rows of their text."""
    values: dict[str, Any] = {}
    for spec in session.get_inputs():
        name = spec.name.removeprefix(PAST)
        if name == spec.name:
            continue
        if name not in cross:
            values[name] = empty_value(spec, batch, device)
            continue
        values[name] = cross[name]
        repeats = batch // cross[name].shape()[0]
        if repeats > 1:
            rows = host_tensor(cross[name]).repeat_interleave(repeats, dim=0)
            values[name] = place_tensor(rows, device)
    return StepCache(values, device)


def _run_decoder(
    session: Any, tokens: torch.Tensor, attention_mask: torch.Tensor | None, cache: StepCache
) -> torch.Tensor:
    """Return the logits of new tokens, and append these to the cache."""
    feeds = {"input_ids": tokens.to(torch.int64)}
    if "encoder_attention_mask" in [value.name for value in session.get_inputs()]:
        length = cache.values["0.encoder.key"].shape()[2]
        if attention_mask is None:
            attention_mask = torch.ones(len(tokens), length)
        feeds["encoder_attention_mask"] = attention_mask.to(torch.int64)
    return run_step(session, feeds, cache, tokens.shape[1])
