"""Where torch.compile meets the compiler: as a backend, which runs AOTAutograd itself, or as one
of the compilers of the user's own AOTAutograd.  Which of the two is read from the tracing context
and from the
graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from onnx import printer
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule

from ortable.errors import OrtableError

from .call import OrtBackend
from .compile import CompiledGraph, compile_graph
from .decompositions import get_decomposition_table, resolve_table
from .options import OrtOptions
from .retrace import decompose
from .roles import OutputKind
from .session import check_providers, make_run_options, make_session, provider_names
from .storage import dump_model, store

__all__ = ["compile_with_autograd", "dispatch", "onnx_custom_backend"]

Compiled = Callable[..., Any]
Runner = Callable[[CompiledGraph, OrtOptions], Compiled]


def onnx_custom_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    target_opset: int | Mapping[str, int] | None = None,
    export_options: Any = None,
    providers: Sequence[Any] | None = None,
    storage: Any = None,
    dump_prefix: str | None = None,
    verbose: int | None = None,
    optimize: bool | None = None,
    session_options: Any = None,
    run_options: Any = None,
    pre_ort_model_transforms: Any = None,
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
    return dispatch(graph_module, args, resolved, _run_with_onnxruntime, "onnx_custom_backend")


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
            graph_module = decompose(graph_module, args, table)
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

    run = runner or _run_with_onnxruntime
    if run is _run_with_onnxruntime:
        check_providers(options.providers)
    table = resolve_table(options.export_options)

    def compiler(gm: GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        return compile_one(gm, options, run)

    backend = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=get_decomposition_table() if table is None else table,
    )
    return backend(graph_module, args)


def compile_one(graph_module: GraphModule, options: OrtOptions, runner: Runner) -> Compiled:
    """Converts one ATen graph, prepares what runs it, and records both."""
    # AOTAutograd's fake mode is on, and the constants of the graph are real tensors.
    with unset_fake_temporarily():
        compiled = compile_graph(graph_module, options)
        begin = time.perf_counter()
        callable_graph = runner(compiled, options)
        compiled.timings["session"] = time.perf_counter() - begin
    report_strides(compiled)
    text = str(graph_module.graph)
    dump_model(options.dump_prefix, compiled.model, text)
    if options.verbose:
        _report(compiled, options.verbose, text)
    store(options.storage, _record(compiled, graph_module, callable_graph, options))
    return callable_graph


def report_strides(compiled: CompiledGraph) -> None:
    """Tells AOTAutograd the strides of saved tensors that differ from those it traced, so that the
    backward is compiled with the true ones, whoever compiles it.
    """
    context = torch._guards.TracingContext.try_get()
    strides = context.output_strides if context is not None else None
    if context is not None and strides is not None and not strides:
        # the tokens of effects come first, and are taken off before anybody counts
        tokens = len(getattr(context.fw_metadata, "tokens", ()))
        strides.extend(role.strides for role in compiled.outputs[tokens : compiled.n_results])


def _run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    check_providers(options.providers)
    if not compiled.fetches:
        return OrtBackend(compiled, None, None)
    session = make_session(
        compiled.model,
        options.providers,
        options.session_options,
        training=compiled.kind != "inference",
    )
    return OrtBackend(compiled, session, make_run_options(options.run_options))


def _record(
    compiled: CompiledGraph, graph_module: GraphModule, callable_graph: Any, options: OrtOptions
) -> dict[str, Any]:
    """What `storage["instance"]` receives for one graph."""
    session = getattr(callable_graph, "session", None)
    names = list(provider_names(options.providers))
    return {
        "kind": compiled.kind,
        "onnx": compiled.model,
        "providers": names if session is None else session.get_providers(),
        "graph_module": graph_module,
        "inputs": list(compiled.inputs),
        "outputs": list(compiled.outputs[: compiled.n_results]),
        "mutations": list(compiled.mutations),
        "timings": dict(compiled.timings),
    }


def _report(compiled: CompiledGraph, verbose: int, text: str) -> None:
    seconds = ", ".join(f"{name} {value:.4f} s" for name, value in compiled.timings.items())
    bypassed = sum(r.kind is not OutputKind.TENSOR for r in compiled.outputs)
    print(
        f"[ortable] {compiled.kind}: {len(compiled.model.graph.node)} ONNX nodes, "
        f"{len(compiled.inputs)} inputs, {compiled.n_results} outputs ({bypassed} not computed by "
        f"ONNX Runtime), {seconds}"
    )
    if verbose > 1:
        print(text)
        print(printer.to_text(compiled.model))
