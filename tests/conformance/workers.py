"""Run samples in child processes, so that a crash or a slow sample costs only that sample."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from tests.conformance.check import Record, check_call, reason_class_of
from tests.conformance.gradients import check_gradients, numbered_samples
from tests.conformance.plan import Task
from tests.conformance.samples import DTYPES, Call, calls, op_infos
from tests.forked import Died, Pool, Say


@dataclass(frozen=True)
class _RunningSample:
    """The sample of a task that is running, and the number of samples of the task."""

    position: int = 0
    index: int = -1
    call: str = ""
    total: int = 0


def run(
    tasks: Iterable[Task], jobs: int, limit_s: float
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    """Run the tasks; yield each sample's record as a dictionary, and ``(task, None)`` at its end.

    A sample that takes longer than ``limit_s`` seconds or ends its process is recorded as
    ``timeout`` or ``crash``, and its task continues with the next sample.
    """
    pool = Pool(_check_samples, jobs, limit_s, each=1)
    running: dict[tuple[str, str, str], _RunningSample] = {}
    for task, message in pool.run(tasks):
        if isinstance(message, _RunningSample):
            running[task.key] = message
            continue
        sample = running.pop(task.key, None)
        if not isinstance(message, Died):
            yield task, message
        elif sample is not None:
            yield task, _record(task, sample, message.outcome, message.detail)
            pool.again.appendleft(replace(task, start=sample.position + 1))
        else:  # outside a sample: there is no next sample
            detail = f"{message.detail} while the samples were made"
            yield task, _record(task, _RunningSample(), message.outcome, detail)
            yield task, None


def warm_up() -> None:
    """Load what every sample needs before the first fork: a first export takes a second.

    Sessions and gradients start threads, so neither is made here.
    """
    import ortable
    import ortable.backend.aot.entry

    sample = torch.ones(2, 3)
    with contextlib.suppress(Exception):  # a sample reports the error, too
        for shapes in (None, ((torch.export.Dim.AUTO, torch.export.Dim.AUTO),)):
            program = torch.export.export(_WarmUpModel(), (sample,), dynamic_shapes=shapes)
            ortable.to_onnx(program)


class _WarmUpModel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).sum(1) + 1


def _record(task: Task, sample: _RunningSample, outcome: str, detail: str) -> dict[str, Any]:
    record = Record(task.op, task.dtype, sample.index, "exact", call=sample.call, kind=task.kind)
    record.modes, record.opsets = list(task.modes), list(task.opsets)
    record.total = sample.total
    record.note(outcome, detail, task.modes[0], reason="samples" if outcome == "uncaptured" else "")
    record.where = ""
    return record.as_json()


def _check_samples(task: Task, send: Say) -> None:
    torch.set_num_threads(1)
    try:
        samples = _make_calls(task)
    except Exception as error:
        text = f"samples: {type(error).__name__}: {str(error)[:200]}"
        send(_record(task, _RunningSample(), "uncaptured", text))
        return
    if task.pick is not None and samples:
        samples = [samples[task.pick % len(samples)]]
    for position in range(task.start, len(samples)):
        call = samples[position]
        send(_RunningSample(position, call.index, call.describe()[:300], call.total))
        try:
            if task.kind == "forward":
                record = check_call(call, task.opsets, task.modes)
            else:
                record = _check_compiled(call, task)
        except Exception as error:  # an error of the check itself is a fault
            text = f"the check failed: {type(error).__name__}: {str(error)[:300]}"
            record = Record(call.op, call.dtype, call.index, "exact", kind=task.kind)
            record.note("error", text, task.modes[0])
        record.total = call.total
        send(record.as_json())


def _make_calls(task: Task) -> list[Call]:
    """Return the calls of a task; those of gradients include the OpInfo's sample."""
    if task.kind != "gradient":
        return calls(task.op, task.dtype, task.samples)
    info = op_infos()[task.op]
    total, samples = numbered_samples(info, DTYPES[task.dtype], task.samples)
    return [
        Call(task.op, task.dtype, i, info.op, (s.input, *s.args), dict(s.kwargs), total, s)
        for i, s in samples
    ]


def _check_compiled(call: Call, task: Task) -> Record:
    """Check a sample with torch.compile in each mode, with the gradients that it requires."""
    started = time.perf_counter()
    record = Record(call.op, call.dtype, call.index, "exact", call=call.describe()[:300])
    record.kind, record.modes = task.kind, list(task.modes)
    for mode in task.modes:
        torch._dynamo.reset()
        dynamic = mode == "dynamic"
        result = check_gradients(
            op_infos()[call.op], call.sample, DTYPES[call.dtype], dynamic=dynamic
        )
        outcome = "not_implemented" if result.stage == "no_kernel" else result.stage
        detail = ", ".join(result.missing) if outcome == "missing" else result.detail
        if outcome != "exact":
            reason = reason_class_of(detail) if outcome == "uncaptured" else ""
            record.note(outcome, detail[:400], mode, reason=reason)
        if record.outcome == "uncaptured":
            break
    record.seconds = round(time.perf_counter() - started, 3)
    return record
