"""Forward graphs whose results nobody differentiates: a module in eval mode, called with gradients
on.

A graph that may be differentiated hands out what its backward needs, and takes its weights as
inputs. When the first calls show that nobody asks for gradients (what would compute them is
gone, and never ran), later calls run the graph for inference instead, with its weights as
constants of the session. Their results can be differentiated all the same: the backward then
runs the forward graph first, on the same arguments. It does that once: from then on the forward
graph runs at every call."""

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

from ortable.backend.autotune.graphs import in_eager
from ortable.backend.execute.runner import is_one_of_several_processes
from ortable.backend.execute.weights import signature
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.placement import is_ordered
from ortable.compat.bisector import searches
from ortable.compat.torch import saved_tensors_hooks
from ortable.errors import OrtableError
from ortable.interpreter.assertions import run_time_checks

from .build import compile_at_once, static_arguments
from .compilation import Compilation
from .skip_aot_wrapper import is_idle

_log = logging.getLogger(__name__)
_WRITTEN = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: a weight of a graph compiled by ortable, whose backward computes the forward "
    "again. Run the backward before you change weights, or compile with options={'freeze': 'off'}."
)
_ASKED = 3  # calls in a row whose results were dropped without a backward

Run = Callable[..., Any]
MakeInference = Callable[[AotGraph], Callable[[list[Any]], Any]]


@dataclass(frozen=True, eq=False)
class ForwardGraph:
    """A forward graph that was compiled, what runs it, and what AOTAutograd says of it; `make`
    compiles it for inference, `static` are positions of its parameters and buffers."""

    graph: AotGraph
    run: Any
    metadata: Any
    make: MakeInference
    static: frozenset[int] = frozenset()


def note(compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]) -> None:
    """Keep what `watched` needs of a forward graph that was compiled last."""
    graph, (compiled, metadata) = AotGraph(graph_module), compilation.compiled[-1]
    whole = hasattr(compiled, "compiled") or hasattr(compiled, "partitions")
    if graph.kind == "forward" and whole:
        static = static_arguments(graph)
        again = functools.partial(
            compile_at_once, options=compilation.options, runner=compilation.runner, static=static
        )
        forward = ForwardGraph(graph, compiled, metadata, again, static)
        compilation.forwards.append(forward)


def left_to_torch(compilation: Compilation, call: Run) -> Run:
    """The graph in eager, with the backward of that, where no operator of it is worth a session."""
    in_search = bool(compilation.options.raise_on) or searches("lowerings")  # of what each does
    made = compilation.made
    if in_search or not made or any(getattr(each, "partitions", None) != () for each in made):
        return call
    return in_eager(compilation.graph_module)


def watched(compilation: Compilation, run: Run) -> Run:
    """What dynamo calls: `run`, or what also watches whether its results are differentiated."""
    forwards, count = compilation.forwards, len(compilation.args)
    if not compilation.is_native or len(forwards) != 1 or compilation.options.freeze != "auto":
        return run
    forward = forwards.pop()  # the step alone holds it: sessions go with it
    compiled = getattr(forward.run, "compiled", None)
    if compiled is not None and compiled.is_partition:
        return run
    graph, nodes = forward.graph, forward.graph.module.graph.nodes
    if graph.device != "cpu" or any(is_ordered(each) for each in nodes):
        return run
    if len(graph.inputs.nodes) != count or any(graph.is_mutation(each) for each in nodes):
        return run
    if not is_idle(forward.metadata, count, marks=False):
        return run
    if any(True for _ in run_time_checks(forward.graph.module.graph)):
        return run
    results = forward.metadata.output_info
    tensors = all(issubclass(each.raw_type, torch.Tensor) for each in results)
    if not tensors or not any(each.requires_grad for each in results):
        return run
    return run if is_one_of_several_processes() else _ForwardOnly(run, forward).caller


_alive: weakref.WeakSet[_ForwardOnly] = weakref.WeakSet()


def _unlock() -> None:
    """In a forked child, where a thread that had a lock does not exist."""
    for each in list(_alive):
        each._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


class _ForwardOnly:
    """The calls of one forward graph; `caller` is what dynamo calls."""

    def __init__(self, run: Run, forward: ForwardGraph) -> None:
        self.plain = run
        self.caller: Any = functools.partial(self._watched)
        self._forward: ForwardGraph | None = forward
        self.differentiable = [each.requires_grad for each in forward.metadata.output_info]
        values = [node.meta["val"] for node in forward.graph.inputs.nodes]
        weights = sorted(forward.static)
        tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        saved = [index for index in tensors if index not in forward.static]
        rest = [i for i in range(len(values)) if i not in {*weights, *saved}]
        self.saved, self.weights, self.rest = map(_picker, (saved, weights, rest))
        self.joined = _merger([*saved, *weights, *rest])
        self._first = self.differentiable.index(True)
        self._dropped = 0
        self._watching: set[weakref.ref[Any]] = set()
        self._waiting: set[weakref.ref[Any]] = set()
        self._wanted = False
        self._lock = threading.Lock()
        self.inference: Callable[[list[Any]], Any] | None = None
        _alive.add(self)

    def _watched(self, *given: Any) -> Any:
        """A call of the forward graph, and a look at what becomes of it."""
        if self._dropped >= _ASKED and self._is_settled():
            return self._switched(given)
        results = self.plain(*given)
        node = results[self._first].grad_fn
        if node is not None:  # with grad mode off AOTAutograd's wrapper makes none
            node.register_prehook(self.differentiated)
            # a node of eager's, where torch runs the graph, has no weak references: its result does
            watched = node if type(node).__weakrefoffset__ else results[self._first]
            self._watching.add(weakref.ref(watched, self._forgotten))
        return results

    def _is_settled(self) -> bool:
        """Whether no result waits for a backward, but for one that a loop may hold until it has
        the next one. A checkpoint, which counts what a forward saves, keeps even that waiting."""
        waiting = len(self._watching)
        return not waiting or (waiting == 1 and saved_tensors_hooks(True) is None)

    def _forgotten(self, reference: weakref.ref[Any]) -> None:
        """A call's results are gone, and with them the chance of a backward."""
        self._watching.discard(reference)
        self._dropped += 1

    def differentiated(self, *_: Any) -> None:
        """Somebody asks for gradients: the forward graph runs as soon as nobody else waits for a
        backward of the one for inference. torch.utils.checkpoint, which computes a forward again
        in the backward, finds what ran before."""
        if not self._wanted and self.inference is not None:
            _log.info("results of a forward graph are differentiated: it saves what that needs")
        self._wanted = True
        if self.inference is None:
            self._stay(self.plain)

    def waits(self, node: Any) -> weakref.ref[Any]:
        """Notes a node of autograd until it is gone or has run."""
        reference = weakref.ref(node, self._waiting.discard)
        self._waiting.add(reference)
        return reference

    def ran(self, reference: weakref.ref[Any]) -> None:
        """The backward of a noted node is asked for."""
        self._waiting.discard(reference)

    def _stay(self, run: Run) -> None:
        """One candidate is chosen for good; the other one may go, with its graph or session.

        It is what calls meet first of all: interrupted behind that, something is kept in vain."""
        self.caller.__setstate__((run, (), {}, None))
        self._forward = None
        self._watching.clear()
        if run == self.plain:
            self.inference = None

    def _switched(self, given: Sequence[Any]) -> Any:
        """The first call after it is clear that nobody differentiates: the graph for inference is
        made. Where that is interrupted, the next call begins anew."""
        with self._lock:
            forward = self._forward
            if forward is not None:
                self.inference = _made(forward)
                if self.inference is None:
                    self._stay(self.plain)
                else:
                    self._stay(self._inferred)
        return self.caller(*given)

    def _inferred(self, *given: Any) -> Any:
        """A call of the graph for inference, whose results can be differentiated nevertheless."""
        inference = self.inference
        if inference is None or (self._wanted and not self._waiting):
            self._stay(self.plain)
            return self.plain(*given)
        try:
            # that of the base class: the other one looks for transforms of functions first, which
            # dynamo guards against, and takes longer for it than all the rest
            return super(Function, _Inferred).apply(self, inference, *given)
        except OrtableError:
            raise
        except (RuntimeError, TypeError):
            # torch cannot keep an argument (made under inference_mode), or a transform of functions
            # is active; an error of the graph is raised again
            self._stay(self.plain)
            return self.plain(*given)


def _made(forward: ForwardGraph) -> Callable[[list[Any]], Any] | None:
    """The graph for inference; None where it cannot be compiled, or only for some of the sizes."""
    before = _count_guards(forward.graph.module)
    module = _inference_form(forward.graph.module, len(forward.metadata.output_info))
    try:
        made = forward.make(AotGraph(module))
    except OrtableError as error:
        _log.info("a forward graph has no form for inference: %s", str(error).partition("\n")[0])
        return None
    if _count_guards(forward.graph.module) != before:
        _log.info("a forward graph has no form for inference: not for all of its sizes")
        return None
    _log.info("results of a forward graph are not differentiated: it runs as one for inference")
    return made


def _inference_form(graph_module: GraphModule, count: int) -> GraphModule:
    """A graph with the first `count` results of a forward graph, and what they depend on; the graph
    itself stays as it is."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph_module.graph.output_node()
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            # AOTAutograd's names of arguments tell a forward graph, too
            copies[node] = graph.placeholder(f"argument_{len(copies)}")
            copies[node].meta = dict(node.meta)
        elif node is not output:
            copies[node] = graph.node_copy(node, lambda each: copies[each])
    results = output.args[0]
    assert isinstance(results, list | tuple)
    kept = [copies[each] if isinstance(each, Node) else each for each in results[:count]]
    made = graph.output(tuple(kept))
    made.meta = dict(output.meta)
    described = output.meta.get("desc")
    if isinstance(described, list | tuple):
        made.meta["desc"] = list(described)[:count]
    graph.eliminate_dead_code()
    return GraphModule(graph_module, graph)


def _count_guards(graph_module: GraphModule) -> int:
    """How many guards stand on the sizes of a graph: those that come after its compilation are
    checked by nobody."""
    found: dict[int, int] = {}
    for node in graph_module.graph.nodes:
        for size in _sizes(node.meta.get("val")):
            env = size.node.shape_env
            if env is not None:
                found[id(env)] = len(env.guards) + len(env.replacements)
    return sum(found.values())


def _sizes(value: Any) -> list[Any]:
    if hasattr(value, "node"):
        return [value]
    return [size for size in getattr(value, "shape", ()) if hasattr(size, "node")]


class _Inferred(Function):
    """The graph for inference as one node of autograd, whose backward runs the forward graph."""

    @staticmethod
    def forward(ctx: Any, owner: _ForwardOnly, inference: Any, *given: Any) -> Any:
        results = tuple(inference(list(given)))
        ctx.owner = owner
        ctx.set_materialize_grads(False)
        # Weights are many, and stay: torch would take as long to save them as a small session runs.
        ctx.save_for_backward(*owner.saved(given))
        ctx.weights, ctx.rest = owner.weights(given), owner.rest(given)
        ctx.seen = signature(ctx.weights)[:2]
        ctx.reference = owner.waits(ctx)
        if not all(owner.differentiable):
            wanted = zip(results, owner.differentiable, strict=True)
            ctx.mark_non_differentiable(*(each for each, found in wanted if not found))
        return results

    @staticmethod
    @torch.compiler.disable
    def backward(ctx: Any, *gradients: Any) -> Any:
        owner = ctx.owner
        # first: where torch.utils.checkpoint computes them again, it runs what it ran before
        given = owner.joined(ctx.saved_tensors, ctx.weights, ctx.rest)
        if signature(ctx.weights)[:2] != ctx.seen:
            raise RuntimeError(_WRITTEN)
        owner.ran(ctx.reference)
        owner.differentiated()
        wanted = ctx.needs_input_grad[2:]
        again = torch.is_grad_enabled()  # create_graph=True
        with torch.enable_grad():
            args = [
                each.detach().requires_grad_(need) if isinstance(each, torch.Tensor) else each
                for each, need in zip(given, wanted, strict=True)
            ]
            results = owner.plain(*args)
            pairs = [
                (result, gradient)
                for result, gradient in zip(results, gradients, strict=True)
                if gradient is not None and result.requires_grad
            ]
            found = iter(
                torch.autograd.grad(
                    [result for result, _ in pairs],
                    [arg for arg, need in zip(args, wanted, strict=True) if need],
                    [gradient for _, gradient in pairs],
                    create_graph=again,
                    allow_unused=True,
                )
            )
        return None, None, *(next(found) if need else None for need in wanted)


def _picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the values at some positions."""
    if len(positions) == 1:
        (only,) = positions
        return lambda values: (values[only],)
    return operator.itemgetter(*positions) if positions else lambda values: ()


def _merger(order: Sequence[int]) -> Callable[..., list[Any]]:
    """What puts values back to where pickers took them from, one after the other."""
    back = [order.index(position) for position in range(len(order))]

    def joined(*parts: Sequence[Any]) -> list[Any]:
        values = [value for part in parts for value in part]
        return [values[at] for at in back]

    return joined
