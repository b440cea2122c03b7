"""Start programs of several processes with torchrun, which import this working tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "distributed"

needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of torch has no gloo",
)


def environment(**overrides: str) -> dict[str, str]:
    """Return the environment of a process that imports this working tree and uses one thread."""
    paths = [ROOT / "runtime", ROOT / "generated", ROOT / "codegen", ROOT]
    variables = dict(os.environ, OMP_NUM_THREADS="1", **overrides)
    variables["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths)
    return variables


def torchrun(
    script: Path,
    *arguments: str | Path,
    processes: int,
    timeout: float,
    settings: Sequence[str] = (),
    **overrides: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes and return torchrun's output and exit status.

    All processes are killed after `timeout` seconds.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *settings]
    return run([*command, str(script), *map(str, arguments)], timeout, **overrides)


def run(
    command: Sequence[str], timeout: float, **overrides: str
) -> subprocess.CompletedProcess[str]:
    """Run a command, and kill it and its descendants after `timeout` seconds."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**overrides),
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for descendant in descendants(process.pid):
                os.kill(descendant, signal.SIGKILL)
            process.kill()
            out, err = process.communicate()
            err = f"no end after {timeout} s\n{err}"
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def descendants(parent: int) -> list[int]:
    """Return the ids of the processes that `parent` started, directly or indirectly."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    children = list(parents.get(parent, ()))
    for process in children:
        children += parents.get(process, ())
    return children
