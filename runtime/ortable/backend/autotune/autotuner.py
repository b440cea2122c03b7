"""Measure a graph with both candidates in its first calls.

Each call runs one candidate, once, so that writes to arguments, random numbers and assertions
are the same as without measuring. The winner for sizes of one class, from a power of two up to
the next, stays for the lifetime of the graph.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.torch import pytree

from .decisions import Decisions
from .trial import Candidate, Decision, TimingTrial

_log = logging.getLogger(__name__)
Run = Callable[..., Any]
SizeSource = tuple[int, int | None]  # an argument, and which of its dimensions; None: an int

_MAX_CLASSES = 64  # of sizes of one graph: those beyond run with ONNX Runtime
_MAX_IDLE_CALLS = 8  # calls in a row whose backward never came


@dataclass(frozen=True)
class MeasuredCall:
    """A measured call: the class of its sizes, its trial, when it began and how long it took."""

    sizes: tuple[int, ...]
    trial: TimingTrial
    began: float
    seconds: float


class Autotuner:
    """One graph with two candidates; `run` takes their arguments.

    `label` names the graph; `kept` is the candidate that runs it now: None while it is measured, or
    where the sizes decide; `decisions` maps classes of sizes to decisions (`()` if none is
    dynamic).

    Args:
        ort_run: runs the graph with ONNX Runtime.
        make_torch_run: makes what runs it with torch, when that is first needed.
        decisions: earlier ones.
        sizes: where the dynamic sizes are among the arguments.
        boxed: the arguments come as one list.
        inner: returns the parts of the graph, which are measured first.
        settle: see `TimingTrial`.
    """

    def __init__(
        self,
        ort_run: Run,
        make_torch_run: Callable[[], Run],
        decisions: Decisions,
        *,
        sizes: Sequence[SizeSource] = (),
        boxed: bool = False,
        inner: Callable[[], Iterable[Autotuner]] = tuple,
        settle: float = 0.0,
        label: str = "a graph",
    ) -> None:
        self.label = label
        self.decisions: dict[tuple[int, ...], Decision] = {}
        self._ort_run: Run | None = ort_run
        self._make_torch_run: Callable[[], Run] | None = make_torch_run
        self._torch_run: Run | None = None
        self._stored = decisions
        self._sizes = tuple(sizes)
        self._boxed = boxed
        self._inner = inner
        self._settle = settle
        self._lock = threading.Lock()
        self._disturbed = False
        self._trials: dict[tuple[int, ...], TimingTrial] = {}
        self._runs: dict[tuple[int, ...], Run] = {}
        self._caller: Any = None
        self.run: Run = self._run_class if sizes else self._run_measured

    def __repr__(self) -> str:
        return f"Autotuner({self})"

    def __str__(self) -> str:
        if not self.decisions:
            return f"{self.label}: measured in its next calls"
        texts = [
            f"sizes of class {'x'.join(map(str, sizes))}: {decision}" if sizes else str(decision)
            for sizes, decision in self.decisions.items()
        ]
        return f"{self.label}: {'; '.join(texts)}"

    @property
    def kept(self) -> Candidate | None:
        decision = None if self._sizes else self.decisions.get(())
        return None if decision is None else decision.kept

    @property
    def ort_run(self) -> Run | None:
        """What runs it with ONNX Runtime; None when torch is kept."""
        return self._ort_run

    @property
    def is_open(self) -> bool:
        """Whether more calls are needed for a decision."""
        return not self.decisions or bool(self._trials)

    def make_caller(self) -> Run:
        """Return a callable that calls `run`, also when that changes, without a Python frame in
        between.

        A frame costs as much as a small operator of torch.
        """
        self._caller = functools.partial(self.run)
        return self._caller

    def _run_measured(self, *args: Any) -> Any:
        return self._measure_call((), args)

    def _run_class(self, *given: Any) -> Any:
        """Run a call of a graph with dynamic sizes."""
        args = given[0] if self._boxed else given
        sizes = tuple(
            (args[at] if axis is None else args[at].shape[axis]).bit_length()
            for at, axis in self._sizes
        )
        run = self._runs.get(sizes)
        return run(*given) if run is not None else self._measure_call(sizes, given)

    def _measure_call(self, sizes: tuple[int, ...], args: Sequence[Any]) -> Any:
        """Run a call of a class of sizes without a decision."""
        if not self._lock.acquire(blocking=False):
            self._disturbed = True  # the call that has the lock competes with this one
            return self._choose_run(sizes)(*args)
        try:
            self._end_call()
            run = self._runs.get(sizes)
            trial = self._find_trial(sizes) if run is None else None
            if trial is None:
                return self._choose_run(sizes)(*args)
            run = self._get_candidate(trial.turn)
            self._disturbed = False
            begin = time.perf_counter()
            result = run(*args)
            call = MeasuredCall(sizes, trial, begin, time.perf_counter() - begin)
            self._begin_call(call, args, result)
            return result
        finally:
            self._lock.release()

    def _end_call(self) -> None:
        """Finish the previous call, before the next one."""

    def _begin_call(self, call: MeasuredCall, given: Sequence[Any], result: Any) -> None:
        """Record a call that was measured."""
        self._record_call(call, call.seconds, "calls")

    def _record_call(self, call: MeasuredCall, seconds: float, what: str) -> None:
        """Record a call, unless another one competed with it."""
        if not self._disturbed:
            trial = call.trial
            trial.record_call(call.began, seconds)
            if trial.decision is not None:
                self._apply_decision(
                    call.sizes, trial.decision, f"measured in {trial.calls} {what}"
                )

    def _get_candidate(self, name: Candidate) -> Run:
        """Return what runs the graph; both exist while any trial is open."""
        if name == "torch" and self._torch_run is None:
            assert self._make_torch_run is not None
            self._torch_run = self._make_torch_run()
        run = self._torch_run if name == "torch" else self._ort_run
        assert run is not None
        return run

    def _choose_run(self, sizes: tuple[int, ...]) -> Run:
        """Return what runs a call that is not measured."""
        run = self._runs.get(sizes) or self._ort_run or self._torch_run
        assert run is not None
        return run

    def _find_trial(self, sizes: tuple[int, ...]) -> TimingTrial | None:
        """Return the trial of a class; None where nothing is to be measured now."""
        if any(part.is_open for part in self._inner()):
            return None
        trial = self._trials.get(sizes)
        if trial is None and len(self._trials) + len(self._runs) < _MAX_CLASSES:
            stored = self._stored.find_decision(sizes)
            if stored is not None:
                self._apply_decision(sizes, stored, "measured before")
                return None
            trial = self._trials[sizes] = TimingTrial(self._settle)
        return trial

    def _apply_decision(self, sizes: tuple[int, ...], decision: Decision, how: str) -> None:
        run = self._get_candidate(decision.kept)
        self.decisions[sizes] = decision
        self._runs[sizes] = run
        self._trials.pop(sizes, None)
        if how != "measured before":
            self._stored.store_decision(sizes, decision)
        where = f" for sizes of class {'x'.join(map(str, sizes))}" if sizes else ""
        _log.info("autotune: %s%s: %s (%s)", self.label, where, decision, how)
        if not self._sizes:
            self._run_from_now(run)
            # the other one may go, with its session or its graph
            self._ort_run, self._torch_run = (
                (None, run) if decision.kept == "torch" else (run, None)
            )
            self._make_torch_run = None
            self._inner = tuple  # and what tells the parts, which are parts of it

    def _run_from_now(self, run: Run) -> None:
        self.run = run
        if self._caller is not None:
            self._caller.__setstate__((run, (), {}, None))


class StepAutotuner(Autotuner):
    """A graph of dynamo that trains, measured as a step, which must not be slower than eager's.

    The graphs that AOTAutograd makes of it are measured first, against their own operators; those
    are decomposed, and eager's are not.

    Candidates are timed from the call to its return, and from the first gradient that arrives to
    the last one that leaves; the next call records it. A call without a backward does not count,
    nor does one that another call follows before its backward; after some of them ONNX Runtime is
    kept.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._step: _TimedStep | None = None  # the call whose backward is awaited
        self._idle = 0  # calls since a backward came

    def __str__(self) -> str:
        if self._idle > _MAX_IDLE_CALLS:
            return f"{self.label}: not measured, its calls have no backward of their own"
        return super().__str__()

    @property
    def is_open(self) -> bool:
        return self._idle <= _MAX_IDLE_CALLS and super().is_open

    def _find_trial(self, sizes: tuple[int, ...]) -> TimingTrial | None:
        trial = super()._find_trial(sizes)
        if trial is not None and self._idle > _MAX_IDLE_CALLS and self._ort_run is not None:
            self._run_from_now(self._ort_run)
            return None
        return trial

    def _begin_call(self, call: MeasuredCall, given: Sequence[Any], result: Any) -> None:
        self._step = _TimedStep(call)
        self._step.add_hooks(given, result)

    def _end_call(self) -> None:
        """Record the previous step, whose backward is over if there was one."""
        step, self._step = self._step, None
        if step is not None:
            seconds = step.finish()
            self._idle = 0 if seconds is not None else self._idle + 1
            if seconds is not None:
                self._record_call(step.call, seconds, "steps")


class _TimedStep:
    """One call and its backward."""

    def __init__(self, call: MeasuredCall) -> None:
        self.call = call
        self._first: float | None = None  # gradient of a result
        self._last: float | None = None  # gradient of an argument
        self._handles: list[Any] = []

    def add_hooks(self, args: Sequence[Any], result: Any) -> None:
        """Time the gradients of the arguments and results of a call."""
        this = weakref.ref(self)  # the hooks go when the step does
        for values, method in (
            (pytree.tree_leaves(result), _TimedStep._note_first_gradient),
            (args, _TimedStep._note_last_gradient),
        ):
            for tensor in values:
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                    self._handles.append(
                        tensor.register_hook(functools.partial(_call_if_alive, this, method))
                    )

    def finish(self) -> float | None:
        """Return the seconds of both passes; None without a backward."""
        for handle in self._handles:
            handle.remove()
        if self._first is None or self._last is None:
            return None
        return self.call.seconds + self._last - self._first

    def _note_first_gradient(self) -> None:
        if self._first is None:
            self._first = time.perf_counter()

    def _note_last_gradient(self) -> None:
        self._last = time.perf_counter()


def _call_if_alive(this: weakref.ref[_TimedStep], method: Any, _: Any) -> None:
    step = this()
    if step is not None:
        method(step)
