"""Weights as constants of a session: the model, when freezing pays, and how a change is noticed."""

from __future__ import annotations

import ctypes
import functools
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto, TensorProto

from ortable import dtypes
from ortable.backend.roles import InputRole, InputRoleKind

from .feeds import as_bytes, feed_any, to_input_layout
from .weights import (
    WeightSet,
    WeightSignature,
    storage_of,
    versions_of,
    watch_weights,
    watched_sets,
)

# Small tensors are written into the model, where shape inference reads them.
_EMBEDDED_BYTES = 1024
# Sets of weights of one graph that are constants at the same time: equal layers share a graph.
MAX_FROZEN_SETS = 256


def is_freezable(role: InputRole) -> bool:
    """Whether an argument may become a constant.

    It is a weight that the graph only reads, whose writes are noticed, of a type that sessions take
    as constants.
    """
    return (
        role.static
        and not role.untracked_writes
        and role.kind is InputRoleKind.TENSOR
        and bool(role.name)
        and not dtypes.is_complex_type(role.elem_type)
        and role.elem_type not in dtypes.FLOAT8_TYPES
        and all(isinstance(size, int) for size in role.shape or ())
    )


class BackOff:
    """How many calls weights must be unchanged before they become constants again.

    The number doubles each time that constants are dropped before they were worth their cost.
    """

    _WORTH_FACTOR = 20  # a session that lived that many times as long as it took to make
    _MAX_CALLS = 1 << 14

    def __init__(self) -> None:
        self.given_up = 0
        # by set of weights: their signature at the last call, and for how many calls in a row
        self._stable_calls: dict[tuple[int, ...], tuple[WeightSignature, int]] = {}

    @property
    def required_calls(self) -> int:
        return min(2 << self.given_up, self._MAX_CALLS)

    def is_stable(self, key: tuple[int, ...], now: WeightSignature) -> bool:
        """Record a call; whether these weights were the same in `required_calls` calls in a row."""
        last, calls = self._stable_calls.get(key, (None, 0))
        if last is None and len(self._stable_calls) >= MAX_FROZEN_SETS:
            self._stable_calls.clear()
        calls = calls + 1 if now == last else 0
        self._stable_calls[key] = now, calls
        return calls >= self.required_calls

    def clear_weights(self, key: tuple[int, ...]) -> None:
        """Forget weights that become constants."""
        self._stable_calls.pop(key, None)

    def note_dropped(self, frozen: FrozenWeights) -> None:
        """Record that a set of constants is dropped."""
        lived = time.perf_counter() - frozen.created
        self.given_up = (
            1 if lived > self._WORTH_FACTOR * frozen.cost else min(self.given_up + 1, 20)
        )


class FrozenWeights(WeightSet):
    """One set of weights, arguments at `positions`, as constants of a session.

    `call` runs the session, and selects another call if a weight has changed.  When nothing else
    refers to the weights, or the constants are dropped, `on_release` is called and the session is
    released.  `cost` is the time that the session took to create, in seconds.
    """

    references = 3  # one here, two in the globals of `call`

    def __init__(
        self,
        session: Any,
        positions: Sequence[int],
        tensors: Sequence[torch.Tensor],
        seen: WeightSignature,
        cost: float,
        on_release: Callable[[FrozenWeights], None],
        windows: Sequence[memoryview] = (),
        sample: bytes = b"",
    ) -> None:
        """Watch the weights.

        Args:
            session: has them as constants.
            positions: of the arguments.
            tensors: the weights.
            seen: the signature of the weights before the session was created.
            cost: the seconds that took.
            on_release: called when the set is released.
            windows: `sample_windows` of the weights.
            sample: what these read then.
        """
        self.session = session
        self.windows, self.sample = tuple(windows), sample
        self.cost, self.created = cost, time.perf_counter()
        self.valid = [True]
        self.positions = tuple(positions)
        self.pointers, self.versions = seen[0], seen[1]
        self.call: Callable[[list[Any]], list[Any]] | None = None
        self.leaves_out = 0  # how many arguments in front `call` is not given
        self.tensors = list(tensors)
        self.weights = tuple(tensors)
        # Holds the memory: another tensor at the same address would look unchanged.
        # Not by an alias, which refers to the tensor: `torch.utils.swap_tensors` would refuse it.
        self._memory = [tensor.untyped_storage() for tensor in tensors]
        self.storages = frozenset(map(storage_of, tensors))
        self._on_release = on_release
        watch_weights(self)

    def is_current(self, args: Sequence[Any]) -> bool:
        """Whether the constants still equal the weights among these arguments."""
        tensors = [args[i] for i in self.positions]
        return (
            self.valid[0]
            and all(map(operator.is_, tensors, self.tensors))
            and [t.data_ptr() for t in tensors] == self.pointers
            and versions_of(tensors) == self.versions
            and b"".join(self.windows) == self.sample
        )

    def check_globals(self) -> dict[str, Any]:
        """The globals that the generated check of the weights reads."""
        named = {f"w{i}": tensor for i, tensor in zip(self.positions, self.tensors, strict=True)}
        return {
            "valid": self.valid,
            "weights": self.weights,
            "pointers": self.pointers,
            "versions": self.versions,
            "join": b"".join,
            "windows": self.windows,
            "sample": self.sample,
            **named,
        }

    def invalidate(self) -> None:
        """Mark the constants as changed, for the next call."""
        self.valid[0] = False

    def release(self) -> None:
        """Release the session, the constants and the memory."""
        self.valid[0] = False
        self._on_release(self)
        self.call = self.session = None
        self.tensors, self._memory, self.windows, self.weights = [], [], (), ()


def count_sessions_with(weights: Sequence[torch.Tensor]) -> int:
    """Count the sessions with these weights as constants, by the largest of them."""
    storage = storage_of(max(weights, key=lambda weight: weight.nbytes))
    sets = [
        weight_set
        for weight_set in watched_sets()
        if isinstance(weight_set, FrozenWeights) and storage in weight_set.storages
    ]
    return len({id(weight_set.session) for weight_set in sets if weight_set.session is not None})


@functools.cache
def _find_malloc_trim() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # a C library other than glibc
        return None
    return function  # type: ignore[no-any-return]


def trim_freed_memory() -> None:
    """Return memory that the creation of a session freed to the system.

    glibc keeps it, about a third of the size of the weights for each session.
    """
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)


def with_constants(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    values: bool = True,
) -> tuple[ModelProto, dict[str, Any]]:
    """A copy of the model in which inputs are initializers, and the OrtValues of external ones.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        values: False: no OrtValue is made.
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    constants: dict[str, Any] = {}
    for name, (role, tensor) in weights.items():
        proto = graph.initializer.add()
        host = tensor.data.cpu()  # the same memory, but for weights on an accelerator
        ordered = to_input_layout(role, host)
        proto.name, proto.data_type = name, int(role.elem_type or 0)
        proto.dims.extend(ordered.shape)
        size = ordered.numel() * ordered.element_size()
        if size <= _EMBEDDED_BYTES:
            proto.raw_data = _bytes_of(ordered)
            continue
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", "0"), ("length", str(size))):
            entry = proto.external_data.add()
            entry.key, entry.value = key, value
        if values:
            constants[name] = feed_any(role, host)
    return result, constants


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.reshape(-1)
    if flat.dtype is torch.bool:
        flat = as_bytes(flat)
    # Of a copy: numpy() marks the memory as shared for good, and FSDP could not free it.
    return bytes(flat.view(torch.uint8).clone().numpy().tobytes())
