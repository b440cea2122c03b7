"""Starts programs of several processes on this machine, with torchrun's own module, so that they
import this working tree. In come a script and how many processes, out comes what they wrote; called
by the tests of `distributed/` and by those of examples with several processes."""

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


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that imports this working tree and computes in one thread."""
    paths = [ROOT / "runtime", ROOT / "generated", ROOT / "codegen", ROOT]
    found = dict(os.environ, OMP_NUM_THREADS="1", **more)
    found["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths)
    return found


def torchrun(
    script: Path,
    *arguments: str | Path,
    processes: int,
    timeout: float,
    settings: Sequence[str] = (),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """What torchrun's processes wrote, and its exit status. None of them is left after `timeout`
    seconds, and a run that took as long has the status of one that was killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *settings]
    return run([*command, str(script), *map(str, arguments)], timeout, **more)


def run(command: Sequence[str], timeout: float, **more: str) -> subprocess.CompletedProcess[str]:
    """A command and all that it starts, ended after `timeout` seconds."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
        start_new_session=True,
    ) as started:
        try:
            out, err = started.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for process in descendants(started.pid):
                os.kill(process, signal.SIGKILL)
            started.kill()
            out, err = started.communicate()
            err = f"no end after {timeout} s\n{err}"
    return subprocess.CompletedProcess(command, started.returncode, out, err)


def descendants(parent: int) -> list[int]:
    """The processes that one started, and those that these started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_the_name = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        parents.setdefault(int(after_the_name[1]), []).append(int(entry.parent.name))
    found = list(parents.get(parent, ()))
    for process in found:
        found += parents.get(process, ())
    return found
