"""Capture strategies, listed in `STRATEGIES`: functions from `CaptureAttempts` to a program.

To add a strategy, write such a function, which also returns notes for the model's metadata, and add
a `Strategy` to `STRATEGIES`, in the order of trial. After a failure only strategies are tried whose
`approach` may succeed: it is in `useful_approaches` of the failure's kind in `export_failures.py`,
or in the result of `fallbacks_after` in `sources.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import draft_report, export_below_autograd, pytree
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import ExportOptions, Request
from ortable.exporter.frontend.module_state import discard_new_buffers, replace_forward
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.ir.initializers import is_fake

from .concrete_values import FlagEvaluationMode
from .data_access import DataAccessMode
from .functionalize import prepare_program
from .loop_capture import capture_with_loops
from .packed_sequences import trace_packed_sequences
from .recorded_calls import CallRecord, record_calls
from .tracing import trace_program

# Failures in the report of torch's draft export that change no result: the shape of an operator's
# result is guessed from the example.
_HARMLESS = frozenset({"MISSING_FAKE_KERNEL"})
Captured = tuple[ExportedProgram, list[str]]


@dataclass
class CaptureAttempts:
    """The state of the attempts to capture one model.

    ``programs`` and ``failures`` have torch's programs and the errors, with the names of their
    strategies. ``left_out`` has the names of skipped strategies,
    ``dynamic_shapes`` the shapes in torch's format, and ``approaches`` the approaches that no
    failure has ruled out.
    """

    request: Request
    arguments: Mapping[str, Any]
    dynamic_shapes: Any
    programs: list[tuple[str, ExportedProgram]] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    paths: list[ExportedProgram] = field(default_factory=list)  # merged into the last program
    record: CallRecord | None = None  # calls of the last program's forward, if recorded
    followed_advice: tuple[str, ...] = ()
    approaches: frozenset[str] = field(
        default_factory=lambda: frozenset(strategy.approach for strategy in STRATEGIES)
    )


@dataclass(frozen=True)
class Strategy:
    """A strategy to make an exported program.

    ``name`` appears in reports; failures may rule out an ``approach`` (`export_failures.py`);
    ``run`` makes the program, with notes for the model's metadata. If options select a strategy
    (``is_requested``), it comes first, and is tried without a fallback, too. ``table`` is the
    decomposition table to use if the caller gives none.
    """

    name: str
    approach: str
    run: Callable[[CaptureAttempts], Captured]
    is_requested: Callable[[ExportOptions], bool] = lambda options: False
    table: Literal["default", "all"] | None = None


def select_strategies(options: ExportOptions) -> Iterator[Strategy]:
    """Yield the strategies to try.

    Without a fallback these are the strategies that the options select; with a fallback the first
    of these, then all others. The order is that of `STRATEGIES`, but with ``strict=True`` the two
    modes of torch.export change places. If the options name a decomposition table, strategies with
    a table are left out.
    """
    no_table = options.decomposition_table in (None, "none")
    listed = [strategy for strategy in STRATEGIES if strategy.table is None or no_table]
    if options.strict:  # the non-strict mode comes later
        first, second = (index for index, strategy in enumerate(listed) if strategy.name in _MODES)
        listed[first], listed[second] = listed[second], listed[first]
    requested = [strategy for strategy in listed if strategy.is_requested(options)]
    if not options.fallback:
        yield from requested
        return
    yield requested[0]
    yield from (strategy for strategy in listed if strategy is not requested[0])


def _run_export(
    strict: bool, attempts: CaptureAttempts, export: Callable[..., ExportedProgram] | None = None
) -> Captured:
    """Run torch.export; ``export`` takes its place in the mode that is not strict."""
    request = attempts.request
    attempts.record = None if strict else CallRecord()
    with (
        nullcontext() if strict else discard_new_buffers(request.model),
        nullcontext() if strict else FlagEvaluationMode(),
        nullcontext() if strict else DataAccessMode(),
        nullcontext() if strict else trace_packed_sequences(request.model),
        nullcontext() if attempts.record is None else record_calls(request.model, attempts.record),
        shapes.prepare_export(request.model, attempts.arguments, attempts.dynamic_shapes),
    ):
        exported = (export or partial(torch.export.export, strict=strict))(
            request.model,
            request.args,
            request.kwargs,
            dynamic_shapes=attempts.dynamic_shapes,
        )
    _check_constants(exported, request.model)
    return exported, []


def _run_below_autograd(attempts: CaptureAttempts) -> Captured:
    """Export the operators of a forward that computes gradients, in the caller's gradient mode.

    The backward of results that require gradients would be traced, too, so they are detached.
    """
    model, has_gradients = attempts.request.model, torch.is_grad_enabled()
    forward = model.forward

    @functools.wraps(forward)
    def call_detached(*args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(has_gradients):
            results = forward(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, results)

    with replace_forward(model, call_detached):
        return _run_export(False, attempts, export_below_autograd)


class LostConstantError(ExportError):
    """torch.export stored a tensor of forward as a constant without data."""


def _check_constants(exported: ExportedProgram, model: torch.nn.Module) -> None:
    """Raise LostConstantError if the graph reads a constant without data.

    In strict mode torch does not check for fake constants. In the other mode it stores the tensors
    of a gradient transform, such as ``torch.func.grad``, as constants.
    """
    if any(map(is_fake, (*model.parameters(), *model.buffers()))):
        return
    names = exported.graph_signature.inputs_to_lifted_tensor_constants
    for node in exported.graph.find_nodes(op="placeholder"):
        name = names.get(node.name)
        if name is not None and node.users and not _has_data(exported.constants[name]):
            raise LostConstantError(f"torch.export lost the value of a tensor of forward, {name}")


def _has_data(value: torch.Tensor) -> bool:
    if is_fake(value):
        return False
    if value.layout is not torch.strided:
        return True
    try:
        value.untyped_storage()
    except NotImplementedError:  # the wrapper of a gradient transform
        return False
    return True


def _reuse_first_program(attempts: CaptureAttempts) -> Captured:
    """Return torch's first program again, for the decomposition table of the strategy."""
    return attempts.programs[0][1], []


def _run_tracing(attempts: CaptureAttempts) -> Captured:
    request = attempts.request
    model = request.model
    with discard_new_buffers(model), trace_packed_sequences(model), DataAccessMode():
        exported, notes, attempts.paths = trace_program(
            model, request.args, request.kwargs, attempts.dynamic_shapes
        )
        return exported, notes


def _run_loop_capture(attempts: CaptureAttempts) -> Captured:
    request = attempts.request
    model = request.model

    def prepare_captured(program: ExportedProgram) -> ExportedProgram:
        return prepare_program(
            program, request.tables, request.dispatcher, request.options, request.opset
        )[0]

    with (
        discard_new_buffers(model),
        trace_packed_sequences(model),
        DataAccessMode(),
        shapes.prepare_export(model, attempts.arguments, attempts.dynamic_shapes),
    ):
        return capture_with_loops(
            model, request.args, request.kwargs, attempts.dynamic_shapes, prepare_captured
        )


def _run_draft_export(attempts: CaptureAttempts) -> Captured:
    """Run torch's draft export; accept its program only if it guessed nothing but shapes.

    At a branch on data, draft export continues with the side that the example takes, which would
    change the model.
    """
    request = attempts.request
    model = request.model
    with discard_new_buffers(model), trace_packed_sequences(model), DataAccessMode():
        exported = torch.export.draft_export(
            model, request.args, request.kwargs, dynamic_shapes=attempts.dynamic_shapes
        )
    report: Any = draft_report(exported)
    failure_types = [str(failure.failure_type) for failure in getattr(report, "failures", ())]
    unacceptable = sorted(set(failure_types) - _HARMLESS)
    if unacceptable:
        raise ExportError(
            f"the program holds for the example only ({', '.join(unacceptable)} in torch's report)"
        )
    return exported, [f"draft export: {failure_type}" for failure_type in failure_types]


def _requests_mode(strict: bool, options: ExportOptions) -> bool:
    """Whether to try torch.export in this mode; by default both modes are tried."""
    return not (options.tracing or options.loops) and options.strict in (None, strict)


_MODES = ("torch.export, strict=False", "torch.export, strict=True")
# In the order of trial with a fallback, see docs/export-failures.md.
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        _MODES[0], "capture", partial(_run_export, False),
        partial(_requests_mode, False),
    ),
    Strategy(
        "torch.export below autograd", "autograd", _run_below_autograd,
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
