"""Runners for a proof: an OnnxProgram or a compiled module, which reject calls with `RejectedCall`.
Called by `observe.py`.
"""

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
from ortable.exporter.observation.calls import ObservedCall
from ortable.exporter.observation.proof import RejectedCall, SkippedCall
from ortable.exporter.observation.subprocess_runner import SubprocessNotStarted, SubprocessRunner
from ortable.exporter.reporting.sessions import array_of, proto_of

_STANCE = "fail_on_recompile"  # and the word by which torch's error is known
_NUMPY_LACKS = ("bfloat16",)  # in its files
_ADVICE = re.compile(r" \(user code shown is first use.*?mark_unbacked\(tensor, dim\)\)")
_FAILED_GUARD = re.compile(r"^\s*- (?:\d+/\d+: )?(.*)$", re.M)


class ProgramRunner:
    """Run an OnnxProgram, in this process or in a subprocess.

    ``save`` writes the model to a path, None where it is too large for that.
    """

    def __init__(
        self,
        call: Any,
        program: Program,
        convention: Any,
        save: Callable[[str], None] | None,
    ) -> None:
        self._call, self._program, self._convention = call, program, convention
        self._other = None if save is None else SubprocessRunner(save)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the program's result; RejectedCall with the condition and the line that
        decides.
        """
        try:
            return self._call(*args, **kwargs)
        except InputError as error:
            raise self._explain_rejection(error, args, kwargs) from error

    def run_isolated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute the result in a subprocess; SkippedCall where that is impossible."""
        if self._other is None:
            raise SkippedCall(
                "an empty call needs a process of its own, and the weights are too large"
            )
        convention = self._convention
        try:
            leaves = convention.leaves(args, kwargs)
        except InputError as error:
            raise self._explain_rejection(error, args, kwargs) from error
        feeds = {name: array_of(leaf) for name, leaf in convention.input_feeds(leaves).items()}
        lacking = [name for name, array in feeds.items() if array.dtype.kind == "V"]
        lacking += [name for name, array in feeds.items() if array.dtype.name in _NUMPY_LACKS]
        if lacking:
            raise SkippedCall(f"numpy's files have no dtype for {lacking[0]!r}")
        try:
            results = self._other.run(feeds)
        except SubprocessNotStarted as error:
            raise SkippedCall(str(error)) from error
        names = [value.name for value in proto_of(self._call.model).graph.output]
        values = dict(zip(names, results, strict=True))
        return convention.rebuild_outputs(
            {name: values[name] for name in convention.required_outputs}, leaves
        )

    def close(self) -> None:
        """End the subprocess."""
        if self._other is not None:
            self._other.close()

    def _explain_rejection(self, error: Exception, args: Any, kwargs: Any) -> RejectedCall:
        sizes = self._convention.sizes.input_sizes
        values = _symbol_values(sizes, pytree.tree_leaves((args, kwargs)))
        program = self._program
        if program.exported is None or not all(guard.holds(values) for guard in program.guards):
            return RejectedCall(str(error))  # which says the line itself
        deciding_lines = violated_guard(program.exported, values, program.symbol_names)
        return RejectedCall(f"{error}; {deciding_lines}" if deciding_lines else str(error))


def _symbol_values(sizes: Sequence[Any], leaves: Sequence[Any]) -> dict[str, int]:
    """Return the values of torch's symbols in a call."""
    values: dict[str, int] = {}
    if len(sizes) != len(leaves):
        return values
    for expected, leaf in zip(sizes, leaves, strict=True):
        if isinstance(leaf, torch.Tensor) and isinstance(expected, list):
            pairs = list(zip(expected, leaf.shape, strict=False))
        else:
            pairs = [(expected, leaf)]
        for size, actual in pairs:
            if getattr(size, "is_Symbol", False):
                values.setdefault(str(size), actual)
    return values


class CompiledRunner:
    """Run a compiled module in the modes of the observed calls, without recompilation.

    Where that would be needed, the failed guards reject the call.
    """

    def __init__(self, compiled: Callable[..., Any], example: ObservedCall) -> None:
        self._compiled, self._example = compiled, example

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the module's result; RejectedCall with the guards that fail."""
        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance(_STANCE))
            set_modes(stack, self._example)
            try:
                return self._compiled(*args, **kwargs)
            except RuntimeError as error:
                if _STANCE not in str(error):
                    raise
                raise RejectedCall(
                    f"it would be compiled again: {_failed_guards(error)}"
                ) from error

    run_isolated = (
        run  # a graph of torch.compile is made for no empty call but those that were seen
    )

    def close(self) -> None:
        """Do nothing: no resources are held."""


def set_modes(stack: ExitStack, call: ObservedCall) -> None:
    """Set gradients and inference mode as in a call, until ``stack`` closes."""
    stack.enter_context(torch.inference_mode(call.inference))
    stack.enter_context(torch.set_grad_enabled(call.grad))


def _failed_guards(error: Exception) -> str:
    """Return the guards that fail, one of each graph, with their lines."""
    guards = (_ADVICE.sub("", line).strip() for line in _FAILED_GUARD.findall(str(error)))
    return "; ".join(dict.fromkeys(filter(None, guards))) or str(error).strip().splitlines()[0]
