"""An exported model against the module that it was made of, result by result. In come a program, a
model or a path, and a call, out comes a `Comparison`; called by `difference`."""

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
from ortable.exporter.account.first_difference import (
    graph_arguments,
    program_results,
    returned_nodes,
)
from ortable.exporter.account.gaps import AskedTolerance, Gap
from ortable.exporter.account.sessions import make_session, proto_of, run_session
from ortable.exporter.account.validate import eager_outputs, module_and_call
from ortable.exporter.conversion import Conversion, converted_again
from ortable.exporter.program import OnnxProgram, default_providers, parts_of
from ortable.exporter.request.caller_state import autocast_again, called_within
from ortable.exporter.to_onnx import export
from ortable.passes.rewrite.rule import Rule

from .alone import Differs
from .diagnosis import Way, captured, described
from .found import Measure, Source, values_in
from .records import Comparison

_OURS = "com.microsoft"


@dataclass(frozen=True)
class ProgramGraph:
    """A conversion of a program: the model, and what is known of its nodes."""

    model: Any
    fx_names: Mapping[str, str]
    cases: Mapping[str, str]
    rewrites: Mapping[str, int] = field(default_factory=dict)


class ProgramSource(Source):
    """An exported program and one call of it."""

    kind = "export"

    def __init__(self, parts: Conversion) -> None:
        self.parts = parts
        self.original, self.call = module_and_call(parts.request)
        self.results = program_results(parts.model, parts.program, self.call)
        self.module = parts.program.graph_module
        self.providers = default_providers(parts.program)
        self.returned = returned_nodes(parts.model, parts.program)

    def rules(self) -> Mapping[str, Rule]:
        return {rule.name: rule for rule in self.parts.request.passes.rules}

    def whole(self) -> ProgramGraph:
        fired = self.parts.request.record.rewrites.counts()
        return self._graph(self.parts.model, fired)

    def again(
        self, *, optimize: bool = True, without: str = "", transforms: Sequence[Any] | None = None
    ) -> ProgramGraph:
        passes = self.parts.request.passes
        if not optimize:
            passes = replace(passes, optimize=False)
        rules = tuple(rule for rule in passes.rules if rule.name != without)
        builder = converted_again(self.parts, replace(passes, rules=rules))
        large = self.parts.model is not proto_of(self.parts.model)
        return self._graph(builder.to_onnx(optimize=False, large_model=large), {})

    def _graph(self, model: Any, fired: Mapping[str, int]) -> ProgramGraph:
        program = self.parts.program
        made = {name for node in proto_of(model).graph.node for name in node.output}
        known = {**program.results, **returned_nodes(model, program)}
        names = {
            name: node
            for name, node in known.items()
            if name in made and node in self.results.expected
        }
        return ProgramGraph(model, names, program.cases, fired)

    def feeds(self, converted: ProgramGraph) -> dict[str, Any]:
        return dict(self.results.feeds)

    def eager(
        self, names: Mapping[str, str], given: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Sequence[Any]]:
        expected = self.results.expected
        return expected, [expected.get(node) for node in self.returned.values()]

    def in_session(self, converted: ProgramGraph, settings: Any = None) -> list[Any]:
        session = make_session(converted.model, self.providers, settings)
        names = list(returned_nodes(converted.model, self.parts.program))
        return run_session(session, self.results.feeds, names)

    def outputs(self) -> list[Node]:
        nodes = {node.name: node for node in self.module.graph.nodes}
        return [nodes[name] for name in self.returned.values()]

    def torch_values(self, given: Mapping[str, torch.Tensor]) -> dict[Node, Any]:
        return values_in(self.module, graph_arguments(self.parts.program, self.call), given)


class ModelWatch(Measure):
    """The comparison of an exported model."""

    captured: tuple[str, Gap] | None = None  # a result that torch's own graph computes otherwise

    def compare(self, parts: Conversion) -> None:
        """Compares until something differs: `found`, or `captured`."""
        if not parts.program.results:  # modules became functions, and nothing was kept
            converted_again(parts, replace(parts.request.passes, optimize=False))
        source = ProgramSource(parts)
        self.beside(source)
        if self.found is None:
            self._capture(source)

    def _capture(self, source: ProgramSource) -> None:
        """Compares what the module returns with what torch's graph does."""
        parts, expected = source.parts, source.results.expected
        # a module was captured under the caller's autocast; a program is what it is
        under = autocast_again() if parts.request.record.strategy else nullcontext()
        with called_within(parts.around), under:
            returned = eager_outputs(source.original, source.call, parts.program)
        for (name, node), value in zip(source.returned.items(), returned, strict=False):
            if node not in expected:
                continue
            gap = self.gap(value, expected[node])
            if gap is not None:
                self.captured = name, gap
                return
            self.agree(value)


def parts_of_export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, exported: Any
) -> Conversion:
    """What is compared: a program with what it was made of. A model alone does not have torch's
    graph: the module is exported again, and the model has to be what that makes.
    """
    given = model if exported is None else exported
    if isinstance(given, OnnxProgram):
        return parts_of(given, args, kwargs)
    if isinstance(given, str | os.PathLike):
        given = onnx.load(os.fspath(given))
    fresh = export(model, tuple(args), dict(kwargs or {}), **_versions(given))
    parts = parts_of(fresh)
    wanted = [value.name for value in proto_of(parts.model).graph.input]
    names = [value.name for value in given.graph.input]
    if names != wanted:
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and an export of the module has "
            f"{', '.join(wanted)}: give the OnnxProgram that `ortable.export` returned"
        )
    parts.model = given
    return parts


def compared_export(parts: Conversion, tolerance: AskedTolerance) -> Comparison:
    """The first result of an exported model that differs from eager's."""
    watch = ModelWatch(tolerance)
    watch.compare(parts)
    difference = None
    if watch.found is not None:
        arguments = _versions(proto_of(parts.model))
        arguments |= {} if parts.request.passes.optimize else {"optimize": False}
        way = Way(_differ(arguments, tolerance), exporting=arguments)
        difference = described(watch.found, watch, way)
    elif watch.captured is not None:
        difference = captured(*watch.captured, "export", "torch.export")
    return watch.tally.comparison(difference)


def _versions(model: onnx.ModelProto) -> dict[str, Any]:
    """Arguments of an export to the opset and target of a model."""
    opsets = {each.domain: each.version for each in model.opset_import}
    target = {"target": "onnxruntime"} if _OURS in opsets else {}
    return {"target_opset": opsets[""], **target}


def _differ(arguments: Mapping[str, Any], tolerance: AskedTolerance) -> Differs:
    """Whether a function differs between eager and its export."""

    def differ(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        if dynamic:
            return False  # sizes of an export are free where it says so: the script has none
        watch = ModelWatch(tolerance)
        try:
            watch.compare(parts_of(export(_Call(function), tuple(args), **arguments)))
        except OrtableError:
            return False
        return watch.found is not None or watch.captured is not None

    return differ


class _Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
