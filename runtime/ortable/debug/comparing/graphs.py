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
from torch.fx import Graph, GraphModule, Interpreter, Node

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import compile_graph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import TorchDispatchMode, pytree
from ortable.exporter.account.gaps import AskedTolerance, Gap
from ortable.interpreter.outputs import flatten_output
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

from ..run import feeds_of
from .found import (
    Found,
    Measure,
    Recorder,
    Source,
    copied,
    is_uninitialized,
    leaves_memory,
    values_in,
)
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
                self._call_beside(original, made, args)
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

    def _call_beside(
        self, original: GraphModule, made: Callable[..., Any], args: list[Any]
    ) -> None:
        """Runs the converted graph on copies, and compares its results with those of the graph as
        AOTAutograd made it: with placement and composition of operators in between."""
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            results = made(copied(args))
        if self.found is not None or self.last is None:
            return
        last = self.last
        source = GraphSource(last.compiled, original, copied(args), last.options)
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            expected = original(*copied(args))
        for node, value, got in zip(source.outputs(), expected, results, strict=True):
            if not isinstance(value, torch.Tensor) or not isinstance(node, Node):
                continue
            gap = None if is_uninitialized(node) else self.gap(value, got)
            if gap is not None:
                self.found = Found(source, source.compiled, node, "", gap, reached="host")
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

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Receives the FX graph."""
        self.module = graph_module

    def __call__(self, args: list[Any]) -> list[Any]:
        if self.module is None or self.watch.found is not None:
            results = list(run_with_onnxruntime(self.compiled, self.options)(copied(args)))
        else:
            source = GraphSource(self.compiled, self.module, copied(args), self.options)
            results = self.watch.beside(source)
        args.clear()
        return results


class GraphSource(Source):
    """A graph of AOTAutograd, its conversion, and the arguments of one call of it."""

    is_part = True

    def __init__(
        self, compiled: CompiledGraph, module: GraphModule, args: Sequence[Any], options: OrtOptions
    ) -> None:
        self.compiled, self.module, self.args, self.options = compiled, module, args, options
        self.kind = compiled.kind  # type: ignore[assignment]
        self.providers = options.providers
        self.transforms = options.pre_ort_model_transforms
        self.rule_files = [name for name in options.rewrites if name.endswith((".yaml", ".yml"))]
        self.settings = options.session_options

    def rules(self) -> Mapping[str, Rule]:
        return {rule.name: rule for rule in rule_selection.rules(self.options.rewrites)}

    def whole(self) -> CompiledGraph:
        return self.again()

    def again(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> CompiledGraph:
        changes: dict[str, Any] = {}
        if not optimize:
            changes = {"optimize": False, "rewrites": ("default",), "pre_ort_model_transforms": ()}
        if without:
            changes["rewrites"] = (*self.options.rewrites, f"-{without}")
            changes["pre_ort_model_transforms"] = ()
        if transforms is not None:
            changes["pre_ort_model_transforms"] = tuple(transforms)
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
        return feeds_of(converted, self.args)

    def eager(
        self, names: Mapping[str, str], given: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        known = {node: value for node, value in given.items() if "." not in node}
        recorder = Recorder(self.module, set(names.values()), known)
        results = recorder.results(self.args)
        return recorder.values, results

    def in_session(self, converted: CompiledGraph, settings: Any = None) -> list[Any]:
        options = self.options
        if settings is not None:
            options = replace(options, session_options=settings)
        return list(run_with_onnxruntime(converted, options)(copied(self.args)))

    def outputs(self) -> list[Any]:
        return list(flatten_output(self.module.graph.output_node().args[0]))

    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        return values_in(self.module, self.args, given)


def _draws(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _copied(module: GraphModule) -> GraphModule:
    """A graph that passes over the other one do not change."""
    graph = Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    return GraphModule(module, graph)


GapOf = Callable[[torch.Tensor, torch.Tensor], "Gap | None"]
Table = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True)
class Decomposed:
    """An operator that its decomposition computes otherwise: the graph it is in, its node, what
    the nodes before it computed, and the difference."""

    kind: GraphKind
    node: Node
    values: Mapping[Node, Any]
    gap: Gap


class DecompositionWatch:
    """Compiles graphs of AOTAutograd to what runs them in eager and looks at each operator."""

    def __init__(self, table: Table, gap: GapOf) -> None:
        self.table = table
        self.gap = gap
        self.found: Decomposed | None = None

    def compile_graph(self, graph: GraphModule, options: OrtOptions, run: Any) -> Any:
        """What AOTAutograd's compilers do here."""
        kind = AotGraph(graph).kind

        def call(args: list[Any]) -> list[Any]:
            given = list(args)
            args.clear()
            with torch.no_grad():
                if self.found is not None:
                    return list(graph(*given))
                return list(_Checking(graph, kind, self).run(*given))

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


class _Checking(Interpreter):
    """Runs a graph, and every operator that has a decomposition a second time by that."""

    def __init__(self, module: GraphModule, kind: str, watch: DecompositionWatch) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.kind = kind
        self.watch = watch

    def run_node(self, n: Node) -> Any:
        watch = self.watch
        if watch.found is not None or not _is_checked(n, watch.table):
            return super().run_node(n)
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, torch.Tensor.clone, self.fetch_args_kwargs_from_env(n)
        )
        expected = super().run_node(n)
        try:
            with _Decomposing(watch.table):
                got = n.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # some need fake tensors, whose sizes they ask for
            return expected
        pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=False)
        for one, other in pairs:
            gap = watch.gap(one, other) if isinstance(one, torch.Tensor) else None
            if gap is not None:
                watch.found = Decomposed(self.kind, n, dict(self.env), gap)  # type: ignore[arg-type]
                break
        return expected


def _is_checked(node: Node, table: Table) -> bool:
    """Whether a node has a decomposition, and computes the same each time."""
    if node.op != "call_function" or node.target not in table or leaves_memory(node):
        return False
    return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


class _Decomposing(TorchDispatchMode):
    """While it is on, operators of a table run as what they decompose into."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator."""
        function = self.table.get(func)
        if function is not None:
            with self:
                result = function(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))
