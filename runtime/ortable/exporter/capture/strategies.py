"""The strategies of capture: the ways from a module to a program of torch, as records in one list.

To add one, write a function from `Attempts` to the program and notes for the model's metadata, and
put its record into `STRATEGIES`, where it is to be tried. After a failure only strategies are tried
whose `way` may end otherwise: `helped_by` of its kind in `advice.py`, or `fallbacks_after` in
`sources.py`, names that way.
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
from ortable.exporter.request.caller_state import new_buffers_forgotten
from ortable.exporter.request.program import ExportOptions, Request
from ortable.exporter.signature import dynamic_shapes as shapes

from .functionalize import prepare_program
from .known_values import DecidedFlags
from .recorded_calls import CallRecord, recorded
from .rolled import rolled_program
from .tracing import trace_program

# The kind of failures of torch's draft export that change no result: the shapes of an operator are
# taken from the example.
_HARMLESS = frozenset({"MISSING_FAKE_KERNEL"})
Captured = tuple[ExportedProgram, list[str]]


@dataclass
class Attempts:
    """What was tried: the programs that torch made, why the strategies failed, and which were left
    out because they would fail too.

    ``dynamic_shapes`` are those of the request as torch takes them; ``ways`` those that no failure
    has ruled out.
    """

    request: Request
    arguments: Mapping[str, Any]
    dynamic_shapes: Any
    made: list[tuple[str, ExportedProgram]] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    paths: list[ExportedProgram] = field(default_factory=list)  # of the last program, if several
    record: CallRecord | None = None  # of the last program, where its forward was run for it
    followed: tuple[str, ...] = ()  # advice that was
    ways: frozenset[str] = field(default_factory=lambda: frozenset(s.way for s in STRATEGIES))


@dataclass(frozen=True)
class Strategy:
    """A way to an exported program.

    ``name``: what reports call it; ``way``: what failures may rule out (`advice.py`); ``run``:
    makes the program, with notes for the model's metadata; ``asked``: whether options name it,
    which is then tried first, and without a fallback too; ``table``: the decomposition table to
    use where the caller has none.
    """

    name: str
    way: str
    run: Callable[[Attempts], Captured]
    asked: Callable[[ExportOptions], bool] = lambda options: False
    table: Literal["default", "all"] | None = None


def strategies(options: ExportOptions) -> Iterator[Strategy]:
    """The strategies to try: those that the options name, and with a fallback the others, in the
    order of `STRATEGIES`. Where the caller chose none, torch.export runs the Python code, then
    reads it."""
    whole = options.decomposition_table in (None, "none")
    listed = [each for each in STRATEGIES if each.table is None or whole]
    if options.strict:  # the other mode of torch.export comes later
        first, second = (i for i, each in enumerate(listed) if each.name in _MODES)
        listed[first], listed[second] = listed[second], listed[first]
    asked = [each for each in listed if each.asked(options)]
    if not options.fallback:
        yield from asked
        return
    yield asked[0]
    yield from (each for each in listed if each is not asked[0])


def _export(strict: bool, attempts: Attempts) -> Captured:
    request = attempts.request
    attempts.record = None if strict else CallRecord()
    with (
        nullcontext() if strict else new_buffers_forgotten(request.model),
        nullcontext() if strict else DecidedFlags(),
        nullcontext() if attempts.record is None else recorded(request.model, attempts.record),
        shapes.ready(request.model, attempts.arguments, attempts.dynamic_shapes),
    ):
        exported = torch.export.export(
            request.model,
            request.args,
            request.kwargs,
            dynamic_shapes=attempts.dynamic_shapes,
            strict=strict,
        )
    return exported, []


def _decompose(attempts: Attempts) -> Captured:
    """The first program that torch made, to go through a table of decompositions: operators without
    a converter may have one for their parts."""
    return attempts.made[0][1], []


def _trace(attempts: Attempts) -> Captured:
    request = attempts.request
    with new_buffers_forgotten(request.model):
        exported, notes, attempts.paths = trace_program(
            request.model, request.args, request.kwargs, attempts.dynamic_shapes
        )
        return exported, notes


def _roll(attempts: Attempts) -> Captured:
    request = attempts.request
    model = request.model

    def functional(program: ExportedProgram) -> ExportedProgram:
        return prepare_program(
            program, request.tables, request.dispatcher, request.options, request.opset
        )[0]

    with (
        new_buffers_forgotten(model),
        shapes.ready(model, attempts.arguments, attempts.dynamic_shapes),
    ):
        return rolled_program(
            model, request.args, request.kwargs, attempts.dynamic_shapes, functional
        )


def _draft(attempts: Attempts) -> Captured:
    """torch's draft export, when all that it guessed are shapes: it goes on after a branch on data
    with the side that the example takes, and that would be another model."""
    request = attempts.request
    with new_buffers_forgotten(request.model):
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


def _asks_for_mode(strict: bool, options: ExportOptions) -> bool:
    """Whether torch.export is to be tried in this mode: both are where the caller chose none."""
    return not (options.tracing or options.loops) and options.strict in (None, strict)


_MODES = ("torch.export, strict=False", "torch.export, strict=True")
# In the order in which they are tried when a fallback is asked for, see docs/export-failures.md.
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        _MODES[0], "capture", partial(_export, False),
        partial(_asks_for_mode, False),
    ),
    Strategy("rolled loops", "loops", _roll, lambda options: options.loops),
    Strategy(
        _MODES[1], "capture", partial(_export, True),
        partial(_asks_for_mode, True),
    ),
    Strategy("decomposition_table='default'", "decompose", _decompose, table="default"),
    Strategy("decomposition_table='all'", "decompose", _decompose, table="all"),
    Strategy("tracing", "tracing", _trace, lambda options: options.tracing),
    Strategy("torch.export.draft_export", "draft", _draft),
)  # fmt: skip
