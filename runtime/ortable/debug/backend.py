"""onnx_debug_backend: the graphs of the fast backend, run by the reference evaluator in place of
ONNX Runtime, wherever `onnx_custom_backend` can stand. In comes a graph of dynamo or of
AOTAutograd, out comes a ReferenceBackend; called by torch.compile."""

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
from ortable.exporter.account.gaps import AskedTolerance

from .run import ReferenceBackend

_OWN = ("compare", "atol", "rtol", "verbose")
_OF_ONNX_RUNTIME = ("session_options", "run_options", "cache_dir")


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
    """The same graphs as `onnx_custom_backend`, run node by node in Python by
    `ortable.ExtendedReferenceEvaluator`: slow, and it can look into them.

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
    given = {"compare": compare, "atol": atol, "rtol": rtol, **keywords}
    own, rest = _split_options(given, options)
    verbose = own.get("verbose", 0)
    resolved = OrtOptions.from_mapping(*rest, {"verbose": min(verbose, 2)})
    _refuse_onnxruntime_options(resolved)
    resolved = replace(resolved, hints=False)  # nobody is in a hurry here
    tolerance = AskedTolerance(own.get("atol"), own.get("rtol")) if own.get("compare") else None

    def run_with_reference(compiled: CompiledGraph, options: OrtOptions) -> Compiled:
        return ReferenceBackend(compiled, verbose=verbose, tolerance=tolerance)

    return compile_from_torch(
        graph_module, args, resolved, run_with_reference, "onnx_debug_backend"
    )


def _split_options(
    given: Mapping[str, Any], options: Any
) -> tuple[dict[str, Any], list[Mapping[str, Any] | None]]:
    """The options of this backend, checked, and the mappings without them."""
    own: dict[str, Any] = {}
    rest: list[Mapping[str, Any] | None] = []
    for source in (given, options):
        if not isinstance(source, Mapping):
            rest.append(source)
            continue
        for name in _OWN:
            value = source.get(name)
            if value is None:
                continue
            if name in own:
                raise OptionError(f"Option {name!r} is given twice; give it once.")
            own[name] = _check_own_option(name, value)
        rest.append({name: value for name, value in source.items() if name not in _OWN})
    return own, rest


def _check_own_option(name: str, value: Any) -> Any:
    if name == "compare" and not isinstance(value, bool):
        raise OptionError(f"Option 'compare' must be True or False, got {value!r}.")
    if name == "verbose" and (not isinstance(value, int) or value < 0):
        raise OptionError(f"Option 'verbose' must be an int, 0 or more, got {value!r}.")
    if name in ("atol", "rtol") and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise OptionError(f"Option {name!r} must be a number, got {value!r}.")
    return value


def _refuse_onnxruntime_options(options: OrtOptions) -> None:
    """Options of ONNX Runtime, which does not run here, are not ignored in silence."""
    refused = [name for name in _OF_ONNX_RUNTIME if getattr(options, name) is not None]
    if options.providers not in (None, ("CPUExecutionProvider",)):
        refused.append("providers")
    if options.freeze == "on":
        refused.append("freeze")
    refused += [name for name in ("autotune", "resizable") if getattr(options, name)]
    if refused:
        raise OptionError(
            f"onnx_debug_backend does not run ONNX Runtime, and cannot honour "
            f"{', '.join(refused)}: remove it, or use onnx_custom_backend."
        )
