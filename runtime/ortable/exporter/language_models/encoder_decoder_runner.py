"""Run the graphs of an encoder-decoder model in `generate` of transformers.

The class that `make_generator` returns has two sessions in place of layers, so that the search
(greedy, beams, samples) and the settings of generation_config.json are those of transformers.
encoder_decoder.py exports the graphs. Called by runner.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ortable import dtypes
from ortable.compat.onnxruntime import tensor_over
from ortable.errors import InputError, OptionError
from ortable.exporter.reporting.sessions import array_of, ort_value
from ortable.ir.schemas import TENSOR_TYPES

from .steps import host_tensor, place_tensor

_PAST, _PRESENT = "past_key_values.", "present."
_MASK = "attention_mask"
_CPU = torch.device("cpu")
# Arguments of `generate` for which the graphs compute nothing, or whose result is not a tensor.
_REFUSED_ARGUMENTS = (
    "assistant_model", "assistant_tokenizer", "custom_generate", "encoder_outputs",
    "generation_config", "negative_prompt_attention_mask", "negative_prompt_ids",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores",
    "past_key_values", "return_dict_in_generate", "return_segments", "return_token_timestamps",
    "trust_remote_code",
)  # fmt: skip
_SEARCHES = ("greedy_search", "sample", "beam_search", "beam_sample")


@dataclass
class StepCache:
    """The cache between two steps: OrtValues by layer, part and kind ("0.decoder.key").

    The methods are those of transformers' caches that `generate` calls.
    """

    values: dict[str, Any]
    device: str
    length: int = 0

    def get_seq_length(self) -> int:
        """Return the number of tokens in the cache."""
        return self.length

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Select the rows of beams; all beams of a text have the same rows of the encoder."""
        for name, value in self.values.items():
            if ".decoder." in name:
                rows = host_tensor(value).index_select(0, beam_idx)
                self.values[name] = place_tensor(rows, self.device)


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
        results = _run_session(self.session, feeds, self.device)
        output = BaseModelOutput(last_hidden_state=tensor_over(results.pop("last_hidden_state")))
        output.cross_cache = {name.removeprefix(_PRESENT): value for name, value in results.items()}
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

        device, dtype = _CPU, torch.float32  # of tokens and logits

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
    from transformers import AutoConfig, GenerationConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the class that the file names may raise any error
        raise InputError(f"'{folder}' has no config.json of transformers: {error}") from error
    generator = _generator_class(config.model_type)(config, sessions, device).eval()
    # The graphs have one kind of cache and the result is tokens. A configuration that says that it
    # was made from that of the model loses the attributes of Whisper when it is read.
    plain = {
        "cache_implementation": None,
        "return_dict_in_generate": False,
        "_from_model_config": False,
    }
    generator.generation_config = GenerationConfig.from_dict({**settings, **plain})
    return generator


def generate_sequences(
    generator: Any, source: Any, attention_mask: Any, settings: Mapping[str, Any]
) -> torch.Tensor:
    """Return the tokens of `generate`, int64 (batch, length), which start with the decoder's.

    Raises InputError for inputs of another type or shape, and OptionError for settings that
    `generate` does not have or that the graphs do not support.
    """
    if not isinstance(ends := settings.get("eos_token_id", 0), int) and not len(ends):
        settings = {**settings, "eos_token_id": None}
    _check_settings(generator, settings)
    inputs = _checked_source(generator.encoder.session.get_inputs()[0], source)
    mask = {}
    if attention_mask is not None:
        mask[_MASK] = torch.as_tensor(attention_mask, device=_CPU)
        if generator.main_input_name == "input_ids" and mask[_MASK].shape != inputs.shape:
            raise InputError(
                f"attention_mask has the shape {tuple(mask[_MASK].shape)}, "
                f"input_ids {tuple(inputs.shape)}"
            )
    tokens = generator.generate(inputs, **mask, **{"do_sample": False, **settings})
    return torch.as_tensor(tokens)


def _check_settings(generator: Any, settings: Mapping[str, Any]) -> None:
    config = type(generator.generation_config).from_dict(generator.generation_config.to_dict())
    names = {
        *config.to_dict(),
        *inspect.signature(generator.generate).parameters,
        "decoder_input_ids",
        "tokenizer",
    }
    unsupported = [
        name for name in settings if name not in names or name in (*_REFUSED_ARGUMENTS, "inputs")
    ]
    if unsupported:
        raise OptionError(
            f"generate does not take {', '.join(map(repr, unsupported))}: a folder runs the "
            "settings of transformers' GenerationConfig, and returns tokens"
        )
    config.update(**settings)
    search = str(config.get_generation_mode().value)
    if search not in _SEARCHES:
        raise OptionError(
            f"the settings ask for {search}, which needs the model in torch; a folder runs "
            f"{', '.join(_SEARCHES)}"
        )


def _checked_source(spec: Any, source: Any) -> torch.Tensor:
    """Return the encoder's input; raise InputError if dtype or rank are not those of the graph."""
    value = torch.as_tensor(source, device=_CPU)
    dtype = dtypes.to_torch(TENSOR_TYPES[spec.type])
    if dtype == torch.int64 and not value.is_floating_point() and value.dtype != torch.bool:
        value = value.to(dtype)
    shape = [size if isinstance(size, int) else None for size in spec.shape]
    if value.dim() == len(shape) and value.dtype == dtype and 0 not in value.shape:
        return value
    raise InputError(
        f"{spec.name} is {dtype} of shape ({', '.join(map(str, spec.shape))}), not {value.dtype} "
        f"of shape {tuple(value.shape)}"
    )


def _start_cache(session: Any, cross: Mapping[str, Any], batch: int, device: str) -> StepCache:
    """Return the cache of a step without a past: beams share the rows of their text."""
    import onnxruntime

    values: dict[str, Any] = {}
    for spec in session.get_inputs():
        name = spec.name.removeprefix(_PAST)
        if name == spec.name:
            continue
        if name not in cross:
            shape = [batch, spec.shape[1], 0, spec.shape[3]]
            make_value = onnxruntime.OrtValue.ortvalue_from_shape_and_type
            values[name] = make_value(shape, TENSOR_TYPES[spec.type], device)
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
    feeds: dict[str, Any] = {f"{_PAST}{name}": value for name, value in cache.values.items()}
    feeds["input_ids"] = tokens.to(torch.int64)
    if "encoder_attention_mask" in [value.name for value in session.get_inputs()]:
        length = cache.values["0.encoder.key"].shape()[2]
        if attention_mask is None:
            attention_mask = torch.ones(len(tokens), length)
        feeds["encoder_attention_mask"] = attention_mask.to(torch.int64)
    results = _run_session(session, feeds, cache.device)
    logits = tensor_over(results.pop("logits"))
    cache.values.update({name.removeprefix(_PRESENT): value for name, value in results.items()})
    cache.length += tokens.shape[1]
    return logits


def _run_session(session: Any, feeds: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the outputs by name, OrtValues; caches are on ``device``, others on the CPU."""
    binding = session.io_binding()
    for name, value in feeds.items():
        is_tensor = isinstance(value, torch.Tensor)
        binding.bind_ortvalue_input(name, ort_value(array_of(value)) if is_tensor else value)
    names = [value.name for value in session.get_outputs()]
    for name in names:
        binding.bind_output(name, device if name.startswith(_PRESENT) else "cpu")
    session.run_with_iobinding(binding)
    return dict(zip(names, binding.get_outputs(), strict=True))
