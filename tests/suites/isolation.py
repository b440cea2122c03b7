"""Run jobs in a forked child, so that a job that ends its process has a result, too."""

from __future__ import annotations

import io
import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

CPU_S = 20  # of one child
MEMORY = 8 << 30  # allocations of more raise an error


@dataclass(frozen=True)
class Outcome:
    """The result of a job, its error, or the signal that ended its process."""

    value: Any = None
    error: str = ""
    signal: str = ""


def run_isolated(jobs: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """Return the outcome of each job; jobs after one that ends its process run in a new child."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(jobs):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _work(jobs[len(outcomes) :], write)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            while (size := stream.read(8)) and len(size) == 8:
                content = stream.read(int.from_bytes(size, "little"))
                outcomes.append(Outcome(*torch.load(io.BytesIO(content), weights_only=False)))
        _, status = os.waitpid(child, 0)
        if len(outcomes) < len(jobs):
            number = os.WTERMSIG(status)
            outcomes.append(Outcome(signal=signal.Signals(number).name if number else str(status)))
    return outcomes


def _work(jobs: Sequence[Callable[[], Any]], write: int) -> None:
    """Run the jobs in the child, which never returns into the code of the parent."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with os.fdopen(write, "wb") as stream:
            for job in jobs:
                try:
                    outcome = (job(), "")
                except Exception as error:
                    outcome = (None, f"{type(error).__name__}: {error}"[:300])
                buffer = io.BytesIO()
                torch.save(outcome, buffer)
                content = buffer.getvalue()
                stream.write(len(content).to_bytes(8, "little") + content)
                stream.flush()
    finally:
        os._exit(0)
