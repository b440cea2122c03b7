"""Compare an ONNX graph with eager result by result and stop at the first mismatch.

Three stages are compared here: the graph before passes, the graph after passes, and the results of
the session. `graphs.py` adds AOTAutograd's graph ("host"). `graphs.py` and `exports.py` implement
`ComparisonSource`; `diagnosis.py` finds the cause.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from onnx import ModelProto
from torch.fx import GraphModule, Interpreter, Node

from ortable.backend.lower.aot_graph import writes_argument
from ortable.compat.torch import OpOverload
from ortable.exporter.reporting.numeric_diff import (
    NumericDiff,
    ToleranceOverride,
    intermediate_results,
)
from ortable.exporter.reporting.sessions import proto_of
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.outputs import flatten_output
from ortable.passes.rewrite.rule import Rule
from ortable_generated.aten import traits

from ..arrays import to_torch
from ..reference import ExtendedReferenceEvaluator
from .call_effects import compute_gap
from .records import MAX_NAMES, Comparison, Difference, GraphKind, NotCompared

UNKNOWN: Any = object()  # a value that cannot be computed in torch


class ValueRecorder(Interpreter):
    """Run an FX graph and record the tensors of `requested` nodes, or all values (`env`) if None.

    A value that depends on random numbers of the ONNX graph is UNKNOWN unless overridden.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        requested: Collection[str] | None,
        overrides: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(graph_module, garbage_collect_values=requested is not None)
        self.requested = requested or ()
        self.overrides = overrides or {}
        self.values: dict[str, torch.Tensor] = {}

    def run_on_copies(self, args: Sequence[Any]) -> list[Any]:
        """Run the graph on copies of the arguments, and return its results."""
        with torch.no_grad():
            return self.run(*clone_arguments(args))  # type: ignore[no-any-return]

    def run_node(self, n: Node) -> Any:
        """Run a node and record its value if it is requested."""
        if n.op == "output":
            return [self.env[x] if isinstance(x, Node) else x for x in flatten_output(n.args[0])]
        if any(self.env.get(node) is UNKNOWN for node in n.all_input_nodes):
            return self.overrides.get(n.name, UNKNOWN)
        if writes_argument(n):  # skip the write, which would change recorded views of the argument
            return self.env[n.args[1]] if isinstance(n.args[1], Node) else n.args[1]
        value = self._replay_random_op(n) if "drawn" in n.kwargs else super().run_node(n)
        if isinstance(value, torch.Tensor) and not returns_uninitialized(n):
            if n.name in self.requested:
                self.values[n.name] = value
            for part in ("real", "imag") if value.is_complex() else ():
                if f"{n.name}.{part}" in self.requested:
                    self.values[f"{n.name}.{part}"] = getattr(value.resolve_conj(), part)
        return value

    def _replay_random_op(self, n: Node) -> Any:
        """Compute a random operator from random numbers that were drawn outside the graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is not torch.ops.aten.native_dropout.default:
            return self.overrides.get(n.name, UNKNOWN)
        x, p, mask = args[0], args[1], kwargs["drawn"].bool()
        return x * mask.to(x.dtype) * (1.0 / (1.0 - p)), mask


def record_values(
    module: GraphModule, args: Sequence[Any], overrides: Mapping[str, torch.Tensor]
) -> dict[Node, Any]:
    """Compute all nodes of a graph in torch, on copies of the arguments."""
    recorder = ValueRecorder(module, None, overrides)
    recorder.run_on_copies(args)
    return dict(recorder.env)


def returns_uninitialized(node: Node) -> bool:
    """Whether torch leaves the result uninitialized, so that there is nothing to compare."""
    target = node.target
    return isinstance(target, OpOverload) and target.name() in traits.UNINITIALIZED


def clone_arguments(args: Sequence[Any]) -> list[Any]:
    """Clone the tensors among the arguments of a graph."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in args]


ComparisonStage = Literal["graph", "passes", "session", "host"]


class ConvertedGraph(Protocol):
    """A converted graph, with the members that comparisons use."""

    @property
    def model(self) -> Any:
        """The ONNX model."""
        ...

    @property
    def fx_names(self) -> Mapping[str, str]:
        """FX nodes by the names of ONNX results."""
        ...

    @property
    def cases(self) -> Mapping[str, str]:
        """Spec cases by FX node."""
        ...

    @property
    def rewrites(self) -> Mapping[str, int]:
        """Counts of how often each rewrite rule fired."""
        ...


class ComparisonSource(ABC):
    """A graph and one call of it, which can be converted and run in several variants.

    Attributes:
        kind: the kind of the graph.
        module: the FX graph.
        providers: execution providers.
        transforms: the user's functions of option `pre_ort_model_transforms`.
        rule_files: the user's files of rules.
        settings: the session options.
        is_part: whether results of the graph are inputs of other graphs.
    """

    kind: GraphKind
    module: GraphModule
    providers: Sequence[Any] | None
    transforms: Sequence[Any] = ()
    rule_files: Sequence[str] = ()
    settings: Any = None
    is_part = False

    @abstractmethod
    def active_rules(self) -> Mapping[str, Rule]:
        """Return the rewrite rules that run, by name."""

    @abstractmethod
    def convert_full(self) -> Any:
        """Convert the graph with the user's options."""

    @abstractmethod
    def convert_variant(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> Any:
        """Convert the graph again: unoptimized, without one rule, or with other transforms."""

    @abstractmethod
    def make_feeds(self, converted: Any) -> dict[str, Any]:
        """Return the arguments of the call as inputs of the ONNX graph."""

    @abstractmethod
    def eager_values(
        self, names: Mapping[str, str], overrides: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        """Compute eager's values of the nodes in `names`, and the graph's results.

        `names` maps ONNX results to FX nodes. `overrides` has values of the ONNX graph for nodes
        that torch cannot compute again.
        """

    @abstractmethod
    def run_in_session(self, converted: Any, settings: Any = None) -> list[Any]:
        """Run the converted graph in a session; `settings` replace those of the source."""

    @abstractmethod
    def output_nodes(self) -> list[Any]:
        """Return the nodes and constants that the graph returns."""

    @abstractmethod
    def torch_values(self, overrides: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """Compute all nodes in torch."""

    def compute_values(
        self, converted: ConvertedGraph, node_name: str | None = None
    ) -> tuple[dict[str, torch.Tensor], str]:
        """Compute the ONNX results that are values of FX nodes, or of the node `node_name` only.

        The second value is the reason why results are missing; empty if none is.
        """
        names = [name for name, node in converted.fx_names.items() if node_name in (None, node)]
        return compute_results(converted.model, self.make_feeds(converted), names, self.providers)


@dataclass(frozen=True)
class Mismatch:
    """The first result that differs, with the data for a diagnosis.

    Attributes:
        source: the graph, and the call.
        converted: the converted graph that was compared.
        node: the FX node.
        result: name of the ONNX result; empty for a difference in returned values only.
        gap: the difference, with both values.
        agreed: earlier ONNX results that agree with eager, with their values.
        stage: the compared values: `"graph"`, results in the ONNX graph before passes;
            `"passes"`, results in the ONNX graph after passes and transforms; `"session"`, results
            of the session; `"host"`, results of AOTAutograd's graph.
    """

    source: ComparisonSource
    converted: ConvertedGraph
    node: Node
    result: str
    gap: NumericDiff
    agreed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    stage: ComparisonStage = "graph"


@dataclass
class ComparisonStats:
    """Counts of compared results and graphs, tolerances, and results that were not compared."""

    compared: int = 0
    graphs: int = 0
    unreached: dict[str, list[str]] = field(default_factory=dict)
    tolerances: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add_skipped(self, why: str, names: Sequence[str]) -> None:
        """Record nodes that are not compared, with the reason `why`."""
        if names:
            self.unreached.setdefault(why, []).extend(names)

    def make_comparison(self, difference: Difference | None) -> Comparison:
        """Make the record that `ortable.first_difference` returns."""
        unreached = tuple(
            NotCompared(why, len(names), tuple(dict.fromkeys(names))[:MAX_NAMES])
            for why, names in self.unreached.items()
        )
        return Comparison(
            difference, self.compared, self.graphs, unreached, dict(sorted(self.tolerances.items()))
        )


class Comparator:
    """A comparison: the tolerance, the counts so far, and the first mismatch."""

    def __init__(self, tolerance: ToleranceOverride) -> None:
        self.tolerance = tolerance
        self.stats = ComparisonStats()
        self.mismatch: Mismatch | None = None

    def compute_gap(self, expected: Any, got: Any) -> NumericDiff | None:
        """Compute the difference of a result from eager's; None if it is within the tolerance."""
        return compute_gap(expected, got, self.tolerance)

    def record_agreement(self, value: torch.Tensor) -> None:
        """Count a result that agrees with eager's `value`."""
        dtype = real_tensor(value).dtype
        self.stats.compared += 1
        self.stats.tolerances[str(dtype).removeprefix("torch.")] = self.tolerance.of(dtype)

    def compare_graph(self, source: ComparisonSource) -> list[Any]:
        """Compare an ONNX graph with eager, and return its results by `_compare_returned`."""
        self.stats.graphs += 1
        plain, converted = source.convert_variant(optimize=False), source.convert_full()
        computed, why = source.compute_values(plain)
        overrides = {plain.fx_names[name]: value for name, value in computed.items()}
        eager, results = source.eager_values({**converted.fx_names, **plain.fx_names}, overrides)
        self.mismatch = mismatch = _find_mismatch(self, source, plain, eager, computed, "graph")
        self._count_results(source, _results_by_node(plain, computed), eager, why)
        optimized, _ = source.compute_values(converted)
        self.mismatch = _find_mismatch(self, source, converted, eager, optimized, "passes")
        returned = self._compare_returned(source, converted, results)
        if mismatch is not None and self.mismatch is None:
            self.stats.add_skipped(
                f"differs before passes only: {mismatch.gap.what}", [mismatch.node.name]
            )
        else:
            self.mismatch = mismatch or self.mismatch
        return returned

    def _count_results(
        self,
        source: ComparisonSource,
        names: Mapping[str, Sequence[str]],
        eager: Mapping[str, torch.Tensor],
        why: str,
    ) -> None:
        """Count the results before the mismatch: compared results, and those that cannot be."""
        unknown, removed = [], []
        for node in source.module.graph.nodes:
            if self.mismatch is not None and node is self.mismatch.node:
                break
            compared = [name for name in _value_names(node) if name in names]
            available = [name for name in compared if name in eager]
            if available:
                self.record_agreement(eager[available[0]])
            elif compared:
                unknown.append(node.name)
            elif node.op == "call_function" and not writes_argument(node):
                removed += [node.name] if isinstance(node.meta.get("val"), torch.Tensor) else []
        self.stats.add_skipped(why or "absent from the ONNX graph", removed)
        self.stats.add_skipped("random numbers or uninitialized memory", unknown)

    def _compare_returned(
        self, source: ComparisonSource, converted: ConvertedGraph, results: Sequence[Any]
    ) -> list[Any]:
        """Compare the session's results; return eager's results, and the session's where UNKNOWN.

        After a mismatch, return [] if no later graph reads the results.
        """
        if self.mismatch is not None and not source.is_part:
            return []
        returned = []
        computed = source.run_in_session(converted)
        for node, expected, got in zip(source.output_nodes(), results, computed, strict=True):
            comparable = isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor)
            returned.append(got if expected is UNKNOWN else expected)
            if self.mismatch is not None or not comparable or is_uninitialized(node):
                continue
            gap = self.compute_gap(expected, got)
            if gap is not None:
                self.mismatch = Mismatch(source, converted, node, "", gap, stage="session")
        return returned


def _find_mismatch(
    comparator: Comparator,
    source: ComparisonSource,
    converted: ConvertedGraph,
    eager: Mapping[str, torch.Tensor],
    computed: Mapping[str, torch.Tensor],
    stage: ComparisonStage,
) -> Mismatch | None:
    """Find the first computed ONNX result that differs, in the order of the FX graph."""
    names = _results_by_node(converted, computed)
    agreed: dict[str, torch.Tensor] = {}
    for node in source.module.graph.nodes:
        for fx_name in _value_names(node):
            for name in names.get(fx_name, ()) if fx_name in eager else ():
                gap = comparator.compute_gap(eager[fx_name], computed[name])
                if gap is not None:
                    return Mismatch(source, converted, node, name, gap, agreed, stage)
                agreed[name] = computed[name]
    return None


def _results_by_node(
    converted: ConvertedGraph, computed: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Group the computed ONNX results by the name of their FX node."""
    names: dict[str, list[str]] = {}
    for name, node in converted.fx_names.items():
        if name in computed:
            names.setdefault(node, []).append(name)
    return names


def _value_names(node: Node) -> tuple[str, str, str]:
    """Return the names that values of a node may have: for the node, and for complex parts."""
    return node.name, f"{node.name}.real", f"{node.name}.imag"


def compute_results(
    model: Any, feeds: Mapping[str, Any], names: Sequence[str], providers: Sequence[Any] | None
) -> tuple[dict[str, torch.Tensor], str]:
    """Compute those of the named results that a model has.

    ONNX Runtime computes them without its optimizers; the reference evaluator is the fallback. The
    second value is the reason why ONNX Runtime failed; empty if it did not.
    """
    produced = {name for proto in proto_of(model).graph.node for name in proto.output}
    names = [name for name in names if name in produced]
    if not names:
        return {}, ""
    try:
        return intermediate_results(model, feeds, names, providers), ""
    except Exception as error:  # onnxruntime's classes derive from Exception only
        why = f"ONNX Runtime cannot run the graph without its optimizers: {_first_line(error)}"
    if not isinstance(model, ModelProto):
        return {}, why
    values: Mapping[str, Any] = {}
    try:
        for _, results in ExtendedReferenceEvaluator(model).steps(feeds):
            values = results
    except Exception as error:  # operators of the evaluator raise errors of many types
        why += f"; the reference evaluator stops: {_first_line(error)}"
    return {name: to_torch(values[name]) for name in names if name in values}, why


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:100]}"


def operator_name(node: Node) -> str:
    """Return the operator of a node; for a `getitem` node, the operator of its tuple."""
    return operator_key(find_producer(node))


def find_producer(node: Node) -> Node:
    """Return `node`, or the node whose tuple a `getitem` node indexes."""
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def is_uninitialized(node: Any) -> bool:
    """Whether an output is uninitialized memory, which cannot be compared."""
    return isinstance(node, Node) and returns_uninitialized(find_producer(node))
