"""Write the folder of a language model atomically, with genai_config.json.

Files are written to a temporary folder, which replaces the target at the end. Called by export.py.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx import ModelProto

from ortable.builder import LargeModel
from ortable.errors import ExportError, OptionError
from ortable.exporter.language_models.decoder import (
    CONTEXT_LENGTH_KEYS,
    Decoder,
    cache_recompute_length,
    max_text_length,
)
from ortable.exporter.language_models.decoding import special_tokens
from ortable.ir.proto.atomic_files import unused_path

MODEL = "model.onnx"
SEARCHES = {"greedy": "greedy_search.onnx", "sample": "sampled_search.onnx"}
PROMPT_MODEL, PAST_MODEL = "decoder_model.onnx", "decoder_with_past_model.onnx"
ENCODER_MODEL = "encoder_model.onnx"
VISION_MODEL, EMBED_MODEL = "vision.onnx", "embed.onnx"
GENAI = "genai_config.json"
ADAPTER_SUFFIX = ".onnx_adapter"
_MODELS = (
    MODEL, ENCODER_MODEL, PROMPT_MODEL, PAST_MODEL, VISION_MODEL, EMBED_MODEL, *SEARCHES.values(),
)  # fmt: skip
_EXTERNAL_THRESHOLD = 1024  # weights of at least this many bytes are in the data file
# Files of an earlier export, which are deleted even if the new export does not write them.
_GENERATED_FILES = (GENAI, *(f"{name}{end}" for name in _MODELS for end in ("", ".data")))


@contextmanager
def replace_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder whose files replace those in ``path`` at the end of the block.

    After an error ``path`` is unchanged. Other files in ``path`` are preserved. An existing folder
    is moved aside before the new one gets its name, so that a model is never beside the weights of
    another. A crash between these two steps leaves both folders beside ``path``, complete, with
    hidden names.

    Raises ExportError if ``path`` is a file, its parent folder is missing, or writing fails.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise ExportError(f"folder '{target.parent}' of the language model does not exist")
    if target.exists() and not target.is_dir():
        raise ExportError(f"'{target}' is a file; a language model (path) is a folder of files")
    try:
        staging = unused_path(target.parent, target.name)
        staging.mkdir()
    except OSError as error:
        raise ExportError(f"nothing can be written beside '{target}': {error}") from error
    try:
        yield staging
        _move_into_place(staging, target)
    except OSError as error:
        raise ExportError(f"the language model could not be written to '{target}': {error}") from (
            error
        )
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move_into_place(staging: Path, target: Path) -> None:
    if not target.exists():
        os.replace(staging, target)
        return
    shutil.copymode(target, staging)
    _preserve_user_files(target, staging)
    aside = Path(f"{staging}.old")
    os.replace(target, aside)
    try:
        os.replace(staging, target)
    except BaseException:
        os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _preserve_user_files(target: Path, staging: Path) -> None:
    """Link files of ``target`` into ``staging``, except generated and newly written ones."""
    for path in target.iterdir():
        new_path = staging / path.name
        is_generated = path.name in _GENERATED_FILES or path.suffix == ADAPTER_SUFFIX
        if is_generated or new_path.exists():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, new_path, symlinks=True, copy_function=_link_file)
        else:
            _link_file(path, new_path)


def _link_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def externalize_weights(model: ModelProto | LargeModel) -> LargeModel:
    """Return the model as a LargeModel, which keeps its weights in a data file."""
    return (
        model if isinstance(model, LargeModel) else LargeModel.of_proto(model, _EXTERNAL_THRESHOLD)
    )


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, indented for people who edit it."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


# Tokens after which onnxruntime-genai recomputes the cache of a Phi-3.
_GENAI_RECOMPUTE_LENGTH = 4096
# Settings that are copied from generation_config.json, and their defaults.
_SEARCH_DEFAULTS: dict[str, Any] = {
    "diversity_penalty": 0.0,
    "do_sample": False,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}


def genai_config(decoder: Decoder, filename: str, context_length: int | None) -> dict[str, Any]:
    """Return the content of genai_config.json for the model in ``filename``.

    ``type`` is "decoder", a plain step with a cache; other types enable features that only the
    graphs of onnxruntime-genai need. Models that recompute the cache after 4096 tokens have their
    own type, because onnxruntime-genai recomputes the cache only for that type. Unless export.py
    finds that the graph can write over its cache, ``past_present_share_buffer`` is off.

    Raises OptionError if the configuration has no text length and none is given, and ExportError
    if layers of the cache differ, or the cache is recomputed at another length.
    """
    config, layer = decoder.model.config.get_text_config(), decoder.layers[0]
    sizes = {
        (cache_layer.heads, cache_layer.key_width, cache_layer.value_width)
        for cache_layer in decoder.layers
    }
    if sizes != {(layer.heads, layer.key_width, layer.key_width)}:
        raise ExportError(
            f"the layers of the cache have (heads, width of keys, width of values) {sorted(sizes)}"
            ": onnxruntime-genai requires one number of heads and one width for all layers. "
            "genai=False writes the model without genai_config.json"
        )
    length = _context_length(decoder, context_length)
    names = {name: name for name in decoder.text_inputs()}
    tokens = special_tokens(decoder.model.generation_config.to_dict())
    return {
        "model": {
            **{f"{kind}_token_id": value for kind, value in tokens.items() if value is not None},
            "context_length": length,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": filename,
                "head_size": layer.key_width,
                "hidden_size": config.hidden_size,
                "inputs": {
                    **names,
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
                "num_attention_heads": config.num_attention_heads,
                "num_hidden_layers": len(decoder.layers),
                "num_key_value_heads": layer.heads,
            },
            "type": _genai_type(decoder),
            "vocab_size": config.vocab_size,
        },
        "search": {
            **search_settings(decoder.model.generation_config),
            "early_stopping": True,
            "max_length": length,
            "min_length": 0,
            "past_present_share_buffer": False,
        },
    }


def _genai_type(decoder: Decoder) -> str:
    config = decoder.model.config.to_dict()
    recompute_length = cache_recompute_length(config)
    if recompute_length is None:
        return "decoder"
    if recompute_length != _GENAI_RECOMPUTE_LENGTH:
        raise ExportError(
            f"generate recomputes the cache of {decoder.name} after "
            f"{recompute_length} tokens (LongRoPE), onnxruntime-genai after "
            f"{_GENAI_RECOMPUTE_LENGTH}: genai=False writes the model without genai_config.json"
        )
    return str(config["model_type"])


def _context_length(decoder: Decoder, context_length: int | None) -> int:
    config = decoder.model.config.get_text_config()
    length = max_text_length(config) if context_length is None else context_length
    if length is None:
        raise OptionError(
            f"the configuration of {decoder.name} has no maximal text length "
            f"({', '.join(CONTEXT_LENGTH_KEYS)}), which genai_config.json requires: give "
            "context_length"
        )
    return length


def search_settings(generation: Any) -> dict[str, Any]:
    """Return the settings of a GenerationConfig that onnxruntime-genai has, with defaults."""
    settings = {name: getattr(generation, name, None) for name in _SEARCH_DEFAULTS}
    return {
        name: _SEARCH_DEFAULTS[name] if value is None else value for name, value in settings.items()
    }
