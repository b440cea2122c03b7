"""Run forward graphs as inference graphs while their results are not differentiated.

A module in eval mode that is called with gradients enabled is an example. A forward graph returns
the values that its backward needs, and takes its weights as inputs. If the first calls show that no
backward runs (autograd's graph was freed unused), later calls run the inference graph, with weights
as constants of the session. The results of the inference graph can still be differentiated: the
backward then first runs the forward graph on the same arguments, and the forward graph runs at
every later call.
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

from ortable.backend.execute.runner import is_distributed
from ortable.backend.execute.weights import sample_windows, weight_signature
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.placement import is_ordered
from ortable.compat.torch import saved_tensors_hooks
from ortable.errors import OrtableError
from ortable.interpreter.assertions import run_time_checks

from .build import compile_at_once, static_arguments
from .compilation import Compilation
from .skip_aot_wrapper import is_wrapper_idle

_log = logging.getLogger(__name__)
_WEIGHT_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: a weight of a graph compiled by ortable, whose backward recomputes the forward. "
    "Run the backward before you change weights, or compile with options={'freeze': 'off'}."
)
_MIN_DROPPED_CALLS = 3  # calls whose results were freed without a backward

Run = Callable[..., Any]
MakeInference = Callable[[AotGraph], Callable[[list[Any]], Any]]


@dataclass(frozen=True, eq=False)
class ForwardGraph:
    """A compiled forward graph, its callable, and AOTAutograd's metadata.

    `make` compiles the inference graph that is extracted from it. `static` are the positions of its
    parameters and buffers.
    """

    graph: AotGraph
    run: Any
    metadata: Any
    make: MakeInference
    static: frozenset[int] = frozenset()


def store_forward_graph(
    compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]
) -> None:
    """Store the last compiled graph for `watch_gradients` if it is a forward graph."""
    graph, (compiled, metadata) = AotGraph(graph_module), compilation.compiled[-1]
    is_compiled = hasattr(compiled, "compiled") or hasattr(compiled, "partitions")
    if graph.kind == "forward" and is_compiled:
        static = static_arguments(graph)
        make_inference = functools.partial(
            compile_at_once, options=compilation.options, runner=compilation.runner, static=static
        )
        forward = ForwardGraph(graph, compiled, metadata, make_inference, static)
        compilation.forward_graphs.append(forward)


def watch_gradients(compilation: Compilation, run: Run) -> Run:
    """Return `run`, or a callable that also observes whether the results are differentiated.

    A graph is observed only if its forward and its inference graph return the same results without
    AOTAutograd's wrapper.
    """
    forwards, count = compilation.forward_graphs, len(compilation.args)
    if not compilation.is_native or len(forwards) != 1 or compilation.options.freeze != "auto":
        return run
    forward = forwards.pop()  # no other reference may keep its session alive
    compiled = getattr(forward.run, "compiled", None)
    if compiled is not None and compiled.is_partition:
        return run
    graph, nodes = forward.graph, forward.graph.module.graph.nodes
    if graph.device != "cpu" or any(is_ordered(node) for node in nodes):
        return run
    if len(graph.inputs.nodes) != count or any(graph.is_mutation(node) for node in nodes):
        return run
    if not is_wrapper_idle(compilation, forward.metadata, count, check_dynamic_outputs=False):
        return run
    if any(True for _ in run_time_checks(forward.graph.module.graph)):
        return run
    results = forward.metadata.output_info
    all_tensors = all(issubclass(info.raw_type, torch.Tensor) for info in results)
    if not all_tensors or not any(info.requires_grad for info in results):
        return run
    return run if is_distributed() else _InferenceSwitch(run, forward).caller


_live_switches: weakref.WeakSet[_InferenceSwitch] = weakref.WeakSet()


def _reset_locks() -> None:
    """Replace the locks in a forked child: their owner threads do not exist there."""
    for switch in list(_live_switches):
        switch._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_locks)


class _InferenceSwitch:
    """Switch between the forward and the inference graph; dynamo calls `caller`."""

    def __init__(self, run: Run, forward: ForwardGraph) -> None:
        self.run_forward = run
        self.caller: Any = functools.partial(self._call_and_watch)
        self._forward: ForwardGraph | None = forward
        self.differentiable = [info.requires_grad for info in forward.metadata.output_info]
        values = [node.meta["val"] for node in forward.graph.inputs.nodes]
        weights = sorted(forward.static)
        tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        saved = [index for index in tensors if index not in forward.static]
        others = [i for i in range(len(values)) if i not in {*weights, *saved}]
        self.pick_saved, self.pick_weights, self.pick_others = map(
            _make_picker, (saved, weights, others)
        )
        self.merge_arguments = _make_merger([*saved, *weights, *others])
        # the windows of a weight that changes its size may end behind its memory
        sizes = [size for index in weights for size in values[index].shape]
        self._has_static_weights = all(isinstance(size, int) for size in sizes)
        self._windows: tuple[list[int], list[memoryview]] = ([], [])  # pointers and their memory
        self._sample = b""
        self._first_differentiable = self.differentiable.index(True)
        self._dropped_calls = 0
        self._watched_results: set[weakref.ref[Any]] = set()
        self._pending_backwards: set[weakref.ref[Any]] = set()
        self._gradients_required = False
        self._lock = threading.Lock()
        self.inference: Callable[[list[Any]], Any] | None = None
        _live_switches.add(self)

    def _call_and_watch(self, *args: Any) -> Any:
        """Call the forward graph, and observe whether its results are differentiated."""
        if self._dropped_calls >= _MIN_DROPPED_CALLS and self._can_switch():
            return self._switch_to_inference(args)
        results = self.run_forward(*args)
        node = results[self._first_differentiable].grad_fn
        if node is not None:  # None if grad mode is off
            node.register_prehook(self.require_gradients)
            # the autograd node of an eager graph supports no weak references, but its result does
            watched = node if type(node).__weakrefoffset__ else results[self._first_differentiable]
            self._watched_results.add(weakref.ref(watched, self._count_dropped))
        return results

    def _can_switch(self) -> bool:
        """Whether the results of all earlier calls, or of all but one, were freed.

        A loop may hold one result until its next iteration. With saved-tensor hooks no result may
        be pending: torch.utils.checkpoint counts the values that a forward saves.
        """
        pending = len(self._watched_results)
        return not pending or (pending == 1 and saved_tensors_hooks(True) is None)

    def _count_dropped(self, reference: weakref.ref[Any]) -> None:
        """Count a call whose results were freed, so that no backward can run."""
        self._watched_results.discard(reference)
        self._dropped_calls += 1

    def require_gradients(self, *_: Any) -> None:
        """Switch back to the forward graph because gradients are requested.

        The switch waits until no backward of the inference graph is pending:
        torch.utils.checkpoint, which recomputes a forward in the backward, must run the same graph
        again.
        """
        if not self._gradients_required and self.inference is not None:
            _log.info("results of a forward graph are differentiated: it runs as a forward graph")
        self._gradients_required = True
        if self.inference is None:
            self._commit_to(self.run_forward)

    def sample_weights(self, weights: Sequence[torch.Tensor], pointers: list[int]) -> bytes:
        """Return sampled bytes of weights, which writes through `.data` should change.

        Equal samples are one object: a program may hold the results of many calls. `pointers` are
        the addresses of the weights, which must have memory.
        """
        known_pointers, windows = self._windows
        if pointers != known_pointers:
            windows = sample_windows(weights) if self._has_static_weights else []
            self._windows = (pointers, windows)
        sample, known_sample = b"".join(windows), self._sample
        if sample == known_sample:
            return known_sample
        self._sample = sample
        return sample

    def add_pending(self, node: Any) -> weakref.ref[Any]:
        """Track a node of autograd until it is freed or has run."""
        reference = weakref.ref(node, self._pending_backwards.discard)
        self._pending_backwards.add(reference)
        return reference

    def remove_pending(self, reference: weakref.ref[Any]) -> None:
        self._pending_backwards.discard(reference)

    def _commit_to(self, run: Run) -> None:
        """Let later calls run `run`, and release the state that they do not need.

        The choice of `run_forward` is final. The caller is changed first, so that an interrupt
        afterwards only keeps memory alive.
        """
        self.caller.__setstate__((run, (), {}, None))
        self._forward = None
        self._watched_results.clear()
        if run == self.run_forward:
            self.inference = None
            self._windows, self._sample = ([], []), b""

    def _switch_to_inference(self, args: Sequence[Any]) -> Any:
        """Compile the inference graph and call it; call the forward graph if compilation fails.

        If the compilation is interrupted, the next call starts it again.
        """
        with self._lock:
            forward = self._forward
            if forward is not None:
                self.inference = _compile_inference(forward)
                if self.inference is None:
                    self._commit_to(self.run_forward)
                else:
                    self._commit_to(self._call_inference)
        return self.caller(*args)

    def _call_inference(self, *args: Any) -> Any:
        """Call the inference graph; its results can still be differentiated."""
        inference = self.inference
        if inference is None or (self._gradients_required and not self._pending_backwards):
            self._commit_to(self.run_forward)
            return self.run_forward(*args)
        try:
            # Call `apply` of the base class: Function.apply first checks for function transforms,
            # which dynamo's guards exclude, and the check takes longer than the rest of the call.
            return super(Function, _InferenceFunction).apply(self, inference, *args)
        except OrtableError:
            raise
        except (RuntimeError, TypeError):
            # torch cannot save an argument (made under inference_mode), or a function transform is
            # active; an error of the graph itself is raised again by the forward graph
            self._commit_to(self.run_forward)
            return self.run_forward(*args)


def _compile_inference(forward: ForwardGraph) -> Callable[[list[Any]], Any] | None:
    """Compile the inference graph; return None if that fails or specializes sizes."""
    guard_count = _count_guards(forward.graph.module)
    module = _extract_inference_graph(forward.graph.module, len(forward.metadata.output_info))
    try:
        inference = forward.make(AotGraph(module))
    except OrtableError as error:
        _log.info("a forward graph has no inference form: %s", str(error).partition("\n")[0])
        return None
    if _count_guards(forward.graph.module) != guard_count:
        _log.info("a forward graph has no inference form that works for all of its sizes")
        return None
    _log.info("results of a forward graph are not differentiated: it runs as an inference graph")
    return inference


def _extract_inference_graph(graph_module: GraphModule, count: int) -> GraphModule:
    """Copy the first `count` results of a forward graph, with their producers, to a new graph."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph_module.graph.output_node()
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            # a new name, as AOTAutograd's argument names also mark a forward graph
            copies[node] = graph.placeholder(f"argument_{len(copies)}")
            copies[node].meta = dict(node.meta)
        elif node is not output:
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    results = output.args[0]
    assert isinstance(results, list | tuple)
    outputs = [copies[result] if isinstance(result, Node) else result for result in results[:count]]
    new_output = graph.output(tuple(outputs))
    new_output.meta = dict(output.meta)
    descriptions = output.meta.get("desc")
    if isinstance(descriptions, list | tuple):
        new_output.meta["desc"] = list(descriptions)[:count]
    graph.eliminate_dead_code()
    return GraphModule(graph_module, graph)


def _count_guards(graph_module: GraphModule) -> int:
    """Count the guards and replacements of symbols for the sizes of a graph.

    A compilation that adds one is invalid: dynamo has already made the guards of the frame.
    """
    counts: dict[int, int] = {}
    for node in graph_module.graph.nodes:
        for size in _symbolic_sizes(node.meta.get("val")):
            shape_env = size.node.shape_env
            if shape_env is not None:
                counts[id(shape_env)] = len(shape_env.guards) + len(shape_env.replacements)
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
        # Saving the weights takes as long as running a small session, so keep plain references.
        ctx.save_for_backward(*owner.pick_saved(args))
        ctx.weights, ctx.others = owner.pick_weights(args), owner.pick_others(args)
        ctx.weight_state = weight_signature(ctx.weights)[:2]
        ctx.weight_sample = owner.sample_weights(ctx.weights, ctx.weight_state[0])
        ctx.reference = owner.add_pending(ctx)
        if not all(owner.differentiable):
            pairs = zip(results, owner.differentiable, strict=True)
            ctx.mark_non_differentiable(*(result for result, needs_grad in pairs if not needs_grad))
        return results

    @staticmethod
    @torch.compiler.disable
    def backward(ctx: Any, *gradients: Any) -> Any:
        owner = ctx.owner
        # before the switch: torch.utils.checkpoint recomputes the saved tensors with the same graph
        inputs = owner.merge_arguments(ctx.saved_tensors, ctx.weights, ctx.others)
        weight_state = weight_signature(ctx.weights)[:2]
        if (
            weight_state != ctx.weight_state
            or owner.sample_weights(ctx.weights, weight_state[0]) != ctx.weight_sample
        ):
            raise RuntimeError(_WEIGHT_CHANGED)
        owner.remove_pending(ctx.reference)
        owner.require_gradients()
        needs_grad = ctx.needs_input_grad[2:]
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            args = [
                value.detach().requires_grad_(needs) if isinstance(value, torch.Tensor) else value
                for value, needs in zip(inputs, needs_grad, strict=True)
            ]
            results = owner.run_forward(*args)
            pairs = [
                (result, gradient)
                for result, gradient in zip(results, gradients, strict=True)
                if gradient is not None and result.requires_grad
            ]
            input_gradients = iter(
                torch.autograd.grad(
                    [result for result, _ in pairs],
                    [arg for arg, needs in zip(args, needs_grad, strict=True) if needs],
                    [gradient for _, gradient in pairs],
                    create_graph=create_graph,
                    allow_unused=True,
                )
            )
        return None, None, *(next(input_gradients) if needs else None for needs in needs_grad)


def _make_picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes the values at some positions."""
    if len(positions) == 1:
        (position,) = positions
        return lambda values: (values[position],)
    return operator.itemgetter(*positions) if positions else lambda values: ()


def _make_merger(order: Sequence[int]) -> Callable[..., list[Any]]:
    """Return a function that merges the values of pickers; `order` lists their positions."""
    sources = [order.index(position) for position in range(len(order))]

    def merge(*parts: Sequence[Any]) -> list[Any]:
        values = [value for part in parts for value in part]
        return [values[source] for source in sources]

    return merge
