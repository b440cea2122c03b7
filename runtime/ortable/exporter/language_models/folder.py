"""A folder that is written as a whole: files come into being beside it and take their places at
the end, the models last. In comes the path of the folder, out goes where to write. Called by
export.py."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx import ModelProto

from ortable.builder import LargeModel
from ortable.errors import ExportError

MODEL = "model.onnx"
SEARCHES = {"greedy": "greedy_search.onnx", "sample": "sampled_search.onnx"}
FIRST, NEXT = "decoder_model.onnx", "decoder_with_past_model.onnx"
GENAI = "genai_config.json"
_MODELS = (MODEL, FIRST, NEXT, *SEARCHES.values())
_THRESHOLD = 1024  # bytes from which weights are in the data file
# What an earlier export may have left that a new one does not write over.
_OURS = (GENAI, *(f"{name}{end}" for name in _MODELS for end in ("", ".data")))


@contextmanager
def written_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write to, whose files are in ``path`` once the block has ended; after an error
    ``path`` is unchanged. Other files of ``path`` stay.

    A folder that was there loses its old model before it gets the new one: who dies in between
    leaves no model, and never the graph of one with the weights of another. Raises ExportError
    when ``path`` is a file, the folder that it is in is missing, or the system refuses to write.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ExportError(f"folder '{target.parent}' of the language model does not exist")
    if target.exists() and not target.is_dir():
        raise ExportError(f"'{target}' is a file; a language model (path) is a folder of files")
    try:
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:100]}."))
    except OSError as error:
        raise ExportError(f"nothing can be written beside '{target}': {error}") from error
    try:
        yield staging
        _publish(staging, target)
    except OSError as error:
        raise ExportError(f"the language model could not be written to '{target}': {error}") from (
            error
        )
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(staging: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in _OURS:
        (target / name).unlink(missing_ok=True)
    for path in sorted(staging.iterdir(), key=lambda path: path.name in _MODELS):
        kept = target / path.name
        if path.is_dir() and kept.is_dir():
            shutil.rmtree(kept)
        os.replace(path, kept)


def weights_outside(model: ModelProto | LargeModel) -> LargeModel:
    """A model whose weights go to a data file."""
    return model if isinstance(model, LargeModel) else LargeModel.of_proto(model, _THRESHOLD)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file of settings, for people to read and change."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
