"""Short runs of `tests.faults.soak` pass, and its measurement detects growth."""

from __future__ import annotations

import os
import sys

import pytest

from .soak import measure_growth, run_threads

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux")


def test_threads_that_call_compile_write_and_refresh() -> None:
    failures = run_threads(160, callers=4, compilers=1)
    assert (failures.wrong_results, failures.messages) == (0, [])


@pytest.mark.slow
def test_threads_that_change_at_every_instruction() -> None:
    """Threads switch every 5 ms by default, which hides operations that are not atomic."""
    previous_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        failures = run_threads(2_000)
    finally:
        sys.setswitchinterval(previous_interval)
    assert (failures.wrong_results, failures.messages) == (0, [])


def test_what_grows_is_found() -> None:
    data: list[bytes] = []
    slope, first, last = measure_growth(
        lambda step: data.append(os.urandom(100_000)), 200, samples=4
    )
    assert 50_000 < slope < 200_000
    assert first.files == last.files
    slope, *_ = measure_growth(lambda step: None, 200, samples=4)
    assert slope < 5_000
