"""Runs samples in processes of their own, one for each OpInfo and dtype: a crash or a sample that
takes too long costs that sample, not the run."""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from tests.conformance.check import Record, check_call
from tests.conformance.gradients import check_gradients, gradient_samples
from tests.conformance.samples import DTYPES, Call, calls, op_infos

START_UP_S = 60.0


@dataclass(frozen=True)
class Task:
    """The samples of one OpInfo in one dtype, from the ``start``-th on."""

    op: str
    dtype: str
    kind: str
    samples: int
    opsets: tuple[int, ...]
    modes: tuple[str, ...]
    start: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """What a resumed run skips when it is done."""
        return self.op, self.dtype, self.kind


@dataclass
class _Running:
    task: Task
    process: Any
    since: float
    place: int = 0
    index: int = -1
    call: str = ""
    buffered: list[Any] = field(default_factory=list)


def run(
    tasks: Sequence[Task], jobs: int, limit_s: float
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    """Run the tasks; yield each sample's record as a dictionary, and ``(task, None)`` at its end.

    A sample that takes longer than ``limit_s`` seconds or ends its process is recorded as
    ``timeout`` or ``crash``, and its task goes on behind it.
    """
    # fork: the operator database takes seconds to import, and nothing here starts threads before.
    context = multiprocessing.get_context("fork")
    waiting = deque(tasks)
    running: dict[Connection, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            connection, state = _start(context, waiting.popleft())
            running[connection] = state
        for connection in wait(list(running), timeout=1.0):
            assert isinstance(connection, Connection)
            yield from _read(connection, running, waiting)
        for connection in [c for c, s in running.items() if _late(s, limit_s)]:
            state = running.pop(connection)
            state.process.kill()
            yield from _ended(connection, state, waiting, "timeout", f"over {limit_s:g} s")


def _late(state: _Running, limit_s: float) -> bool:
    allowed = limit_s if state.index >= 0 else START_UP_S
    return time.monotonic() - state.since > allowed


def _start(context: Any, task: Task) -> tuple[Connection, _Running]:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, _Running(task, process, time.monotonic(), place=task.start - 1)


def _read(
    connection: Connection, running: dict[Connection, _Running], waiting: deque[Task]
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    state = running[connection]
    try:
        message, content = connection.recv()
    except (EOFError, ConnectionResetError):
        running.pop(connection)
        state.process.join()
        code = state.process.exitcode
        yield from _ended(connection, state, waiting, "crash", f"the process ended with {code}")
        return
    state.since = time.monotonic()
    if message == "begin":
        state.place, state.index, state.call = content
    elif message == "record":
        state.index = -1
        yield state.task, content
    elif message == "failed":
        running.pop(connection)
        yield state.task, _record(state, "uncaptured", f"samples: {content}")
        yield state.task, None
    else:
        running.pop(connection)
        state.process.join()
        connection.close()
        yield state.task, None


def _ended(
    connection: Connection, state: _Running, waiting: deque[Task], outcome: str, detail: str
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    connection.close()
    if state.index < 0:
        # It ended outside a sample: there is nothing to go on behind.
        yield state.task, _record(state, outcome, f"{detail} while the samples were made")
        yield state.task, None
        return
    yield state.task, _record(state, outcome, detail)
    waiting.appendleft(replace(state.task, start=state.place + 1))


def _record(state: _Running, outcome: str, detail: str) -> dict[str, Any]:
    task = state.task
    return {
        "op": task.op, "dtype": task.dtype, "index": state.index, "outcome": outcome, "where": "",
        "detail": detail, "call": state.call, "kind": task.kind, "overloads": [], "seconds": 0.0,
    }  # fmt: skip


def _work(task: Task, connection: Connection) -> None:
    _quiet()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # torch leaves graphs that it could not partition where it stands
        _check_all(task, connection)
        os.chdir(os.sep)


def _check_all(task: Task, connection: Connection) -> None:
    torch.set_num_threads(1)
    try:
        chosen = _calls(task)
    except Exception as error:
        connection.send(("failed", f"{type(error).__name__}: {str(error)[:200]}"))
        return
    for place in range(task.start, len(chosen)):
        call, gradient_sample = chosen[place]
        connection.send(("begin", (place, call.index, call.describe()[:300])))
        try:
            if gradient_sample is None:
                record = check_call(call, task.opsets, task.modes)
            else:
                record = _gradient(call, gradient_sample)
        except Exception as error:  # of the check itself: a record like any other fault
            text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
            record = Record(call.op, call.dtype, call.index, "error", detail=text, kind=task.kind)
        connection.send(("record", record.as_json()))
    connection.send(("done", None))


def _calls(task: Task) -> list[tuple[Call, Any]]:
    """The calls of a task, each with the OpInfo sample that a gradient check takes, or None."""
    if task.kind == "forward":
        return [(call, None) for call in calls(task.op, task.dtype, task.samples)]
    info = op_infos()[task.op]
    found = gradient_samples(info, DTYPES[task.dtype], task.samples)
    return [
        (Call(task.op, task.dtype, i, info.op, (s.input, *s.args), dict(s.kwargs)), s)
        for i, s in enumerate(found)
    ]


def _gradient(call: Call, sample: Any) -> Record:
    started = time.perf_counter()
    torch._dynamo.reset()
    found = check_gradients(op_infos()[call.op], sample, DTYPES[call.dtype])
    outcome = "not_implemented" if found.stage == "no_kernel" else found.stage
    detail = ", ".join(found.missing) if outcome == "missing" else found.detail[:400]
    return Record(
        call.op, call.dtype, call.index, outcome, "torch.compile", detail, call.describe()[:300],
        "gradient", [], round(time.perf_counter() - started, 3),
    )  # fmt: skip


def _quiet() -> None:
    """What torch and ONNX Runtime print about samples is noise under a progress bar."""
    logging.disable(logging.CRITICAL)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
