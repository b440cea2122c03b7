"""A pool of forked workers that survives crashes and hangs of single tasks."""

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
# fork: imports and collection take seconds, and no threads are started before
_CONTEXT = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Died:
    """A process ended before its task was done: ``crash`` or ``timeout``, with details."""

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
    """A pool of worker processes.

    Attributes:
        work: does one task in a worker, a fork of this process, and sends results.
        jobs: number of workers.
        limit_s: seconds that a worker may send nothing.
        each: number of tasks of one worker, before another replaces it.
        again: tasks that are added while the pool runs; they are next.
    """

    work: Callable[[Task, Say], None]
    jobs: int
    limit_s: float
    each: int = 1 << 30
    again: deque[Task] = field(default_factory=deque)
    _workers: list[_Worker[Task]] = field(default_factory=list)

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its results or a `Died`, and with None when the task is done."""
        fresh = iter(tasks)
        try:
            while self._fill(fresh):
                ready = wait([worker.pipe for worker in self._workers], timeout=1.0)
                for worker in list(self._workers):
                    if worker.pipe in ready:
                        yield worker.task, self._receive(worker, fresh)
                    elif time.monotonic() - worker.since > self.limit_s:
                        worker.process.kill()
                        self._end(worker)
                        yield worker.task, Died("timeout", f"over {self.limit_s:g} s")
        finally:
            for worker in self._workers:
                worker.process.kill()

    def _fill(self, fresh: Iterator[Task]) -> bool:
        """Start workers while there are tasks, and return whether a worker is running."""
        while len(self._workers) < self.jobs and (task := self._next(fresh)) is not None:
            own_end, worker_end = _CONTEXT.Pipe()
            # other pipes that a fork inherits would stay open when their worker dies
            inherited = [own_end, *(worker.pipe for worker in self._workers)]
            process = _CONTEXT.Process(
                target=self._serve, args=(task, worker_end, inherited), daemon=True
            )
            process.start()
            worker_end.close()
            self._workers.append(_Worker(process, own_end, task, time.monotonic()))
        return bool(self._workers)

    def _next(self, fresh: Iterator[Task]) -> Task | None:
        return self.again.popleft() if self.again else next(fresh, None)

    def _receive(self, worker: _Worker[Task], fresh: Iterator[Task]) -> Any:
        try:
            done, message = worker.pipe.recv()
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
        return message

    def _end(self, worker: _Worker[Task]) -> None:
        self._workers.remove(worker)
        worker.process.join()
        worker.pipe.close()

    def _serve(self, task: Task | None, pipe: Connection, inherited: list[Connection]) -> None:
        for connection in inherited:
            connection.close()
        logging.disable(logging.CRITICAL)
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # output of libraries would disturb the progress bar
            os.dup2(null, stream)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # torch writes graphs that it cannot partition here
            while task is not None:
                self.work(task, lambda message: pipe.send((False, message)))
                pipe.send((True, None))
                task = pipe.recv()
            os.chdir(os.sep)
