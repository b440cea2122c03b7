"""Several models of one folder whose weights lie in one data file, each once. In come LargeModels
by file name, out come the files. Called by `exporter/language_models`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ortable.ir import initializers

from . import weight_files
from .atomic_files import FileSet
from .large_model import LargeModel
from .tensor_bytes import identity, pieces


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
    entries, keys = _distinct(models)
    shards = weight_files.plan(list(entries.items()))
    weight_files.check_space(folder / first, sum(map(initializers.nbytes_of, entries.values())))
    with FileSet(folder / first) as files:
        written = weight_files.write(files, shards, shards.names(first), _no_progress)
        places = {
            name: {tensor: written[key] for tensor, key in of_model.items()}
            for name, of_model in keys.items()
        }
        files.publish(lambda _: models[first].located(places[first]).SerializeToString())
    for name, model in models.items():
        if name != first:
            content = model.located(places[name]).SerializeToString()
            (folder / name).write_bytes(content)


def _distinct(
    models: Mapping[str, LargeModel],
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """The tensors that differ, by a key of our own; and the key of each tensor of each model."""
    entries: dict[str, Any] = {}
    known: dict[Any, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for name, model in models.items():
        of_model = keys[name] = {}
        for tensor, value in _tensors(model):
            memory = identity(value)
            key = known.get(memory)
            if key is None:
                content = _digest(value, tensor)
                key = known.setdefault(content, f"{name}/{tensor}")
                known[memory] = key
                entries.setdefault(key, value)
            of_model[tensor] = key
    return entries, keys


def _tensors(model: LargeModel) -> Iterator[tuple[str, Any]]:
    yield from model.tensors.items()
    yield from model.nested.items()


def _digest(value: Any, name: str) -> str:
    """Equal for tensors of equal bytes: a type or shape is said by each model itself."""
    found = hashlib.sha256()
    for piece in pieces(value, name):
        found.update(piece)
    return found.hexdigest()


def _no_progress(done: int, total: int, name: str) -> None:
    """Nothing is shown."""
