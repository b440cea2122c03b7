"""Writes a model to a file: the new file appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnx

from ..errors import ExportError


def write_model(model: Any, filename: str | os.PathLike[str]) -> None:
    """Write a ModelProto, or a LargeModel with its weights beside it, to ``filename``.

    A ModelProto is written to a temporary file of the same folder first, and then moved over
    ``filename``. Raises ExportError when the folder is missing or the model is over protobuf's
    limit of 2 GB.
    """
    path = Path(filename)
    if not path.parent.is_dir():
        raise ExportError(f"folder '{path.parent}' of the file to write does not exist")
    if not isinstance(model, onnx.ModelProto):
        model.save(str(path))
        return
    try:
        content = model.SerializeToString()
    except ValueError as error:
        raise ExportError(
            "the model is too large for one protobuf file (2 GB): use large_model=True, weights "
            "then go to a file beside it"
        ) from error
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
