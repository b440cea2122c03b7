"""Run only a few steps of each Python loop over a dynamic size in a module's forward.

The forward runs with fake tensors. Marks in torch's graph delimit the steps; loop_rerolling.py
turns the steps into one scan.

While the forward runs, ``range``, ``zip``, ``enumerate`` and ``len`` of the model's own files are
the functions of this module, which behave like Python's wherever no size is dynamic. A torch
function mode handles ``iter(x)`` and ``x.unbind()`` along a dynamic size. It also records which
step of which loop made each tensor: ``torch.stack`` of a list that a loop filled then has as many
rows as the loop has steps, although the list has only the tensors of the captured steps.
"""

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

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import base_of, check, pytree, statically_known_true
from ortable.errors import ExportError
from ortable.exporter.capture.export_failures import find_calling_line, is_user_file
from ortable.exporter.frontend.export_request import UserLine


@torch.library.custom_op("ortable_loops::step", mutates_args=())
def mark_step(outputs: Sequence[torch.Tensor], length: int, loop: int, number: int) -> torch.Tensor:
    """Mark where step ``number`` of a loop begins, or the end of the last step; return its index.

    The index is an int64 []. ``outputs`` are the tensors of the previous step. They are inputs of
    the mark so that torch leaves their nodes, and writes to these tensors, in front of the mark.
    """
    return torch.full((), number, dtype=torch.int64)


@mark_step.register_fake
def _fake_mark_step(
    outputs: Sequence[torch.Tensor], length: int, loop: int, number: int
) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64)


@torch.library.custom_op("ortable_loops::collect", mutates_args=())
def collect_rows(items: Sequence[torch.Tensor], length: int, loop: int, dim: int) -> torch.Tensor:
    """Stack one tensor per step along ``dim``; ``items`` has those of the captured steps."""
    return torch.stack(list(items), dim)


@collect_rows.register_fake
def _fake_collect_rows(
    items: Sequence[torch.Tensor], length: int, loop: int, dim: int
) -> torch.Tensor:
    shape = list(items[0].shape)
    shape.insert(dim, length)
    return items[0].new_empty(shape)


STEP: Any = torch.ops.ortable_loops.step.default
COLLECT: Any = torch.ops.ortable_loops.collect.default

_RANGE, _ZIP, _ENUMERATE, _LEN = builtins.range, builtins.zip, builtins.enumerate, builtins.len
LoopLocation = tuple[str, int]


@dataclass(eq=False)
class DynamicLoop:
    """One execution of a loop statement.

    ``steps`` captured steps represent all ``length`` steps. If ``peeled``, the first step stays
    outside of the scan. ``number`` is the index of the execution in `LoopSession.loops`.
    """

    number: int
    length: Any
    line: UserLine | None
    peeled: bool
    steps: int
    current_step: int = -1  # the running step; after the last step, ``steps``
    outputs: list[torch.Tensor] = field(default_factory=list)  # tensors that the step made

    @property
    def location(self) -> LoopLocation:
        """File and line, which all executions of the same statement share."""
        return ("", 0) if self.line is None else (self.line.file, self.line.line)

    @property
    def first_step(self) -> int:
        """The first step that is not peeled."""
        return int(self.peeled)


class RerollError(ExportError):
    """The steps of a loop differ; if ``peelable``, the steps after the first may be equal."""

    def __init__(self, loop: DynamicLoop, why: str, peelable: bool = False) -> None:
        super().__init__(
            f"a loop over a dynamic size cannot become one scan: {why}\n  at {loop.line}"
        )
        self.loop, self.peelable = loop, peelable and not loop.peeled


@dataclass
class _TensorOrigin:
    """A tensor, and for each loop the step that made it and its index among the step's tensors.

    A tensor of the last step of an inner loop also belongs to the step of the enclosing loop.
    """

    tensor: torch.Tensor
    positions: dict[int, tuple[DynamicLoop, int, int]] = field(default_factory=dict)


@dataclass
class LoopSession:
    """The state of loops while one forward runs.

    ``steps`` steps of each loop run, and one more if ``peeled`` has the loop, whose first step is
    then not part of the scan. ``active`` are the running loops, the innermost last; ``broken`` is
    the first loop that forward left early.
    """

    steps: int
    peeled: frozenset[LoopLocation]
    loops: list[DynamicLoop] = field(default_factory=list)
    active: list[DynamicLoop] = field(default_factory=list)
    broken: DynamicLoop | None = None
    # the tensors that calls of torch took as arguments, by id
    call_inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    origins: dict[int, _TensorOrigin] = field(default_factory=dict)  # by id of the tensor
    numbers: dict[int, tuple[Any, torch.Tensor]] = field(default_factory=dict)  # by id of the index

    def run_steps(self, length: Any, make_item: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield the items of the captured steps, which represent all ``length`` steps."""
        line = find_calling_line()
        location = ("", 0) if line is None else (line.file, line.line)
        loop = DynamicLoop(
            _LEN(self.loops),
            length,
            line,
            location in self.peeled,
            self.steps + (location in self.peeled),
        )
        self.loops.append(loop)
        self.active.append(loop)
        try:
            for number in _RANGE(loop.steps):
                index = self.begin_step(loop, number)
                value = make_item(index)
                if isinstance(value, torch.SymInt):  # the model may make a tensor of indices
                    symbol: Any = value
                    self.numbers[id(value)] = value, torch.full((), symbol, dtype=torch.int64)
                self.record_tensors(value)
                yield value
            self.begin_step(loop, loop.steps)
        except GeneratorExit:
            self.broken = self.broken or loop
            raise
        inner = self.active.pop()
        if self.active:  # the enclosing loop's step continues with the last step's tensors
            self.record_tensors(inner.outputs)

    def begin_step(self, loop: DynamicLoop, number: int) -> Any:
        """Mark that a step begins; return the step's index."""
        outputs = list(loop.outputs)
        index = STEP(outputs, loop.length, loop.number, number).item()
        loop.current_step = number
        # the mode recorded the mark's own result as an output
        loop.outputs = outputs if number == loop.steps else []
        check(index >= (1 if loop.peeled and number else 0))
        if number == loop.steps:
            return index
        check(index < loop.length)
        return 0 if loop.peeled and number == 0 else index

    def record_tensors(self, value: Any) -> None:
        """Record the tensors in ``value`` as made by the running step of the innermost loop."""
        if not self.active:
            return
        loop = self.active[-1]
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                origin = self.origins.setdefault(id(leaf), _TensorOrigin(leaf))
                origin.positions.setdefault(
                    loop.number, (loop, loop.current_step, _LEN(loop.outputs))
                )
                loop.outputs.append(leaf)

    def record_write(self, tensor: torch.Tensor) -> None:
        """Record a tensor that a step wrote to, and the base that it is a view of.

        A base that no call of torch took as an argument is not recorded: forward cannot use it.
        """
        base = base_of(tensor)
        self.record_tensors(
            [tensor] if base is None or id(base) not in self.call_inputs else [tensor, base]
        )

    def split_segments(self, items: Sequence[Any]) -> list[Any] | None:
        """Replace each run of items that a loop made by a `_FilledSegment`; None if no loop did."""
        segments: list[Any] = []
        index = 0
        while index < _LEN(items):
            segment = self._find_segment(items, index)
            segments.append(items[index] if segment is None else segment)
            index += 1 if segment is None else segment.count
        return segments if any(isinstance(part, _FilledSegment) for part in segments) else None

    def tensors_of(self, items: Any) -> list[torch.Tensor] | None:
        """Return the numbers of a list as tensors; None if one is not the index of a loop step."""
        if not isinstance(items, (list, tuple)) or not items:
            return None
        pairs = [self.numbers.get(id(item)) for item in items]
        return None if None in pairs else [pair[1] for pair in pairs if pair is not None]

    def _find_segment(self, items: Sequence[Any], index: int) -> _FilledSegment | None:
        """Return the items from ``index`` on that all steps of a finished loop made, or None."""
        origin = self.origins.get(id(items[index]))
        finished_positions = (
            []
            if origin is None
            else [
                position for position in origin.positions.values() if position[0] not in self.active
            ]
        )
        for loop, step, _ in finished_positions:
            steps = list(_RANGE(loop.first_step, loop.steps))
            backwards = step == steps[-1]
            if backwards or step == steps[0]:
                rows = self._rows_by_step(loop, items[index:], steps[::-1] if backwards else steps)
                indices = [tuple(index_in_step for _, index_in_step in row) for row in rows]
                if _LEN(set(indices)) == 1:
                    columns = [[row[k][0] for row in rows] for k in _RANGE(_LEN(rows[0]))]
                    ordered = [column[::-1] if backwards else column for column in columns]
                    return _FilledSegment(loop, ordered, sum(map(_LEN, rows)), backwards)
                if not backwards:
                    why = "the list that it fills gets different tensors in different steps"
                    raise RerollError(loop, why, _LEN(set(indices[1:])) == 1)
        return None

    def _rows_by_step(
        self, loop: DynamicLoop, items: Sequence[Any], steps: Sequence[int]
    ) -> list[list[tuple[Any, int]]]:
        """Return each step's tensors at the start of ``items``, with their indices in the step."""
        rows: list[list[tuple[Any, int]]] = []
        index = 0
        for number in steps:
            row: list[tuple[Any, int]] = []
            while index < _LEN(items):
                step_and_index = self._find_step(items[index], loop)
                if step_and_index is None or step_and_index[0] != number:
                    break
                row.append((items[index], step_and_index[1]))
                index += 1
            rows.append(row)
        return rows

    def _find_step(self, item: Any, loop: DynamicLoop) -> tuple[int, int] | None:
        """Return the step of a loop that made a tensor, and its index among the step's tensors."""
        origin = self.origins.get(id(item))
        position = None if origin is None else origin.positions.get(loop.number)
        return None if position is None else position[1:]


@dataclass(frozen=True)
class _FilledSegment:
    """A part of a list that a loop filled.

    ``columns`` has a list for each tensor that a step appends, with an item for each captured step.
    ``backwards`` means that the list has the last step first. ``count`` is the number of items.
    """

    loop: DynamicLoop
    columns: list[list[torch.Tensor]]
    count: int
    backwards: bool

    def stack_rows(self, dim: int) -> torch.Tensor:
        """Stack the items of all steps along ``dim`` of the result."""
        columns = [self._stack_column(column, dim) for column in self.columns]
        if _LEN(columns) == 1:
            return columns[0]
        return torch.stack(columns, dim + 1).flatten(dim, dim + 1)

    def concat_rows(self, dim: int) -> torch.Tensor:
        """Concatenate the items of all steps along ``dim``."""
        return self.stack_rows(dim).flatten(dim, dim + 1)

    def _stack_column(self, items: list[torch.Tensor], dim: int) -> torch.Tensor:
        if any(tuple(item.shape) != tuple(items[0].shape) for item in items[1:]):
            why = "the tensors that it appends to a list differ in shape"
            raise RerollError(self.loop, why, True)
        length = self.loop.length - self.loop.first_step
        rows: torch.Tensor = COLLECT(items, length, self.loop.number, dim)
        return rows.flip(dim) if self.backwards else rows


class DynamicSequence:
    """A sequence of dynamic length that can be iterated, reversed, and indexed by a number."""

    def __init__(self, session: LoopSession, length: Any, make_item: Callable[[Any], Any]) -> None:
        self.session, self.length, self.item = session, length, make_item

    def __iter__(self) -> Iterator[Any]:
        return self.session.run_steps(self.length, self.item)

    def __reversed__(self) -> Iterator[Any]:
        return self.session.run_steps(self.length, lambda index: self.item(self.length - 1 - index))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise ExportError(f"a slice of a sequence of dynamic size, at {find_calling_line()}")
        return self.item(index if index >= 0 else self.length + index)


class _LoopMode(TorchFunctionMode):
    """Records the tensors of each step, and stacks or concatenates lists that loops filled."""

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
        keywords = dict(kwargs or {})
        tensors = (leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor))
        self.session.call_inputs.update((id(leaf), leaf) for leaf in tensors)
        if func in _UNBINDS and _is_dynamic(args[0].shape[_dim_argument(args, keywords)]):
            return self._iterate_rows(args[0], _dim_argument(args, keywords))
        if func is torch.Tensor.__setitem__ and _has_symbol(args[1]):
            _set_item(*args)
            self.session.record_write(args[0])
            return None
        if func in _FROM_NUMBERS and set(keywords) <= {"dtype", "device"}:
            index_tensors = self.session.tensors_of(args[0] if args else None)
            if index_tensors is not None:
                rows = self._collect_list(torch.stack, (index_tensors,), {})
                rows = torch.stack(index_tensors) if rows is None else rows
                result = rows.to(keywords.get("device"), keywords.get("dtype", torch.int64))
                self.session.record_tensors((rows, result))
                return result
        if func in _STACKS or func in _CATS:
            result = self._collect_list(func, args, keywords)
            if result is not None:
                self.session.record_tensors(result)
                return result
        call_result = func(*args, **keywords)
        self.session.record_tensors(call_result)
        if self.session.active and args and isinstance(args[0], torch.Tensor) and _writes(func):
            self.session.record_write(args[0])
        if isinstance(keywords.get("out"), torch.Tensor):
            self.session.record_write(keywords["out"])
        return call_result

    def _iterate_rows(self, tensor: torch.Tensor, dim: int) -> DynamicSequence:
        return DynamicSequence(
            self.session, tensor.shape[dim], lambda index: tensor.select(dim, index)
        )

    def _collect_list(self, func: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        items = args[0] if args else keywords.get("tensors")
        if not isinstance(items, (list, tuple)):
            return None
        parts = self.session.split_segments(items)
        if parts is None:
            return None
        if "out" in keywords:
            raise ExportError(
                f"out= with a list that a loop over a dynamic size fills: {find_calling_line()}"
            )
        dim = args[1] if _LEN(args) > 1 else keywords.get("dim", keywords.get("axis", 0))
        stacks = func in _STACKS
        example = next(part for part in parts if isinstance(part, _FilledSegment)).columns[0][0]
        dim += (example.dim() + stacks) if dim < 0 else 0
        values = [_segment_tensor(part, dim, stacks) for part in parts]
        return values[0] if _LEN(values) == 1 else torch.cat(values, dim)


def _segment_tensor(part: Any, dim: int, stacks: bool) -> torch.Tensor:
    if isinstance(part, _FilledSegment):
        return part.stack_rows(dim) if stacks else part.concat_rows(dim)
    tensor: torch.Tensor = part.unsqueeze(dim) if stacks else part
    return tensor


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


def _dim_argument(args: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    dim: int = args[1] if _LEN(args) > 1 else keywords.get("dim", 0)
    return dim


def _set_item(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """Assign ``tensor[index] = value`` for an index with a dynamic number, which torch rejects."""
    target = tensor[index]
    if isinstance(value, torch.Tensor):
        while value.dim() > target.dim() and value.shape[0] == 1:
            value = value[0]
        target.copy_(value)
    else:
        target.fill_(value)


def _has_symbol(index: Any) -> bool:
    """Whether an index has a dynamic number and no tensor."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, torch.Tensor) for part in parts):
        return False
    ends = [
        end
        for part in parts
        for end in ((part.start, part.stop) if isinstance(part, slice) else (part,))
    ]
    return any(isinstance(end, torch.SymInt) for end in ends)


def _is_dynamic(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


# -- replacements of Python's builtins


def _builtin_replacements(session: LoopSession) -> dict[str, Any]:
    """Return the replacements of Python's builtins in the model's files, by name."""

    class DynamicRange(abc.ABC):  # noqa: B024 (registered, so that isinstance(x, range) holds)
        """Python's range, extended to dynamic sizes."""

        def __new__(cls, *args: Any) -> Any:
            if not any(map(_is_dynamic, args)):
                return _RANGE(*args)
            start, stop, step = (0, *args, 1) if _LEN(args) == 1 else (*args, 1)[:3]
            if not isinstance(step, int) or step == 0:
                raise ExportError(f"range with a dynamic step, at {find_calling_line()}")
            length = (
                (stop - start + step - 1) // step
                if step > 0
                else _descending_length(start, stop, step)
            )
            if step in (1, -1):
                length = (stop - start) * step
            if not statically_known_true(length >= 0):
                length = torch.sym_max(length, 0)
            return DynamicSequence(session, length, lambda index: start + index * step)

    DynamicRange.register(_RANGE)

    def dynamic_zip(*sequences: Any, **options: Any) -> Any:
        dynamic = [_as_dynamic_sequence(session, sequence) for sequence in sequences]
        if not any(dynamic) or _LEN(sequences) == 1:
            return _ZIP(*sequences, **options)
        lengths = [sequence.length for sequence in dynamic if sequence is not None]
        same_length = all(statically_known_true(size == lengths[0]) for size in lengths)
        if not same_length or None in dynamic:
            raise ExportError(
                f"zip of sequences that may not have the same length, at {find_calling_line()}"
            )
        return DynamicSequence(
            session,
            lengths[0],
            lambda index: tuple(sequence.item(index) for sequence in dynamic if sequence),
        )

    def dynamic_enumerate(sequence: Any, start: Any = 0) -> Any:
        dynamic = _as_dynamic_sequence(session, sequence)
        if dynamic is None:
            return _ENUMERATE(sequence, start)
        return DynamicSequence(
            session, dynamic.length, lambda index: (start + index, dynamic.item(index))
        )

    def dynamic_len(sequence: Any) -> Any:
        dynamic = _as_dynamic_sequence(session, sequence)
        return _LEN(sequence) if dynamic is None else dynamic.length

    return {
        "range": DynamicRange,
        "zip": dynamic_zip,
        "enumerate": dynamic_enumerate,
        "len": dynamic_len,
    }


def _descending_length(start: Any, stop: Any, step: int) -> Any:
    return (start - stop - step - 1) // -step


def _as_dynamic_sequence(session: LoopSession, value: Any) -> DynamicSequence | None:
    """Return a sequence over ``value`` if its length is dynamic, else None."""
    if isinstance(value, DynamicSequence):
        return value
    if isinstance(value, torch.Tensor) and value.dim() and _is_dynamic(value.shape[0]):
        return DynamicSequence(session, value.shape[0], lambda index: value.select(0, index))
    return None


@contextmanager
def intercept_loops(session: LoopSession, module: torch.nn.Module) -> Iterator[None]:
    """Let ``session`` handle the module's loops over dynamic sizes within the block."""
    replacements = _builtin_replacements(session)
    inserted: list[tuple[dict[str, Any], str]] = []

    def undo() -> None:
        for namespace, name in inserted:
            namespace.pop(name, None)

    with restore_on_exit(undo):
        for file_globals in _module_namespaces(module):
            for name, value in replacements.items():
                if name not in file_globals:
                    inserted.append((file_globals, name))
                    file_globals[name] = value
        with _LoopMode(session):
            yield


def _module_namespaces(module: torch.nn.Module) -> list[dict[str, Any]]:
    """Return the globals of user files that define the module's methods, or functions they use."""
    namespaces: dict[int, dict[str, Any]] = {}
    candidates = [
        function.__globals__
        for submodule in module.modules()
        for cls in type(submodule).__mro__
        for function in vars(cls).values()
        if isinstance(function, types.FunctionType)
    ]
    candidates += [
        submodule.forward.__globals__
        for submodule in module.modules()
        if isinstance(vars(submodule).get("forward"), types.FunctionType)
    ]
    for depth in _RANGE(2):
        user_namespaces = [
            namespace
            for namespace in {id(candidate): candidate for candidate in candidates}.values()
            if _is_user_namespace(namespace)
        ]
        user_namespaces = [
            namespace for namespace in user_namespaces if id(namespace) not in namespaces
        ]
        namespaces.update((id(namespace), namespace) for namespace in user_namespaces)
        if depth == 0:
            candidates = [
                value.__globals__
                for namespace in user_namespaces
                for value in list(namespace.values())
                if isinstance(value, types.FunctionType)
            ]
    return list(namespaces.values())


def _is_user_namespace(namespace: Mapping[str, Any]) -> bool:
    file = namespace.get("__file__")
    return not isinstance(file, str) or is_user_file(file)
