"""Implement ExportOptions(loops=True): export Python loops over a dynamic size as scans.

strategies.py calls this module. dynamic_loops.py runs the forward with three steps of each loop,
and loop_rerolling.py merges the steps into one scan. The forward then runs again with four steps:
state that a step leaves in Python (a counter, the length of a list) makes the two programs differ,
and the model is rejected.
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
from ortable.exporter.reporting.example_sizes import resized_calls
from ortable.exporter.signature.dataclass_nodes import register_dataclasses
from ortable.ir.initializers import is_fake

from .dynamic_loops import DynamicLoop, LoopLocation, LoopSession, RerollError, intercept_loops
from .loop_rerolling import is_same_graph, reroll_loops
from .program_check import find_differences, results_of

_STEPS, _MORE_STEPS = 3, 4
_FIRST_STEP_ADVICE = (
    "What to do: create a tensor before the loop, so that its first step is like the others; or",
    "  give the dimension a torch.export.Dim whose range excludes that size.",
)
Prepare = Callable[[ExportedProgram], ExportedProgram]


def capture_with_loops(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    prepare: Prepare,
) -> tuple[ExportedProgram, list[str]]:
    """Export ``module`` with each loop over a dynamic size as a scan; return program and notes.

    ``prepare`` removes in-place writes from a program.

    Raises:
        ExportError: the module has no such loop, a loop is left early, its steps differ, or results
            after a loop depend on how many steps were captured.
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
        except _NeedsPeeling as peeling:  # a peeled loop is not peeled again
            peeled |= {peeling.location}
    try:
        longer, _ = capture_steps(_MORE_STEPS, peeled)
    except _NeedsPeeling as peeling:
        raise peeling.error from peeling.error.__cause__
    if not _same_programs(program, longer):
        raise ExportError(
            f"results of {type(module).__name__} after a loop over a dynamic size depend on a "
            "number or a list that the loop leaves behind in Python:"
            + "".join(f"\n  the loop at {loop.line}" for loop in _unique_loops(session.loops))
            + "\nStore the number in a tensor, or pass the list to torch.stack or torch.cat."
        )
    return program, _describe_loops(session.loops)


class _NeedsPeeling(Exception):
    """The first step of a loop may have to stay outside of the scan; ``error`` is the failure."""

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
        with restore_state(module, ()):  # each run starts from the module's original state
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
            # peeling may help: the index of a peeled first step is the number 0
            if loop.current_step == 0 and not loop.peeled:
                raise _NeedsPeeling(loop.location, error) from error
        raise
    session = sessions[-1]
    broken_loop = session.broken or next(iter(session.active), None)
    if broken_loop is not None:
        raise ExportError(
            f"a loop over a dynamic size is left early (break or return)\n  at {broken_loop.line}"
        )
    if not session.loops:
        raise ExportError(f"{type(module).__name__} has no loop over a dynamic size")
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
            return register_dataclasses(forward(*args, **kwargs))

    return run_forward


def _same_programs(left: ExportedProgram, right: ExportedProgram) -> bool:
    """Whether two programs compute the same from the same weights and constants."""
    if not is_same_graph(left.graph_module, right.graph_module):
        return False
    for left_spec, right_spec in zip(
        left.graph_signature.input_specs, right.graph_signature.input_specs, strict=True
    ):
        if left_spec.kind != right_spec.kind:
            return False
        values = [
            program.constants.get(str(spec.target))
            for program, spec in ((left, left_spec), (right, right_spec))
        ]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if len(tensors) == 2 and not any(map(is_fake, tensors)):
            if tensors[0] is not tensors[1] and not torch.equal(*tensors):
                return False
        elif left_spec.target != right_spec.target:
            return False
    outputs = [
        [(output.kind, output.target) for output in exported.graph_signature.output_specs]
        for exported in (left, right)
    ]
    return outputs[0] == outputs[1]


def _unique_loops(loops: Sequence[DynamicLoop]) -> list[DynamicLoop]:
    return list({loop.location: loop for loop in loops}.values())


def _describe_loops(loops: Sequence[DynamicLoop]) -> list[str]:
    notes = []
    for loop in _unique_loops(loops):
        count = sum(other.location == loop.location for other in loops)
        location = "" if loop.line is None else f"{Path(loop.line.file).name}:{loop.line.line}"
        peeling = ", first step peeled" if loop.peeled else ""
        notes.append(f"rolled: {count} {'loop' if count == 1 else 'loops'} at {location}{peeling}")
    return notes


def check_other_sizes(program: Program, exported: ExportedProgram, request: Request) -> list[str]:
    """Compare ``exported`` with the module at other sizes; return a note with the sizes, or none.

    Nothing is compared if weights or inputs are fake. Raises ExportError if the results differ, or
    if only the program fails.
    """
    call = (request.args, dict(request.kwargs))
    if any(map(is_fake, pytree.tree_leaves((dict(exported.state_dict), call)))):
        return []
    compared = []
    for size_text, other_call in resized_calls(program, call):
        if other_call is None:
            continue
        try:
            with caller_autocast():
                expected = results_of(copy_module(request.model), other_call)
        except Exception:  # forward is any Python code, and may reject a size
            continue
        try:
            results = results_of(exported.module(), other_call)
        except AssertionError:
            continue  # the program rejects this size
        except Exception as error:  # without steps, values of a last step do not exist
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} fails at {size_text}, "
                f"where the module does not: {type(error).__name__}: {error}"
            ).with_advice(*_FIRST_STEP_ADVICE) from error
        problems = find_differences(results, expected)
        if problems:
            raise ExportError(
                f"with its loops rolled, {type(request.model).__name__} differs from the module at "
                f"{size_text}:\n" + "\n".join(problems)
            )
        compared.append(size_text)
    return [f"compared with the module at {'; '.join(compared)}"] if compared else []
