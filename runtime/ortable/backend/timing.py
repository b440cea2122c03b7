"""Time calls that do the same: they take turns in one process, and a ratio is formed inside a
round, between calls that lie close together, so that a machine that slows down for a while slows
both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from ortable.compat.undone import collections_paused

Call = Callable[[], object]
# Seconds after which threads of whoever ran before sleep: OpenMP's and ONNX Runtime's wait for more
# work for up to 20 ms, on the processors that the next candidate needs.
SETTLE = 0.025


def time_block(call: Call, count: int, warm: bool = True) -> float:
    """Seconds per call of `count` calls in a row, after one that is not counted if `warm`."""
    time.sleep(SETTLE)
    if warm:
        call()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def count_for(once: float, block: float) -> int:
    """How many calls of so many seconds fill a block."""
    return max(1, min(2000, round(block / max(once, 1e-7))))


def interleave(
    calls: Mapping[str, Call],
    rounds: int,
    block: float = 0.03,
    once: Mapping[str, float] | None = None,
    tell: Call = lambda: None,
) -> dict[str, list[float]]:
    """Seconds per call of every candidate, one figure per round.

    Args:
        calls: the candidates by name.
        rounds: how often each takes its turn.
        block: seconds that the calls in a row of one candidate should last.
        once: seconds of one call of each, when they are known; they are taken here otherwise.
        tell: called after each round.
    """
    if once is None:
        once = {n: min(time_block(call, 1) for _ in range(3)) for n, call in calls.items()}
    counts = {name: count_for(once[name], block) for name in calls}
    return in_turns(calls, rounds, lambda name: time_block(calls[name], counts[name]), tell)


def in_turns(
    names: Sequence[str] | Mapping[str, object],
    rounds: int,
    measure: Callable[[str], float],
    tell: Call = lambda: None,
) -> dict[str, list[float]]:
    """A figure per candidate and round; each round starts at the next one, and collects no
    garbage."""
    order = list(names)
    found: dict[str, list[float]] = {name: [] for name in order}
    gc.collect()
    with collections_paused():
        for _ in range(rounds):
            for name in order:
                found[name].append(measure(name))
            order = order[1:] + order[:1]
            tell()
    return found


def median_ratio(found: Mapping[str, Sequence[float]], name: str, base: str) -> float:
    """Median over the rounds of `name` / `base`."""
    return statistics.median(a / b for a, b in zip(found[name], found[base], strict=True))
