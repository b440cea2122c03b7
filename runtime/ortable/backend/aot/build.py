"""One graph of AOTAutograd to what runs it: converted, given to a runner, recorded.
Everything between the wiring (who calls) and the call path (what runs) goes through here."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from onnx import ModelProto, printer
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

from ortable.backend.cache.codec import Unserializable
from ortable.backend.cache.conversion import compile_cached
from ortable.backend.execute.shards import inner_arguments
from ortable.backend.execute.storage import dump_model, store
from ortable.backend.lower.outputs import graph_kind
from ortable.backend.lower.undecompose import recompose
from ortable.backend.options import OrtOptions
from ortable.backend.partition.absorb_small import with_islands
from ortable.backend.partition.fallback import (
    culprits,
    missing_error,
    refused_error,
    unsupported_nodes,
)
from ortable.backend.partition.partition import Split
from ortable.backend.partition.partitioned_graph import Part, convert_parts, cut, join_parts
from ortable.backend.partition.placement import Placed, place, placements, report
from ortable.backend.partition.specialize import specialize
from ortable.backend.roles import CompiledGraph, OutputKind
from ortable.backend.sessions.devices import CPU, graph_device, resolve
from ortable.backend.sessions.session import provider_names
from ortable.errors import InputError, OptionError, OrtableError, ProviderError

from .host_graph import Outer, describe, region_name

__all__ = ["Compiled", "Runner", "compile_one", "load"]

Compiled = Callable[..., Any]
Runner = Callable[[CompiledGraph, OrtOptions], Compiled]


def compile_one(graph_module: GraphModule, options: OrtOptions, runner: Runner) -> Compiled:
    """Compiles one graph of AOTAutograd: what it returns takes a list of arguments, clears it, and
    returns a list of results.

    An error in a backward graph is raised when that graph runs: torch compiles some before anybody
    asks for gradients, and logs what that raises with all its frames.
    """
    try:
        return compile_whole(graph_module, options, runner)
    except OrtableError as error:
        if graph_kind(graph_module) != "backward":
            raise
        return _failing(error, options.verbose)


def _failing(error: OrtableError, verbose: int) -> Compiled:
    """A compiled graph that raises `error`; without the account of the builder, unless asked."""
    text = str(error) if verbose > 1 else str(error).partition("\n--DEBUG--")[0]

    def fail(args: list[Any]) -> list[Any]:
        raised = copy.copy(error)
        raised.args = (f"The backward of this graph cannot be compiled. {text}",)
        raise raised.with_traceback(None) from None

    fail._boxed_call = True  # type: ignore[attr-defined]
    return fail


def compile_whole(graph_module: GraphModule, options: OrtOptions, runner: Runner) -> Compiled:
    """The same, with every error raised at once."""
    # AOTAutograd's fake mode is on, and the constants of the graph are real tensors.
    static = static_arguments(graph_module)
    options = resolve(graph_module, options)
    with unset_fake_temporarily():
        recompose(graph_module)
        if options.fallback is not None:
            return compile_with_fallback(graph_module, options, runner, static)
        refused = refused_error(graph_module, options.raise_on)
        if refused is not None:
            raise refused
        while True:
            try:
                return compile_placed(graph_module, options, runner, static)
            except OrtableError as error:
                if not specialize(graph_module, error, options.verbose):
                    raise


def compile_placed(
    graph_module: GraphModule, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Compiles a graph of which torch runs what the specs place there."""
    graph_module, in_torch, _ = place(graph_module)
    if not in_torch:
        return compile_region(graph_module, options, runner, static)
    error = missing_error(graph_module, in_torch)
    if error is not None:
        raise error  # one for all regions
    in_torch = with_islands(graph_module, in_torch)
    cuts = cut(graph_module, in_torch)
    parts = list(convert_parts(graph_module, cuts, options, static))
    return run_mixed(graph_module, options, runner, in_torch, cuts, parts)


def compile_with_fallback(
    graph_module: GraphModule, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Compiles what can be, and leaves the rest to torch.  A node whose conversion fails changes
    sides, and the graph is cut anew: each round takes at least one node away from ONNX Runtime."""
    left = unsupported_nodes(graph_module, options.raise_on)
    tried: dict[str, int] = {}
    while True:
        graph, in_torch, before = place(graph_module, left)
        in_torch = with_islands(graph, in_torch, everywhere=True)
        parts: list[Part] = []
        cuts = cut(graph, in_torch)
        try:
            if not in_torch:
                return compile_region(graph, options, runner, static)
            for part in convert_parts(graph, cuts, options, static):
                parts.append(part)
            return run_mixed(graph, options, runner, in_torch, cuts, parts)
        except (OptionError, InputError, ProviderError):
            raise
        except OrtableError as error:
            if len(parts) == len(cuts.regions):
                raise  # all are converted: a session cannot be made
            found = culprits(error, cuts.regions[len(parts)].nodes, tried)
            left |= {before[node]: why for node, why in found.items()}


def compile_region(
    graph_module: GraphModule, options: OrtOptions, runner: Runner, static: frozenset[int]
) -> Compiled:
    """Converts a graph that ONNX Runtime runs whole, prepares what runs it, and records both.

    :param static: positions of arguments that are parameters or buffers
    """
    compiled = compile_cached(graph_module, options, static)
    made = _finished(compiled, graph_module, options, runner, placements(graph_module, {}))
    report_strides([role.strides for role in compiled.outputs[: compiled.n_results]])
    return made


def run_mixed(
    graph_module: GraphModule,
    options: OrtOptions,
    runner: Runner,
    in_torch: Mapping[Node, str],
    cuts: Split,
    parts: Sequence[Part],
) -> Compiled:
    """The same for a graph of which torch runs the nodes `in_torch` (with reasons): its regions,
    which are converted, each with what runs it and a record."""
    outer = Outer(cuts.outer, graph_kind(graph_module), placements(graph_module, in_torch))
    text = None
    if options.cache_dir is not None and graph_device(graph_module) == "cpu":
        with contextlib.suppress(Unserializable):  # other processes trace again
            text = describe(outer, [part.region.name for part in parts])
    found = {part.region.name: (part.compiled, part.region.module) for part in parts}
    callables = _regions(outer, found, graph_module, options, runner)
    output = graph_module.graph.output_node().args[0]
    # the strides are those that were traced: regions keep them, and so does torch
    report_strides([None] * (len(output) if isinstance(output, list | tuple) else 1))
    return join_parts(outer.graph, callables, graph_module, text)


def _regions(
    outer: Outer,
    found: Mapping[str, tuple[CompiledGraph, GraphModule | None]],
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: Runner,
) -> dict[str, Compiled]:
    """What runs the regions of a graph, by their names, made and recorded.

    :param found: their conversions and graphs
    :param graph_module: the graph; None where it was not traced
    """
    if options.verbose:
        print(f"[ortable] {outer.kind} in {len(found)} regions")
        print(report(outer.placed))
    if not found:  # nothing is left for ONNX Runtime: the record says so
        record = _torch_record(outer.kind, graph_module)
        store(options.storage, {**record, "placement": outer.placed})
    return {
        name: _finished(compiled, module, options, runner, outer.placed)
        for name, (compiled, module) in found.items()
    }


def load(
    found: Sequence[CompiledGraph], outer: Outer | None, options: OrtOptions, runner: Runner
) -> Compiled:
    """What runs a graph for the CPU that torch's cache named, recorded: nothing was traced.

    :param found: its conversion, or those of its regions
    :param outer: the rest of it, where torch runs a part
    """
    options = replace(options, providers=options.providers or CPU)
    if outer is None:
        return _finished(found[0], None, options, runner, [])
    named = {region_name(index): (each, None) for index, each in enumerate(found)}
    return join_parts(outer.graph, _regions(outer, named, None, options, runner))


def _finished(
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    options: OrtOptions,
    runner: Runner,
    placed: list[Placed],
) -> Compiled:
    """What runs a converted graph, made and recorded."""
    begin = time.perf_counter()
    callable_graph = runner(compiled, options)
    compiled.timings["session"] = time.perf_counter() - begin
    text = "(not traced: found in a cache)" if graph_module is None else str(graph_module.graph)
    path = dump_model(options.dump_prefix, compiled.model, text)
    attach = getattr(callable_graph, "attach", None)
    if attach is not None:  # the debug backend looks at the FX graph, and dumps inputs
        attach(graph_module, path)
    if options.verbose:
        _report(compiled, options.verbose, text)
    if options.storage is not None:
        record = _record(compiled, graph_module, callable_graph, options)
        store(options.storage, {**record, "placement": placed})
    return callable_graph


def static_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments that are parameters and buffers, the same tensors at every call,
    as AOTAutograd knows them; none for a backward graph, and none inside a tensor subclass."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or graph_kind(graph_module) == "backward":
        return frozenset()
    tokens = len(getattr(metadata, "tokens", ()))  # effects' tokens are the first arguments
    # by torch, after the graph has run
    written = {index + tokens for index in metadata.mutated_inp_runtime_indices or ()}
    # torch counts the tokens here itself, in graphs without a backward
    counted = 0 if graph_kind(graph_module) == "inference" else tokens
    static = {index + counted for index in metadata.static_input_indices or ()}
    return frozenset(static - written) - inner_arguments(graph_module)


def report_strides(found: Sequence[tuple[int, ...] | None]) -> None:
    """Tells AOTAutograd the strides of results that differ from those it traced (None: they do
    not), so that the backward is compiled with the true ones, whoever compiles it.
    """
    context = torch._guards.TracingContext.try_get()
    strides = context.output_strides if context is not None else None
    if context is not None and strides is not None and not strides:
        # the tokens of effects come first, and are taken off before anybody counts
        tokens = len(getattr(context.fw_metadata, "tokens", ()))
        strides.extend(found[tokens:])


def _record(
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    callable_graph: Any,
    options: OrtOptions,
) -> dict[str, Any]:
    """What `storage["instance"]` receives for one graph."""
    model = ModelProto()
    model.CopyFrom(compiled.model)  # the caller's own: conversions are shared
    session = getattr(callable_graph, "session", None)
    names = list(provider_names(options.providers))
    return {
        "kind": compiled.kind,
        "onnx": model,
        "providers": names if session is None else session.get_providers(),
        "graph_module": graph_module,
        "inputs": list(compiled.inputs),
        "outputs": list(compiled.outputs[: compiled.n_results]),
        "mutations": list(compiled.mutations),
        "frozen": getattr(callable_graph, "frozen", "not run by ONNX Runtime"),
        "timings": dict(compiled.timings),
        "rewrites": dict(compiled.rewrites),
        "refused": {rule: dict(reasons) for rule, reasons in compiled.refused.items()},
        "cache": compiled.cache,
    }


def _torch_record(kind: str, graph_module: GraphModule | None) -> dict[str, Any]:
    """What `storage["instance"]` receives for a graph that torch runs whole."""
    return {
        "kind": kind,
        "onnx": None,
        "providers": [],
        "graph_module": graph_module,
        "inputs": [],
        "outputs": [],
        "mutations": [],
        "frozen": "not run by ONNX Runtime",
        "timings": {},
        "rewrites": {},
        "refused": {},
        "cache": "disk" if graph_module is None else "miss",
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
