"""Implement `onnx_debug_backend`, which runs graphs in the reference evaluator.

The backend takes the same graphs as `onnx_custom_backend` and makes a `ReferenceBackend` of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from torch.fx import GraphModule

from ortable.backend.aot.build import Compiled
from ortable.backend.aot.entry import compile_from_torch
from ortable.backend.options import OrtOptions, OrtOptionsDict
from ortable.backend.roles import CompiledGraph
from ortable.errors import OptionError
from ortable.exporter.reporting.numeric_diff import ToleranceOverride

from .run import ReferenceBackend

_BACKEND_OPTIONS = ("compare", "atol", "rtol", "verbose")
_ONNXRUNTIME_OPTIONS = ("session_options", "run_options", "cache_dir")


def onnx_debug_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    compare: bool | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Unpack[OrtOptionsDict],
) -> Compiled:
    """Run the graphs of `onnx_custom_backend` node by node in `ortable.ExtendedReferenceEvaluator`.

    The backend is slow; use it to inspect results.

    Args:
        graph_module: the graph from dynamo or AOTAutograd.
        args: example inputs of the graph.
        compare: also run the FX graph in torch, and raise at the first result that differs.
        atol: absolute tolerance of `compare`; by dtype unless given.
        rtol: relative tolerance of `compare`; by dtype unless given.
        options: the same options as a dict.
        keywords: options of `ortable.OrtOptions`. `verbose` 1 prints every node, 2 every
            intermediate result too, and a larger number more values of each result. `dump_prefix`
            also writes the inputs and outputs of the first call as
            `<prefix>_<n>_data/input_<i>.pb` and `output_<i>.pb` (TensorProto).

    Raises:
        OptionError: an option is unknown, has a wrong value, is given twice, or is for ONNX
            Runtime only.
        OrtableError: the call is outside torch.compile.
        MismatchError: a compiled call with `compare` computes a result that differs.
    """
    explicit = {"compare": compare, "atol": atol, "rtol": rtol, **keywords}
    backend_options, mappings = _split_options(explicit, options)
    verbose = backend_options.get("verbose", 0)
    resolved = OrtOptions.from_mapping(*mappings, {"verbose": min(verbose, 2)})
    _reject_onnxruntime_options(resolved)
    resolved = replace(resolved, hints=False)
    tolerance = (
        ToleranceOverride(backend_options.get("atol"), backend_options.get("rtol"))
        if backend_options.get("compare")
        else None
    )

    def run_with_reference(compiled: CompiledGraph, options: OrtOptions) -> Compiled:
        return ReferenceBackend(compiled, verbose=verbose, tolerance=tolerance)

    return compile_from_torch(
        graph_module, args, resolved, run_with_reference, "onnx_debug_backend"
    )


def _split_options(
    explicit: Mapping[str, Any], options: Any
) -> tuple[dict[str, Any], list[Mapping[str, Any] | None]]:
    """Return the checked options of this backend, and the mappings without these options."""
    backend_options: dict[str, Any] = {}
    mappings: list[Mapping[str, Any] | None] = []
    for source in (explicit, options):
        if not isinstance(source, Mapping):
            mappings.append(source)
            continue
        for name in _BACKEND_OPTIONS:
            value = source.get(name)
            if value is None:
                continue
            if name in backend_options:
                raise OptionError(f"Option {name!r} is given twice; give it once.")
            backend_options[name] = _check_backend_option(name, value)
        mappings.append(
            {name: value for name, value in source.items() if name not in _BACKEND_OPTIONS}
        )
    return backend_options, mappings


def _check_backend_option(name: str, value: Any) -> Any:
    if name == "compare" and not isinstance(value, bool):
        raise OptionError(f"Option 'compare' must be True or False, got {value!r}.")
    if name == "verbose" and (not isinstance(value, int) or value < 0):
        raise OptionError(f"Option 'verbose' must be an int, 0 or more, got {value!r}.")
    if name in ("atol", "rtol") and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise OptionError(f"Option {name!r} must be a number, got {value!r}.")
    return value


def _reject_onnxruntime_options(options: OrtOptions) -> None:
    """Raise OptionError for options of ONNX Runtime, which this backend does not run."""
    unsupported = [name for name in _ONNXRUNTIME_OPTIONS if getattr(options, name) is not None]
    if options.providers not in (None, ("CPUExecutionProvider",)):
        unsupported.append("providers")
    if options.freeze == "on":
        unsupported.append("freeze")
    unsupported += [name for name in ("autotune", "resizable") if getattr(options, name)]
    if options.torch_regions != "eager":
        unsupported.append("torch_regions")
    if unsupported:
        raise OptionError(
            f"onnx_debug_backend does not run ONNX Runtime, and cannot honour "
            f"{', '.join(unsupported)}: remove it, or use onnx_custom_backend."
        )
