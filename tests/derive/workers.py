"""Runs the jobs of entries in processes: a crash, or a job that takes too long, costs that form.

In: entries. Out: outcomes, entry by entry. Called by ``__main__``.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from .parts import Part
from .runner import Entry, Outcome, jobs_of, run_job

LIMIT_S = 120.0
MEMORY = 12 << 30  # a sample that asks for more than this is refused by eager: it does not exist


@dataclass
class _Running:
    entry: Entry
    process: Any
    since: float
    at: int = 0  # the job that runs, counted from 0
    name: str = ""
    sample: int = 0
    phase: str = "eager"
    outcomes: list[Outcome] = field(default_factory=list)


def run(entries: Sequence[Entry], jobs: int, part: Part) -> Iterator[tuple[str, list[Outcome]]]:
    """The outcomes of each entry, as they come."""
    context = multiprocessing.get_context("fork")
    waiting: deque[tuple[Entry, int, list[Outcome]]] = deque((e, 0, []) for e in entries)
    running: dict[Connection, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            entry, start, outcomes = waiting.popleft()
            ours, theirs = context.Pipe(duplex=False)
            args = (entry, start, part, theirs)
            process = context.Process(target=_work, args=args, daemon=True)
            process.start()
            theirs.close()
            running[ours] = _Running(entry, process, time.monotonic(), start, outcomes=outcomes)
        for connection in wait(list(running), timeout=1.0):
            assert isinstance(connection, Connection)
            state = running[connection]
            try:
                message, content = connection.recv()
            except (EOFError, ConnectionResetError):
                running.pop(connection)
                state.process.join()
                waiting.appendleft(_after(state, f"the process ended ({state.process.exitcode})"))
                continue
            state.since = time.monotonic()
            if message == "begin":
                state.at, state.sample, state.name, state.phase = *content, "eager"
            elif message == "phase":
                state.phase = content
            elif message == "outcomes":
                state.outcomes += content
            else:
                running.pop(connection)
                state.process.join()
                connection.close()
                yield state.entry.key + state.entry.schema.suffix, state.outcomes
        for connection, state in list(running.items()):
            if time.monotonic() - state.since > LIMIT_S:
                running.pop(connection)
                state.process.kill()
                waiting.appendleft(_after(state, f"over {LIMIT_S:g} s"))


def _after(state: _Running, detail: str) -> tuple[Entry, int, list[Outcome]]:
    """The rest of an entry behind the job that ended its process; eager may do so, we may not."""
    if state.phase not in ("eager", "trace"):
        key = state.entry.key + state.entry.schema.suffix
        name = f"{state.name}/drawn"
        text = f"{detail} in {state.phase}"
        state.outcomes.append(Outcome(key, state.sample, name, "died", text))
    return state.entry, state.at + 1, state.outcomes


def _work(entry: Entry, start: int, part: Part, connection: Connection) -> None:
    os.nice(5)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what kernels say about samples that they refuse
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    for place, job in enumerate(jobs_of(entry)):
        if place < start or not part.has(job):
            continue
        connection.send(("begin", (place, job.number, job.form.name)))
        found = run_job(job, lambda phase: connection.send(("phase", phase)))
        connection.send(("outcomes", found))
    connection.send(("done", None))
    connection.close()
    os._exit(0)
