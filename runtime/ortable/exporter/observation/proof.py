"""A graph against eager at other sizes than those it was made at: 0, 1, small primes, the maximum.
In come what runs the graph and what the calls said, out goes a `ProofReport` with one `Trial` a
size. Called by `observe.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch

from ortable.compat.torch import pytree
from ortable.compat.undone import undone
from ortable.errors import ExportError
from ortable.exporter.frontend.module_state import copy_call, restore_state
from ortable.exporter.observation.call_resizing import Call, elements, resized, sizes_of_call
from ortable.exporter.observation.calls import SeenCall
from ortable.exporter.observation.dim_inference import Seeing
from ortable.exporter.reporting.validate import difference, text_table
from ortable.interpreter.complex_numbers import real_tensor

Outcome = Literal["right", "differs", "fails", "refused", "undefined", "not tried"]

SMALL = (0, 1, 2, 3, 5, 7)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # for all dimensions at once
_MOST_ELEMENTS = 2**24  # of the arguments of a call at the largest sizes
_MOST_TOLD = 3  # differences in a message
_LONGEST = 100  # characters of what eager's error says, in a table; of others twice as many
HEADS = ("sizes", "outcome", "difference", "")


class Refused(Exception):
    """The graph says of a call that it is not made for it; the text is why."""


class Untried(Exception):
    """A call cannot be run; the text is why."""


class Runner(Protocol):
    """Runs a graph. Both raise Refused for a call that the graph is not made for, Untried for one
    that cannot be run, and anything else where the graph fails."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call."""

    def run_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call with empty tensors, on which kernels of ONNX Runtime end the
        process."""


@dataclass(frozen=True)
class Trial:
    """What came of one call.

    Attributes:
        sizes: in words: ``batch=3``, ``call 2``.
        outcome: ``"right"``: values, dtypes and shapes are eager's. ``"differs"``: they are not.
            ``"fails"``: the graph raises, and eager does not. ``"refused"``: the graph says that it
            is not made for the sizes. ``"undefined"``: eager itself raises. ``"not tried"``: no
            such call can be made.
        reason: what differs or fails; which condition refuses, and its line; what eager raises.
        largest: the largest absolute difference, None where there is none to take.
        empty: whether a tensor of the call has no elements.
        observed: whether the call is one of those that were observed.
    """

    sizes: str
    outcome: Outcome
    reason: str = ""
    largest: float | None = None
    empty: bool = False
    observed: bool = False

    def row(self) -> tuple[str, ...]:
        """The cells of a table with ``HEADS``."""
        gap = "" if self.largest is None else f"{self.largest:.3g}"
        words = "eager raises" if self.outcome == "undefined" else self.outcome
        most = _LONGEST if self.outcome == "undefined" else 2 * _LONGEST
        short = self.reason if len(self.reason) <= most else f"{self.reason[:most]}..."
        return self.sizes, words, gap, short


@dataclass(frozen=True, repr=False)
class ProofReport:
    """A graph against eager, size by size; true when it differs nowhere. It prints as a table.

    Attributes:
        trials: one for each call, those that were observed first.
    """

    trials: tuple[Trial, ...]

    @property
    def ok(self) -> bool:
        """Whether the graph takes the observed calls, and is right wherever it does not refuse and
        eager does not raise."""
        return not self.failures

    @property
    def failures(self) -> list[Trial]:
        """The trials that differ or fail, and observed calls that are refused."""
        return [
            each
            for each in self.trials
            if each.outcome in ("differs", "fails") or (each.outcome == "refused" and each.observed)
        ]

    def of(self, outcome: Outcome) -> list[Trial]:
        """The trials that ended in this way.

        Args:
            outcome: ``"right"``, ``"differs"``, ``"fails"``, ``"refused"``, ``"undefined"`` or
                ``"not tried"``.
        """
        return [each for each in self.trials if each.outcome == outcome]

    def check(self, *, empty: bool = True) -> ProofReport:
        """Itself; ExportError, with the sizes, when the graph differs from eager or fails.

        Args:
            empty: whether calls with empty tensors count.
        """
        wrong = [each for each in self.failures if empty or not each.empty]
        if not wrong:
            return self
        told = text_table(HEADS, [each.row() for each in wrong[:_MOST_TOLD]])
        left = len(wrong) - _MOST_TOLD
        more = f"\n... and {left} more, in error.details" if left > 0 else ""
        refused = all(each.outcome == "refused" for each in wrong)
        headline = "refuses an observed call" if refused else "is not what eager is"
        raise ExportError(f"the graph {headline}:\n{told}{more}", details=str(self)).advised(
            "Change the line that decides on the size, or observe the calls apart that it takes."
            if refused
            else "Models that draw random numbers cannot agree with eager.",
            "prove=False gives the graph as it is.",
        )

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return text_table(HEADS, [each.row() for each in self.trials])

    def __repr__(self) -> str:
        head = "right at every size that it takes" if self.ok else "differs from eager"
        return f"ProofReport: {head}\n{self}"


def proven(
    module: torch.nn.Module,
    runner: Runner,
    seen: Seeing,
    calls: Sequence[SeenCall],
    example: SeenCall,
    maximum: Mapping[str, int],
) -> ProofReport:
    """Run the graph and the module on the observed calls, then on calls of other sizes made of
    ``example``: of each dimension alone 0, 1, 2, 3, 5, 7 and its ``maximum``, where that has one,
    else the largest that was seen, and of all together. Where none of these serves a dimension,
    multiples of the greatest common divisor of what was seen are tried."""
    trials = [
        replace(_tried(f"call {number}", module, runner, call.copied()), observed=True)
        for number, call in enumerate(calls, 1)
        if call.kept
    ]
    base = sizes_of_call(seen, example)

    def at(changed: Mapping[str, int], note: str = "") -> Trial:
        words = ", ".join(f"{name}={size}" for name, size in changed.items()) + note
        sizes = {**base, **changed}
        count = elements(seen, example, sizes)
        if count > _MOST_ELEMENTS:
            return Trial(words, "not tried", f"its arguments have {count} elements")
        call = resized(module, seen, example, sizes)
        if call is None:
            return Trial(words, "not tried", "no call of these sizes follows from the observed one")
        return _tried(words, module, runner, call)

    for each in seen.free():
        name, step = each.name, math.gcd(*each.sizes)
        small = {size: at({name: size}) for size in SMALL}
        most = maximum.get(name, max(each.sizes))
        note = " (maximum)" if name in maximum else " (largest seen)"
        trials += [*small.values(), at({name: most}, note)]
        if step > 1 and not any(small[size].outcome == "right" for size in SMALL[2:]):
            more = [step * size for size in SMALL[1:]]
            trials += [at({name: size}) for size in more if size not in (*SMALL, most)]
    trials += map(at, _together(list(base), maximum))
    return ProofReport(tuple(trials))


def _together(names: Sequence[str], maximum: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """All dimensions at 1, and each at another prime."""
    if len(names) < 2:
        return
    cycle = [_PRIMES[index % len(_PRIMES)] for index in range(len(names))]
    for values in ([1] * len(names), cycle, cycle[::-1]):
        yield {n: min(v, maximum.get(n, v)) for n, v in zip(names, values, strict=True)}


def _tried(words: str, module: torch.nn.Module, runner: Runner, call: Call) -> Trial:
    empty = any(
        isinstance(leaf, torch.Tensor) and not leaf.numel() for leaf in pytree.tree_leaves(call)
    )
    args, kwargs = copy_call(*call)
    written = pytree.tree_leaves((args, kwargs))  # tensors: a cache gets others in their place
    try:
        with state_kept(module, (args, kwargs)), torch.no_grad():
            expected = module(*args, **kwargs)
    except Exception as error:  # the user's forward may raise anything
        return Trial(words, "undefined", _said(error), empty=empty)
    given, named = copy_call(*call)
    leaves = pytree.tree_leaves((given, named))
    run = runner.run_apart if empty else runner.run
    try:
        with state_kept(module, (given, named)), torch.no_grad():
            result = run(tuple(given), dict(named))
    except Refused as error:
        return Trial(words, "refused", str(error), empty=empty)
    except Untried as error:
        return Trial(words, "not tried", str(error), empty=empty)
    except Exception as error:  # onnxruntime's classes derive from Exception only
        return Trial(words, "fails", _said(error), empty=empty)
    gap, problem = _compared(result, expected)
    if not problem:
        _, problem = _compared(leaves, written)
        problem = problem and f"of what forward writes into its arguments, {problem}"
    return Trial(words, "differs" if problem else "right", problem, gap, empty)


def runs_in_eager(module: torch.nn.Module, call: Call) -> bool:
    """Whether the module takes a call."""
    args, kwargs = copy_call(*call)
    try:
        with state_kept(module, (args, kwargs)), torch.no_grad():
            module(*args, **kwargs)
    except Exception:  # the user's forward may raise anything
        return False
    return True


def _compared(result: Any, expected: Any) -> tuple[float | None, str]:
    """Largest difference of two nests of tensors, and what is wrong in words."""
    got, wanted = pytree.tree_leaves(result), pytree.tree_leaves(expected)
    if len(got) != len(wanted):
        return None, f"it returns {len(got)} values, eager {len(wanted)}"
    largest = 0.0
    for number, (value, other) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(other, torch.Tensor):
            if type(value) is not type(other) or value != other:
                return None, f"result {number} is {value!r:.40}, eager's {other!r:.40}"
            continue
        if not isinstance(value, torch.Tensor):
            return None, f"result {number} is {value!r:.40}, eager's a tensor"
        gap, problem = difference(_plain(value), _plain(other))
        if problem:
            return gap, f"result {number}: {problem}"
        largest = max(largest, gap or 0.0)
    return largest, ""


def _plain(value: torch.Tensor) -> torch.Tensor:
    return real_tensor(value.detach().cpu())


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


@contextmanager
def state_kept(module: torch.nn.Module, call: Any) -> Iterator[None]:
    """After the block, also one that raises, the module is as it was, what its buffers hold
    included."""
    buffers = [(each, each.detach().clone()) for each in module.buffers()]

    def undo() -> None:
        with torch.no_grad():
            for buffer, before in buffers:
                # not by their versions: batch_norm writes its statistics and counts nothing
                if not torch.equal(buffer, before):
                    buffer.copy_(before)

    with undone(undo), restore_state(module, call):
        yield
