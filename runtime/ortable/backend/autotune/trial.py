"""Choose which of two candidates runs the next call, and decide when one is clearly faster.

Each call runs one candidate, so that nothing happens twice, and the two take turns in blocks:
threads of the one that ran before spin for some 20 ms, on the processors that the other one
needs. Measurements during that time, and the first call of a block, do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ortable.backend.timing import SETTLE

Candidate = Literal["onnxruntime", "torch"]

_WARM = 2  # calls of ONNX Runtime in front: the session is made, then memory grows
# how much faster one must be after 1, 2, 3, and 4 turns of both to be kept at once
_MARGINS = (1.25, 1.1, 1.05, 1.0)
_CLEARLY = 0.97  # and torch at the end, at most this much of ONNX Runtime's time
_OBVIOUS = 1.5  # of ONNX Runtime's time: one long call of torch that took as much decides
_LONG = 5e-3  # seconds of a long call, which a short interruption does not change much
_MIN_TURNS = 2  # of torch before it may be kept: one turn may fall into a bad moment


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

    `turn` is the candidate for the next call; `decision` is None as long as the trial is open.

    Args:
        settle: seconds after a turn that do not count; 0 where no candidate has waiting threads.
    """

    def __init__(self, settle: float = SETTLE) -> None:
        self.turn: Candidate = "onnxruntime"
        self.decision: Decision | None = None
        self.calls = 0
        self._settle = settle
        self._began: float | None = None  # when the turn began
        self._counted: list[float] = []  # in this turn
        self._lows: dict[Candidate, list[float]] = {"onnxruntime": [], "torch": []}

    def record_call(self, began: float, seconds: float) -> None:
        """Record a call of the current candidate, which began at `began` and took so long."""
        self.calls += 1
        if self.calls <= _WARM:
            return
        if self._began is None:
            self._began = began  # and this call does not count
        elif began - self._began >= self._settle:
            self._counted.append(seconds)
            if self._is_obvious(seconds) or len(self._counted) >= _calls_per_turn(self._counted):
                self._end_turn()

    def _is_obvious(self, seconds: float) -> bool:
        """Whether a call of torch is so much slower that another one is not worth its time.

        Never the other way round: torch is kept only after turns of both.
        """
        ort_lows = self._lows["onnxruntime"]
        if self.turn != "torch" or self._lows["torch"] or seconds < _LONG:
            return False
        return seconds > _OBVIOUS * min(ort_lows)

    def _end_turn(self) -> None:
        # the lower median: some calls are interrupted, and threads meet at every other one
        self._lows[self.turn].append(sorted(self._counted)[(len(self._counted) - 1) // 2])
        self._counted, self._began = [], None
        if self.turn == "onnxruntime":
            self.turn = "torch"
            return
        self.turn = "onnxruntime"
        self.decision = self._decide()

    def _decide(self) -> Decision | None:
        """Return the decision after a turn of each, if it is clear by now."""
        ort_lows, torch_lows = self._lows["onnxruntime"], self._lows["torch"]
        turns = len(torch_lows)
        ort_low, torch_low = min(ort_lows), min(torch_lows)
        margin = _MARGINS[turns - 1]
        ratio = torch_low / ort_low
        if ratio > margin:
            return Decision("onnxruntime", ort_low, torch_low)
        wins = sum(theirs < own for own, theirs in zip(ort_lows, torch_lows, strict=True))
        clear = ratio < min(1 / margin, _CLEARLY) and 2 * wins > turns
        if clear and turns >= _MIN_TURNS:
            return Decision("torch", ort_low, torch_low)
        if turns == len(_MARGINS):
            return Decision("onnxruntime", ort_low, torch_low)
        return None


def _calls_per_turn(counted: list[float]) -> int:
    """How many calls of a turn count: fewer of long ones, which vary less."""
    least = min(counted)
    return 2 if least > _LONG else 5 if least > 5e-4 else 25
