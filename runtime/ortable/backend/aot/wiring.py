"""Where torch.compile meets the compiler: as a backend, which runs AOTAutograd itself, or as one
of the compilers of the user's own AOTAutograd.  Which of the two is read from the tracing
context and from the graph."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.writers import mark, written_without_trace
from ortable.backend.options import OrtOptions
from ortable.backend.partition.draws import refuse_lost_dropout
from ortable.backend.sessions.session import check_providers
from ortable.errors import OrtableError

from .build import Compiled, Runner, compile_one, load
from .decompositions import get_decomposition_table, resolve_table
from .redecompose import decompose
from .skip_aot_wrapper import Noted, direct_call, note

__all__ = ["compile_with_autograd", "dispatch", "onnx_custom_backend"]

_STALE = (
    "ortable: freeze='on' makes constants of weights of PEFT's layers, which PEFT writes without a "
    "trace (merge_adapter, hotswap_adapter): call ortable.refresh(model) after that, or leave "
    "freeze at 'auto', which keeps these weights inputs."
)


def onnx_custom_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    target_opset: int | Mapping[str, int] | None = None,
    export_options: Any = None,
    providers: Sequence[Any] | None = None,
    storage: Any = None,
    dump_prefix: str | os.PathLike[str] | None = None,
    verbose: int | None = None,
    optimize: bool | None = None,
    rewrites: str | Sequence[str] | None = None,
    session_options: Any = None,
    run_options: Any = None,
    pre_ort_model_transforms: Any = None,
    freeze: str | None = None,
    fallback: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    resizable: bool | None = None,
    raise_on: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Runs graphs with ONNX Runtime, as `backend=` of `torch.compile` or as `fw_compiler=`,
    `bw_compiler=` or `inference_compiler=` of `aot_autograd`.

    :param graph_module: the graph that dynamo or AOTAutograd hands over
    :param args: its inputs
    :param options: the same options as a dict; the keywords are described by `ortable.OrtOptions`
    :raises OptionError: unknown option, wrong value, or one given twice
    :raises OrtableError: called outside torch.compile
    """
    given = {name: value for name, value in locals().items() if name in OrtOptions.__annotations__}
    resolved = OrtOptions.from_mapping(given, options)
    return dispatch(graph_module, args, resolved, run_with_onnxruntime, "onnx_custom_backend")


def dispatch(
    graph_module: GraphModule, args: Sequence[Any], options: OrtOptions, runner: Runner, name: str
) -> Compiled:
    """Compiles what torch handed over to the function called `name`: a graph of dynamo, or one of
    AOTAutograd's; `runner` makes a callable of each converted graph.
    """
    context = torch._guards.TracingContext.try_get()
    if context is None:
        raise OrtableError(
            f"{name} was called outside torch.compile. Give it as torch.compile(model, "
            f"backend={name}) or as aot_autograd(fw_compiler={name}), and call the compiled model; "
            "ortable.to_onnx converts a model without running it."
        )
    if context.fw_metadata is not None and _is_aten(graph_module):
        table = resolve_table(options.export_options)
        if table is not None:
            graph_module = decompose(graph_module, table)
        return compile_one(graph_module, options, runner)
    return compile_with_autograd(graph_module, args, options, runner)


def _is_aten(graph_module: GraphModule) -> bool:
    """Whether AOTAutograd made this graph: its placeholders carry fake tensors under `val`.

    The metadata of an earlier compilation may still be in the tracing context when a backend is
    called twice for one graph of dynamo, so it does not tell alone.
    """
    kinds = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    for node in graph_module.graph.nodes:
        if node.op in ("call_method", "call_module"):
            return False
        if node.op == "placeholder" and "val" not in node.meta:
            return False
        if node.op == "call_function" and not isinstance(node.target, kinds):
            return "val" in node.meta  # AOTAutograd leaves Python operators on sizes only
    return True


def compile_with_autograd(
    graph_module: GraphModule,
    args: Sequence[Any],
    options: OrtOptions,
    runner: Runner | None = None,
) -> Compiled:
    """Compiles a graph of dynamo: AOTAutograd makes forward, backward or inference graphs of it,
    and each becomes an ONNX model.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    run = runner or run_with_onnxruntime
    if run is run_with_onnxruntime:
        check_providers(options.providers)
    refuse_lost_dropout(graph_module)
    table = resolve_table(options.export_options)

    noted: Noted = []
    written = written_without_trace(graph_module)
    if written and options.freeze == "on":
        warnings.warn(_STALE, RuntimeWarning, stacklevel=2)

    def compile_it(gm: GraphModule) -> Compiled:
        if options.freeze == "auto":
            mark(gm, written)
        compiled = compile_one(gm, options, run)
        note(noted, compiled)
        return compiled

    looked_up: Any = nullcontext(_compiler)
    if options.cache_dir is not None and run is run_with_onnxruntime:
        from .artifact import torch_cache  # imports inductor

        loaded = partial(load, options=options, runner=run)
        looked_up = torch_cache(
            graph_module, options, loaded, own_decompositions=table is not None, written=written
        )
    with looked_up as compiler:
        backend = aot_autograd(
            fw_compiler=compiler(compile_it),
            bw_compiler=compiler(compile_it),
            inference_compiler=compiler(compile_it),
            partition_fn=min_cut_rematerialization_partition,
            decompositions=get_decomposition_table() if table is None else table,
        )
        return direct_call(backend(graph_module, args), noted, args)


def _compiler(compile_it: Callable[[GraphModule], Compiled]) -> Callable[..., Compiled]:
    """A compiler for AOTAutograd."""
    return lambda gm, example_inputs: compile_it(gm)
