"""The graphs of one call, each run in eager and as ONNX graph, result by result, until something
differs. In come graphs of AOTAutograd and the arguments of their calls, out comes what a
`Comparison` says; called by `difference`.

Each graph hands on what eager computes for it. So the graphs behind are compared on eager's values,
and the backward on the tensors that eager's forward saved: the first difference is no consequence
of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import compile_graph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.exporter.account.gaps import Gap, gap_between, intermediate_results
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.outputs import flatten_output

from ..arrays import to_torch
from ..compare import UNKNOWN, AskedTolerance, EagerValues, leaves_memory
from ..reference import ExtendedReferenceEvaluator
from ..run import feeds_of
from .records import Comparison, Difference, Unreached

__all__ = ["ComparedGraph", "Found", "Tally", "Watch", "values_of"]

_NAMED = 5  # nodes of a reason
Reached = Literal["graph", "passes", "session", "host"]


@dataclass
class Tally:
    """What was compared so far: how many results of how many graphs, which not, and within which
    tolerances."""

    compared: int = 0
    graphs: int = 0
    unreached: dict[str, list[str]] = field(default_factory=dict)
    tolerances: dict[str, tuple[float, float]] = field(default_factory=dict)

    def leave(self, why: str, names: Sequence[str]) -> None:
        """These nodes are not compared."""
        if names:
            self.unreached.setdefault(why, []).extend(names)

    def agree(self, value: torch.Tensor, tolerance: tuple[float, float]) -> None:
        """One more result agrees."""
        self.compared += 1
        self.tolerances[str(value.dtype).removeprefix("torch.")] = tuple(tolerance)  # type: ignore[assignment]

    def comparison(self, difference: Difference | None) -> Comparison:
        """What was found, as the caller gets it."""
        unreached = tuple(
            Unreached(why, len(names), tuple(names[:_NAMED]))
            for why, names in self.unreached.items()
        )
        return Comparison(
            difference, self.compared, self.graphs, unreached, dict(sorted(self.tolerances.items()))
        )


@dataclass(frozen=True)
class Found:
    """The first result that differs: where, by how much, and what is needed to find out why.

    Attributes:
        compiled: the converted graph.
        module: its FX graph.
        args: what it was called with.
        node: the FX node.
        result: name of the ONNX result; empty where only the session's own results differ.
        gap: how far it is from eager.
        expected: eager's value.
        got: that of the ONNX graph.
        agreed: ONNX results before it that agree, with their values.
        options: those of the compilation.
        reached: what was compared: `"graph"`, results inside the ONNX graph as converters make
            it; `"passes"`, those after passes and transforms; `"session"`, what the session
            returns; `"host"`, the results of the graph as AOTAutograd made it.
    """

    compiled: CompiledGraph
    module: GraphModule
    args: Sequence[Any]
    node: Node
    result: str
    gap: Gap
    expected: torch.Tensor
    got: torch.Tensor
    agreed: Mapping[str, torch.Tensor]
    options: OrtOptions
    reached: Reached = "graph"


class Watch:
    """The comparison of one call: its tally, and the first difference."""

    def __init__(self, tolerance: AskedTolerance) -> None:
        self.tolerance = tolerance
        self.tally = Tally()
        self.found: Found | None = None
        self.last: ComparedGraph | None = None

    def compile_graph(self, graph: GraphModule, options: OrtOptions, run: Any) -> Any:
        """What AOTAutograd's compilers do here: compiles a graph, and returns what runs it in eager
        with the converted one beside it."""
        original = _copied(graph)
        made = compile_aot_graph(graph, options, run)

        def call(args: list[Any]) -> list[Any]:
            if self.found is None:
                self._beside(original, made, args)
            with torch.no_grad():
                results = original(*args)
            args.clear()
            return list(results)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _beside(self, original: GraphModule, made: Callable[..., Any], args: list[Any]) -> None:
        """Runs the converted graph on copies, and compares its results with those of the graph as
        AOTAutograd made it: with placement and composition of operators in between."""
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            results = made(copied(args))
        if self.found is not None:
            return
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            expected = original(*copied(args))
        nodes = list(flatten_output(original.graph.output_node().args[0]))
        for node, value, got in zip(nodes, expected, results, strict=True):
            if not isinstance(value, torch.Tensor) or not isinstance(node, Node):
                continue
            gap = None if is_uninitialized(node) else self.gap(value, got)
            if gap is not None and self.last is not None:
                self.found = Found(
                    self.last.compiled, original, copied(args), node, "", gap, value, got, {},
                    self.last.options, "host",
                )  # fmt: skip
                return

    def runner(self, compiled: CompiledGraph, options: OrtOptions) -> ComparedGraph:
        """What runs one converted graph, or a partition of one: eager, after the comparison."""
        self.last = ComparedGraph(compiled, options, self)
        return self.last

    def gap(self, expected: torch.Tensor, got: torch.Tensor) -> Gap | None:
        """How far a result is from eager; None where it is near enough. Complex numbers are pairs,
        or parts."""
        expected, got = real_tensor(expected), real_tensor(got)
        return gap_between(expected, got, self.tolerance.of(expected.dtype))

    def agree(self, value: torch.Tensor) -> None:
        """One more result agrees with `value`, eager's."""
        value = real_tensor(value)
        self.tally.agree(value, self.tolerance.of(value.dtype))


class ComparedGraph:
    """One converted graph as a boxed callable: it compares, and returns eager's results."""

    def __init__(self, compiled: CompiledGraph, options: OrtOptions, watch: Watch) -> None:
        self._boxed_call = True
        self.compiled = compiled
        self.options = options
        self.watch = watch
        self.module: GraphModule | None = None

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Receives the FX graph."""
        self.module = graph_module

    def converted(self, **changes: Any) -> CompiledGraph:
        """The graph converted anew, so that no cache is asked, with these options changed."""
        assert self.module is not None
        return convert_again(self.compiled, self.module, replace(self.options, **changes))

    def __call__(self, args: list[Any]) -> list[Any]:
        results = self._results(args)
        args.clear()
        return results

    def _results(self, args: list[Any]) -> list[Any]:
        watch, module = self.watch, self.module
        if module is None or watch.found is not None:
            return list(run_with_onnxruntime(self.compiled, self.options)(copied(args)))
        watch.tally.graphs += 1
        plain = whole = self.converted(optimize=False, pre_ort_model_transforms=())
        if self.options.optimize or self.options.pre_ort_model_transforms:
            whole = self.converted()
        computed, why = values_of(plain, args, self.options)
        given = {plain.fx_names[name]: value for name, value in computed.items()}
        wanted = {**whole.fx_names, **plain.fx_names}
        eager = EagerValues(module, args, wanted, watch.tolerance, given)
        self._compare(plain, module, eager, computed, args)
        self._count(plain, module, eager, computed, why)
        if watch.found is None and whole is not plain:
            computed, _ = values_of(whole, args, self.options)
            self._compare(whole, module, eager, computed, args, "passes")
        if watch.found is None or any(value is UNKNOWN for value in eager.results):
            return self._session(whole, module, eager, args)
        return list(eager.results)

    def _compare(
        self,
        compiled: CompiledGraph,
        module: GraphModule,
        eager: EagerValues,
        computed: Mapping[str, torch.Tensor],
        args: Sequence[Any],
        reached: Reached = "graph",
    ) -> None:
        """Compares what the nodes of the ONNX graph compute, in the order of the FX graph."""
        watch = self.watch
        names = _by_node(compiled, computed)
        agreed: dict[str, torch.Tensor] = {}
        for node in module.graph.nodes:
            if node.name not in eager.values:
                continue
            expected = eager.values[node.name]
            for name in names.get(node.name, ()):
                gap = watch.gap(expected, computed[name])
                if gap is not None:
                    watch.found = Found(
                        compiled, module, copied(args), node, name, gap, expected,
                        computed[name], agreed, self.options, reached,
                    )  # fmt: skip
                    return
                agreed[name] = computed[name]

    def _count(
        self,
        compiled: CompiledGraph,
        module: GraphModule,
        eager: EagerValues,
        computed: Mapping[str, torch.Tensor],
        why: str,
    ) -> None:
        """Counts the results before the difference that were compared, and those that were not."""
        watch = self.watch
        names = _by_node(compiled, computed)
        unknown, gone = [], []
        for node in module.graph.nodes:
            if watch.found is not None and node is watch.found.node:
                break
            value = eager.values.get(node.name)
            if value is None:
                unknown += [node.name] if node.name in names else []
            elif node.name in names:
                watch.agree(value)
            else:
                gone.append(node.name)
        watch.tally.leave(why or "the ONNX graph has no result of theirs", gone)
        watch.tally.leave("their numbers are random, or memory that nothing wrote", unknown)

    def _session(
        self,
        compiled: CompiledGraph,
        module: GraphModule,
        eager: EagerValues,
        args: Sequence[Any],
    ) -> list[Any]:
        """What the session returns that torch.compile would run, optimizers and all: compared with
        eager, and handed on where eager does not know the value."""
        watch = self.watch
        results = run_with_onnxruntime(compiled, self.options)(copied(args))
        nodes = list(flatten_output(module.graph.output_node().args[0]))
        handed = []
        for node, expected, got in zip(nodes, eager.results, results, strict=True):
            handed.append(got if expected is UNKNOWN else expected)
            known = isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor)
            if watch.found is not None or not known or is_uninitialized(node):
                continue
            gap = watch.gap(expected, got)
            if gap is not None:
                watch.found = Found(
                    compiled, module, copied(args), node, "", gap, expected, got, {},
                    self.options, "session",
                )  # fmt: skip
        return handed


def is_uninitialized(node: Any) -> bool:
    """Whether an output has nothing to compare: memory that torch left as it was."""
    return isinstance(node, Node) and leaves_memory(producer(node))


def _by_node(compiled: CompiledGraph, computed: Mapping[str, Any]) -> dict[str, list[str]]:
    """The ONNX results that were computed, by the names of their FX nodes."""
    names: dict[str, list[str]] = {}
    for name, node in compiled.fx_names.items():
        if name in computed:
            names.setdefault(node, []).append(name)
    return names


def convert_again(
    compiled: CompiledGraph, module: GraphModule, options: OrtOptions
) -> CompiledGraph:
    """A graph converted anew, with the roles of its arguments that only its compilation knew."""
    made = compile_graph(AotGraph(module), options)
    inputs = tuple(
        replace(role, static=known.static, untracked_writes=known.untracked_writes)
        for role, known in zip(made.inputs, compiled.inputs, strict=True)
    )
    return replace(
        made, inputs=inputs, kind=compiled.kind, is_partition=compiled.is_partition, key=None,
        label=compiled.label,
    )  # fmt: skip


def values_of(
    compiled: CompiledGraph, args: Sequence[Any], options: OrtOptions, wanted: str | None = None
) -> tuple[dict[str, torch.Tensor], str]:
    """Results of a converted graph that are values of FX nodes, and why there are none: ONNX
    Runtime computes them, without its optimizers, or where it cannot, the reference evaluator.

    :param wanted: the only FX node that is asked for
    """
    made = {name for proto in compiled.model.graph.node for name in proto.output}
    names = [
        name for name, node in compiled.fx_names.items() if name in made and wanted in (None, node)
    ]
    if not names:
        return {}, ""
    feeds = feeds_of(compiled, args)
    try:
        return intermediate_results(compiled.model, feeds, names, options.providers), ""
    except Exception as error:  # onnxruntime's classes derive from Exception only
        why = f"ONNX Runtime cannot run the graph without its optimizers: {_first_line(error)}"
    known: Mapping[str, Any] = {}
    try:
        for _, known in ExtendedReferenceEvaluator(compiled.model).steps(feeds):
            pass
    except Exception as error:  # whatever an operator of the evaluator raises
        why += f"; the reference evaluator stops: {_first_line(error)}"
    return {name: to_torch(known[name]) for name in names if name in known}, why


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:100]}"


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments of a graph, which the copies may be written into."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in args]


def _copied(module: GraphModule) -> GraphModule:
    """A graph that passes over the other one do not change."""
    graph = Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    return GraphModule(module, graph)


def operator_of(node: Node) -> str:
    """The operator of a node; of the node that made it, where it is one of several results."""
    return operator_key(producer(node))


def producer(node: Node) -> Node:
    """The node that calls the operator: itself, or the one of which it takes a result."""
    import operator

    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    return node
