"""Compile one graph of AOTAutograd: place, partition, convert, create sessions and record."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch.fx import GraphModule, Node

from ortable.backend.autotune.graphs import autotune_partition
from ortable.backend.cache.codec import Unserializable
from ortable.backend.cache.conversion import compile_cached
from ortable.backend.execute.weights import subclass_arguments
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.recompose import fuse_batched_matmul, recompose_operators
from ortable.backend.options import OrtOptions
from ortable.backend.partition.absorb_small import (
    absorb_small_partitions,
    place_graph_break_fragment,
)
from ortable.backend.partition.fallback import (
    find_failed_nodes,
    make_raise_on_error,
    raise_for_missing_converters,
    specialize_sizes,
    unsupported_nodes,
)
from ortable.backend.partition.host_graph import (
    HostGraph,
    encode_host_graph,
    join_partitions,
    partition_name,
)
from ortable.backend.partition.partition import Partition, Partitioning, partition_graph
from ortable.backend.partition.placement import (
    Placement,
    list_placements,
    place_nodes,
    report_placements,
)
from ortable.backend.roles import CompiledGraph
from ortable.backend.sessions.providers import CPU, resolve_providers
from ortable.compat.bisector import is_searching
from ortable.compat.providers import provider_names
from ortable.compat.torch import TracingContext, precompile_mode, unset_fake_temporarily
from ortable.compat.torch_logging import timeline_event
from ortable.errors import InputError, OptionError, OrtableError, ProviderError
from ortable.interpreter.diagnostics.advice import attach_advice

from .bisection_switches import find_disabled_calls, is_step_disabled
from .compilation import Compiled
from .events import graph_label, log_compiled, log_failed_backward
from .hints import warn_grad_enabled, warn_of_fallback
from .records import append_record, dump_model, make_record, make_torch_record, print_report

RunnerFactory = Callable[[CompiledGraph, OrtOptions], Compiled]


def compile_aot_graph(
    graph_module: GraphModule, options: OrtOptions, runner: RunnerFactory
) -> Compiled:
    """Compile one graph of AOTAutograd to a callable that takes a list of arguments and clears it.

    An error in a backward graph is raised when that graph runs: torch compiles some backward graphs
    before gradients are requested, and logs their errors with full tracebacks.
    """
    graph = AotGraph(graph_module)
    static = static_arguments(graph)
    try:
        with timeline_event("ortable"):
            compiled = compile_at_once(graph, options, runner, static)
    except OrtableError as error:
        attach_advice(error, "compile", options.verbose, falls_back=options.fallback == "eager")
        if graph.kind != "backward":
            raise
        log_failed_backward(str(error).partition("\n")[0])
        retry = partial(compile_at_once, AotGraph(graph_module), options, runner, static)
        return _make_failing_backward(error, retry if isinstance(error, ProviderError) else None)
    warn_grad_enabled(graph.kind, options)
    return compiled


def _make_failing_backward(error: OrtableError, retry: Callable[[], Compiled] | None) -> Compiled:
    """Return a compiled backward that raises `error`.

    With `retry`, calls compile the graph again until this succeeds: the session may have failed for
    lack of memory or file handles.
    """
    compiled: list[Compiled] = []

    def call(args: list[Any]) -> list[Any]:
        if retry is None:
            raise _as_backward_error(error) from None
        if not compiled:
            try:
                compiled.append(retry())
            except OrtableError as retry_error:
                raise _as_backward_error(retry_error) from None
        return compiled[0](args)

    call._boxed_call = True  # type: ignore[attr-defined]
    call.error = error  # type: ignore[attr-defined]
    return call


def _as_backward_error(error: OrtableError) -> OrtableError:
    backward_error = copy.copy(error)
    backward_error.args = (f"The backward of this graph cannot be compiled. {error.message}",)
    return backward_error.with_traceback(None)


def compile_at_once(
    graph: AotGraph, options: OrtOptions, runner: RunnerFactory, static: frozenset[int]
) -> Compiled:
    """Compile a graph now, and raise the errors of a backward graph immediately, too.

    `forward_only` also calls this function after torch's compilation has ended.

    Args:
        graph: a graph of AOTAutograd, or derived from one.
        options: the options of the backend.
        runner: makes a callable of each converted graph.
        static: the positions of parameters and buffers (`static_arguments`).
    """
    options = resolve_providers(graph.module, options)
    # AOTAutograd's fake mode may be active, but the constants of the graph are real tensors.
    with unset_fake_temporarily():
        if not is_step_disabled(recompose_operators):
            recompose_operators(graph.module)
        if graph.kind == "inference" and not is_step_disabled(fuse_batched_matmul):
            fuse_batched_matmul(graph.module)
        return _compile_with_fallback(graph, options, runner, static)


def _compile_with_fallback(
    graph: AotGraph, options: OrtOptions, runner: RunnerFactory, static: frozenset[int]
) -> Compiled:
    """Compile a graph; torch runs the nodes that the specs place there or that cannot be converted.

    Nodes that cannot be converted are an error if option `fallback` is "error". A size that a
    converter needs as a number is specialized. A node whose conversion fails for another reason
    moves to torch, and the graph is partitioned again; each such round moves at least one node.
    """
    unsupported = _find_unsupported(graph, options)
    fragment = place_graph_break_fragment(graph)
    failures: dict[str, int] = {}  # failed conversions by operator
    while True:
        placed, in_torch, original_nodes = place_nodes(graph, unsupported)
        if options.fallback == "error" and (in_torch or fragment):
            raise_for_missing_converters(placed, in_torch)  # one error for all partitions
        if fragment:
            placed, in_torch, original_nodes = graph, fragment, {node: node for node in fragment}
        elif in_torch and not is_searching("lowerings"):
            in_torch = absorb_small_partitions(placed, in_torch, everywhere=bool(unsupported))
        converted: list[_ConvertedPartition] = []
        try:
            if not in_torch:
                return _compile_unpartitioned(placed, options, runner, static)
            partitioning = partition_graph(placed, in_torch)
            for partition in _convert_partitions(placed, partitioning, options, static):
                converted.append(partition)
        except OrtableError as error:
            must_convert = options.fallback == "error"
            if specialize_sizes(graph.module, error, options.verbose, must_convert=must_convert):
                graph = AotGraph(graph.module)  # some sizes are numbers now
                continue
            if must_convert or isinstance(error, OptionError | InputError | ProviderError):
                raise
            failed_partition = partition_graph(placed, in_torch).partitions[len(converted)]
            causes = find_failed_nodes(error, failed_partition.nodes, failures)
            unsupported |= {original_nodes[node]: reason for node, reason in causes.items()}
            continue
        fell_back = {node for node in in_torch if original_nodes.get(node) in unsupported}
        placement = list_placements(placed.module, in_torch, fell_back)
        return _compile_partitioned(placed, options, runner, placement, partitioning, converted)


def _find_unsupported(graph: AotGraph, options: OrtOptions) -> dict[Node, str]:
    """Map each call that cannot be converted, or whose conversion is disabled, to the reason.

    These reasons are known before a conversion; torch runs the calls. If option `fallback` is
    "error", only disabled calls are listed, and an operator in option `raise_on` is an error.
    """
    disabled = find_disabled_calls(graph)
    if options.fallback == "eager":
        return {**disabled, **unsupported_nodes(graph, options.raise_on)}
    refusal = make_raise_on_error(graph.module, options.raise_on)
    if refusal is not None:
        raise refusal
    return disabled


def _compile_unpartitioned(
    graph: AotGraph, options: OrtOptions, runner: RunnerFactory, static: frozenset[int]
) -> Compiled:
    """Convert a graph that ONNX Runtime runs entirely; create its callable and record both."""
    compiled = compile_cached(graph, options, static)
    placement = list_placements(graph.module, {})
    run = _make_callable(compiled, graph.module, options, runner, placement)
    log_compiled(graph.kind, [compiled], [run], placement)
    report_strides([role.strides for role in compiled.outputs[: compiled.n_results]])
    return run


def _compile_partitioned(
    graph: AotGraph,
    options: OrtOptions,
    runner: RunnerFactory,
    placement: list[Placement],
    partitioning: Partitioning,
    converted: Sequence[_ConvertedPartition],
) -> Compiled:
    """Create and record the callables of converted partitions, and the graph that calls them."""
    host = HostGraph(partitioning.host, graph.kind, placement)
    text = None
    if graph.device == "cpu" and (options.cache_dir is not None or precompile_mode()):
        with contextlib.suppress(Unserializable):  # other processes then trace again
            text = encode_host_graph(host, [partition.partition.name for partition in converted])
    conversions = {
        partition.partition.name: (partition.compiled, partition.partition.graph.module)
        for partition in converted
    }
    callables = _make_callables(host, conversions, graph.module, options, runner)
    output = graph.output.args[0]
    # the results of partitions and of torch have the traced strides
    report_strides([None] * (len(output) if isinstance(output, list | tuple) else 1))
    return join_partitions(host.graph, callables, graph.module, text, placement)


@dataclass(frozen=True)
class _ConvertedPartition:
    """A partition and its conversion."""

    partition: Partition
    compiled: CompiledGraph


def _convert_partitions(
    graph: AotGraph, partitioning: Partitioning, options: OrtOptions, static: frozenset[int]
) -> Iterator[_ConvertedPartition]:
    """Convert the partitions one by one.

    Arguments that the host graph writes to, and arguments that an inference graph returns, do not
    become constants.
    """
    excluded = {node.args[0] for node in graph.module.graph.nodes if graph.is_mutation(node)}
    if graph.kind == "inference":
        excluded.update(graph.output.all_input_nodes)
    constants = {graph.inputs.nodes[index] for index in static} - excluded
    for partition in partitioning.partitions:
        positions = frozenset(i for i, node in enumerate(partition.inputs) if node in constants)
        compiled = compile_cached(partition.graph, options, positions, parent=graph)
        yield _ConvertedPartition(partition, compiled)


def _make_callables(
    host: HostGraph,
    conversions: Mapping[str, tuple[CompiledGraph, GraphModule | None]],
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: RunnerFactory,
) -> dict[str, Compiled]:
    """Create and record the callables of the partitions of a graph, by name."""
    if options.verbose:
        print(f"[ortable] {host.kind} in {len(conversions)} partitions")
        print(report_placements(host.placement))
    warn_of_fallback(host.placement, options)
    if not conversions:  # torch runs all nodes
        append_record(options.storage, make_torch_record(host.kind, graph_module, host.placement))
    callables = {
        name: _make_callable(compiled, module, options, runner, host.placement)
        for name, (compiled, module) in conversions.items()
    }
    parts = [compiled for compiled, _ in conversions.values()]
    log_compiled(host.kind, parts, list(callables.values()), host.placement)
    return callables


def load_compiled(
    conversions: Sequence[CompiledGraph],
    host: HostGraph | None,
    options: OrtOptions,
    runner: RunnerFactory,
) -> Compiled:
    """Create and record the callable of a CPU graph from torch's cache; nothing was traced.

    Args:
        conversions: the conversion of the graph, or the conversions of its partitions.
        host: the graph that calls the partitions; None if ONNX Runtime runs the whole graph.
        options: the options of the backend.
        runner: makes a callable of each converted graph.
    """
    options = replace(options, providers=options.providers or CPU)
    if host is None:
        run = _make_callable(conversions[0], None, options, runner, [])
        log_compiled(conversions[0].kind, conversions, [run], [])
        return run
    named = {partition_name(index): (compiled, None) for index, compiled in enumerate(conversions)}
    callables = _make_callables(host, named, None, options, runner)
    return join_partitions(host.graph, callables, placement=host.placement)


def _make_callable(
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: RunnerFactory,
    placement: list[Placement],
) -> Compiled:
    """Create and record the callable of a converted graph."""
    begin = time.perf_counter()
    compiled = replace(compiled, label=graph_label(compiled.kind))
    with timeline_event("ortable.session"):
        callable_graph = runner(compiled, options)
    compiled.timings["session"] = time.perf_counter() - begin
    text = "(not traced: found in a cache)" if graph_module is None else str(graph_module.graph)
    path = dump_model(options.dump_prefix, compiled.model, text)
    attach = getattr(callable_graph, "attach", None)
    if attach is not None:  # the debug backend reads the FX graph and dumps inputs
        attach(graph_module, path)
    if options.verbose:
        print_report(compiled, options.verbose, text)
    if options.storage is not None:
        providers = provider_names(options.providers)
        record = make_record(compiled, graph_module, callable_graph, providers, placement)
        append_record(options.storage, record)
    return autotune_partition(callable_graph, compiled, graph_module, options)


def static_arguments(graph: AotGraph) -> frozenset[int]:
    """Find the positions of parameters and buffers, which are the same tensors at every call.

    AOTAutograd's metadata lists them. The result is empty for a backward graph. It excludes the
    arguments that torch writes to, and weights inside a tensor subclass.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or graph.kind == "backward":
        return frozenset()
    tokens = len(getattr(metadata, "tokens", ()))  # effect tokens are the first arguments
    # torch writes to these arguments after the graph has run
    written_positions = {index + tokens for index in metadata.mutated_inp_runtime_indices or ()}
    # in graphs without a backward, torch's indices already count the tokens
    offset = 0 if graph.kind == "inference" else tokens
    static = {index + offset for index in metadata.static_input_indices or ()}
    return frozenset(static - written_positions) - subclass_arguments(graph.module)


def report_strides(result_strides: Sequence[tuple[int, ...] | None]) -> None:
    """Report the strides of results to AOTAutograd; None means the traced strides.

    AOTAutograd then compiles the backward with the true strides.
    """
    context = TracingContext.try_get()
    strides = context.output_strides if context is not None else None
    if context is not None and strides is not None and not strides:
        # effect tokens come first; AOTAutograd removes them before it reads the strides
        tokens = len(getattr(context.fw_metadata, "tokens", ()))
        strides.extend(result_strides[tokens:])
