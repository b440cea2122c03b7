"""Hold models with large tensors outside of protobuf, which limits a message to 2 GiB.

The tensors are passed to a session by reference, or saved to files next to the model. Several
models in one folder can share a data file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from ortable.errors import BuilderError
from ortable.ir import initializers

from . import weight_files
from .atomic_files import FileSet
from .model_validation import check_readable, parse_model
from .tensor_proto import (
    ExternalTensors,
    fill_nested_stub,
    fill_tensor,
    location_of,
    nested_tensors,
)
from .weight_files import iter_chunks, memory_key

Progress = Callable[[int, int, str], None]


class LargeModel:
    """A model whose large tensors are stored outside of protobuf.

    `numpy_tensors` and `session_proto` return the arguments for
    ``SessionOptions.add_external_initializers`` and the session.

    Args:
        proto: the model, in which each tensor of ``tensors`` is marked as external data.
        tensors: initializers of the main graph by name, in the model's order: references to numpy
            arrays, torch tensors, TensorProtos or `initializers.Deferred`.
        nested: constants of subgraphs and functions, by the location in their stubs.
    """

    __slots__ = ("nested", "proto", "tensors")

    def __init__(
        self,
        proto: ModelProto,
        tensors: dict[str, Any],
        nested: dict[str, Any] | None = None,
    ) -> None:
        self.proto = proto
        self.tensors = tensors
        self.nested = nested or {}

    def __repr__(self) -> str:
        tensors = len(self.tensors) + len(self.nested)
        noun = "tensor" if tensors == 1 else "tensors"
        return (
            f"LargeModel({len(self.proto.graph.node)} nodes, {tensors} {noun} of {self.nbytes:,} "
            "bytes outside of the proto)"
        )

    @property
    def external_tensors(self) -> dict[str, Any]:
        """Tensors by name, as passed to the constructor."""
        return self.tensors

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that are stored outside of the proto."""
        values: Iterable[Any] = [*self.tensors.values(), *self.nested.values()]
        return sum(initializers.nbytes_of(value) for value in values)

    def numpy_tensors(self) -> dict[str, np.ndarray]:
        """Return numpy arrays by name, which share memory with the tensors if possible."""
        return {name: initializers.to_numpy(value, name) for name, value in self.tensors.items()}

    def session_proto(self) -> ModelProto:
        """Return the model to create a session from, together with `numpy_tensors`.

        It contains the constants of subgraphs and functions.
        """
        if not self.nested:
            return self.proto
        model = ModelProto()
        model.CopyFrom(self.proto)
        self._fill_nested(model)
        return model

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        all_tensors_to_one_file: bool = True,
        max_shard_bytes: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the model to ``path`` and its tensors to files in the same folder.

        The data files are complete before the model file is replaced, and data files of an older
        model at this path are removed after that. Tensors are copied in small chunks.

        Args:
            path: path of the model; its tensors are written to ``path + ".data"``.
            all_tensors_to_one_file: if False, each tensor is written to its own file.
            max_shard_bytes: maximum size of a data file; more data is split into files such as
                ``path + ".00001-of-00003.data"``. A file of one larger tensor may exceed it.
            progress: called with the bytes written, all bytes, and the name of the next tensor.

        Raises:
            BuilderError: the data of a tensor cannot be read.
            OptionError: options contradict each other.
            OSError: the system cannot write a file; the new files are removed.
        """
        target = Path(path)
        self._check_locations(target.parent)
        entries = [*self.tensors.items(), *self.nested.items()]
        shards = weight_files.plan_shards(entries, all_tensors_to_one_file, max_shard_bytes)
        weight_files.check_space(target, self.nbytes)
        with FileSet(target) as files:
            names = shards.file_names(target.name)
            locations = weight_files.write_shards(files, shards, names, progress)
            files.publish(lambda renamed: self.located(locations, renamed).SerializeToString())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LargeModel:
        """Load a saved model and map its tensors into memory, so that they are read on use.

        Args:
            path: path of the model; its data files must be in the same folder or below it.

        Raises:
            BuilderError: a data file is missing, too short, or outside of the folder.
            InputError: the file is not an ONNX model.
        """
        source = Path(path)
        proto = parse_model(source.read_bytes(), source)
        check_readable(proto)
        mapped = weight_files.MappedFiles(source.parent)
        tensors = {
            tensor.name: mapped.read_tensor(tensor)
            for tensor in proto.graph.initializer
            if tensor.data_location == TensorProto.EXTERNAL
        }
        nested: dict[str, Any] = {}
        for tensor in nested_tensors(proto):
            if tensor.data_location == TensorProto.EXTERNAL:
                name, array = tensor.name, mapped.read_tensor(tensor)
                tensor.Clear()
                fill_nested_stub(tensor, name, array, nested)
        return cls(proto, tensors, nested)

    @classmethod
    def of_proto(cls, model: ModelProto, threshold: int) -> LargeModel:
        """Make a large model from a ModelProto, which does not change.

        Args:
            model: the model.
            threshold: initializers of the main graph with at least this many bytes are stored
                outside of the proto, by reference.
        """
        external = ExternalTensors(threshold)
        proto = ModelProto()
        _copy_fields_except("graph", proto, model)
        _copy_fields_except("initializer", proto.graph, model.graph)
        for tensor in model.graph.initializer:
            stub = proto.graph.initializer.add()
            if tensor.data_type == TensorProto.STRING or not external.should_externalize(tensor):
                stub.CopyFrom(tensor)
                continue
            external.write_tensor(stub, tensor.name, tensor)
            stub.doc_string = tensor.doc_string
        return cls(proto, external.tensors)

    def to_proto(self) -> ModelProto:
        """Return a ModelProto that contains the tensors.

        Raises:
            BuilderError: the tensors have 2 GiB or more.
        """
        total = self.nbytes
        if total >= 2**31 - 1:
            raise BuilderError(
                f"{total} bytes of tensors do not fit in one ModelProto; use save(path)."
            )
        model = ModelProto()
        model.CopyFrom(self.proto)
        for proto in model.graph.initializer:
            if proto.name in self.tensors:
                _refill_tensor(proto, self.tensors[proto.name])
        self._fill_nested(model)
        return model

    def _fill_nested(self, model: ModelProto) -> None:
        for proto in nested_tensors(model) if self.nested else ():
            value = self.nested.get(location_of(proto))
            if value is not None and proto.data_location == TensorProto.EXTERNAL:
                _refill_tensor(proto, value)

    def _check_locations(self, folder: Path) -> None:
        """Raise BuilderError if a tensor is in a file that a model in ``folder`` could not read."""
        for tensor in self.proto.graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL or tensor.name in self.tensors:
                continue
            location = location_of(tensor)
            weight_files.safe_path(folder, location, tensor.name)

    def located(
        self,
        places: Mapping[str, weight_files.TensorLocation],
        renamed: Mapping[str, str] | None = None,
    ) -> ModelProto:
        """Return a copy of the model with the given locations of its tensors.

        Args:
            places: location of each tensor by its name, or, for nested tensors, by the location in
                its stub.
            renamed: new names of files by the names in ``places``.
        """
        new_names = renamed or {}
        places = {
            key: location._replace(location=new_names.get(location.location, location.location))
            for key, location in places.items()
        }
        copy = ModelProto()
        copy.CopyFrom(self.proto)
        for tensor in copy.graph.initializer:
            if tensor.name in self.tensors and tensor.data_location == TensorProto.EXTERNAL:
                weight_files.set_location(tensor, places[tensor.name])
        for tensor in nested_tensors(copy) if self.nested else ():
            if tensor.data_location == TensorProto.EXTERNAL and location_of(tensor) in places:
                weight_files.set_location(tensor, places[location_of(tensor)])
        return copy


def _copy_fields_except(name: str, target: Any, source: Any) -> None:
    """Copy all fields of a message except the field ``name``."""
    for field, value in source.ListFields():
        if field.name == name:
            continue
        if isinstance(value, (str, bytes, int)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def _refill_tensor(proto: TensorProto, value: Any) -> None:
    name, doc_string = proto.name, proto.doc_string
    proto.Clear()
    fill_tensor(proto, value, name)
    if doc_string:
        proto.doc_string = doc_string


def save_with_shared_data(models: Mapping[str, LargeModel], folder: Path) -> None:
    """Write models (file name to model) to a new folder, with one data file for all of them.

    The data file is named after the first model. Tensors of equal bytes are stored once.
    """
    first_name = next(iter(models))
    entries, keys = _deduplicate(models)
    shards = weight_files.plan_shards(list(entries.items()))
    weight_files.check_space(
        folder / first_name, sum(map(initializers.nbytes_of, entries.values()))
    )
    with FileSet(folder / first_name) as files:
        locations = weight_files.write_shards(files, shards, shards.file_names(first_name))
        locations_by_model = {
            name: {tensor: locations[key] for tensor, key in keys_by_tensor.items()}
            for name, keys_by_tensor in keys.items()
        }
        files.publish(
            lambda _: models[first_name].located(locations_by_model[first_name]).SerializeToString()
        )
    for name, model in models.items():
        if name != first_name:
            content = model.located(locations_by_model[name]).SerializeToString()
            (folder / name).write_bytes(content)


def _deduplicate(
    models: Mapping[str, LargeModel],
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Deduplicate tensors by content.

    Returns the tensors by key ("<model>/<tensor>"), and, for each model, the keys of its tensors by
    their names, or by the locations of nested ones.
    """
    entries: dict[str, Any] = {}
    key_of: dict[Any, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for name, model in models.items():
        keys_by_tensor = keys[name] = {}
        for tensor, value in _all_tensors(model):
            memory_id = memory_key(value)
            key = key_of.get(memory_id)
            if key is None:
                digest = _content_digest(value, tensor)
                key = key_of.setdefault(digest, f"{name}/{tensor}")
                key_of[memory_id] = key
                entries.setdefault(key, value)
            keys_by_tensor[tensor] = key
    return entries, keys


def _all_tensors(model: LargeModel) -> Iterator[tuple[str, Any]]:
    yield from model.tensors.items()
    yield from model.nested.items()


def _content_digest(value: Any, name: str) -> str:
    """Hash the bytes of a tensor without dtype and shape, which each model stores."""
    digest = hashlib.sha256()
    for chunk in iter_chunks(value, name):
        digest.update(chunk)
    return digest.hexdigest()
