"""Record which torch functions a forward calls, with what, and what they return, and compare two
records: one of a capture with symbolic sizes, one of a run with fake tensors at other sizes. Where
they agree, the forward decides nothing at those sizes that it does not decide in the capture.
strategies.py records captures; small_sizes.py compares."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ortable.compat.torch import FakeTensorMode, ShapeEnv, exporting_state, pytree
from ortable.exporter.capture.export_failures import calling_line
from ortable.exporter.request.caller_state import (
    FAKES,
    forward_replaced,
    forward_under_autocast,
    held_tensors,
    in_onnx_export,
    quiet,
    state_restored,
    tensors_replaced,
)
from ortable.exporter.request.program import Request, UserLine
from ortable.ir.initializers import is_fake

_PLAIN: dict[Any, Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_SYMBOLIC: tuple[Any, ...] = tuple(_PLAIN)


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a record: ``label`` is the same for one object, and counts objects in the order
    in which they appear."""

    label: int
    shape: tuple[Any, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class RecordedCall:
    """One call: leaves of the arguments and of the results, and the line of the model."""

    function: Any
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    line: UserLine | None


@dataclass
class CallRecord:
    """The calls of one run of a forward, in order, and the leaves of what it was given and what it
    returned."""

    calls: list[RecordedCall] = field(default_factory=list)
    given: tuple[Any, ...] = ()
    returned: tuple[Any, ...] = ()
    tensors: dict[int, tuple[torch.Tensor, int]] = field(default_factory=dict)

    def start(self) -> None:
        """Forward runs from its beginning."""
        self.calls.clear()
        self.tensors.clear()

    def leaves_of(self, value: Any) -> tuple[Any, ...]:
        """The leaves of a nest of arguments, with a label for each tensor."""
        return tuple(map(self._leaf, leaves_of(value)))

    def _leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        # the tensor is kept: another one may get the identity of one that is gone
        _, label = self.tensors.setdefault(id(leaf), (leaf, len(self.tensors)))
        return RecordedTensor(label, tuple(leaf.shape), leaf.dtype)


def leaves_of(value: Any) -> Iterator[Any]:
    """What a call is given or returns, without containers; slices are containers."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, slice):
            yield from (leaf.start, leaf.stop, leaf.step)
        else:
            yield leaf


class _Recording(TorchFunctionMode):
    """Adds every call that returns tensors, or nothing, to a record."""

    def __init__(self, record: CallRecord) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.compiler.is_dynamo_compiling():  # of control flow: the call of that is recorded
            return func(*args, **(kwargs or {}))
        given = self.record.leaves_of((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        leaves = self.record.leaves_of(result)
        if result is None or not leaves or any(isinstance(e, RecordedTensor) for e in leaves):
            line = calling_line(1)
            self.record.calls.append(RecordedCall(func, given, leaves, line))
        return result


@contextmanager
def recorded(module: torch.nn.Module, record: CallRecord) -> Iterator[None]:
    """In the block the module's forward writes ``record``, anew at each run."""
    forward = module.forward

    @functools.wraps(forward)
    def recording(*args: Any, **kwargs: Any) -> Any:
        record.start()
        record.given = record.leaves_of((args, kwargs))
        with _Recording(record):
            result = forward(*args, **kwargs)
        record.returned = record.leaves_of(result)
        return result

    with forward_replaced(module, recording):
        yield


@dataclass(frozen=True)
class Parting:
    """Where two records part: the line of the model, None where it is not known."""

    line: UserLine | None


class AtSizes:
    """What symbolic numbers are at sizes, which are given by the names of torch's symbols."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._known: dict[Any, Any] = {}
        self._shapes: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def shape(self, sizes: tuple[Any, ...]) -> tuple[int | None, ...]:
        """The shape of numbers and expressions, with None for what the sizes do not say."""
        if sizes not in self._shapes:
            self._shapes[sizes] = tuple(
                size if isinstance(size, int) else self._number(torch.SymInt, size)
                for size in sizes
            )
        return self._shapes[sizes]

    def __call__(self, value: Any) -> Any:
        """The number, None where the sizes do not say it; any other value is returned itself."""
        if not isinstance(value, _SYMBOLIC):
            return value
        key = type(value), value.node.expr
        if key not in self._known:
            self._known[key] = self._number(*key)
        return self._known[key]

    def _number(self, kind: type, expression: Any) -> Any:
        free = expression.free_symbols
        if not all(str(symbol) in self.sizes for symbol in free):
            return None  # a size that depends on data
        try:
            found = expression.subs({symbol: self.sizes[str(symbol)] for symbol in free})
            return _PLAIN[kind](found)
        except (TypeError, ZeroDivisionError):  # a fraction, or no size that the program takes
            return None


def parting(general: CallRecord, special: CallRecord, at_sizes: AtSizes) -> Parting | None:
    """Where a run with plain sizes parts from a capture with symbolic ones, ``general``; None where
    it does nothing else."""
    comparison, last = _Comparison(at_sizes), None
    comparison.same_leaves(general.given, special.given, new=True)
    for one, other in zip_longest(general.calls, special.calls):
        if one is None or other is None:
            left = one or other
            return None if left is None else Parting(left.line)
        last = other.line
        if one.function != other.function or not (
            comparison.same_leaves(one.arguments, other.arguments)
            and comparison.same_leaves(one.results, other.results, new=True)
        ):
            return Parting(other.line or one.line)
    return None if comparison.same_leaves(general.returned, special.returned) else Parting(last)


class _Comparison:
    """Compares leaves, and remembers which tensor of the run is which of the capture. Two of the
    capture may be one of the run: dropout returns its argument there."""

    def __init__(self, at_sizes: AtSizes) -> None:
        self.at_sizes = at_sizes
        self.labels: dict[int, int] = {}

    def same_leaves(self, one: Sequence[Any], other: Sequence[Any], new: bool = False) -> bool:
        """``new``: the tensors are results."""
        return len(one) == len(other) and all(
            self._same(first, second, new) for first, second in zip(one, other, strict=True)
        )

    def _same(self, one: Any, other: Any, new: bool) -> bool:
        if isinstance(one, RecordedTensor) and isinstance(other, RecordedTensor):
            if new or (one.label not in self.labels and other.label not in self.labels.values()):
                self.labels[one.label] = other.label
            known = self.labels.get(one.label) == other.label
            same_shape = self.same_leaves(one.shape, other.shape)
            return known and same_shape and one.dtype == other.dtype
        return self._same_value(self.at_sizes(one), other, one is None)

    def _same_value(self, known: Any, other: Any, is_none: bool) -> bool:
        if (known is None and not is_none) or isinstance(other, _SYMBOLIC):
            return True  # a number that depends on data
        if isinstance(known, float) and isinstance(other, int | float):
            return math.isclose(known, other, rel_tol=1e-9) or known == other
        if isinstance(known, bool | int | str | torch.dtype | torch.device | None):
            return bool(type(known) is type(other) and known == other)
        return type(known) is type(other)


# -- a module, run with fake tensors


class FakeCopies:
    """Fake tensors of one mode for tensors, each made once so that tied weights stay tied."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @cached_property
    def mode(self) -> FakeTensorMode:
        """The mode; making one takes as long as a small conversion."""
        return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())

    def __call__(self, value: Any) -> Any:
        """The copy of a tensor; other values are returned themselves."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = value, self._copy(value)
        return self._copies[id(value)][1]

    def _copy(self, value: torch.Tensor) -> torch.Tensor:
        if not is_fake(value):
            return self.mode.from_tensor(value, static_shapes=True)
        with self.mode:  # of another mode
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )


def record_module(
    request: Request, copies: FakeCopies, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> CallRecord:
    """The calls of the module for arguments that ``copies`` made.

    Raises whatever the forward does, and what fake tensors lack.
    """
    module, record = request.model, CallRecord()
    with (
        state_restored(module, (request.args, request.kwargs)),
        tensors_replaced(held_tensors(module), copies),
        forward_under_autocast(module),
        recorded(module, record),
        in_onnx_export(),
        exporting_state(),
        quiet(FAKES),
        copies.mode,
    ):
        module(*args, **kwargs)
    return record
