"""Run sessions of ONNX Runtime in `generate` of transformers: caches, settings, calls.

Called by encoder_decoder_runner.py and causal_runner.py, which have the classes that `generate`
calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ortable import dtypes
from ortable.compat.onnxruntime import tensor_over
from ortable.errors import InputError, OptionError
from ortable.exporter.reporting.sessions import array_of, ort_value
from ortable.ir.schemas import TENSOR_TYPES

from .steps import host_tensor, place_tensor

PAST, PRESENT = "past_key_values.", "present."
CPU_DEVICE = torch.device("cpu")
# Arguments of `generate` for which the graphs compute nothing, or whose result is not a tensor.
_REFUSED_ARGUMENTS = (
    "assistant_model", "assistant_tokenizer", "custom_generate", "encoder_outputs",
    "generation_config", "inputs_embeds", "negative_prompt_attention_mask", "negative_prompt_ids",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores",
    "past_key_values", "prefill_chunk_size", "return_dict_in_generate", "return_segments",
    "return_token_timestamps", "trust_remote_code",
)  # fmt: skip
_SEARCHES = ("greedy_search", "sample", "beam_search", "beam_sample")


@dataclass
class StepCache:
    """The cache between two steps: OrtValues by layer and kind ("0.key", "0.decoder.key").

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
            if ".encoder." not in name:
                rows = host_tensor(value).index_select(0, beam_idx)
                self.values[name] = place_tensor(rows, self.device)


def load_config(folder: Path) -> Any:
    """Return the configuration of the model in a folder.

    Raises InputError if config.json is not that of a model of transformers.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the class that the file names may raise any error
        raise InputError(f"'{folder}' has no config.json of transformers: {error}") from error


def make_generation_config(settings: Mapping[str, Any]) -> Any:
    """Return the GenerationConfig of a folder, whose graphs have one cache and return tokens.

    A configuration that says that it was made from that of the model loses the attributes of
    Whisper when it is read.
    """
    from transformers import GenerationConfig

    plain = {
        "cache_implementation": None,
        "prefill_chunk_size": None,
        "return_dict_in_generate": False,
        "_from_model_config": False,
    }
    return GenerationConfig.from_dict({**settings, **plain})


def normalize_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `generate`, with None for an empty list of end tokens."""
    ends = settings.get("eos_token_id", 0)
    if not isinstance(ends, int) and not len(ends):
        return {**settings, "eos_token_id": None}
    return dict(settings)


def check_settings(generator: Any, settings: Mapping[str, Any], inputs: tuple[str, ...]) -> None:
    """Raise OptionError for settings that `generate` lacks, or that need the model in torch.

    ``inputs`` are the names of tensors that `generate` passes on to the sessions.
    """
    config = type(generator.generation_config).from_dict(generator.generation_config.to_dict())
    names = {
        *config.to_dict(),
        *inspect.signature(generator.generate).parameters,
        *inputs,
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
    config.update(**{name: value for name, value in settings.items() if name not in inputs})
    search = str(config.get_generation_mode().value)
    if search not in _SEARCHES:
        raise OptionError(
            f"the settings ask for {search}, which needs the model in torch; a folder runs "
            f"{', '.join(_SEARCHES)}"
        )


def check_input(spec: Any, source: Any) -> torch.Tensor:
    """Return an input of a session; raise InputError if its dtype or rank is another."""
    value = torch.as_tensor(source, device=CPU_DEVICE)
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


def check_mask(attention_mask: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mask of tokens; raise InputError if its shape is another."""
    mask = torch.as_tensor(attention_mask, device=CPU_DEVICE)
    if mask.shape != tokens.shape:
        raise InputError(
            f"attention_mask has the shape {tuple(mask.shape)}, input_ids {tuple(tokens.shape)}"
        )
    return mask


def run_session(session: Any, feeds: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the outputs by name, OrtValues; caches are on ``device``, others on the CPU."""
    binding = session.io_binding()
    for name, value in feeds.items():
        is_tensor = isinstance(value, torch.Tensor)
        binding.bind_ortvalue_input(name, ort_value(array_of(value)) if is_tensor else value)
    names = [value.name for value in session.get_outputs()]
    for name in names:
        binding.bind_output(name, device if name.startswith(PRESENT) else "cpu")
    session.run_with_iobinding(binding)
    return dict(zip(names, binding.get_outputs(), strict=True))


def run_step(session: Any, feeds: Mapping[str, Any], cache: StepCache, count: int) -> torch.Tensor:
    """Return the logits of ``count`` new tokens, and append these to the cache."""
    past = {f"{PAST}{name}": value for name, value in cache.values.items()}
    results = run_session(session, {**past, **feeds}, cache.device)
    logits = tensor_over(results.pop("logits"))
    cache.values.update({name.removeprefix(PRESENT): value for name, value in results.items()})
    cache.length += count
    return logits
