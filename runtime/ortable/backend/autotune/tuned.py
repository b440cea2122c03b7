"""A graph that is measured in its first calls.

A call runs one of the two, once: nothing is computed twice, so that writes into arguments,
random numbers and assertions are what they are without it. What is kept for sizes of one class,
from a power of two up to the next, is kept for as long as the graph lives."""

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
from .trial import Candidate, Decision, Trial

_log = logging.getLogger(__name__)
Run = Callable[..., Any]
SizeSource = tuple[int, int | None]  # an argument, and which of its dimensions; None: an int

_MOST_CLASSES = 64  # of sizes of one graph: those beyond run with ONNX Runtime
_MOST_IDLE = 8  # calls in a row whose backward never came


@dataclass(frozen=True)
class MeasuredCall:
    """A measured call: the class of its sizes, what is told, when it began, how long it took."""

    sizes: tuple[int, ...]
    trial: Trial
    began: float
    seconds: float


class Tuned:
    """One graph with two candidates; `run` takes the arguments that they take.

    `label` says which graph it is; `kept` what runs it now: None while it is measured, or where the
    sizes decide; `decisions` what was decided, by the class of the sizes (`()` where none differs).

    :param ours: runs the graph with ONNX Runtime
    :param make_torchs: makes what runs it with torch, when that is first asked for
    :param decisions: those taken before
    :param sizes: where the sizes are found that differ between calls
    :param boxed: the arguments come as one list
    :param inner: tells the parts of the graph, which are measured first
    :param settle: see `Trial`
    """

    def __init__(
        self,
        ours: Run,
        make_torchs: Callable[[], Run],
        decisions: Decisions,
        *,
        sizes: Sequence[SizeSource] = (),
        boxed: bool = False,
        inner: Callable[[], Iterable[Tuned]] = tuple,
        settle: float = 0.0,
        label: str = "a graph",
    ) -> None:
        self.label = label
        self.decisions: dict[tuple[int, ...], Decision] = {}
        self._ours: Run | None = ours
        self._make_torchs: Callable[[], Run] | None = make_torchs
        self._torchs: Run | None = None
        self._taken = decisions
        self._sizes = tuple(sizes)
        self._boxed = boxed
        self._inner = inner
        self._settle = settle
        self._lock = threading.Lock()
        self._disturbed = False
        self._trials: dict[tuple[int, ...], Trial] = {}
        self._runs: dict[tuple[int, ...], Run] = {}
        self._caller: Any = None
        self.run: Run = self._run_class if sizes else self._run_measured

    def __repr__(self) -> str:
        return f"Tuned({self})"

    def __str__(self) -> str:
        if not self.decisions:
            return f"{self.label}: measured in its next calls"
        told = [
            f"sizes of class {'x'.join(map(str, sizes))}: {decision}" if sizes else str(decision)
            for sizes, decision in self.decisions.items()
        ]
        return f"{self.label}: {'; '.join(told)}"

    @property
    def kept(self) -> Candidate | None:
        decision = None if self._sizes else self.decisions.get(())
        return None if decision is None else decision.kept

    @property
    def ours(self) -> Run | None:
        """What runs it with ONNX Runtime; None when torch is kept."""
        return self._ours

    @property
    def is_open(self) -> bool:
        """Whether the calls so far were not enough."""
        return not self.decisions or bool(self._trials)

    def caller(self) -> Run:
        """What calls `run`, also when that changes, without a frame of Python in between, which
        costs as much as a small operator of torch."""
        self._caller = functools.partial(self.run)
        return self._caller

    def _run_measured(self, *given: Any) -> Any:
        return self._measured((), given)

    def _run_class(self, *given: Any) -> Any:
        """A call of a graph that serves several sizes."""
        args = given[0] if self._boxed else given
        sizes = tuple(
            (args[at] if axis is None else args[at].shape[axis]).bit_length()
            for at, axis in self._sizes
        )
        run = self._runs.get(sizes)
        return run(*given) if run is not None else self._measured(sizes, given)

    def _measured(self, sizes: tuple[int, ...], given: Sequence[Any]) -> Any:
        """A call of a class of which nothing is known, or not enough."""
        if not self._lock.acquire(blocking=False):
            self._disturbed = True  # the call that has the lock competes with this one
            return self._any(sizes)(*given)
        try:
            self._end_call()
            run = self._runs.get(sizes)
            trial = self._trial(sizes) if run is None else None
            if trial is None:
                return self._any(sizes)(*given)
            run = self._candidate(trial.turn)
            self._disturbed = False
            begin = time.perf_counter()
            result = run(*given)
            call = MeasuredCall(sizes, trial, begin, time.perf_counter() - begin)
            self._begin_call(call, given, result)
            return result
        finally:
            self._lock.release()

    def _end_call(self) -> None:
        """Before a call: the one before it is over."""

    def _begin_call(self, call: MeasuredCall, given: Sequence[Any], result: Any) -> None:
        """After a call that was measured."""
        self._note(call, call.seconds, "calls")

    def _note(self, call: MeasuredCall, seconds: float, what: str) -> None:
        """Counts a call, unless another one competed with it."""
        if not self._disturbed:
            trial = call.trial
            trial.note(call.began, seconds)
            if trial.decision is not None:
                self._keep(call.sizes, trial.decision, f"measured in {trial.calls} {what}")

    def _candidate(self, name: Candidate) -> Run:
        """What runs the graph; both are there while anything is open."""
        if name == "torch" and self._torchs is None:
            assert self._make_torchs is not None
            self._torchs = self._make_torchs()
        run = self._torchs if name == "torch" else self._ours
        assert run is not None
        return run

    def _any(self, sizes: tuple[int, ...]) -> Run:
        """What runs a call that is not measured."""
        run = self._runs.get(sizes) or self._ours or self._torchs
        assert run is not None
        return run

    def _trial(self, sizes: tuple[int, ...]) -> Trial | None:
        """The trial of a class; None where nothing is to be measured now."""
        if any(each.is_open for each in self._inner()):
            return None
        trial = self._trials.get(sizes)
        if trial is None and len(self._trials) + len(self._runs) < _MOST_CLASSES:
            found = self._taken.find(sizes)
            if found is not None:
                self._keep(sizes, found, "measured before")
                return None
            trial = self._trials[sizes] = Trial(self._settle)
        return trial

    def _keep(self, sizes: tuple[int, ...], decision: Decision, how: str) -> None:
        run = self._candidate(decision.kept)
        self.decisions[sizes] = decision
        self._runs[sizes] = run
        self._trials.pop(sizes, None)
        if how != "measured before":
            self._taken.keep(sizes, decision)
        where = f" for sizes of class {'x'.join(map(str, sizes))}" if sizes else ""
        _log.info("autotune: %s%s: %s (%s)", self.label, where, decision, how)
        if not self._sizes:
            self._run_from_now(run)
            # the other one may go, with its session or its graph
            self._ours, self._torchs = (None, run) if decision.kept == "torch" else (run, None)
            self._make_torchs = None
            self._inner = tuple  # and what tells the parts, which are parts of it

    def _run_from_now(self, run: Run) -> None:
        self.run = run
        if self._caller is not None:
            self._caller.__setstate__((run, (), {}, None))


class TunedStep(Tuned):
    """A graph of dynamo that trains, measured whole: eager's step is what nobody should be slower
    than. The graphs that AOTAutograd cuts it into are measured first, against their own operators;
    those are decomposed, and eager's are not.

    Candidates are timed from the call to its return, and from the first gradient that comes back to
    the last one that goes on; the next call notes it.  A call without a backward tells nothing, nor
    does one that another call follows before its backward; after some of them ONNX Runtime is kept.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._step: _Step | None = None  # the call whose backward is awaited
        self._idle = 0  # calls since a backward came

    def __str__(self) -> str:
        if self._idle > _MOST_IDLE:
            return f"{self.label}: not measured, its calls have no backward of their own"
        return super().__str__()

    @property
    def is_open(self) -> bool:
        return self._idle <= _MOST_IDLE and super().is_open

    def _trial(self, sizes: tuple[int, ...]) -> Trial | None:
        trial = super()._trial(sizes)
        if trial is not None and self._idle > _MOST_IDLE and self._ours is not None:
            self._run_from_now(self._ours)
            return None
        return trial

    def _begin_call(self, call: MeasuredCall, given: Sequence[Any], result: Any) -> None:
        self._step = _Step(call)
        self._step.watch(given, result)

    def _end_call(self) -> None:
        """Notes the step before this one, whose backward is over if there was one."""
        step, self._step = self._step, None
        if step is not None:
            seconds = step.end()
            self._idle = 0 if seconds is not None else self._idle + 1
            if seconds is not None:
                self._note(step.call, seconds, "steps")


class _Step:
    """One call and its backward."""

    def __init__(self, call: MeasuredCall) -> None:
        self.call = call
        self._first: float | None = None  # gradient of a result
        self._last: float | None = None  # gradient of an argument
        self._handles: list[Any] = []

    def watch(self, args: Sequence[Any], result: Any) -> None:
        """Looks at the gradients of what the call took and returned."""
        this = weakref.ref(self)  # the hooks go when the step does
        for watched, method in ((pytree.tree_leaves(result), _Step._begins), (args, _Step._ends)):
            for each in watched:
                if isinstance(each, torch.Tensor) and each.requires_grad:
                    self._handles.append(each.register_hook(functools.partial(_call, this, method)))

    def end(self) -> float | None:
        """The seconds of both; None without a backward."""
        for handle in self._handles:
            handle.remove()
        if self._first is None or self._last is None:
            return None
        return self.call.seconds + self._last - self._first

    def _begins(self) -> None:
        if self._first is None:
            self._first = time.perf_counter()

    def _ends(self) -> None:
        self._last = time.perf_counter()


def _call(this: weakref.ref[_Step], method: Any, _: Any) -> None:
    step = this()
    if step is not None:
        method(step)
