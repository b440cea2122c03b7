"""One graph of AOTAutograd to what runs it: placed, partitioned, converted, given to a runner,
recorded."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch.fx import GraphModule, Node

from ortable.backend.autotune.graphs import tune_part
from ortable.backend.cache.codec import Unserializable
from ortable.backend.cache.conversion import compile_cached
from ortable.backend.execute.weights import inner_arguments
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.undecompose import join_products, undecompose
from ortable.backend.options import OrtOptions
from ortable.backend.partition.absorb_small import absorb_small_partitions, left_to_torch
from ortable.backend.partition.fallback import (
    culprits,
    refuse_missing,
    refused_error,
    specialize,
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
from ortable.compat.bisector import searches
from ortable.compat.providers import provider_names
from ortable.compat.torch import TracingContext, precompiles, unset_fake_temporarily
from ortable.compat.torch_logging import timed
from ortable.errors import InputError, OptionError, OrtableError, ProviderError
from ortable.interpreter.diagnostics.advice import attach_advice

from .compilation import Compiled
from .events import graph_label, tell_compiled, tell_failed_backward
from .hints import hint_at_gradients, warn_of_fallback
from .records import dump_model, print_report, record_of, record_of_torch, store
from .search import is_off, switched_off

Runner = Callable[[CompiledGraph, OrtOptions], Compiled]


def compile_aot_graph(graph_module: GraphModule, options: OrtOptions, runner: Runner) -> Compiled:
    """Compiles one graph of AOTAutograd: what it returns takes a list of arguments, clears it, and
    returns a list of results.

    An error in a backward graph is raised when that graph runs: torch compiles some before anybody
    asks for gradients, and logs what that raises with all its frames.
    """
    graph = AotGraph(graph_module)
    static = static_arguments(graph)
    try:
        with timed("ortable"):
            compiled = compile_at_once(graph, options, runner, static)
    except OrtableError as error:
        attach_advice(error, "compile", options.verbose, falls_back=options.fallback == "eager")
        if graph.kind != "backward":
            raise
        tell_failed_backward(str(error).partition("\n")[0])
        again = partial(compile_at_once, AotGraph(graph_module), options, runner, static)
        return _failing(error, again if isinstance(error, ProviderError) else None)
    hint_at_gradients(graph.kind, options)
    return compiled


def _failing(error: OrtableError, compile_it: Callable[[], Compiled] | None) -> Compiled:
    """A compiled backward that raises `error`, or tries again in each call where its session could
    not be made: perhaps there was no memory, or no file could be opened."""
    made: list[Compiled] = []

    def call(args: list[Any]) -> list[Any]:
        if compile_it is None:
            raise _of_backward(error) from None
        if not made:
            try:
                made.append(compile_it())
            except OrtableError as again:
                raise _of_backward(again) from None
        return made[0](args)

    call._boxed_call = True  # type: ignore[attr-defined]
    call.error = error  # type: ignore[attr-defined]
    return call


def _of_backward(error: OrtableError) -> OrtableError:
    raised = copy.copy(error)
    raised.args = (f"The backward of this graph cannot be compiled. {error.message}",)
    return raised.with_traceback(None)


def compile_at_once(
    graph: AotGraph, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Compile a graph with every error raised at once, also outside of torch's compilation.

    Args:
        graph: one of AOTAutograd, or made of one.
        options: those of the backend.
        runner: makes a callable of each converted graph.
        static: `static_arguments` of the graph that torch compiled.
    """
    # AOTAutograd's fake mode may be on, and the constants of the graph are real tensors.
    options = resolve_providers(graph.module, options)
    with unset_fake_temporarily():
        if not is_off(undecompose):
            undecompose(graph.module)
        if graph.kind == "inference" and not is_off(join_products):
            join_products(graph.module)
        return _compile_placed(graph, options, runner, static)


def _compile_placed(
    graph: AotGraph, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Compiles a graph of which torch runs what the specs place there, and what cannot be converted
    unless option `fallback` makes that an error.

    A size that a converter wants as a number becomes one. Any other node whose conversion fails
    changes sides, and the graph is partitioned anew: each round takes at least one node away from
    ONNX Runtime.
    """
    unsupported = _find_unsupported(graph, options)
    left = left_to_torch(graph)
    tried: dict[str, int] = {}
    while True:
        placed, in_torch, before = place_nodes(graph, unsupported)
        if options.fallback == "error" and (in_torch or left):
            refuse_missing(placed, in_torch)  # one error for all partitions
        if left:
            placed, in_torch, before = graph, left, {node: node for node in left}
        elif in_torch and not searches("lowerings"):
            in_torch = absorb_small_partitions(placed, in_torch, everywhere=bool(unsupported))
        converted: list[_ConvertedPartition] = []
        try:
            if not in_torch:
                return _compile_unpartitioned(placed, options, runner, static)
            partitioning = partition_graph(placed, in_torch)
            for each in _convert_partitions(placed, partitioning, options, static):
                converted.append(each)
        except OrtableError as error:
            strict = options.fallback == "error"
            if specialize(graph.module, error, options.verbose, must_convert=strict):
                graph = AotGraph(graph.module)  # some sizes are numbers now
                continue
            if strict or isinstance(error, OptionError | InputError | ProviderError):
                raise
            failed = partition_graph(placed, in_torch).partitions[len(converted)]
            found = culprits(error, failed.nodes, tried)
            unsupported |= {before[node]: why for node, why in found.items()}
            continue
        fell_back = {node for node in in_torch if before.get(node) in unsupported}
        placement = list_placements(placed.module, in_torch, fell_back)
        return _join(placed, options, runner, placement, partitioning, converted)


def _find_unsupported(graph: AotGraph, options: OrtOptions) -> dict[Node, str]:
    """The calls that torch runs because a search has switched their conversion off, or because they
    cannot be converted, with the reasons that are known before a conversion."""
    off = switched_off(graph)
    if options.fallback == "eager":
        return {**off, **unsupported_nodes(graph, options.raise_on)}
    refused = refused_error(graph.module, options.raise_on)
    if refused is not None:
        raise refused
    return off


def _compile_unpartitioned(
    graph: AotGraph, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Converts a graph that ONNX Runtime runs whole, prepares what runs it, and records both."""
    compiled = compile_cached(graph, options, static)
    placement = list_placements(graph.module, {})
    made = _make_callable(compiled, graph.module, options, runner, placement)
    tell_compiled(graph.kind, [compiled], [made], placement)
    report_strides([role.strides for role in compiled.outputs[: compiled.n_results]])
    return made


def _join(
    graph: AotGraph,
    options: OrtOptions,
    runner: Runner,
    placement: list[Placement],
    partitioning: Partitioning,
    converted: Sequence[_ConvertedPartition],
) -> Compiled:
    """The same for a graph of which torch runs a part: its partitions, which are converted, each
    with what runs it and a record."""
    host = HostGraph(partitioning.host, graph.kind, placement)
    text = None
    if graph.device == "cpu" and (options.cache_dir is not None or precompiles()):
        with contextlib.suppress(Unserializable):  # other processes trace again
            text = encode_host_graph(host, [each.partition.name for each in converted])
    conversions = {
        each.partition.name: (each.compiled, each.partition.graph.module) for each in converted
    }
    callables = _make_callables(host, conversions, graph.module, options, runner)
    output = graph.output.args[0]
    # the strides are those that were traced: partitions keep them, and so does torch
    report_strides([None] * (len(output) if isinstance(output, list | tuple) else 1))
    return join_partitions(host.graph, callables, graph.module, text)


@dataclass(frozen=True)
class _ConvertedPartition:
    """A partition and what it was converted to."""

    partition: Partition
    compiled: CompiledGraph


def _convert_partitions(
    graph: AotGraph, partitioning: Partitioning, options: OrtOptions, static: frozenset[int]
) -> Iterator[_ConvertedPartition]:
    """Converts the partitions, one at a step.  Arguments that the host graph writes are no
    constants there, and neither are those that an inference graph returns."""
    changed = {node.args[0] for node in graph.module.graph.nodes if graph.is_mutation(node)}
    if graph.kind == "inference":
        changed.update(graph.output.all_input_nodes)
    constant = {graph.inputs.nodes[index] for index in static} - changed
    for partition in partitioning.partitions:
        fixed = frozenset(i for i, node in enumerate(partition.inputs) if node in constant)
        compiled = compile_cached(partition.graph, options, fixed, whole=graph)
        yield _ConvertedPartition(partition, compiled)


def _make_callables(
    host: HostGraph,
    conversions: Mapping[str, tuple[CompiledGraph, GraphModule | None]],
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: Runner,
) -> dict[str, Compiled]:
    """What runs the partitions of a graph, by their names, made and recorded."""
    if options.verbose:
        print(f"[ortable] {host.kind} in {len(conversions)} partitions")
        print(report_placements(host.placement))
    warn_of_fallback(host.placement, options)
    if not conversions:  # nothing is left for ONNX Runtime: the record says so
        store(options.storage, record_of_torch(host.kind, graph_module, host.placement))
    made = {
        name: _make_callable(compiled, module, options, runner, host.placement)
        for name, (compiled, module) in conversions.items()
    }
    parts = [compiled for compiled, _ in conversions.values()]
    tell_compiled(host.kind, parts, list(made.values()), host.placement)
    return made


def load_compiled(
    conversions: Sequence[CompiledGraph],
    host: HostGraph | None,
    options: OrtOptions,
    runner: Runner,
) -> Compiled:
    """What runs a graph for the CPU that torch's cache named, recorded: nothing was traced.

    :param conversions: that of the graph, or those of its partitions
    :param host: the rest of it, where torch runs a part
    """
    options = replace(options, providers=options.providers or CPU)
    if host is None:
        made = _make_callable(conversions[0], None, options, runner, [])
        tell_compiled(conversions[0].kind, conversions, [made], [])
        return made
    named = {partition_name(index): (each, None) for index, each in enumerate(conversions)}
    return join_partitions(host.graph, _make_callables(host, named, None, options, runner))


def _make_callable(
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: Runner,
    placement: list[Placement],
) -> Compiled:
    """What runs a converted graph, made and recorded."""
    begin = time.perf_counter()
    compiled = replace(compiled, label=graph_label(compiled.kind))
    with timed("ortable.session"):
        callable_graph = runner(compiled, options)
    compiled.timings["session"] = time.perf_counter() - begin
    text = "(not traced: found in a cache)" if graph_module is None else str(graph_module.graph)
    path = dump_model(options.dump_prefix, compiled.model, text)
    attach = getattr(callable_graph, "attach", None)
    if attach is not None:  # the debug backend looks at the FX graph, and dumps inputs
        attach(graph_module, path)
    if options.verbose:
        print_report(compiled, options.verbose, text)
    if options.storage is not None:
        providers = provider_names(options.providers)
        record = record_of(compiled, graph_module, callable_graph, providers, placement)
        store(options.storage, record)
    return tune_part(callable_graph, compiled, graph_module, options)


def static_arguments(graph: AotGraph) -> frozenset[int]:
    """Positions of the arguments that are parameters and buffers, the same tensors at every call,
    as AOTAutograd knows them; none for a backward graph, and none inside a tensor subclass."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or graph.kind == "backward":
        return frozenset()
    tokens = len(getattr(metadata, "tokens", ()))  # effects' tokens are the first arguments
    # by torch, after the graph has run
    written = {index + tokens for index in metadata.mutated_inp_runtime_indices or ()}
    # torch counts the tokens here itself, in graphs without a backward
    counted = 0 if graph.kind == "inference" else tokens
    static = {index + counted for index in metadata.static_input_indices or ()}
    return frozenset(static - written) - inner_arguments(graph.module)


def report_strides(found: Sequence[tuple[int, ...] | None]) -> None:
    """Tells AOTAutograd the strides of results that differ from those it traced (None: they do
    not), so that the backward is compiled with the true ones, whoever compiles it.
    """
    context = TracingContext.try_get()
    strides = context.output_strides if context is not None else None
    if context is not None and strides is not None and not strides:
        # the tokens of effects come first, and are taken off before anybody counts
        tokens = len(getattr(context.fw_metadata, "tokens", ()))
        strides.extend(found[tokens:])
