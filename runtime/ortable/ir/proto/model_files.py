"""Opens the file of an ONNX model for those who look at its graph. In comes a path, out goes a
ModelProto without the data of external weights; called by `text`, `ir.pictures` and the shell."""

from __future__ import annotations

import os

from onnx import ModelProto, load

from ortable.errors import InputError


def graph_of_file(path: str | os.PathLike[str]) -> ModelProto:
    """The model of a file, whose external weights are not read.

    Raises FileNotFoundError, and InputError for a folder and for a file that is no ONNX model.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise InputError(f"'{name}' is a folder; give the file of a model")
    try:
        model = load(name, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # each of onnx's formats, told by the name, has errors of its own
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"'{name}' is no ONNX model: {first}") from None
    if not model.HasField("graph"):
        raise InputError(f"'{name}' is no ONNX model: it has no graph")
    return model
