"""A model whose large tensors stay outside of protobuf.

They are passed to a session by reference or saved to files next to the model; several models of
one folder can share a data file.
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
    fill_nested,
    fill_tensor,
    location_of,
    nested_tensors,
)
from .weight_files import iter_chunks, memory_key

Progress = Callable[[int, int, str], None]


class LargeModel:
    """A model whose large tensors stay outside of protobuf.

    `numpy_tensors` and `session_proto` serve ``SessionOptions.add_external_initializers``.

    Args:
        proto: the model, in which each tensor of ``tensors`` is marked as external data.
        tensors: name -> numpy array, torch tensor, TensorProto or `initializers.Deferred`, by
            reference, in the model's order.
        nested: the same for constants of subgraphs and functions, by the location that their
            stubs have.
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
        """Name -> tensor, as given to the builder."""
        return self.tensors

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that are outside of the proto."""
        values: Iterable[Any] = [*self.tensors.values(), *self.nested.values()]
        return sum(initializers.nbytes_of(value) for value in values)

    def numpy_tensors(self) -> dict[str, np.ndarray]:
        """Name -> numpy array, sharing memory where it can."""
        return {name: initializers.to_numpy(value, name) for name, value in self.tensors.items()}

    def session_proto(self) -> ModelProto:
        """The model to give to a session together with `numpy_tensors`: constants of subgraphs and
        functions are in it."""
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
        """Writes the model to ``path`` and its tensors to files beside it.

        All files are complete before the model appears, and what an older model of this path
        reads is replaced after it. Tensors are streamed: only a part of one is
        copied at a time.

        Args:
            path: of the model; its tensors go to ``path + ".data"``.
            all_tensors_to_one_file: False: each tensor has a file of its own.
            max_shard_bytes: several files of at most that size (more, where one tensor is
                larger), ``path + ".00001-of-00003.data"``.
            progress: called with the bytes written, all bytes, and the name of the tensor that
                comes next.

        Raises:
            BuilderError: the data of a tensor cannot be read.
            OptionError: options contradict each other.
            OSError: what the system refuses; nothing is left behind.
        """
        target = Path(path)
        self._check_elsewhere(target.parent)
        entries = [*self.tensors.items(), *self.nested.items()]
        shards = weight_files.plan_shards(entries, all_tensors_to_one_file, max_shard_bytes)
        weight_files.check_space(target, self.nbytes)
        with FileSet(target) as files:
            names = shards.file_names(target.name)
            places = weight_files.write_shards(files, shards, names, progress)
            files.publish(lambda renamed: self.located(places, renamed).SerializeToString())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LargeModel:
        """A saved model; its tensors are memory-mapped, so nothing is read before it is used.

        Args:
            path: of the model; its data files lie in the same folder or below it.

        Raises:
            BuilderError: a data file is missing, too short, or elsewhere.
            InputError: the file is no ONNX model.
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
                fill_nested(tensor, name, array, nested)
        return cls(proto, tensors, nested)

    @classmethod
    def of_proto(cls, model: ModelProto, threshold: int) -> LargeModel:
        """``model`` without the initializers of its main graph of ``threshold`` bytes or more,
        which are kept by reference; ``model`` itself is not changed.

        Args:
            model: the model.
            threshold: a size in bytes.
        """
        external = ExternalTensors(threshold)
        proto = ModelProto()
        _copy_but("graph", proto, model)
        _copy_but("initializer", proto.graph, model.graph)
        for tensor in model.graph.initializer:
            stub = proto.graph.initializer.add()
            if tensor.data_type == TensorProto.STRING or not external.should_externalize(tensor):
                stub.CopyFrom(tensor)
                continue
            external.write_tensor(stub, tensor.name, tensor)
            stub.doc_string = tensor.doc_string
        return cls(proto, external.tensors)

    def to_proto(self) -> ModelProto:
        """One ModelProto that holds the tensors. BuilderError when it would reach 2 GiB."""
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

    def _check_elsewhere(self, folder: Path) -> None:
        """BuilderError for tensors in files of another model, which would not be found."""
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
        """A copy of the model, in which the tensors say where they are.

        Args:
            places: of each tensor, by its name, or by its location for a nested one.
            renamed: other names of files, by the name that a place has.
        """
        others = renamed or {}
        places = {
            key: location._replace(location=others.get(location.location, location.location))
            for key, location in places.items()
        }
        located = ModelProto()
        located.CopyFrom(self.proto)
        for tensor in located.graph.initializer:
            if tensor.name in self.tensors and tensor.data_location == TensorProto.EXTERNAL:
                weight_files.set_location(tensor, places[tensor.name])
        for tensor in nested_tensors(located) if self.nested else ():
            if tensor.data_location == TensorProto.EXTERNAL and location_of(tensor) in places:
                weight_files.set_location(tensor, places[location_of(tensor)])
        return located


def _copy_but(name: str, target: Any, source: Any) -> None:
    """Copy all fields of a message but one."""
    for field, value in source.ListFields():
        if field.name == name:
            continue
        if isinstance(value, (str, bytes, int)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def _refill_tensor(proto: TensorProto, value: Any) -> None:
    name, path = proto.name, proto.doc_string
    proto.Clear()
    fill_tensor(proto, value, name)
    if path:
        proto.doc_string = path


def save_together(models: Mapping[str, LargeModel], folder: Path) -> None:
    """Write models to a new folder: their tensors to the data file of the first one, those with
    equal bytes once.

    Args:
        models: by file name. Their tensors may differ in names.
        folder: where none of the files exists yet.

    Raises:
        BuilderError: the data of a tensor cannot be read.
        OSError: what the system refuses.
    """
    first = next(iter(models))
    entries, keys = _deduplicate(models)
    shards = weight_files.plan_shards(list(entries.items()))
    weight_files.check_space(folder / first, sum(map(initializers.nbytes_of, entries.values())))
    with FileSet(folder / first) as files:
        written = weight_files.write_shards(files, shards, shards.file_names(first))
        places = {
            name: {tensor: written[key] for tensor, key in of_model.items()}
            for name, of_model in keys.items()
        }
        files.publish(lambda _: models[first].located(places[first]).SerializeToString())
    for name, model in models.items():
        if name != first:
            content = model.located(places[name]).SerializeToString()
            (folder / name).write_bytes(content)


def _deduplicate(
    models: Mapping[str, LargeModel],
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Deduplicate tensors by content; also return the key of each tensor of each model."""
    entries: dict[str, Any] = {}
    key_of: dict[Any, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for name, model in models.items():
        of_model = keys[name] = {}
        for tensor, value in _all_tensors(model):
            memory = memory_key(value)
            key = key_of.get(memory)
            if key is None:
                content = _content_digest(value, tensor)
                key = key_of.setdefault(content, f"{name}/{tensor}")
                key_of[memory] = key
                entries.setdefault(key, value)
            of_model[tensor] = key
    return entries, keys


def _all_tensors(model: LargeModel) -> Iterator[tuple[str, Any]]:
    yield from model.tensors.items()
    yield from model.nested.items()


def _content_digest(value: Any, name: str) -> str:
    """Hash the bytes; dtype and shape are stored by each model itself."""
    digest = hashlib.sha256()
    for piece in iter_chunks(value, name):
        digest.update(piece)
    return digest.hexdigest()
