"""Choose the candidate for the next call, and decide when one candidate is clearly faster.

Each call runs one candidate, so that no side effect is repeated. The candidates take turns of
several calls. For some 20 ms after a turn, threads of its candidate spin on the processors that the
next candidate needs. Calls during that time, and the first call of a turn, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ortable.backend.timing import SETTLE

Candidate = Literal["onnxruntime", "torch", "inductor"]
CANDIDATES: tuple[Candidate, ...] = get_args(Candidate)

_LABELS = {"onnxruntime": "ONNX Runtime"}
_WARMUP_CALLS = 2  # uncounted first calls: creating the session, growing its memory
# After 1, 2, 3 and 4 turns of each candidate: the ratio of their times that decides.
_MARGINS = (1.25, 1.1, 1.05, 1.0)
_MAX_RATIO = 0.97  # the default is replaced only by a candidate below this fraction of its time
_OBVIOUS_RATIO = 1.5  # one long call of this multiple of the default's time ends the turn
_LONG_CALL = 5e-3  # seconds; a short interruption changes a call of this length only slightly
_MIN_TURNS = 2  # turns of each before the default is replaced: a single turn may be disturbed


@dataclass(frozen=True)
class Decision:
    """The candidate that is kept, and the seconds per call of each candidate."""

    kept: Candidate
    seconds: Mapping[Candidate, float]

    def __str__(self) -> str:
        kept, *others = sorted(self.seconds, key=lambda name: name != self.kept)
        times = [
            f"{_format_seconds(self.seconds[name])} in {_LABELS.get(name, name)}" for name in others
        ]
        label, time = _LABELS.get(kept, kept), _format_seconds(self.seconds[kept])
        return f"{label} is kept: {', '.join([f'{time} a call', *times])}"


def _format_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


class TimingTrial:
    """The calls of one graph, for one class of sizes, until one candidate is kept.

    `turn` is the candidate for the next call; `decision` is None until the trial ends.

    Args:
        settle: uncounted seconds at the start of a turn; 0 if no candidate has spinning threads.
        candidates: the candidates. The first is the default, which is kept in close cases.
    """

    def __init__(
        self,
        settle: float = SETTLE,
        candidates: Sequence[Candidate] = ("onnxruntime", "torch"),
    ) -> None:
        self.turn: Candidate = candidates[0]
        self.decision: Decision | None = None
        self.calls = 0
        self._settle = settle
        self._turn_start: float | None = None  # start of the turn
        self._timings: list[float] = []  # seconds of the counted calls in this turn
        self._remaining = list(candidates)  # those that take turns
        self._turn_medians: dict[Candidate, list[float]] = {name: [] for name in candidates}

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
        """Whether a call in a candidate's first turn is so slow that no further call is needed.

        This never applies to the default: it is replaced only after `_MIN_TURNS` full turns.
        """
        default = self._remaining[0]
        if self.turn == default or self._turn_medians[self.turn] or seconds < _LONG_CALL:
            return False
        return seconds > _OBVIOUS_RATIO * min(self._turn_medians[default])

    def _end_turn(self) -> None:
        # the lower median: some calls are interrupted, and every second call may wait for threads
        self._turn_medians[self.turn].append(sorted(self._timings)[(len(self._timings) - 1) // 2])
        self._timings, self._turn_start = [], None
        position = self._remaining.index(self.turn) + 1
        if position == len(self._remaining):
            self.decision = self._decide()
            position = 0
        self.turn = self._remaining[position]

    def _decide(self) -> Decision | None:
        """Return the decision after a turn of each candidate, or None if it is not clear yet.

        Candidates that are clearly slower than another one take no more turns.
        """
        default = self._remaining[0]
        turns = len(self._turn_medians[default])
        best = {name: min(medians) for name, medians in self._turn_medians.items()}
        fastest = min(self._remaining, key=best.__getitem__)
        limit = _MARGINS[turns - 1] * best[fastest]
        rivals = [name for name in self._remaining if best[name] <= limit]
        is_last = turns == len(_MARGINS)
        if self._beats_default(fastest, best):
            if turns >= _MIN_TURNS and (is_last or rivals == [fastest]):
                return Decision(fastest, best)
        elif is_last or rivals == [default]:
            return Decision(default, best)
        self._remaining = [name for name in self._remaining if name in (default, *rivals)]
        return None

    def _beats_default(self, name: Candidate, best: Mapping[Candidate, float]) -> bool:
        """Whether a candidate is enough faster than the default, and was so in most turns."""
        default = self._remaining[0]
        pairs = zip(self._turn_medians[name], self._turn_medians[default], strict=True)
        wins = [seconds < default_seconds for seconds, default_seconds in pairs]
        return best[name] < _MAX_RATIO * best[default] and 2 * sum(wins) > len(wins)


def _calls_per_turn(seconds: list[float]) -> int:
    """Return the number of counted calls per turn: fewer for long calls, which vary less."""
    shortest = min(seconds)
    return 2 if shortest > _LONG_CALL else 5 if shortest > 5e-4 else 25
