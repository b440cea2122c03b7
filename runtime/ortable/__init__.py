"""ortable: PyTorch to ONNX from tables, and ONNX Runtime behind
``torch.compile(backend="ortable")``. Importing it is cheap: every public name is loaded from its
module when it is first used."""

from __future__ import annotations

import importlib
import logging
from typing import Any

__version__ = "0.1.0"

_PUBLIC: dict[str, str] = {
    "Dispatcher": "ortable.exporter",
    "DynamoInterpreter": "ortable.interpreter",
    "ExportOptions": "ortable.exporter",
    "ExtendedReferenceEvaluator": "ortable.debug",
    "FunctionNotFoundError": "ortable.errors",
    "GraphBuilder": "ortable.builder",
    "LargeModel": "ortable.builder",
    "OrtBackend": "ortable.backend",
    "OxsDispatcher": "ortable.exporter",
    "attach_weights": "ortable.exporter",
    "bypass_export_some_errors": "ortable.exporter",
    "from_seed_style": "ortable.exporter",
    "OrtOptions": "ortable.backend",
    "OrtableError": "ortable.errors",
    "filter_decomposition_table": "ortable.backend",
    "get_decomposition_table": "ortable.backend",
    "load_specs": "ortable.interpreter.user_specs",
    "match_input_parameters": "ortable.exporter",
    "onnx_custom_backend": "ortable.backend",
    "onnx_debug_backend": "ortable.debug",
    "plot_dot": "ortable.debug",
    "pretty_onnx": "ortable.debug",
    "refresh": "ortable.backend",
    "supported_ops": "ortable.interpreter.user_specs",
    "to_onnx": "ortable.exporter",
}

__all__ = sorted(_PUBLIC)

logging.getLogger(__name__).addHandler(logging.NullHandler())  # what is logged is for who asks


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'ortable' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
