"""Conversions in files: one per key, in the folder that option `cache_dir` names. In come a
folder, a key and a CompiledGraph, out comes one; called by `conversion`.

A file holds a magic line, the SHA-256 of what follows, the length of a JSON header, the header
(roles and versions) and the ONNX model without weights. Whatever cannot be read is a miss and a
warning; nothing in a file is executed. How files get there and which ones go is `folder`'s.

What is written or read here is noted for `torch.compiler.save_cache_artifacts`, too; what
`load_cache_artifacts` brought is moved into the folder when it is first looked for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from pathlib import Path

from onnx import ModelProto, TensorProto

from ortable.backend.folder import CONVERSION, Limits, bound, readable, write_whole
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import loaded_cache_artifacts, record_cache_artifact

from .codec import Unserializable, decode, encode
from .graph_key import Uncacheable
from .session_keys import versions

__all__ = ["entry_path", "limits_of", "load", "save"]

_MAGIC = b"ortable compiled graph 1\n"
_LENGTH = 8
_CARRIED = "ortable-"  # before the keys of conversions among those of torch's artifacts
_DAY = 24 * 3600


class _Bad(Exception):
    """An entry that is not what this process would have written; the message says why."""


def entry_path(folder: str, key: str) -> Path:
    """The file of an entry."""
    return Path(folder) / f"{key}{CONVERSION}"


def limits_of(options: OrtOptions) -> Limits:
    """Those of the folder that the options set."""
    return Limits(options.cache_megabytes * 2**20, options.cache_days * _DAY)


def load(folder: str, key: str, limits: Limits | None = None) -> CompiledGraph | None:
    """The entry of `key`, without `key` and `timings`; None when there is none, or, with a warning,
    when it cannot be used."""
    path = entry_path(folder, key)
    if not readable(path.parent):
        return None
    try:
        content = path.read_bytes()
        found = _parse(content, key)
    except (FileNotFoundError, NotADirectoryError):
        return _load_carried(folder, key, limits)
    except Exception as exc:
        # whatever a damaged file makes a parser raise; the graph is converted again
        reason = str(exc) or type(exc).__name__
        _warn(f"cache entry {path} is not used ({reason}); it will be written again.")
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the last use, which decides what goes first
    record_cache_artifact(_CARRIED + key, content)
    return found


def save(folder: str, key: str, compiled: CompiledGraph, limits: Limits | None = None) -> bool:
    """Writes the entry of `key`; False, with a warning, when the folder does not let it.

    :raises Uncacheable: the graph holds what a file cannot
    """
    content = _content(compiled, key)
    record_cache_artifact(_CARRIED + key, content)
    return _write(folder, key, content, limits)


def _write(folder: str, key: str, content: bytes, limits: Limits | None) -> bool:
    path = entry_path(folder, key)
    try:
        write_whole(path, content)
    except OSError as exc:
        _warn(f"cache entry {path} cannot be written ({exc}); other processes convert again.")
        return False
    if limits is not None:
        bound(path, len(content), limits)
    return True


def _load_carried(folder: str, key: str, limits: Limits | None) -> CompiledGraph | None:
    """The entry of `key` that `torch.compiler.load_cache_artifacts` brought, moved into the
    folder."""
    for path in sorted(loaded_cache_artifacts(_CARRIED + key).glob("*")):
        try:
            content = path.read_bytes()
            found = _parse(content, key)
        except Exception as exc:  # as above
            reason = str(exc) or type(exc).__name__
            _warn(f"cache artifact {path} is not used ({reason}).")
            found = None
        with contextlib.suppress(OSError):
            path.unlink()
        if found is not None:
            record_cache_artifact(_CARRIED + key, content)
            _write(folder, key, content, limits)
            return found
    return None


def _content(compiled: CompiledGraph, key: str) -> bytes:
    try:
        header = {"key": key, "versions": versions(), "graph": encode(compiled)}
        model = compiled.model.SerializeToString()
    except Unserializable as exc:
        raise Uncacheable(f"a file cannot hold {exc}") from None
    except Exception as exc:  # protobuf: more than it holds
        raise Uncacheable(f"the model cannot be serialized: {exc}") from None
    if not is_self_contained(compiled.model):
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
    if not is_self_contained(model):
        raise _Bad("it reads other files")
    return decode(header["graph"], model=model, cache="disk")


def is_self_contained(model: ModelProto) -> bool:
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
