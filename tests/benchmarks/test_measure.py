"""Error messages of failed candidates become one line of a report."""

from __future__ import annotations

from benchmarks.measure import reason


def test_a_reason_is_one_line_without_colours() -> None:
    error = RuntimeError("\n\x1b[96mThis is step 3/3\x1b[0m of exporting\nand more")
    assert reason(error) == "RuntimeError: This is step 3/3 of exporting"
    assert reason(KeyError()) == "KeyError: no message"
