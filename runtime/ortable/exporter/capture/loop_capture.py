"""Implement ExportOptions(loops=True): capture a module whose Python code loops over a dynamic size
as an ExportedProgram with a scan for each loop. strategies.py calls it.

dynamic_loops.py runs the forward with three steps of each loop, and loop_rerolling.py makes one of
them. Then it runs again with four: state that a step leaves behind in Python (a counter, the length
of a list) shows as a difference between the two programs, and is rejected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import pytree
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.frontend.module_state import (
    caller_autocast,
    clone_with_forward,
    copy_module,
    restore_state,
)
from ortable.exporter.reporting.example_sizes import other_sizes
from ortable.ir.initializers import is_fake

from .dynamic_loops import DynamicLoop, LoopLocation, LoopSession, RerollError, intercept_loops
from .loop_rerolling import reroll_loops, same_graph
from .program_check import find_differences, results_of

_STEPS, _MORE_STEPS = 3, 4
_FIRST_STEP = (
    "What to do: begin with a tensor in front of the loop, so that its first step is as the others",
    "  are; or give the dimension a torch.export.Dim whose range leaves that size out.",
)
Prepare = Callable[[ExportedProgram], ExportedProgram]


def capture_with_loops(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    prepare: Prepare,
) -> tuple[ExportedProgram, list[str]]:
    """Export ``module`` with its loops over dynamic sizes re-rolled; return the program and notes.
    ``prepare`` removes writes in place from a program.

    Raises:
        ExportError: there is no such loop, it is left early, its steps differ, or what the module
            computes after it depends on how many steps were run.
        Exception: torch.export failed.
    """

    def capture_steps(
        steps: int, peeled: frozenset[LoopLocation]
    ) -> tuple[ExportedProgram, LoopSession]:
        return _capture_steps(module, args, kwargs, dynamic_shapes, prepare, steps, peeled)

    peeled: frozenset[LoopLocation] = frozenset()
    while True:
        try:
            program, session = capture_steps(_STEPS, peeled)
            break
        except _NeedsPeeling as peeling:  # of a loop that is not among them: each is added once
            peeled |= {peeling.location}
    try:
        other, _ = capture_steps(_MORE_STEPS, peeled)
    except _NeedsPeeling as peeling:
        raise peeling.error from peeling.error.__cause__
    if not _same_programs(program, other):
        raise ExportError(
            f"what {type(module).__name__} computes after a loop over a free size depends on a "
            "number or a list that the loop leaves behind in Python:"
            + "".join(f"\n  the loop at {loop.line}" for loop in _unique_loops(session.loops))
            + "\nKeep it in a tensor, or put the list through torch.stack or torch.cat."
        )
    return program, _describe_loops(session.loops)


class _NeedsPeeling(Exception):
    """The first step of a loop may have to be peeled; ``error`` is the failure."""

    def __init__(self, location: LoopLocation, error: Exception) -> None:
        super().__init__(str(error))
        self.location, self.error = location, error


def _capture_steps(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    prepare: Prepare,
    steps: int,
    peeled: frozenset[LoopLocation],
) -> tuple[ExportedProgram, LoopSession]:
    sessions: list[LoopSession] = []
    clone = clone_with_forward(
        module, lambda forward, _: _forward_with_session(module, forward, sessions, steps, peeled)
    )
    try:
        with restore_state(module, ()):  # each run begins with the module as it is
            program = torch.export.export(
                clone, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except RerollError as error:
        if error.peelable:
            raise _NeedsPeeling(error.loop.location, error) from error
        raise
    except Exception as error:  # forward is any Python code, torch.export raises many types
        if sessions and sessions[-1].active:
            loop = sessions[-1].active[-1]
            if loop.current_step == 0 and not loop.peeled:
                raise _NeedsPeeling(loop.location, error) from error
        raise
    session = sessions[-1]
    left = session.broken or next(iter(session.active), None)
    if left is not None:
        raise ExportError(
            f"a loop over a free size is left early (break, return)\n  at {left.line}"
        )
    if not session.loops:
        raise ExportError(f"{type(module).__name__} has no loop over a free size")
    program = prepare(program)
    try:
        reroll_loops(program, session.loops)
    except RerollError as error:
        if error.peelable:
            raise _NeedsPeeling(error.loop.location, error) from error
        raise
    return program, session


def _forward_with_session(
    module: torch.nn.Module,
    forward: Callable[..., Any],
    sessions: list[LoopSession],
    steps: int,
    peeled: frozenset[LoopLocation],
) -> Callable[..., Any]:
    @functools.wraps(forward)
    def run_forward(*args: Any, **kwargs: Any) -> Any:
        session = LoopSession(steps, peeled)
        sessions.append(session)
        with intercept_loops(session, module):
            return forward(*args, **kwargs)

    return run_forward


def _same_programs(one: ExportedProgram, other: ExportedProgram) -> bool:
    """Whether two programs compute the same from the same weights and constants."""
    if not same_graph(one.graph_module, other.graph_module):
        return False
    for mine, its in zip(
        one.graph_signature.input_specs, other.graph_signature.input_specs, strict=True
    ):
        if mine.kind != its.kind:
            return False
        values = [
            program.constants.get(str(spec.target)) for program, spec in ((one, mine), (other, its))
        ]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if len(tensors) == 2 and not any(map(is_fake, tensors)):
            if tensors[0] is not tensors[1] and not torch.equal(*tensors):
                return False
        elif mine.target != its.target:
            return False
    kinds = [[(s.kind, s.target) for s in p.graph_signature.output_specs] for p in (one, other)]
    return kinds[0] == kinds[1]


def _unique_loops(loops: Sequence[DynamicLoop]) -> list[DynamicLoop]:
    return list({loop.location: loop for loop in loops}.values())


def _describe_loops(loops: Sequence[DynamicLoop]) -> list[str]:
    notes = []
    for loop in _unique_loops(loops):
        count = sum(other.location == loop.location for other in loops)
        where = "" if loop.line is None else f"{Path(loop.line.file).name}:{loop.line.line}"
        first = ", the first step apart" if loop.peeled else ""
        notes.append(f"rolled: {count} {'loop' if count == 1 else 'loops'} at {where}{first}")
    return notes


def check_other_sizes(program: Program, exported: ExportedProgram, request: Request) -> list[str]:
    """Compare the program with the module at other sizes than those of the example, where both have
    data; return a note with the sizes.

    Raises ExportError where they differ.
    """
    call = (request.args, dict(request.kwargs))
    if any(map(is_fake, pytree.tree_leaves((dict(exported.state_dict), call)))):
        return []
    done = []
    for words, other in other_sizes(program, call):
        if other is None:
            continue
        try:
            with caller_autocast():
                expected = results_of(copy_module(request.model), other)
        except Exception:  # forward is any Python code: a size that it does not take
            continue
        try:
            results = results_of(exported.module(), other)
        except AssertionError:
            continue  # a size that the program refuses
        except Exception as error:  # there may be no value that the last step left behind
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} fails at {words}, where "
                f"the module does not: {type(error).__name__}: {error}"
            ).with_advice(*_FIRST_STEP) from error
        problems = find_differences(results, expected)
        if problems:
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} is another model at "
                f"{words}:\n" + "\n".join(problems)
            )
        done.append(words)
    return [f"compared with the module at {'; '.join(done)}"] if done else []
