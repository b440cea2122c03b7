"""Compile graphs of dynamo or AOTAutograd to callables that run them with ONNX Runtime.

The steps of a compilation are in `aot.pipeline`; between them, AOTAutograd makes forward, backward
or inference graphs. `aot.build` compiles each graph, as an `AotGraph`, in this order:

- `partition.placement` selects the nodes that torch runs and makes random numbers inputs;
- `partition.partition` and `partition.absorb_small` split the graph if torch runs a part of it;
- `cache.conversion` looks up the CompiledGraph or calls `lower.compile`, which assigns roles to
  arguments and results, converts with `interpreter` and rewrites with `passes`;
- `execute.runner` creates an OrtBackend with a session of `sessions`, and `aot.records` reports it.

With option `autotune`, the package `autotune` times the first calls and keeps the faster of ONNX
Runtime and torch.

In a call, dynamo calls `aot.skip_aot_wrapper` (or AOTAutograd's wrapper), which calls `OrtBackend`,
which calls the source that `execute.call_source` generated. These are three frames.

Layers, lowest first: `options`, `roles`, `store`, `timing` < `sessions` < `lower` < `cache` <
`partition` beside `execute` < `autotune` < `precompile` < `aot`. Names are imported on first use,
so that importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES_BY_NAME = {
    "OrtBackend": "ortable.backend.execute.call",
    "OrtOptions": "ortable.backend.options",
    "filter_decomposition_table": "ortable.backend.aot.decompositions",
    "get_decomposition_table": "ortable.backend.aot.decompositions",
    "onnx_custom_backend": "ortable.backend.aot.entry",
    "ortable": "ortable.backend.aot.entry",
    "refresh": "ortable.backend.execute.weights",
}
__all__ = sorted(_MODULES_BY_NAME)


def __getattr__(name: str) -> Any:
    module = _MODULES_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
