"""Tasks in forked processes: one that ends its process, or says nothing for too long, costs what it
was at, not the run. Called by tests/conformance, tests/suites, tests/derive and tests/fuzz."""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Say = Callable[[Any], None]
# fork: what the runs import and collect takes seconds, and nothing there starts threads before
_CONTEXT = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Died:
    """A process ended before its task was done: ``crash`` or ``timeout``, and how."""

    outcome: str
    detail: str


@dataclass
class _Worker(Generic[Task]):
    process: Any
    pipe: Connection
    task: Task
    since: float
    tasks: int = 1


@dataclass
class Pool(Generic[Task]):
    """Processes that take tasks in turn.

    Attributes:
        work: does one task in a worker, which is a fork of this process; it says what comes of it.
        jobs: how many workers there are.
        limit_s: seconds that a worker may say nothing.
        each: tasks of one worker, before another takes its place.
        again: tasks that are added while the pool runs; they are next.
    """

    work: Callable[[Task, Say], None]
    jobs: int
    limit_s: float
    each: int = 1 << 30
    again: deque[Task] = field(default_factory=deque)
    _workers: list[_Worker[Task]] = field(default_factory=list)

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield a task with what is said of it, with a `Died`, and with None when it is done."""
        fresh = iter(tasks)
        try:
            while self._fill(fresh):
                ready = wait([worker.pipe for worker in self._workers], timeout=1.0)
                for worker in list(self._workers):
                    if worker.pipe in ready:
                        yield worker.task, self._heard(worker, fresh)
                    elif time.monotonic() - worker.since > self.limit_s:
                        worker.process.kill()
                        self._end(worker)
                        yield worker.task, Died("timeout", f"over {self.limit_s:g} s")
        finally:
            for worker in self._workers:
                worker.process.kill()

    def _fill(self, fresh: Iterator[Task]) -> bool:
        """Start workers while there are tasks; whether any works."""
        while len(self._workers) < self.jobs and (task := self._next(fresh)) is not None:
            ours, theirs = _CONTEXT.Pipe()
            # other pipes that a fork inherits would stay open when their worker dies
            inherited = [ours, *(worker.pipe for worker in self._workers)]
            process = _CONTEXT.Process(
                target=self._serve, args=(task, theirs, inherited), daemon=True
            )
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours, task, time.monotonic()))
        return bool(self._workers)

    def _next(self, fresh: Iterator[Task]) -> Task | None:
        return self.again.popleft() if self.again else next(fresh, None)

    def _heard(self, worker: _Worker[Task], fresh: Iterator[Task]) -> Any:
        try:
            done, said = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._end(worker)
            return Died("crash", f"the process ended: {worker.process.exitcode}")
        worker.since = time.monotonic()
        if done:
            task = self._next(fresh) if worker.tasks < self.each else None
            worker.pipe.send(task)
            if task is None:
                self._end(worker)
            else:
                worker.task, worker.tasks = task, worker.tasks + 1
        return said

    def _end(self, worker: _Worker[Task]) -> None:
        self._workers.remove(worker)
        worker.process.join()
        worker.pipe.close()

    def _serve(self, task: Task | None, pipe: Connection, inherited: list[Connection]) -> None:
        for each in inherited:
            each.close()
        logging.disable(logging.CRITICAL)
        sink = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # what libraries print of samples is noise under a progress bar
            os.dup2(sink, stream)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # torch leaves graphs that it could not partition where it stands
            while task is not None:
                self.work(task, lambda said: pipe.send((False, said)))
                pipe.send((True, None))
                task = pipe.recv()
            os.chdir(os.sep)
