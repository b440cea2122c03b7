"""What runs a graph for a proof, and says so when the graph refuses a call: a program of ours, or a
compiled module. In comes the graph, out go results or `Refused`. Called by `observe.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.errors import InputError
from ortable.exporter.capture.guards import violated_guard
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.observation.calls import SeenCall
from ortable.exporter.observation.proof import Refused, Untried
from ortable.exporter.observation.subprocess_runner import Apart, NotStarted
from ortable.exporter.reporting.sessions import array_of, proto_of

_STANCE = "fail_on_recompile"  # and the word by which torch's error is known
_NUMPY_LACKS = ("bfloat16",)  # in its files
_ADVICE = re.compile(r" \(user code shown is first use.*?mark_unbacked\(tensor, dim\)\)")
_FAILED_GUARD = re.compile(r"^\s*- (?:\d+/\d+: )?(.*)$", re.M)


class ProgramRunner:
    """Runs an OnnxProgram, in this process or in another one. ``save`` writes the model to a path,
    None where it is too large for that."""

    def __init__(
        self,
        call: Any,
        program: Program,
        convention: Any,
        save: Callable[[str], None] | None,
    ) -> None:
        self._call, self._program, self._convention = call, program, convention
        self._other = None if save is None else Apart(save)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The program's result; Refused with the condition and who asks."""
        try:
            return self._call(*args, **kwargs)
        except InputError as error:
            raise self._refused(error, args, kwargs) from error

    def run_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same, computed in another process; Untried where it cannot be."""
        if self._other is None:
            raise Untried("an empty call needs a process of its own, and the weights are too large")
        convention = self._convention
        try:
            leaves = convention.leaves(args, kwargs)
        except InputError as error:
            raise self._refused(error, args, kwargs) from error
        feeds = {name: array_of(leaf) for name, leaf in convention.input_feeds(leaves).items()}
        lacking = [name for name, array in feeds.items() if array.dtype.kind == "V"]
        lacking += [name for name, array in feeds.items() if array.dtype.name in _NUMPY_LACKS]
        if lacking:
            raise Untried(f"numpy's files have no dtype for {lacking[0]!r}")
        try:
            found = self._other.run(feeds)
        except NotStarted as error:
            raise Untried(str(error)) from error
        names = [value.name for value in proto_of(self._call.model).graph.output]
        wanted = dict(zip(names, found, strict=True))
        return convention.rebuild_outputs(
            {name: wanted[name] for name in convention.required_outputs()}, leaves
        )

    def close(self) -> None:
        """Let the other process go."""
        if self._other is not None:
            self._other.close()

    def _refused(self, error: Exception, args: Any, kwargs: Any) -> Refused:
        sizes = self._convention.sizes.input_sizes
        values = _values(sizes, pytree.tree_leaves((args, kwargs)))
        program = self._program
        if program.exported is None or not all(guard.holds(values) for guard in program.guards):
            return Refused(str(error))  # which says the line itself
        asked = violated_guard(program.exported, values, program.symbol_names)
        return Refused(f"{error}; {asked}" if asked else str(error))


def _values(sizes: Sequence[Any], leaves: Sequence[Any]) -> dict[str, int]:
    """Torch's symbols in a call: their values."""
    found: dict[str, int] = {}
    if len(sizes) != len(leaves):
        return found
    for expected, leaf in zip(sizes, leaves, strict=True):
        if isinstance(leaf, torch.Tensor) and isinstance(expected, list):
            pairs = list(zip(expected, leaf.shape, strict=False))
        else:
            pairs = [(expected, leaf)]
        for size, given in pairs:
            if getattr(size, "is_Symbol", False):
                found.setdefault(str(size), given)
    return found


class CompiledRunner:
    """Runs a compiled module in the modes of the observed calls, without compiling it again: where
    that would be needed, the guards refuse."""

    def __init__(self, compiled: Callable[..., Any], example: SeenCall) -> None:
        self._compiled, self._example = compiled, example

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The module's result; Refused with the guards that fail."""
        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance(_STANCE))
            in_modes(stack, self._example)
            try:
                return self._compiled(*args, **kwargs)
            except RuntimeError as error:
                if _STANCE not in str(error):
                    raise
                raise Refused(f"it would be compiled again: {_guards_of(error)}") from error

    run_apart = run  # a graph of torch.compile is made for no empty call but those that were seen

    def close(self) -> None:
        """Nothing is held."""


def in_modes(stack: ExitStack, call: SeenCall) -> None:
    """Gradients and inference mode as they were in a call, until ``stack`` closes."""
    stack.enter_context(torch.inference_mode(call.inference))
    stack.enter_context(torch.set_grad_enabled(call.grad))


def _guards_of(error: Exception) -> str:
    """The guards that fail, one of each graph that there is, with the lines that ask."""
    found = (_ADVICE.sub("", each).strip() for each in _FAILED_GUARD.findall(str(error)))
    return "; ".join(dict.fromkeys(filter(None, found))) or str(error).strip().splitlines()[0]
