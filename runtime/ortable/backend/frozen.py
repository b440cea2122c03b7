"""Weights as constants of a session, and everything that tells that they have changed since:
identity, memory, version, an optimizer's step, the death of the tensor, `refresh`."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto, TensorProto
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from ortable import dtypes

from .feeds import as_bytes, feed_any, in_order
from .roles import InputKind, InputRole

__all__ = [
    "BackOff",
    "Frozen",
    "History",
    "freezable",
    "is_watchable",
    "refresh",
    "signature",
    "with_constants",
]

# Small tensors are written into the model, where shape inference reads them.
_EMBEDDED_BYTES = 1024


def freezable(role: InputRole) -> bool:
    """Whether an argument of that role may become a constant: a weight that the graph reads only,
    of a type that ONNX has."""
    return (
        role.static
        and role.kind is InputKind.TENSOR
        and bool(role.name)
        and not dtypes.is_complex_type(role.elem_type)
        and all(isinstance(size, int) for size in role.shape or ())
    )


def is_watchable(tensor: Any) -> bool:
    """Whether a write into the tensor shows: tensors made under inference_mode count no versions,
    and memory shared between processes is written elsewhere."""
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_inference()
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_shared()
    )


Signature = tuple[list[int], list[int], int]


def signature(tensors: Sequence[torch.Tensor]) -> Signature:
    """Where the tensors are, how often they were written, and how often optimizers stepped or
    somebody called `refresh`."""
    return [t.data_ptr() for t in tensors], [_version(t) for t in tensors], _steps[0]


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


class History:
    """How long a set of weights has been at rest since it was seen first or changed last."""

    __slots__ = ("last", "rest")

    def __init__(self, now: Signature | None = None) -> None:
        self.last = now
        self.rest = 0

    def rested(self, now: Signature, asked: int) -> bool:
        """Notes one call; True when the weights were the same in `asked` calls in a row."""
        self.rest = self.rest + 1 if now == self.last else 0
        self.last = now
        return self.rest >= asked


class BackOff:
    """How many calls weights must rest before they become constants again: twice as many each time
    that constants were given up before they were worth the time it took to make them."""

    _WORTH = 20  # a session that lived that many times as long as it took to make
    _MOST = 1 << 14

    def __init__(self) -> None:
        self.given_up = 0

    @property
    def asked(self) -> int:
        return min(2 << self.given_up, self._MOST)

    def note(self, frozen: Frozen) -> None:
        """A set of constants is given up."""
        lived = time.perf_counter() - frozen.made
        self.given_up = 1 if lived > self._WORTH * frozen.cost else min(self.given_up + 1, 20)


class Frozen:
    """One set of weights, arguments at `positions`, as constants of a session.

    `call` runs the session, and calls `changed` when a weight is not what it was.  The weights are
    not kept alive: when one dies, `dropped` is called and the session is let go.  `cost` are the
    seconds that the session took to make.
    """

    def __init__(
        self,
        session: Any,
        positions: Sequence[int],
        tensors: Sequence[torch.Tensor],
        seen: Signature,
        cost: float,
        dropped: Callable[[Frozen], None],
    ) -> None:
        self.session = session
        self.cost, self.made = cost, time.perf_counter()
        self.valid = [True]
        self.positions = tuple(positions)
        self.pointers, self.versions = seen[0], seen[1]
        self.ids = [id(tensor) for tensor in tensors]
        self.call: Callable[[list[Any]], list[Any]] | None = None
        # The memory is held: another tensor at the same address would look unchanged.
        self._memory = [tensor.detach() for tensor in tensors]
        self.storages = frozenset(_storage(tensor) for tensor in tensors)
        this = weakref.ref(self)

        def died(_: Any) -> None:
            found = this()
            if found is not None:
                found.drop()

        self._dropped = dropped
        self._refs = [weakref.ref(tensor, died) for tensor in tensors]
        _watch(self)

    def fresh(self, args: Sequence[Any]) -> bool:
        """Whether the constants still are the values of the weights among these arguments."""
        tensors = [args[i] for i in self.positions]
        return (
            self.valid[0]
            and [id(t) for t in tensors] == self.ids
            and [t.data_ptr() for t in tensors] == self.pointers
            and [_version(t) for t in tensors] == self.versions
        )

    def expected(self) -> dict[str, Any]:
        """The globals that the generated check of the weights reads."""
        named = {f"id_a{i}": found for i, found in zip(self.positions, self.ids, strict=True)}
        return {"valid": self.valid, "pointers": self.pointers, "versions": self.versions, **named}

    def invalidate(self) -> None:
        """The constants are not the weights any more: the next call sees it."""
        self.valid[0] = False

    def drop(self) -> None:
        """Lets the session, the constants and the memory go."""
        self.valid[0] = False
        self._dropped(self)
        self.call = self.session = None
        self._memory, self._refs = [], []


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


_frozen: weakref.WeakSet[Frozen] = weakref.WeakSet()
_steps = [0]
_hook: list[Any] = []
_lock = threading.Lock()


def _watch(frozen: Frozen) -> None:
    """Adds to those that an optimizer's step may change.  The hook stays: it costs nothing while
    nothing is frozen, and to remove it could happen while torch walks over the hooks."""
    with _lock:
        if not _hook:
            _hook.append(register_optimizer_step_post_hook(_stepped))
        _frozen.add(frozen)


def _stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """After a step: fused optimizers and those that write through `.data` count no version."""
    _steps[0] += 1
    with _lock:
        watched = list(_frozen)
    if not watched:
        return
    written = {
        _storage(p)
        for group in optimizer.param_groups
        for p in group["params"]
        if p.layout is torch.strided
    }
    for frozen in watched:
        if not written.isdisjoint(frozen.storages):
            frozen.invalidate()


def refresh(target: Any = None) -> None:
    """Makes compiled graphs read their weights again at the next call.

    For writes that leave no trace: `p.data.mul_()`, numpy arrays over the memory of a parameter,
    other processes.  All other changes are noticed without it.

    :param target: a module, compiled or not, or a tensor: only graphs that hold its memory as
        constants are concerned; None: all graphs
    :raises TypeError: `target` is something else
    """
    _steps[0] += 1  # sessions that others share hold the values of before
    with _lock:
        watched = list(_frozen)
    if target is None:
        concerned = watched
    else:
        tensors = _tensors_of(target)
        written = {_storage(t) for t in tensors if t.layout is torch.strided}
        concerned = [f for f in watched if not written.isdisjoint(f.storages)]
    for frozen in concerned:
        frozen.invalidate()


def _tensors_of(target: Any) -> list[torch.Tensor]:
    if isinstance(target, torch.Tensor):
        return [target]
    if isinstance(target, torch.nn.Module):
        return [*target.parameters(), *target.buffers()]
    raise TypeError(
        f"refresh() takes a module, a tensor or nothing, not a {type(target).__name__}; "
        "refresh() without an argument concerns every compiled graph."
    )


def with_constants(
    model: ModelProto, weights: Mapping[str, tuple[InputRole, torch.Tensor]]
) -> tuple[ModelProto, dict[str, Any]]:
    """A copy of the model in which inputs are initializers, and the OrtValues of those whose data
    are not in it.

    :param weights: role and tensor by name of the input
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
        ordered = in_order(role, tensor.detach())
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
        constants[name] = feed_any(role, tensor.detach())
    return result, constants


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.reshape(-1)
    if flat.dtype is torch.bool:
        flat = as_bytes(flat)
    return bytes(flat.view(torch.uint8).numpy().tobytes())
