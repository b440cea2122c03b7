"""Measure a graph with several candidates, such as ONNX Runtime and torch, in its first calls.

Each call runs a single candidate once, so that writes to arguments, random numbers and assertions
are the same as without measuring. Calls whose dynamic sizes are between the same powers of two form
a class; the faster candidate of a class is kept for the lifetime of the graph.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.torch import pytree

from .decisions import Decisions
from .trial import Candidate, Decision, TimingTrial

_log = logging.getLogger(__name__)
Run = Callable[..., Any]
SizeSource = tuple[int, int | None]  # argument position, and dimension; None for an int

_MAX_CLASSES = 64  # per graph; calls of further classes use the default
_MAX_IDLE_CALLS = 8  # consecutive calls without a backward


@dataclass(frozen=True)
class MeasuredCall:
    """A measured call: the class of its sizes, its trial, when it began and how long it took."""

    size_class: tuple[int, ...]
    trial: TimingTrial
    began: float
    seconds: float


class Autotuner:
    """A graph with several candidates; `run` takes its arguments.

    `label` names the graph. `decisions` maps classes of sizes to decisions; the only class of a
    graph without dynamic sizes is `()`.

    Args:
        run: the callable of the default candidate.
        make_others: for each other candidate, creates its callable; called on first use.
        decisions: the stored decisions of earlier runs.
        default: the candidate that is kept in close cases.
        sizes: where the dynamic sizes are among the arguments.
        boxed: whether the arguments are passed as one list.
        inner: returns the autotuners of parts of the graph, which are measured first.
        settle: uncounted seconds at the start of a turn of a candidate, see `TimingTrial`.
        label: the name of the graph.
    """

    def __init__(
        self,
        run: Run,
        make_others: Mapping[Candidate, Callable[[], Run]],
        decisions: Decisions,
        *,
        default: Candidate = "onnxruntime",
        sizes: Sequence[SizeSource] = (),
        boxed: bool = False,
        inner: Callable[[], Iterable[Autotuner]] = tuple,
        settle: float = 0.0,
        label: str = "a graph",
    ) -> None:
        self.label = label
        self.decisions: dict[tuple[int, ...], Decision] = {}
        self._candidates: tuple[Candidate, ...] = (default, *make_others)
        self._make_others = dict(make_others)
        self._made: dict[Candidate, Run] = {default: run}
        self._stored_decisions = decisions
        self._sizes = tuple(sizes)
        self._boxed = boxed
        self._list_parts = inner
        self._settle = settle
        self._lock = threading.Lock()
        self._disturbed = False
        self._trials: dict[tuple[int, ...], TimingTrial] = {}
        self._runs: dict[tuple[int, ...], Run] = {}
        self._caller: Any = None
        self.run: Run = self._run_by_sizes if sizes else self._run_measured

    def __repr__(self) -> str:
        return f"Autotuner({self})"

    def __str__(self) -> str:
        if not self.decisions:
            return f"{self.label}: measured in its next calls"
        texts = [
            f"sizes of class {'x'.join(map(str, size_class))}: {decision}"
            if size_class
            else str(decision)
            for size_class, decision in self.decisions.items()
        ]
        return f"{self.label}: {'; '.join(texts)}"

    @property
    def kept(self) -> Candidate | None:
        """The candidate that runs every call; None before the decision, or if sizes are dynamic."""
        decision = None if self._sizes else self.decisions.get(())
        return None if decision is None else decision.kept

    @property
    def ort_run(self) -> Run | None:
        """The callable that runs the graph with ONNX Runtime; None if another one is kept."""
        return self._made.get("onnxruntime")

    @property
    def is_open(self) -> bool:
        """Whether more calls are needed for a decision."""
        return not self.decisions or bool(self._trials)

    def make_caller(self) -> Run:
        """Return a callable that always calls the current `run`, without a Python frame in between.

        A frame costs as much as a small torch operator.
        """
        self._caller = functools.partial(self.run)
        return self._caller

    def _run_measured(self, *args: Any) -> Any:
        return self._measure_call((), args)

    def _run_by_sizes(self, *call_args: Any) -> Any:
        """Run a call of a graph with dynamic sizes."""
        args = call_args[0] if self._boxed else call_args
        size_class = tuple(
            (args[position] if axis is None else args[position].shape[axis]).bit_length()
            for position, axis in self._sizes
        )
        run = self._runs.get(size_class)
        return run(*call_args) if run is not None else self._measure_call(size_class, call_args)

    def _measure_call(self, size_class: tuple[int, ...], args: Sequence[Any]) -> Any:
        """Run a call of a class of sizes that has no decision yet."""
        if not self._lock.acquire(blocking=False):
            self._disturbed = True  # this call slows down the call that another thread measures
            return self._get_unmeasured_run(size_class)(*args)
        try:
            self._finish_previous_call()
            run = self._runs.get(size_class)
            trial = self._find_trial(size_class) if run is None else None
            if trial is None:
                return self._get_unmeasured_run(size_class)(*args)
            run = self._get_candidate(trial.turn)
            self._disturbed = False
            begin = time.perf_counter()
            result = run(*args)
            call = MeasuredCall(size_class, trial, begin, time.perf_counter() - begin)
            self._handle_measured_call(call, args, result)
            return result
        finally:
            self._lock.release()

    def _finish_previous_call(self) -> None:
        """Finish the measurement of the previous call; here `_handle_measured_call` does it."""

    def _handle_measured_call(
        self, call: MeasuredCall, call_args: Sequence[Any], result: Any
    ) -> None:
        self._record_call(call, call.seconds, "calls")

    def _record_call(self, call: MeasuredCall, seconds: float, noun: str) -> None:
        """Record a measured call, unless a concurrent call disturbed it."""
        if not self._disturbed:
            trial = call.trial
            trial.record_call(call.began, seconds)
            if trial.decision is not None:
                self._apply_decision(
                    call.size_class, trial.decision, f"measured in {trial.calls} {noun}"
                )

    def _get_candidate(self, name: Candidate) -> Run:
        """Return the callable of a candidate, which is created on first use."""
        if name not in self._made:
            self._made[name] = self._make_others[name]()
        return self._made[name]

    def _get_unmeasured_run(self, size_class: tuple[int, ...]) -> Run:
        return self._runs.get(size_class) or next(iter(self._made.values()))

    def _find_trial(self, size_class: tuple[int, ...]) -> TimingTrial | None:
        """Return the trial of a class of sizes; None if the call is not measured."""
        if any(part.is_open for part in self._list_parts()):
            return None
        trial = self._trials.get(size_class)
        if trial is None and len(self._trials) + len(self._runs) < _MAX_CLASSES:
            stored = self._stored_decisions.find_decision(size_class)
            if stored is not None:
                self._apply_decision(size_class, stored, "measured before")
                return None
            trial = self._trials[size_class] = TimingTrial(self._settle, self._candidates)
        return trial

    def _apply_decision(self, size_class: tuple[int, ...], decision: Decision, origin: str) -> None:
        run = self._get_candidate(decision.kept)
        self.decisions[size_class] = decision
        self._runs[size_class] = run
        self._trials.pop(size_class, None)
        if origin != "measured before":
            self._stored_decisions.store_decision(size_class, decision)
        size_text = f" for sizes of class {'x'.join(map(str, size_class))}" if size_class else ""
        _log.info("autotune: %s%s: %s (%s)", self.label, size_text, decision, origin)
        if not self._sizes:
            self._set_run(run)
            # release the other candidates, with their sessions and graphs
            self._made, self._make_others = {decision.kept: run}, {}
            self._list_parts = tuple  # drop the closure, which refers to the parts

    def _set_run(self, run: Run) -> None:
        self.run = run
        if self._caller is not None:
            self._caller.__setstate__((run, (), {}, None))


class StepAutotuner(Autotuner):
    """A dynamo graph that trains, measured as a training step and compared with eager.

    The graphs that AOTAutograd derives from the dynamo graph are measured first. There, torch runs
    the decomposed operators; eager runs the original operators.

    A candidate's time is that of the call, plus the time from the first gradient of a result to the
    last gradient of an argument; the next call records the sum. A call does not count if no
    backward runs before the next call; after several such calls in a row the default is kept.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._step: _TimedStep | None = None  # the call whose backward is pending
        self._idle_calls = 0  # consecutive calls without a backward

    def __str__(self) -> str:
        if self._idle_calls > _MAX_IDLE_CALLS:
            return f"{self.label}: not measured, its calls have no backward of their own"
        return super().__str__()

    @property
    def is_open(self) -> bool:
        """Whether more calls are needed for a decision; False if no backward runs."""
        return self._idle_calls <= _MAX_IDLE_CALLS and super().is_open

    def _find_trial(self, size_class: tuple[int, ...]) -> TimingTrial | None:
        trial = super()._find_trial(size_class)
        if trial is not None and self._idle_calls > _MAX_IDLE_CALLS:
            self._set_run(self._made[self._candidates[0]])
            return None
        return trial

    def _handle_measured_call(
        self, call: MeasuredCall, call_args: Sequence[Any], result: Any
    ) -> None:
        self._step = _TimedStep(call)
        self._step.add_hooks(call_args, result)

    def _finish_previous_call(self) -> None:
        """Record the previous step if its backward ran."""
        step, self._step = self._step, None
        if step is not None:
            seconds = step.finish()
            self._idle_calls = 0 if seconds is not None else self._idle_calls + 1
            if seconds is not None:
                self._record_call(step.call, seconds, "steps")


class _TimedStep:
    """One call and its backward."""

    def __init__(self, call: MeasuredCall) -> None:
        self.call = call
        self._first_gradient_time: float | None = None  # time of the first gradient of a result
        self._last_gradient_time: float | None = None  # time of the latest gradient of an argument
        self._handles: list[Any] = []

    def add_hooks(self, args: Sequence[Any], result: Any) -> None:
        """Time the gradients of the arguments and results of a call."""
        step_reference = weakref.ref(self)  # the hooks must not keep the step alive
        for values, method in (
            (pytree.tree_leaves(result), _TimedStep._note_first_gradient),
            (args, _TimedStep._note_last_gradient),
        ):
            for tensor in values:
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                    self._handles.append(
                        tensor.register_hook(
                            functools.partial(_call_if_alive, step_reference, method)
                        )
                    )

    def finish(self) -> float | None:
        """Remove the hooks; return the seconds of forward and backward, None without a backward."""
        for handle in self._handles:
            handle.remove()
        if self._first_gradient_time is None or self._last_gradient_time is None:
            return None
        return self.call.seconds + self._last_gradient_time - self._first_gradient_time

    def _note_first_gradient(self) -> None:
        if self._first_gradient_time is None:
            self._first_gradient_time = time.perf_counter()

    def _note_last_gradient(self) -> None:
        self._last_gradient_time = time.perf_counter()


def _call_if_alive(step_reference: weakref.ref[_TimedStep], method: Any, _: Any) -> None:
    step = step_reference()
    if step is not None:
        method(step)
