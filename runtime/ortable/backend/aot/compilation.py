"""State of one dynamo graph while it is compiled; the steps of `pipeline` read and extend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions

Compiled = Callable[..., Any]


@dataclass
class Compilation:
    """A graph of dynamo, the settings of its compilation, and the results of the steps so far.

    `compile_graph` compiles each graph of AOTAutograd, and `runner` makes a callable of each
    converted graph in it. The steps set the rest: `decompositions` of the user (None: the
    backend's); `serialize_for`, the kind of file that torch writes (None: no file);
    `untracked_writes`, positions of arguments that are written without a trace; `names` of
    arguments; `cut_off` by a graph break; `compiler`, which torch's cache puts around ours;
    `callables` of graphs; `compiled` graphs, each with AOTAutograd's metadata; `forwards` among
    them; `wrapped`, what AOTAutograd returned; `applied_steps`, by name with the reason.
    """

    graph_module: Any
    args: Sequence[Any]
    options: OrtOptions
    runner: Callable[..., Compiled]
    compile_graph: Callable[..., Compiled]
    decompositions: Any = None
    serialize_for: str | None = None
    untracked_writes: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    cut_off: bool = False
    compiler: Callable[[Compiled], Any] = field(default=lambda compile_it: compile_it)
    callables: list[Compiled] = field(default_factory=list)
    compiled: list[tuple[Compiled, Any]] = field(default_factory=list)
    forwards: list[Any] = field(default_factory=list)
    wrapped: Compiled | None = None
    applied_steps: dict[str, str] = field(default_factory=dict)

    @property
    def is_native(self) -> bool:
        """Whether sessions run the graphs, and nothing observes them."""
        return self.runner is run_with_onnxruntime

    def release(self) -> None:
        """Release what a backward graph that is compiled later does not need.

        Weights and sessions then live no longer than their users.
        """
        self.graph_module = self.wrapped = None
        self.args = ()
