"""Run the cases of a suite in worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.forked import Died, Pool, Say


@dataclass
class Record:
    """The outcome of a case; the report counts ``facts``, which do not affect success."""

    case: str
    outcome: str
    where: str = ""
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the record as a dictionary of plain values."""
        return asdict(self)


def run(
    cases: Sequence[str], check: Callable[[str], Record], jobs: int, limit_s: float
) -> Iterator[Record]:
    """Yield a record for each case; ``timeout`` and ``crash`` are recorded for ``check``."""

    def work(case: str, send: Say) -> None:
        started = time.monotonic()
        try:
            record = check(case)
        except Exception as error:  # an error of the check itself is a fault
            text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
            record = Record(case, "error", detail=text)
        record.seconds = round(time.monotonic() - started, 3)
        send(record)

    for case, message in Pool(work, jobs, limit_s).run(cases):
        if isinstance(message, Died):
            yield Record(case, message.outcome, detail=message.detail)
        elif message is not None:
            yield message
