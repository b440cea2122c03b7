"""Choose what is measured by option `autotune`: an inference graph of dynamo against itself in
eager, a training step likewise, and a forward or backward graph of AOTAutograd, or a partition
of one, against the same operators in torch.

torch gets a graph only unchanged: it must consist of operators whose results are those of
eager, on the CPU, where a call is over when it returns.
"""

from __future__ import annotations

import functools
import hashlib
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

from .autotuner import Autotuner, SizeSource, StepAutotuner
from .decisions import Decisions

_log = logging.getLogger(__name__)


class AutotunedGraph:
    """A graph of AOTAutograd, or a partition, that is measured.

    Called with a list of arguments, which it clears; returns a list of results. It has the
    attributes of what runs it with ONNX Runtime, as long as that exists, and always `compiled`.
    """

    def __init__(self, tuned: Autotuner, compiled: CompiledGraph) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs, copying `__dict__`
        self.compiled = compiled
        self.tuned = tuned

    def __repr__(self) -> str:
        return f"AutotunedGraph({self.tuned})"

    def __getattr__(self, name: str) -> Any:
        if name in ("frozen", "session", "held", "source"):
            return getattr(self.tuned.ort_run, name)
        raise AttributeError(name)

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.tuned.run(args)  # type: ignore[no-any-return]


def tune_part(
    backend: Any,
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    options: OrtOptions,
    whole: bool = False,
) -> Any:
    """Return `backend`, which runs a graph or a partition with ONNX Runtime, or an AutotunedGraph.

    Args:
        whole: also measure a graph for inference, which is otherwise left to `tune_whole`.
    """
    if graph_module is None or options.autotune is not True or not _is_measurable([compiled]):
        return backend
    if not compiled.is_partition and compiled.kind == "inference" and not whole:
        return backend
    if not _has_operators_only(graph_module):
        return backend
    tuned = Autotuner(
        backend,
        functools.partial(_make_with_declared_layout, graph_module, compiled),
        Decisions([_part_key(compiled, options)], options.cache_dir),
        sizes=[(source.index, source.axis) for source in compiled.sources.values()],
        boxed=True,
        settle=_settle_seconds(compiled.kind != "inference"),
        label=f"{'a partition of ' if compiled.is_partition else ''}{compiled.label}",
    )
    _add_to_storage(tuned, options)
    return AutotunedGraph(tuned, compiled)


def tune_whole(
    run: Callable[..., Any],
    graph_module: GraphModule,
    args: Sequence[Any],
    callables: Sequence[Any],
    options: OrtOptions,
) -> Callable[..., Any]:
    """Return `run`, or what measures it against the graph of dynamo in eager.

    It measures graphs that train, and those of which AOTAutograd made a single inference graph.

    Args:
        args: those that the graph is compiled for.
        callables: what runs the graphs of AOTAutograd; a backward graph may come later.
    """
    parts = [part.compiled for part in _ort_callables(callables)]
    if options.autotune is not True or not parts or not _is_measurable(parts):
        return run
    trains = any(part.kind != "inference" for part in parts)
    whole = trains or (
        len(callables) == 1 and len(parts) == len(list(_flatten_callables(callables)))
    )
    if not whole or not _has_operators_only(graph_module):
        return run
    keys = [_part_key(part, options) for part in parts]
    tuned = (StepAutotuner if trains else Autotuner)(
        run,
        functools.partial(make_eager_callable, graph_module),
        Decisions([*keys, _graph_digest(graph_module, args)], options.cache_dir),
        sizes=list(_size_sources(args)),
        inner=lambda: [
            part.tuned for part in _ort_callables(callables) if isinstance(part, AutotunedGraph)
        ],
        settle=_settle_seconds(trains),
        label=f"a step of {parts[0].label}" if trains else parts[0].label,
    )
    _add_to_storage(tuned, options)
    return tuned.make_caller()


def _flatten_callables(callables: Sequence[Any]) -> Iterator[Any]:
    """Yield what runs the graphs, or their partitions."""
    for run in callables:
        yield from getattr(run, "partitions", (run,))


def _ort_callables(callables: Sequence[Any]) -> Iterator[Any]:
    """Return those of `_flatten_callables` that ONNX Runtime runs."""
    return (run for run in _flatten_callables(callables) if hasattr(run, "compiled"))


def pin_to_torch(graph_module: GraphModule) -> Callable[..., Any]:
    """Return a graph of dynamo as torch runs it, because option `autotune` is "torch"."""
    _log.info("autotune: torch runs a graph of %d nodes: pinned", len(graph_module.graph.nodes))
    return make_eager_callable(graph_module)


def make_eager_callable(graph_module: GraphModule) -> Callable[..., Any]:
    """Return a graph of dynamo as a function.

    Its own `forward` may be one that generates the code when called, and checks for that at every
    call.
    """
    forward: Callable[..., Any] = GraphModule(graph_module, graph_module.graph).forward
    return forward


def _add_to_storage(tuned: Autotuner, options: OrtOptions) -> None:
    if options.storage is not None:
        options.storage.setdefault("autotune", []).append(tuned)


def _settle_seconds(trains: bool) -> float:
    """How many seconds threads may wait for work after a call.

    A single thread does not wait for others; those of the optimizer wait in every training step.
    """
    return 0.0 if trains or torch.get_num_threads() == 1 else SETTLE


def _is_measurable(parts: Sequence[CompiledGraph]) -> bool:
    """Whether calls have real tensors, return when they are over, and run in a single process."""
    context = TracingContext.try_get()
    if context is not None and context.fakify_first_call:
        return False
    return all(part.device == "cpu" for part in parts) and not is_distributed()


def _has_operators_only(graph_module: GraphModule) -> bool:
    """Whether a graph calls no other graph, and no operator with random numbers drawn for it.

    torch may want to compile the former itself, and its own operators do not take the latter.
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


def _part_key(compiled: CompiledGraph, options: OrtOptions) -> str | None:
    return session_key(compiled, options, "autotune", compiled.kind, compiled.is_partition)


def _graph_digest(graph_module: GraphModule, args: Sequence[Any]) -> str:
    """Digest the code of a graph and the types and static sizes of its arguments."""
    descriptions = [
        (str(arg.dtype), [size if isinstance(size, int) else None for size in arg.shape])
        if isinstance(arg, torch.Tensor)
        else type(arg).__name__
        for arg in args
    ]
    return hashlib.sha256(f"{graph_module.code} {descriptions}".encode()).hexdigest()


def _size_sources(args: Sequence[Any]) -> Iterator[SizeSource]:
    """Find the dynamic sizes among the arguments, each once."""
    seen: set[str] = set()

    def is_new(size: Any) -> bool:
        text = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
        is_unseen = bool(text) and text not in seen
        seen.add(text)
        return is_unseen

    for at, arg in enumerate(args):
        if is_new(arg):
            yield at, None
        elif isinstance(arg, torch.Tensor):
            yield from ((at, axis) for axis, size in enumerate(arg.shape) if is_new(size))


def make_torch_callable(graph_module: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """Return a graph of AOTAutograd as a callable of its arguments in one list, which it clears."""
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    host = partition_graph(AotGraph(graph_module), calls).host
    return join_partitions(host, {}, graph_module)


def _make_with_declared_layout(
    graph_module: GraphModule, compiled: CompiledGraph
) -> Callable[..., Any]:
    """Return the torch callable with results that alias and lie in memory as ONNX Runtime's do.

    The graphs around are compiled for that.
    """
    run = make_torch_callable(graph_module)
    repairs = list(_find_layout_repairs(graph_module, compiled))
    if not repairs:
        return run

    def call(args: list[Any]) -> list[Any]:
        results = list(run(args))
        for index, viewed, strides in repairs:
            result = results[index]
            if strides is not None and result.stride() != strides:
                results[index] = with_strides(result, strides)
            elif viewed:
                results[index] = as_non_view(result)
        return results

    return call


def _find_layout_repairs(
    graph_module: GraphModule, compiled: CompiledGraph
) -> Iterator[tuple[int, bool, tuple[int, ...] | None]]:
    """Find results that torch returns as views and ORT does not, and those with other strides.

    AOTAutograd was told the latter.
    """
    shared = Counter(role.fetch for role in compiled.outputs)
    nodes = graph_module.graph.output_node().args[0]
    for role in compiled.outputs[: compiled.n_results]:
        node = nodes[role.index]  # type: ignore[index]
        alone = role.alone or (role.kind is OutputRoleKind.TENSOR and shared[role.fetch] == 1)
        viewed = alone and isinstance(node, Node) and is_view(node)
        if viewed or role.strides is not None:
            yield role.index, viewed, role.strides
