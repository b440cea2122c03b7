"""Compare the AOTAutograd graphs of one call with their ONNX graphs, result by result.

Each graph returns eager's results. So later graphs are compared on eager's values, and a backward
graph on the tensors that eager's forward saved: a mismatch in one graph causes none in another.
"""

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
from ortable.exporter.reporting.numeric_diff import NumericDiff, ToleranceOverride
from ortable.interpreter.outputs import flatten_output
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

from ..run import make_feeds
from .mismatch import (
    Comparator,
    ComparisonSource,
    Mismatch,
    ValueRecorder,
    clone_arguments,
    is_uninitialized,
    record_values,
    returns_uninitialized,
)
from .records import GraphKind


class CallComparator(Comparator):
    """The comparison of all graphs of one call."""

    def __init__(self, tolerance: ToleranceOverride) -> None:
        super().__init__(tolerance)
        self.last_graph: ComparedGraph | None = None
        self.uses_rng = False

    def compile_graph(self, graph: GraphModule, options: OrtOptions, runner: Any) -> Any:
        """Compile a graph for AOTAutograd; return a function that compares it with eager."""
        original = _copy_graph(graph)
        self.uses_rng |= any(map(_is_random, graph.graph.nodes))
        records: dict[str, Any] = {}
        compiled = compile_aot_graph(graph, replace(options, storage=records), runner)
        self._record_torch_ops(records.get("instance", ()), options)

        def call(args: list[Any]) -> list[Any]:
            if self.mismatch is None:
                self._compare_call(original, compiled, args)
            with torch.no_grad():
                results = original(*args)
            args.clear()
            return list(results)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _record_torch_ops(self, records: Sequence[Any], options: OrtOptions) -> None:
        """Record the operators that torch runs as not compared, since no ONNX graph has them."""
        if options.storage is not None:
            options.storage.setdefault("instance", []).extend(records)
        placement = records[0].placement if records else ()
        names = [record.operator for record in placement if record.where == "torch"]
        self.stats.add_skipped("torch runs them", names)

    def _compare_call(
        self, original: GraphModule, compiled: Callable[..., Any], args: list[Any]
    ) -> None:
        """Compare the converted graphs, and then ortable's preparation of AOTAutograd's graph.

        The runners of `make_runner` compare while `compiled` runs on copies of the arguments, and
        return eager's results of the prepared graph. Those are compared with the original graph.
        """
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            results = compiled(clone_arguments(args))
        if self.mismatch is not None or self.last_graph is None:
            return
        graph = self.last_graph
        source = GraphSource(graph.compiled, original, clone_arguments(args), graph.options)
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            expected = original(*clone_arguments(args))
        for node, value, got in zip(source.output_nodes(), expected, results, strict=True):
            if not isinstance(value, torch.Tensor) or not isinstance(node, Node):
                continue
            gap = None if is_uninitialized(node) else self.compute_gap(value, got)
            if gap is not None:
                self.mismatch = Mismatch(source, source.compiled, node, "", gap, stage="host")
                return

    def make_runner(self, compiled: CompiledGraph, options: OrtOptions) -> ComparedGraph:
        """Make the runner of a converted graph, or of one of its partitions."""
        self.last_graph = ComparedGraph(compiled, options, self)
        return self.last_graph


class ComparedGraph:
    """A boxed callable that compares one converted graph and returns eager's results."""

    def __init__(
        self, compiled: CompiledGraph, options: OrtOptions, comparator: CallComparator
    ) -> None:
        self._boxed_call = True
        self.compiled = compiled
        self.options = options
        self.comparator = comparator
        self.module: GraphModule | None = None

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Set the FX graph."""
        self.module = graph_module

    def __call__(self, args: list[Any]) -> list[Any]:
        """Compare one call and return eager's results; after a mismatch, only run the session."""
        if self.module is None or self.comparator.mismatch is not None:
            results = list(run_with_onnxruntime(self.compiled, self.options)(clone_arguments(args)))
        else:
            source = GraphSource(self.compiled, self.module, clone_arguments(args), self.options)
            results = self.comparator.compare_graph(source)
        args.clear()
        return results


class GraphSource(ComparisonSource):
    """A graph of AOTAutograd, its conversion, and the arguments of one call."""

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

    def active_rules(self) -> Mapping[str, Rule]:
        """Return the rules of option `rewrites`, by name."""
        return {rule.name: rule for rule in rule_selection.select_rules(self.options.rewrites)}

    def convert_full(self) -> CompiledGraph:
        """Convert the graph with the user's options."""
        return self.convert_variant()

    def convert_variant(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> CompiledGraph:
        """Convert the graph with changed options."""
        changes: dict[str, Any] = {}
        if not optimize:
            changes = {"optimize": False, "rewrites": ("default",), "pre_ort_model_transforms": ()}
        if without:
            changes["rewrites"] = (*self.options.rewrites, f"-{without}")
            changes["pre_ort_model_transforms"] = ()
        if transforms is not None:
            changes["pre_ort_model_transforms"] = tuple(transforms)
        compiled = compile_graph(AotGraph(self.module), replace(self.options, **changes))
        base = self.compiled
        inputs = compiled.inputs
        if len(inputs) == len(base.inputs):
            inputs = tuple(
                replace(role, static=base_role.static, untracked_writes=base_role.untracked_writes)
                for role, base_role in zip(inputs, base.inputs, strict=True)
            )
        return replace(
            compiled, inputs=inputs, kind=base.kind, is_partition=base.is_partition, key=None,
            label=base.label,
        )  # fmt: skip

    def make_feeds(self, converted: CompiledGraph) -> dict[str, Any]:
        """Convert the arguments of the call to inputs of the ONNX graph."""
        return make_feeds(converted, self.args)

    def eager_values(
        self, names: Mapping[str, str], overrides: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        """Run the FX graph; return the values of the nodes in `names`, and its results."""
        node_values = {node: value for node, value in overrides.items() if "." not in node}
        recorder = ValueRecorder(self.module, set(names.values()), node_values)
        results = recorder.run_on_copies(self.args)
        return recorder.values, results

    def run_in_session(self, converted: CompiledGraph, settings: Any = None) -> list[Any]:
        """Run the converted graph by ONNX Runtime on copies of the arguments."""
        options = self.options
        if settings is not None:
            options = replace(options, session_options=settings)
        return list(run_with_onnxruntime(converted, options)(clone_arguments(self.args)))

    def output_nodes(self) -> list[Any]:
        """Return the nodes and constants that the FX graph returns."""
        return list(flatten_output(self.module.graph.output_node().args[0]))

    def torch_values(self, overrides: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """Compute all nodes of the FX graph in torch."""
        return record_values(self.module, self.args, overrides)


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _copy_graph(module: GraphModule) -> GraphModule:
    """Copy a graph, so that passes over the original do not change the copy."""
    graph = Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    return GraphModule(module, graph)


GapFunction = Callable[[torch.Tensor, torch.Tensor], "NumericDiff | None"]
DecompositionTable = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True)
class DecompositionMismatch:
    """An operator whose decomposition has another result, and the values of earlier nodes."""

    kind: GraphKind
    node: Node
    values: Mapping[Node, Any]
    gap: NumericDiff


class DecompositionComparator:
    """Compare the operators in the AOTAutograd graphs of a call with their decompositions."""

    def __init__(self, table: DecompositionTable, gap: GapFunction) -> None:
        self.table = table
        self.gap = gap
        self.mismatch: DecompositionMismatch | None = None

    def compile_graph(self, graph: GraphModule, options: OrtOptions, run: Any) -> Any:
        """Return a function that runs the graph in eager and compares its operators."""
        kind = AotGraph(graph).kind

        def call(args: list[Any]) -> list[Any]:
            inputs = list(args)
            args.clear()
            with torch.no_grad():
                if self.mismatch is not None:
                    return list(graph(*inputs))
                return list(_DecompositionInterpreter(graph, kind, self).run(*inputs))

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


class _DecompositionInterpreter(Interpreter):
    """Run a graph in eager, and also the decomposition of each operator that has one."""

    def __init__(self, module: GraphModule, kind: str, comparator: DecompositionComparator) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.kind = kind
        self.comparator = comparator

    def run_node(self, n: Node) -> Any:
        comparator = self.comparator
        if comparator.mismatch is not None or not _is_checked(n, comparator.table):
            return super().run_node(n)
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, torch.Tensor.clone, self.fetch_args_kwargs_from_env(n)
        )
        expected = super().run_node(n)
        try:
            with _DecompositionMode(comparator.table):
                got = n.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # some decompositions only run on fake tensors
            return expected
        pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=False)
        for expected_leaf, got_leaf in pairs:
            gap = (
                comparator.gap(expected_leaf, got_leaf)
                if isinstance(expected_leaf, torch.Tensor)
                else None
            )
            if gap is not None:
                comparator.mismatch = DecompositionMismatch(self.kind, n, dict(self.env), gap)  # type: ignore[arg-type]
                break
        return expected


def _is_checked(node: Node, table: DecompositionTable) -> bool:
    """Whether a node has a decomposition and is deterministic."""
    if node.op != "call_function" or node.target not in table or returns_uninitialized(node):
        return False
    return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


class _DecompositionMode(TorchDispatchMode):
    """A dispatch mode that replaces the operators of a table by their decompositions."""

    def __init__(self, table: DecompositionTable) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        function = self.table.get(func)
        if function is not None:
            with self:
                result = function(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))
