"""Record the torch functions that a forward calls, and compare two records.

One record comes from a capture with symbolic sizes, the other from a run with fake tensors at other
sizes. If they agree, the forward takes the same branches at those sizes. strategies.py records
captures; small_sizes.py compares.
"""

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
from ortable.exporter.capture.export_failures import find_calling_line
from ortable.exporter.frontend.export_request import Request, UserLine
from ortable.exporter.frontend.module_state import (
    FAKE_TENSOR_LOGGER,
    in_onnx_export,
    module_tensors,
    replace_forward,
    replace_tensors,
    restore_state,
    silence_loggers,
    wrap_forward_in_autocast,
)
from ortable.exporter.signature.dataclass_nodes import register_dataclasses
from ortable.ir.initializers import is_fake

from .packed_sequences import trace_packed_sequences

_PYTHON_TYPES: dict[Any, Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_SYMBOLIC: tuple[Any, ...] = tuple(_PYTHON_TYPES)


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a record; ``label`` identifies the object, in order of first appearance."""

    label: int
    shape: tuple[Any, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class RecordedCall:
    """One call: leaves of its arguments and results, and the line of the model."""

    function: Any
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    line: UserLine | None


@dataclass
class CallRecord:
    """The calls of one run of a forward, in order, and the leaves of its inputs and outputs."""

    calls: list[RecordedCall] = field(default_factory=list)
    inputs: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()
    tensors: dict[int, tuple[torch.Tensor, int]] = field(default_factory=dict)

    def reset_calls(self) -> None:
        """Clear the record before forward runs."""
        self.calls.clear()
        self.tensors.clear()

    def leaves_of(self, value: Any) -> tuple[Any, ...]:
        """Return the leaves of a nest of arguments, with a label for each tensor."""
        return tuple(map(self._label_leaf, iterate_leaves(value)))

    def _label_leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        # keep the tensor alive: a new object may get the id of a freed one
        _, label = self.tensors.setdefault(id(leaf), (leaf, len(self.tensors)))
        return RecordedTensor(label, tuple(leaf.shape), leaf.dtype)


def iterate_leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of arguments or results; slices are containers."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, slice):
            yield from (leaf.start, leaf.stop, leaf.step)
        else:
            yield leaf


class _RecordingMode(TorchFunctionMode):
    """Records every call that returns tensors or nothing."""

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
        if torch.compiler.is_dynamo_compiling():  # of a torch.cond only its own call is recorded
            return func(*args, **(kwargs or {}))
        arguments = self.record.leaves_of((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        leaves = self.record.leaves_of(result)
        if result is None or not leaves or any(isinstance(leaf, RecordedTensor) for leaf in leaves):
            line = find_calling_line(1)
            self.record.calls.append(RecordedCall(func, arguments, leaves, line))
        return result


@contextmanager
def record_calls(module: torch.nn.Module, record: CallRecord) -> Iterator[None]:
    """Record each run of the module's forward in the block; the record keeps the last run."""
    forward = module.forward

    @functools.wraps(forward)
    def record_forward(*args: Any, **kwargs: Any) -> Any:
        record.reset_calls()
        record.inputs = record.leaves_of((args, kwargs))
        with _RecordingMode(record):
            result = register_dataclasses(forward(*args, **kwargs))
        record.outputs = record.leaves_of(result)
        return result

    with replace_forward(module, record_forward):
        yield


@dataclass(frozen=True)
class Divergence:
    """A point where two records diverge: the line of the model, or None if it is unknown."""

    line: UserLine | None


class SizeEvaluator:
    """Evaluates symbolic numbers; ``sizes`` maps names of torch's symbols to sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._known: dict[Any, Any] = {}
        self._shapes: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def shape(self, sizes: tuple[Any, ...]) -> tuple[int | None, ...]:
        """Evaluate a shape; None for a size that ``self.sizes`` does not determine."""
        if sizes not in self._shapes:
            self._shapes[sizes] = tuple(
                size if isinstance(size, int) else self._evaluate_expression(torch.SymInt, size)
                for size in sizes
            )
        return self._shapes[sizes]

    def __call__(self, value: Any) -> Any:
        """Evaluate a symbolic number, None if undetermined; return other values unchanged."""
        if not isinstance(value, _SYMBOLIC):
            return value
        key = type(value), value.node.expr
        if key not in self._known:
            self._known[key] = self._evaluate_expression(*key)
        return self._known[key]

    def _evaluate_expression(self, symbolic_type: type, expression: Any) -> Any:
        symbols = expression.free_symbols
        if not all(str(symbol) in self.sizes for symbol in symbols):
            return None  # a size that depends on data
        try:
            value = expression.subs({symbol: self.sizes[str(symbol)] for symbol in symbols})
            return _PYTHON_TYPES[symbolic_type](value)
        except (TypeError, ZeroDivisionError):  # a fraction, or a size that the program rejects
            return None


def find_divergence(
    general: CallRecord, special: CallRecord, at_sizes: SizeEvaluator
) -> Divergence | None:
    """Return where a run at other sizes diverges from a capture; None if they agree.

    ``general`` is the record of the capture, ``special`` that of the run at other sizes.
    """
    comparison, last_line = _Comparison(at_sizes), None
    comparison.same_leaves(general.inputs, special.inputs, new=True)
    for captured, actual in zip_longest(general.calls, special.calls):
        if captured is None or actual is None:
            remaining = captured or actual
            return None if remaining is None else Divergence(remaining.line)
        last_line = actual.line
        if captured.function != actual.function or not (
            comparison.same_leaves(captured.arguments, actual.arguments)
            and comparison.same_leaves(captured.results, actual.results, new=True)
        ):
            return Divergence(actual.line or captured.line)
    return (
        None if comparison.same_leaves(general.outputs, special.outputs) else Divergence(last_line)
    )


class _Comparison:
    """Compares leaves, and maps tensors of the capture to tensors of the run.

    Several tensors of the capture may map to one tensor of the run, for example if dropout returns
    its input there.
    """

    def __init__(self, at_sizes: SizeEvaluator) -> None:
        self.at_sizes = at_sizes
        self.labels: dict[int, int] = {}

    def same_leaves(
        self, captured: Sequence[Any], actual: Sequence[Any], new: bool = False
    ) -> bool:
        """Whether leaves agree; ``new`` means that tensors may appear here for the first time."""
        return len(captured) == len(actual) and all(
            self._same_leaf(captured_leaf, actual_leaf, new)
            for captured_leaf, actual_leaf in zip(captured, actual, strict=True)
        )

    def _same_leaf(self, captured: Any, actual: Any, new: bool) -> bool:
        if isinstance(captured, RecordedTensor) and isinstance(actual, RecordedTensor):
            if new or (
                captured.label not in self.labels and actual.label not in self.labels.values()
            ):
                self.labels[captured.label] = actual.label
            same_label = self.labels.get(captured.label) == actual.label
            same_shape = self.same_leaves(captured.shape, actual.shape)
            return same_label and same_shape and captured.dtype == actual.dtype
        return self._same_value(self.at_sizes(captured), actual, captured is None)

    def _same_value(self, value: Any, actual: Any, is_none: bool) -> bool:
        if (value is None and not is_none) or isinstance(actual, _SYMBOLIC):
            return True  # a number that depends on data
        if isinstance(value, float) and isinstance(actual, int | float):
            return math.isclose(value, actual, rel_tol=1e-9) or value == actual
        if isinstance(value, bool | int | str | torch.dtype | torch.device | None):
            return bool(type(value) is type(actual) and value == actual)
        return type(value) is type(actual)


# -- running a module with fake tensors


class FakeCopies:
    """Fake copies in one mode: one copy per tensor, so that tied weights stay tied."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @cached_property
    def fake_mode(self) -> FakeTensorMode:
        """The fake tensor mode; cached, because creating it takes as long as a small conversion."""
        return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())

    def __call__(self, value: Any) -> Any:
        """Return the copy of a tensor; return other values unchanged."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = value, self._copy_tensor(value)
        return self._copies[id(value)][1]

    def _copy_tensor(self, value: torch.Tensor) -> torch.Tensor:
        if not is_fake(value):
            return self.fake_mode.from_tensor(value, static_shapes=True)
        with self.fake_mode:  # the value belongs to another fake mode
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )


def record_module(
    request: Request, copies: FakeCopies, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> CallRecord:
    """Record the calls of the module for fake arguments that ``copies`` made.

    Raises the errors of the forward, and of operators that do not support fake tensors.
    """
    module, record = request.model, CallRecord()
    with (
        restore_state(module, (request.args, request.kwargs)),
        replace_tensors(module_tensors(module), copies),
        wrap_forward_in_autocast(module),
        record_calls(module, record),
        trace_packed_sequences(module),
        in_onnx_export(),
        exporting_state(),
        silence_loggers(FAKE_TENSOR_LOGGER),
        copies.fake_mode,
    ):
        module(*args, **kwargs)
    return record
