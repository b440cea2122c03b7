"""The script that users of other systems run, as it is and with what differs there simulated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import EXAMPLES

# Windows has neither: modules that were loaded before have seen both.
_WITHOUT_FORK = """
import os, runpy, sys
import numpy, onnx, onnxruntime, torch
import torch._dynamo, torch._inductor.compile_fx
sys.modules["fcntl"] = None
del os.fork, os.register_at_fork
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
SMOKE = str(EXAMPLES / "smoke.py")
_FOLDERS = [str(Path(path).resolve()) for path in sys.path if path]


def run_smoke(*arguments: str, cwd: Path, passed: int = 5, **environment: str) -> str:
    """Run the script in a process and return what it prints on stderr; the checks must pass."""
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_FOLDERS), **environment},
        capture_output=True,
        check=False,
    )
    output = process.stdout.decode(errors="replace")
    assert process.returncode == 0, output + process.stderr.decode(errors="replace")
    assert output.count(": passed") == passed, output
    return process.stderr.decode(errors="replace")


@pytest.mark.slow
def test_without_fork_and_file_locks(tmp_path):
    path = tmp_path / "ein Ordner für ONNX" / "smoke.py"
    path.parent.mkdir()
    path.write_bytes(Path(SMOKE).read_bytes())
    run_smoke("-c", _WITHOUT_FORK, str(path), cwd=path.parent)


@pytest.mark.slow
def test_files_do_not_have_the_encoding_of_the_locale(tmp_path):
    """Each file of ortable that is opened without an encoding is reported."""
    errors = run_smoke("-Xwarn_default_encoding", "-Walways::EncodingWarning", SMOKE, cwd=tmp_path)
    assert not re.findall(r"/ortable\w*/.*EncodingWarning.*", errors), errors


@pytest.mark.slow
def test_the_locale_is_ascii(tmp_path):
    """Training is left out: torch 2.13 reads a file of Inductor with the locale's encoding."""
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    checks = ("compile", "spawned process", "export", "shell command")
    run_smoke(SMOKE, *checks, cwd=tmp_path, passed=4, **settings)
