"""Parts of a compilation that can be switched off one by one, to find which of them is wrong.

Two searches answer: ortable's own (`ortable debug`), and torch's CompilerBisector, which is
private and the same in 2.13, 2.14 and 2.15. While neither runs, a question is two look-ups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from . import torch as private

BACKEND = "ortable"
# In the order in which a search switches them off: what comes later hides what comes before.
SUBSYSTEMS = ("optimizers", "rewrites", "passes", "constants", "lowerings", "decompositions")
_TABLE = "specs/runtime/optimizers.yaml"
_MODULE = "torch._inductor.compiler_bisector"


@dataclass(frozen=True)
class Application:
    """One use of a part: what it is called, the spec file it is of, what it was done to, and the
    object itself (a rule, an FX node, a function)."""

    name: str
    file: str = ""
    nodes: tuple[str, ...] = ()
    subject: Any = None
    origin: Any = None

    def __str__(self) -> str:
        at = f" of {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.name}{at}" + (f" ({self.file})" if self.file else "")


class Judge(Protocol):
    """A search of ortable's own."""

    def searches(self, subsystem: str) -> bool:
        """Whether it counts the applications of a subsystem now."""

    def disabled(self, subsystem: str, about: Callable[[], Application]) -> bool:
        """Whether the next application is off."""


class _State:
    judge: Judge | None = None


def disabled(subsystem: str, about: Callable[[], Application]) -> bool:
    """Whether the next application of a subsystem is off. Counts it, where a search counts."""
    judge = _State.judge
    if judge is not None:
        return judge.disabled(subsystem, about)
    torchs = _torchs()
    if torchs is None or not torchs.bisection_enabled:
        return False
    return bool(torchs.disable_subsystem(BACKEND, subsystem, lambda: str(about())))


def searches(subsystem: str) -> bool:
    """Whether the applications of a subsystem are being searched: each has to be where it was, so
    nothing may be moved for the sake of speed."""
    if _State.judge is not None:
        return _State.judge.searches(subsystem)
    torchs = _torchs()
    if torchs is None or not torchs.bisection_enabled:
        return False
    return bool(torchs.get_backend() == BACKEND and torchs.get_subsystem() == subsystem)


def searched() -> bool:
    """Whether any search runs: caches are neither asked nor filled then."""
    if _State.judge is not None:
        return True
    torchs = _torchs()
    return torchs is not None and bool(torchs.bisection_enabled) and torchs.get_backend() == BACKEND


def optimizers_off(known: Iterable[str]) -> list[str]:
    """Those of ONNX Runtime's optimizers that are off in the session that is made now."""
    if not searches("optimizers"):
        return []
    return [name for name in known if disabled("optimizers", partial(Application, name, _TABLE))]


@contextmanager
def judged_by(judge: Judge) -> Iterator[None]:
    """In the block `judge` answers."""
    before = _State.judge
    try:
        _State.judge = judge
        yield
    finally:
        _State.judge = before


def register() -> None:
    """Adds the backend `ortable` and its subsystems to what torch's CompilerBisector walks through,
    after torch's own: `CompilerBisector.do_bisect` finds it then."""
    bisector = private.compiler_bisector
    known = bisector.BACKENDS
    if BACKEND not in known:
        known[BACKEND] = [bisector.BisectSubsystem(name) for name in SUBSYSTEMS]


def run_shell() -> None:
    """The command line of torch's CompilerBisector, which reads `sys.argv`, with ortable."""
    register()
    private.compiler_bisector.command_line_usage()


def _torchs() -> Any:
    """torch's class; None where its module was not imported: then no search of it runs."""
    module = sys.modules.get(_MODULE)
    return None if module is None else module.CompilerBisector
