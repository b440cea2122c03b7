"""Define the records that `ortable.bisect` returns; `str()` formats them for a terminal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ortable.debug.comparing.records import CULPRIT_TEXTS, Difference

FaultKind = Literal[
    "entry", "rule", "pass", "decomposition", "optimizer", "kernel", "option", "transform", "cache",
    "constants", "torch", "unknown",
]  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """The part of ortable, torch or ONNX Runtime that makes a model differ from eager.

    Attributes:
        kind: the kind of part.
        name: the name of the entry, rule, pass, optimizer, option, or other part.
        file: the file that defines the part, or the cache file; empty if there is none.
        line: the line of the definition; 0 if it is unknown.
        case: the number of the case in the entry's `lower`, from 1; 0 if the entry has one case, or
            the case is unknown.
        application: the number of the faulty application among those of its kind, from 1; 0 if
            they are not counted.
        of: the number of applications of that kind.
        nodes: the FX nodes, or the results of the ONNX graph, that the part was applied to; for a
            cache, the other cache files.
        module: path and class of the module that the nodes come from.
        source: file, line and text of the model code that the nodes come from.
        before: how the model differs from eager with the part.
        after: how the model differs without the part; empty if it agrees, "not tried" if the part
            cannot be disabled.
        advice: a workaround, and where to report the fault.
    """

    kind: FaultKind
    name: str
    file: str = ""
    line: int = 0
    case: int = 0
    application: int = 0
    of: int = 0
    nodes: tuple[str, ...] = ()
    module: str = ""
    source: str = ""
    before: str = ""
    after: str = ""
    advice: str = ""

    @property
    def place(self) -> str:
        """Format the location, for example `specs/rewrites/pairs.yaml:12`; empty without a file."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    def __str__(self) -> str:
        headline = f"{self.kind} {self.name}" + (f" at {self.place}" if self.file else "")
        lines = [headline, f"  {CULPRIT_TEXTS[self.kind]}"]
        if self.case:
            lines.append(f"  case {self.case} of the entry's lower")
        if self.application:
            lines.append(f"  application {self.application} of {self.of}")
        if self.nodes:
            lines.append(f"  nodes: {', '.join(self.nodes)}")
        lines += [f"  module: {self.module}"] if self.module else []
        lines += [f"  source: {self.source}"] if self.source else []
        lines.append(f"  with it: {self.before}")
        lines.append(f"  without it: {self.after or 'the model agrees with eager'}")
        if self.advice:
            lines.append(f"What to do: {self.advice}")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Bisection:
    """The result of `ortable.bisect`; true if the model agrees with eager.

    Attributes:
        fault: the part that is wrong; None if the model agrees with eager.
        compared: the number of compared values: results, gradients, buffers, arguments.
        runs: the number of times that the model was compiled and run.
        switched_off: the names of the parts that the search disabled, in order.
        difference: the difference that `ortable.first_difference` reports, if the fault is an entry
            and that function detects it; its `script` calls only the faulty operator.
    """

    fault: Fault | None
    compared: int
    runs: int
    switched_off: tuple[str, ...] = ()
    difference: Difference | None = None

    @property
    def ok(self) -> bool:
        """Whether the model agrees with eager."""
        return self.fault is None

    def __bool__(self) -> bool:
        return self.ok

    def as_dict(self) -> dict[str, Any]:
        """Convert to values that JSON can represent; `difference` is left out."""
        fault = None if self.fault is None else asdict(self.fault) | {"place": self.fault.place}
        return {
            "ok": self.ok,
            "compared": self.compared,
            "runs": self.runs,
            "switched_off": list(self.switched_off),
            "fault": fault,
        }

    def to_json(self) -> str:
        """Serialize the values of `as_dict` as indented JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        values = "1 value" if self.compared == 1 else f"{self.compared} values"
        if self.fault is None:
            return f"nothing differs from eager: {values} compared"
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"{self.fault}\n({values} compared in {runs})"

    def __repr__(self) -> str:
        result = (
            "agrees with eager" if self.fault is None else f"{self.fault.kind} {self.fault.name}"
        )
        return f"Bisection({result})"
