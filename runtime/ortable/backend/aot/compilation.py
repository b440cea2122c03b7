"""State of one dynamo graph while it is compiled; the steps of `pipeline` read and extend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions

Compiled = Callable[..., Any]


@dataclass
class Compilation:
    """A graph of dynamo, the settings of its compilation, and the results of the steps so far.

    `compile_graph` compiles each graph of AOTAutograd, and `runner` makes a callable of each
    converted graph. The steps set the other fields. `decompositions` is the user's table, or None
    for the backend's. `serialization_mode` is the kind of file that torch writes, or None for no
    file. `untracked_writes` are the positions of arguments that PEFT may write to without a version
    change. `names` are the names of the arguments. `is_cut_off_by_graph_break` says that the graph
    ends at a graph break or resumes after one. `compiler` wraps the function that compiles a graph
    of AOTAutograd, so that torch's cache can store the result. `callables` are the compiled graphs,
    and `compiled` pairs each of them with AOTAutograd's metadata. `forward_graphs` are the forward
    graphs that could switch to inference. `wrapped` is the callable that AOTAutograd returned.
    `applied_steps` maps names of applied steps to reasons.
    """

    graph_module: Any
    args: Sequence[Any]
    options: OrtOptions
    runner: Callable[..., Compiled]
    compile_graph: Callable[..., Compiled]
    decompositions: Any = None
    serialization_mode: str | None = None
    untracked_writes: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    is_cut_off_by_graph_break: bool = False
    compiler: Callable[[Compiled], Any] = field(default=lambda compile_it: compile_it)
    callables: list[Compiled] = field(default_factory=list)
    compiled: list[tuple[Compiled, Any]] = field(default_factory=list)
    forward_graphs: list[Any] = field(default_factory=list)
    wrapped: Compiled | None = None
    applied_steps: dict[str, str] = field(default_factory=dict)

    @property
    def is_native(self) -> bool:
        """Whether sessions run the graphs and no debug backend observes them."""
        return self.runner is run_with_onnxruntime

    @property
    def is_differentiated(self) -> bool:
        """Whether results of the graph may be differentiated."""
        tensors = [tensor for tensor in self.args if isinstance(tensor, torch.Tensor)]
        weights = self.graph_module.parameters()
        return torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *weights)
        )

    def release(self) -> None:
        """Release the state that a backward graph compiled later does not need.

        Otherwise it would keep weights and sessions alive after their last use.
        """
        self.graph_module = self.wrapped = None
        self.args = ()
