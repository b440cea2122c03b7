"""The entries of torchvision against reference kernels in torch, since the kernels of its wheel do
not load beside every build of torch. In a process of its own: what defines operators stays."""

from __future__ import annotations

import re

import pytest

from tests.child import python


@pytest.mark.slow
def test_entries_of_torchvision_equal_eager_and_none_is_skipped() -> None:
    plugins = ["-p", "no:cacheprovider", "-p", "tests.vision.operators"]
    what = ["tests/specs/test_cases.py", "-k", "torchvision", "--opsets", "all"]
    done = python("-m", "pytest", "-q", *plugins, *what, timeout=3600)
    assert done.returncode == 0, done.stdout[-6000:]
    said = done.stdout.splitlines()[-1]
    assert re.match(r"\d+ passed", said) and "skipped" not in said, said
