"""Disable single uses of rules, passes and lowerings, to find the use that is wrong.

The users are ortable's bisection (`ortable debug`) and torch's CompilerBisector, which is private
and the same in 2.13, 2.14 and 2.15. If neither runs, a query is cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from . import torch as private

BACKEND = "ortable"
# In the order in which a bisection disables them: later subsystems hide earlier ones.
SUBSYSTEMS = ("optimizers", "rewrites", "passes", "constants", "lowerings", "decompositions")
_TABLE = "specs/runtime/optimizers.yaml"
_MODULE = "torch._inductor.compiler_bisector"


@dataclass(frozen=True)
class Application:
    """One use of a part of the compiler.

    ``subject`` is the part itself: a rule, an FX node or a function; ``name`` and ``file`` are its
    name and its spec file. ``nodes`` are the nodes that it changes, ``origin`` is their origin.
    """

    name: str
    file: str = ""
    nodes: tuple[str, ...] = ()
    subject: Any = None
    origin: Any = None

    def __str__(self) -> str:
        nodes_text = f" of {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.name}{nodes_text}" + (f" ({self.file})" if self.file else "")


class BisectionFilter(Protocol):
    """A bisection of ortable, which decides which applications are disabled."""

    def is_searching(self, subsystem: str) -> bool:
        """Whether applications of a subsystem must keep their order."""

    def is_disabled(self, subsystem: str, about: Callable[[], Application]) -> bool:
        """Count an application of a subsystem, and return whether it is disabled."""


class _State:
    active: BisectionFilter | None = None


def is_disabled(subsystem: str, about: Callable[[], Application]) -> bool:
    """Count an application for a running bisection, and return whether it is disabled."""
    active = _State.active
    if active is not None:
        return active.is_disabled(subsystem, about)
    bisector = _torch_bisector()
    if bisector is None or not bisector.bisection_enabled:
        return False
    return bool(bisector.disable_subsystem(BACKEND, subsystem, lambda: str(about())))


def is_searching(subsystem: str) -> bool:
    """Whether a bisection numbers the applications of a subsystem, so that their order matters."""
    if _State.active is not None:
        return _State.active.is_searching(subsystem)
    bisector = _torch_bisector()
    if bisector is None or not bisector.bisection_enabled:
        return False
    return bool(bisector.get_backend() == BACKEND and bisector.get_subsystem() == subsystem)


def is_bisecting() -> bool:
    """Whether a bisection runs; caches are then neither read nor filled."""
    if _State.active is not None:
        return True
    bisector = _torch_bisector()
    return (
        bisector is not None
        and bool(bisector.bisection_enabled)
        and bisector.get_backend() == BACKEND
    )


def disabled_optimizers(names: Iterable[str]) -> list[str]:
    """Return the ONNX Runtime optimizers that are disabled in the session being created."""
    if not is_searching("optimizers"):
        return []
    return [name for name in names if is_disabled("optimizers", partial(Application, name, _TABLE))]


@contextmanager
def filter_applications(new_filter: BisectionFilter) -> Iterator[None]:
    """Make a filter decide which applications are disabled inside the `with` block."""
    previous_filter = _State.active
    try:
        _State.active = new_filter
        yield
    finally:
        _State.active = previous_filter


def register_subsystems() -> None:
    """Add the backend `ortable` and its subsystems to the backends of CompilerBisector."""
    bisector = private.compiler_bisector
    backends = bisector.BACKENDS
    if BACKEND not in backends:
        backends[BACKEND] = [bisector.BisectSubsystem(name) for name in SUBSYSTEMS]


def run_shell() -> None:
    """Run the command line of torch's CompilerBisector, including ortable; it reads `sys.argv`."""
    register_subsystems()
    private.compiler_bisector.command_line_usage()


def _torch_bisector() -> Any:
    """Return torch's CompilerBisector if its module is imported; otherwise no bisection runs."""
    module = sys.modules.get(_MODULE)
    return None if module is None else module.CompilerBisector
