"""A folder that is written as a whole: files come into being beside it and take their places at
the end, the models last. In comes the path of the folder, out goes where to write. Called by
export.py."""

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
from ortable.errors import ExportError
from ortable.ir.proto.atomic_files import unused_path

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

    A folder that was there is moved aside before the new one takes its name, so no model has ever
    the weights of another. Who dies between these two steps leaves both beside the path, whole,
    under names with a dot. Raises ExportError when ``path`` is a file, the folder that it is in is
    missing, or the system refuses to write.
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
        _publish(staging, target)
    except OSError as error:
        raise ExportError(f"the language model could not be written to '{target}': {error}") from (
            error
        )
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(staging: Path, target: Path) -> None:
    if not target.exists():
        os.replace(staging, target)
        return
    shutil.copymode(target, staging)
    _keep_others(target, staging)
    aside = Path(f"{staging}.old")
    os.replace(target, aside)
    try:
        os.replace(staging, target)
    except BaseException:
        os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _keep_others(target: Path, staging: Path) -> None:
    """The files of ``target`` that are not of an older model and have no newer version, also in
    ``staging``: the same files, under a second name."""
    for path in target.iterdir():
        new = staging / path.name
        if path.name in _OURS or new.exists():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, new, symlinks=True, copy_function=_linked)
        else:
            _linked(path, new)


def _linked(source: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
    try:
        os.link(source, new, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, new, follow_symlinks=False)


def weights_outside(model: ModelProto | LargeModel) -> LargeModel:
    """A model whose weights go to a data file."""
    return model if isinstance(model, LargeModel) else LargeModel.of_proto(model, _THRESHOLD)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file of settings, for people to read and change."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
