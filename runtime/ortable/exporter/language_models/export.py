"""export_language_model: export a causal language model of transformers to a folder, with a
graph for each step of a conversation and the files of onnxruntime-genai and optimum.
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
from ortable.ir.proto.large_model import save_together
from ortable.passes.weight_quantization import WeightOptions, parse_weights

from ..to_onnx import export
from .decoder import Decoder, make_decoder
from .loop import decoding_of_loop, make_search
from .model_folder import (
    FIRST,
    GENAI,
    MODEL,
    NEXT,
    SEARCHES,
    replace_folder,
    weights_outside,
    write_json,
)
from .quantized_kv_cache import Cache, checked_cache, quantize_cache
from .runner import OnnxLanguageModel

_UNQUANTIZED = ("keep", "float32")
Weights: TypeAlias = Literal["keep", "float32", "int4", "int8"] | Mapping[str, Any] | WeightOptions


def export_language_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    merged: bool = True,
    loop: Literal["greedy", "sample"] | None = None,
    weights: Weights | None = None,
    cache: Cache | None = None,
    tokenizer: Any = None,
    genai: bool = True,
    context_length: int | None = None,
    target: Literal["onnxruntime"] | None = "onnxruntime",
    target_opset: int | None = None,
    export_options: ExportOptions | None = None,
    validate: bool | float = False,
    verbose: int = 0,
) -> OnnxLanguageModel:
    """Export a causal language model of transformers for conversations.

    One graph takes the prompt (an empty cache), each further token (a cache, one token), and pieces
    of a text (a cache, several tokens). Inputs, outputs and their shapes are in
    docs/language-models.md.

    Args:
        model: the model, in eval mode.
        path: the folder to write; it is made, or what is in it of an earlier export is replaced.
        merged: False writes two graphs, ``decoder_model.onnx`` for the prompt and
            ``decoder_with_past_model.onnx`` for the rest, as optimum used to, which share a data
            file; onnxruntime-genai does not read them.
        loop: "greedy" also writes ``greedy_search.onnx``, which shares the data file: the whole of
            greedy decoding in one call, ``input_ids``, ``attention_mask`` and ``max_new_tokens``
            (int64, no dimensions) to ``sequences`` int64 (batch, length). "sample" writes
            ``sampled_search.onnx``, which draws tokens by its input ``random``, float32 (steps,
            batch) of [0, 1), with ``max_new_tokens`` rows or more. What ``model.generation_config``
            says (tokens that end a text, repetition_penalty, temperature, top_k, top_p) is in them.
        weights: None or "keep" writes them as the model has them, "float32" as float32, and then
            the whole model computes so; "int4", "int8", a dict or WeightOptions stores those of
            linear layers and embeddings as integers.
        cache: None or "keep" keeps keys and values in the model's dtype, which is exact; "int8", a
            dict or CacheOptions stores them as codes of 8 bits, a quarter of the bytes, with scales
            that are measured once. Caches of the graph are then int8.
        tokenizer: a tokenizer of transformers, whose files are written too.
        genai: write ``genai_config.json``.
        context_length: of the longest text, for ``genai_config.json``; what the configuration says
            by default.
        target, target_opset, export_options: as in to_onnx; standard ONNX is ``target=None``.
        validate: as in to_onnx: compare each graph of a step with eager.
        verbose: as in to_onnx.

    Returns:
        OnnxLanguageModel, which runs the graphs: ``generate(input_ids)``.

    Raises:
        InputError: what is given is no model that generates text, is in training mode or has no
            weights.
        ExportError: the model has another cache than keys and values of each layer, layers of the
            cache differ (``genai=False`` allows that), torch cannot export it, or the folder cannot
            be written.
        OptionError: an option has a value that is not accepted, or generation_config a setting that
            ``loop`` does not follow.
    """
    _check_options(merged, loop, genai, context_length)
    rounding = None if weights in _UNQUANTIZED else parse_weights(weights)
    coded = checked_cache(cache)
    keywords: dict[str, Any] = {  # of `export`
        "target": target,
        "target_opset": target_opset,
        "export_options": export_options,
        "verbose": verbose,
        "weights": rounding,
    }
    decoder = make_decoder(_with_weights(model, weights))
    if coded is not None:
        decoder = quantize_cache(decoder, coded)
        keywords["weights"] = _nest_weight_options(rounding)
    sample = loop == "sample"
    with replace_folder(path) as folder:
        # what may refuse comes first
        decoding = None if loop is None else decoding_of_loop(decoder, sample)
        if merged and genai:
            write_json(folder / GENAI, genai_config(decoder, MODEL, context_length))
        step = _export_step(decoder, True, validate=validate, **keywords)
        models = {MODEL: step}
        if not merged:
            first = _export_step(decoder, False, validate=validate, **keywords)
            models = {FIRST: first, NEXT: step}
        if loop is not None and decoding is not None:
            deeper = {**keywords, "weights": _nest_weight_options(keywords["weights"])}
            models[SEARCHES[loop]] = make_search(decoder, decoding, sample, deeper)
        save_together(models, folder)
        _write_settings(decoder.model, tokenizer, folder)
    return OnnxLanguageModel.load(path)


def _check_options(merged: Any, loop: Any, genai: Any, length: Any) -> None:
    for name, value in (("merged", merged), ("genai", genai)):
        if not isinstance(value, bool):
            raise OptionError(f"{name} is True or False, not {value!r:.80}")
    if loop is not None and loop not in tuple(SEARCHES):
        raise OptionError(f"loop is None or one of {tuple(SEARCHES)}, not {loop!r:.80}")
    if length is not None and (type(length) is not int or length < 1):
        raise OptionError(f"context_length is a number of tokens or None, not {length!r:.80}")


def _with_weights(model: Any, weights: Weights | None) -> Any:
    """Return the model, or a copy of it in float32. The keyword of `export` quantizes."""
    if weights != "float32" or not isinstance(model, torch.nn.Module):
        return model
    if all(parameter.dtype == torch.float32 for parameter in model.parameters()):
        return model
    return copy.deepcopy(model).to(torch.float32)


def _nest_weight_options(rounding: Any) -> Any:
    """Return the options for the weights as an attribute ``model`` of another module."""
    if not isinstance(rounding, WeightOptions):
        return rounding
    include, exclude = (
        tuple(f"model.{name}" for name in names) for names in (rounding.include, rounding.exclude)
    )
    return replace(rounding, include=include, exclude=exclude)


def _export_step(decoder: Decoder, with_past: bool, **keywords: Any) -> LargeModel:
    """Export one graph: a step after others, or the first."""
    past = decoder.cache_names("past_key_values") if with_past else []
    model = export(
        decoder.model,
        kwargs=decoder.example_call(with_past),
        dynamic_shapes=decoder.dynamic_shapes(with_past),
        input_names=[*decoder.text_inputs(), *past],
        output_names=["logits", *decoder.cache_names("present")],
        **keywords,
    ).model
    return weights_outside(model)


def _write_settings(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write config.json, generation_config.json and the files of the tokenizer."""
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
