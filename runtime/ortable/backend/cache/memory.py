"""Caches of this process: the latest conversions, which hold no weights, in memory and in the
folder of option `cache_dir`; and sessions, for as long as they are in use.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ortable.backend.roles import CompiledGraph
from ortable.backend.store import CONVERSION, Store, Uncacheable

from .codec import Unserializable, decode_with_model, encode_with_model
from .envelope import seal_bytes, unseal_bytes


def _encode_conversion(name: str, compiled: CompiledGraph) -> bytes:
    try:
        fields, model = encode_with_model(compiled)
    except Unserializable as exc:
        raise Uncacheable(f"a file cannot hold the graph: {exc}") from None
    return seal_bytes("conversion", {"key": name, "graph": fields}, model)


def _decode_conversion(name: str, content: bytes) -> CompiledGraph:
    header, model = unseal_bytes("conversion", content)
    if header["key"] != name:
        raise ValueError("it is another graph's")
    return decode_with_model(header["graph"], model)


def new_conversions(count: int = 256, size: int = 64 * 2**20) -> Store[CompiledGraph]:
    """Create a store of conversions by key; those of a folder have no `key` and no `timings`.

    Args:
        count: how many memory holds.
        size: how many bytes their models have.
    """
    return Store(
        CONVERSION,
        _encode_conversion,
        _decode_conversion,
        verb="converted",
        weigh=lambda compiled: compiled.model.ByteSize(),
        count=count,
        size=size,
        in_artifacts=True,
    )


class _SessionSlot:
    """One shared session while it lives, the lock for its creation, and the memory of its weights.

    The memory is held so that no other tensor gets the same address.
    """

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

    def get_or_make(
        self,
        key: str | None,
        weights: Sequence[torch.Tensor],
        make: Callable[[], Any],
        stamp: Any = None,
    ) -> Any:
        """Return the session in use for the same model, options and weights, or make one.

        Args:
            key: of `session_key`; None: never shared.
            weights: tensors whose values are constants of the session; sessions are shared for the
                same tensors, at the same address and of the same version.
            make: makes the session (any object that weak references can point to).
            stamp: a hashable value that differs when weights changed in a way that their versions
                do not show.
        """
        states = _weight_states(weights)
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
                slot.session = weakref.ref(session, lambda dead: self._remove_dead(full, dead))
                # not the tensors, nor weak references: they have owners, who may swap them
                slot.memory = [weight.untyped_storage() for weight in weights]
                self._slots[full] = slot  # the death of an earlier session may have removed it
        return session

    def clear(self) -> None:
        """Clear the table: threads of sessions do not exist in a forked process."""
        self._slots = {}

    def _remove_dead(self, full: Any, dead: Any) -> None:
        """Remove the slot of a dead session; any thread may call this, so it takes no lock."""
        slot = self._slots.get(full)
        if slot is not None and slot.session is dead:
            self._slots.pop(full, None)


def _weight_states(weights: Sequence[torch.Tensor]) -> tuple[tuple[int, int, int], ...] | None:
    """Return identity, address and version of each tensor.

    None when one has no version (made under `torch.inference_mode`): a write to it could not be
    detected.
    """
    if any(weight.is_inference() for weight in weights):
        return None
    return tuple((id(weight), weight.data_ptr(), weight._version) for weight in weights)


conversions = new_conversions()
_sessions = Sessions()
shared_session = _sessions.get_or_make
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sessions.clear)


def clear_caches() -> None:
    """Clear both tables; what is in use lives on, unshared."""
    conversions.clear()
    _sessions.clear()
