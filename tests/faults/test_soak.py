"""The machinery of `tests.faults.soak`, with few calls: it finds what it looks for."""

from __future__ import annotations

import os
import sys

import pytest

from .soak import growth, threads

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux")


def test_threads_that_call_compile_write_and_refresh() -> None:
    trouble = threads(160, callers=4, compilers=1)
    assert (trouble.wrong, trouble.said) == (0, [])


@pytest.mark.slow
def test_threads_that_change_at_every_instruction() -> None:
    """A thread runs for five milliseconds otherwise, in which much that is not atomic seems so."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        trouble = threads(2_000)
    finally:
        sys.setswitchinterval(before)
    assert (trouble.wrong, trouble.said) == (0, [])


def test_what_grows_is_found() -> None:
    kept: list[bytes] = []
    slope, first, last = growth(lambda step: kept.append(os.urandom(100_000)), 200, samples=4)
    assert 50_000 < slope < 200_000
    assert first.files == last.files
    slope, *_ = growth(lambda step: None, 200, samples=4)
    assert slope < 5_000
