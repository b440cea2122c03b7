"""Every call of threads that call at once counts; rates stand beside the bare session."""

from __future__ import annotations

import threading
import time

from benchmarks.load.measure import COUNTS, call_at_once
from benchmarks.load.report import markdown


def test_calls_of_all_threads_count() -> None:
    threads = set()

    def call() -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)

    rate, p50, p99 = call_at_once(call, 3, 0.05)
    assert len(threads) == 3 and rate > 0 and 0.001 <= p50 <= p99


def test_rates_stand_beside_the_bare_session() -> None:
    rows = [
        {"label": label, "threads": count, "rate": rate * count, "p50": 0.001, "p99": 0.002}
        for label, rate in (("bare session", 1000), ("ortable", 950))
        for count in COUNTS
    ]
    run = {"commit": "c", "date": "d", "versions": {}, "machine": "m", "rows": rows, "errors": {}}
    text = markdown(run)
    assert "| ortable | 950 (0.95) | 1,900 (0.95) | 7,600 (0.95) | 30,400 (0.95) |" in text
    assert "| 1.0 / 2.0 |" in text
