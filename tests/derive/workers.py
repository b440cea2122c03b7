"""Runs the jobs of entries in processes: a crash, or a job that takes too long, costs that form.

In: entries. Out: outcomes, entry by entry. Called by ``__main__`` and
test_rotating.py.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from .parts import Part, key_of
from .runner import Entry, Outcome, jobs_of, run_job

LIMIT_S = 120.0
AT_MOST = 40  # entries of one process
MEMORY = 12 << 30  # a sample that asks for more than this is refused by eager: it does not exist


@dataclass
class _Process:
    """A process, and what it runs."""

    process: Any
    pipe: Connection
    entry: Entry
    since: float
    runs: int = 1  # entries
    at: int = 0  # the job that runs, counted from 0
    name: str = ""
    sample: int = 0
    phase: str = "eager"
    outcomes: list[Outcome] = field(default_factory=list)


_Todo = tuple[Entry, int, list[Outcome]]  # an entry, its first job, what earlier ones gave


def run(entries: Sequence[Entry], jobs: int, part: Part) -> Iterator[tuple[str, list[Outcome]]]:
    """The outcomes of each entry, as they come."""
    named = {key_of(entry): entry for entry in entries}
    waiting: deque[_Todo] = deque()
    for entry in entries:
        if any(part.has(job) for job in jobs_of(entry)):
            waiting.append((entry, 0, []))
        else:
            yield key_of(entry), []
    running: dict[Connection, _Process] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            started = _start(waiting.popleft(), named, part)
            running[started.pipe] = started
        for pipe in wait(list(running), timeout=1.0):
            assert isinstance(pipe, Connection)
            state = running[pipe]
            try:
                message, content = pipe.recv()
            except (EOFError, ConnectionResetError):
                running.pop(pipe)
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
                yield key_of(state.entry), state.outcomes
                if not _goes_on(state, waiting):
                    running.pop(pipe)
        for pipe, state in list(running.items()):
            if time.monotonic() - state.since > LIMIT_S:
                running.pop(pipe)
                state.process.kill()
                waiting.appendleft(_after(state, f"over {LIMIT_S:g} s"))


def _start(todo: _Todo, named: Mapping[str, Entry], part: Part) -> _Process:
    """A process that runs an entry, and then those that `_goes_on` gives it."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(named, part, theirs), daemon=True)
    process.start()
    theirs.close()
    entry, start, outcomes = todo
    ours.send((key_of(entry), start))
    return _Process(process, ours, entry, time.monotonic(), at=start, outcomes=outcomes)


def _goes_on(state: _Process, waiting: deque[_Todo]) -> bool:
    """Give a process another entry: a new one would import again what jobs use first. After some
    it ends, with what their sessions have left."""
    if not waiting or state.runs >= AT_MOST:
        state.pipe.send(None)
        state.process.join()
        state.pipe.close()
        return False
    state.entry, state.at, state.outcomes = waiting.popleft()
    state.runs += 1
    state.pipe.send((key_of(state.entry), state.at))
    return True


def _after(state: _Process, detail: str) -> _Todo:
    """The rest of an entry behind the job that ended its process; eager may do so, we may not."""
    if state.phase not in ("eager", "trace"):
        name = f"{state.name}/drawn"
        text = f"{detail} in {state.phase}"
        state.outcomes.append(Outcome(key_of(state.entry), state.sample, name, "died", text))
    return state.entry, state.at + 1, state.outcomes


def _work(named: Mapping[str, Entry], part: Part, pipe: Connection) -> None:
    os.nice(5)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what kernels say about samples that they refuse
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    while (todo := pipe.recv()) is not None:
        key, start = todo
        for place, job in enumerate(jobs_of(named[key])):
            if place < start or not part.has(job):
                continue
            pipe.send(("begin", (place, job.number, job.form.name)))
            pipe.send(("outcomes", run_job(job, lambda phase: pipe.send(("phase", phase)))))
        pipe.send(("done", None))
    pipe.close()
    os._exit(0)
