"""Keys of conversions and of sessions: what of the graph, the options and the installed versions
changes a result, as one digest. In come an AotGraph or a CompiledGraph and options, out comes a
text of 64 digits, the same in every process; called by `conversion`, `execute.runner` and
`aot.torch_cache`."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import target_opset
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.backend.sessions.providers import provider_names
from ortable.interpreter.tables import LOADED
from ortable.passes.rewrite.choose import content

from .graph_key import Uncacheable, graph_text

__all__ = ["conversion_key", "disk_key", "option_settings", "session_key", "versions"]


def conversion_key(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int],
    whole: AotGraph | None = None,
) -> str:
    """Digest of all that `compile_graph` reads of these arguments, in this process.

    :raises Uncacheable: the graph holds what has no content to compare, or the options hold
        functions that change the model
    """
    if options.pre_ort_model_transforms:
        raise Uncacheable("pre_ort_model_transforms may do anything")
    settings = [
        target_opset(options.target_opset),
        options.optimize,
        content(options.rewrites),
        sorted(options.raise_on),
        provider_names(options.providers),
        sorted(static),
        None if whole is None else whole.kind,
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),  # what new memory holds
        getattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
        len(LOADED),
    ]
    return _digest([_text(settings), f"kind {graph.kind}", *graph_text(graph.module)])


def disk_key(key: str) -> str:
    """The key of a conversion for other processes: with versions, and the user's specs.

    :raises Uncacheable: `load_specs` was given functions, whose content nobody can compare
    """
    for specs in LOADED:
        if specs.lowerings:
            raise Uncacheable(f"{specs.path} was loaded with lowerings, which are functions")
    return _digest([key, _text(versions()), *(specs.source for specs in LOADED)])


def option_settings(options: OrtOptions) -> list[Any]:
    """The options that change a compiled graph, as values to write down; functions of the user are
    none."""
    return [
        str(options.target_opset),
        options.optimize,
        content(options.rewrites),
        options.providers,
        options.raise_on,
        options.fallback,
        options.freeze,
    ]


def session_key(compiled: CompiledGraph, options: OrtOptions, *extra: Any) -> str | None:
    """Key of a session for `compiled`: with the options that sessions read, torch's number of
    threads, and `extra` (plain values: flags, a device). None when sessions cannot be compared: the
    conversion has no key, or `session_options` is an object of ONNX Runtime.
    """
    if compiled.key is None:
        return None
    settings = options.session_options
    if settings is not None and not isinstance(settings, Mapping):
        return None
    try:
        # equal conversions made twice, from graphs of other names, have sessions of their own
        names = [role.name for role in compiled.inputs]
        text = _text([options.providers, settings, torch.get_num_threads(), names, extra])
    except TypeError:  # an object among the options of a provider
        return None
    return _digest([compiled.key, text])


@functools.cache
def versions() -> dict[str, str]:
    """Versions that a conversion depends on; `code` is a digest of ortable's own sources, the
    generated tables included."""
    import onnx
    import onnxruntime

    import ortable_generated
    from ortable import errors

    digest = hashlib.sha256()
    for package in (errors, ortable_generated):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return {
        "code": digest.hexdigest(),
        "torch": str(torch.__version__),
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        encoded = line.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()
