"""Load and save programs in files of torch.export.save.

arguments.py and the command line load a path that is given as a model. sources.py saves the
captured program, and its graph as text.
"""

from __future__ import annotations

import logging
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.scoped_patch import restore_on_exit
from ortable.errors import ExportError
from ortable.exporter.signature import caches
from ortable.ir.proto.atomic_files import FolderLock

from .pt2_validation import check_archive, check_sizes

# Errors of zipfile for damaged, encrypted or unsupported archives. RuntimeError is another one, but
# ortable's own errors are RuntimeErrors, too.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)


def load_program(mod: Any) -> Any:
    """Load the exported program from the file ``mod``; return ``mod`` itself if it is not a path.

    Raises ExportError for a missing or broken file, and for other kinds of torch files.
    """
    if not isinstance(mod, (str, os.PathLike)):
        return mod
    path = Path(mod)
    if not path.is_file():
        problem = "a folder" if path.is_dir() else "missing"
        raise ExportError(f"the program '{path}' to export is {problem}: give a file (.pt2) that "
                          "torch.export.save wrote")  # fmt: skip
    description = _unsupported_file(path)
    if description is not None:
        raise ExportError(f"'{path}' is {description}")
    return _load_archive(path)


def _unsupported_file(path: Path) -> str | None:
    """Describe a file that torch.export.save did not write; None for a program."""
    if path.suffix == ".onnx":
        return "an ONNX model already"
    if not zipfile.is_zipfile(path):
        return "broken, or no file of torch.export.save: it is not a zip archive"
    try:
        with zipfile.ZipFile(path) as archive:
            full_names = archive.namelist()
    except _BROKEN as error:
        return f"a broken archive: {error}"
    names = [name.partition("/")[2] for name in full_names]
    if any(name.startswith("models/") and name.endswith(".json") for name in names):
        return None
    if any(name.startswith("data/aotinductor/") for name in names):
        return (
            "a package of AOTInductor: it holds compiled code, not the graph. Save the program "
            "with torch.export.save beside it"
        )
    if "constants.pkl" in names:
        return (
            "a TorchScript archive: export the module it was made of, with torch.export.export "
            "and torch.export.save"
        )
    if "data.pkl" in names:
        return (
            "a pickle of torch.save (weights or a module), not a program: load it with torch.load "
            "and give the module with example inputs to to_onnx"
        )
    if "serialized_exported_program.json" in full_names:
        return None  # torch's format before the .pt2 archive
    return "no program of torch.export.save"


def _load_archive(path: Path) -> Any:
    classes: list[Any] = []
    try:
        with zipfile.ZipFile(path) as archive:
            check_sizes(archive, path)
            for name in archive.namelist():
                if name.endswith(".json") and b"transformers.cache_utils" in archive.read(name):
                    classes = _cache_classes(path)
                    break
            check_archive(archive, path, classes)
    except ExportError:
        raise
    except (*_BROKEN, RuntimeError) as error:  # RuntimeError: a part is encrypted
        raise ExportError(f"'{path}' is a broken archive: {error}") from None
    logger = logging.getLogger("torch.export")
    was_disabled = logger.disabled
    try:
        logger.disabled = True  # torch logs the traceback of the error that is raised below
        with torch.serialization.safe_globals(classes):  # the archive pickles the example inputs
            return torch.export.load(path)
    except Exception as error:  # a pickle may raise anything
        cause = error.__context__ or error
        first_line = (str(cause).strip().splitlines() or [""])[0]
        raise ExportError(
            f"torch.export.load cannot read '{path}': {type(cause).__name__}: {first_line}\n"
            "The file is broken, was written by another version of torch, or needs operators or "
            "classes that have to be registered in this process before loading."
        ) from error
    finally:
        logger.disabled = was_disabled


def _cache_classes(path: Path) -> list[Any]:
    """Register and return the cache classes of transformers; they hold tensors and numbers."""
    try:
        caches.register_cache_classes(static=False)
    except ImportError as error:
        raise ExportError(
            f"'{path}' has an argument of transformers.cache_utils, and transformers is not "
            "installed"
        ) from error
    import transformers.cache_utils as cache_utils

    names = ("DynamicCache", "EncoderDecoderCache", "DynamicLayer", "DynamicSlidingWindowLayer")
    return [
        getattr(cache_utils, name) for name in (*names, "DummyLayer") if hasattr(cache_utils, name)
    ]


def save_program(exported: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Write ``exported`` to ``path`` and its text to ``<path>.graph``, each atomically.

    Raises ExportError if the folder is missing, or if torch cannot serialize the program (weights
    without data, inputs of a class without a serialized name).
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ExportError(f"folder '{target.parent}' of ExportOptions.save_ep does not exist")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        program, text = Path(folder) / "program.pt2", Path(folder) / "program.graph"
        try:
            torch.export.save(exported, str(program))
        except Exception as error:  # torch's serialiser raises its own and builtin classes
            raise ExportError(
                f"ExportOptions.save_ep: torch cannot save the exported program: "
                f"{type(error).__name__}: {error}"
            ) from error
        text.write_text(str(exported), encoding="utf-8")
        # A crash in between leaves a program without a text, never with another program's text.
        lock = FolderLock(target.parent)
        with restore_on_exit(lock.release):
            lock.acquire()
            Path(f"{target}.graph").unlink(missing_ok=True)
            os.replace(program, target)
            os.replace(text, f"{target}.graph")
