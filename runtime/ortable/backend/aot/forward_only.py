"""Run forward graphs as inference graphs while nobody differentiates their results, as for a
module in eval mode that is called with gradients enabled.

A graph that may be differentiated returns what its backward needs, and takes its weights as
inputs. When the first calls show that no backward comes (the graph of autograd was freed and
never ran), later calls run the inference graph, with weights as constants of the session. Their
results can still be differentiated: the backward then runs the forward graph first, on the same
arguments. It does that once: from then on the forward graph runs at every call.
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import Function
from torch.fx import Graph, GraphModule, Node

from ortable.backend.autotune.graphs import make_eager_callable
from ortable.backend.execute.runner import is_distributed
from ortable.backend.execute.weights import weight_signature
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.placement import is_ordered
from ortable.compat.bisector import is_searching
from ortable.compat.torch import saved_tensors_hooks
from ortable.errors import OrtableError
from ortable.interpreter.assertions import run_time_checks

from .build import compile_at_once, static_arguments
from .compilation import Compilation
from .skip_aot_wrapper import is_idle

_log = logging.getLogger(__name__)
_WEIGHT_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: a weight of a graph compiled by ortable, whose backward computes the forward "
    "again. Run the backward before you change weights, or compile with options={'freeze': 'off'}."
)
_MIN_DROPPED_CALLS = 3  # calls in a row whose results were dropped without a backward

Run = Callable[..., Any]
MakeInference = Callable[[AotGraph], Callable[[list[Any]], Any]]


@dataclass(frozen=True, eq=False)
class ForwardGraph:
    """A compiled forward graph, its callable, and AOTAutograd's metadata.

    `make` compiles it for inference, `static` are positions of its parameters and buffers.
    """

    graph: AotGraph
    run: Any
    metadata: Any
    make: MakeInference
    static: frozenset[int] = frozenset()


def note_forward_graph(
    compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]
) -> None:
    """Store what `watch_gradients` needs of the forward graph that was compiled last."""
    graph, (compiled, metadata) = AotGraph(graph_module), compilation.compiled[-1]
    whole = hasattr(compiled, "compiled") or hasattr(compiled, "partitions")
    if graph.kind == "forward" and whole:
        static = static_arguments(graph)
        again = functools.partial(
            compile_at_once, options=compilation.options, runner=compilation.runner, static=static
        )
        forward = ForwardGraph(graph, compiled, metadata, again, static)
        compilation.forwards.append(forward)


def run_in_eager(compilation: Compilation, call: Run) -> Run:
    """Return the graph in eager, with eager's backward, where no operator of it is worth a
    session.
    """
    in_search = bool(compilation.options.raise_on) or is_searching("lowerings")  # of what each does
    callables = compilation.callables
    if (
        in_search
        or not callables
        or any(getattr(run, "partitions", None) != () for run in callables)
    ):
        return call
    return make_eager_callable(compilation.graph_module)


def watch_gradients(compilation: Compilation, run: Run) -> Run:
    """Return `run`, or a callable that also observes whether its results are differentiated."""
    forwards, count = compilation.forwards, len(compilation.args)
    if not compilation.is_native or len(forwards) != 1 or compilation.options.freeze != "auto":
        return run
    forward = forwards.pop()  # the step alone holds it: sessions go with it
    compiled = getattr(forward.run, "compiled", None)
    if compiled is not None and compiled.is_partition:
        return run
    graph, nodes = forward.graph, forward.graph.module.graph.nodes
    if graph.device != "cpu" or any(is_ordered(node) for node in nodes):
        return run
    if len(graph.inputs.nodes) != count or any(graph.is_mutation(node) for node in nodes):
        return run
    if not is_idle(forward.metadata, count, check_dynamic_outputs=False):
        return run
    if any(True for _ in run_time_checks(forward.graph.module.graph)):
        return run
    results = forward.metadata.output_info
    tensors = all(issubclass(info.raw_type, torch.Tensor) for info in results)
    if not tensors or not any(info.requires_grad for info in results):
        return run
    return run if is_distributed() else _InferenceSwitch(run, forward).caller


_alive: weakref.WeakSet[_InferenceSwitch] = weakref.WeakSet()


def _reset_locks() -> None:
    """Replace the locks in a forked child, where a thread that held one does not exist."""
    for switch in list(_alive):
        switch._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_locks)


class _InferenceSwitch:
    """The calls of one forward graph; `caller` is what dynamo calls."""

    def __init__(self, run: Run, forward: ForwardGraph) -> None:
        self.plain = run
        self.caller: Any = functools.partial(self._call_watched)
        self._forward: ForwardGraph | None = forward
        self.differentiable = [info.requires_grad for info in forward.metadata.output_info]
        values = [node.meta["val"] for node in forward.graph.inputs.nodes]
        weights = sorted(forward.static)
        tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        saved = [index for index in tensors if index not in forward.static]
        rest = [i for i in range(len(values)) if i not in {*weights, *saved}]
        self.saved, self.weights, self.rest = map(_make_picker, (saved, weights, rest))
        self.merge_arguments = _make_merger([*saved, *weights, *rest])
        self._first = self.differentiable.index(True)
        self._dropped = 0
        self._watching: set[weakref.ref[Any]] = set()
        self._waiting: set[weakref.ref[Any]] = set()
        self._gradients_required = False
        self._lock = threading.Lock()
        self.inference: Callable[[list[Any]], Any] | None = None
        _alive.add(self)

    def _call_watched(self, *args: Any) -> Any:
        """Call the forward graph, and observe whether its results are differentiated."""
        if self._dropped >= _MIN_DROPPED_CALLS and self._is_settled():
            return self._switch_to_inference(args)
        results = self.plain(*args)
        node = results[self._first].grad_fn
        if node is not None:  # with grad mode off AOTAutograd's wrapper makes none
            node.register_prehook(self.require_gradients)
            # a node of eager's, where torch runs the graph, has no weak references: its result does
            watched = node if type(node).__weakrefoffset__ else results[self._first]
            self._watching.add(weakref.ref(watched, self._count_dropped))
        return results

    def _is_settled(self) -> bool:
        """Whether no result waits for a backward, but for one that a loop may hold until the next
        one.

        A checkpoint, which counts what a forward saves, does not tolerate even that one.
        """
        waiting = len(self._watching)
        return not waiting or (waiting == 1 and saved_tensors_hooks(True) is None)

    def _count_dropped(self, reference: weakref.ref[Any]) -> None:
        """Count a call whose results were freed, so that no backward can come."""
        self._watching.discard(reference)
        self._dropped += 1

    def require_gradients(self, *_: Any) -> None:
        """Switch back to the forward graph because gradients are requested.

        It runs as soon as no backward of the inference graph is pending: torch.utils.checkpoint,
        which computes a forward again in the backward, finds what ran before.
        """
        if not self._gradients_required and self.inference is not None:
            _log.info("results of a forward graph are differentiated: it saves what that needs")
        self._gradients_required = True
        if self.inference is None:
            self._settle_on(self.plain)

    def add_pending(self, node: Any) -> weakref.ref[Any]:
        """Track a node of autograd until it is freed or has run."""
        reference = weakref.ref(node, self._waiting.discard)
        self._waiting.add(reference)
        return reference

    def remove_pending(self, reference: weakref.ref[Any]) -> None:
        """Stop tracking a node whose backward runs."""
        self._waiting.discard(reference)

    def _settle_on(self, run: Run) -> None:
        """Choose one candidate for good; the other one is released, with its graph or session.

        The caller changes first: an interrupt after that only keeps something in memory.
        """
        self.caller.__setstate__((run, (), {}, None))
        self._forward = None
        self._watching.clear()
        if run == self.plain:
            self.inference = None

    def _switch_to_inference(self, args: Sequence[Any]) -> Any:
        """Compile the inference graph at the first call after it is clear that nobody
        differentiates.

        After an interrupt the next call starts anew.
        """
        with self._lock:
            forward = self._forward
            if forward is not None:
                self.inference = _compile_inference(forward)
                if self.inference is None:
                    self._settle_on(self.plain)
                else:
                    self._settle_on(self._call_inference)
        return self.caller(*args)

    def _call_inference(self, *args: Any) -> Any:
        """Call the inference graph; its results can be differentiated nevertheless."""
        inference = self.inference
        if inference is None or (self._gradients_required and not self._waiting):
            self._settle_on(self.plain)
            return self.plain(*args)
        try:
            # the base class's `apply`: Function's looks for function transforms first, which dynamo
            # guards against, and that takes longer than all the rest
            return super(Function, _InferenceFunction).apply(self, inference, *args)
        except OrtableError:
            raise
        except (RuntimeError, TypeError):
            # torch cannot save an argument (made under inference_mode), or a function transform is
            # active; an error of the graph is raised again
            self._settle_on(self.plain)
            return self.plain(*args)


def _compile_inference(forward: ForwardGraph) -> Callable[[list[Any]], Any] | None:
    """Compile the inference graph; None where that fails, or holds only for some of the sizes."""
    before = _count_guards(forward.graph.module)
    module = _extract_inference_graph(forward.graph.module, len(forward.metadata.output_info))
    try:
        inference = forward.make(AotGraph(module))
    except OrtableError as error:
        _log.info("a forward graph has no form for inference: %s", str(error).partition("\n")[0])
        return None
    if _count_guards(forward.graph.module) != before:
        _log.info("a forward graph has no form for inference: not for all of its sizes")
        return None
    _log.info("results of a forward graph are not differentiated: it runs as one for inference")
    return inference


def _extract_inference_graph(graph_module: GraphModule, count: int) -> GraphModule:
    """Copy the first `count` results of a forward graph, and what they depend on, to a new
    graph.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph_module.graph.output_node()
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            # AOTAutograd's names of arguments tell a forward graph, too
            copies[node] = graph.placeholder(f"argument_{len(copies)}")
            copies[node].meta = dict(node.meta)
        elif node is not output:
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    results = output.args[0]
    assert isinstance(results, list | tuple)
    outputs = [copies[result] if isinstance(result, Node) else result for result in results[:count]]
    new_output = graph.output(tuple(outputs))
    new_output.meta = dict(output.meta)
    described = output.meta.get("desc")
    if isinstance(described, list | tuple):
        new_output.meta["desc"] = list(described)[:count]
    graph.eliminate_dead_code()
    return GraphModule(graph_module, graph)


def _count_guards(graph_module: GraphModule) -> int:
    """Count the guards on the sizes of a graph: later ones are checked by nobody."""
    counts: dict[int, int] = {}
    for node in graph_module.graph.nodes:
        for size in _symbolic_sizes(node.meta.get("val")):
            env = size.node.shape_env
            if env is not None:
                counts[id(env)] = len(env.guards) + len(env.replacements)
    return sum(counts.values())


def _symbolic_sizes(value: Any) -> list[Any]:
    if hasattr(value, "node"):
        return [value]
    return [size for size in getattr(value, "shape", ()) if hasattr(size, "node")]


class _InferenceFunction(Function):
    """The inference graph as one node of autograd, whose backward runs the forward graph."""

    @staticmethod
    def forward(ctx: Any, owner: _InferenceSwitch, inference: Any, *args: Any) -> Any:
        results = tuple(inference(list(args)))
        ctx.owner = owner
        ctx.set_materialize_grads(False)
        # Weights are many, and stay: torch would take as long to save them as a small session runs.
        ctx.save_for_backward(*owner.saved(args))
        ctx.weights, ctx.rest = owner.weights(args), owner.rest(args)
        ctx.seen = weight_signature(ctx.weights)[:2]
        ctx.reference = owner.add_pending(ctx)
        if not all(owner.differentiable):
            pairs = zip(results, owner.differentiable, strict=True)
            ctx.mark_non_differentiable(*(result for result, needs_grad in pairs if not needs_grad))
        return results

    @staticmethod
    @torch.compiler.disable
    def backward(ctx: Any, *gradients: Any) -> Any:
        owner = ctx.owner
        # first: where torch.utils.checkpoint computes them again, it runs what it ran before
        inputs = owner.merge_arguments(ctx.saved_tensors, ctx.weights, ctx.rest)
        if weight_signature(ctx.weights)[:2] != ctx.seen:
            raise RuntimeError(_WEIGHT_CHANGED)
        owner.remove_pending(ctx.reference)
        owner.require_gradients()
        needs_grad = ctx.needs_input_grad[2:]
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            args = [
                value.detach().requires_grad_(need) if isinstance(value, torch.Tensor) else value
                for value, need in zip(inputs, needs_grad, strict=True)
            ]
            results = owner.plain(*args)
            pairs = [
                (result, gradient)
                for result, gradient in zip(results, gradients, strict=True)
                if gradient is not None and result.requires_grad
            ]
            input_gradients = iter(
                torch.autograd.grad(
                    [result for result, _ in pairs],
                    [arg for arg, need in zip(args, needs_grad, strict=True) if need],
                    [gradient for _, gradient in pairs],
                    create_graph=create_graph,
                    allow_unused=True,
                )
            )
        return None, None, *(next(input_gradients) if need else None for need in needs_grad)


def _make_picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes the values at some positions."""
    if len(positions) == 1:
        (only,) = positions
        return lambda values: (values[only],)
    return operator.itemgetter(*positions) if positions else lambda values: ()


def _make_merger(order: Sequence[int]) -> Callable[..., list[Any]]:
    """Return a function that restores the order of values that pickers took, one after the
    other.
    """
    back = [order.index(position) for position in range(len(order))]

    def merge(*parts: Sequence[Any]) -> list[Any]:
        values = [value for part in parts for value in part]
        return [values[at] for at in back]

    return merge
