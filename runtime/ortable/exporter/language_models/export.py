"""Export a language model of transformers to a folder.

The folder has the graphs of decoding and the files of onnxruntime-genai and optimum.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from ortable.builder import LargeModel
from ortable.errors import OptionError
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.language_models.model_folder import genai_config
from ortable.ir.proto.large_model import save_with_shared_data
from ortable.passes.weight_quantization import WeightOptions, parse_weights

from ..to_onnx import export
from .decoder import Decoder, make_decoder
from .encoder_decoder import (
    check_encoder_decoder_options,
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
from .quantized_kv_cache import Cache, checked_cache, quantize_cache
from .runner import OnnxLanguageModel

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
    cache: Cache | None = None,
    tokenizer: Any = None,
    genai: bool | None = None,
    context_length: int | None = None,
    target: Literal["onnxruntime"] | None = "onnxruntime",
    target_opset: int | None = None,
    export_options: ExportOptions | None = None,
    validate: bool | float = False,
    verbose: int = 0,
) -> OnnxLanguageModel:
    """Export a language model of transformers for text generation.

    The graph takes the prompt (an empty cache), each further token (a cache, one token), and pieces
    of a text (a cache, several tokens). A model with an encoder and a decoder (T5, BART, Whisper)
    becomes two graphs, ``encoder_model.onnx`` and ``decoder_with_past_model.onnx``.
    docs/language-models.md describes inputs, outputs and shapes.

    Args:
        model: the model, in eval mode.
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
        cache: None or "keep" keeps keys and values in the model's dtype, which is exact; "int8", a
            dict or CacheOptions quantizes them to 8 bits, a quarter of the size of float32, with
            scales that are measured once. The cache inputs and outputs are then int8.
        tokenizer: a tokenizer of transformers, whose files are written too.
        genai: with ``merged``, write ``genai_config.json``: by default for causal models and for
            Whisper, with True an error where onnxruntime-genai does not have the type.
        context_length: the maximal text length for ``genai_config.json``; by default that of the
            configuration. This, ``loop`` and ``cache`` are for causal models.
        target: as in to_onnx, but ``"onnxruntime"`` by default; None writes standard ONNX.
        target_opset: as in to_onnx.
        export_options: as in to_onnx.
        validate: as in to_onnx: compare each graph of a step with eager.
        verbose: as in to_onnx.

    Returns:
        OnnxLanguageModel, which runs the graphs: ``generate(input_ids)``.

    Raises:
        InputError: ``model`` is not a model that generates text, is in training mode or has no
            weights.
        ExportError: the cache of the model is not keys and values of each layer, its layers have
            different sizes (an error unless ``genai=False``), a model with an encoder has a
            ``generate`` of its own, torch cannot export the model, or the folder is not writable.
        OptionError: an option has an invalid value, or ``loop`` does not support a setting of
            generation_config.
    """
    _check_options(merged, loop, genai, context_length)
    weight_options: Any = None if weights in _UNQUANTIZED else parse_weights(weights)
    if loop is not None and weight_options is not None and weight_options.is_half:
        raise OptionError("loop needs weights without float16: loops stay in float32")
    cache_options = checked_cache(cache)
    keywords: dict[str, Any] = {  # of `export`
        "target": target,
        "target_opset": target_opset,
        "export_options": export_options,
        "verbose": verbose,
        "weights": weight_options,
    }
    model = _cast_weights(model, weights)
    if is_encoder_decoder(model):
        check_encoder_decoder_options(model, loop, cache_options, context_length)
        keywords["weights"] = _nest_weight_options(weight_options)
        parts = make_encoder_decoder(model)
        with replace_folder(path) as folder:
            content = genai_config_of_whisper(parts, genai)
            if content is not None:
                write_json(folder / GENAI, content)
            files = export_encoder_decoder(parts, merged, {**keywords, "validate": validate})
            save_with_shared_data(files, folder)
            _write_settings(model, tokenizer, folder)
        return OnnxLanguageModel.load(path)
    decoder = make_decoder(model)
    if cache_options is not None:
        decoder = quantize_cache(decoder, cache_options)
        keywords["weights"] = _nest_weight_options(weight_options)
    sample = loop == "sample"
    with replace_folder(path) as folder:
        # checks that may fail run before the slow exports
        decoding = None if loop is None else decoding_of_loop(decoder, sample)
        if merged and genai is not False:
            write_json(folder / GENAI, genai_config(decoder, MODEL, context_length))
        step = _export_step(decoder, True, validate=validate, **keywords)
        models = {MODEL: step}
        if not merged:
            prompt_step = _export_step(decoder, False, validate=validate, **keywords)
            models = {PROMPT_MODEL: prompt_step, PAST_MODEL: step}
        if loop is not None and decoding is not None:
            loop_keywords = {**keywords, "weights": _nest_weight_options(keywords["weights"])}
            models[SEARCHES[loop]] = export_search_loop(decoder, decoding, sample, loop_keywords)
        save_with_shared_data(models, folder)
        _write_settings(decoder.model, tokenizer, folder)
    return OnnxLanguageModel.load(path)


def _check_options(merged: Any, loop: Any, genai: Any, length: Any) -> None:
    for name, value in (("merged", merged), ("genai", True if genai is None else genai)):
        if not isinstance(value, bool):
            raise OptionError(f"{name} is True or False, not {value!r:.80}")
    if loop is not None and loop not in tuple(SEARCHES):
        raise OptionError(f"loop is None or one of {tuple(SEARCHES)}, not {loop!r:.80}")
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
    return replace(options, include=include, exclude=exclude)


def _export_step(decoder: Decoder, with_past: bool, **keywords: Any) -> LargeModel:
    past = decoder.cache_names("past_key_values") if with_past else []
    model = export(
        decoder.model,
        kwargs=decoder.example_call(with_past),
        dynamic_shapes=decoder.dynamic_shapes(with_past),
        input_names=[*decoder.text_inputs(), *past],
        output_names=["logits", *decoder.cache_names("present")],
        **keywords,
    ).model
    return externalize_weights(model)


def _write_settings(model: Any, tokenizer: Any, folder: Path) -> None:
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
