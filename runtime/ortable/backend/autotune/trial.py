"""Choose the candidate for the next call, and decide when one candidate is clearly faster.

Each call runs one candidate, so that no side effect is repeated. The candidates take turns of
several calls. For some 20 ms after a turn, threads of its candidate spin on the processors that the
next candidate needs. Calls during that time, and the first call of a turn, do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ortable.backend.timing import SETTLE

Candidate = Literal["onnxruntime", "torch"]

_WARMUP_CALLS = 2  # uncounted first calls: creating the session, growing its memory
# After 1, 2, 3 and 4 turns of each candidate: the ratio of their times that decides.
_MARGINS = (1.25, 1.1, 1.05, 1.0)
_MAX_TORCH_RATIO = 0.97  # torch is kept only below this fraction of ONNX Runtime's time
_OBVIOUS_RATIO = 1.5  # one long torch call of this multiple of ONNX Runtime's time ends the turn
_LONG_CALL = 5e-3  # seconds; a short interruption changes a call of this length only slightly
_MIN_TURNS = 2  # turns of each before torch may be kept: a single turn may be disturbed


@dataclass(frozen=True)
class Decision:
    """The candidate that is kept, and the seconds per call of both."""

    kept: Candidate
    onnxruntime: float
    torch: float

    def __str__(self) -> str:
        times = {"ONNX Runtime": self.onnxruntime, "torch": self.torch}
        winner, loser = times if self.kept == "onnxruntime" else tuple(times)[::-1]
        fast, slow = _format_seconds(times[winner]), _format_seconds(times[loser])
        return f"{winner} is kept: {fast} a call, {slow} in {loser}"


def _format_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


class TimingTrial:
    """The calls of one graph, for one class of sizes, until one candidate is kept.

    `turn` is the candidate for the next call; `decision` is None until the trial ends.

    Args:
        settle: uncounted seconds at the start of a turn; 0 if no candidate has spinning threads.
    """

    def __init__(self, settle: float = SETTLE) -> None:
        self.turn: Candidate = "onnxruntime"
        self.decision: Decision | None = None
        self.calls = 0
        self._settle = settle
        self._turn_start: float | None = None  # start of the turn
        self._timings: list[float] = []  # seconds of the counted calls in this turn
        self._turn_medians: dict[Candidate, list[float]] = {"onnxruntime": [], "torch": []}

    def record_call(self, start: float, seconds: float) -> None:
        """Record a call of the current candidate: its start and its duration."""
        self.calls += 1
        if self.calls <= _WARMUP_CALLS:
            return
        if self._turn_start is None:
            self._turn_start = start  # the first call of a turn does not count
        elif start - self._turn_start >= self._settle:
            self._timings.append(seconds)
            if self._is_obvious(seconds) or len(self._timings) >= _calls_per_turn(self._timings):
                self._end_turn()

    def _is_obvious(self, seconds: float) -> bool:
        """Whether a call in torch's first turn is so slow that further calls are unnecessary.

        This never applies to ONNX Runtime: torch is kept only after `_MIN_TURNS` full turns.
        """
        ort_medians = self._turn_medians["onnxruntime"]
        if self.turn != "torch" or self._turn_medians["torch"] or seconds < _LONG_CALL:
            return False
        return seconds > _OBVIOUS_RATIO * min(ort_medians)

    def _end_turn(self) -> None:
        # the lower median: some calls are interrupted, and every second call may wait for threads
        self._turn_medians[self.turn].append(sorted(self._timings)[(len(self._timings) - 1) // 2])
        self._timings, self._turn_start = [], None
        if self.turn == "onnxruntime":
            self.turn = "torch"
            return
        self.turn = "onnxruntime"
        self.decision = self._decide()

    def _decide(self) -> Decision | None:
        """Return the decision after a turn of each candidate, or None if it is not clear yet."""
        ort_medians, torch_medians = self._turn_medians["onnxruntime"], self._turn_medians["torch"]
        turns = len(torch_medians)
        ort_best, torch_best = min(ort_medians), min(torch_medians)
        margin = _MARGINS[turns - 1]
        ratio = torch_best / ort_best
        if ratio > margin:
            return Decision("onnxruntime", ort_best, torch_best)
        wins = sum(torch < ort for ort, torch in zip(ort_medians, torch_medians, strict=True))
        is_clear = ratio < min(1 / margin, _MAX_TORCH_RATIO) and 2 * wins > turns
        if is_clear and turns >= _MIN_TURNS:
            return Decision("torch", ort_best, torch_best)
        if turns == len(_MARGINS):
            return Decision("onnxruntime", ort_best, torch_best)
        return None


def _calls_per_turn(seconds: list[float]) -> int:
    """Return the number of counted calls per turn: fewer for long calls, which vary less."""
    shortest = min(seconds)
    return 2 if shortest > _LONG_CALL else 5 if shortest > 5e-4 else 25
