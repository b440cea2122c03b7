"""Benchmark equivalent calls by interleaving them in one process.

Ratios are formed within a round, between calls that are close in time, so that a temporary slowdown
affects both.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from ortable.compat.scoped_patch import pause_gc

Call = Callable[[], object]
# Seconds until the threads of the previous call sleep: OpenMP's and ONNX Runtime's threads spin for
# up to 20 ms on the processors that the next call needs.
SETTLE = 0.025


def time_block(call: Call, count: int, warm: bool = True) -> float:
    """Return the seconds per call of `count` consecutive calls, after an untimed one if `warm`."""
    time.sleep(SETTLE)
    if warm:
        call()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def calls_per_block(once: float, block: float) -> int:
    """Return how many calls of `once` seconds each fill `block` seconds; 1 to 2000."""
    return max(1, min(2000, round(block / max(once, 1e-7))))


def time_interleaved(
    calls: Mapping[str, Call],
    rounds: int,
    block: float = 0.03,
    once: Mapping[str, float] | None = None,
    on_round: Call = lambda: None,
) -> dict[str, list[float]]:
    """Return the seconds per call of every candidate, one measurement per round.

    Args:
        calls: the candidates by name.
        rounds: how often each candidate is measured.
        block: seconds that the consecutive calls of one candidate should last.
        once: the seconds that one call of each candidate takes, measured if not given.
        on_round: called after each round.
    """
    if once is None:
        once = {key: min(time_block(call, 1) for _ in range(3)) for key, call in calls.items()}
    counts = {name: calls_per_block(once[name], block) for name in calls}
    return measure_round_robin(
        calls, rounds, lambda name: time_block(calls[name], counts[name]), on_round
    )


def measure_round_robin(
    names: Sequence[str] | Mapping[str, object],
    rounds: int,
    measure: Callable[[str], float],
    on_round: Call = lambda: None,
) -> dict[str, list[float]]:
    """Measure each candidate once per round; the order rotates, garbage collection is off."""
    order = list(names)
    samples: dict[str, list[float]] = {name: [] for name in order}
    gc.collect()
    with pause_gc():
        for _ in range(rounds):
            for name in order:
                samples[name].append(measure(name))
            order = order[1:] + order[:1]
            on_round()
    return samples


def median_ratio(samples: Mapping[str, Sequence[float]], name: str, base: str) -> float:
    """Return the median over the rounds of the time of `name` divided by that of `base`."""
    return statistics.median(a / b for a, b in zip(samples[name], samples[base], strict=True))
