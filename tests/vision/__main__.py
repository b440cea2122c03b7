"""Export and compile small models of vision libraries: ``python -m tests.vision timm|torchvision``.

There is a model of each architecture, compared with eager with static sizes, with a dynamic batch,
and by torch.compile. The exit status is 1 when a case is not exact and not listed in
tests/suites/expected, or when that file is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tests.suites.command import Suite, main
from tests.suites.model_check import count_exact
from tests.suites.workers import Record

from . import models

MODES = ("static", "dynamic", "compile")


def cases(library: str) -> list[str]:
    """Return ``library/.../mode`` of all cases, by model; some have no dynamic batch."""
    entries = {name: entry for name, entry in models.table().items() if name.startswith(library)}
    return [
        f"{name}/{mode}"
        for name, entry in entries.items()
        for mode in MODES
        if entry.batch or mode != "dynamic"
    ]


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """Return the number of exact cases of each mode."""
    return count_exact(records, MODES)


def prepare() -> None:
    """Import the modules that every worker needs, before the first fork."""
    import torch

    import ortable  # noqa: F401
    from tests.sweeps import torchvision_kernels

    torch.set_num_threads(1)
    torchvision_kernels.provide()
    import timm  # noqa: F401
    import torchvision.models.detection  # noqa: F401


def check(case: str) -> Record:
    """Return the record of a case."""
    from .check import check_case

    return check_case(case)


def suite(library: str) -> Suite:
    """Return the suite of a library."""

    def collect() -> list[str]:
        prepare()
        return cases(library)

    return Suite(
        name={"timm": "timm", "torchvision": "vision"}[library],
        collect=collect,
        check=check,
        counts=counts,
        parts=32,
        limit_s=180.0,
    )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in models.LIBRARIES:
        sys.exit(f"python -m tests.vision {'|'.join(models.LIBRARIES)} [...]")
    sys.exit(main(suite(sys.argv[1]), sys.argv[2:]))
