"""The torch.compile backend: compiles graphs of dynamo or AOTAutograd to callables that run them
with ONNX Runtime.

Compilation: `aot.pipeline` lists the steps, between which AOTAutograd makes forward, backward or
inference graphs. `aot.build` passes each as an `AotGraph` to `partition.placement` (what torch
runs, random numbers as inputs), `partition.partition` with `absorb_small` (only where torch runs
a part), and `cache.conversion`, which finds the CompiledGraph or calls `lower.compile`: roles of
arguments and results, conversion by `interpreter`, rewriting by `passes`. `execute.runner` makes
an OrtBackend of it with a session of `sessions`, and `aot.records` reports it. `autotune` wraps
it in the first calls where the option is on, and then calls the faster of it and torch.

Calls: dynamo -> `aot.skip_aot_wrapper` (or AOTAutograd's wrapper) -> `OrtBackend` -> the source
that `execute.call_source` wrote: feeds, session, results. Three frames.

Layers, lowest first: `options`, `roles`, `store`, `timing` < `sessions` < `lower` < `cache` <
`partition` beside `execute` < `autotune` < `precompile` < `aot`. Names are loaded when first
used, so that importing the package costs nothing.
"""

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
