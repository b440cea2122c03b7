"""Export a language model of transformers to a folder.

The folder has the graphs of decoding and the files of onnxruntime-genai and optimum.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from ortable.builder import LargeModel
from ortable.errors import ExportError, OptionError
from ortable.exporter.checkpoints.loader import load_quantized_checkpoint
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.language_models.model_folder import genai_config
from ortable.ir.proto.large_model import save_with_shared_data
from ortable.passes.weight_quantization import WeightOptions, parse_weights

from ..to_onnx import export
from .adapted_decoder import (
    adapt_decoder,
    adapter_arguments,
    adapter_input_names,
    adapter_inputs,
    make_adapter_inputs_optional,
)
from .adapters import Adapter, LoraWeights, read_adapters, write_adapters
from .decoder import Decoder, make_decoder
from .encoder_decoder import (
    check_causal_options,
    export_encoder_decoder,
    genai_config_of_whisper,
    is_encoder_decoder,
    make_encoder_decoder,
)
from .loop import decoding_of_loop, export_search_loop
from .model_folder import (
    GENAI,
    MODEL,
    PAST_MODEL,
    PROMPT_MODEL,
    SEARCHES,
    externalize_weights,
    replace_folder,
    write_json,
)
from .quantized_kv_cache import Cache, CacheOptions, checked_cache, quantize_cache
from .runner import OnnxLanguageModel
from .shared_cache import share_cache
from .state_space import StateSpace, export_state_space, has_states, make_state_space
from .vision_language import (
    VisionLanguage,
    export_vision_language,
    is_vision_language,
    make_vision_language,
)

_UNQUANTIZED = ("keep", "float32")
Weights: TypeAlias = (
    Literal["keep", "float32", "float16", "int4", "int8", "int4+float16", "int8+float16"]
    | Mapping[str, Any]
    | WeightOptions
)


def export_language_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    merged: bool = True,
    loop: Literal["greedy", "sample"] | None = None,
    weights: Weights | None = None,
    calibration: Sequence[torch.Tensor] | None = None,
    cache: Cache | None = None,
    adapters: Mapping[str, Adapter] | None = None,
    logits: Literal["last", "all"] = "last",
    tokenizer: Any = None,
    genai: bool | None = None,
    context_length: int | None = None,
    images: Mapping[str, torch.Tensor] | None = None,
    target: Literal["onnxruntime"] | None = "onnxruntime",
    target_opset: int | None = None,
    export_options: ExportOptions | None = None,
    validate: bool | float = False,
    verbose: int = 0,
) -> OnnxLanguageModel:
    """Export a language model of transformers for text generation.

    The graph takes the prompt (an empty cache), each further token (a cache, one token), and pieces
    of a text (a cache, several tokens). A model with an encoder and a decoder (T5, BART, Whisper)
    becomes two graphs, ``encoder_model.onnx`` and ``decoder_with_past_model.onnx``; one that reads
    images (LLaVA, Gemma 3) three, ``vision.onnx``, ``embed.onnx`` and ``model.onnx``; one with
    states (Mamba) ``decoder_model.onnx`` and ``decoder_with_past_model.onnx``.
    docs/language-models.md describes inputs, outputs and shapes.

    Args:
        model: the model, in eval mode; or the path of a quantized checkpoint, which
            `load_quantized_checkpoint` loads.
        path: the folder to write. It is created; files of an earlier export in it are replaced.
        merged: False writes two graphs, ``decoder_model.onnx`` for the prompt and
            ``decoder_with_past_model.onnx`` for later tokens, as older versions of optimum do. Both
            share a data file; onnxruntime-genai cannot read them. With an encoder, it adds
            ``decoder_model.onnx``, which optimum needs.
        loop: "greedy" also writes ``greedy_search.onnx``, which shares the data file and runs
            greedy decoding in one call: ``input_ids``, ``attention_mask`` and ``max_new_tokens``
            (int64, 0-d) to ``sequences`` int64 (batch, length). "sample" writes
            ``sampled_search.onnx``, which samples tokens with its input ``random``, float32 (steps,
            batch) in [0, 1), with ``max_new_tokens`` rows or more. Both graphs contain the settings
            of ``model.generation_config`` (end tokens, repetition_penalty, temperature, top_k,
            top_p).
        weights: None or "keep" keeps the dtype of the weights; "float32" casts the model to
            float32, which then computes in float32; "int4", "int8", a dict or WeightOptions
            quantizes the weights of linear layers and embeddings; "float16", "int4+float16" and
            "int8+float16" make a float16 model, without ``loop``. Its cache and logits are float32
            unless WeightOptions has ``keep_io=False``.
        calibration: with codes as ``weights``, token ids of texts, a list of int64 [batch, length]:
            the codes minimize the errors of layers on these texts. Needs ``merged``, without
            ``loop``.
        cache: None or "keep" keeps keys and values in the model's dtype, which is exact; "int8", a
            dict or CacheOptions quantizes them to 8 bits, a quarter of the size of float32, with
            scales that are measured once. The cache inputs and outputs are then int8.
        adapters: LoRA adapters by name: folders of PEFT's ``save_pretrained``, or pairs of the
            contents of adapter_config.json and adapter_model.safetensors (two dicts). The layers of
            any of them get two inputs, A and B, and each adapter becomes ``<name>.onnx_adapter``.
            Without an adapter the graph computes ``model``, the base model. It is for causal models
            without ``loop``.
        logits: "last" returns the logits of the last token, (batch, 1, vocabulary), which spares
            most of a prompt's largest product; "all", and models whose ``forward`` does not take
            ``logits_to_keep`` or have an encoder, those of every token.
        tokenizer: a tokenizer of transformers, whose files are written too.
        genai: with ``merged``, write ``genai_config.json``: by default for causal models and for
            Whisper, with True an error where onnxruntime-genai does not have the type.
        context_length: the maximal text length for ``genai_config.json``; by default that of the
            configuration. This, ``loop`` and ``cache`` are for causal models.
        images: for a model that reads images, an example of its image inputs, as its processor
            makes them: ``{"pixel_values": ...}``. By default one image of the configuration's size.
            The folder takes images of this size.
        target: as in to_onnx, but ``"onnxruntime"`` by default; None writes standard ONNX.
        target_opset: as in to_onnx.
        export_options: as in to_onnx.
        validate: as in to_onnx: compare each graph of a step with eager.
        verbose: as in to_onnx.

    Returns:
        OnnxLanguageModel, which runs the graphs: ``generate(input_ids)``.

    Raises:
        InputError: ``model`` is not a model that generates text, is in training mode or has no
            weights; the path has no quantized checkpoint; or an adapter is not one of PEFT, or has
            other layers.
        ExportError: the cache of the model is not keys, values or states of each layer, its layers
            have different sizes (an error unless ``genai=False``), a model with an encoder has a
            ``generate`` of its own, images are read in a way that the graphs do not have, torch
            cannot export the model, or the folder is not writable.
        OptionError: an option has an invalid value, or ``loop`` does not support a setting of
            generation_config.
    """
    _check_options(merged, loop, genai, context_length, logits, adapters)
    if calibration is not None and (loop is not None or not merged):
        raise OptionError(
            "calibration needs merged=True without loop: each graph would get codes of its own"
        )
    adapter_weights = read_adapters(adapters)
    cache_options = checked_cache(cache)
    if isinstance(model, str | os.PathLike):
        model = load_quantized_checkpoint(model)
    keywords: dict[str, Any] = {  # of `export`
        "target": target,
        "target_opset": target_opset,
        "export_options": export_options,
        "verbose": verbose,
        "weights": _parse_weight_options(weights, loop),
    }
    model = _cast_weights(model, weights)
    rewrites = ["default", "ort_cached_attention"] if target else "default"
    causal_options = {
        f"loop={loop!r}": loop,
        "cache": cache_options,
        "adapters": adapters or None,
        "context_length": context_length,
        "calibration": calibration,
    }
    if images is not None and not is_vision_language(model):
        raise OptionError(f"{type(model).__name__} reads no images: leave images out")
    settings = _FolderSettings(path, merged, genai, tokenizer, {**keywords, "validate": validate})
    written = _write_other_kind(model, settings, causal_options, images, logits == "last", rewrites)
    if written is not None:
        return written
    keywords["rewrites"] = rewrites
    decoder = make_decoder(model, logits == "last")
    decoder = _wrap_model(decoder, adapter_weights, cache_options)
    for _ in range(bool(adapter_weights) + (cache_options is not None)):
        keywords["weights"] = _nest_weight_options(keywords["weights"])
    if calibration is not None:
        keywords["calibration"] = _calibration_calls(decoder, calibration)
    sample = loop == "sample"
    with replace_folder(path) as folder:
        # checks that may fail run before the slow exports
        decoding = None if loop is None else decoding_of_loop(decoder, sample)
        has_config = merged and genai is not False
        config = genai_config(decoder, MODEL, context_length) if has_config else None
        step = _export_step(decoder, True, validate=validate, **keywords)
        is_shared = share_cache(step.proto, decoder.cache_names("past_key_values"))
        if config is not None:
            config["search"]["past_present_share_buffer"] = is_shared
            write_json(folder / GENAI, config)
        models = {MODEL: step}
        if not merged:
            prompt_step = _export_step(decoder, False, validate=validate, **keywords)
            models = {PROMPT_MODEL: prompt_step, PAST_MODEL: step}
        if loop is not None and decoding is not None:
            loop_keywords = {**keywords, "weights": _nest_weight_options(keywords["weights"])}
            models[SEARCHES[loop]] = export_search_loop(decoder, decoding, sample, loop_keywords)
        save_with_shared_data(models, folder)
        _write_settings(decoder.model, tokenizer, folder)
        write_adapters(folder, adapter_weights, adapter_inputs(step.proto.graph, decoder))
    return OnnxLanguageModel.load(path)


def _parse_weight_options(weights: Weights | None, loop: str | None) -> Any:
    """Return WeightOptions or None for unchanged weights; raise OptionError for a loop in half."""
    options: Any = None if weights in _UNQUANTIZED else parse_weights(weights)
    if loop is not None and options is not None and options.is_half:
        raise OptionError("loop needs weights without float16: loops stay in float32")
    return options


def _wrap_model(
    decoder: Decoder,
    adapters: Mapping[str, Mapping[str, LoraWeights]],
    cache_options: CacheOptions | None,
) -> Decoder:
    """Return the decoder with inputs for the adapters, if any, and with a quantized cache."""
    if adapters:
        decoder = adapt_decoder(decoder, adapters)
    if cache_options is None:
        return decoder
    arguments = [adapter_arguments(decoder, layers) for layers in adapters.values()]
    return quantize_cache(decoder, cache_options, arguments)


@dataclass(frozen=True)
class _FolderSettings:
    """Arguments of export_language_model for the models that are no plain decoder.

    ``keywords`` are those of `export`.
    """

    path: str | os.PathLike[str]
    merged: bool
    genai: bool | None
    tokenizer: Any
    keywords: dict[str, Any]

    @property
    def nested_keywords(self) -> dict[str, Any]:
        """The keywords for modules that have the model as their attribute ``model``."""
        weights = _nest_weight_options(self.keywords["weights"])
        return {**self.keywords, "weights": weights}


def _write_other_kind(
    model: Any,
    settings: _FolderSettings,
    causal_options: Mapping[str, Any],
    images: Mapping[str, torch.Tensor] | None,
    last_logits: bool,
    rewrites: Any,
) -> OnnxLanguageModel | None:
    """Write the folder of a model that is no plain decoder, and return None for a decoder."""
    genai = {"genai=True": settings.genai or None}
    if is_encoder_decoder(model):
        check_causal_options(model, "has an encoder and a decoder", causal_options)
        return _write_encoder_decoder(model, settings)
    if is_vision_language(model):
        merged = {"merged=False": None if settings.merged else False}
        check_causal_options(model, "reads images", {**causal_options, **merged, **genai})
        if has_states(model):
            raise ExportError(
                f"{type(model).__name__} reads images and has layers with states, for which there "
                "is no folder: export its text model, AutoModelForCausalLM.from_pretrained(...)"
            )
        return _write_vision_language(
            make_vision_language(model, last_logits, images), rewrites, settings
        )
    if has_states(model):
        kind = "has states in place of keys and values"
        check_causal_options(model, kind, {**causal_options, **genai})
        return _write_state_space(make_state_space(model, last_logits), settings)
    return None


def _write_encoder_decoder(model: Any, settings: _FolderSettings) -> OnnxLanguageModel:
    parts = make_encoder_decoder(model)
    with replace_folder(settings.path) as folder:
        content = genai_config_of_whisper(parts, settings.genai)
        if content is not None:
            write_json(folder / GENAI, content)
        models = export_encoder_decoder(parts, settings.merged, settings.nested_keywords)
        save_with_shared_data(models, folder)
        _write_settings(model, settings.tokenizer, folder)
    return OnnxLanguageModel.load(settings.path)


def _write_vision_language(
    parts: VisionLanguage, rewrites: Any, settings: _FolderSettings
) -> OnnxLanguageModel:
    """Write the folder of a model that reads images; ``rewrites`` are those of the step."""
    nested = settings.nested_keywords
    step_keywords = settings.keywords if parts.decoder.model is parts.model else nested
    with replace_folder(settings.path) as folder:
        step = _export_step(parts.decoder, True, rewrites=rewrites, **step_keywords)
        models = {MODEL: step, **export_vision_language(parts, nested)}
        save_with_shared_data(models, folder)
        _write_settings(parts.model, settings.tokenizer, folder)
    return OnnxLanguageModel.load(settings.path)


def _write_state_space(parts: StateSpace, settings: _FolderSettings) -> OnnxLanguageModel:
    with replace_folder(settings.path) as folder:
        save_with_shared_data(export_state_space(parts, settings.nested_keywords), folder)
        _write_settings(parts.model, settings.tokenizer, folder)
    return OnnxLanguageModel.load(settings.path)


def _calibration_calls(decoder: Decoder, texts: Any) -> list[dict[str, Any]]:
    """Return a call for each text; raise OptionError if one has no token ids."""
    for text in texts if isinstance(texts, Sequence) else [texts]:
        is_tensor = isinstance(text, torch.Tensor) and text.ndim == 2 and text.numel()
        if not isinstance(texts, Sequence) or not is_tensor or text.dtype != torch.int64:
            raise OptionError("calibration is a list of token ids, int64 [batch, length]")
    return [decoder.prompt_call(text) for text in texts]


def _check_options(
    merged: Any, loop: Any, genai: Any, length: Any, logits: Any, adapters: Any
) -> None:
    for name, value in (("merged", merged), ("genai", True if genai is None else genai)):
        if not isinstance(value, bool):
            raise OptionError(f"{name} is True or False, not {value!r:.80}")
    if loop is not None and loop not in tuple(SEARCHES):
        raise OptionError(f"loop is None or one of {tuple(SEARCHES)}, not {loop!r:.80}")
    if adapters and loop is not None:
        raise OptionError("adapters need a step for each token: leave out loop")
    if logits not in ("last", "all"):
        raise OptionError(f"logits is 'last' or 'all', not {logits!r:.80}")
    if length is not None and (type(length) is not int or length < 1):
        raise OptionError(f"context_length is a number of tokens or None, not {length!r:.80}")


def _cast_weights(model: Any, weights: Weights | None) -> Any:
    """Return the model, cast to float32 if ``weights`` is "float32"; `export` quantizes later."""
    if weights != "float32" or not isinstance(model, torch.nn.Module):
        return model
    if all(parameter.dtype == torch.float32 for parameter in model.parameters()):
        return model
    return copy.deepcopy(model).to(torch.float32)


def _nest_weight_options(options: Any) -> Any:
    """Return the options for a module that has the model as its attribute ``model``."""
    if not isinstance(options, WeightOptions):
        return options
    include, exclude = (
        tuple(f"model.{name}" for name in names) for names in (options.include, options.exclude)
    )
    bits = tuple((f"model.{name}", bits) for name, bits in options.bit_pairs)
    return replace(options, include=include, exclude=exclude, bits=bits)


def _export_step(decoder: Decoder, with_past: bool, **keywords: Any) -> LargeModel:
    past = decoder.cache_names("past_key_values") if with_past else []
    model = export(
        decoder.model,
        kwargs=decoder.example_call(with_past),
        dynamic_shapes=decoder.dynamic_shapes(with_past),
        input_names=[*decoder.text_inputs(), *past, *adapter_input_names(decoder)],
        output_names=["logits", *decoder.cache_names("present")],
        **keywords,
    ).model
    large_model = externalize_weights(model)
    make_adapter_inputs_optional(large_model.proto.graph, decoder)
    return large_model


def _write_settings(model: Any, tokenizer: Any, folder: Path) -> None:
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
