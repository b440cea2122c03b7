"""The graphs of one call, each run in eager and as ONNX graph, result by result, until something
differs. In come graphs of AOTAutograd and the arguments of their calls, out comes what a
`Comparison` says; called by `difference`.

Each graph hands on what eager computes for it. So the graphs behind are compared on eager's values,
and the backward on the tensors that eager's forward saved: the first difference is no consequence
of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph, writes_argument
from ortable.backend.lower.compile import compile_graph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.interpreter.outputs import flatten_output
from ortable.passes.rewrite import choose
from ortable.passes.rewrite.rule import Rule

from ..compare import UNKNOWN, AskedTolerance, EagerValues, leaves_memory
from ..run import feeds_of
from .found import Found, Measure, Reached, copied, producer, results_of, values_in
from .records import GraphKind


class Watch(Measure):
    """The comparison of the graphs of one call."""

    def __init__(self, tolerance: AskedTolerance) -> None:
        super().__init__(tolerance)
        self.last: ComparedGraph | None = None
        self.draws = False  # whether a graph draws random numbers

    def compile_graph(self, graph: GraphModule, options: OrtOptions, run: Any) -> Any:
        """What AOTAutograd's compilers do here: compiles a graph, and returns what runs it in eager
        with the converted one beside it."""
        original = _copied(graph)
        self.draws |= any(map(_draws, graph.graph.nodes))
        records: dict[str, Any] = {}
        made = compile_aot_graph(graph, replace(options, storage=records), run)
        self._left_to_torch(records.get("instance", ()), options)

        def call(args: list[Any]) -> list[Any]:
            if self.found is None:
                self._beside(original, made, args)
            with torch.no_grad():
                results = original(*args)
            args.clear()
            return list(results)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _left_to_torch(self, records: Sequence[Any], options: OrtOptions) -> None:
        """What torch runs is eager's: it is no part of an ONNX graph."""
        if options.storage is not None:
            options.storage.setdefault("instance", []).extend(records)
        placement = records[0].placement if records else ()
        names = [each.operator for each in placement if each.where == "torch"]
        self.tally.leave("torch runs them", names)

    def _beside(self, original: GraphModule, made: Callable[..., Any], args: list[Any]) -> None:
        """Runs the converted graph on copies, and compares its results with those of the graph as
        AOTAutograd made it: with placement and composition of operators in between."""
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            results = made(copied(args))
        if self.found is not None or self.last is None:
            return
        source = replace(self.last.source(), module=original, args=copied(args))
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            expected = original(*copied(args))
        nodes = list(flatten_output(original.graph.output_node().args[0]))
        for node, value, got in zip(nodes, expected, results, strict=True):
            if not isinstance(value, torch.Tensor) or not isinstance(node, Node):
                continue
            gap = None if is_uninitialized(node) else self.gap(value, got)
            if gap is not None:
                self.found = Found(source, source.compiled, node, "", gap, value, got, {}, "host")
                return

    def runner(self, compiled: CompiledGraph, options: OrtOptions) -> ComparedGraph:
        """What runs one converted graph, or a partition of one: eager, after the comparison."""
        self.last = ComparedGraph(compiled, options, self)
        return self.last


class ComparedGraph:
    """One converted graph as a boxed callable: it compares, and returns eager's results."""

    def __init__(self, compiled: CompiledGraph, options: OrtOptions, watch: Watch) -> None:
        self._boxed_call = True
        self.compiled = compiled
        self.options = options
        self.watch = watch
        self.module: GraphModule | None = None
        self.args: list[Any] = []

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Receives the FX graph."""
        self.module = graph_module

    def source(self) -> GraphSource:
        """The graph and the call that is compared."""
        assert self.module is not None
        return GraphSource(self.compiled, self.module, self.args, self.options)

    def __call__(self, args: list[Any]) -> list[Any]:
        results = self._results(args)
        args.clear()
        return results

    def _results(self, args: list[Any]) -> list[Any]:
        watch = self.watch
        if self.module is None or watch.found is not None:
            return list(run_with_onnxruntime(self.compiled, self.options)(copied(args)))
        watch.tally.graphs += 1
        self.args = copied(args)
        source = self.source()
        plain = whole = source.without_passes()
        if self.options.optimize or self.options.pre_ort_model_transforms:
            whole = source.converted()
        computed, why = source.values_of(plain)
        pairs = ((plain.fx_names[name], value) for name, value in computed.items())
        given = {node: value for node, value in pairs if "." not in node}
        wanted = {**whole.fx_names, **plain.fx_names}
        eager = EagerValues(self.module, args, wanted, watch.tolerance, given)
        watch.found = found = self._compared(source, plain, eager, computed, "graph")
        self._count(plain, eager, computed, why)
        if whole is not plain:
            computed, _ = source.values_of(whole)
            watch.found = self._compared(source, whole, eager, computed, "passes")
        results = self._session(source, whole, eager)
        if found is not None and watch.found is None and whole is not plain:
            watch.tally.leave(f"passes mend it: {found.gap.what}", [found.node.name])
        else:
            watch.found = found or watch.found
        return results

    def _compared(
        self,
        source: GraphSource,
        compiled: CompiledGraph,
        eager: EagerValues,
        computed: Mapping[str, torch.Tensor],
        reached: Reached,
    ) -> Found | None:
        """Compares what the nodes of the ONNX graph compute, in the order of the FX graph."""
        names = _by_node(compiled, computed)
        agreed: dict[str, torch.Tensor] = {}
        for node in source.module.graph.nodes:
            for fx_name in (node.name, *_parts(node)):
                expected = eager.values.get(fx_name)
                if expected is None:
                    continue
                for name in names.get(fx_name, ()):
                    got = computed[name]
                    gap = self.watch.gap(expected, got)
                    if gap is not None:
                        return Found(
                            source, compiled, node, name, gap, expected, got, agreed, reached
                        )
                    agreed[name] = got
        return None

    def _count(
        self,
        compiled: CompiledGraph,
        eager: EagerValues,
        computed: Mapping[str, torch.Tensor],
        why: str,
    ) -> None:
        """Counts the results before the difference that were compared, and those that were not."""
        watch = self.watch
        assert self.module is not None
        names = _by_node(compiled, computed)
        unknown, gone = [], []
        for node in self.module.graph.nodes:
            if watch.found is not None and node is watch.found.node:
                break
            compared = [each for each in (node.name, *_parts(node)) if each in names]
            known = [each for each in compared if each in eager.values]
            if known:
                watch.agree(eager.values[known[0]])
            elif compared:
                unknown.append(node.name)
            elif node.op == "call_function" and not writes_argument(node):
                gone += [node.name] if isinstance(node.meta.get("val"), torch.Tensor) else []
        watch.tally.leave(why or "the ONNX graph has no result of their own", gone)
        watch.tally.leave("their numbers are random, or memory that nothing wrote", unknown)

    def _session(
        self, source: GraphSource, compiled: CompiledGraph, eager: EagerValues
    ) -> list[Any]:
        """What the session returns that torch.compile would run, optimizers and all: compared with
        eager, and handed on where eager does not know the value."""
        watch = self.watch
        results = source.in_session(compiled)
        handed = []
        for node, expected, got in zip(source.outputs(), eager.results, results, strict=True):
            handed.append(got if expected is UNKNOWN else expected)
            known = isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor)
            if watch.found is not None or not known or is_uninitialized(node):
                continue
            gap = watch.gap(expected, got)
            if gap is not None:
                watch.found = Found(source, compiled, node, "", gap, expected, got, {}, "session")
        return handed


@dataclass(frozen=True)
class GraphSource:
    """A graph of AOTAutograd and one call of it, which can be converted and run in other ways.

    Attributes:
        compiled: its conversion, as the compilation made it.
        module: the FX graph.
        args: the arguments of the call.
        options: those of the compilation.
    """

    compiled: CompiledGraph
    module: GraphModule
    args: Sequence[Any]
    options: OrtOptions

    @property
    def kind(self) -> GraphKind:
        """Which graph it is."""
        return self.compiled.kind  # type: ignore[return-value]

    @property
    def providers(self) -> Sequence[Any] | None:
        """What runs it."""
        return self.options.providers

    @property
    def transforms(self) -> Sequence[Any]:
        """The user's functions that change the model."""
        return self.options.pre_ort_model_transforms

    @property
    def rule_files(self) -> Sequence[str]:
        """The user's files of rules."""
        return [name for name in self.options.rewrites if name.endswith((".yaml", ".yml"))]

    def rules(self) -> Mapping[str, Rule]:
        """The rules that run, by name."""
        return {rule.name: rule for rule in choose.rules(self.options.rewrites)}

    def same_again(self) -> CompiledGraph:
        """The graph converted anew, as it was."""
        return self.converted()

    def without_rule(self, name: str) -> CompiledGraph:
        """The graph converted without one of the rules, and without transforms."""
        return self.converted(
            rewrites=(*self.options.rewrites, f"-{name}"), pre_ort_model_transforms=()
        )

    def with_transforms(self, chosen: Sequence[Any]) -> CompiledGraph:
        """The graph converted with these transforms."""
        return self.converted(pre_ort_model_transforms=tuple(chosen))

    def without_passes(self) -> CompiledGraph:
        """The graph as converters make it."""
        changes: dict[str, Any] = {"optimize": False, "rewrites": ("default",)}
        return self.converted(**changes, pre_ort_model_transforms=())

    def converted(self, **changes: Any) -> CompiledGraph:
        """The graph converted anew, with some options changed: no cache is asked."""
        made = compile_graph(AotGraph(self.module), replace(self.options, **changes))
        known = self.compiled
        inputs = made.inputs
        if len(inputs) == len(known.inputs):
            inputs = tuple(
                replace(each, static=of.static, untracked_writes=of.untracked_writes)
                for each, of in zip(inputs, known.inputs, strict=True)
            )
        return replace(
            made, inputs=inputs, kind=known.kind, is_partition=known.is_partition, key=None,
            label=known.label,
        )  # fmt: skip

    def feeds(self, converted: CompiledGraph) -> dict[str, Any]:
        """The call as inputs of the ONNX graph."""
        return feeds_of(converted, self.args)

    def values_of(
        self, converted: CompiledGraph, wanted: str | None = None
    ) -> tuple[dict[str, torch.Tensor], str]:
        """Results of a converted graph that are values of FX nodes, and why there are none.

        :param wanted: the only FX node that is asked for
        """
        names = [n for n, node in converted.fx_names.items() if wanted in (None, node)]
        return results_of(converted.model, self.feeds(converted), names, self.providers)

    @property
    def settings(self) -> Any:
        """Settings of the session."""
        return self.options.session_options

    def in_session(self, converted: CompiledGraph, settings: Any = None) -> list[Any]:
        """What the session of a converted graph returns; `settings` instead of those asked for."""
        options = self.options
        if settings is not None:
            options = replace(options, session_options=settings)
        return list(run_with_onnxruntime(converted, options)(copied(self.args)))

    def outputs(self) -> list[Any]:
        """The nodes that the graph returns, and constants."""
        return list(flatten_output(self.module.graph.output_node().args[0]))

    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """What the nodes compute in torch."""
        return values_in(self.module, self.args, given)


def _parts(node: Node) -> tuple[str, str]:
    """What the parts of a complex value are called."""
    return f"{node.name}.real", f"{node.name}.imag"


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


def _draws(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _copied(module: GraphModule) -> GraphModule:
    """A graph that passes over the other one do not change."""
    graph = Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    return GraphModule(module, graph)
