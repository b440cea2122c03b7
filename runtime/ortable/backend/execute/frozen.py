"""Weights as constants of a session: the model with the weights in it, how long they must rest
before that is worth the time, and what was true of them then."""

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

from .feeds import as_bytes, feed_any, in_order
from .weights import Holder, WeightSignature, hold, holders, storage_of, versions_of

# Small tensors are written into the model, where shape inference reads them.
_EMBEDDED_BYTES = 1024
# Sets of weights of one graph that are constants at the same time: equal layers share a graph.
MOST_FROZEN = 256


def freezable(role: InputRole) -> bool:
    """Whether an argument of that role may become a constant: a weight that the graph reads only,
    whose writes show, of a type that sessions take as constants."""
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
    """How many calls weights must rest before they become constants again: twice as many each time
    that constants were given up before they were worth the time it took to make them."""

    _WORTH = 20  # a session that lived that many times as long as it took to make
    _MOST = 1 << 14

    def __init__(self) -> None:
        self.given_up = 0
        # by set of weights: what they were at the last call, and for how many calls in a row
        self._rest: dict[tuple[int, ...], tuple[WeightSignature, int]] = {}

    @property
    def asked(self) -> int:
        return min(2 << self.given_up, self._MOST)

    def has_rested(self, key: tuple[int, ...], now: WeightSignature) -> bool:
        """Note a call; whether these weights were the same in `asked` calls in a row."""
        last, rest = self._rest.get(key, (None, 0))
        if last is None and len(self._rest) >= MOST_FROZEN:
            self._rest.clear()
        rest = rest + 1 if now == last else 0
        self._rest[key] = now, rest
        return rest >= self.asked

    def forget(self, key: tuple[int, ...]) -> None:
        """These weights become constants."""
        self._rest.pop(key, None)

    def note(self, frozen: Frozen) -> None:
        """A set of constants is given up."""
        lived = time.perf_counter() - frozen.made
        self.given_up = 1 if lived > self._WORTH * frozen.cost else min(self.given_up + 1, 20)


class Frozen(Holder):
    """One set of weights, arguments at `positions`, as constants of a session.

    `call` runs the session, and calls `changed` when a weight is not what it was.  When nobody else
    has the weights any more, or the constants are given up, `dropped` is called and the session is
    let go.  `cost` are the seconds that the session took to make.
    """

    references = 3  # here, and twice in the globals of `call`

    def __init__(
        self,
        session: Any,
        positions: Sequence[int],
        tensors: Sequence[torch.Tensor],
        seen: WeightSignature,
        cost: float,
        dropped: Callable[[Frozen], None],
        windows: Sequence[memoryview] = (),
        sample: bytes = b"",
    ) -> None:
        """
        :param seen: the signature of the weights before the session was made
        :param windows: `windows_of` them, which then read as `sample`
        """
        self.session = session
        self.windows, self.sample = tuple(windows), sample
        self.cost, self.made = cost, time.perf_counter()
        self.valid = [True]
        self.positions = tuple(positions)
        self.pointers, self.versions = seen[0], seen[1]
        self.call: Callable[[list[Any]], list[Any]] | None = None
        self.leaves_out = 0  # how many arguments in front `call` is not given
        self.tensors = list(tensors)
        self.weights = tuple(tensors)
        # The memory is held: another tensor at the same address would look unchanged.
        # Not by an alias, which refers to the tensor: `torch.utils.swap_tensors` would refuse it.
        self._memory = [tensor.untyped_storage() for tensor in tensors]
        self.storages = frozenset(map(storage_of, tensors))
        self._dropped = dropped
        hold(self)

    def fresh(self, args: Sequence[Any]) -> bool:
        """Whether the constants still are the values of the weights among these arguments."""
        tensors = [args[i] for i in self.positions]
        return (
            self.valid[0]
            and all(map(operator.is_, tensors, self.tensors))
            and [t.data_ptr() for t in tensors] == self.pointers
            and versions_of(tensors) == self.versions
            and b"".join(self.windows) == self.sample
        )

    def expected(self) -> dict[str, Any]:
        """The globals that the generated check of the weights reads."""
        named = {f"w{i}": found for i, found in zip(self.positions, self.tensors, strict=True)}
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
        """The constants are not the weights any more: the next call sees it."""
        self.valid[0] = False

    def let_go(self) -> None:
        """Lets the session, the constants and the memory go."""
        self.valid[0] = False
        self._dropped(self)
        self.call = self.session = None
        self.tensors, self._memory, self.windows, self.weights = [], [], (), ()


def sessions_with(weights: Sequence[torch.Tensor]) -> int:
    """How many sessions have these weights as constants: the largest of them stands for all."""
    place = storage_of(max(weights, key=lambda weight: weight.nbytes))
    found = [each for each in holders() if isinstance(each, Frozen) and place in each.storages]
    return len({id(each.session) for each in found if each.session is not None})


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # a C library other than glibc
        return None
    return found  # type: ignore[no-any-return]


def give_back_freed() -> None:
    """Hands memory that the creation of a session needed for a while back to the system: glibc
    keeps it, about a third of the size of the weights for each session."""
    trim = _trim()
    if trim is not None:
        trim(0)


def with_constants(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    values: bool = True,
) -> tuple[ModelProto, dict[str, Any]]:
    """A copy of the model in which inputs are initializers, and the OrtValues of those whose data
    are not in it.

    :param weights: role and tensor by name of the input
    :param values: False: no OrtValue is made
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    kept = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(kept)
    constants: dict[str, Any] = {}
    for name, (role, tensor) in weights.items():
        proto = graph.initializer.add()
        host = tensor.data.cpu()  # the same memory, but for weights on an accelerator
        ordered = in_order(role, host)
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
