"""Runs the jobs of entries in processes: a crash, or a job that takes too long, costs that form.

In: entries. Out: outcomes, entry by entry. Called by ``__main__`` and
test_rotating.py.
"""

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
AT_MOST = 40  # entries of one process: it ends with what their sessions have left
MEMORY = 12 << 30  # a sample that asks for more than this is refused by eager: it does not exist


@dataclass
class _State:
    """The job of an entry that runs, and what earlier ones gave."""

    at: int = 0
    sample: int = 0
    name: str = ""
    phase: str = "eager"
    outcomes: list[Outcome] = field(default_factory=list)


def run(entries: Sequence[Entry], jobs: int, part: Part) -> Iterator[tuple[str, list[Outcome]]]:
    """The outcomes of each entry, as they come."""
    named = {key_of(entry): entry for entry in entries}
    states = {key: _State() for key in named}

    def work(todo: tuple[str, int], say: Say) -> None:
        key, start = todo
        _bound()
        for place, job in enumerate(jobs_of(named[key])):
            if place >= start and part.has(job):
                say((place, job.number, job.form.name))
                say(run_job(job, say))

    pool = Pool(work, jobs, LIMIT_S, each=AT_MOST)
    for (key, _), said in pool.run((key, 0) for key in named):
        state = states[key]
        if said is None:
            yield key, state.outcomes
        elif isinstance(said, Died):  # eager may end a process, we may not
            if state.phase not in ("eager", "trace"):
                text = f"{said.detail} in {state.phase}"
                name = f"{state.name}/drawn"
                state.outcomes.append(Outcome(key, state.sample, name, "died", text))
            pool.again.appendleft((key, state.at + 1))
        elif isinstance(said, str):
            state.phase = said
        elif isinstance(said, tuple):
            (state.at, state.sample, state.name), state.phase = said, "eager"
        else:
            state.outcomes += said


def _bound() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
