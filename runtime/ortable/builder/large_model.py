"""A model whose large tensors stay outside of protobuf: given to a session as they are, or saved
to one file next to the model."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from onnx import ModelProto, TensorProto

from .. import dtypes
from ..errors import BuilderError
from . import initializers

EXTERNAL_FILE = "weights"  # location written in a model that is not saved
_ALIGNMENT = 64
_PAGE = 65536  # alignment of large tensors: what memory mapping needs on every system
_LARGE = 1 << 20


class LargeModel:
    """``proto``: the model, in which each tensor of ``tensors`` is marked as external data.

    ``tensors``: name -> numpy array, torch tensor or TensorProto, by reference, in the model's
    order. `numpy_tensors` and ``external_tensors`` serve
    ``SessionOptions.add_external_initializers``."""

    __slots__ = ("proto", "tensors")

    def __init__(self, proto: ModelProto, tensors: dict[str, Any]) -> None:
        self.proto = proto
        self.tensors = tensors

    @property
    def external_tensors(self) -> dict[str, Any]:
        """Name -> tensor, as given to the builder."""
        return self.tensors

    def numpy_tensors(self) -> dict[str, np.ndarray]:
        """Name -> numpy array, sharing memory where it can."""
        return {name: initializers.to_numpy(value, name) for name, value in self.tensors.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to ``path`` and its tensors to ``path + ".data"``.

        Both files are complete before either replaces an older one; ``proto`` then names the data
        file.
        Raises BuilderError for tensors whose data cannot be read, OSError for what the system
        refuses."""
        target = Path(path)
        data = target.with_name(target.name + ".data")
        with _replacing(target) as model_stream:
            with _replacing(data) as stream:
                places = _write_tensors(stream, self.tensors)
            located = _locate(self.proto, data.name, places)
            model_stream.write(located.SerializeToString())
        self.proto = located

    def to_proto(self) -> ModelProto:
        """One ModelProto that holds the tensors. BuilderError when it would reach 2 GB."""
        total = sum(initializers.nbytes_of(value) for value in self.tensors.values())
        if total >= 2**31 - 1:
            raise BuilderError(
                f"{total} bytes of tensors do not fit in one ModelProto; use save(path)."
            )
        from .serialize import fill_tensor

        model = ModelProto()
        model.CopyFrom(self.proto)
        for proto in model.graph.initializer:
            name = proto.name
            if name in self.tensors:
                proto.Clear()
                fill_tensor(proto, self.tensors[name], name)
        return model


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content replaces the file when the block ends well, and vanishes otherwise."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_tensors(stream: IO[bytes], tensors: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Streams the tensors one after another; name -> (offset, length)."""
    places: dict[str, tuple[int, int]] = {}
    position = 0
    for name, value in tensors.items():
        content = _bytes_of(name, value)
        align = _PAGE if content.nbytes >= _LARGE else _ALIGNMENT
        padding = -position % align
        stream.write(b"\0" * padding)
        position += padding
        stream.write(content)
        places[name] = (position, content.nbytes)
        position += content.nbytes
    return places


def _bytes_of(name: str, value: Any) -> memoryview:
    if isinstance(value, TensorProto) and value.raw_data:
        return memoryview(value.raw_data)
    array = initializers.to_numpy(value, name)
    if array.dtype == object:
        raise BuilderError(f"Initializer {name!r} holds strings, which cannot be external data.")
    if dtypes.from_numpy(array.dtype) in dtypes.SUB_BYTE:
        from onnx import numpy_helper

        return memoryview(numpy_helper.from_array(array).raw_data)
    # a view as bytes: memoryview knows neither bfloat16 nor a size of 0
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _locate(proto: ModelProto, location: str, places: Mapping[str, tuple[int, int]]) -> ModelProto:
    located = ModelProto()
    located.CopyFrom(proto)
    for tensor in located.graph.initializer:
        if tensor.name not in places or tensor.data_location != TensorProto.EXTERNAL:
            continue
        del tensor.external_data[:]
        offset, length = places[tensor.name]
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    return located
