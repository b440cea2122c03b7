"""Run the jobs of entries in processes: a crash or a timeout costs only that form."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from tests.forked import Died, Pool, Say

from .parts import Part, key_of
from .runner import Entry, Outcome, jobs_of, run_job

LIMIT_S = 120.0
ENTRIES_PER_PROCESS = 40  # sessions leak memory, so that processes are replaced
MEMORY = 12 << 30  # eager refuses larger samples


@dataclass
class _State:
    """The current job of an entry, and the outcomes of earlier jobs."""

    position: int = 0
    sample: int = 0
    name: str = ""
    phase: str = "eager"
    outcomes: list[Outcome] = field(default_factory=list)


def run(entries: Sequence[Entry], jobs: int, part: Part) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the outcomes of each entry when it is finished."""
    entries_by_key = {key_of(entry): entry for entry in entries}
    states = {key: _State() for key in entries_by_key}

    def work(item: tuple[str, int], send: Say) -> None:
        key, start = item
        _limit_resources()
        for position, job in enumerate(jobs_of(entries_by_key[key])):
            if position >= start and part.has(job):
                send((position, job.number, job.form.name))
                send(run_job(job, send))

    pool = Pool(work, jobs, LIMIT_S, each=ENTRIES_PER_PROCESS)
    for (key, _), message in pool.run((key, 0) for key in entries_by_key):
        state = states[key]
        if message is None:
            yield key, state.outcomes
        elif isinstance(message, Died):  # a crash in eager or while tracing is torch's
            if state.phase not in ("eager", "trace"):
                text = f"{message.detail} in {state.phase}"
                name = f"{state.name}/drawn"
                state.outcomes.append(Outcome(key, state.sample, name, "died", text))
            pool.again.appendleft((key, state.position + 1))
        elif isinstance(message, str):
            state.phase = message
        elif isinstance(message, tuple):
            (state.position, state.sample, state.name), state.phase = message, "eager"
        else:
            state.outcomes += message


def _limit_resources() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
