"""``python -m tests.suites.module_tests``: torch's modules, optimizers, custom and higher-order
operators through torch.compile(backend="ortable") and export, against eager. Exit status 1 when
one is not exact and not listed in expected/module_tests.yaml, or that file is out of date."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from .command import Suite, main
from .torch_cases import names
from .torch_check import check_case
from .workers import Record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """How many of each kind torch captures, and how many of these are exact."""
    captured = Counter(r.case.split("/")[0] for r in records if r.outcome != "uncaptured")
    exact = Counter(r.case.split("/")[0] for r in records if r.outcome == "exact")
    return {
        **{f"{kind} captured": count for kind, count in sorted(captured.items())},
        **{f"{kind} exact": count for kind, count in sorted(exact.items())},
    }


SUITE = Suite(
    name="module_tests",
    about=__doc__ or "",
    collect=names,
    check=check_case,
    counts=counts,
    parts=12,
    limit_s=180.0,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
