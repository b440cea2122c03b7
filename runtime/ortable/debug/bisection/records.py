"""The records that `ortable.bisect` returns; they print as text."""

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
    """The part that is wrong.

    Attributes:
        kind: what it is.
        name: what it is called: an entry, a rule, an optimizer, an option.
        file: the file of the entry, the rule or the function; empty where there is none.
        line: its line there; 0 where the file is not at hand.
        case: which case of the entry's `lower`, from 1; 0 where it has one, or none is known.
        application: which one of the applications of its kind, from 1; 0 where they are not
            counted.
        of: how many there are.
        nodes: the FX nodes, or the results of the ONNX graph, that it was applied to.
        module: path and class of the module that they come from.
        source: file, line and text of the model.
        before: how the model differs from eager with the fault.
        after: how it differs without; empty where it agrees, "not tried" where nothing leaves the
            fault out.
        advice: what to do today, and where to go with it.
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
        """Format file and line, `specs/rewrites/pairs.yaml:12`; empty where there is no file."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    def __str__(self) -> str:
        head = f"{self.kind} {self.name}" + (f" at {self.place}" if self.file else "")
        lines = [head, f"  {CULPRIT_TEXTS[self.kind]}"]
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
    """What `ortable.bisect` found; false when the model differs from eager.

    Attributes:
        fault: the part that is wrong; None where the model agrees with eager.
        compared: how many values were compared: results, gradients, buffers, arguments.
        runs: how often the model was compiled and run.
        switched_off: what was off, in order, when the model agreed first.
        difference: what `ortable.first_difference` says of it, where the fault is an entry and
            that sees it; its `script` reproduces the fault alone.
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
        """Convert to plain values."""
        fault = None if self.fault is None else asdict(self.fault) | {"place": self.fault.place}
        return {
            "ok": self.ok,
            "compared": self.compared,
            "runs": self.runs,
            "switched_off": list(self.switched_off),
            "fault": fault,
        }

    def to_json(self) -> str:
        """Convert to JSON."""
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
