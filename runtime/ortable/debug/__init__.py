"""Tools to inspect graphs and find errors in them: text, pictures, reference evaluation.

Names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Comparison": "ortable.debug.comparing.records",
    "Difference": "ortable.debug.comparing.records",
    "Explanation": "ortable.debug.explain_records",
    "ExtendedReferenceEvaluator": "ortable.debug.reference",
    "draw": "ortable.debug.plot",
    "Profile": "ortable.debug.profiling.report",
    "draw_onnx": "ortable.debug.plot",
    "explain": "ortable.debug.explain_call",
    "first_difference": "ortable.debug.difference",
    "onnx_debug_backend": "ortable.debug.backend",
    "plot_dot": "ortable.debug.plot",
    "pretty_onnx": "ortable.ir.proto.text",
    "profile": "ortable.debug.profiling.call",
    "to_dot": "ortable.debug.plot",
    "where_is": "ortable.debug.comparing.source_locations",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
