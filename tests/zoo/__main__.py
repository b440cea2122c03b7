"""Programs of many libraries, compiled, trained and exported: ``python -m tests.zoo``.

The libraries lie in an environment of their own below ~/.cache/ortable, which the first run
installs. The exit status is 1 when a case is not exact and not listed in tests/suites/expected, or
when that file is out of date.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.suites.command import Suite, main
from tests.suites.model_check import count_exact
from tests.suites.workers import Record
from tests.support.environment import ROOT, cache_folder, install_beside

from .program import LEFT_OUT, MODES, read_builders

PACKAGES: list[str] = yaml.safe_load((Path(__file__).parent / "packages.yaml").read_text())


def collect() -> list[str]:
    """Return ``package/program/mode`` of all cases; import what every worker needs."""
    import torch

    import ortable  # noqa: F401

    torch.set_num_threads(1)
    return [f"{name}/{mode}" for name in read_builders() for mode in MODES]


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """Return the number of exact cases of each mode, without those that programs leave out."""
    return count_exact([record for record in records if record.where != LEFT_OUT], MODES)


def check(case: str) -> Record:
    """Return the record of a case."""
    from .check import check_case

    return check_case(case)


def run_beside() -> int:
    """Run this module again in the environment that has the libraries."""
    python = install_beside(cache_folder() / "zoo", PACKAGES)
    parts = (".", "runtime", "generated", "codegen")
    path = os.pathsep.join(str(ROOT / part) for part in parts)
    command = [python, "-m", "tests.zoo", "--here", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] != ["--here"]:
        sys.exit(run_beside())
    zoo = Suite("zoo", collect, check, counts, parts=20, limit_s=400.0)
    sys.exit(main(zoo, sys.argv[2:]))
