"""A model and a call of it, as commands of the shell run them. In comes what `target` found, out go
calls, eager and compiled; called by the commands about torch.compile and by `target`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ortable.errors import InputError


@dataclass(frozen=True)
class Target:
    """A model and a call of it. ``free`` are the dimensions that --dynamic frees, where they have
    names; ``task`` and ``tokenizer`` are those of a model of transformers."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    free: Mapping[str, Any] | None = None
    task: str = ""
    tokenizer: Any = None


class ModelCall:
    """A model in inference mode, or in training mode, and one call of it.

    Args:
        target: the model and the call.
        train: calls run forward and backward, from gradients of ones.
    """

    def __init__(self, target: Target, train: bool = False) -> None:
        import torch
        from torch.export import ExportedProgram

        self.model, self.args, self.train = target.model, target.args, train
        self.kwargs, self.dynamic_shapes = dict(target.kwargs), target.dynamic_shapes
        if isinstance(self.model, ExportedProgram):
            self._of_program(self.model)
        elif isinstance(self.model, torch.nn.Module):
            self.model.train(train)

    def _of_program(self, program: Any) -> None:
        if self.train:
            raise InputError("a saved program has the mode that it was exported in: no --train")
        if program.example_inputs is None:
            raise InputError("the saved program has no example inputs to call it with")
        args, kwargs = program.example_inputs
        self.model, self.args, self.kwargs = program.module(), tuple(args), dict(kwargs)

    def __call__(self, function: Callable[..., Any]) -> None:
        """One call of the model, compiled or not: gradients are dropped after it. An error of ours
        is taken out of what dynamo wraps it in."""
        import torch

        from ortable.debug.explain_state import run_call

        with torch.set_grad_enabled(self.train):
            ran = run_call(function, (self.args, self.kwargs), self.train)
        if self.train and not ran:
            raise InputError("no result of the model requires gradients: nothing runs backward")
        if self.train and isinstance(self.model, torch.nn.Module):
            self.model.zero_grad(set_to_none=True)

    def compiled(self, backend: Callable[..., Any], dynamic: bool) -> Any:
        """The model, to be compiled by its first call."""
        import torch

        torch.compiler.reset()
        return torch.compile(self.model, backend=backend, dynamic=True if dynamic else None)


def needed_parameters(function: Callable[..., Any]) -> list[str]:
    """Parameters without a default; none where nothing is known, of a function in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        each.name for each in parameters if each.default is each.empty and each.kind not in variadic
    ]


def check_called(words: str, target: Target) -> None:
    """Raises InputError for a module that nothing is known to be called with."""
    if target.args or target.kwargs or not hasattr(target.model, "forward"):
        return
    needed = needed_parameters(target.model.forward)
    if needed:
        example = " ".join(f'"{name}=f32[2,3]"' for name in needed)
        raise InputError(
            f"{words}: what is {type(target.model).__name__} called with? Give --inputs {example}, "
            "with your sizes; or an attribute example_inputs of the model"
        )
