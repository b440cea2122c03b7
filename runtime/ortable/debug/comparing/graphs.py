"""The graphs of one call, each run in eager and as ONNX graph, node by node, until something
differs. In come converted graphs and the arguments of their calls, out comes a `Comparison`; called
by `difference`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.interpreter.calls import operator_key
from ortable.interpreter.diagnostics.origin import module_path, source_line
from ortable.interpreter.tables import generated_tables

from ..arrays import describe, to_numpy
from ..compare import AskedTolerance, EagerValues
from ..reference import ExtendedReferenceEvaluator
from ..run import ReferenceBackend
from .places import where_is
from .records import Comparison, Difference

__all__ = ["Watch"]


class Watch:
    """What was compared so far, and the first difference."""

    def __init__(self, tolerance: AskedTolerance) -> None:
        self.tolerance = tolerance
        self.difference: Difference | None = None
        self.compared = 0
        self.graphs = 0

    def runner(self, compiled: CompiledGraph, options: OrtOptions) -> Any:
        """What runs one converted graph: eager, after the comparison."""
        return ComparedGraph(compiled, self)

    def comparison(self) -> Comparison:
        """What was found."""
        return Comparison(self.difference, self.compared, self.graphs)


class ComparedGraph:
    """One converted graph as a boxed callable: it returns eager's results."""

    def __init__(self, compiled: CompiledGraph, watch: Watch) -> None:
        self._boxed_call = True
        self.compiled = compiled
        self.watch = watch
        self.graph_module: GraphModule | None = None

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Receives the FX graph."""
        self.graph_module = graph_module

    def __call__(self, args: list[Any]) -> list[Any]:
        assert self.graph_module is not None
        if self.watch.difference is None:
            self.watch.graphs += 1
            self._compare(args)
        with torch.no_grad():
            results = list(self.graph_module(*args))
        args.clear()
        return results

    def _compare(self, args: list[Any]) -> None:
        compiled = self.compiled
        assert self.graph_module is not None
        eager = EagerValues(self.graph_module, args, compiled.fx_names, self.watch.tolerance)
        feeds = ReferenceBackend(compiled).feeds(args)
        evaluator = ExtendedReferenceEvaluator(compiled.model)
        for proto, known in evaluator.steps(feeds):
            for name in proto.output:
                fx_name = compiled.fx_names.get(name, "")
                if fx_name not in eager.values:
                    continue
                expected, got = to_numpy(eager.values[fx_name]), known[name]
                what = eager.difference(expected, got)
                if what is not None:
                    self.watch.difference = self._difference(eager, fx_name, what, expected, got)
                    return
                self.watch.compared += 1

    def _difference(
        self, eager: EagerValues, fx_name: str, what: str, expected: Any, got: Any
    ) -> Difference:
        node = eager.nodes[fx_name]
        operator = operator_key(node)
        case = int(self.compiled.cases.get(fx_name, "").rpartition("/")[2] or 0)
        place = where_is(operator, case)
        module, kind = module_path(node)
        return Difference(
            graph=self.compiled.kind,  # type: ignore[arg-type]
            node=fx_name,
            operator=operator,
            culprit="entry",
            name=operator,
            spec_file=generated_tables().spec_files.get(operator, ""),
            spec_line=place.line if place is not None else 0,
            case=case,
            module=f"{module} ({kind})" if module or kind else "",
            source=str(source_line(node) or ""),
            what=what,
            largest=float("nan"),
            eager=describe(expected),
            onnx=describe(got),
        )
