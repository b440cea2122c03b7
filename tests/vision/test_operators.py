"""The entries of torchvision against reference kernels in torch, since the kernels of its wheel do
not load beside every build of torch. In a process of its own: what defines operators stays."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_entries_of_torchvision_equal_eager_and_none_is_skipped() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    command += ["tests.vision.operators", "tests/specs/test_cases.py", "-k", "torchvision"]
    done = subprocess.run(
        [*command, "--opsets", "all"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    said = done.stdout.splitlines()[-1]
    assert re.match(r"\d+ passed", said) and "skipped" not in said, said
