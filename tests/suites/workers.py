"""Runs the cases of a suite in worker processes: a case that ends its process or takes too long
costs that case, not the run.

In come the cases and a function that checks one, out come records in the order in which they are
done. Called by the suites' ``__main__``."""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

START_UP_S = 60.0


@dataclass
class Record:
    """What came of one case. ``facts`` are counted by the report, and say nothing of success."""

    case: str
    outcome: str
    where: str = ""
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The record as a dictionary of plain values."""
        return asdict(self)


@dataclass
class _Worker:
    process: Any
    connection: Connection
    case: str | None = None
    since: float = 0.0


def run(
    cases: Sequence[str], check: Callable[[str], Record], jobs: int, limit_s: float
) -> Iterator[Record]:
    """Yield a record for each case; ``timeout`` and ``crash`` are recorded for ``check``.

    Args:
        cases: the names of the cases; ``check`` finds the rest.
        check: runs one case in a worker, which is a fork of this process.
        jobs: how many workers there are.
        limit_s: the seconds that a case may take.
    """
    # fork: what the suites import and collect takes seconds, and nothing here starts threads before
    context = multiprocessing.get_context("fork")
    waiting = deque(cases)
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_start(context, check, workers))
                _give(workers[-1], waiting)
            ready = wait([worker.connection for worker in workers], timeout=1.0)
            for worker in list(workers):
                if worker.connection in ready:
                    yield _received(worker, workers, waiting)
                elif time.monotonic() - worker.since > limit_s:
                    workers.remove(worker)
                    yield _killed(worker, limit_s)
    finally:
        for worker in workers:
            worker.process.kill()


def _start(context: Any, check: Callable[[str], Record], others: Sequence[_Worker]) -> _Worker:
    ours, theirs = context.Pipe()
    # the ends of other pipes that a fork inherits would keep them open when their worker dies
    inherited = [other.connection for other in others]
    process = context.Process(target=_work, args=(check, theirs, [ours, *inherited]), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _give(worker: _Worker, waiting: deque[str]) -> None:
    worker.case, worker.since = waiting.popleft(), time.monotonic()
    worker.connection.send(worker.case)


def _received(worker: _Worker, workers: list[_Worker], waiting: deque[str]) -> Record:
    assert worker.case is not None
    try:
        record = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        workers.remove(worker)
        worker.process.join()
        return Record(worker.case, "crash", detail=f"the process ended: {worker.process.exitcode}")
    if waiting:
        _give(worker, waiting)
    else:
        workers.remove(worker)
        worker.connection.send(None)
        worker.process.join()
        worker.connection.close()
    assert isinstance(record, Record)
    return record


def _killed(worker: _Worker, limit_s: float) -> Record:
    assert worker.case is not None
    worker.process.kill()
    worker.process.join()
    worker.connection.close()
    return Record(worker.case, "timeout", detail=f"over {limit_s:g} s", seconds=limit_s)


def _work(check: Callable[[str], Record], connection: Connection, inherited: list[Any]) -> None:
    for each in inherited:
        each.close()
    _quiet()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # torch leaves graphs that it could not partition where it stands
        while (case := connection.recv()) is not None:
            begin = time.monotonic()
            try:
                record = check(case)
            except Exception as error:  # of the check itself: a record like any other fault
                text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
                record = Record(case, "error", detail=text)
            record.seconds = round(time.monotonic() - begin, 3)
            connection.send(record)
        os.chdir(os.sep)


def _quiet() -> None:
    """What torch and ONNX Runtime print about cases is noise under a progress bar."""
    logging.disable(logging.CRITICAL)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
