"""Load and save programs in files of torch.export.save: arguments.py and the command line load a
path that is given as a model, and strategies.py saves the captured program with its graph as text.
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

# What zipfile raises of bytes that are damaged, encrypted or packed otherwise; those of ours are
# RuntimeErrors, too.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)


def load_program(mod: Any) -> Any:
    """Load the exported program in the file ``mod``; return ``mod`` itself when it is no path.

    Raises ExportError for a missing or broken file, and for other files of torch, by name.
    """
    if not isinstance(mod, (str, os.PathLike)):
        return mod
    path = Path(mod)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "missing"
        raise ExportError(f"the program '{path}' to export is {what}: give a file (.pt2) that "
                          "torch.export.save wrote")  # fmt: skip
    other = _unsupported_file(path)
    if other is not None:
        raise ExportError(f"'{path}' is {other}")
    return _load_archive(path)


def _unsupported_file(path: Path) -> str | None:
    """Describe the file when it is no program of torch.export.save; None for a program."""
    if path.suffix == ".onnx":
        return "an ONNX model already"
    if not zipfile.is_zipfile(path):
        return "broken, or no file of torch.export.save: it is no zip archive"
    try:
        with zipfile.ZipFile(path) as archive:
            whole = archive.namelist()
    except _BROKEN as error:
        return f"a broken archive: {error}"
    names = [name.partition("/")[2] for name in whole]
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
    if "serialized_exported_program.json" in whole:
        return None  # how torch saved programs before the .pt2 archive
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
    except (*_BROKEN, RuntimeError) as error:  # the last of an encrypted part
        raise ExportError(f"'{path}' is a broken archive: {error}") from None
    logger = logging.getLogger("torch.export")
    quiet = logger.disabled
    try:
        logger.disabled = True  # it prints the traceback that is raised below
        with torch.serialization.safe_globals(classes):  # the example inputs are a pickle
            return torch.export.load(path)
    except Exception as error:  # a pickle may raise anything
        cause = error.__context__ or error
        first = (str(cause).strip().splitlines() or [""])[0]
        raise ExportError(
            f"torch.export.load cannot read '{path}': {type(cause).__name__}: {first}\n"
            "The file is broken, was written by another version of torch, or needs operators or "
            "classes that the process which loads it has to register first."
        ) from error
    finally:
        logger.disabled = quiet


def _cache_classes(path: Path) -> list[Any]:
    """Register and return the classes of transformers' caches, which hold tensors and
    numbers only.
    """
    try:
        caches.register_cache_classes(static=False)
    except ImportError as error:
        raise ExportError(
            f"'{path}' has an argument of transformers.cache_utils, and transformers is not "
            "installed"
        ) from error
    import transformers.cache_utils as known

    names = ("DynamicCache", "EncoderDecoderCache", "DynamicLayer", "DynamicSlidingWindowLayer")
    return [getattr(known, name) for name in (*names, "DummyLayer") if hasattr(known, name)]


def save_program(exported: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Write ``exported`` to ``path`` and its text to ``<path>.graph``, each atomically.

    Raises ExportError when the folder is missing, or torch cannot serialize the program (weights
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
        # A crash in between leaves a program without a text, never with that of another program.
        lock = FolderLock(target.parent)
        with restore_on_exit(lock.release):
            lock.acquire()
            Path(f"{target}.graph").unlink(missing_ok=True)
            os.replace(program, target)
            os.replace(text, f"{target}.graph")
