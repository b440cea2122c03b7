"""``python -m tests.suites.decompositions``: every decomposition that the backend's graphs go
through, torch's own Python kernels included, next to the operator itself, over torch's operator
tests and the samples of specs/aten. Exit status 1 when one differs that is not listed in
expected/decompositions.yaml: such an operator stays whole (the trait `kept_whole`) or is listed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from .command import Suite, main
from .decomposition_check import cases, check_case
from .workers import Record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """How many calls were compared, and how many operators they took apart."""
    used = {name for record in records for name in record.facts.get("decompositions", ())}
    return {
        "calls": sum(record.facts.get("compared", 0) for record in records),
        "decompositions": len(used),
    }


SUITE = Suite(
    name="decompositions",
    about=__doc__ or "",
    collect=cases,
    check=check_case,
    counts=counts,
    parts=6,
    limit_s=60.0,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
