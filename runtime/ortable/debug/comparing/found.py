"""Two versions of a graph side by side: what torch computes and what the ONNX graph computes, as
converters make it, after passes, and as the session returns it, until something differs. In comes
a `Source`, out come a `Found` and a `Tally`; called by `graphs` and `exports`."""

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
from ortable.exporter.account.gaps import AskedTolerance, Gap, intermediate_results
from ortable.exporter.account.sessions import proto_of
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.outputs import flatten_output
from ortable.passes.rewrite.rule import Rule
from ortable_generated.aten import traits

from ..arrays import to_torch
from ..reference import ExtendedReferenceEvaluator
from .outcome import gap_of
from .records import MOST_NAMES, Comparison, Difference, GraphKind, Unreached

UNKNOWN: Any = object()


class Recorder(Interpreter):
    """Runs an FX graph and keeps the tensors that some nodes compute, or all values (`env`) where
    `wanted` is None. Those that follow from random numbers which only the converted graph knows how
    to use are unknown, unless they are given."""

    def __init__(
        self,
        graph_module: GraphModule,
        wanted: Collection[str] | None,
        given: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(graph_module, garbage_collect_values=wanted is not None)
        self.wanted = wanted or ()
        self.given = given or {}
        self.values: dict[str, torch.Tensor] = {}

    def results(self, args: Sequence[Any]) -> list[Any]:
        """What the graph returns; the arguments are left alone."""
        with torch.no_grad():
            return self.run(*copied(args))  # type: ignore[no-any-return]

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return [self.env[x] if isinstance(x, Node) else x for x in flatten_output(n.args[0])]
        if any(self.env.get(node) is UNKNOWN for node in n.all_input_nodes):
            return self.given.get(n.name, UNKNOWN)
        if writes_argument(n):  # at the end: views of the argument are kept as they were read
            return self.env[n.args[1]] if isinstance(n.args[1], Node) else n.args[1]
        value = self._of_drawn(n) if "drawn" in n.kwargs else super().run_node(n)
        if isinstance(value, torch.Tensor) and not leaves_memory(n):
            if n.name in self.wanted:
                self.values[n.name] = value
            for part in ("real", "imag") if value.is_complex() else ():
                if f"{n.name}.{part}" in self.wanted:
                    self.values[f"{n.name}.{part}"] = getattr(value.resolve_conj(), part)
        return value

    def _of_drawn(self, n: Node) -> Any:
        """The value of a random operator whose numbers torch drew outside of this graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is not torch.ops.aten.native_dropout.default:
            return self.given.get(n.name, UNKNOWN)
        x, p, mask = args[0], args[1], kwargs["drawn"].bool()
        return x * mask.to(x.dtype) * (1.0 / (1.0 - p)), mask


def values_in(
    module: GraphModule, args: Sequence[Any], given: Mapping[str, torch.Tensor]
) -> dict[Node, Any]:
    """What every node of a graph computes in torch; the arguments are left alone."""
    recorder = Recorder(module, None, given)
    recorder.results(args)
    return dict(recorder.env)


def leaves_memory(node: Node) -> bool:
    """Whether torch leaves the result uninitialised: it has no value to compare."""
    target = node.target
    return isinstance(target, OpOverload) and target.name() in traits.UNINITIALIZED


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments of a graph, which the copies may be written into."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in args]


Reached = Literal["graph", "passes", "session", "host"]


class Converted(Protocol):
    """A converted graph: a model, which of its results are values of which FX nodes, which cases
    of their entries nodes took, and how often rules fired."""

    @property
    def model(self) -> Any: ...
    @property
    def fx_names(self) -> Mapping[str, str]: ...
    @property
    def cases(self) -> Mapping[str, str]: ...
    @property
    def rewrites(self) -> Mapping[str, int]: ...


class Source(ABC):
    """A graph and one call of it, which can be converted and run in other ways.

    Attributes:
        kind: which graph it is.
        module: the FX graph.
        providers: what runs it.
        transforms: the user's functions that change the model.
        rule_files: the user's files of rules.
        settings: of the session.
        is_part: whether what it returns goes on to other graphs.
    """

    kind: GraphKind
    module: GraphModule
    providers: Sequence[Any] | None
    transforms: Sequence[Any] = ()
    rule_files: Sequence[str] = ()
    settings: Any = None
    is_part = False

    @abstractmethod
    def rules(self) -> Mapping[str, Rule]:
        """The rules that run, by name."""

    @abstractmethod
    def whole(self) -> Any:
        """The graph as the user has it converted."""

    @abstractmethod
    def again(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> Any:
        """The graph converted anew: as it was, as converters make it, without one of the rules, or
        with these transforms."""

    @abstractmethod
    def feeds(self, converted: Any) -> dict[str, Any]:
        """The call as inputs of the ONNX graph."""

    @abstractmethod
    def eager(
        self, names: Mapping[str, str], given: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        """Eager's values of the FX nodes that ONNX results are named after, and of what the graph
        returns; `given` are values of the ONNX graph, for what torch cannot compute again."""

    @abstractmethod
    def in_session(self, converted: Any, settings: Any = None) -> list[Any]:
        """What the session of a converted graph returns; `settings` instead of those asked for."""

    @abstractmethod
    def outputs(self) -> list[Any]:
        """The nodes that the graph returns, and constants."""

    @abstractmethod
    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """What the nodes compute in torch."""

    def values_of(
        self, converted: Converted, wanted: str | None = None
    ) -> tuple[dict[str, torch.Tensor], str]:
        """Results of a converted graph that are values of FX nodes, or of the one that is `wanted`,
        and why there are none."""
        names = [n for n, node in converted.fx_names.items() if wanted in (None, node)]
        return results_of(converted.model, self.feeds(converted), names, self.providers)


@dataclass(frozen=True)
class Found:
    """The first result that differs: where, by how much, and what is needed to find out why.

    Attributes:
        source: the graph, and the call.
        converted: what was compared.
        node: the FX node.
        result: name of the ONNX result; empty where only what is returned differs.
        gap: how far it is from eager, and both values.
        agreed: ONNX results before it that agree, with their values.
        reached: what was compared: `"graph"`, results inside the ONNX graph as converters make
            it; `"passes"`, those after passes and transforms; `"session"`, what the session
            returns; `"host"`, the results of the graph as AOTAutograd made it.
    """

    source: Source
    converted: Converted
    node: Node
    result: str
    gap: Gap
    agreed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    reached: Reached = "graph"


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

    def comparison(self, difference: Difference | None) -> Comparison:
        """What was found, as the caller gets it."""
        unreached = tuple(
            Unreached(why, len(names), tuple(dict.fromkeys(names))[:MOST_NAMES])
            for why, names in self.unreached.items()
        )
        return Comparison(
            difference, self.compared, self.graphs, unreached, dict(sorted(self.tolerances.items()))
        )


class Measure:
    """A comparison: the tolerance, what was compared so far, and the first difference."""

    def __init__(self, tolerance: AskedTolerance) -> None:
        self.tolerance = tolerance
        self.tally = Tally()
        self.found: Found | None = None

    def gap(self, expected: Any, got: Any) -> Gap | None:
        """How far a result is from eager; None where it is near enough."""
        return gap_of(expected, got, self.tolerance)

    def agree(self, value: torch.Tensor) -> None:
        """One more result agrees with `value`, eager's."""
        dtype = real_tensor(value).dtype
        self.tally.compared += 1
        self.tally.tolerances[str(dtype).removeprefix("torch.")] = self.tolerance.of(dtype)

    def beside(self, source: Source) -> list[Any]:
        """Compares an ONNX graph with eager until something differs, and returns what the graph
        returns: eager's values, where these are known."""
        self.tally.graphs += 1
        plain, whole = source.again(optimize=False), source.whole()
        computed, why = source.values_of(plain)
        given = {plain.fx_names[name]: value for name, value in computed.items()}
        eager, results = source.eager({**whole.fx_names, **plain.fx_names}, given)
        self.found = found = _first(self, source, plain, eager, computed, "graph")
        self._count(source, _by_node(plain, computed), eager, why)
        after, _ = source.values_of(whole)
        self.found = _first(self, source, whole, eager, after, "passes")
        handed = self._returned(source, whole, results)
        if found is not None and self.found is None:
            self.tally.leave(f"passes mend it: {found.gap.what}", [found.node.name])
        else:
            self.found = found or self.found
        return handed

    def _count(
        self,
        source: Source,
        names: Mapping[str, Sequence[str]],
        eager: Mapping[str, torch.Tensor],
        why: str,
    ) -> None:
        """Counts the results before the difference that were compared, and those that were not."""
        unknown, gone = [], []
        for node in source.module.graph.nodes:
            if self.found is not None and node is self.found.node:
                break
            compared = [each for each in _values_of(node) if each in names]
            known = [each for each in compared if each in eager]
            if known:
                self.agree(eager[known[0]])
            elif compared:
                unknown.append(node.name)
            elif node.op == "call_function" and not writes_argument(node):
                gone += [node.name] if isinstance(node.meta.get("val"), torch.Tensor) else []
        self.tally.leave(why or "the ONNX graph has no result of their own", gone)
        self.tally.leave("their numbers are random, or memory that nothing wrote", unknown)

    def _returned(self, source: Source, whole: Converted, results: Sequence[Any]) -> list[Any]:
        """What the session returns, optimizers and all: compared with eager, and handed on where
        eager does not know the value."""
        if self.found is not None and not source.is_part:
            return []
        handed = []
        computed = source.in_session(whole)
        for node, expected, got in zip(source.outputs(), results, computed, strict=True):
            known = isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor)
            handed.append(got if expected is UNKNOWN else expected)
            if self.found is not None or not known or is_uninitialized(node):
                continue
            gap = self.gap(expected, got)
            if gap is not None:
                self.found = Found(source, whole, node, "", gap, reached="session")
        return handed


def _first(
    measure: Measure,
    source: Source,
    converted: Converted,
    eager: Mapping[str, torch.Tensor],
    computed: Mapping[str, torch.Tensor],
    reached: Reached,
) -> Found | None:
    """Compares what the nodes of the ONNX graph compute, in the order of the FX graph."""
    names = _by_node(converted, computed)
    agreed: dict[str, torch.Tensor] = {}
    for node in source.module.graph.nodes:
        for fx_name in _values_of(node):
            for name in names.get(fx_name, ()) if fx_name in eager else ():
                gap = measure.gap(eager[fx_name], computed[name])
                if gap is not None:
                    return Found(source, converted, node, name, gap, agreed, reached)
                agreed[name] = computed[name]
    return None


def _by_node(converted: Converted, computed: Mapping[str, Any]) -> dict[str, list[str]]:
    """The ONNX results that were computed, by the names of their FX nodes."""
    names: dict[str, list[str]] = {}
    for name, node in converted.fx_names.items():
        if name in computed:
            names.setdefault(node, []).append(name)
    return names


def _values_of(node: Node) -> tuple[str, str, str]:
    """What the values of a node are called: itself, and the parts of a complex one."""
    return node.name, f"{node.name}.real", f"{node.name}.imag"


def results_of(
    model: Any, feeds: Mapping[str, Any], names: Sequence[str], providers: Sequence[Any] | None
) -> tuple[dict[str, torch.Tensor], str]:
    """Results of a model by name, those that it has, and why there are none: ONNX Runtime computes
    them, without its optimizers, or where it cannot, the reference evaluator."""
    made = {name for proto in proto_of(model).graph.node for name in proto.output}
    names = [name for name in names if name in made]
    if not names:
        return {}, ""
    try:
        return intermediate_results(model, feeds, names, providers), ""
    except Exception as error:  # onnxruntime's classes derive from Exception only
        why = f"ONNX Runtime cannot run the graph without its optimizers: {_first_line(error)}"
    if not isinstance(model, ModelProto):
        return {}, why
    known: Mapping[str, Any] = {}
    try:
        for _, results in ExtendedReferenceEvaluator(model).steps(feeds):
            known = results
    except Exception as error:  # whatever an operator of the evaluator raises
        why += f"; the reference evaluator stops: {_first_line(error)}"
    return {name: to_torch(known[name]) for name in names if name in known}, why


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:100]}"


def operator_of(node: Node) -> str:
    """The operator of a node; of the node that made it, where it is one of several results."""
    return operator_key(producer(node))


def producer(node: Node) -> Node:
    """The node that calls the operator: itself, or the one of which it takes a result."""
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def is_uninitialized(node: Any) -> bool:
    """Whether an output has nothing to compare: memory that torch left as it was."""
    return isinstance(node, Node) and leaves_memory(producer(node))
