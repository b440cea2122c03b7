"""Caches of this process: conversions and sessions.

The latest conversions, which contain no weights, are stored in memory and in the folder of option
`cache_dir`. Sessions are shared while they are in use.
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
        raise Uncacheable(f"the graph cannot be stored in a file: {exc}") from None
    return seal_bytes("conversion", {"key": name, "graph": fields}, model)


def _decode_conversion(name: str, content: bytes) -> CompiledGraph:
    header, model = unseal_bytes("conversion", content)
    if header["key"] != name:
        raise ValueError("it belongs to another graph")
    return decode_with_model(header["graph"], model)


def new_conversions(count: int = 256, size: int = 64 * 2**20) -> Store[CompiledGraph]:
    """Create a store of conversions; a conversion from a folder has no `key` and no `timings`.

    Args:
        count: the maximum number of conversions in memory.
        size: the maximum total size of their models in bytes.
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

    Holding the memory prevents other tensors from being allocated at the same address.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: weakref.ref[Any] | None = None
        self.memory: list[Any] = []


class Sessions:
    """Sessions in use, by key. The table does not keep them alive."""

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
        """Return the session in use for the same model, options and weights, or create one.

        Args:
            key: a key of `session_key`; None for a session that is not shared.
            weights: tensors whose values are constants of the session. Sessions are shared for the
                same tensors, at the same address and with the same version.
            make: creates the session, or any other object that supports weak references.
            stamp: a hashable value that differs after changes of weights without a version change.
        """
        states = _weight_states(weights)
        if key is None or states is None:
            return make()
        slot_key = (key, stamp, states)
        # `setdefault` is atomic; with the slot's lock, two threads wait for a single session
        slot = self._slots.setdefault(slot_key, _SessionSlot())
        with slot.lock:
            session = slot.session() if slot.session is not None else None
            if session is None:
                try:
                    session = make()
                except BaseException:
                    self._slots.pop(slot_key, None)
                    raise
                slot.session = weakref.ref(session, lambda dead: self._remove_dead(slot_key, dead))
                # hold the storages, not the tensors: torch may swap the contents of tensors
                slot.memory = [weight.untyped_storage() for weight in weights]
                self._slots[slot_key] = slot  # an earlier session's callback may have removed it
        return session

    def clear(self) -> None:
        """Clear the table; a forked process has to, since it has no threads of sessions."""
        self._slots = {}

    def _remove_dead(self, slot_key: Any, reference: Any) -> None:
        """Remove the slot of a dead session; takes no lock, because any thread may call it."""
        slot = self._slots.get(slot_key)
        if slot is not None and slot.session is reference:
            self._slots.pop(slot_key, None)


def _weight_states(weights: Sequence[torch.Tensor]) -> tuple[tuple[int, int, int], ...] | None:
    """Return identity, address and version of each tensor, or None if a tensor has no version.

    A write to such a tensor, created under `torch.inference_mode`, could not be detected.
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
    """Clear both tables; sessions in use stay alive but are no longer shared."""
    conversions.clear()
    _sessions.clear()
