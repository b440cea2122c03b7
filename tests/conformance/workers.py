"""Runs samples in processes of their own, one for each OpInfo and dtype: in come the tasks of a
plan, out come records as they are made. A crash or a sample that takes too long costs that sample,
not the run. __main__.py calls it."""

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
class _Begun:
    """The sample of a task that runs, and how many there are."""

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
    pool = Pool(_check_all, jobs, limit_s, each=1)
    begun: dict[tuple[str, str, str], _Begun] = {}
    for task, said in pool.run(tasks):
        if isinstance(said, _Begun):
            begun[task.key] = said
            continue
        sample = begun.pop(task.key, None)
        if not isinstance(said, Died):
            yield task, said
        elif sample is not None:
            yield task, _record(task, sample, said.outcome, said.detail)
            pool.again.appendleft(replace(task, start=sample.place + 1))
        else:  # outside a sample: there is nothing to go on behind
            detail = f"{said.detail} while the samples were made"
            yield task, _record(task, _Begun(), said.outcome, detail)
            yield task, None


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


def _record(task: Task, sample: _Begun, outcome: str, detail: str) -> dict[str, Any]:
    record = Record(task.op, task.dtype, sample.index, "exact", call=sample.call, kind=task.kind)
    record.modes, record.opsets = list(task.modes), list(task.opsets)
    record.total = sample.total
    record.note(outcome, detail, task.modes[0], why="samples" if outcome == "uncaptured" else "")
    record.where = ""
    return record.as_json()


def _check_all(task: Task, say: Say) -> None:
    torch.set_num_threads(1)
    try:
        chosen = _calls(task)
    except Exception as error:
        text = f"samples: {type(error).__name__}: {str(error)[:200]}"
        say(_record(task, _Begun(), "uncaptured", text))
        return
    if task.pick is not None and chosen:
        chosen = [chosen[task.pick % len(chosen)]]
    for place in range(task.start, len(chosen)):
        call = chosen[place]
        say(_Begun(place, call.index, call.describe()[:300], call.total))
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
        say(record.as_json())


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
