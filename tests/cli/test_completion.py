"""Tab completion with argcomplete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def complete_line(line: str, folder: Path) -> set[str]:
    """Return the completions of a line, requested as `register-python-argcomplete` does."""
    output = folder / "answer"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(output),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    code = "from ortable.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, check=False)
    return {word.strip() for word in output.read_text().split("\013")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ortable e", {"export", "explain"}),
        ("ortable bench --op", {"--options"}),
        ("ortable export --weights f", {"float16", "float32"}),
        ("ortable show mod", {"model.onnx"}),
    ],
)
def test_words_are_completed(line: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    assert complete_line(line, tmp_path) == expected
