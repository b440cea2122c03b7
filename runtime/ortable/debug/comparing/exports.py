"""Compare an exported model with its module, result by result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import torch
from torch.fx import Node

from ortable.errors import InputError, OrtableError
from ortable.exporter.conversion import Conversion, rebuild_graph
from ortable.exporter.frontend.module_state import caller_autocast, use_autocast_regions
from ortable.exporter.program import OnnxProgram, conversion_for, default_providers
from ortable.exporter.reporting.first_difference import (
    graph_arguments,
    program_results,
    returned_nodes,
)
from ortable.exporter.reporting.numeric_diff import NumericDiff, ToleranceOverride
from ortable.exporter.reporting.sessions import make_session, proto_of, run_session
from ortable.exporter.reporting.validate import eager_outputs, module_and_call
from ortable.exporter.to_onnx import export
from ortable.passes.rewrite.rule import Rule

from .diagnosis import ReproSettings, describe_capture, describe_mismatch
from .minimizer import Differs
from .mismatch import Comparator, ComparisonSource, record_values
from .records import Comparison

_OURS = "com.microsoft"


@dataclass(frozen=True)
class ProgramGraph:
    """A conversion of a program: the model, and the origin of its nodes."""

    model: Any
    fx_names: Mapping[str, str]
    cases: Mapping[str, str]
    rewrites: Mapping[str, int] = field(default_factory=dict)


class ProgramSource(ComparisonSource):
    """An exported program and one call of it."""

    kind = "export"

    def __init__(self, parts: Conversion) -> None:
        self.parts = parts
        self.original, self.call = module_and_call(parts.request)
        self.results = program_results(parts.model, parts.program, self.call)
        self.module = parts.program.graph_module
        self.providers = default_providers(parts.program)
        self.returned = returned_nodes(parts.model, parts.program)

    def active_rules(self) -> Mapping[str, Rule]:
        return {rule.name: rule for rule in self.parts.request.passes.rules}

    def convert_full(self) -> ProgramGraph:
        fired = self.parts.request.record.rewrites.counts()
        return self._make_graph(self.parts.model, fired)

    def convert_variant(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> ProgramGraph:
        passes = self.parts.request.passes
        if not optimize:
            passes = replace(passes, optimize=False)
        rules = tuple(rule for rule in passes.rules if rule.name != without)
        builder = rebuild_graph(self.parts, replace(passes, rules=rules))
        large = self.parts.model is not proto_of(self.parts.model)
        return self._make_graph(builder.to_onnx(optimize=False, large_model=large), {})

    def _make_graph(self, model: Any, fired: Mapping[str, int]) -> ProgramGraph:
        program = self.parts.program
        produced = {name for node in proto_of(model).graph.node for name in node.output}
        nodes = {**program.results, **returned_nodes(model, program)}
        names = {
            name: node
            for name, node in nodes.items()
            if name in produced and node in self.results.expected
        }
        return ProgramGraph(model, names, program.cases, fired)

    def make_feeds(self, converted: ProgramGraph) -> dict[str, Any]:
        return dict(self.results.feeds)

    def eager_values(
        self, names: Mapping[str, str], overrides: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        expected = self.results.expected
        return expected, [expected.get(node) for node in self.returned.values()]

    def run_in_session(self, converted: ProgramGraph, settings: Any = None) -> list[Any]:
        session = make_session(converted.model, self.providers, settings)
        names = list(returned_nodes(converted.model, self.parts.program))
        return run_session(session, self.results.feeds, names)

    def output_nodes(self) -> list[Node]:
        nodes = {node.name: node for node in self.module.graph.nodes}
        return [nodes[name] for name in self.returned.values()]

    def torch_values(self, overrides: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        return record_values(self.module, graph_arguments(self.parts.program, self.call), overrides)


class ModelComparator(Comparator):
    """The comparison of an exported model."""

    captured: tuple[str, NumericDiff] | None = None  # a result of torch's graph that differs

    def compare_program(self, parts: Conversion) -> None:
        """Compare until something differs, and set `mismatch` or `captured`."""
        if not parts.program.results:  # modules became functions, and nothing was kept
            rebuild_graph(parts, replace(parts.request.passes, optimize=False))
        source = ProgramSource(parts)
        self.compare_graph(source)
        if self.mismatch is None:
            self._compare_capture(source)

    def _compare_capture(self, source: ProgramSource) -> None:
        """Compare what the module returns with what torch's graph returns."""
        parts, expected = source.parts, source.results.expected
        # a module was captured under the caller's autocast; a program is what it is
        under = caller_autocast() if parts.request.record.strategy else nullcontext()
        with use_autocast_regions(parts.autocast_regions), under:
            returned = eager_outputs(source.original, source.call, parts.program)
        for (name, node), value in zip(source.returned.items(), returned, strict=False):
            if node not in expected:
                continue
            gap = self.compute_gap(value, expected[node])
            if gap is not None:
                self.captured = name, gap
                return
            self.record_agreement(value)


def resolve_export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, exported: Any
) -> Conversion:
    """Resolve what is compared: a program with the conversion that made it.

    A model alone does not have torch's graph: the module is exported again, and must have the same
    inputs.
    """
    artifact = model if exported is None else exported
    if isinstance(artifact, OnnxProgram):
        return conversion_for(artifact, args, kwargs)
    if isinstance(artifact, str | os.PathLike):
        artifact = onnx.load(os.fspath(artifact))
    fresh = export(model, tuple(args), dict(kwargs or {}), **_export_arguments(artifact))
    parts = conversion_for(fresh)
    expected = [value.name for value in proto_of(parts.model).graph.input]
    names = [value.name for value in artifact.graph.input]
    if names != expected:
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and an export of the module has "
            f"{', '.join(expected)}: give the OnnxProgram that `ortable.export` returned"
        )
    parts.model = artifact
    return parts


def compare_export(parts: Conversion, tolerance: ToleranceOverride) -> Comparison:
    """Find the first result of an exported model that differs from eager's."""
    comparator = ModelComparator(tolerance)
    comparator.compare_program(parts)
    difference = None
    if comparator.mismatch is not None:
        arguments = _export_arguments(proto_of(parts.model))
        arguments |= {} if parts.request.passes.optimize else {"optimize": False}
        settings = ReproSettings(_make_differs(arguments, tolerance), exporting=arguments)
        difference = describe_mismatch(comparator.mismatch, comparator, settings)
    elif comparator.captured is not None:
        difference = describe_capture(*comparator.captured, "export", "torch.export")
    return comparator.tally.make_comparison(difference)


def _export_arguments(model: onnx.ModelProto) -> dict[str, Any]:
    """Return the arguments of an export to the opset and target of a model."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    target = {"target": "onnxruntime"} if _OURS in opsets else {}
    return {"target_opset": opsets[""], **target}


def _make_differs(arguments: Mapping[str, Any], tolerance: ToleranceOverride) -> Differs:
    """Make the predicate whether a function differs between eager and its export."""

    def differs(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        if dynamic:
            return False  # sizes of an export are free where it says so: the script has none
        comparator = ModelComparator(tolerance)
        try:
            comparator.compare_program(
                conversion_for(export(_FunctionModule(function), tuple(args), **arguments))
            )
        except OrtableError:
            return False
        return comparator.mismatch is not None or comparator.captured is not None

    return differs


class _FunctionModule(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
