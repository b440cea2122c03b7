"""What this process keeps: the latest conversions, which hold no weights, in memory and in the
folder of option `cache_dir`; and sessions, for as long as somebody runs them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ortable.backend.roles import CompiledGraph
from ortable.backend.store import CONVERSION, Store, Uncacheable

from .codec import Unserializable, decode_whole, encode_whole
from .envelope import seal, unseal


def _encode(name: str, compiled: CompiledGraph) -> bytes:
    try:
        fields, model = encode_whole(compiled)
    except Unserializable as exc:
        raise Uncacheable(f"a file cannot hold the graph: {exc}") from None
    return seal("conversion", {"key": name, "graph": fields}, model)


def _decode(name: str, content: bytes) -> CompiledGraph:
    header, model = unseal("conversion", content)
    if header["key"] != name:
        raise ValueError("it is another graph's")
    return decode_whole(header["graph"], model)


def new_conversions(count: int = 256, size: int = 64 * 2**20) -> Store[CompiledGraph]:
    """Conversions by key; those of a folder have no `key` and no `timings`.

    Args:
        count: how many memory holds.
        size: how many bytes their models have.
    """
    return Store(
        CONVERSION,
        _encode,
        _decode,
        made="converted",
        weigh=lambda compiled: compiled.model.ByteSize(),
        count=count,
        size=size,
        carried=True,
    )


class _SessionSlot:
    """One shared session, while it lives: a lock for its making, and the memory of its weights, so
    that no other tensor is found at their addresses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: weakref.ref[Any] | None = None
        self.memory: list[Any] = []


class Sessions:
    """Sessions in use, by key; each lives as long as its users."""

    def __init__(self) -> None:
        self._slots: dict[Any, _SessionSlot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def shared(
        self,
        key: str | None,
        weights: Sequence[torch.Tensor],
        make: Callable[[], Any],
        stamp: Any = None,
    ) -> Any:
        """The session that somebody in this process uses for the same model, options and weights;
        a new one when nobody does.

        Args:
            key: of `session_key`; None: never shared.
            weights: tensors whose values are constants of the session; shared are sessions of the
                same tensors, at the same place in memory and of the same version.
            make: makes the session (any object that weak references can point to).
            stamp: a hashable value that differs when weights changed in a way that their versions
                do not show.
        """
        states = _states(weights)
        if key is None or states is None:
            return make()
        full = (key, stamp, states)
        # `setdefault` is atomic; the slot's own lock makes two threads wait for one session
        slot = self._slots.setdefault(full, _SessionSlot())
        with slot.lock:
            session = slot.session() if slot.session is not None else None
            if session is None:
                try:
                    session = make()
                except BaseException:
                    self._slots.pop(full, None)
                    raise
                slot.session = weakref.ref(session, lambda dead: self._drop(full, dead))
                # not the tensors, nor weak references: they have owners, who may swap them
                slot.memory = [weight.untyped_storage() for weight in weights]
                self._slots[full] = slot  # the death of an earlier session may have removed it
        return session

    def forget(self) -> None:
        """Empties the table: threads of sessions do not exist in a forked process."""
        self._slots = {}

    def _drop(self, full: Any, dead: Any) -> None:
        """Called when a session dies, by whatever thread: it takes no lock."""
        slot = self._slots.get(full)
        if slot is not None and slot.session is dead:
            self._slots.pop(full, None)


def _states(weights: Sequence[torch.Tensor]) -> tuple[tuple[int, int, int], ...] | None:
    """Identity, place and version of each tensor; None when one has no version (made under
    `torch.inference_mode`), so that a write into it would not be seen."""
    if any(weight.is_inference() for weight in weights):
        return None
    return tuple((id(weight), weight.data_ptr(), weight._version) for weight in weights)


conversions = new_conversions()
_sessions = Sessions()
shared_session = _sessions.shared
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sessions.forget)


def forget() -> None:
    """Empties both tables; what is in use lives on, unshared."""
    conversions.clear()
    _sessions.forget()
