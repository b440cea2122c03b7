"""Implement ExportOptions(tracing=True): capture a module whose forward branches on the values of
tensors. strategies.py calls `trace_program`.

torch.export runs the forward once for each sequence of decisions, with fake tensors, under a mode
that answers ``bool(tensor)``. Each run gives a torch.fx graph of one path; path_merging.py makes
one graph of them, with a torch.cond for each decision, and torch.export captures that graph.
Nothing is specialized: a run stands for the inputs that decide as it did, and every other sequence
of decisions has a run of its own. A path that raises (an assert, a check of the inputs) is left
out, as ONNX has no operator that raises, and the model's steps say so.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

from ortable.compat.scoped_patch import set_context_var
from ortable.compat.torch import pytree
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import UserLine
from ortable.exporter.frontend.module_state import clone_with_forward, restore_state

from .concrete_values import ConcreteReads, ConcreteValues, buffers_of
from .export_failures import calling_line, is_user_file
from .path_merging import DecisionNode, TracedPath, is_same_tree, merge_paths

# Two to the number of independent decisions.
MAX_PATHS = 64
# In one run: a loop that ends on data has no end here.
MAX_DECISIONS = 40


@dataclass
class Decisions:
    """The answers of one run: ``planned`` first, then True. ``conditions`` are the tensors, None
    for a condition on sizes that depend on data; ``lines`` their source lines; ``on_sizes`` the
    answers to those conditions, by their text; ``failed`` is what forward raised.
    """

    planned: tuple[bool, ...]
    conditions: list[torch.Tensor | None] = field(default_factory=list)
    lines: list[UserLine | None] = field(default_factory=list)
    on_sizes: dict[str, bool] = field(default_factory=dict)
    failed: tuple[UserLine | None, Exception] | None = None
    answers: ConcreteReads = field(default_factory=ConcreteReads)

    def taken_answers(self) -> tuple[bool, ...]:
        """Return the answers of this run."""
        more = len(self.conditions) - len(self.planned)
        return self.planned + (True,) * more

    def condition_tensors(self) -> list[torch.Tensor]:
        """Return the tensors that were conditions."""
        return [condition for condition in self.conditions if condition is not None]

    def next_answer(self, condition: torch.Tensor | None, line: UserLine | None) -> bool:
        """Record a condition and return its answer."""
        number = len(self.conditions)
        if number == MAX_DECISIONS:
            raise _TooManyDecisions
        self.conditions.append(condition)
        self.lines.append(line)
        return self.planned[number] if number < len(self.planned) else True

    def reset_run(self) -> None:
        """Reset the run before forward begins."""
        self.conditions.clear()
        self.lines.clear()
        self.on_sizes.clear()


# Of the run that goes on in this thread.
_CURRENT_RUN: ContextVar[Decisions | None] = ContextVar("ortable_tracing_decisions", default=None)


def answer_on_sizes(condition: torch.SymBool) -> bool | None:
    """Return the current run's answer to a condition on sizes that depend on data; None where there
    is no run, or torch's own code decides.
    """
    decisions, line = _CURRENT_RUN.get(), calling_line(2, outside=True)
    if decisions is None or line is None:
        return None
    answer = _find_answer(condition, decisions)
    if answer is None:
        answer = decisions.next_answer(None, line)
        decisions.on_sizes[str(condition.node.expr)] = answer
    return answer


def _find_answer(condition: torch.SymBool, decisions: Decisions) -> bool | None:
    """Find the answer to the same condition, or to its opposite, in this run."""
    answer = decisions.on_sizes.get(str(condition.node.expr))
    if answer is None:
        opposite = decisions.on_sizes.get(str(torch.sym_not(condition).node.expr))
        answer = None if opposite is None else not opposite
    return answer


class _DecisionMode(TorchFunctionMode):
    """Answers ``bool(tensor)`` by plan, and records the tensor; likewise ``tensor.item()``
    of a bool.
    """

    def __init__(self, decisions: Decisions) -> None:
        super().__init__()
        self.decisions = decisions

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        is_decision = func is torch.Tensor.__bool__ or (
            func is torch.Tensor.item and args[0].dtype is torch.bool
        )
        if not is_decision:
            if self.decisions.on_sizes:
                args, kwargs = self.with_answers(args, kwargs or {})
            return func(*args, **(kwargs or {}))
        # a new tensor: the condition may be written to afterwards
        condition = args[0].reshape(())
        condition = condition.clone() if condition.dtype is torch.bool else condition.ne(0)
        return self.decisions.next_answer(condition, calling_line())

    def with_answers(self, args: Any, kwargs: Any) -> Any:
        """Replace conditions on sizes among the arguments by their answers: in Python ``n > 1 and
        flag`` is ``n > 1`` where that is false.
        """

        def replace_condition(leaf: Any) -> Any:
            if not isinstance(leaf, torch.SymBool):
                return leaf
            answer = _find_answer(leaf, self.decisions)
            return leaf if answer is None else answer

        return pytree.tree_map(replace_condition, (tuple(args), dict(kwargs)))


def trace_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> tuple[ExportedProgram, list[str], list[ExportedProgram]]:
    """Export ``module`` with both sides of every decision on data; return the program, notes, and
    the programs of its paths. Their guards are those of the whole, which has no Python code left
    that branches on sizes.

    Raises:
        ExportError: more than ``MAX_PATHS`` paths, every path raises, or the paths cannot be merged
            into one graph (a write in place, random numbers, results that differ in structure).
        Exception: torch.export failed on one path.
    """
    notes: list[str] = []
    tree = _explore_paths(module, args, kwargs, dynamic_shapes, notes)
    if isinstance(tree, TracedPath) and not tree.decisions:
        return tree.program, ["traced: one path", *notes], []
    paths = [leaf.program for leaf in tree.iter_paths()]
    graph_module = merge_paths(tree, module)
    program = torch.export.export(
        graph_module, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
    )
    if isinstance(tree, TracedPath):
        return program, ["traced: one path", *notes], paths
    decided = dict.fromkeys(str(line).partition("\n")[0] for line in tree.decision_lines())
    places = "; ".join(decided)
    return program, [f"traced: {tree.count_paths()} paths, which part at {places}", *notes], paths


def _explore_paths(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    notes: list[str],
) -> TracedPath | DecisionNode:
    """Run every path; those that raise are dropped from the tree."""
    runs: dict[tuple[bool, ...], tuple[Decisions, TracedPath | None]] = {}
    todo: list[tuple[bool, ...]] = [()]
    while todo:
        planned = todo.pop()
        decisions = Decisions(planned)
        path = _run_path(module, args, kwargs, dynamic_shapes, decisions)
        if len(decisions.conditions) < len(planned):
            raise ExportError(
                f"tracing: {type(module).__name__} decides otherwise when it is run again (random "
                "numbers, or state that it keeps in Python)"
            )
        answers = decisions.taken_answers()
        runs[answers] = (decisions, path)
        todo += [(*answers[:index], False) for index in range(len(planned), len(answers))]
        if len(runs) + len(todo) > MAX_PATHS:
            raise _too_many(module, f"{MAX_PATHS} paths", decisions)
    tree = _build_tree(runs, (), notes, module)
    if tree is None:
        _, error = next(
            run_decisions.failed
            for run_decisions, _ in runs.values()
            if run_decisions.failed is not None
        )
        raise error
    return tree


def _build_tree(
    runs: Mapping[tuple[bool, ...], tuple[Decisions, TracedPath | None]],
    prefix: tuple[bool, ...],
    notes: list[str],
    module: torch.nn.Module,
) -> TracedPath | DecisionNode | None:
    """Build the tree of the runs that begin with ``prefix``; None when all of them raise.

    Raises ExportError for a condition on sizes that depend on data whose sides differ.
    """
    if prefix in runs:
        decisions, path = runs[prefix]
        if path is None and decisions.failed is not None:
            line, error = decisions.failed
            notes.append(
                f"left out: {type(error).__name__} raised at "
                f"{str(line).partition(chr(10))[0]}; the model is right where it is not raised"
            )
        return path
    if_true = _build_tree(runs, (*prefix, True), notes, module)
    if_false = _build_tree(runs, (*prefix, False), notes, module)
    if if_true is None or if_false is None:
        return if_false if if_true is None else if_true
    decisions = next(
        run_decisions
        for answers, (run_decisions, _) in runs.items()
        if answers[: len(prefix)] == prefix
    )
    line = decisions.lines[len(prefix)]
    if decisions.conditions[len(prefix)] is not None:
        depth = sum(condition is not None for condition in decisions.conditions[: len(prefix)])
        return DecisionNode(depth, if_true, if_false, line)
    if not is_same_tree(if_true, if_false, module):
        raise ExportError(
            f"tracing: {type(module).__name__} decides on a size that depends on data, and "
            f"computes something else on the other side, at {line}"
        )
    return if_true


def _run_path(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    decisions: Decisions,
) -> TracedPath | None:
    """Export one path; None when forward raises on it."""
    clone = clone_with_forward(
        module, lambda forward, it: _deciding_forward(forward, decisions, it)
    )
    try:
        with restore_state(module, ()):  # each path begins with the module as it is
            program = torch.export.export(
                clone, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except _PathRaised:
        return None
    except _TooManyDecisions as error:
        raise _too_many(module, f"{MAX_DECISIONS} decisions in one run", decisions) from error
    written = decisions.answers.written | set(program.graph_signature.buffers_to_mutate.values())
    written &= decisions.answers.sources
    if written:
        raise ExportError(
            f"tracing: {type(module).__name__} reads a number from {', '.join(sorted(written))}, "
            "and writes to it in place: another call would read another number"
        )
    return TracedPath(program, len(decisions.condition_tensors()))


class _PathRaised(Exception):
    """Forward raised on this path."""


class _TooManyDecisions(Exception):
    """Forward exceeds the limit of decisions."""


def _too_many(module: torch.nn.Module, what: str, decisions: Decisions) -> ExportError:
    return ExportError(
        f"tracing: {type(module).__name__} has more than {what}, the last one is at "
        f"{decisions.lines[-1]}\nA loop that ends on data is a torch.while_loop; where two tensors "
        "are chosen from, use torch.where."
    )


def _deciding_forward(forward: Any, decisions: Decisions, module: torch.nn.Module) -> Any:
    real = buffers_of(module)

    @functools.wraps(forward)
    def run_forward(*args: Any, **kwargs: Any) -> Any:
        decisions.reset_run()
        mode = ConcreteValues(buffers_of(module), real, decisions.answers)
        try:
            with set_context_var(_CURRENT_RUN, decisions), _DecisionMode(decisions), mode:
                returned = forward(*args, **kwargs)
        except Exception as error:  # forward is any Python code
            line = None if isinstance(error, _TooManyDecisions) else _raised_at(error)
            if not decisions.conditions or line is None:
                raise
            decisions.failed = (line, error)
            raise _PathRaised from error
        conditions = decisions.condition_tensors()
        return (returned, conditions) if conditions else returned

    return run_forward


def _raised_at(error: Exception) -> UserLine | None:
    """Return the line of the model's own ``raise`` or ``assert``; None for an error of an operator,
    or of torch's tracing below it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not is_user_file(frames[-1].filename):
        return None
    return UserLine(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name)
