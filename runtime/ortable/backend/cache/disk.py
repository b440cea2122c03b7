"""Conversions in files: one per key, in the folder that option `cache_dir` names. In come a
folder, a key and a CompiledGraph, out comes one; called by `conversion`.

A file is an `envelope` of the roles and the ONNX model without weights. What cannot be read is a
miss and a warning; nothing in a file is executed. How files get there and which ones go is
`folder`'s.

What is written or read here is noted for `torch.compiler.save_cache_artifacts`, too; what
`load_cache_artifacts` brought is moved into the folder when it is first looked for."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path

from ortable.backend.folder import CONVERSION, Limits, bound, readable, write_whole
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import loaded_cache_artifacts, record_cache_artifact

from .codec import Unserializable, decode_whole, encode_whole
from .envelope import seal, unseal
from .graph_key import Uncacheable

_CARRIED = "ortable-"  # before the keys of conversions among those of torch's artifacts
_DAY = 24 * 3600


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
        _warn(f"cache entry {path} is not used ({_reason(exc)}); it will be written again.")
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
            _warn(f"cache artifact {path} is not used ({_reason(exc)}).")
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
        fields, model = encode_whole(compiled)
    except Unserializable as exc:
        raise Uncacheable(f"a file cannot hold the graph: {exc}") from None
    return seal("conversion", {"key": key, "graph": fields}, model)


def _parse(content: bytes, key: str) -> CompiledGraph:
    header, model = unseal("conversion", content)
    if header["key"] != key:
        raise ValueError("it is another graph's")
    return decode_whole(header["graph"], model)


def _reason(error: Exception) -> str:
    return str(getattr(error, "message", error)) or type(error).__name__


def _warn(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=2)
