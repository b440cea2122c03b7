"""Conversions in files: one per key, in the folder that option `cache_dir` names. In come a
folder, a key and a CompiledGraph, out comes one; called by `conversion`.

A file holds a magic line, the SHA-256 of what follows, the length of a JSON header, the header
(roles and versions) and the ONNX model without weights. It is written beside its place and moved
there, so that readers see all of it or nothing. Whatever cannot be read is a miss and a warning;
nothing in a file is executed. Files are never removed: a folder grows by a file per graph and
version, and may be emptied at any time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import warnings
from pathlib import Path

from onnx import ModelProto, TensorProto

from ortable.backend.roles import CompiledGraph

from .codec import Unserializable, decode, encode
from .graph_key import Uncacheable
from .keys import versions

__all__ = ["entry_path", "load", "save"]

_MAGIC = b"ortable compiled graph 1\n"
_LENGTH = 8


class _Bad(Exception):
    """An entry that is not what this process would have written; the message says why."""


def entry_path(folder: str, key: str) -> Path:
    """The file of an entry."""
    return Path(folder) / f"{key}.ortable"


def load(folder: str, key: str) -> CompiledGraph | None:
    """The entry of `key`, without `key` and `timings`; None when there is none, or, with a warning,
    when it cannot be used."""
    path = entry_path(folder, key)
    try:
        return _parse(path.read_bytes(), key)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as exc:
        # whatever a damaged file makes a parser raise; the graph is converted again
        reason = str(exc) or type(exc).__name__
        _warn(f"cache entry {path} is not used ({reason}); it will be written again.")
        return None


def save(folder: str, key: str, compiled: CompiledGraph) -> bool:
    """Writes the entry of `key`; False, with a warning, when the folder does not let it.

    :raises Uncacheable: the graph holds what a file cannot
    """
    content = _content(compiled, key)
    path = entry_path(folder, key)
    beside = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        _warn(f"cache entry {path} cannot be written ({exc}); other processes convert again.")
        return False
    return True


def _content(compiled: CompiledGraph, key: str) -> bytes:
    try:
        header = {"key": key, "versions": versions(), "graph": encode(compiled)}
        model = compiled.model.SerializeToString()
    except Unserializable as exc:
        raise Uncacheable(f"a file cannot hold {exc}") from None
    except Exception as exc:  # protobuf: more than it holds
        raise Uncacheable(f"the model cannot be serialized: {exc}") from None
    if not _is_self_contained(compiled.model):
        raise Uncacheable("the model keeps tensors in files of its own")
    text = json.dumps(header, separators=(",", ":")).encode()
    rest = len(text).to_bytes(_LENGTH, "big") + text + model
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def _parse(content: bytes, key: str) -> CompiledGraph:
    begin = len(_MAGIC) + hashlib.sha256().digest_size
    if not content.startswith(_MAGIC):
        raise _Bad("no such file format")
    rest = memoryview(content)[begin:]
    if hashlib.sha256(rest).digest() != content[len(_MAGIC) : begin]:
        raise _Bad("its checksum does not fit")
    end = _LENGTH + int.from_bytes(rest[:_LENGTH], "big")
    header = json.loads(bytes(rest[_LENGTH:end]))
    if header["key"] != key:
        raise _Bad("it is another graph's")
    if header["versions"] != versions():
        raise _Bad("another version wrote it")
    model = ModelProto.FromString(bytes(rest[end:]))
    if not _is_self_contained(model):
        raise _Bad("it reads other files")
    return decode(header["graph"], model=model, cache="disk")


def _is_self_contained(model: ModelProto) -> bool:
    """Whether no tensor of the model stands in another file."""
    tensors: list[TensorProto] = list(model.graph.initializer)
    tensors += [part for s in model.graph.sparse_initializer for part in (s.values, s.indices)]
    stack = [*model.graph.node, *(node for each in model.functions for node in each.node)]
    while stack:
        for att in stack.pop().attribute:
            tensors += [att.t, *att.tensors]
            for inner in (att.g, *att.graphs):
                tensors += inner.initializer
                stack += inner.node
    return all(tensor.data_location != TensorProto.EXTERNAL for tensor in tensors)


def _warn(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=2)
