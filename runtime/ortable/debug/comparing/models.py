"""An exported model beside the graph that it was made of, result by result: as converters make it,
as it was written, and as ONNX Runtime runs it with its optimizers. In come an OnnxProgram and a
call, out comes what a `Comparison` says; called by `difference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.exporter.account.first_difference import (
    ProgramResults,
    graph_arguments,
    program_results,
    returned_nodes,
)
from ortable.exporter.account.gaps import Gap
from ortable.exporter.account.sessions import make_session, proto_of, run_session
from ortable.exporter.account.validate import eager_outputs, module_and_call
from ortable.exporter.program import ProgramParts
from ortable.exporter.request.ambient import autocast_again, called_within
from ortable.passes.rewrite.rule import Rule

from ..compare import AskedTolerance
from .found import Found, Measure, Reached, results_of, values_in
from .records import GraphKind


@dataclass(frozen=True)
class ProgramGraph:
    """A conversion of a program: the model, and what is known of its nodes."""

    model: Any
    fx_names: Mapping[str, str]
    cases: Mapping[str, str]
    rewrites: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Captured:
    """A result that torch's own graph computes otherwise than the module."""

    name: str
    gap: Gap
    expected: torch.Tensor
    got: torch.Tensor


@dataclass(frozen=True)
class ProgramSource:
    """An exported program and one call of it, which can be converted and run in other ways."""

    parts: ProgramParts
    results: ProgramResults
    kind: GraphKind = "export"
    transforms: Sequence[Any] = ()
    rule_files: Sequence[str] = ()
    settings: Any = None

    @property
    def module(self) -> GraphModule:
        """The graph of torch."""
        return self.parts.program.graph_module

    @property
    def providers(self) -> Sequence[Any]:
        """What runs it."""
        return self.parts.providers

    def rules(self) -> Mapping[str, Rule]:
        """The rules that run, by name."""
        return {rule.name: rule for rule in self.parts.passes.rules}

    def written(self) -> ProgramGraph:
        """The model as it was exported."""
        fired = self.parts.request.record.rewrites.counts()
        return ProgramGraph(self.parts.model, self._names(self.parts.model), self._cases(), fired)

    def without_passes(self) -> ProgramGraph:
        """The graph as converters make it."""
        return self._again(replace(self.parts.passes, optimize=False))

    def same_again(self) -> ProgramGraph:
        """The program converted anew, as it was."""
        return self._again(self.parts.passes)

    def without_rule(self, name: str) -> ProgramGraph:
        """The graph converted without one of the rules."""
        rules = tuple(rule for rule in self.parts.passes.rules if rule.name != name)
        return self._again(replace(self.parts.passes, rules=rules))

    def with_transforms(self, chosen: Sequence[Any]) -> ProgramGraph:
        """There are none."""
        return self.written()

    def _again(self, passes: Any) -> ProgramGraph:
        builder = self.parts.again(passes)
        large = self.parts.model is not proto_of(self.parts.model)
        model = builder.to_onnx(optimize=False, large_model=large)
        return ProgramGraph(model, self._names(model), self._cases())

    def _names(self, model: Any) -> Mapping[str, str]:
        program, expected = self.parts.program, self.results.expected
        made = {name for node in proto_of(model).graph.node for name in node.output}
        known = {**program.results, **returned_nodes(model, program)}
        return {name: node for name, node in known.items() if name in made and node in expected}

    def _cases(self) -> Mapping[str, str]:
        return self.parts.program.cases

    def feeds(self, converted: ProgramGraph) -> dict[str, Any]:
        """The call as inputs of the model."""
        return self.results.feeds

    def values_of(
        self, converted: ProgramGraph, wanted: str | None = None
    ) -> tuple[dict[str, torch.Tensor], str]:
        """Results of a model that are values of FX nodes, and why there are none."""
        names = [n for n, node in converted.fx_names.items() if wanted in (None, node)]
        return results_of(converted.model, self.results.feeds, names, self.providers)

    def in_session(self, converted: ProgramGraph, settings: Any = None) -> list[Any]:
        """What a session returns, of ONNX Runtime's own defaults or with some settings."""
        session = make_session(converted.model, self.providers, settings)
        names = list(returned_nodes(converted.model, self.parts.program))
        return run_session(session, self.results.feeds, names)

    def outputs(self) -> list[Node]:
        """The nodes that the model returns, in its order."""
        nodes = {node.name: node for node in self.module.graph.nodes}
        returned = returned_nodes(self.parts.model, self.parts.program)
        return [nodes[name] for name in returned.values()]

    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """What the nodes compute in torch."""
        _, call = module_and_call(self.parts.request)
        return values_in(self.module, graph_arguments(self.parts.program, call), given)


class ModelWatch(Measure):
    """The comparison of an exported model."""

    def __init__(self, tolerance: AskedTolerance) -> None:
        super().__init__(tolerance)
        self.captured: Captured | None = None

    def compare(self, parts: ProgramParts) -> None:
        """Compares until something differs: `found`, or `captured`."""
        self.tally.graphs += 1
        module, call = module_and_call(parts.request)
        if not parts.program.results:  # modules became functions, and nothing was kept
            parts.again(replace(parts.passes, optimize=False))
        results = program_results(parts.model, parts.program, call)
        source = ProgramSource(parts, results)
        plain, written = source.without_passes(), source.written()
        found = self._compared(source, plain, results, "graph", count=True)
        self.found = self._compared(source, written, results, "passes")
        if self.found is None:
            self._session(source, written, results)
        if found is not None and self.found is None:
            self.tally.leave(f"passes mend it: {found.gap.what}", [found.node.name])
        else:
            self.found = found or self.found
        if self.found is None:
            self._capture(parts, module, call, results)

    def _compared(
        self,
        source: ProgramSource,
        converted: ProgramGraph,
        results: ProgramResults,
        reached: Reached,
        count: bool = False,
    ) -> Found | None:
        computed, why = source.values_of(converted)
        nodes = {node.name: node for node in source.module.graph.nodes}
        names: dict[str, list[str]] = {}
        for name, node in converted.fx_names.items():
            names.setdefault(node, []).append(name)
        agreed: dict[str, torch.Tensor] = {}
        gone = []
        for node_name, node in nodes.items():
            expected = results.expected.get(node_name)
            if expected is None:
                continue
            found = [name for name in names.get(node_name, ()) if name in computed]
            gone += [] if found else [node_name]
            for name in found:
                gap = self.gap(expected, computed[name])
                if gap is not None:
                    return Found(
                        source, converted, node, name, gap, expected, computed[name], agreed,
                        reached,
                    )  # fmt: skip
                agreed[name] = computed[name]
            if found and count:
                self.agree(expected)
        if count:
            self.tally.leave(why or "the ONNX graph has no result of their own", gone)
        return None

    def _session(
        self, source: ProgramSource, written: ProgramGraph, results: ProgramResults
    ) -> None:
        """Compares what a session returns, with all optimizers of ONNX Runtime."""
        for node, got in zip(source.outputs(), source.in_session(written), strict=True):
            expected = results.expected.get(node.name)
            gap = None if expected is None else self.gap(expected, got)
            if expected is not None and gap is not None:
                self.found = Found(source, written, node, "", gap, expected, got, {}, "session")
                return

    def _capture(
        self, parts: ProgramParts, module: Any, call: Any, results: ProgramResults
    ) -> None:
        """Compares what the module returns with what torch's graph does."""
        # a module was captured under the caller's autocast; a program is what it is
        under = autocast_again() if parts.request.record.strategy else nullcontext()
        with called_within(parts.around), under:
            returned = eager_outputs(module, call, parts.program)
        names = returned_nodes(parts.model, parts.program)
        for (name, node), value in zip(names.items(), returned, strict=False):
            got = results.expected.get(node)
            gap = None if got is None else self.gap(value, got)
            if got is not None and gap is not None:
                self.captured = Captured(name, gap, value, got)
                return
            if got is not None:
                self.agree(value)
