"""ExportOptions(loops=True): a module whose Python code loops over a free size. In come a module
and its call, out goes an ExportedProgram with one step of each loop, in a scan. Called by
strategies.py.

The forward runs as free_loops.py has it, with three steps of each loop, and rolling.py makes one of
them. Then it runs again with four: what a step leaves behind in Python (a counter, the length of a
list) would show as a difference between the two programs, and is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import pytree
from ortable.errors import ExportError
from ortable.exporter.account.resize import other_sizes
from ortable.exporter.request.caller_state import (
    autocast_again,
    copied_module,
    state_restored,
    with_forward,
)
from ortable.exporter.request.program import Program, Request
from ortable.ir.initializers import is_fake

from .free_loops import FreeLoop, LoopSession, Place, RollError, watched
from .program_check import find_differences, results_of
from .rolling import roll, same_graph

_STEPS, _MORE_STEPS = 3, 4
_FIRST_STEP = (
    "What to do: begin with a tensor in front of the loop, so that its first step is as the others",
    "  are; or give the dimension a torch.export.Dim whose range leaves that size out.",
)
Prepare = Callable[[ExportedProgram], ExportedProgram]


def rolled_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    prepare: Prepare,
) -> tuple[ExportedProgram, list[str]]:
    """The exported program of ``module`` with its loops over free sizes rolled, and what to say
    about it. ``prepare`` takes the writes in place out of a program.

    Raises:
        ExportError: there is no such loop, it is left early, its steps are not one, or what the
            module computes after it depends on how many steps were run.
        Exception: whatever torch.export raises.
    """

    def captured(steps: int, peeled: frozenset[Place]) -> tuple[ExportedProgram, LoopSession]:
        return _captured(module, args, kwargs, dynamic_shapes, prepare, steps, peeled)

    peeled: frozenset[Place] = frozenset()
    while True:
        try:
            program, session = captured(_STEPS, peeled)
            break
        except _Apart as apart:  # of a loop that is not among them: each is added once
            peeled |= {apart.place}
    try:
        other, _ = captured(_MORE_STEPS, peeled)
    except _Apart as apart:
        raise apart.error from apart.error.__cause__
    if not _same_programs(program, other):
        raise ExportError(
            f"what {type(module).__name__} computes after a loop over a free size depends on a "
            "number or a list that the loop leaves behind in Python:"
            + "".join(f"\n  the loop at {each.line}" for each in _distinct(session.loops))
            + "\nKeep it in a tensor, or put the list through torch.stack or torch.cat."
        )
    return program, _notes(session.loops)


class _Apart(Exception):
    """The first step of a loop may have to be apart from the others; ``error`` is what failed."""

    def __init__(self, place: Place, error: Exception) -> None:
        super().__init__(str(error))
        self.place, self.error = place, error


def _captured(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    prepare: Prepare,
    steps: int,
    peeled: frozenset[Place],
) -> tuple[ExportedProgram, LoopSession]:
    sessions: list[LoopSession] = []
    clone = with_forward(
        module, lambda forward, _: _watched_forward(module, forward, sessions, steps, peeled)
    )
    try:
        with state_restored(module, ()):  # each run begins with the module as it is
            program = torch.export.export(
                clone, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except RollError as error:
        if error.first:
            raise _Apart(error.loop.place, error) from error
        raise
    except Exception as error:  # forward is any Python code, torch.export raises many types
        if sessions and sessions[-1].active:
            loop = sessions[-1].active[-1]
            if loop.at == 0 and not loop.peeled:
                raise _Apart(loop.place, error) from error
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
        roll(program, session.loops)
    except RollError as error:
        if error.first:
            raise _Apart(error.loop.place, error) from error
        raise
    return program, session


def _watched_forward(
    module: torch.nn.Module,
    forward: Callable[..., Any],
    sessions: list[LoopSession],
    steps: int,
    peeled: frozenset[Place],
) -> Callable[..., Any]:
    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        session = LoopSession(steps, peeled)
        sessions.append(session)
        with watched(session, module):
            return forward(*args, **kwargs)

    return run


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


def _distinct(loops: Sequence[FreeLoop]) -> list[FreeLoop]:
    return list({each.place: each for each in loops}.values())


def _notes(loops: Sequence[FreeLoop]) -> list[str]:
    notes = []
    for each in _distinct(loops):
        count = sum(other.place == each.place for other in loops)
        where = "" if each.line is None else f"{Path(each.line.file).name}:{each.line.line}"
        first = ", the first step apart" if each.peeled else ""
        notes.append(f"rolled: {count} {'loop' if count == 1 else 'loops'} at {where}{first}")
    return notes


def check_other_sizes(program: Program, exported: ExportedProgram, request: Request) -> list[str]:
    """Compare the program with the module at other sizes than those of the example, where both have
    data; says at which.

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
            with autocast_again():
                expected = results_of(copied_module(request.model), other)
        except Exception:  # forward is any Python code: a size that it does not take
            continue
        try:
            found = results_of(exported.module(), other)
        except AssertionError:
            continue  # a size that the program refuses
        except Exception as error:  # there may be no value that the last step left behind
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} fails at {words}, where "
                f"the module does not: {type(error).__name__}: {error}"
            ).advised(*_FIRST_STEP) from error
        problems = find_differences(found, expected)
        if problems:
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} is another model at "
                f"{words}:\n" + "\n".join(problems)
            )
        done.append(words)
    return [f"compared with the module at {'; '.join(done)}"] if done else []
