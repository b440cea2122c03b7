"""Capture a module whose forward branches on tensor values: ExportOptions(tracing=True).

strategies.py calls `trace_program`. torch.export runs the forward once per sequence of decisions,
with fake tensors, under a mode that answers ``bool(tensor)``. Each run yields the torch.fx graph of
one path. path_merging.py merges the paths into one graph with a torch.cond per decision, and
torch.export captures the merged graph. Nothing is specialized: every sequence of decisions has its
own run, so the merged graph covers all inputs. A path that raises (an assert, a check of the
inputs) is dropped, since ONNX has no operator that raises; a note in the report's steps says so.
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
from ortable.exporter.signature.dataclass_nodes import register_dataclasses

from .concrete_values import ConcreteReads, ConcreteValues, get_buffers
from .export_failures import find_calling_line, is_user_file
from .path_merging import DecisionNode, TracedPath, is_same_tree, merge_paths

# n independent decisions make 2**n paths.
MAX_PATHS = 64
# Per run: the default answer is True, so a loop whose end depends on data would never end.
MAX_DECISIONS = 40


@dataclass
class Decisions:
    """The conditions that one run of forward evaluated, and the answers to them.

    The answers are ``planned``, then True for every later condition. Per condition, ``conditions``
    has the tensor (None: a condition on data-dependent sizes) and ``lines`` the source line.
    ``on_sizes`` maps the text of a condition on such sizes to its answer; ``failed`` is the line
    and the exception where forward raised; ``answers`` records which buffers forward read numbers
    from.
    """

    planned: tuple[bool, ...]
    conditions: list[torch.Tensor | None] = field(default_factory=list)
    lines: list[UserLine | None] = field(default_factory=list)
    on_sizes: dict[str, bool] = field(default_factory=dict)
    failed: tuple[UserLine | None, Exception] | None = None
    answers: ConcreteReads = field(default_factory=ConcreteReads)

    def taken_answers(self) -> tuple[bool, ...]:
        """Return the answer to every condition of this run."""
        default_count = len(self.conditions) - len(self.planned)
        return self.planned + (True,) * default_count

    def condition_tensors(self) -> list[torch.Tensor]:
        """Return the conditions that are tensors."""
        return [condition for condition in self.conditions if condition is not None]

    def next_answer(self, condition: torch.Tensor | None, line: UserLine | None) -> bool:
        """Record a condition and return its answer."""
        index = len(self.conditions)
        if index == MAX_DECISIONS:
            raise _TooManyDecisions
        self.conditions.append(condition)
        self.lines.append(line)
        return self.planned[index] if index < len(self.planned) else True

    def reset_run(self) -> None:
        """Clear what an earlier run of forward recorded."""
        self.conditions.clear()
        self.lines.clear()
        self.on_sizes.clear()


# The decisions of the run in progress, per thread.
_CURRENT_RUN: ContextVar[Decisions | None] = ContextVar("ortable_tracing_decisions", default=None)


def answer_size_condition(condition: torch.SymBool) -> bool | None:
    """Answer a condition on data-dependent sizes for the current run.

    Returns:
        The answer; None outside of a run, or if torch's own code evaluates the condition.
    """
    decisions, line = _CURRENT_RUN.get(), find_calling_line(2, outside=True)
    if decisions is None or line is None:
        return None
    answer = _find_answer(condition, decisions)
    if answer is None:
        answer = decisions.next_answer(None, line)
        decisions.on_sizes[str(condition.node.expr)] = answer
    return answer


def _find_answer(condition: torch.SymBool, decisions: Decisions) -> bool | None:
    """Return this run's answer to the same condition, or the negated answer to its opposite."""
    answer = decisions.on_sizes.get(str(condition.node.expr))
    if answer is None:
        opposite = decisions.on_sizes.get(str(torch.sym_not(condition).node.expr))
        answer = None if opposite is None else not opposite
    return answer


class _DecisionMode(TorchFunctionMode):
    """Answers ``bool(tensor)``, and ``item()`` of a bool tensor, and records the tensor."""

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
                args, kwargs = self.replace_conditions(args, kwargs or {})
            return func(*args, **(kwargs or {}))
        # a copy, since forward may write to the tensor in place afterwards
        condition = args[0].reshape(())
        condition = condition.clone() if condition.dtype is torch.bool else condition.ne(0)
        return self.decisions.next_answer(condition, find_calling_line())

    def replace_conditions(self, args: Any, kwargs: Any) -> Any:
        """Replace symbolic conditions on sizes among the arguments by their answers.

        If ``n > 1`` is false, Python evaluates ``n > 1 and flag`` to the SymBool ``n > 1``
        itself, and forward may pass that to an operator.
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
    """Export ``module`` with both sides of every decision on data.

    Returns:
        The program, notes for the report, and the programs of the merged paths (none if forward
        decides nothing). Their guards apply to the merged program, whose own export records none,
        since the merged graph has no Python code that branches on sizes.

    Raises:
        ExportError: there are too many paths or decisions, they differ in another run, or the paths
            cannot be merged into one graph (a write in place, numbers of Python's random module,
            results that differ in structure).
        Exception: torch.export failed on one path, or forward raises on every path.
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
    locations = dict.fromkeys(str(line).partition("\n")[0] for line in tree.decision_lines())
    location_list = "; ".join(locations)
    return (
        program,
        [f"traced: {tree.count_paths()} paths, diverging at {location_list}", *notes],
        paths,
    )


def _explore_paths(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    notes: list[str],
) -> TracedPath | DecisionNode:
    """Run every path and return the tree of the paths that do not raise."""
    runs: dict[tuple[bool, ...], tuple[Decisions, TracedPath | None]] = {}
    # The shortest prefix first: its run finds the most new ones, so the limit is met early. But a
    # decision on sizes is followed by its other side, since the two have to be equal.
    pending: list[tuple[bool, ...]] = [()]
    pending_on_sizes: list[tuple[bool, ...]] = []
    while pending or pending_on_sizes:
        planned = pending_on_sizes.pop() if pending_on_sizes else pending.pop(0)
        decisions = Decisions(planned)
        path = _run_path(module, args, kwargs, dynamic_shapes, decisions)
        if len(decisions.conditions) < len(planned):
            raise ExportError(
                f"tracing: {type(module).__name__} makes different decisions when it runs again "
                "(it uses random numbers, or has state in Python)"
            )
        answers = decisions.taken_answers()
        runs[answers] = (decisions, path)
        if answers and decisions.conditions[-1] is None:
            _, other_path = runs.get((*answers[:-1], not answers[-1]), (None, None))
            if path is not None and other_path is not None:
                _check_same_sides(path, other_path, decisions.lines[-1], module)
        for index in range(len(planned), len(answers)):
            on_sizes = decisions.conditions[index] is None
            (pending_on_sizes if on_sizes else pending).append((*answers[:index], False))
        if len(runs) + len(pending) + len(pending_on_sizes) > MAX_PATHS:
            raise _make_limit_error(module, f"{MAX_PATHS} paths", decisions)
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
    """Build the tree of the runs whose answers begin with ``prefix``; None if all of them raise.

    Raises ExportError if the two sides of a condition on data-dependent sizes differ.
    """
    if prefix in runs:
        decisions, path = runs[prefix]
        if path is None and decisions.failed is not None:
            line, error = decisions.failed
            notes.append(
                f"left out: {type(error).__name__} raised at "
                f"{str(line).partition(chr(10))[0]}; the exported model is correct for "
                "inputs that do not raise it"
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
    _check_same_sides(if_true, if_false, line, module)
    return if_true


def _check_same_sides(
    first: TracedPath | DecisionNode,
    second: TracedPath | DecisionNode,
    line: UserLine | None,
    module: torch.nn.Module,
) -> None:
    """Raise ExportError if the sides of a condition on data-dependent sizes differ."""
    if not is_same_tree(first, second, module):
        raise ExportError(
            f"tracing: {type(module).__name__} branches on a data-dependent size, and its "
            f"branches compute different results, at {line}"
        )


def _run_path(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    decisions: Decisions,
) -> TracedPath | None:
    """Export one path; return None if forward raises on it."""
    clone = clone_with_forward(
        module, lambda forward, cloned: _wrap_forward(forward, decisions, cloned)
    )
    try:
        with restore_state(module, ()):  # every path starts from the same module state
            program = torch.export.export(
                clone, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except _PathRaised:
        return None
    except _TooManyDecisions as error:
        raise _make_limit_error(
            module, f"{MAX_DECISIONS} decisions in one run", decisions
        ) from error
    written = decisions.answers.written | set(program.graph_signature.buffers_to_mutate.values())
    written &= decisions.answers.sources
    if written:
        raise ExportError(
            f"tracing: {type(module).__name__} reads a number from {', '.join(sorted(written))}, "
            "and writes to it in place: a later call would read a different number"
        )
    return TracedPath(program, len(decisions.condition_tensors()))


class _PathRaised(Exception):
    """Forward raised on this path."""


class _TooManyDecisions(Exception):
    """Forward evaluates more conditions than ``MAX_DECISIONS``."""


def _make_limit_error(module: torch.nn.Module, limit: str, decisions: Decisions) -> ExportError:
    return ExportError(
        f"tracing: {type(module).__name__} has more than {limit}; the last decision is at "
        f"{decisions.lines[-1]}\nWrite a loop whose end depends on data as torch.while_loop, and a "
        "choice between two tensors as torch.where."
    )


def _wrap_forward(forward: Any, decisions: Decisions, module: torch.nn.Module) -> Any:
    """Return a forward that answers its decisions, and returns ``(result, conditions)``."""
    real_buffers = get_buffers(module)

    @functools.wraps(forward)
    def run_forward(*args: Any, **kwargs: Any) -> Any:
        decisions.reset_run()
        mode = ConcreteValues(get_buffers(module), real_buffers, decisions.answers)
        try:
            with set_context_var(_CURRENT_RUN, decisions), _DecisionMode(decisions), mode:
                result = register_dataclasses(forward(*args, **kwargs))
        except Exception as error:  # forward may raise any type
            line = None if isinstance(error, _TooManyDecisions) else _find_raise_line(error)
            if not decisions.conditions or line is None:
                raise
            decisions.failed = (line, error)
            raise _PathRaised from error
        conditions = decisions.condition_tensors()
        return (result, conditions) if conditions else result

    return run_forward


def _find_raise_line(error: Exception) -> UserLine | None:
    """Return the line of the model's own ``raise`` or ``assert``.

    None for an error of an operator, or of torch's tracing.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not is_user_file(frames[-1].filename):
        return None
    return UserLine(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name)
