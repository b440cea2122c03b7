"""What is measured: a graph of dynamo compiled for inference, whole, against itself, which is
eager, and one that trains, a step of it; a forward or backward graph of AOTAutograd, or a partition
of one, against the same operators in torch.

Torch gets a graph only as it is: with operators alone, whose results are those of eager, and on
the CPU, where a call is over when it returns."""

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
from ortable.backend.execute.results import own
from ortable.backend.execute.runner import is_one_of_several_processes
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

from .decisions import Decisions
from .tuned import SizeSource, Tuned, TunedStep

_log = logging.getLogger(__name__)


class TunedGraph:
    """A graph of AOTAutograd, or a partition, that is measured. Called with a list of arguments,
    which it clears; returns a list of results.  It has the attributes of what runs it with ONNX
    Runtime, as long as that is there, and `compiled` for ever."""

    def __init__(self, tuned: Tuned, compiled: CompiledGraph) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs, copying `__dict__`
        self.compiled = compiled
        self.tuned = tuned

    def __repr__(self) -> str:
        return f"TunedGraph({self.tuned})"

    def __getattr__(self, name: str) -> Any:
        if name in ("frozen", "session", "held", "source"):
            return getattr(self.tuned.ours, name)
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
    """What runs a forward or backward graph, or a partition: `backend`, which runs it with ONNX
    Runtime, or a TunedGraph.

    :param whole: also a graph for inference, which is otherwise left to `tune_whole`
    """
    if graph_module is None or options.autotune is not True or not _is_measurable([compiled]):
        return backend
    if not compiled.is_partition and compiled.kind == "inference" and not whole:
        return backend
    if not _has_operators_only(graph_module):
        return backend
    tuned = Tuned(
        backend,
        functools.partial(_as_promised, graph_module, compiled),
        Decisions([_key(compiled, options)], options.cache_dir),
        sizes=[(each.index, each.axis) for each in compiled.sources.values()],
        boxed=True,
        settle=_settle(compiled.kind != "inference"),
        label=f"{'a partition of ' if compiled.is_partition else ''}{compiled.label}",
    )
    _tell(tuned, options)
    return TunedGraph(tuned, compiled)


def tune_whole(
    run: Callable[..., Any],
    graph_module: GraphModule,
    args: Sequence[Any],
    made: Sequence[Any],
    options: OrtOptions,
) -> Callable[..., Any]:
    """What dynamo calls: `run`, or what measures it against the graph of dynamo, where that trains,
    and where all that AOTAutograd made of it is one graph for inference.

    :param args: those that the graph is compiled for
    :param made: what runs the graphs of AOTAutograd; a backward graph may come later
    """
    parts = [part.compiled for part in _parts(made)]
    if options.autotune is not True or not parts or not _is_measurable(parts):
        return run
    trains = any(part.kind != "inference" for part in parts)
    whole = trains or (len(made) == 1 and len(parts) == len(list(_callables(made))))
    if not whole or not _has_operators_only(graph_module):
        return run
    keys = [_key(part, options) for part in parts]
    tuned = (TunedStep if trains else Tuned)(
        run,
        functools.partial(in_eager, graph_module),
        Decisions([*keys, _digest(graph_module, args)], options.cache_dir),
        sizes=list(_size_sources(args)),
        inner=lambda: [part.tuned for part in _parts(made) if isinstance(part, TunedGraph)],
        settle=_settle(trains),
        label=f"a step of {parts[0].label}" if trains else parts[0].label,
    )
    _tell(tuned, options)
    return tuned.caller()


def _callables(made: Sequence[Any]) -> Iterator[Any]:
    """What runs the graphs, or their partitions."""
    for each in made:
        yield from getattr(each, "partitions", (each,))


def _parts(made: Sequence[Any]) -> Iterator[Any]:
    """Those of `_callables` that ONNX Runtime runs."""
    return (each for each in _callables(made) if hasattr(each, "compiled"))


def pinned(graph_module: GraphModule) -> Callable[..., Any]:
    """A graph of dynamo that torch runs because option `autotune` says so."""
    _log.info("autotune: torch runs a graph of %d nodes: pinned", len(graph_module.graph.nodes))
    return in_eager(graph_module)


def in_eager(graph_module: GraphModule) -> Callable[..., Any]:
    """A graph of dynamo as a function. Its own `forward` may be one that makes the code when it is
    called, and checks for that at every call."""
    forward: Callable[..., Any] = GraphModule(graph_module, graph_module.graph).forward
    return forward


def _tell(tuned: Tuned, options: OrtOptions) -> None:
    if options.storage is not None:
        options.storage.setdefault("autotune", []).append(tuned)


def _settle(trains: bool) -> float:
    """How long threads may wait for work after a call. One thread waits for nobody; and those of
    the optimizer wait beside every step that trains."""
    return 0.0 if trains or torch.get_num_threads() == 1 else SETTLE


def _is_measurable(parts: Sequence[CompiledGraph]) -> bool:
    """Whether a call is over when it returns, is one with real tensors, and the decision is that of
    one process."""
    context = TracingContext.try_get()
    if context is not None and context.fakify_first_call:
        return False
    return all(part.device == "cpu" for part in parts) and not is_one_of_several_processes()


def _has_operators_only(graph_module: GraphModule) -> bool:
    """Whether a graph calls no other graph, which torch may want to compile by itself, and no
    operator with numbers that were drawn for it, which torch's own does not take."""
    return not any(
        isinstance(node.target, HigherOrderOperator)
        or "drawn" in node.kwargs
        or (node.op == "get_attr" and isinstance(_constant(graph_module, node), GraphModule))
        or (node.op == "call_module" and isinstance(_constant(graph_module, node), GraphModule))
        for node in graph_module.graph.nodes
    )


def _constant(graph_module: GraphModule, node: Node) -> Any:
    return find_attribute(graph_module, str(node.target), None)


def _key(compiled: CompiledGraph, options: OrtOptions) -> str | None:
    return session_key(compiled, options, "autotune", compiled.kind, compiled.is_partition)


def _digest(graph_module: GraphModule, args: Sequence[Any]) -> str:
    """A text for the code of a graph and for what is known of its arguments."""
    known = [
        (str(arg.dtype), [size if isinstance(size, int) else None for size in arg.shape])
        if isinstance(arg, torch.Tensor)
        else type(arg).__name__
        for arg in args
    ]
    return hashlib.sha256(f"{graph_module.code} {known}".encode()).hexdigest()


def _size_sources(args: Sequence[Any]) -> Iterator[SizeSource]:
    """Where the sizes are found among arguments that differ between calls, each once."""
    seen: set[str] = set()

    def is_new(size: Any) -> bool:
        text = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
        found = bool(text) and text not in seen
        seen.add(text)
        return found

    for at, arg in enumerate(args):
        if is_new(arg):
            yield at, None
        elif isinstance(arg, torch.Tensor):
            yield from ((at, axis) for axis, size in enumerate(arg.shape) if is_new(size))


def in_torch(graph_module: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """A graph of AOTAutograd as a callable of its arguments in one list, which it clears."""
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    host = partition_graph(AotGraph(graph_module), calls).host
    return join_partitions(host, {}, graph_module)


def _as_promised(graph_module: GraphModule, compiled: CompiledGraph) -> Callable[..., Any]:
    """`in_torch` with results that alias and lie as those of ONNX Runtime do: the graphs around are
    compiled for that."""
    run = in_torch(graph_module)
    repairs = list(_repairs(graph_module, compiled))
    if not repairs:
        return run

    def call(args: list[Any]) -> list[Any]:
        results = list(run(args))
        for index, viewed, strides in repairs:
            result = results[index]
            if strides is not None and result.stride() != strides:
                results[index] = with_strides(result, strides)
            elif viewed:
                results[index] = own(result)
        return results

    return call


def _repairs(
    graph_module: GraphModule, compiled: CompiledGraph
) -> Iterator[tuple[int, bool, tuple[int, ...] | None]]:
    """The results that torch makes as views, and that are none for whoever gets them; and those of
    which AOTAutograd was told other strides than it traced."""
    shared = Counter(role.fetch for role in compiled.outputs)
    nodes = graph_module.graph.output_node().args[0]
    for role in compiled.outputs[: compiled.n_results]:
        node = nodes[role.index]  # type: ignore[index]
        alone = role.alone or (role.kind is OutputRoleKind.TENSOR and shared[role.fetch] == 1)
        viewed = alone and isinstance(node, Node) and is_view(node)
        if viewed or role.strides is not None:
            yield role.index, viewed, role.strides
