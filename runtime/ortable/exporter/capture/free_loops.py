"""A forward whose Python loops run over a free size, run with fake tensors: a few steps stand for
all of them. In come a forward and how many steps to run, out go its results, and marks in torch's
graph that rolling.py makes a scan of. Called by rolled.py.

While the forward runs, ``range``, ``zip``, ``enumerate`` and ``len`` of the model's own files are
those of this module, which are Python's wherever no free size is given; and a mode sees the calls
of torch. It answers ``iter(x)`` of a free size, and keeps which step of which loop made which
tensor, so that a list that a loop filled can be stacked to as many rows as there are steps."""

from __future__ import annotations

import abc
import builtins
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ortable.compat.torch import base_of, check, pytree, statically_known_true
from ortable.compat.undone import undone
from ortable.errors import ExportError
from ortable.exporter.capture.export_failures import calling_line, is_user_file
from ortable.exporter.request.program import UserLine


@torch.library.custom_op("ortable_loops::step", mutates_args=())
def step(made: Sequence[torch.Tensor], length: int, loop: int, number: int) -> torch.Tensor:
    """Where step ``number`` of a loop begins: its index, int64 [].

    ``made`` are the tensors of the step before; that the graph reads them here keeps them, and
    what was written into them, in front of the mark.
    """
    return torch.full((), number, dtype=torch.int64)


@step.register_fake
def _step(made: Sequence[torch.Tensor], length: int, loop: int, number: int) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64)


@torch.library.custom_op("ortable_loops::collect", mutates_args=())
def collect(items: Sequence[torch.Tensor], length: int, loop: int, dim: int) -> torch.Tensor:
    """The tensors of ``length`` steps, stacked along ``dim``; ``items`` are those of the steps that
    were captured."""
    return torch.stack(list(items), dim)


@collect.register_fake
def _collect(items: Sequence[torch.Tensor], length: int, loop: int, dim: int) -> torch.Tensor:
    shape = list(items[0].shape)
    shape.insert(dim, length)
    return items[0].new_empty(shape)


STEP: Any = torch.ops.ortable_loops.step.default
COLLECT: Any = torch.ops.ortable_loops.collect.default

_RANGE, _ZIP, _ENUMERATE, _LEN = builtins.range, builtins.zip, builtins.enumerate, builtins.len
Place = tuple[str, int]


@dataclass(eq=False)
class FreeLoop:
    """One run of a loop statement: its number, how many steps it stands for, where it is, whether
    its first step is apart, and how far it is."""

    number: int
    length: Any
    line: UserLine | None
    peeled: bool
    steps: int
    at: int = -1  # the step that runs; ``steps`` when it is over
    made: list[torch.Tensor] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """File and line, which loops of the same statement share."""
        return ("", 0) if self.line is None else (self.line.file, self.line.line)

    @property
    def first(self) -> int:
        """The first step that is like the others."""
        return int(self.peeled)


class RollError(ExportError):
    """The steps of a loop are not one. ``first``: they may be when the first one is apart."""

    def __init__(self, loop: FreeLoop, why: str, first: bool = False) -> None:
        super().__init__(f"a loop over a free size cannot be one step: {why}\n  at {loop.line}")
        self.loop, self.first = loop, first and not loop.peeled


@dataclass
class _Known:
    """A tensor, and by loop in which step it was made, and which of the tensors of that step it is.
    What the last step of an inner loop made is also of the step of the loop around it."""

    tensor: torch.Tensor
    made: dict[int, tuple[FreeLoop, int, int]] = field(default_factory=dict)


@dataclass
class LoopSession:
    """What happens to loops while one forward runs.

    ``steps``: how many of each are run; ``peeled``: the loops whose first step is apart;
    ``broken``: a loop that was left early.
    """

    steps: int
    peeled: frozenset[Place]
    loops: list[FreeLoop] = field(default_factory=list)
    active: list[FreeLoop] = field(default_factory=list)
    broken: FreeLoop | None = None
    seen: dict[int, torch.Tensor] = field(default_factory=dict)  # those that torch was called with
    known: dict[int, _Known] = field(default_factory=dict)  # by identity
    numbers: dict[int, tuple[Any, torch.Tensor]] = field(default_factory=dict)  # and as tensors

    def run(self, length: Any, item: Callable[[Any], Any]) -> Iterator[Any]:
        """The items of the steps that stand for ``length`` of them."""
        line = calling_line()
        place = ("", 0) if line is None else (line.file, line.line)
        loop = FreeLoop(
            _LEN(self.loops),
            length,
            line,
            place in self.peeled,
            self.steps + (place in self.peeled),
        )
        self.loops.append(loop)
        self.active.append(loop)
        try:
            for number in _RANGE(loop.steps):
                index = self.begin(loop, number)
                value = item(index)
                if isinstance(value, torch.SymInt):  # a list of them may become a tensor
                    free: Any = value
                    self.numbers[id(value)] = value, torch.full((), free, dtype=torch.int64)
                self.keep(value)
                yield value
            self.begin(loop, loop.steps)
        except GeneratorExit:
            self.broken = self.broken or loop
            raise
        inner = self.active.pop()
        if self.active:  # what the last step made goes on in the loop around it
            self.keep(inner.made)

    def begin(self, loop: FreeLoop, number: int) -> Any:
        """Mark that a step begins; its index."""
        made = list(loop.made)
        index = STEP(made, loop.length, loop.number, number).item()
        loop.at = number
        loop.made = made if number == loop.steps else []  # without the mark
        check(index >= (1 if loop.peeled and number else 0))
        if number == loop.steps:
            return index
        check(index < loop.length)
        return 0 if loop.peeled and number == 0 else index

    def keep(self, value: Any) -> None:
        """Keep the tensors that the step that runs has made."""
        if not self.active:
            return
        loop = self.active[-1]
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                known = self.known.setdefault(id(leaf), _Known(leaf))
                known.made.setdefault(loop.number, (loop, loop.at, _LEN(loop.made)))
                loop.made.append(leaf)

    def wrote(self, tensor: torch.Tensor) -> None:
        """Keep what a step has written to, and what that is a view of. A view of something that
        only torch knows is no way to any other tensor."""
        base = base_of(tensor)
        self.keep([tensor] if base is None or id(base) not in self.seen else [tensor, base])

    def segments(self, items: Sequence[Any]) -> list[Any] | None:
        """The items with those of a loop's steps as one `_Collected`; None when there are none."""
        found: list[Any] = []
        place = 0
        while place < _LEN(items):
            run = self._run_at(items, place)
            found.append(items[place] if run is None else run)
            place += 1 if run is None else run.count
        return found if any(isinstance(each, _Collected) for each in found) else None

    def tensors_of(self, items: Any) -> list[torch.Tensor] | None:
        """The numbers of a list, which are those that steps of loops began with, as tensors; None
        for anything else."""
        if not isinstance(items, (list, tuple)) or not items:
            return None
        found = [self.numbers.get(id(each)) for each in items]
        return None if None in found else [each[1] for each in found if each is not None]

    def _run_at(self, items: Sequence[Any], place: int) -> _Collected | None:
        """The tensors of all steps of a loop that begin at a place of a list, or those of the last
        step, which the others follow backwards."""
        known = self.known.get(id(items[place]))
        over = [] if known is None else [e for e in known.made.values() if e[0] not in self.active]
        for loop, at, _ in over:
            steps = list(_RANGE(loop.first, loop.steps))
            backwards = at == steps[-1]
            if backwards or at == steps[0]:
                rows = self._rows(loop, items[place:], steps[::-1] if backwards else steps)
                serials = [tuple(serial for _, serial in row) for row in rows]
                if _LEN(set(serials)) == 1:
                    columns = [[row[k][0] for row in rows] for k in _RANGE(_LEN(rows[0]))]
                    ordered = [column[::-1] if backwards else column for column in columns]
                    return _Collected(loop, ordered, sum(map(_LEN, rows)), backwards)
                if not backwards:
                    why = "a list that it fills has other tensors of one step than of another"
                    raise RollError(loop, why, _LEN(set(serials[1:])) == 1)
        return None

    def _rows(
        self, loop: FreeLoop, items: Sequence[Any], steps: Sequence[int]
    ) -> list[list[tuple[Any, int]]]:
        """The tensors of each step, which stand one after the other, and which of its they are."""
        rows: list[list[tuple[Any, int]]] = []
        place = 0
        for number in steps:
            row: list[tuple[Any, int]] = []
            while place < _LEN(items):
                entry = self._of(items[place], loop)
                if entry is None or entry[0] != number:
                    break
                row.append((items[place], entry[1]))
                place += 1
            rows.append(row)
        return rows

    def _of(self, item: Any, loop: FreeLoop) -> tuple[int, int] | None:
        """The step of a loop that made a tensor, and which of its tensors it is."""
        known = self.known.get(id(item))
        entry = None if known is None else known.made.get(loop.number)
        return None if entry is None else entry[1:]


@dataclass(frozen=True)
class _Collected:
    """A part of a list that a loop has filled: of each tensor of a step, those of the steps; the
    list may have the last step first."""

    loop: FreeLoop
    columns: list[list[torch.Tensor]]
    count: int
    backwards: bool

    def stacked(self, dim: int) -> torch.Tensor:
        """All of them, stacked along ``dim`` of the result."""
        columns = [self._column(column, dim) for column in self.columns]
        if _LEN(columns) == 1:
            return columns[0]
        return torch.stack(columns, dim + 1).flatten(dim, dim + 1)

    def joined(self, dim: int) -> torch.Tensor:
        """All of them, one after the other along ``dim``."""
        return self.stacked(dim).flatten(dim, dim + 1)

    def _column(self, items: list[torch.Tensor], dim: int) -> torch.Tensor:
        if any(tuple(each.shape) != tuple(items[0].shape) for each in items[1:]):
            why = "the tensors that it puts into a list are not of one size"
            raise RollError(self.loop, why, True)
        length = self.loop.length - self.loop.first
        found: torch.Tensor = COLLECT(items, length, self.loop.number, dim)
        return found.flip(dim) if self.backwards else found


class FreeSequence:
    """Something with as many items as a free size: it can be iterated, turned round, indexed by a
    number, and nothing else."""

    def __init__(self, session: LoopSession, length: Any, item: Callable[[Any], Any]) -> None:
        self.session, self.length, self.item = session, length, item

    def __iter__(self) -> Iterator[Any]:
        return self.session.run(self.length, self.item)

    def __reversed__(self) -> Iterator[Any]:
        return self.session.run(self.length, lambda index: self.item(self.length - 1 - index))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise ExportError(f"a slice of a sequence over a free size, at {calling_line()}")
        return self.item(index if index >= 0 else self.length + index)


class _Watching(TorchFunctionMode):
    """Keeps what each step makes, and puts in place of lists that loops filled one value."""

    def __init__(self, session: LoopSession) -> None:
        super().__init__()
        self.session = session

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        tensors = (each for each in pytree.tree_leaves(args) if isinstance(each, torch.Tensor))
        self.session.seen.update((id(each), each) for each in tensors)
        if func in _UNBINDS and _is_free(args[0].shape[_dim(args, named)]):
            return self._rows(args[0], _dim(args, named))
        if func is torch.Tensor.__setitem__ and _has_symbol(args[1]):
            _set_item(*args)
            self.session.wrote(args[0])
            return None
        if func in _FROM_NUMBERS and set(named) <= {"dtype", "device"}:
            numbers = self.session.tensors_of(args[0] if args else None)
            if numbers is not None:
                rows = self._collected(torch.stack, (numbers,), {})
                rows = torch.stack(numbers) if rows is None else rows
                found = rows.to(named.get("device"), named.get("dtype", torch.int64))
                self.session.keep((rows, found))
                return found
        if func in _STACKS or func in _CATS:
            found = self._collected(func, args, named)
            if found is not None:
                self.session.keep(found)
                return found
        returned = func(*args, **named)
        self.session.keep(returned)
        if self.session.active and args and isinstance(args[0], torch.Tensor) and _writes(func):
            self.session.wrote(args[0])
        if isinstance(named.get("out"), torch.Tensor):
            self.session.wrote(named["out"])
        return returned

    def _rows(self, tensor: torch.Tensor, dim: int) -> FreeSequence:
        return FreeSequence(
            self.session, tensor.shape[dim], lambda index: tensor.select(dim, index)
        )

    def _collected(self, func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        items = args[0] if args else named.get("tensors")
        if not isinstance(items, (list, tuple)):
            return None
        parts = self.session.segments(items)
        if parts is None:
            return None
        if "out" in named:
            raise ExportError(f"out= with a list that a loop of free size fills: {calling_line()}")
        dim = args[1] if _LEN(args) > 1 else named.get("dim", named.get("axis", 0))
        stacks = func in _STACKS
        example = next(each for each in parts if isinstance(each, _Collected)).columns[0][0]
        dim += (example.dim() + stacks) if dim < 0 else 0
        values = [_part(each, dim, stacks) for each in parts]
        return values[0] if _LEN(values) == 1 else torch.cat(values, dim)


def _part(part: Any, dim: int, stacks: bool) -> torch.Tensor:
    if isinstance(part, _Collected):
        return part.stacked(dim) if stacks else part.joined(dim)
    found: torch.Tensor = part.unsqueeze(dim) if stacks else part
    return found


_WRITERS = frozenset(
    {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__iand__", "__ior__"}
)
_UNBINDS = (torch.Tensor.unbind, torch.unbind)
_STACKS = (torch.stack,)
_FROM_NUMBERS = (torch.tensor, torch.as_tensor)
_CATS = (torch.cat, torch.concat, torch.concatenate)


def _writes(func: Any) -> bool:
    """Whether a function of torch writes to its first argument: ``add_``, ``__setitem__``."""
    name = getattr(func, "__name__", "")
    return name in _WRITERS or (name.endswith("_") and not name.endswith("__"))


def _dim(args: Sequence[Any], named: Mapping[str, Any]) -> int:
    given: int = args[1] if _LEN(args) > 1 else named.get("dim", 0)
    return given


def _set_item(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value`` where a part of the index is a free number, of which torch's own
    takes none."""
    target = tensor[index]
    if isinstance(value, torch.Tensor):
        while value.dim() > target.dim() and value.shape[0] == 1:
            value = value[0]
        target.copy_(value)
    else:
        target.fill_(value)


def _has_symbol(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, torch.Tensor) for part in parts):
        return False
    ends = [
        end
        for part in parts
        for end in ((part.start, part.stop) if isinstance(part, slice) else (part,))
    ]
    return any(isinstance(end, torch.SymInt) for end in ends)


def _is_free(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


# -- what stands for Python's functions


def _replacements(session: LoopSession) -> dict[str, Any]:
    """By name, what the model's files have in place of Python's own."""

    class FreeRange(abc.ABC):  # noqa: B024 (registered, so that isinstance(x, range) holds)
        """Python's range, and one over a free size."""

        def __new__(cls, *args: Any) -> Any:
            if not any(map(_is_free, args)):
                return _RANGE(*args)
            start, stop, step = (0, *args, 1) if _LEN(args) == 1 else (*args, 1)[:3]
            if not isinstance(step, int) or step == 0:
                raise ExportError(f"range with a step that is free, at {calling_line()}")
            length = (stop - start + step - 1) // step if step > 0 else _down(start, stop, step)
            if step in (1, -1):
                length = (stop - start) * step
            if not statically_known_true(length >= 0):
                length = torch.sym_max(length, 0)
            return FreeSequence(session, length, lambda index: start + index * step)

    FreeRange.register(_RANGE)

    def free_zip(*sequences: Any, **options: Any) -> Any:
        free = [_sequence(session, each) for each in sequences]
        if not any(free) or _LEN(sequences) == 1:
            return _ZIP(*sequences, **options)
        lengths = [each.length for each in free if each is not None]
        same = all(statically_known_true(each == lengths[0]) for each in lengths)
        if not same or None in free:
            raise ExportError(
                f"zip of sequences that may not have the same length, at {calling_line()}"
            )
        return FreeSequence(
            session, lengths[0], lambda index: tuple(each.item(index) for each in free if each)
        )

    def free_enumerate(sequence: Any, start: Any = 0) -> Any:
        free = _sequence(session, sequence)
        if free is None:
            return _ENUMERATE(sequence, start)
        return FreeSequence(session, free.length, lambda index: (start + index, free.item(index)))

    def free_len(sequence: Any) -> Any:
        free = _sequence(session, sequence)
        return _LEN(sequence) if free is None else free.length

    return {"range": FreeRange, "zip": free_zip, "enumerate": free_enumerate, "len": free_len}


def _down(start: Any, stop: Any, step: int) -> Any:
    return (start - stop - step - 1) // -step


def _sequence(session: LoopSession, value: Any) -> FreeSequence | None:
    """What iterates over a free size, if ``value`` does."""
    if isinstance(value, FreeSequence):
        return value
    if isinstance(value, torch.Tensor) and value.dim() and _is_free(value.shape[0]):
        return FreeSequence(session, value.shape[0], lambda index: value.select(0, index))
    return None


@contextmanager
def watched(session: LoopSession, module: torch.nn.Module) -> Iterator[None]:
    """In the block loops over free sizes of the module's own code are those of ``session``."""
    replaced = _replacements(session)
    placed: list[tuple[dict[str, Any], str]] = []

    def undo() -> None:
        for held, name in placed:
            held.pop(name, None)

    with undone(undo):
        for held in _namespaces(module):
            for name, value in replaced.items():
                if name not in held:
                    placed.append((held, name))
                    held[name] = value
        with _Watching(session):
            yield


def _namespaces(module: torch.nn.Module) -> list[dict[str, Any]]:
    """The globals of the files that the module's code is in: those of its classes, and of the
    functions and classes of users' files that these name."""
    found: dict[int, dict[str, Any]] = {}
    todo = [
        function.__globals__
        for each in module.modules()
        for kind in type(each).__mro__
        for function in vars(kind).values()
        if isinstance(function, types.FunctionType)
    ]
    todo += [
        each.forward.__globals__
        for each in module.modules()
        if isinstance(vars(each).get("forward"), types.FunctionType)
    ]
    for depth in _RANGE(2):
        fresh = [held for held in {id(each): each for each in todo}.values() if _users(held)]
        fresh = [held for held in fresh if id(held) not in found]
        found.update((id(held), held) for held in fresh)
        if depth == 0:
            todo = [
                value.__globals__
                for held in fresh
                for value in list(held.values())
                if isinstance(value, types.FunctionType)
            ]
    return list(found.values())


def _users(held: Mapping[str, Any]) -> bool:
    file = held.get("__file__")
    return not isinstance(file, str) or is_user_file(file)
