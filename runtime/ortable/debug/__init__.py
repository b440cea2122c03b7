"""Tools to inspect graphs and find errors in them: text, pictures, reference evaluation.

Each name is imported on first access, so that importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
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
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    module_name = _MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module_name), name)
