"""Implement `onnx_debug_backend`, which runs graphs in the reference evaluator.

It takes the same graphs as `onnx_custom_backend`, and returns a `ReferenceBackend`.
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

    It is slow; use it to inspect results.

    Args:
        graph_module: the graph that dynamo or AOTAutograd hands over.
        args: its inputs.
        compare: run the FX graph in torch as well, and stop at the first result that differs.
        atol, rtol: how far results may differ; by dtype unless given.
        options: the same options as a dict.
        keywords: those of `ortable.OrtOptions`. `verbose` is 1 to print every node, 2 for every
            intermediate result, larger numbers for more of each; `dump_prefix` also writes the
            inputs and outputs of the first call as `<prefix>_<n>_data/input_<i>.pb` and
            `output_<i>.pb` (TensorProto).

    Raises:
        OptionError: an unknown option, a wrong value, one given twice, or one of ONNX Runtime.
        OrtableError: it was called outside torch.compile.
        MismatchError: in a call, with `compare`, where a result differs.
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
    """Separate the options of this backend, checked, from the mappings."""
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
    """Reject options of ONNX Runtime, which does not run here."""
    unsupported = [name for name in _ONNXRUNTIME_OPTIONS if getattr(options, name) is not None]
    if options.providers not in (None, ("CPUExecutionProvider",)):
        unsupported.append("providers")
    if options.freeze == "on":
        unsupported.append("freeze")
    unsupported += [name for name in ("autotune", "resizable") if getattr(options, name)]
    if unsupported:
        raise OptionError(
            f"onnx_debug_backend does not run ONNX Runtime, and cannot honour "
            f"{', '.join(unsupported)}: remove it, or use onnx_custom_backend."
        )
