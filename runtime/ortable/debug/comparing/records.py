"""The records that `ortable.first_difference` returns; they print as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from ortable.errors import OptionError

from .source_locations import SourceLocation

GraphKind = Literal["inference", "forward", "backward", "export"]
Culprit = Literal[
    "entry", "rule", "pass", "transform", "decomposition", "preparation", "kernel", "optimizer",
    "session", "accumulated", "capture", "model",
]  # fmt: skip
CULPRIT_TEXTS: dict[str, str] = {  # also of the faults that `ortable.bisect` finds
    "entry": "the entry of the specs converts its operator to nodes with another result",
    "rule": "a rewrite rule changes the result of the graph",
    "pass": "a graph pass changes the result of the graph",
    "transform": "a function of option pre_ort_model_transforms changes the result of the graph",
    "decomposition": "the decomposition of the operator has another result than the operator",
    "preparation": "without ortable's preparation of torch's graph, the result equals eager's",
    "kernel": "the ONNX nodes are right: onnx's reference evaluator computes eager's result",
    "optimizer": "ONNX Runtime's optimizer changes the result of the graph",
    "session": "ONNX Runtime computes eager's result node by node, but not with these options",
    "accumulated": "the operator alone agrees: differences within the tolerance add up before it",
    "capture": "every graph from torch agrees with its ONNX graph: the capture by torch is wrong",
    "model": "a new export of the module computes eager's result: the model was changed or is old",
    "option": "an option that you gave changes the result of the graph",
    "cache": "the cache has a conversion that does not fit this model",
    "constants": "weights that are constants of the session differ from those of the model",
    "torch": "torch's own capture of the model differs from eager: ortable is not the cause",
    "unknown": "no part was found: the fault is in the code that runs a compiled graph",
}
MAX_NAMES = 5  # listed for one reason


@dataclass(frozen=True)
class NotCompared:
    """Results that were not compared, and why.

    Attributes:
        why: the reason.
        count: how many results.
        names: the first few distinct FX nodes, or operators that torch runs.
    """

    why: str
    count: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.names) >= MAX_NAMES else ""
        names = f": {', '.join(self.names)}{more}" if self.names else ""
        return f"{self.count} not compared, {self.why}{names}"


@dataclass(frozen=True, repr=False)
class Difference:
    """The first result that differs from eager's.

    Attributes:
        graph: the kind of its graph: `"inference"`, `"forward"`, `"backward"`, or `"export"`.
        node: name of the FX node.
        culprit: the cause of the difference: `"entry"` (of the specs), `"rule"` (a rewrite rule),
            `"pass"` (another pass of option `optimize`), `"transform"` (of
            `pre_ort_model_transforms`), `"decomposition"`, `"preparation"` (changes of torch's
            graph before conversion), `"kernel"`, `"optimizer"` or `"session"` (of ONNX Runtime),
            `"accumulated"` (no error: differences within the tolerance add up), `"capture"`
            (torch's capture of the model, before ortable converts it), `"model"` (a file that
            differs from a new export of the module).
        name: name of the culprit: the entry (`"aten::addmm"`), the rule, the decomposed operator,
            or the ONNX operator of the kernel.
        what: how many values differ, and the largest difference.
        largest: the largest absolute difference; infinite if dtypes or shapes differ.
        eager: summary of the result in eager.
        onnx: summary of the result of the ONNX graph.
        operator: the ATen operator of the node, `"aten::relu"`.
        spec_file: the file of the entry, or of the rule.
        spec_line: the line of the case that converted the node, or of the rule; 0 if the file is
            not available.
        case: number of that case, from 1; 0 for an entry with one case, or if unknown.
        module: path and class of the module that called the operator.
        source: file, line and text of the model: `"model.py:7: return self.layers(x)"`.
        arguments: summaries of the arguments of the operator.
        computed_by: the ONNX nodes that computed the result.
        script: a Python program that calls this operator alone, in eager and through ortable, and
            ends with status 1 while they differ.
        tensors: the tensors that the script reads from a file beside it; empty if it reads none.
    """

    graph: GraphKind
    node: str
    culprit: Culprit
    name: str
    what: str
    largest: float
    eager: str
    onnx: str
    operator: str = ""
    spec_file: str = ""
    spec_line: int = 0
    case: int = 0
    module: str = ""
    source: str = ""
    arguments: tuple[str, ...] = ()
    computed_by: tuple[str, ...] = ()
    script: str = ""
    tensors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Return file and line of the culprit in the specs, `"specs/aten/activation.yaml:57"`."""
        return str(SourceLocation(self.spec_file, self.spec_line)) if self.spec_file else ""

    @property
    def explanation(self) -> str:
        """A sentence on how the culprit changes the result."""
        return CULPRIT_TEXTS[self.culprit]

    def save(self, path: str | Path) -> Path:
        """Write the script, and the tensors that it reads to a file beside it (`PATH.pt`).

        Args:
            path: the path of the script.

        Returns:
            The path of the script.

        Raises:
            OptionError: there is no script for this difference.
        """
        if not self.script:
            raise OptionError(
                f"FX node '{self.node}' has no script: it is not a call that can run alone."
            )
        file = Path(path)
        file.write_text(self.script, encoding="utf-8")
        if self.tensors:
            torch.save(dict(self.tensors), file.with_suffix(".pt"))
        return file

    def __str__(self) -> str:
        lines = [
            f"The {self.graph} graph differs from eager at FX node '{self.node}': {self.what}",
            f"  operator: {self.operator}",
            *(f"  argument: {item}" for item in self.arguments),
            f"  eager: {self.eager}",
            f"  ONNX: {self.onnx}",
            *(f"  computed by: {item}" for item in self.computed_by),
        ]
        lines += [f"  module: {self.module}"] if self.module else []
        lines += [f"  source: {self.source}"] if self.source else []
        case = f", case {self.case}" if self.case and self.culprit == "entry" else ""
        location = f" at {self.place}{case}" if self.place else ""
        lines += [f"  culprit: {self.culprit} {self.name}{location}", f"    {self.explanation}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Difference({self.graph} graph, node {self.node!r}, {self.culprit} {self.place})"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `ortable.first_difference`; false if a result differs.

    Attributes:
        difference: the first result that differs; None if all agree.
        compared: the number of results that were compared and agree.
        graphs: the number of graphs that were compared.
        unreached: results that were not compared, with the reasons.
        tolerances: `(atol, rtol)` by dtype; the limit is `atol + rtol * abs(eager's)`.
    """

    difference: Difference | None
    compared: int
    graphs: int
    unreached: tuple[NotCompared, ...] = ()
    tolerances: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no result differs."""
        return self.difference is None

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        graphs = "1 graph" if self.graphs == 1 else f"{self.graphs} graphs"
        results = "1 result agrees" if self.compared == 1 else f"{self.compared} results agree"
        lines = [] if self.difference is None else [str(self.difference)]
        before = "" if self.difference is None else " before it"
        lines.append(f"{results} with eager{before}, in {graphs}")
        lines += [
            f"  {dtype}: within atol {atol:g}, rtol {rtol:g}"
            if atol or rtol
            else f"  {dtype}: equal"
            for dtype, (atol, rtol) in sorted(self.tolerances.items())
        ]
        lines += [f"  {skipped}" for skipped in self.unreached]
        return "\n".join(lines)

    def __repr__(self) -> str:
        result = "equal to eager" if self.ok else repr(self.difference)
        return f"Comparison({self.compared} results in {self.graphs} graphs: {result})"
