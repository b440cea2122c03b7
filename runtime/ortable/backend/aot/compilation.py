"""One graph of dynamo while it is compiled: what the steps of `pipeline` read and note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions

Compiled = Callable[..., Any]


@dataclass
class Compilation:
    """A graph of dynamo, what it is compiled with, and what the steps have noted so far.

    `compile_graph` makes a callable of each graph of AOTAutograd, and `runner` one of each
    converted graph in it. The rest is noted: `decompositions` of the user (None: ours); what makes
    files of it, so that it is `kept`; positions of arguments `written` without a trace;
    `names` of arguments; `cut_off` by a graph break; `compiler`, which torch's cache puts around
    ours; `made` callables; `compiled` graphs, each with what AOTAutograd knows of it; `forwards`
    among them; `wrapped`, what AOTAutograd returned; `ran`, the steps that did something, by name
    with the reason.
    """

    graph_module: Any
    args: Sequence[Any]
    options: OrtOptions
    runner: Callable[..., Compiled]
    compile_graph: Callable[..., Compiled]
    decompositions: Any = None
    kept: str | None = None
    written: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    cut_off: bool = False
    compiler: Callable[[Compiled], Any] = field(default=lambda compile_it: compile_it)
    made: list[Compiled] = field(default_factory=list)
    compiled: list[tuple[Compiled, Any]] = field(default_factory=list)
    forwards: list[Any] = field(default_factory=list)
    wrapped: Compiled | None = None
    ran: dict[str, str] = field(default_factory=dict)

    @property
    def is_native(self) -> bool:
        """Whether sessions run the graphs, and nothing watches them."""
        return self.runner is run_with_onnxruntime

    def let_go(self) -> None:
        """Forget what a backward graph that is compiled later needs no more, so that weights and
        sessions live no longer than their users."""
        self.graph_module = self.wrapped = None
        self.args = ()
