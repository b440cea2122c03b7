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

_MICROSOFT_DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class ProgramGraph:
    """A converted program: the ONNX model, and FX nodes, cases and rewrites of its nodes."""

    model: Any
    fx_names: Mapping[str, str]
    cases: Mapping[str, str]
    rewrites: Mapping[str, int] = field(default_factory=dict)


class ProgramSource(ComparisonSource):
    """An exported program and one call of it, as a source of comparisons."""

    kind = "export"

    def __init__(self, conversion: Conversion) -> None:
        self.conversion = conversion
        self.original, self.call = module_and_call(conversion.request)
        self.results = program_results(conversion.model, conversion.program, self.call)
        self.module = conversion.program.graph_module
        self.providers = default_providers(conversion.program)
        self.returned = returned_nodes(conversion.model, conversion.program)

    def active_rules(self) -> Mapping[str, Rule]:
        """Return the rewrite rules of the export, by name."""
        return {rule.name: rule for rule in self.conversion.request.passes.rules}

    def convert_full(self) -> ProgramGraph:
        """Return the exported model, without another conversion."""
        fired = self.conversion.request.record.rewrites.counts()
        return self._make_graph(self.conversion.model, fired)

    def convert_variant(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> ProgramGraph:
        """Convert the program again; an export has no transforms."""
        passes = self.conversion.request.passes
        if not optimize:
            passes = replace(passes, optimize=False)
        rules = tuple(rule for rule in passes.rules if rule.name != without)
        builder = rebuild_graph(self.conversion, replace(passes, rules=rules))
        large = self.conversion.model is not proto_of(self.conversion.model)
        return self._make_graph(builder.to_onnx(optimize=False, large_model=large), {})

    def _make_graph(self, model: Any, fired: Mapping[str, int]) -> ProgramGraph:
        program = self.conversion.program
        nodes = {**program.results, **returned_nodes(model, program)}
        names = {name: node for name, node in nodes.items() if node in self.results.expected}
        return ProgramGraph(model, names, program.cases, fired)

    def make_feeds(self, converted: ProgramGraph) -> dict[str, Any]:
        """Return the arguments of the call as inputs of the ONNX graph."""
        return dict(self.results.feeds)

    def eager_values(
        self, names: Mapping[str, str], overrides: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        """Return the values of the program's nodes in eager, and its results."""
        expected = self.results.expected
        return expected, [expected.get(node) for node in self.returned.values()]

    def run_in_session(self, converted: ProgramGraph, settings: Any = None) -> list[Any]:
        """Run the converted program in a session with `settings`."""
        session = make_session(converted.model, self.providers, settings)
        names = list(returned_nodes(converted.model, self.conversion.program))
        return run_session(session, self.results.feeds, names)

    def output_nodes(self) -> list[Node]:
        """Return the nodes that the model returns."""
        nodes = {node.name: node for node in self.module.graph.nodes}
        return [nodes[name] for name in self.returned.values()]

    def torch_values(self, overrides: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        """Compute all nodes of the program in torch."""
        return record_values(
            self.module, graph_arguments(self.conversion.program, self.call), overrides
        )


class ModelComparator(Comparator):
    """The comparison of an exported model with its module."""

    captured: tuple[str, NumericDiff] | None = None  # a result that differs in torch's graph

    def compare_program(self, conversion: Conversion) -> None:
        """Compare until a result differs; set `mismatch`, or `captured` for torch's capture."""
        if not conversion.program.results:  # an export with local functions records no results
            rebuild_graph(conversion, replace(conversion.request.passes, optimize=False))
        source = ProgramSource(conversion)
        self.compare_graph(source)
        if self.mismatch is None:
            self._compare_capture(source)

    def _compare_capture(self, source: ProgramSource) -> None:
        """Compare the results of the module with those of torch's graph."""
        conversion, expected = source.conversion, source.results.expected
        # a module was captured under the caller's autocast, a given ExportedProgram was not
        autocast = caller_autocast() if conversion.request.record.strategy else nullcontext()
        with use_autocast_regions(conversion.autocast_regions), autocast:
            returned = eager_outputs(source.original, source.call, conversion.program)
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
    """Return the conversion that made the exported model, for comparison.

    A ModelProto or a file has no FX graph. Then the module is exported again, and the new export
    must have the same inputs.
    """
    artifact = model if exported is None else exported
    if isinstance(artifact, OnnxProgram):
        return conversion_for(artifact, args, kwargs)
    if isinstance(artifact, str | os.PathLike):
        artifact = onnx.load(os.fspath(artifact))
    new_export = export(model, tuple(args), dict(kwargs or {}), **_export_arguments(artifact))
    conversion = conversion_for(new_export)
    expected = [value.name for value in proto_of(conversion.model).graph.input]
    names = [value.name for value in artifact.graph.input]
    if names != expected:
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and an export of the module has "
            f"{', '.join(expected)}: give the OnnxProgram that `ortable.export` returned"
        )
    conversion.model = artifact
    return conversion


def compare_export(conversion: Conversion, tolerance: ToleranceOverride) -> Comparison:
    """Find the first result of an exported model that differs from eager's."""
    comparator = ModelComparator(tolerance)
    comparator.compare_program(conversion)
    difference = None
    if comparator.mismatch is not None:
        arguments = _export_arguments(proto_of(conversion.model))
        arguments |= {} if conversion.request.passes.optimize else {"optimize": False}
        settings = ReproSettings(_make_differs(arguments, tolerance), exporting=arguments)
        difference = describe_mismatch(comparator.mismatch, comparator, settings)
    elif comparator.captured is not None:
        difference = describe_capture(*comparator.captured, "export", "torch.export")
    return comparator.stats.make_comparison(difference)


def _export_arguments(model: onnx.ModelProto) -> dict[str, Any]:
    """Return the arguments of an export to the opset and target of a model."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    target = {"target": "onnxruntime"} if _MICROSOFT_DOMAIN in opsets else {}
    return {"target_opset": opsets[""], **target}


def _make_differs(arguments: Mapping[str, Any], tolerance: ToleranceOverride) -> Differs:
    """Make a predicate: whether a function differs between eager and its export."""

    def differs(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        if dynamic:
            return False  # the export of a script has no dynamic shapes
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
    """A module that calls a function, since torch.export takes only modules."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
