"""Runs samples in processes of their own, one for each OpInfo and dtype: in come the tasks of a
plan, out come records as they are made. A crash or a sample that takes too long costs that sample,
not the run. __main__.py calls it."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from tests.conformance.check import Record, check_call, reason_class_of
from tests.conformance.gradients import check_gradients, numbered_samples
from tests.conformance.plan import Task
from tests.conformance.samples import DTYPES, Call, calls, op_infos

START_UP_S = 60.0


@dataclass
class _Running:
    task: Task
    process: Any
    since: float
    place: int = 0
    index: int = -1
    call: str = ""
    total: int = 0


def run(
    tasks: Iterable[Task], jobs: int, limit_s: float
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    """Run the tasks; yield each sample's record as a dictionary, and ``(task, None)`` at its end.

    A sample that takes longer than ``limit_s`` seconds or ends its process is recorded as
    ``timeout`` or ``crash``, and its task goes on behind it.
    """
    # fork: the operator database takes seconds to import, and nothing here starts threads before.
    context = multiprocessing.get_context("fork")
    fresh, waiting = iter(tasks), deque[Task]()  # waiting: to go on behind a crash
    running: dict[Connection, _Running] = {}
    while True:
        while len(running) < jobs:
            task = waiting.popleft() if waiting else next(fresh, None)
            if task is None:
                break
            connection, state = _start(context, task)
            running[connection] = state
        if not running:
            return
        for connection in wait(list(running), timeout=1.0):
            assert isinstance(connection, Connection)
            yield from _read(connection, running, waiting)
        for connection in [c for c, s in running.items() if _late(s, limit_s)]:
            state = running.pop(connection)
            state.process.kill()
            yield from _ended(connection, state, waiting, "timeout", f"over {limit_s:g} s")


def warm_up() -> None:
    """Load what every sample needs before the first process is forked: the first export of a
    process costs a second. No session and no gradient, which start threads."""
    import ortable
    import ortable.backend.aot.entry

    sample = torch.ones(2, 3)
    with contextlib.suppress(Exception):  # a sample says it better
        for shapes in (None, ((torch.export.Dim.AUTO, torch.export.Dim.AUTO),)):
            program = torch.export.export(_Warm(), (sample,), dynamic_shapes=shapes)
            ortable.to_onnx(program)


class _Warm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).sum(1) + 1


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
        state.place, state.index, state.call, state.total = content
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
    record = Record(task.op, task.dtype, state.index, "exact", call=state.call, kind=task.kind)
    record.modes, record.opsets = list(task.modes), list(task.opsets)
    record.total = state.total
    record.note(outcome, detail, task.modes[0], why="samples" if outcome == "uncaptured" else "")
    record.where = ""
    return record.as_json()


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
    if task.pick is not None and chosen:
        chosen = [chosen[task.pick % len(chosen)]]
    for place in range(task.start, len(chosen)):
        call = chosen[place]
        begin = (place, call.index, call.describe()[:300], call.total)
        connection.send(("begin", begin))
        try:
            if task.kind == "forward":
                record = check_call(call, task.opsets, task.modes)
            else:
                record = _compiled(call, task)
        except Exception as error:  # of the check itself: a record like any other fault
            text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
            record = Record(call.op, call.dtype, call.index, "exact", kind=task.kind)
            record.note("error", text, task.modes[0])
        record.total = call.total
        connection.send(("record", record.as_json()))
    connection.send(("done", None))


def _calls(task: Task) -> list[Call]:
    """The calls of a task; those of a gradient hold the OpInfo's sample, too."""
    if task.kind != "gradient":
        return calls(task.op, task.dtype, task.samples)
    info = op_infos()[task.op]
    total, found = numbered_samples(info, DTYPES[task.dtype], task.samples)
    return [
        Call(task.op, task.dtype, i, info.op, (s.input, *s.args), dict(s.kwargs), total, s)
        for i, s in found
    ]


def _compiled(call: Call, task: Task) -> Record:
    """A sample through torch.compile, in each mode; with gradients where it requires them."""
    started = time.perf_counter()
    record = Record(call.op, call.dtype, call.index, "exact", call=call.describe()[:300])
    record.kind, record.modes = task.kind, list(task.modes)
    for mode in task.modes:
        torch._dynamo.reset()
        dynamic = mode == "dynamic"
        found = check_gradients(
            op_infos()[call.op], call.sample, DTYPES[call.dtype], dynamic=dynamic
        )
        outcome = "not_implemented" if found.stage == "no_kernel" else found.stage
        detail = ", ".join(found.missing) if outcome == "missing" else found.detail
        if outcome != "exact":
            why = reason_class_of(detail) if outcome == "uncaptured" else ""
            record.note(outcome, detail[:400], mode, why=why)
        if record.outcome == "uncaptured":
            break
    record.seconds = round(time.perf_counter() - started, 3)
    return record


def _quiet() -> None:
    """What torch and ONNX Runtime print about samples is noise under a progress bar."""
    logging.disable(logging.CRITICAL)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
