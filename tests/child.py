"""Run Python in a child process that imports this working tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "runtime", ROOT / "generated", ROOT / "codegen", ROOT)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that imports this working tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS)), **more}


def python(
    *arguments: str | Path, cwd: Path = ROOT, timeout: float = 600, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end with variables ``more`` added to its environment."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=timeout
    )
