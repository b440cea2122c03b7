"""Compare a graph with eager at other sizes: 0, 1, small primes, the maximum.

`observe.py` calls this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import pytree
from ortable.errors import ExportError
from ortable.exporter.frontend.module_state import copy_call, restore_state
from ortable.exporter.observation.call_resizing import (
    CallArguments,
    count_elements,
    get_call_sizes,
    resize_call,
)
from ortable.exporter.observation.calls import ObservedCall
from ortable.exporter.observation.dim_inference import DimInference
from ortable.exporter.reporting.validate import compare_output, text_table
from ortable.interpreter.complex_numbers import real_tensor

Outcome = Literal["right", "differs", "fails", "refused", "undefined", "not tried"]

SMALL_SIZES = (0, 1, 2, 3, 5, 7)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # to change all dimensions at once
_MAX_ELEMENTS = 2**24  # elements of all arguments of a call
_MAX_LISTED = 3  # differences in a message
_MAX_ERROR_CHARS = 100  # of eager's error in a table; other reasons may be twice as long
PROOF_HEADS = ("sizes", "outcome", "difference", "")


class RejectedCall(Exception):
    """The graph does not support a call; the text is the reason."""


class SkippedCall(Exception):
    """A call cannot be run; the text is the reason."""


class GraphRunner(Protocol):
    """Runs a graph.

    Both methods raise RejectedCall for a call that the graph does not support, SkippedCall for a
    call that cannot be run, and any other error if the graph fails.
    """

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call."""

    def run_isolated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call with empty tensors.

        A program runs in a subprocess, because ONNX Runtime's kernels may crash on empty tensors.
        """


@dataclass(frozen=True)
class ProofTrial:
    """The outcome of one call.

    Attributes:
        sizes: the sizes as text: ``batch=3``, ``call 2``.
        outcome: ``"right"``: values, dtypes and shapes equal eager's. ``"differs"``: they do not.
            ``"fails"``: the graph raises, and eager does not. ``"refused"``: the graph rejects the
            sizes, because it does not support them. ``"undefined"``: eager itself raises.
            ``"not tried"``: a call of these sizes cannot be made or run.
        reason: the difference, the error, or the condition that rejects the sizes and its line.
        largest: the largest absolute difference; None if values were not compared.
        empty: whether a tensor of the call has no elements.
        observed: whether the call is an observed one.
    """

    sizes: str
    outcome: Outcome
    reason: str = ""
    largest: float | None = None
    empty: bool = False
    observed: bool = False

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table with `PROOF_HEADS`."""
        difference = "" if self.largest is None else f"{self.largest:.3g}"
        outcome_text = "eager raises" if self.outcome == "undefined" else self.outcome
        limit = _MAX_ERROR_CHARS if self.outcome == "undefined" else 2 * _MAX_ERROR_CHARS
        reason = self.reason if len(self.reason) <= limit else f"{self.reason[:limit]}..."
        return self.sizes, outcome_text, difference, reason


@dataclass(frozen=True, repr=False)
class ProofReport:
    """A comparison of a graph with eager; true if there are no failures. Prints as a table.

    Attributes:
        trials: one for each call, the observed calls first.
    """

    trials: tuple[ProofTrial, ...]

    @property
    def ok(self) -> bool:
        """Whether the graph supports the observed calls, and equals eager where both run."""
        return not self.failures

    @property
    def failures(self) -> list[ProofTrial]:
        """The trials that differ or fail, and observed calls that are refused."""
        return [
            trial
            for trial in self.trials
            if trial.outcome in ("differs", "fails")
            or (trial.outcome == "refused" and trial.observed)
        ]

    def of(self, outcome: Outcome) -> list[ProofTrial]:
        """Return the trials with an outcome.

        Args:
            outcome: ``"right"``, ``"differs"``, ``"fails"``, ``"refused"``, ``"undefined"`` or
                ``"not tried"``.
        """
        return [trial for trial in self.trials if trial.outcome == outcome]

    def check(self, *, empty: bool = True) -> ProofReport:
        """Return the report; raise ExportError, with the sizes, if the graph differs or fails.

        Args:
            empty: whether calls with empty tensors count.
        """
        failures = [trial for trial in self.failures if empty or not trial.empty]
        if not failures:
            return self
        table = text_table(PROOF_HEADS, [trial.row() for trial in failures[:_MAX_LISTED]])
        remaining = len(failures) - _MAX_LISTED
        more = f"\n... and {remaining} more, in error.details" if remaining > 0 else ""
        refused = all(trial.outcome == "refused" for trial in failures)
        headline = "refuses an observed call" if refused else "differs from eager"
        raise ExportError(f"the graph {headline}:\n{table}{more}", details=str(self)).with_advice(
            "Change the line that decides on the size, or separate the calls with seen.apart()."
            if refused
            else "Models that draw random numbers cannot agree with eager.",
            "prove=False returns the graph without a proof.",
        )

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return text_table(PROOF_HEADS, [trial.row() for trial in self.trials])

    def __repr__(self) -> str:
        head = "right at every size that it takes" if self.ok else "differs from eager"
        return f"ProofReport: {head}\n{self}"


def prove_graph(
    module: torch.nn.Module,
    runner: GraphRunner,
    inference: DimInference,
    calls: Sequence[ObservedCall],
    example: ObservedCall,
    maximum: Mapping[str, int],
) -> ProofReport:
    """Run the graph and the module on the observed calls, then on resized copies of ``example``.

    The sizes of each dimension are 0, 1, 2, 3, 5, 7 and its ``maximum``, or the largest observed;
    then all dimensions vary together. If the graph is right at none of 2, 3, 5 and 7, multiples of
    the greatest common divisor of the observed sizes are tried too.
    """
    trials = [
        replace(_try_call(f"call {number}", module, runner, call.copy_arguments()), observed=True)
        for number, call in enumerate(calls, 1)
        if call.has_tensors
    ]
    base = get_call_sizes(inference, example)

    def try_sizes(changed: Mapping[str, int], note: str = "") -> ProofTrial:
        size_text = ", ".join(f"{name}={size}" for name, size in changed.items()) + note
        sizes = {**base, **changed}
        count = count_elements(inference, example, sizes)
        if count > _MAX_ELEMENTS:
            return ProofTrial(size_text, "not tried", f"its arguments have {count} elements")
        call = resize_call(module, inference, example, sizes)
        if call is None:
            return ProofTrial(
                size_text, "not tried", "the observed call cannot be resized to these sizes"
            )
        return _try_call(size_text, module, runner, call)

    for dimension in inference.independent_dims():
        name, divisor = dimension.name, math.gcd(*dimension.sizes)
        trials_at = {size: try_sizes({name: size}) for size in SMALL_SIZES}
        largest = maximum.get(name, max(dimension.sizes))
        note = " (maximum)" if name in maximum else " (largest seen)"
        trials += [*trials_at.values(), try_sizes({name: largest}, note)]
        if divisor > 1 and not any(trials_at[size].outcome == "right" for size in SMALL_SIZES[2:]):
            multiples = [divisor * size for size in SMALL_SIZES[1:]]
            trials += [
                try_sizes({name: size}) for size in multiples if size not in (*SMALL_SIZES, largest)
            ]
    trials += map(try_sizes, _joint_sizes(list(base), maximum))
    return ProofReport(tuple(trials))


def _joint_sizes(names: Sequence[str], maximum: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes of all dimensions: all 1, then ascending and descending primes."""
    if len(names) < 2:
        return
    cycle = [_PRIMES[index % len(_PRIMES)] for index in range(len(names))]
    for values in ([1] * len(names), cycle, cycle[::-1]):
        yield {
            name: min(value, maximum.get(name, value))
            for name, value in zip(names, values, strict=True)
        }


def _try_call(
    size_text: str, module: torch.nn.Module, runner: GraphRunner, call: CallArguments
) -> ProofTrial:
    empty = any(
        isinstance(leaf, torch.Tensor) and not leaf.numel() for leaf in pytree.tree_leaves(call)
    )
    args, kwargs = copy_call(*call)
    # flattened before the call, because a cache may replace its tensors
    written_leaves = pytree.tree_leaves((args, kwargs))
    try:
        with preserve_state(module, (args, kwargs)), torch.no_grad():
            expected = module(*args, **kwargs)
    except Exception as error:  # the user's forward may raise anything
        return ProofTrial(size_text, "undefined", _error_line(error), empty=empty)
    graph_args, graph_kwargs = copy_call(*call)
    leaves = pytree.tree_leaves((graph_args, graph_kwargs))
    run_graph = runner.run_isolated if empty else runner.run
    try:
        with preserve_state(module, (graph_args, graph_kwargs)), torch.no_grad():
            result = run_graph(tuple(graph_args), dict(graph_kwargs))
    except RejectedCall as error:
        return ProofTrial(size_text, "refused", str(error), empty=empty)
    except SkippedCall as error:
        return ProofTrial(size_text, "not tried", str(error), empty=empty)
    except Exception as error:  # onnxruntime's classes derive from Exception only
        return ProofTrial(size_text, "fails", _error_line(error), empty=empty)
    gap, problem = _compare_results(result, expected)
    if not problem:
        _, problem = _compare_results(leaves, written_leaves)
        problem = problem and f"in the arguments that forward writes into, {problem}"
    return ProofTrial(size_text, "differs" if problem else "right", problem, gap, empty)


def runs_in_eager(module: torch.nn.Module, call: CallArguments) -> bool:
    """Whether the module accepts a call."""
    args, kwargs = copy_call(*call)
    try:
        with preserve_state(module, (args, kwargs)), torch.no_grad():
            module(*args, **kwargs)
    except Exception:  # the user's forward may raise anything
        return False
    return True


def _compare_results(result: Any, expected: Any) -> tuple[float | None, str]:
    """Return the largest difference between two nests of tensors, and a description of it."""
    leaves, expected_leaves = pytree.tree_leaves(result), pytree.tree_leaves(expected)
    if len(leaves) != len(expected_leaves):
        return None, f"it returns {len(leaves)} values, eager {len(expected_leaves)}"
    largest = 0.0
    for number, (value, expected_value) in enumerate(zip(leaves, expected_leaves, strict=True)):
        if not isinstance(expected_value, torch.Tensor):
            if type(value) is not type(expected_value) or value != expected_value:
                return None, f"result {number} is {value!r:.40}, eager's {expected_value!r:.40}"
            continue
        if not isinstance(value, torch.Tensor):
            return None, f"result {number} is {value!r:.40}, eager's a tensor"
        gap, problem = compare_output(_to_cpu(value), _to_cpu(expected_value))
        if problem:
            return gap, f"result {number}: {problem}"
        largest = max(largest, gap or 0.0)
    return largest, ""


def _to_cpu(value: torch.Tensor) -> torch.Tensor:
    return real_tensor(value.detach().cpu())


def _error_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


@contextmanager
def preserve_state(module: torch.nn.Module, call: Any) -> Iterator[None]:
    """Restore a module, its buffers' values and a call's arguments after the block."""
    buffers = [(tensor, tensor.detach().clone()) for tensor in module.buffers()]

    def undo() -> None:
        with torch.no_grad():
            for buffer, before in buffers:
                # `_version` is not reliable: batch_norm writes its statistics without increasing it
                if not torch.equal(buffer, before):
                    buffer.copy_(before)

    with restore_on_exit(undo), restore_state(module, call):
        yield
