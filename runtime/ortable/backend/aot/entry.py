"""The entry points of torch.compile: `ortable` and `onnxrt`, which the group
`torch_dynamo_backends` names, and `onnx_custom_backend`, as a backend or as one of the compilers
of the user's own AOTAutograd. In comes a graph of dynamo or of AOTAutograd, out comes what torch
calls in its place; which of the two it is is read from the tracing context and from the graph."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.fx import GraphModule

from ortable.backend.autotune.graphs import in_eager, in_torch, pinned, tune_part, tune_whole
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.runner import is_one_of_several_processes, run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.argument_names import argument_names, mark_argument_names
from ortable.backend.lower.argument_strides import mark_argument_strides
from ortable.backend.lower.outputs import promise_strides
from ortable.backend.lower.untracked_writes import find_untracked_writes, mark_untracked_writes
from ortable.backend.options import OrtOptions, OrtOptionsDict, Provider, Transform
from ortable.backend.partition.between_breaks import is_cut_off, mark_cut_off
from ortable.backend.precompile.host_graph import HostGraph
from ortable.backend.roles import CompiledGraph
from ortable.backend.sessions.providers import check_providers
from ortable.compat.bisector import Application, disabled, register, searched, searches
from ortable.compat.torch import HigherOrderOperator, OpOverload, TracingContext, precompiles
from ortable.compat.versions import check_versions
from ortable.errors import OrtableError
from ortable.passes.weight_codes import WeightOptions

from .build import (
    Compiled,
    Runner,
    compile_again,
    compile_aot_graph,
    load_compiled,
    static_arguments,
)
from .decompositions import get_decomposition_table, resolve_table, switchable
from .events import tell_recompiled
from .forward_only import ForwardGraph, forward_only, is_left_to_torch
from .modes import options_of_mode
from .recurrent import refuse_lost_dropout, trained_in_eager
from .redecompose import redecompose
from .saved_values import partition
from .skip_aot_wrapper import Compilations, add_compilation, without_wrapper
from .whole_operators import keep_whole

if TYPE_CHECKING:
    from onnxruntime import RunOptions, SessionOptions

    from ortable.exporter.request.options import ExportOptions

__all__ = [
    "compile_from_torch",
    "compile_with_autograd",
    "onnx_custom_backend",
    "onnxrt",
    "ortable",
]

_STALE = (
    "ortable: freeze='on' (or 'trust') makes constants of weights of PEFT's layers, which PEFT "
    "writes without a trace (merge_adapter, hotswap_adapter): call ortable.refresh(model) after "
    "that, or leave freeze at 'auto', which keeps these weights inputs."
)


def ortable(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of dynamo with ONNX Runtime, forward and backward.

    Args:
        gm: the `torch.fx.GraphModule` that dynamo captured.
        example_inputs: its inputs.
        options: option names and values, see `ortable.OrtOptions`.
        mode: torch.compile's mode, which stands for the options that come nearest to it; what
            `options` say goes first.

    Raises:
        OptionError: an unknown option, a wrong value, or an unknown mode.
    """
    nearest = options_of_mode(mode)
    nearest = {name: value for name, value in nearest.items() if name not in (options or ())}
    return compile_with_autograd(gm, example_inputs, OrtOptions.from_mapping(nearest, options))


def onnxrt(gm: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    """The same under the name that PyTorch's former backend had, which accelerate, and with it the
    Trainer of transformers, still lists: `TrainingArguments(torch_compile_backend="onnxrt")`.

    Another installed distribution that registers the name has it: torch takes whichever it finds
    first, and this one hands over.  What torch itself registers comes before both.
    """
    return _onnxrt()(gm, example_inputs, **settings)


@functools.cache
def _onnxrt() -> Callable[..., Any]:
    """Who has the name `onnxrt`: somebody else, where there is one."""
    for found in entry_points(group="torch_dynamo_backends", name="onnxrt"):
        if found.value.partition(":")[0] != __name__:
            return found.load()  # type: ignore[no-any-return]
    return ortable


def onnx_custom_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    target_opset: int | Mapping[str, int] | None = None,
    export_options: ExportOptions | None = None,
    providers: str | Sequence[Provider] | None = None,
    storage: MutableMapping[str, Any] | None = None,
    dump_prefix: str | os.PathLike[str] | None = None,
    verbose: int | None = None,
    optimize: bool | None = None,
    rewrites: str | Sequence[str] | None = None,
    session_options: SessionOptions | Mapping[str, Any] | None = None,
    run_options: RunOptions | Mapping[str, Any] | None = None,
    pre_ort_model_transforms: Transform | Iterable[Transform] | None = None,
    freeze: Literal["auto", "on", "off", "trust"] | None = None,
    fallback: Literal["eager", "error"] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    tune: float | None = None,
    cache_megabytes: int | None = None,
    cache_days: int | None = None,
    autotune: bool | Literal["torch"] | None = None,
    resizable: bool | None = None,
    weight_copies: int | None = None,
    hints: bool | None = None,
    raise_on: Iterable[str] | None = None,
    weights: Literal["keep", "float32", "int4", "int8"]
    | Mapping[str, Any]
    | WeightOptions
    | None = None,
    options: OrtOptionsDict | Mapping[str, Any] | None = None,
) -> Compiled:
    """Runs graphs with ONNX Runtime, as `backend=` of `torch.compile` or as `fw_compiler=`,
    `bw_compiler=` or `inference_compiler=` of `aot_autograd`.

    The keywords are the options of `ortable.OrtOptions`, which says what they mean.

    Args:
        graph_module: the graph that dynamo or AOTAutograd hands over.
        args: its inputs.
        options: the same options as a dict.

    Returns:
        What torch calls in place of the graph.

    Raises:
        OptionError: an unknown option, a wrong value, or one given twice.
        OrtableError: it was called outside torch.compile.
    """
    keywords = {
        "target_opset": target_opset, "export_options": export_options, "providers": providers,
        "storage": storage, "dump_prefix": dump_prefix, "verbose": verbose, "optimize": optimize,
        "rewrites": rewrites, "session_options": session_options, "run_options": run_options,
        "pre_ort_model_transforms": pre_ort_model_transforms, "freeze": freeze,
        "fallback": fallback, "cache_dir": cache_dir, "tune": tune,
        "cache_megabytes": cache_megabytes,
        "cache_days": cache_days, "autotune": autotune, "resizable": resizable, "hints": hints,
        "weight_copies": weight_copies,
        "raise_on": raise_on, "weights": weights,
    }  # fmt: skip
    return compile_from_torch(
        graph_module,
        args,
        OrtOptions.from_mapping(keywords, options),
        run_with_onnxruntime,
        "onnx_custom_backend",
    )


def compile_from_torch(
    graph_module: GraphModule, args: Sequence[Any], options: OrtOptions, runner: Runner, name: str
) -> Compiled:
    """Compiles what torch handed over to the function called `name`: a graph of dynamo, or one of
    AOTAutograd's; `runner` makes a callable of each converted graph.
    """
    check_versions("torch", "onnx", "onnxruntime")
    context = TracingContext.try_get()
    if context is None:
        raise OrtableError(
            f"{name} was called outside torch.compile. Give it as torch.compile(model, "
            f"backend={name}) or as aot_autograd(fw_compiler={name}), and call the compiled model; "
            "ortable.to_onnx converts a model without running it."
        )
    if context.fw_metadata is not None and _is_aten(graph_module):
        table = resolve_table(options.export_options)
        if table is not None:
            graph_module = redecompose(graph_module, table)
        mark_argument_strides(graph_module, args)
        if options.autotune == "torch":
            return in_torch(graph_module)
        promise_strides(graph_module)  # anybody may compile the backward
        made = compile_aot_graph(graph_module, options, runner)
        if isinstance(made, OrtBackend):
            return tune_part(made, made.compiled, graph_module, options, whole=True)  # type: ignore[no-any-return]
        return made
    return compile_with_autograd(graph_module, args, options, runner)


def _is_aten(graph_module: GraphModule) -> bool:
    """Whether AOTAutograd made this graph: its placeholders carry fake tensors under `val`.

    The metadata of an earlier compilation may still be in the tracing context when a backend is
    called twice for one graph of dynamo, so it does not tell alone.
    """
    kinds = (OpOverload, HigherOrderOperator)
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
    compile_graph: Callable[[GraphModule, OrtOptions, Runner], Compiled] = compile_aot_graph,
) -> Compiled:
    """Compiles a graph of dynamo: AOTAutograd makes forward, backward or inference graphs of it,
    and each becomes an ONNX model.

    :param compile_graph: compiles each graph that AOTAutograd makes
    """
    from ortable.compat.torch import aot_autograd

    run = runner or run_with_onnxruntime
    options, ours = _in_search(options), run is run_with_onnxruntime
    table, asked, kept = _asked_of(graph_module, options, ours)
    tell_recompiled()
    if options.autotune == "torch":
        return pinned(graph_module)
    if kept is None and (eager := trained_in_eager(graph_module, args, options)) is not None:
        return eager
    refuse_lost_dropout(graph_module)
    compilations: Compilations = []
    made: list[Compiled] = []
    forwards: list[ForwardGraph] = []
    written, names = find_untracked_writes(graph_module), argument_names(graph_module)
    cut_off = ours and not is_one_of_several_processes() and is_cut_off(graph_module)
    if written and options.freeze in ("on", "trust"):
        warnings.warn(_STALE, RuntimeWarning, stacklevel=2)

    def compile_it(gm: GraphModule, arguments: Sequence[Any]) -> Compiled:
        mark_argument_strides(gm, arguments)
        if options.freeze == "auto":
            mark_untracked_writes(gm, written)
        mark_argument_names(gm, names)
        mark_cut_off(gm, cut_off)
        compiled = compile_graph(gm, options, run)
        add_compilation(compilations, compiled)
        made.append(compiled)
        forwards.extend(_forward_graph(gm, compiled, compilations[-1][1], options, run))
        return compiled

    def load_it(conversions: Sequence[CompiledGraph], host: HostGraph | None) -> Compiled:
        made.append(load_compiled(conversions, host, options, run))
        return made[-1]

    cache: Any = nullcontext(lambda compiler: compiler)
    # without a key of a folder in what torch keeps whole: nobody could load it
    if kept is not None or (ours and options.cache_dir is not None and asked is None):
        from .torch_cache import torch_cache  # imports inductor

        cache = torch_cache(graph_module, options, load_it, table is not None, written, kept)
    with cache as compiler, keep_whole():
        wrapped = aot_autograd(
            fw_compiler=compiler(compile_it),
            bw_compiler=compiler(compile_it),
            inference_compiler=compiler(compile_it),
            partition_fn=partition,
            decompositions=switchable(get_decomposition_table() if table is None else table),
            keep_inference_input_mutations=True,  # what a graph writes into, its call writes into
        )(graph_module, args)
        fixed = _attributes(graph_module) if kept is None else ()
        call = without_wrapper(wrapped, compilations, args, fixed)
    if kept is not None:
        from .keep import keep_for_processes

        return keep_for_processes(graph_module, options, kept, wrapped, call, compilations)
    forward = forwards.pop() if ours and len(forwards) == 1 else None
    return _finished(call, graph_module, args, made, forward, options)


def _taking_arguments(wrapped: Any) -> Any:
    """The function, without the mark "takes one list": AOTAutograd copies it from what it wraps,
    and torch's minifier, which looks for differences, believes it."""
    held = getattr(wrapped, "__dict__", {})
    if held.get("_boxed_call"):
        held["_boxed_call"] = False
    return wrapped


def _in_search(options: OrtOptions) -> OrtOptions:
    """The options while a fault is searched: no cache, nothing that is timed, and without what the
    search has switched off."""
    register()
    if not searched():
        return options
    options = replace(options, cache_dir=None, tune=None, autotune=False)
    if options.freeze != "off" and disabled("constants", lambda: Application("freeze")):
        options = replace(options, freeze="off", weights=None)
    if searches("decompositions"):  # what stays whole may have no converter
        options = replace(options, fallback="eager")
    return options


def _finished(
    call: Callable[..., Any],
    graph_module: GraphModule,
    args: Sequence[Any],
    made: Sequence[Compiled],
    forward: ForwardGraph | None,
    options: OrtOptions,
) -> Compiled:
    """What dynamo gets: the graph as it was compiled, or in eager where nothing of it was, watched
    for gradients that nobody asks for and timed beside torch where options say so."""
    call = _taking_arguments(call)
    in_search = bool(options.raise_on) or searches("lowerings")  # of what each graph does
    if made and all(map(is_left_to_torch, made)) and not in_search:
        call = in_eager(graph_module)  # with the backward of eager, too
    watched = forward_only(call, forward, len(args), options)
    return tune_whole(watched, graph_module, args, made, options)


def _forward_graph(
    graph_module: GraphModule, compiled: Any, metadata: Any, options: OrtOptions, run: Runner
) -> list[ForwardGraph]:
    """What `forward_only` needs of a forward graph; nothing of another one."""
    graph = AotGraph(graph_module)
    whole = hasattr(compiled, "compiled") or hasattr(compiled, "partitions")
    if graph.kind != "forward" or not whole:
        return []
    static = static_arguments(graph)
    again = partial(compile_again, options=options, runner=run, static=static)
    return [ForwardGraph(graph, compiled, metadata, again, static)]


def _asked_of(
    graph_module: GraphModule, options: OrtOptions, ours: bool
) -> tuple[Any, str | None, str | None]:
    """The user's table of decompositions, what torch would keep of a compilation, and what it can
    keep of this one; options and graphs that cannot be served are refused first."""
    if ours:
        check_providers(options.providers)
    table = resolve_table(options.export_options)
    asked = precompiles()
    return table, asked, _kept(asked, options, ours)


def _kept(asked: str | None, options: OrtOptions, ours: bool) -> str | None:
    """What makes files of this graph: `asked`, or None where the graph can go into none."""
    if asked is None:
        return None
    from .keep import checked  # imports inductor

    return checked(asked, options, ours)


def _attributes(graph_module: GraphModule) -> list[torch.Tensor]:
    """Parameters and buffers that dynamo left in the graph (`install_free_tensors`), as AOTAutograd
    puts them in front of the arguments."""
    parameters = dict(graph_module.named_parameters(remove_duplicate=False))
    buffers = dict(graph_module.named_buffers(remove_duplicate=False))
    return [*parameters.values(), *buffers.values()]
