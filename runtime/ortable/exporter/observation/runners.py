"""Run an OnnxProgram or a compiled module for a proof; rejected calls raise `RejectedCall`.

`observe.py` calls this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.errors import InputError
from ortable.exporter.capture.guards import describe_violated_guard
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.observation.calls import ObservedCall
from ortable.exporter.observation.proof import RejectedCall, SkippedCall
from ortable.exporter.observation.subprocess_runner import ModelLoadError, SubprocessRunner
from ortable.exporter.reporting.sessions import array_of, proto_of

_STANCE = "fail_on_recompile"  # torch's error contains this word, by which it is recognized
_NOT_IN_NPZ = ("bfloat16",)  # dtypes that npz files do not support
_ADVICE_PATTERN = re.compile(r" \(user code shown is first use.*?mark_unbacked\(tensor, dim\)\)")
_GUARD_PATTERN = re.compile(r"^\s*- (?:\d+/\d+: )?(.*)$", re.M)


class ProgramRunner:
    """Runs an OnnxProgram, in this process or in a subprocess.

    ``save`` writes the model to a path; None if the model is too large.
    """

    def __init__(
        self,
        call: Any,
        program: Program,
        convention: Any,
        save: Callable[[str], None] | None,
    ) -> None:
        self._call, self._program, self._convention = call, program, convention
        self._subprocess = None if save is None else SubprocessRunner(save)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the program's result; raise RejectedCall with the condition and its line."""
        try:
            return self._call(*args, **kwargs)
        except InputError as error:
            raise self._explain_rejection(error, args, kwargs) from error

    def run_isolated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute the result in a subprocess; raise SkippedCall if that is impossible."""
        if self._subprocess is None:
            raise SkippedCall(
                "an empty call needs a separate process, and the weights are too large"
            )
        convention = self._convention
        try:
            leaves = convention.leaves(args, kwargs)
        except InputError as error:
            raise self._explain_rejection(error, args, kwargs) from error
        feeds = {name: array_of(leaf) for name, leaf in convention.input_feeds(leaves).items()}
        unsupported = [name for name, array in feeds.items() if array.dtype.kind == "V"]
        unsupported += [name for name, array in feeds.items() if array.dtype.name in _NOT_IN_NPZ]
        if unsupported:
            raise SkippedCall(f"numpy's files have no dtype for {unsupported[0]!r}")
        try:
            results = self._subprocess.run(feeds)
        except ModelLoadError as error:
            raise SkippedCall(str(error)) from error
        names = [value.name for value in proto_of(self._call.model).graph.output]
        values = dict(zip(names, results, strict=True))
        return convention.rebuild_outputs(
            {name: values[name] for name in convention.required_outputs}, leaves
        )

    def close(self) -> None:
        """End the subprocess."""
        if self._subprocess is not None:
            self._subprocess.close()

    def _explain_rejection(self, error: Exception, args: Any, kwargs: Any) -> RejectedCall:
        sizes = self._convention.sizes.input_sizes
        values = _symbol_values(sizes, pytree.tree_leaves((args, kwargs)))
        program = self._program
        if program.exported is None or not all(guard.holds(values) for guard in program.guards):
            return RejectedCall(str(error))  # a violated guard's error already has its line
        deciding_lines = describe_violated_guard(program.exported, values, program.symbol_names)
        return RejectedCall(f"{error}; {deciding_lines}" if deciding_lines else str(error))


def _symbol_values(sizes: Sequence[Any], leaves: Sequence[Any]) -> dict[str, int]:
    """Return the sizes of a call by the names of torch's symbols."""
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
    """Runs a compiled module in the modes of the example call, without recompilation.

    If a call needs recompilation, it is rejected, with the failed guards as the reason.
    """

    def __init__(self, compiled: Callable[..., Any], example: ObservedCall) -> None:
        self._compiled, self._example = compiled, example

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the module's result; raise RejectedCall with the guards that fail."""
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

    run_isolated = run  # torch specializes on size 0: an empty call runs only if one was observed

    def close(self) -> None:
        """Do nothing: no resources are held."""


def set_modes(stack: ExitStack, call: ObservedCall) -> None:
    """Set gradient and inference mode as in a call, until ``stack`` closes."""
    stack.enter_context(torch.inference_mode(call.inference))
    stack.enter_context(torch.set_grad_enabled(call.grad))


def _failed_guards(error: Exception) -> str:
    """Return the failed guard of each compiled graph, with its line."""
    guards = (_ADVICE_PATTERN.sub("", line).strip() for line in _GUARD_PATTERN.findall(str(error)))
    return "; ".join(dict.fromkeys(filter(None, guards))) or str(error).strip().splitlines()[0]
