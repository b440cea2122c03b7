"""What was compared, and the first result that differs, before anybody knows why; and the results
inside an ONNX graph. In come values, out come records; called by `graphs` and `models`, read by
`diagnosis`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from onnx import ModelProto
from torch.fx import GraphModule, Interpreter, Node

from ortable.exporter.account.gaps import Gap, gap_between, intermediate_results
from ortable.exporter.account.sessions import proto_of
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.passes.rewrite.rule import Rule

from ..arrays import to_torch
from ..compare import AskedTolerance, Recorder
from ..reference import ExtendedReferenceEvaluator
from .records import MOST_NAMES, Comparison, Difference, GraphKind, Unreached

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


class Source(Protocol):
    """A graph and one call of it, which can be converted and run in other ways: `GraphSource`,
    `ProgramSource`."""

    @property
    def kind(self) -> GraphKind: ...
    @property
    def module(self) -> GraphModule: ...
    @property
    def providers(self) -> Sequence[Any] | None: ...
    @property
    def transforms(self) -> Sequence[Any]: ...
    @property
    def rule_files(self) -> Sequence[str]: ...
    @property
    def settings(self) -> Any: ...
    def rules(self) -> Mapping[str, Rule]: ...
    def same_again(self) -> Any: ...
    def without_rule(self, name: str) -> Any: ...
    def with_transforms(self, chosen: Sequence[Any]) -> Any: ...
    def feeds(self, converted: Any) -> dict[str, Any]: ...
    def values_of(
        self, converted: Any, wanted: str | None = None
    ) -> tuple[dict[str, torch.Tensor], str]: ...
    def in_session(self, converted: Any, settings: Any = None) -> list[Any]: ...
    def outputs(self) -> list[Any]: ...
    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]: ...


@dataclass(frozen=True)
class Found:
    """The first result that differs: where, by how much, and what is needed to find out why.

    Attributes:
        source: the graph, and the call.
        converted: what was compared.
        node: the FX node.
        result: name of the ONNX result; empty where only what is returned differs.
        gap: how far it is from eager.
        expected: eager's value.
        got: that of the ONNX graph.
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
    expected: torch.Tensor
    got: torch.Tensor
    agreed: Mapping[str, torch.Tensor]
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

    def agree(self, value: torch.Tensor, tolerance: tuple[float, float]) -> None:
        """One more result agrees."""
        self.compared += 1
        self.tolerances[str(value.dtype).removeprefix("torch.")] = tuple(tolerance)  # type: ignore[assignment]

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

    def gap(self, expected: torch.Tensor, got: torch.Tensor) -> Gap | None:
        """How far a result is from eager; None where it is near enough. Complex numbers are pairs,
        or parts."""
        expected, got = real_tensor(expected), real_tensor(got)
        return gap_between(expected, got, self.tolerance.of(expected.dtype))

    def agree(self, value: torch.Tensor) -> None:
        """One more result agrees with `value`, eager's."""
        value = real_tensor(value)
        self.tally.agree(value, self.tolerance.of(value.dtype))


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


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments of a graph, which the copies may be written into."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in args]


def operator_of(node: Node) -> str:
    """The operator of a node; of the node that made it, where it is one of several results."""
    return operator_key(producer(node))


def producer(node: Node) -> Node:
    """The node that calls the operator: itself, or the one of which it takes a result."""
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


class _Values(Recorder):
    """Runs a graph, and keeps what every node computes."""

    def __init__(self, module: GraphModule, given: Mapping[str, torch.Tensor]) -> None:
        super().__init__(module, set(), given)
        self.garbage_collect_values = False
        self.user_to_last_uses = {}


def values_in(
    module: GraphModule, args: Sequence[Any], given: Mapping[str, torch.Tensor] | None = None
) -> dict[Node, Any]:
    """What every node of a graph computes in torch; the arguments are left alone."""
    recorder = _Values(module, given or {})
    with torch.no_grad():
        Interpreter.run(recorder, *copied(args))
    return dict(recorder.env)
