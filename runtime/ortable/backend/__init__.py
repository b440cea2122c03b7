"""The torch.compile backend: wiring, compilation of one graph, sessions, calls, records.
Names are loaded when first used, so that importing the package costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "OrtBackend": "ortable.backend.execute.call",
    "OrtOptions": "ortable.backend.options",
    "filter_decomposition_table": "ortable.backend.aot.decompositions",
    "get_decomposition_table": "ortable.backend.aot.decompositions",
    "onnx_custom_backend": "ortable.backend.aot.entry",
    "ortable": "ortable.backend.aot.entry",
    "refresh": "ortable.backend.execute.weights",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
