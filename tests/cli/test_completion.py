"""The tab key: what argcomplete answers where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def completed(line: str, folder: Path) -> set[str]:
    """What the shell is told at the end of a line, as `register-python-argcomplete` asks."""
    answer = folder / "answer"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    code = "from ortable.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, check=False)
    return {each.strip() for each in answer.read_text().split("\013")}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ortable e", {"export", "explain"}),
        ("ortable bench --op", {"--options"}),
        ("ortable export --weights i", {"int8", "int4"}),
        ("ortable show mod", {"model.onnx"}),
    ],
)
def test_words_are_completed(line: str, wanted: set[str], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    assert completed(line, tmp_path) == wanted
