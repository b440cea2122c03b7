"""Writes a model to a file: the new file appears whole or not at all. Called by conversion.py at
the end, and by program.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError

from ortable.exporter.request.record import ExportRecord
from ortable.ir.proto import write_model as proto_files
from ortable.ir.proto.atomic_files import FileSet

from ..errors import ExportError
from .arguments import checked_path


def too_large(builder: Any, outgrown: int | None, beside: bool, record: ExportRecord) -> bool:
    """True when the weights are kept beside the model, and ``record`` says so: those of
    ``outgrown`` bytes or more; or what no protobuf file holds, where there is a file to write them
    ``beside``. (Otherwise the builder raises BuilderError for these.)"""
    limit = proto_files.PROTO_LIMIT if outgrown is None else outgrown
    if outgrown is None and not beside:
        return False
    total = proto_files.weight_bytes(builder)
    if total < limit:
        return False
    record.steps.append(f"weights of {total / 2**30:.1f} GiB are written beside the model")
    return True


def write_model(
    model: Any,
    filename: str | os.PathLike[str],
    record: ExportRecord | None = None,
    max_shard_bytes: int | None = None,
) -> None:
    """Write a ModelProto, or a LargeModel with its weights beside it, to ``filename``.

    Every file is complete before it replaces an older one. ``record.verbose`` shows how far the
    weights are. Raises ExportError when the folder is missing or cannot be written to, the disk is
    full, memory is, or the model is over protobuf's limit of 2 GiB; nothing is left behind.
    """
    path = checked_path("filename", Path(filename))
    try:
        if isinstance(model, onnx.ModelProto):
            content = _serialized(model)
            with FileSet(path) as files:
                files.publish(lambda renamed: content)
        else:
            shown = Shown() if record is not None and record.verbose else None
            model.save(path, progress=shown, max_shard_bytes=max_shard_bytes)
    except OSError as error:
        raise ExportError(
            f"the model could not be written to '{path}': {error}. Nothing was left there; what "
            "was there before is unchanged"
        ) from error


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as error:
        raise ExportError(
            "the model is too large for one protobuf file (2 GiB): use large_model=True, weights "
            "then go to files beside it"
        ) from error
    except (EncodeError, MemoryError) as error:  # protobuf says "Failed to serialize proto"
        raise ExportError(
            "there is not enough memory to write the model in one piece: with large_model=True "
            "weights go to a file beside it, one after the other. Nothing was written"
        ) from error


SHOWN_FROM = 1 << 26  # bytes of weights that take long enough to be worth a line


class Shown:
    """Prints how many of the weights are written, at every tenth of those of a large model."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        tenths = 10 * done // total if total else 10
        if total >= SHOWN_FROM and tenths > self._tenths:
            self._tenths = tenths
            print(f"[to_onnx] write; {done / 1e6:.0f} of {total / 1e6:.0f} MB of weights")
