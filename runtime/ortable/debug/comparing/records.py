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
CULPRIT_TEXTS: dict[str, str] = {  # of culprits, and of the faults that `ortable.bisect` finds
    "entry": "the entry of the specs converts its operator to something else",
    "rule": "a rule of rewriting changes what the graph computes",
    "pass": "a pass over the graph changes what it computes",
    "transform": "a function of option pre_ort_model_transforms changes what is computed",
    "decomposition": "its decomposition computes something else",
    "preparation": "without ortable's preparation of torch's graph, the result is eager's",
    "kernel": "the ONNX nodes are right: onnx's reference evaluator computes eager's result",
    "optimizer": "ONNX Runtime's optimizer changes what the graph computes",
    "session": "node by node ONNX Runtime computes eager's result, with these options it does not",
    "accumulated": "alone the operator agrees: tolerances of the results before it add up",
    "capture": "every graph that ortable is given computes eager's results: torch made other ones",
    "model": "exported once more, the model computes eager's result: it was changed, or is older",
    "option": "an option that you gave changes what is computed",
    "cache": "a conversion that was kept is not that of this model",
    "constants": "weights that are constants of the session are not those of the model",
    "torch": "torch's own capture of the model differs from eager: ortable is not to blame",
    "unknown": "no part could be told: it is in what runs a compiled graph",
}
MAX_NAMES = 5  # of a reason


@dataclass(frozen=True)
class NotCompared:
    """Results that were not compared, and why.

    Attributes:
        why: the reason.
        count: how many results.
        names: FX nodes, or operators that torch runs, the first few different ones.
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
        graph: which graph it is in: `"inference"`, `"forward"`, `"backward"`, or `"export"`.
        node: name of the FX node.
        culprit: what makes it differ: `"entry"` (of the specs), `"rule"` (of rewriting), `"pass"`
            (another pass of option `optimize`), `"transform"` (of `pre_ort_model_transforms`),
            `"decomposition"`, `"preparation"` (of torch's graph, before it is converted),
            `"kernel"`, `"optimizer"` or `"session"` (of ONNX Runtime), `"accumulated"` (nothing:
            the tolerances of the results before it add up), `"capture"` (what torch made of the
            model, before ortable converts it), `"model"` (a file that is not what an export of the
            module makes now).
        name: what the culprit is called: the entry (`"aten::addmm"`), the rule, the decomposed
            operator, the kernel's ONNX operator.
        what: how many values differ, and the largest of them.
        largest: the largest absolute difference; infinite where dtypes or shapes differ.
        eager: the result in eager, in short.
        onnx: the result of the ONNX graph, in short.
        operator: its ATen operator, `"aten::relu"`.
        spec_file: the file of the entry, or of the rule.
        spec_line: the line of the case that converted the node, or of the rule; 0 where the file
            is not at hand.
        case: number of that case, from 1; 0 for an entry with one case, and where none is known.
        module: path of the module that the operator was called in, and its class.
        source: file, line and text of the model: `"model.py:7: return self.layers(x)"`.
        arguments: the arguments of the operator, in short.
        computed_by: the ONNX nodes that computed it.
        script: a Python program that calls this operator alone, in eager and through ortable, and
            ends with status 1 while they differ.
        tensors: what the script reads from the file beside it: empty where it needs none.
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
        """Explain why it is the culprit."""
        return CULPRIT_TEXTS[self.culprit]

    def save(self, path: str | Path) -> Path:
        """Write the script, and beside it the tensors that it reads (`PATH.pt`).

        Args:
            path: of the script.

        Returns:
            The path.

        Raises:
            OptionError: there is no script for this difference.
        """
        if not self.script:
            raise OptionError(
                f"FX node '{self.node}' has no script: it is no call that runs alone."
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
    """What `ortable.first_difference` found; false when something differs.

    Attributes:
        difference: the first result that differs; None where everything agrees.
        compared: how many results were compared and agree.
        graphs: in how many graphs.
        unreached: results that were not compared, with the reasons.
        tolerances: by dtype: `(atol, rtol)`; a value may be off by `atol + rtol * abs(eager's)`.
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
