"""Run the folder that export_language_model writes, token by token."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ortable.compat.onnxruntime import tensor_over
from ortable.compat.providers import CPU, check_providers, provider_names
from ortable.errors import InputError, OptionError
from ortable.exporter.reporting.sessions import array_of, make_session, ort_value
from ortable.ir.schemas import TENSOR_TYPES

from .causal_runner import continue_texts, make_causal_generator
from .decoder import cache_recompute_length
from .decoding import compute_scores, make_decoding
from .encoder_decoder_runner import generate_sequences, make_generator
from .model_folder import (
    EMBED_MODEL,
    ENCODER_MODEL,
    MODEL,
    PAST_MODEL,
    PROMPT_MODEL,
    VISION_MODEL,
)
from .shared_cache import is_shared

_PAST, _PRESENT = "past_key_values.", "present."
# The files of each kind of folder; the last one has the cache.
_FOLDERS = (
    (VISION_MODEL, EMBED_MODEL, MODEL),
    (MODEL,),
    (ENCODER_MODEL, PAST_MODEL),
    (PROMPT_MODEL, PAST_MODEL),
)


@dataclass(frozen=True)
class OnnxLanguageModel:
    """A language model that runs in ONNX Runtime.

    ``export_language_model`` returns an OnnxLanguageModel, and ``load`` reads a folder. Sessions
    are created at first use. Between tokens the cache stays an OrtValue on the device of the first
    provider.

    Args:
        folder: the folder of the files.
        files: names of the ONNX files of a step: one file, or the file for the prompt and the file
            for later tokens.
        providers: execution providers of the sessions.
    """

    folder: Path
    files: tuple[str, ...]
    providers: tuple[Any, ...] = field(default=(CPU,))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], providers: Sequence[Any] | None = None
    ) -> OnnxLanguageModel:
        """Load the language model in a folder that export_language_model wrote.

        Args:
            path: the folder.
            providers: execution providers, the CPU by default.

        Returns:
            The language model.

        Raises:
            InputError: the folder has no such model.
            ProviderError: a provider is missing.
        """
        folder = Path(path)
        provider_list = (CPU,) if providers is None else tuple(providers)
        check_providers(provider_list)
        for files in _FOLDERS:
            if all((folder / name).is_file() for name in files):
                return cls(folder, files, provider_list)
        raise InputError(
            f"'{folder}' has neither {MODEL} nor {PAST_MODEL} with {PROMPT_MODEL} or "
            f"{ENCODER_MODEL}: export_language_model writes them"
        )

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs of a step with a past."""
        return [value.name for value in self._step_sessions[-1].get_inputs()]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs of a step."""
        return [value.name for value in self._step_sessions[-1].get_outputs()]

    @cached_property
    def _step_sessions(self) -> list[Any]:
        return [make_session(self.folder / name, self.providers) for name in self.files]

    @cached_property
    def _sequence_generator(self) -> Any:
        """The model of transformers that runs the parts of a model; None for a causal model."""
        if not self._has_parts:
            return None
        make = make_generator if self.files[0] == ENCODER_MODEL else make_causal_generator
        settings = self._generation_settings
        return make(self.folder, self._step_sessions, settings, self._cache_device)

    @property
    def _has_parts(self) -> bool:
        """Whether other graphs than that of the step read the input."""
        return self.files[0] in (ENCODER_MODEL, VISION_MODEL)

    @cached_property
    def _generation_settings(self) -> dict[str, Any]:
        return self._read_json("generation_config.json")

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"'{path}' is not a JSON file of settings: {error}") from None

    @property
    def _cache_device(self) -> str:
        name = provider_names(self.providers[:1])[0]
        return "cuda" if name == "CUDAExecutionProvider" else "cpu"

    @cached_property
    def _has_shared_cache(self) -> bool:
        metadata = [session.get_modelmeta().custom_metadata_map for session in self._step_sessions]
        return all(map(is_shared, metadata))

    def step(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        cache: Mapping[str, Any] | None = None,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the logits of new tokens, and the updated cache.

        Args:
            input_ids: int64 (batch, sequence), the tokens that are not in the cache.
            attention_mask: int64 (batch, past + sequence), 0 for padding.
            cache: the cache that the previous step returned, OrtValues by layer and kind ("0.key");
                None for the prompt.

        Returns:
            The logits, (batch, 1, vocabulary) of the last token, or (batch, sequence, vocabulary)
            with ``logits="all"``, and the cache for the next step.
        """
        if self._has_parts:
            parts = "an encoder and a decoder" if len(self.files) == 2 else "a part for images"
            raise OptionError(
                f"step is for causal models; '{self.folder}' has {parts}: call generate"
            )
        batch, count = input_ids.shape
        takes_pieces = self._step_sessions[-1].get_inputs()[0].shape[1] != 1
        if cache is None or count == 1 or (batch == 1 and takes_pieces):
            return self._run_step(input_ids, attention_mask, cache)
        # A graph with states takes one token, and ONNX Runtime's attention takes several tokens of
        # several texts only without a past
        logits: list[torch.Tensor] = []
        new_cache = dict(cache)
        for last in range(count):
            mask = attention_mask[:, : attention_mask.shape[1] - count + last + 1]
            token = input_ids[:, last : last + 1]
            token_logits, new_cache = self._run_step(token, mask, new_cache)
            logits.append(token_logits)
        returns_all = self._step_sessions[0].get_outputs()[0].shape[1] != 1
        return (torch.cat(logits, dim=1) if returns_all else logits[-1]), new_cache

    def _run_step(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        cache: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Run the session of a step; ``overwrite`` writes the updated cache over the cache."""
        session = self._step_sessions[0 if cache is None else -1]
        mask = attention_mask.to(torch.int64)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        feeds = {
            "input_ids": input_ids.to(torch.int64),
            "attention_mask": mask,
            "position_ids": positions[:, -input_ids.shape[1] :],
        }
        past = self._make_cache(session, len(input_ids)) if cache is None else cache
        binding = session.io_binding()
        for value in session.get_inputs():
            name = value.name
            if name.startswith(_PAST):
                bound = past[name.removeprefix(_PAST)]
            else:
                bound = ort_value(array_of(feeds[name]))
            binding.bind_ortvalue_input(name, bound)
        names = [value.name for value in session.get_outputs()]
        for name in names:
            if overwrite and name.startswith(_PRESENT):
                binding.bind_ortvalue_output(name, past[name.removeprefix(_PRESENT)])
                continue
            binding.bind_output(name, self._cache_device if name.startswith(_PRESENT) else "cpu")
        session.run_with_iobinding(binding)
        results = dict(zip(names, binding.get_outputs(), strict=True))
        logits = tensor_over(results.pop("logits"))
        return logits, {name.removeprefix(_PRESENT): value for name, value in results.items()}

    def _make_cache(self, session: Any, batch: int, places: int = 0) -> dict[str, Any]:
        import onnxruntime

        return {
            value.name.removeprefix(_PAST): onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                [batch, value.shape[1], places, value.shape[3]],
                TENSOR_TYPES[value.type],
                self._cache_device,
            )
            for value in session.get_inputs()
            if value.name.startswith(_PAST)
        }

    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        max_new_tokens: int | None = None,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        **settings: Any,
    ) -> torch.Tensor:
        """Return the prompts followed by the most likely tokens, int64 (batch, length).

        The tokens are those of ``model.generate(input_ids, do_sample=False)``: the largest logit at
        each step, with the repetition penalty of ``generation_config.json``, until every text has
        ended or has ``max_new_tokens`` new tokens. Texts that end earlier are padded.

        With an encoder and a decoder, the result has the decoder's tokens. For such models and
        those that read images, ``generate`` of transformers chooses the tokens: it follows all of
        ``generation_config.json``, also beams.

        Args:
            input_ids: int64 (batch, sequence); shorter prompts are padded on the left, texts for
                an encoder on either side. For Whisper the ``input_features``, float (batch, mel
                bins, frames).
            attention_mask: int64 (batch, sequence), 0 for padding; ones by default.
            max_new_tokens: the maximal number of tokens to add, 20 by default; for an encoder and a
                decoder, and for images, the default is that of ``generation_config.json``.
            eos_token_id: tokens that end a text; by default those of ``generation_config.json``, an
                empty list for none.
            pad_token_id: the padding token; by default that of ``generation_config.json``, else the
                first end token.
            settings: for an encoder and a decoder, and for images, other settings of transformers'
                ``generate``: ``num_beams=4``, ``do_sample=True``, for Whisper ``language="fr"``;
                for a model that reads images, what its processor returns: ``pixel_values``, ...

        Returns:
            The texts.

        Raises:
            InputError: the prompts are not integers (batch, sequence), the mask has another shape,
                or images have another size or number of tokens.
            OptionError: ``max_new_tokens`` is not a number of tokens, a setting is unknown, or
                ``generation_config.json`` of a causal model has an unsupported setting (beams,
                forced or forbidden tokens).
        """
        count = 20 if max_new_tokens is None else max_new_tokens
        _check_token_count(count)
        token_ids = {"eos_token_id": eos_token_id, "pad_token_id": pad_token_id}
        overrides = {name: value for name, value in token_ids.items() if value is not None}
        if self._sequence_generator is not None:
            if max_new_tokens is not None:
                overrides["max_new_tokens"] = count
            arguments = {**overrides, **settings}
            generator = self._sequence_generator
            if self.files[0] == ENCODER_MODEL:
                return generate_sequences(generator, input_ids, attention_mask, arguments)
            texts, _ = _checked_prompts(input_ids, None)
            return continue_texts(generator, texts, attention_mask, arguments)
        if settings:
            raise OptionError(
                f"generate does not take {', '.join(map(repr, settings))} for a causal model: it "
                "chooses the most likely tokens"
            )
        texts, mask = _checked_prompts(input_ids, attention_mask)
        decoding = make_decoding({**self._generation_settings, **overrides})
        end_tokens = torch.tensor(decoding.ends, dtype=torch.int64)
        finished = torch.zeros(len(texts), dtype=torch.bool)
        recompute_length = cache_recompute_length(self._read_json("config.json"))
        places = texts.shape[1] + count
        step, cache = texts, None
        if self._has_shared_cache:
            cache = self._make_cache(self._step_sessions[-1], len(texts), places)
        for _ in range(count):
            if recompute_length is not None and texts.shape[1] == recompute_length + 1:
                step, cache = texts, cache if self._has_shared_cache else None
            logits, cache = self._run_step(step, mask, cache, overwrite=self._has_shared_cache)
            token = compute_scores(decoding, logits[:, -1], texts, mask).argmax(-1)
            token = torch.where(finished, decoding.pad_token, token)
            finished |= torch.isin(token, end_tokens)
            step = token[:, None]
            texts = torch.cat([texts, step], dim=1)
            mask = torch.cat([mask, torch.ones_like(step)], dim=1)
            if finished.all():
                break
        return texts


def _check_token_count(count: Any) -> None:
    if type(count) is not int or count < 1:
        raise OptionError(f"max_new_tokens is a number of tokens, not {count!r:.80}")


def _checked_prompts(input_ids: Any, attention_mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
    texts = torch.as_tensor(input_ids, device="cpu")
    if texts.dim() != 2 or 0 in texts.shape or texts.is_floating_point():
        description = f"{texts.dtype} of shape {tuple(texts.shape)}"
        raise InputError(f"input_ids is integers (batch, sequence), not {description}")
    texts = texts.to(torch.int64)
    if attention_mask is None:
        return texts, torch.ones_like(texts)
    mask = torch.as_tensor(attention_mask, dtype=torch.int64, device="cpu")
    if mask.shape != texts.shape:
        raise InputError(
            f"attention_mask has the shape {tuple(mask.shape)}, input_ids {tuple(texts.shape)}"
        )
    return texts, mask
