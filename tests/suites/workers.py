"""Runs the cases of a suite in worker processes. In come the cases and a function that checks one,
out come records in the order in which they are done. Called by the suites' command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.forked import Died, Pool, Say


@dataclass
class Record:
    """What came of one case. ``facts`` are counted by the report, and say nothing of success."""

    case: str
    outcome: str
    where: str = ""
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The record as a dictionary of plain values."""
        return asdict(self)


def run(
    cases: Sequence[str], check: Callable[[str], Record], jobs: int, limit_s: float
) -> Iterator[Record]:
    """Yield a record for each case; ``timeout`` and ``crash`` are recorded for ``check``."""

    def work(case: str, say: Say) -> None:
        begin = time.monotonic()
        try:
            record = check(case)
        except Exception as error:  # of the check itself: a record like any other fault
            text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
            record = Record(case, "error", detail=text)
        record.seconds = round(time.monotonic() - begin, 3)
        say(record)

    for case, said in Pool(work, jobs, limit_s).run(cases):
        if isinstance(said, Died):
            yield Record(case, said.outcome, detail=said.detail)
        elif said is not None:
            yield said
