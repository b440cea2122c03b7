"""Select the graphs that option `autotune` measures, and create their other candidates.

An inference graph of dynamo and a training step are measured against the same graph in eager and,
with option `torch_regions`, compiled by inductor. A forward or backward graph of AOTAutograd, or a
partition, is measured against torch's run of its operators.
A graph is measured only if torch can run it unchanged with the results of eager, and on the CPU,
where a call is complete when it returns.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.cache.keys import session_key
from ortable.backend.execute.results import as_non_view
from ortable.backend.execute.runner import is_distributed
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.strides import with_strides
from ortable.backend.lower.views import is_view
from ortable.backend.options import OrtOptions
from ortable.backend.partition.host_graph import join_partitions
from ortable.backend.partition.partition import partition_graph
from ortable.backend.roles import CompiledGraph, OutputRoleKind
from ortable.backend.timing import SETTLE
from ortable.compat.torch import HigherOrderOperator, TracingContext
from ortable.interpreter.modules import find_attribute

from .autotuner import Autotuner
from .decisions import Decisions

_log = logging.getLogger(__name__)


class AutotunedGraph:
    """A measured graph of AOTAutograd, or a measured partition.

    A call takes a list of arguments, clears it and returns a list of results. The attributes
    `frozen`, `session`, `held` and `source` are those of the callable that runs the graph with ONNX
    Runtime; they do not exist once torch is kept.
    """

    def __init__(self, tuned: Autotuner, compiled: CompiledGraph) -> None:
        self._boxed_call = True  # an instance attribute, because dynamo copies `__dict__`
        self.compiled = compiled
        self.tuned = tuned

    def __repr__(self) -> str:
        return f"AutotunedGraph({self.tuned})"

    def __getattr__(self, name: str) -> Any:
        if name in ("frozen", "session", "held", "source"):
            return getattr(self.tuned.ort_run, name)
        raise AttributeError(name)

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run one candidate and clear the list of arguments."""
        return self.tuned.run(args)  # type: ignore[no-any-return]


def autotune_partition(
    backend: Any,
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    options: OrtOptions,
    whole: bool = False,
) -> Any:
    """Return an AutotunedGraph of `backend` and torch, or `backend` if it is not measured.

    Args:
        backend: runs a graph or a partition with ONNX Runtime.
        compiled: its conversion.
        graph_module: its FX graph, or None if nothing was traced.
        options: the options of the backend.
        whole: also measure an inference graph, which `autotune_graph` measures otherwise.
    """
    if graph_module is None or options.autotune is not True or not is_measurable([compiled]):
        return backend
    if not compiled.is_partition and compiled.kind == "inference" and not whole:
        return backend
    if not has_operators_only(graph_module):
        return backend
    tuned = Autotuner(
        backend,
        {"torch": functools.partial(_make_with_declared_layout, graph_module, compiled)},
        Decisions([part_key(compiled, options)], options.cache_dir),
        sizes=[(source.index, source.axis) for source in compiled.sources.values()],
        boxed=True,
        settle=settle_seconds(compiled.kind != "inference"),
        label=f"{'a partition of ' if compiled.is_partition else ''}{compiled.label}",
    )
    add_to_storage(tuned, options)
    return AutotunedGraph(tuned, compiled)


def run_entirely_in_torch(graph_module: GraphModule) -> Callable[..., Any]:
    """Return a graph of dynamo as torch runs it, because option `autotune` is "torch"."""
    _log.info("autotune: torch runs a graph of %d nodes", len(graph_module.graph.nodes))
    return make_eager_callable(graph_module)


def make_eager_callable(graph_module: GraphModule) -> Callable[..., Any]:
    """Return a graph of dynamo as a function.

    A new GraphModule is created, because the given one may generate its code lazily, with a check
    at every call.
    """
    forward: Callable[..., Any] = GraphModule(graph_module, graph_module.graph).forward
    return forward


def add_to_storage(tuned: Autotuner, options: OrtOptions) -> None:
    """Append an autotuner to the records of option `storage`, if it is set."""
    if options.storage is not None:
        options.storage.setdefault("autotune", []).append(tuned)


def settle_seconds(trains: bool) -> float:
    """Return the seconds for which threads may wait for work after a call.

    The result is 0 for a single thread, which waits for no other, and for training, where the
    threads of the optimizer wait in every step anyway.
    """
    return 0.0 if trains or torch.get_num_threads() == 1 else SETTLE


def is_measurable(parts: Sequence[CompiledGraph]) -> bool:
    """Whether calls have real tensors, are complete when they return, and run in one process."""
    context = TracingContext.try_get()
    if context is not None and context.fakify_first_call:
        return False
    return all(part.device == "cpu" for part in parts) and not is_distributed()


def has_operators_only(graph_module: GraphModule) -> bool:
    """Whether a graph calls no other graph, and no operator with random numbers as inputs.

    torch may compile a called graph itself, and torch's operators take no drawn numbers as input.
    """
    return not any(
        isinstance(node.target, HigherOrderOperator)
        or "drawn" in node.kwargs
        or (node.op == "get_attr" and isinstance(_find_constant(graph_module, node), GraphModule))
        or (
            node.op == "call_module" and isinstance(_find_constant(graph_module, node), GraphModule)
        )
        for node in graph_module.graph.nodes
    )


def _find_constant(graph_module: GraphModule, node: Node) -> Any:
    return find_attribute(graph_module, str(node.target), None)


def part_key(compiled: CompiledGraph, options: OrtOptions) -> str | None:
    """Return the key of a graph's decision, or None if its session has no key."""
    return session_key(compiled, options, "autotune", compiled.kind, compiled.is_partition)


def make_torch_callable(graph_module: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """Return a graph of AOTAutograd as a callable that takes a list of arguments and clears it."""
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    host = partition_graph(AotGraph(graph_module), calls).host
    return join_partitions(host, {}, graph_module)


def _make_with_declared_layout(
    graph_module: GraphModule, compiled: CompiledGraph
) -> Callable[..., Any]:
    """Return the torch callable, whose results get the strides and aliasing of ONNX Runtime's.

    AOTAutograd compiled the neighboring graphs for these strides and aliases.
    """
    run = make_torch_callable(graph_module)
    repairs = list(_find_layout_repairs(graph_module, compiled))
    if not repairs:
        return run

    def call(args: list[Any]) -> list[Any]:
        results = list(run(args))
        for index, is_view_result, strides in repairs:
            result = results[index]
            if strides is not None and result.stride() != strides:
                results[index] = with_strides(result, strides)
            elif is_view_result:
                results[index] = as_non_view(result)
        return results

    return call


def _find_layout_repairs(
    graph_module: GraphModule, compiled: CompiledGraph
) -> Iterator[tuple[int, bool, tuple[int, ...] | None]]:
    """Find results that only torch returns as views, and results with non-traced strides.

    The non-traced strides were reported to AOTAutograd.
    """
    fetch_counts = Counter(role.fetch for role in compiled.outputs)
    nodes = graph_module.graph.output_node().args[0]
    for role in compiled.outputs[: compiled.n_results]:
        node = nodes[role.index]  # type: ignore[index]
        owns_memory = role.alone or (
            role.kind is OutputRoleKind.TENSOR and fetch_counts[role.fetch] == 1
        )
        is_view_result = owns_memory and isinstance(node, Node) and is_view(node)
        if is_view_result or role.strides is not None:
            yield role.index, is_view_result, role.strides
