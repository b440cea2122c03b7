"""From a module to a program: the ways to make torch's graph, in the order in which they are tried
when a fallback is asked for, and the account of those that failed. Each way captures the model
again, so after a failure only those are tried that may end otherwise: a branch on data, an operator
without a converter or a bug of the model are the same in all of them. sources.py calls it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from ortable.compat.torch import OpOverload, decomposition_table, draft_report, pytree
from ortable.compat.torch import can_decompose as torch_decomposes
from ortable.errors import ExportError, OptionError, OrtableError
from ortable.exporter.request.ambient import (
    autocast_again,
    forward_under_autocast,
    in_onnx_export,
    without_inference_tensors,
)
from ortable.exporter.request.bypass_state import active_patches
from ortable.exporter.request.caller_state import new_buffers_forgotten, state_restored
from ortable.exporter.request.copies import copied_call, copied_module
from ortable.exporter.request.fake_weights import without_meta
from ortable.exporter.request.program import Program, Request
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.interpreter.calls import find_converter
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits

from . import advice
from .check import check_program
from .enlarged_example import enlarged_requests
from .exported import add_guards, program_of
from .flags import DecidedFlags
from .functionalize import RewriteError, prepared
from .layouts import check_layouts
from .pt2 import save_program
from .quiet import FAKES, GUARDS, TRACING, quiet
from .recorded_calls import CallRecord, recorded
from .rolled import check_other_sizes, rolled_program
from .size_branches import with_every_side
from .small_sizes import Capture, check_example, holds_for, prove_small_sizes
from .subclasses import check_subclasses
from .tracing import trace_program

# The kind of failures of torch's draft export that change no result: the shapes of an operator are
# taken from the example.
_HARMLESS = frozenset({"MISSING_FAKE_KERNEL"})
EVERY_WAY = frozenset({"capture", "decompose", "loops", "tracing", "draft"})
_NO_WAY: frozenset[str] = frozenset()


@dataclass
class Attempts:
    """What was tried: the programs that torch made, why the strategies failed, and which were left
    out because they would fail too.

    ``dynamic_shapes`` are those of the request as torch takes them.
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
    ways: frozenset[str] = EVERY_WAY

    def failed(self, strategy: Strategy, error: Exception) -> None:
        """Note a failure; ``ways`` are those that no failure has ruled out."""
        error, runs = in_eager(error, self.request)
        self.followed += (advice.RUNS,) * runs
        self.failures.append((strategy.name, error))
        if strategy.way != "loops":  # that a loop is not one step says nothing of the other ways
            self.ways &= fallbacks_after(error, self.request.options.fallback)


@dataclass(frozen=True)
class Strategy:
    """A way to an exported program, ``way`` being one of ``EVERY_WAY``. ``run`` returns it with
    notes for the model's metadata; ``table`` is the decomposition table to use instead of the
    caller's."""

    name: str
    way: str
    run: Callable[[Attempts], tuple[ExportedProgram, list[str]]]
    table: Literal["default", "all"] | None = None


def module_program(request: Request) -> Program:
    """The program of a module, by the strategy that the options name, or by the first that works
    when a fallback is asked for.

    Raises ExportError: torch cannot make the graph (with the line of the model, and what may help),
    or a dynamic dimension cannot vary (with the input and the dimension). InputError: a tensor is
    not dense.
    """
    check_layouts(request)
    with (
        without_inference_tensors(request) as ordinary,
        without_meta(_distinct(ordinary)) as fitted,
    ):
        for enlarged in enlarged_requests(fitted):
            program = _enlarged_program(enlarged, fitted)
            if program is not None:
                return program
        return _first_program(fitted)


def _enlarged_program(request: Request, own: Request) -> Program | None:
    """The program of an enlarged example, where it holds for the caller's ``own``, too."""
    try:
        with quiet(GUARDS, TRACING, FAKES):
            program = _first_program(request)
    except Exception:  # sizes that do not fit each other, or what the caller's own example says
        return None
    return program if holds_for(program, own) else None


def _first_program(request: Request) -> Program:
    request.record.sides = 1
    arguments = shapes.bound_arguments(request.model, request.args, request.kwargs)
    normalized = shapes.normalized(request.dynamic_shapes, arguments)
    attempts = Attempts(request, arguments, normalized)
    for strategy in strategies(request):
        if strategy.way not in attempts.ways:
            attempts.left_out.append(strategy.name)
            continue
        try:
            with quiet(GUARDS) if attempts.failures else nullcontext():
                program = _program_by(strategy, attempts)
        except Exception as error:  # forward is any Python code, torch.export raises many types
            attempts.failed(strategy, error)
            continue
        request.record.strategy = strategy.name
        capture = Capture(attempts.made[-1][1], attempts.record)
        program = _with_other_sides(program, strategy, attempts)
        if request.record.sides == 1:
            check_example(program, request, capture)
            prove_small_sizes(program, request, capture)
        return program
    first = attempts.failures[0][1]
    if isinstance(first, OrtableError) and not request.options.fallback:
        raise first
    raise _failure(attempts) from first


def _with_other_sides(program: Program, strategy: Strategy, attempts: Attempts) -> Program:
    """The program with the other sides of its branches on sizes, where a fallback is asked for."""
    options = attempts.request.options
    if not (options.fallback or options.tracing) or strategy.way not in ("capture", "tracing"):
        return program

    def capture(request: Request) -> Program:
        arguments = shapes.bound_arguments(request.model, request.args, request.kwargs)
        unsaved = replace(request, options=replace(options, save_ep=None))
        with quiet(GUARDS):
            again = Attempts(unsaved, arguments, attempts.dynamic_shapes)
            return _program_by(strategy, again)

    return with_every_side(program, attempts.request, capture)


def _distinct(request: Request) -> Request:
    """The request with a copy of every tensor that is given twice: torch.export takes arguments
    that are one object for one input, and the model would read one for the other."""
    seen: set[int] = set()

    def once(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            return leaf.clone()
        seen.add(id(leaf))
        return leaf

    args, kwargs = pytree.tree_map(once, (request.args, request.kwargs))
    if len(seen) == len(pytree.tree_leaves((args, kwargs))):
        return request
    return replace(request, args=args, kwargs=kwargs)


def strategies(request: Request) -> Iterator[Strategy]:
    """The strategies to try, in the documented order. Without a fallback there is one, or two when
    the caller chose none: torch.export runs the Python code, then reads it."""
    options = request.options
    strict = bool(options.strict)
    chosen = options.tracing or options.loops
    if options.tracing:
        yield _tracing()
    else:
        yield _rolling() if options.loops else _exporting(strict)
    if not options.fallback:
        if not chosen and options.strict is None:
            yield _exporting(True)
        return
    if chosen:
        yield _exporting(strict)
    if not options.loops:
        yield _rolling()
    yield _exporting(not strict)
    if options.table() is None:
        yield _decomposing("default")
        yield _decomposing("all")
    if not options.tracing:
        yield _tracing()
    yield Strategy("torch.export.draft_export", "draft", _draft)


def _program_by(strategy: Strategy, attempts: Attempts) -> Program:
    request = attempts.request
    model = request.model
    with (
        request.record.phase("export"),
        state_restored(model, (request.args, request.kwargs)),
        forward_under_autocast(model),
        in_onnx_export(),
    ):
        attempts.paths, attempts.record = [], None
        exported, notes = strategy.run(attempts)
        attempts.made.append((strategy.name, exported))
    if strategy.table is not None:
        request = replace(
            request, options=replace(request.options, decomposition_table=strategy.table)
        )
    program = program_of(exported, request)
    add_guards(program, attempts.paths, request)
    if request.options.fallback and attempts.request.options.table() is None:
        _refuse_missing(program, request, strategy.table)
    if strategy.way == "loops":
        notes = [*notes, *check_other_sizes(program, exported, request)]
    if request.options.validate:
        check_program(exported, request)
        notes = [*notes, "the exported program was compared with the module"]
    else:
        check_subclasses(exported, request)
    if request.options.save_ep is not None:
        save_program(exported, request.options.save_ep)
    tried = [
        f"exported with {strategy.name}, because {name} failed: {_reason(error)}"
        for name, error in attempts.failures
    ]
    patched = active_patches()
    if patched:
        tried.insert(0, f"bypass_export_some_errors: {', '.join(patched)}")
    program.notes[:0] = [*tried, *notes]
    return program


def _exporting(strict: bool) -> Strategy:
    def run(attempts: Attempts) -> tuple[ExportedProgram, list[str]]:
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

    return Strategy(f"torch.export, strict={strict}", "capture", run)


def _decomposing(table: Literal["default", "all"]) -> Strategy:
    """The first program that torch made, through a table of decompositions: operators without a
    converter may have one for their parts."""

    def run(attempts: Attempts) -> tuple[ExportedProgram, list[str]]:
        return attempts.made[0][1], []

    return Strategy(f"decomposition_table={table!r}", "decompose", run, table)


def _tracing() -> Strategy:
    def run(attempts: Attempts) -> tuple[ExportedProgram, list[str]]:
        request = attempts.request
        model = request.model
        with new_buffers_forgotten(model):
            exported, notes, attempts.paths = trace_program(
                model, request.args, request.kwargs, attempts.dynamic_shapes
            )
            return exported, notes

    return Strategy("tracing", "tracing", run)


def _rolling() -> Strategy:
    def run(attempts: Attempts) -> tuple[ExportedProgram, list[str]]:
        request = attempts.request
        model = request.model

        def functional(program: ExportedProgram) -> ExportedProgram:
            return prepared(
                program, request.tables, request.dispatcher, request.options, request.opset
            )[0]

        with (
            new_buffers_forgotten(model),
            shapes.ready(model, attempts.arguments, attempts.dynamic_shapes),
        ):
            return rolled_program(
                model, request.args, request.kwargs, attempts.dynamic_shapes, functional
            )

    return Strategy("rolled loops", "loops", run)


def _draft(attempts: Attempts) -> tuple[ExportedProgram, list[str]]:
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


def _refuse_missing(program: Program, request: Request, table: str | None) -> None:
    """Raise MissingConverters when a table of decompositions may mend it; if not, the conversion
    says more about what is missing."""
    known = traits.ASSERTION | traits.SIZE | traits.METADATA_ONLY
    missing: dict[str, OpOverload] = {}
    modules = program.graph_module.modules()
    for module in (each for each in modules if isinstance(each, GraphModule)):
        for node in module.graph.nodes:
            target = node.target
            if not isinstance(target, OpOverload) or target._schema.is_mutable:
                continue  # writes that are still there are harmless, see functionalize.py
            if target.name() not in known:
                name = target.name()
                if find_converter(request.tables, name, target, request.dispatcher) is None:
                    missing[name] = target
    if missing and table != "all" and can_decompose(list(missing.values())):
        raise MissingConverters(f"no converter for {', '.join(missing)}")


def _failure(attempts: Attempts) -> ExportError:
    mod, failures = attempts.request.model, attempts.failures
    fallback = attempts.request.options.fallback
    followed = attempts.followed
    if len(failures) > 1 and not fallback:
        followed += (advice.STRICT,)
    first = _one_failure(type(mod).__name__, failures[0][1], attempts, followed)
    text, details = first.message, first.details
    if not fallback:
        after = [f"\n{n} was tried after that: {_reason(error)}" for n, error in failures[1:]]
        return ExportError(text + "".join(after), details=details + "".join(after)).advised(
            *first.remedies
        )
    lines = [f"no strategy could export {type(mod).__name__}:"]
    lines += [f"  {name}: {_reason(error)}" for name, error in failures]
    if attempts.left_out:
        lines.append(f"  not tried, for they would fail too: {', '.join(attempts.left_out)}")
    if len(failures) > 1:
        lines.append(f"The first of them, {failures[0][0]}:")
    return ExportError("\n".join([*lines, text]), details="\n".join([*lines, details])).advised(
        *first.remedies
    )


def _one_failure(
    name: str, error: Exception, attempts: Attempts, tried: Collection[str] = ()
) -> ExportError:
    if isinstance(error, OrtableError):
        return ExportError(error.message, details=error.details).advised(*error.remedies)
    kind = advice.kind_of(error)
    if kind in advice.ABOUT_ARGUMENTS:
        found = shapes.explained(error, attempts.arguments, attempts.dynamic_shapes)
        places = advice.guard_lines(error)
        if found is not None:
            after = _fixed_at(places)
            if any(each.code.startswith("for ") or " for " in each.code for each in places):
                after.append(f"Or: {advice.LOOPS}.")
            if "Cache" in found.message:
                after.append(f"Or: {advice.BYPASS}.")
            return ExportError(
                "\n".join([found.message, *after]), details="\n".join([found.details, *after])
            )
        return ExportError(
            f"torch.export could not trace {name}: {advice.described(error, places, tried)}"
        )
    text = advice.described(error, tried=tried)
    return ExportError(f"torch.export could not trace {name}: {text}")


def _fixed_at(places: list[advice.UserLine]) -> list[str]:
    return ["The code that decides on a size:", *(f"  at {each}" for each in places)] * bool(places)


def _reason(error: Exception) -> str:
    line = None if isinstance(error, OrtableError) else advice.user_line(error)
    text = advice.headline(error)
    return text if line is None else f"{text} ({line.file}:{line.line})"


class MissingConverters(ExportError):
    """The program calls operators without a converter, which torch can take apart."""


class FailsInEager(ExportError):
    """The model raises on the example, without torch.export."""


def fallbacks_after(error: Exception, fallback: bool) -> frozenset[str]:
    """The ways that may succeed where one has failed with ``error``, among ``EVERY_WAY``."""
    if isinstance(error, MissingConverters):
        return frozenset({"decompose"})
    if isinstance(error, RewriteError):
        return frozenset({"capture"})
    if isinstance(error, (OptionError, FailsInEager)):
        return _NO_WAY
    if isinstance(error, OrtableError):  # the conversion failed, or a comparison with the module
        return frozenset({"capture", "loops", "tracing"}) if fallback else _NO_WAY
    return advice.kind_of(error).helped_by


def can_decompose(missing: Sequence[OpOverload]) -> bool:
    """Whether torch has a decomposition of every operator."""
    table = decomposition_table
    return all(overload in table or torch_decomposes(overload) for overload in missing)


def in_eager(error: Exception, request: Request) -> tuple[Exception, bool]:
    """``error``, or FailsInEager in its place when the model raises on the example by itself, which
    is asked only where torch's words leave it open; and whether it was asked, and runs. A copy of
    the module runs as the caller would run it, with gradients and autocast as they are there."""
    if isinstance(error, OrtableError) or advice.RUNS not in advice.kind_of(error).advice:
        return error, False
    module, call = request.model, (request.args, request.kwargs)
    tensors = (call, list(module.parameters()), list(module.buffers()))
    if any(is_fake(value) for value in pytree.tree_leaves(tensors)):
        return error, False
    try:
        copied = copied_module(module)
    except Exception:  # attributes may be of any class, and some cannot be copied
        return error, False
    args, kwargs = copied_call(*call)
    try:
        # A function that is an attribute of the copy may still belong to the module itself.
        with state_restored(module, call), torch.random.fork_rng(devices=[]), autocast_again():
            copied(*args, **kwargs)
    except Exception as raised:  # forward is any Python code
        line = advice.user_line(raised)
        where = "" if line is None else f"\n  at {line}"
        failure = FailsInEager(
            f"{type(module).__name__} raises on the example inputs, without torch.export too: "
            f"{type(raised).__name__}: {raised}{where}"
        )
        failure.__cause__ = raised
        return failure, False
    return error, True
