"""Run the folder that export_language_model writes, token by token."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ortable.compat.providers import CPU, check_providers, provider_names
from ortable.errors import InputError, OptionError, OrtableError
from ortable.exporter.reporting.sessions import make_session

from .adapters import (
    Adapter,
    AdapterInput,
    LoadedAdapter,
    load_adapter,
    read_adapter,
    session_inputs,
    write_adapter,
)
from .causal_runner import continue_texts, make_causal_generator
from .decoder import cache_recompute_length, max_text_length
from .decoding import Decoding, make_decoding
from .encoder_decoder_runner import generate_sequences, make_generator
from .greedy_search import search_greedily
from .model_folder import (
    EMBED_MODEL,
    ENCODER_MODEL,
    MODEL,
    PAST_MODEL,
    PROMPT_MODEL,
    VISION_MODEL,
)
from .speculation import SETTINGS as SPECULATION_SETTINGS
from .speculation import Assistant, Drafter, PromptLookup, SpeculationOptions, parse_speculation
from .steps import StepRunner, TextCache

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
        return [self._make_session(self.folder / name) for name in self.files]

    def _make_session(self, path: Path) -> Any:
        try:
            return make_session(path, self.providers)
        except OrtableError:
            raise
        except Exception as error:  # of classes without a narrower base
            raise InputError(f"ONNX Runtime cannot read '{path}': {error}") from error

    @cached_property
    def _sequence_generator(self) -> Any:
        """The model of transformers that runs the parts of a model; None for a causal model."""
        if not self._has_parts:
            return None
        make = make_generator if self.files[0] == ENCODER_MODEL else make_causal_generator
        settings = self._generation_settings
        return make(self.folder, self._step_sessions, settings, self._step_runner.device)

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

    @cached_property
    def _step_runner(self) -> StepRunner:
        name = provider_names(self.providers[:1])[0]
        device = "cuda" if name == "CUDAExecutionProvider" else "cpu"
        return StepRunner(tuple(self._step_sessions), device)

    @cached_property
    def _adapter_inputs(self) -> dict[str, AdapterInput]:
        return session_inputs(self._step_sessions[-1])

    @cached_property
    def _loaded_adapters(self) -> dict[str, LoadedAdapter]:
        return {}

    def _select_adapter(self, name: str | None) -> StepRunner:
        """Return the runner of the model with an adapter, whose file is read at first use."""
        if name is None:
            return self._step_runner
        if name not in self._loaded_adapters:
            loaded = load_adapter(self.folder, name, self._adapter_inputs)
            self._loaded_adapters[name] = loaded
        return replace(self._step_runner, adapter=self._loaded_adapters[name].inputs)

    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Add a LoRA adapter to the folder, as ``<name>.onnx_adapter``.

        Args:
            name: the name for ``generate(adapter=...)``; an adapter of this name is replaced.
            adapter: as in ``export_language_model``. The graph must have inputs for its layers: an
                adapter with these layers was given at the export.

        Raises:
            InputError: the adapter is not one of PEFT, or does not fit the inputs of the graph.
            OptionError: the name cannot be that of a file.
            ExportError: the file cannot be written.
        """
        weights = read_adapter(name, adapter)
        self._loaded_adapters.pop(name, None)  # it maps the file that is replaced
        write_adapter(self.folder, name, weights, self._adapter_inputs)

    def step(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        cache: Mapping[str, Any] | None = None,
        *,
        adapter: str | None = None,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the logits of new tokens, and the updated cache.

        Args:
            input_ids: int64 (batch, sequence), the tokens that are not in the cache.
            attention_mask: int64 (batch, past + sequence), 0 for padding.
            cache: the cache that the previous step returned, OrtValues by layer and kind ("0.key");
                None for the prompt.
            adapter: the name of an adapter in the folder; None for the model without one.

        Returns:
            The logits, (batch, 1, vocabulary) of the last token, or (batch, sequence, vocabulary)
            with ``logits="all"``, and the cache for the next step.
        """
        if self._has_parts:
            parts = "an encoder and a decoder" if len(self.files) == 2 else "a part for images"
            raise OptionError(
                f"step is for causal models; '{self.folder}' has {parts}: call generate"
            )
        runner = self._select_adapter(adapter)
        batch, count = input_ids.shape
        if cache is None or count == 1 or (batch == 1 and runner.takes_pieces):
            return runner.run_step(input_ids, attention_mask, cache)
        # A graph with states takes one token, and ONNX Runtime's attention takes several tokens of
        # several texts only without a past
        logits: list[torch.Tensor] = []
        new_cache = dict(cache)
        for last in range(count):
            mask = attention_mask[:, : attention_mask.shape[1] - count + last + 1]
            token = input_ids[:, last : last + 1]
            token_logits, new_cache = runner.run_step(token, mask, new_cache)
            logits.append(token_logits)
        is_all = runner.returns_all_logits
        return (torch.cat(logits, dim=1) if is_all else logits[-1]), new_cache

    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        max_new_tokens: int | None = None,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        prompt_lookup_num_tokens: int | None = None,
        assistant_model: OnnxLanguageModel | None = None,
        streamer: Any = None,
        adapter: str | None = None,
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
            prompt_lookup_num_tokens: guess that the text goes on as it did after an earlier
                occurrence of its last tokens, up to this number of tokens, which one step checks.
                The tokens stay the same. It is for one causal text and ``logits="all"``.
            assistant_model: a smaller model of the same vocabulary that guesses tokens.
            streamer: a streamer of transformers: ``put`` gets the prompts and then each new token,
                ``end`` is called at the end.
            adapter: the name of an adapter in the folder, which changes the model for this call;
                None for the model without one. It is for causal models.
            settings: for a causal model ``max_matching_ngram_size``, 2 by default, for prompt
                lookup; ``num_assistant_tokens`` and ``assistant_confidence_threshold``, 20 and 0.4,
                for an assistant. For an encoder and a decoder, and for images, other settings of
                transformers' ``generate``: ``num_beams=4``, ``do_sample=True``, for Whisper
                ``language="fr"``; for a model that reads images, what its processor returns:
                ``pixel_values``, ...

        Returns:
            The texts.

        Raises:
            InputError: the prompts are not integers (batch, sequence), the mask has another
                shape, images have another size or number of tokens, or the folder does not have the
                adapter.
            OptionError: ``max_new_tokens`` is not a number of tokens, a setting is unknown,
                ``generation_config.json`` of a causal model has an unsupported setting (beams,
                forced or forbidden tokens), or guesses cannot be checked: there are several texts,
                the graph has the last logits only, or the assistant has another vocabulary.
        """
        count = 20 if max_new_tokens is None else max_new_tokens
        _check_token_count(count)
        optional = {
            "eos_token_id": eos_token_id,
            "pad_token_id": pad_token_id,
            "prompt_lookup_num_tokens": prompt_lookup_num_tokens,
        }
        overrides = {name: value for name, value in optional.items() if value is not None}
        if self._sequence_generator is not None:
            if adapter is not None:
                raise OptionError("adapter is for causal models without images")
            rest = {"assistant_model": assistant_model, "streamer": streamer}
            if max_new_tokens is not None:
                rest["max_new_tokens"] = count
            overrides.update({name: value for name, value in rest.items() if value is not None})
            arguments, generator = {**overrides, **settings}, self._sequence_generator
            if self.files[0] == ENCODER_MODEL:
                return generate_sequences(generator, input_ids, attention_mask, arguments)
            texts, _ = _checked_prompts(input_ids, None)
            return continue_texts(generator, texts, attention_mask, arguments)
        unknown = [name for name in settings if name not in SPECULATION_SETTINGS]
        if unknown:
            raise OptionError(
                f"generate does not take {', '.join(map(repr, unknown))} for a causal model: it "
                "chooses the most likely tokens"
            )
        texts, mask = _checked_prompts(input_ids, attention_mask)
        overrides = {**self._generation_settings, **overrides, **settings}
        speculation = parse_speculation(overrides)
        decoding = make_decoding({**overrides, "prompt_lookup_num_tokens": None})
        places = texts.shape[1] + count
        drafter: Drafter | None = None
        if assistant_model is not None or speculation.prompt_lookup_num_tokens is not None:
            self._check_speculation(len(texts), assistant_model, speculation)
            drafter = _make_drafter(assistant_model, speculation, decoding, places)
        cache = self._make_text_cache(len(texts), places, adapter)
        return search_greedily(cache, texts, mask, decoding, count, drafter, streamer)

    def _make_text_cache(self, batch: int, places: int, adapter: str | None = None) -> TextCache:
        recompute_length = cache_recompute_length(self._read_json("config.json"))
        return TextCache(self._select_adapter(adapter), batch, places, recompute_length)

    def _check_speculation(self, batch: int, assistant: Any, options: SpeculationOptions) -> None:
        """Raise OptionError if there are several texts, too few logits or another vocabulary."""
        if batch != 1:
            raise OptionError(
                f"assistant_model and prompt_lookup_num_tokens are for one text, not for {batch}"
            )
        if not self._step_runner.returns_all_logits:
            raise OptionError(
                "assistant_model and prompt_lookup_num_tokens need the logits of every token, and "
                f"'{self.folder}' has those of the last one: export it with logits='all'"
            )
        _check_takes_pieces(self)
        if assistant is None:
            return
        if options.prompt_lookup_num_tokens is not None:
            raise OptionError("give assistant_model or prompt_lookup_num_tokens, not both")
        if not isinstance(assistant, OnnxLanguageModel) or assistant._has_parts:
            raise OptionError(
                "assistant_model is an OnnxLanguageModel without an encoder or images, not "
                f"{assistant if isinstance(assistant, OnnxLanguageModel) else type(assistant)!r}"
            )
        _check_takes_pieces(assistant)
        sizes = [model._step_runner.vocabulary_size for model in (self, assistant)]
        if sizes[0] != sizes[1]:
            raise OptionError(
                f"assistant_model has a vocabulary of {sizes[1]} tokens, and the model one of "
                f"{sizes[0]}: it must be the same"
            )


def _check_takes_pieces(model: OnnxLanguageModel) -> None:
    """Raise OptionError for a model with states, whose earlier values are gone."""
    if not model._step_runner.takes_pieces:
        text = f"'{model.folder}' has states, from which wrong guesses cannot be removed"
        raise OptionError(text)


def _make_drafter(
    assistant: OnnxLanguageModel | None,
    options: SpeculationOptions,
    decoding: Decoding,
    places: int,
) -> Drafter:
    if assistant is None:
        count = options.prompt_lookup_num_tokens
        assert count is not None, "one of both is set"
        return PromptLookup(count, options.max_matching_ngram_size)
    config = SimpleNamespace(**assistant._read_json("config.json"))
    max_length = max_text_length(config) or places
    return Assistant(assistant._make_text_cache(1, places), decoding, options, max_length)


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
