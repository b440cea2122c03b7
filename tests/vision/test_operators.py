"""The entries of torchvision equal reference kernels, which a child process defines."""

from __future__ import annotations

import re

import pytest

from tests.child import python


@pytest.mark.slow
def test_entries_of_torchvision_equal_eager_and_none_is_skipped() -> None:
    plugins = ["-p", "no:cacheprovider", "-p", "tests.vision.operators"]
    selection = ["tests/specs/test_cases.py", "-k", "torchvision", "--opsets", "all"]
    process = python("-m", "pytest", "-q", *plugins, *selection, timeout=3600)
    assert process.returncode == 0, process.stdout[-6000:]
    summary = process.stdout.splitlines()[-1]
    assert re.match(r"\d+ passed", summary) and "skipped" not in summary, summary
