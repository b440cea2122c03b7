"""What one call of to_onnx did: the way to the torch graph, seconds by phase, sizes, and what
the comparison with eager found. Made by to_onnx.py, filled by every room of `export`, read by
report.py and by the caller."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortable.passes.rewrite.record import RewriteRecord

# In the order in which they happen; a phase that did not happen is absent from ``seconds``.
PHASES = (
    "export", "decompose", "convert", "rewrite", "round weights", "serialise", "validate", "write",
)  # fmt: skip


@dataclass
class ExportRecord:
    """The account of a conversion, at ``builder.record`` when ``return_builder=True``.

    ``strategy``: how the torch graph was made; empty when the caller gave one. ``steps``: what
    torch did to the graph before it was converted, in words. ``seconds``: wall-clock seconds by
    phase, see ``PHASES``. ``guards``: conditions on sizes under which the model is the module.
    ``comparisons``: what ``validate=True`` compared; ``accepted``: the largest difference that
    ``validate=0.001`` asked for. ``rewrites``: which rules fired where, how often each was
    tried, and why it was refused. ``assertions``: what the program checks when it
    runs (``assert``, ``torch._check``) and the model does not, since ONNX has no operator that
    raises. ``weights``: the WeightReport or StoredWeights of ``weights=``, None without. ``sides``:
    how many programs the model chooses among, by branches on sizes; 1 where there is no choice.
    """

    strategy: str = ""
    steps: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    comparisons: list[Any] = field(default_factory=list)
    accepted: float | None = None
    rewrites: RewriteRecord = field(default_factory=RewriteRecord)
    assertions: list[str] = field(default_factory=list)
    weights: Any = None
    sides: int = 1
    verbose: int = 0
    progress: Callable[[str, float], None] | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to a phase, and tell ``progress`` when it ended well."""
        start = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if self.progress is not None:
            self.progress(name, taken)

    def say(self, phase: str, *parts: str) -> None:
        """Print a line about a phase that has ended, when ``verbose`` asks for it."""
        if self.verbose:
            seconds = self.seconds.get(phase, 0.0)
            print(f"[to_onnx] {'; '.join((phase, *parts))} ({seconds:.3f} s)")


@dataclass(frozen=True)
class Guard:
    """A condition on sizes, in words of the caller (``batch % 8 == 7``), and the line of the model
    that decides; None where torch's own code does and dynamo did not read the line, and in a
    program that was saved. ``holds`` says whether it is met, given the values of torch's symbols by
    their names. ``condition`` is the same as an expression of these symbols, None in a program that
    was saved."""

    text: str
    line: UserLine | None
    holds: Callable[[Mapping[str, int]], bool]
    condition: Any = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text}\n    at {self.line}"

    def short(self) -> str:
        """In one line, for metadata and reports."""
        if self.line is None:
            return self.text
        return f"{self.text} ({Path(self.line.file).name}:{self.line.line})"


@dataclass(frozen=True)
class UserLine:
    """A line of the user's model, or of a library that it is made of."""

    file: str
    line: int
    function: str
    text: str = ""

    @property
    def code(self) -> str:
        """The text of the line, empty when the source is not there."""
        return self.text or linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}, in {self.function}"
        return f"{text}\n    {self.code}" if self.code else text
