"""ExportOptions(tracing=True): a module whose forward decides on the values of tensors. In come a
module and its call, out goes an ExportedProgram. Called by strategies.py.

The forward is run once for each sequence of decisions, by torch.export with fake tensors, under a
mode that answers ``bool(tensor)``. Each run gives a torch.fx graph of one path; decision_tree.py
makes one graph of them, with a torch.cond for each decision, and torch.export sees that graph.
Nothing is specialised: a run stands for the inputs that decide as it did, and every other sequence
of decisions has a run of its own. A path that raises (an assert, a check of the inputs) is left
out, as ONNX has no operator that raises, and the model's steps say so."""

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

from ortable.compat.torch import pytree
from ortable.compat.undone import value_set
from ortable.errors import ExportError
from ortable.exporter.request.caller_state import state_restored, with_forward
from ortable.exporter.request.program import UserLine

from .export_failures import calling_line, is_user_file
from .known_values import Answers, KnownValues, buffers_of
from .path_merging import DecisionNode, TracedPath, is_same_tree, merge_paths

# Two to the number of independent decisions.
MOST_PATHS = 64
# In one run: a loop that ends on data has no end here.
MOST_DECISIONS = 40


@dataclass
class Decisions:
    """The answers of one run: ``planned`` first, then True. ``asked`` are the tensors, None for a
    condition on sizes that depend on data; ``lines`` where they were asked for; ``on_sizes`` the
    answers to those conditions, by their text; ``failed`` is what forward raised."""

    planned: tuple[bool, ...]
    asked: list[torch.Tensor | None] = field(default_factory=list)
    lines: list[UserLine | None] = field(default_factory=list)
    on_sizes: dict[str, bool] = field(default_factory=dict)
    failed: tuple[UserLine | None, Exception] | None = None
    answers: Answers = field(default_factory=Answers)

    def taken(self) -> tuple[bool, ...]:
        """What was answered in this run."""
        more = len(self.asked) - len(self.planned)
        return self.planned + (True,) * more

    def tensors(self) -> list[torch.Tensor]:
        """The tensors that were asked."""
        return [asked for asked in self.asked if asked is not None]

    def answer(self, asked: torch.Tensor | None, line: UserLine | None) -> bool:
        """The next answer."""
        number = len(self.asked)
        if number == MOST_DECISIONS:
            raise _Endless
        self.asked.append(asked)
        self.lines.append(line)
        return self.planned[number] if number < len(self.planned) else True

    def start(self) -> None:
        """Forward runs from its beginning."""
        self.asked.clear()
        self.lines.clear()
        self.on_sizes.clear()


# Of the run that goes on in this thread.
_RUNNING: ContextVar[Decisions | None] = ContextVar("ortable_tracing_decisions", default=None)


def answer_on_sizes(condition: torch.SymBool) -> bool | None:
    """The answer of the run that goes on to a condition on sizes that depend on data, None where
    there is no run, or torch's own code asks."""
    decisions, line = _RUNNING.get(), calling_line(2, outside=True)
    if decisions is None or line is None:
        return None
    known = _answered(condition, decisions)
    if known is None:
        known = decisions.answer(None, line)
        decisions.on_sizes[str(condition.node.expr)] = known
    return known


def _answered(condition: torch.SymBool, decisions: Decisions) -> bool | None:
    """What was answered to the same condition, or to its opposite, in this run."""
    found = decisions.on_sizes.get(str(condition.node.expr))
    if found is None:
        opposite = decisions.on_sizes.get(str(torch.sym_not(condition).node.expr))
        found = None if opposite is None else not opposite
    return found


class _Deciding(TorchFunctionMode):
    """Answers ``bool(tensor)`` by plan, and keeps the tensor; so it does ``tensor.item()`` of a
    bool."""

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
        asks = func is torch.Tensor.__bool__ or (
            func is torch.Tensor.item and args[0].dtype is torch.bool
        )
        if not asks:
            if self.decisions.on_sizes:
                args, kwargs = self.with_answers(args, kwargs or {})
            return func(*args, **(kwargs or {}))
        # a new tensor: the one that was asked may be written to afterwards
        asked = args[0].reshape(())
        asked = asked.clone() if asked.dtype is torch.bool else asked.ne(0)
        return self.decisions.answer(asked, calling_line())

    def with_answers(self, args: Any, kwargs: Any) -> Any:
        """The arguments, with the answers to conditions on sizes in place of the conditions: in
        Python ``n > 1 and flag`` is ``n > 1`` where that is not so."""

        def answered(leaf: Any) -> Any:
            if not isinstance(leaf, torch.SymBool):
                return leaf
            found = _answered(leaf, self.decisions)
            return leaf if found is None else found

        return pytree.tree_map(answered, (tuple(args), dict(kwargs)))


def trace_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> tuple[ExportedProgram, list[str], list[ExportedProgram]]:
    """The exported program of ``module`` with both sides of every decision on data, what to say
    about it, and the programs of the paths that it is made of: their guards are those of the whole,
    which has no Python code left that asks for sizes.

    Raises:
        ExportError: more than ``MOST_PATHS`` paths, every path raises, or the paths cannot be made
            one graph (a write in place, random numbers, results that differ in structure).
        Exception: whatever torch.export raises about one path.
    """
    notes: list[str] = []
    tree = _explore(module, args, kwargs, dynamic_shapes, notes)
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


def _explore(
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
        path = _run(module, args, kwargs, dynamic_shapes, decisions)
        if len(decisions.asked) < len(planned):
            raise ExportError(
                f"tracing: {type(module).__name__} decides otherwise when it is run again (random "
                "numbers, or state that it keeps in Python)"
            )
        taken = decisions.taken()
        runs[taken] = (decisions, path)
        todo += [(*taken[:index], False) for index in range(len(planned), len(taken))]
        if len(runs) + len(todo) > MOST_PATHS:
            raise _too_many(module, f"{MOST_PATHS} paths", decisions)
    tree = _tree(runs, (), notes, module)
    if tree is None:
        _, error = next(each.failed for each, _ in runs.values() if each.failed is not None)
        raise error
    return tree


def _tree(
    runs: Mapping[tuple[bool, ...], tuple[Decisions, TracedPath | None]],
    prefix: tuple[bool, ...],
    notes: list[str],
    module: torch.nn.Module,
) -> TracedPath | DecisionNode | None:
    """The tree of the runs that begin with ``prefix``; None when all of them raise.

    Raises ExportError for a condition on sizes that depend on data whose sides are not the same.
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
    yes = _tree(runs, (*prefix, True), notes, module)
    no = _tree(runs, (*prefix, False), notes, module)
    if yes is None or no is None:
        return no if yes is None else yes
    decisions = next(each for taken, (each, _) in runs.items() if taken[: len(prefix)] == prefix)
    line = decisions.lines[len(prefix)]
    if decisions.asked[len(prefix)] is not None:
        depth = sum(asked is not None for asked in decisions.asked[: len(prefix)])
        return DecisionNode(depth, yes, no, line)
    if not is_same_tree(yes, no, module):
        raise ExportError(
            f"tracing: {type(module).__name__} decides on a size that depends on data, and "
            f"computes something else on the other side, at {line}"
        )
    return yes


def _run(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    decisions: Decisions,
) -> TracedPath | None:
    """Export one path; None when forward raises on it."""
    clone = with_forward(module, lambda forward, it: _deciding_forward(forward, decisions, it))
    try:
        with state_restored(module, ()):  # each path begins with the module as it is
            program = torch.export.export(
                clone, args, dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except _Raised:
        return None
    except _Endless as error:
        raise _too_many(module, f"{MOST_DECISIONS} decisions in one run", decisions) from error
    written = decisions.answers.written | set(program.graph_signature.buffers_to_mutate.values())
    written &= decisions.answers.sources
    if written:
        raise ExportError(
            f"tracing: {type(module).__name__} reads a number from {', '.join(sorted(written))}, "
            "and writes to it in place: another call would read another number"
        )
    return TracedPath(program, len(decisions.tensors()))


class _Raised(Exception):
    """forward raised on this path."""


class _Endless(Exception):
    """forward asks for one decision after the other."""


def _too_many(module: torch.nn.Module, what: str, decisions: Decisions) -> ExportError:
    return ExportError(
        f"tracing: {type(module).__name__} has more than {what}, the last one is at "
        f"{decisions.lines[-1]}\nA loop that ends on data is a torch.while_loop; where two tensors "
        "are chosen from, use torch.where."
    )


def _deciding_forward(forward: Any, decisions: Decisions, module: torch.nn.Module) -> Any:
    real = buffers_of(module)

    @functools.wraps(forward)
    def deciding(*args: Any, **kwargs: Any) -> Any:
        decisions.start()
        known = KnownValues(buffers_of(module), real, decisions.answers)
        try:
            with value_set(_RUNNING, decisions), _Deciding(decisions), known:
                returned = forward(*args, **kwargs)
        except Exception as error:  # forward is any Python code
            line = None if isinstance(error, _Endless) else _raised_at(error)
            if not decisions.asked or line is None:
                raise
            decisions.failed = (line, error)
            raise _Raised from error
        asked = decisions.tensors()
        return (returned, asked) if asked else returned

    return deciding


def _raised_at(error: Exception) -> UserLine | None:
    """Where the model's own ``raise`` or ``assert`` is; None for an error of an operator, or of
    torch's tracing below it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not is_user_file(frames[-1].filename):
        return None
    return UserLine(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name)
