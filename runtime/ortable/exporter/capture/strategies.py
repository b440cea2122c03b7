"""Capture strategies: functions from `Attempts` to a program of torch, as records in one list.

To add one, write such a function, which also returns notes for the model's metadata, and put its
record into `STRATEGIES`, in the order of trial. After a failure only strategies are tried whose
`approach` may succeed: `helped_by` of the failure's kind in `export_failures.py`, or
`fallbacks_after` in `sources.py`, has that approach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import draft_report
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import ExportOptions, Request
from ortable.exporter.frontend.module_state import discard_new_buffers
from ortable.exporter.signature import dynamic_shapes as shapes

from .concrete_values import DecidedFlags
from .functionalize import prepare_program
from .loop_capture import capture_with_loops
from .recorded_calls import CallRecord, record_calls
from .tracing import trace_program

# The kind of failures of torch's draft export that change no result: the shapes of an operator are
# taken from the example.
_HARMLESS = frozenset({"MISSING_FAKE_KERNEL"})
Captured = tuple[ExportedProgram, list[str]]


@dataclass
class Attempts:
    """The programs that torch made, the failures of strategies, and the strategies that
    were left out.

    ``dynamic_shapes`` are those of the request as torch takes them; ``approaches`` those that no
    failure has ruled out.
    """

    request: Request
    arguments: Mapping[str, Any]
    dynamic_shapes: Any
    programs: list[tuple[str, ExportedProgram]] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    paths: list[ExportedProgram] = field(default_factory=list)  # of the last program, if several
    record: CallRecord | None = None  # of the last program, where its forward was run for it
    followed_advice: tuple[str, ...] = ()  # advice that was
    approaches: frozenset[str] = field(
        default_factory=lambda: frozenset(s.approach for s in STRATEGIES)
    )


@dataclass(frozen=True)
class Strategy:
    """A strategy to make an exported program.

    ``name``: its name in reports; ``approach``: what failures may rule out (`export_failures.py`);
    ``run``: makes the program, with notes for the model's metadata; ``is_requested``: whether
    options select it, which is then tried first, and without a fallback too; ``table``: the
    decomposition table to use where the caller has none.
    """

    name: str
    approach: str
    run: Callable[[Attempts], Captured]
    is_requested: Callable[[ExportOptions], bool] = lambda options: False
    table: Literal["default", "all"] | None = None


def select_strategies(options: ExportOptions) -> Iterator[Strategy]:
    """Yield the strategies to try: those that the options select, and with a fallback the others,
    in the order of `STRATEGIES`. By default torch.export runs the Python code (non-strict), then
    reads it.
    """
    no_table = options.decomposition_table in (None, "none")
    listed = [strategy for strategy in STRATEGIES if strategy.table is None or no_table]
    if options.strict:  # the other mode of torch.export comes later
        first, second = (i for i, strategy in enumerate(listed) if strategy.name in _MODES)
        listed[first], listed[second] = listed[second], listed[first]
    requested = [strategy for strategy in listed if strategy.is_requested(options)]
    if not options.fallback:
        yield from requested
        return
    yield requested[0]
    yield from (strategy for strategy in listed if strategy is not requested[0])


def _run_export(strict: bool, attempts: Attempts) -> Captured:
    request = attempts.request
    attempts.record = None if strict else CallRecord()
    with (
        nullcontext() if strict else discard_new_buffers(request.model),
        nullcontext() if strict else DecidedFlags(),
        nullcontext() if attempts.record is None else record_calls(request.model, attempts.record),
        shapes.prepare_export(request.model, attempts.arguments, attempts.dynamic_shapes),
    ):
        exported = torch.export.export(
            request.model,
            request.args,
            request.kwargs,
            dynamic_shapes=attempts.dynamic_shapes,
            strict=strict,
        )
    return exported, []


def _reuse_first_program(attempts: Attempts) -> Captured:
    """Return the first program that torch made, to apply a decomposition table: operators without a
    converter may decompose into operators that have one.
    """
    return attempts.programs[0][1], []


def _run_tracing(attempts: Attempts) -> Captured:
    request = attempts.request
    with discard_new_buffers(request.model):
        exported, notes, attempts.paths = trace_program(
            request.model, request.args, request.kwargs, attempts.dynamic_shapes
        )
        return exported, notes


def _run_loop_capture(attempts: Attempts) -> Captured:
    request = attempts.request
    model = request.model

    def prepare_captured(program: ExportedProgram) -> ExportedProgram:
        return prepare_program(
            program, request.tables, request.dispatcher, request.options, request.opset
        )[0]

    with (
        discard_new_buffers(model),
        shapes.prepare_export(model, attempts.arguments, attempts.dynamic_shapes),
    ):
        return capture_with_loops(
            model, request.args, request.kwargs, attempts.dynamic_shapes, prepare_captured
        )


def _run_draft_export(attempts: Attempts) -> Captured:
    """Run torch's draft export; accept it if it guessed shapes only: it goes on after a branch on
    data with the side that the example takes, which would be another model.
    """
    request = attempts.request
    with discard_new_buffers(request.model):
        exported = torch.export.draft_export(
            request.model, request.args, request.kwargs, dynamic_shapes=attempts.dynamic_shapes
        )
    report: Any = draft_report(exported)
    kinds = [str(failure.failure_type) for failure in getattr(report, "failures", ())]
    wrong = sorted(set(kinds) - _HARMLESS)
    if wrong:
        raise ExportError(
            f"the program holds for the example only ({', '.join(wrong)} in torch's report)"
        )
    return exported, [f"draft export: {kind}" for kind in kinds]


def _requests_mode(strict: bool, options: ExportOptions) -> bool:
    """Whether torch.export is to be tried in this mode: both are by default."""
    return not (options.tracing or options.loops) and options.strict in (None, strict)


_MODES = ("torch.export, strict=False", "torch.export, strict=True")
# In the order in which they are tried when a fallback is asked for, see docs/export-failures.md.
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        _MODES[0], "capture", partial(_run_export, False),
        partial(_requests_mode, False),
    ),
    Strategy("rolled loops", "loops", _run_loop_capture, lambda options: options.loops),
    Strategy(
        _MODES[1], "capture", partial(_run_export, True),
        partial(_requests_mode, True),
    ),
    Strategy("decomposition_table='default'", "decompose", _reuse_first_program, table="default"),
    Strategy("decomposition_table='all'", "decompose", _reuse_first_program, table="all"),
    Strategy("tracing", "tracing", _run_tracing, lambda options: options.tracing),
    Strategy("torch.export.draft_export", "draft", _run_draft_export),
)  # fmt: skip
