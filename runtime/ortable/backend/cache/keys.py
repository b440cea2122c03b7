"""Keys of sessions and files, and the versions that keys of files depend on.

A key has 64 hex digits, the same in every process. Unlike `graph_key`, this module does not import
the conversion.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.backend.store import Uncacheable
from ortable.interpreter.tables import LOADED_SPECS


def option_settings(options: OrtOptions) -> list[Any]:
    """Return the options that change a compiled graph as plain values; omit functions."""
    rewrites: Any = options.rewrites
    if not set(rewrites) <= {"default", "none"}:  # these two depend on the version only
        from ortable.passes.rewrite.rule_selection import content_key

        rewrites = content_key(rewrites)
    return [
        str(options.target_opset),
        options.optimize,
        rewrites,
        options.providers,
        options.raise_on,
        options.fallback,
        options.freeze,
        repr(options.weights),
    ]


def session_key(compiled: CompiledGraph, options: OrtOptions, *extra: Any) -> str | None:
    """Return the key of a session for `compiled`, or None if sessions cannot be compared.

    The key covers the conversion, the input names, the options that sessions read, torch's number
    of threads, and `extra` (plain values: flags, a device). Sessions cannot be compared if the
    conversion has no key, or if an option of sessions or providers is an object.
    """
    if compiled.key is None:
        return None
    settings = options.session_options
    if settings is not None and not isinstance(settings, Mapping):
        return None
    try:
        # the input names keep sessions of equal graphs with different names apart
        names = [role.name for role in compiled.inputs]
        text = to_canonical_json(
            [options.providers, settings, torch.get_num_threads(), names, extra]
        )
    except TypeError:  # the options of a provider contain an object
        return None
    return digest_of_lines([compiled.key, text])


def disk_key(key: str) -> str:
    """Return the key for a file, which covers `key`, the versions and the user's specs.

    Raises:
        Uncacheable: if `load_specs` received functions, whose content cannot be compared.
    """
    for specs in LOADED_SPECS:
        if specs.lowerings:
            raise Uncacheable(f"{specs.path} was loaded with lowerings, which are functions")
    return digest_of_lines(
        [key, to_canonical_json(dependency_versions()), *(specs.source for specs in LOADED_SPECS)]
    )


@functools.cache
def dependency_versions() -> dict[str, str]:
    """Return the versions that a conversion depends on.

    `code` is a digest of ortable's own sources, including the generated tables.
    """
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


def to_canonical_json(value: Any) -> str:
    """Serialize plain values; equal values give equal strings."""
    return json.dumps(value, sort_keys=True)


def digest_of_lines(lines: Iterable[str]) -> str:
    """Digest lines to 64 hex digits."""
    digest = hashlib.sha256()
    for line in lines:
        encoded = line.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()
