"""``python -m tests.suites.extremes``: every operator of specs/aten with integers at their limits:
the smallest by -1, shifts by the width, casts of NaN, indices of 2**31. Exit status 1 when one ends
its process, or is not exact and not listed in expected/extremes.yaml."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from .command import Suite, main
from .extreme_check import cases, check_case
from .workers import Record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """How many calls were compared, and of how many operators."""
    compared = [record for record in records if record.facts.get("compared")]
    return {
        "calls": sum(record.facts["compared"] for record in compared),
        "operators": len({record.case.rpartition("/")[0] for record in compared}),
    }


SUITE = Suite(
    name="extremes",
    about=__doc__ or "",
    collect=cases,
    check=check_case,
    counts=counts,
    parts=25,
    limit_s=240.0,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
