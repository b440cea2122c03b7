"""Notice that a weight has changed, or that nothing else refers to it.

The evidence is its memory, its version, samples of its values, an optimizer's step, `refresh`,
and its reference count.

Writes that torch does not count (`weight.data[3] = 0`) show in the values only, and of a weight
of more than 4 KB a call compares samples: four windows of 64 bytes. A write that changes none
of them is missed, and the constants are stale until `refresh`.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from ortable.compat.torch import fsdp_parameters, is_traceable_wrapper_subclass

_CODES = (torch.int8, torch.uint8, torch.int32)
WeightSignature = tuple[list[int], list[int], int]


class WeightSet:
    """Something that keeps `tensors` between calls, with `references` references to each.

    `storages` are those whose values it keeps.
    """

    references = 1
    storages: frozenset[int] = frozenset()
    tensors: Sequence[torch.Tensor] = ()

    def release(self) -> None:
        """Release the tensors: nothing else refers to one of them."""

    def invalidate(self) -> None:
        """Note that the values may have changed."""


def is_watchable(tensor: Any) -> bool:
    """Whether writes into the tensor are noticed.

    Tensors made under inference_mode count no versions, and other processes write into shared
    memory. torch reports all CUDA tensors as shared.
    """
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_inference()
        and tensor.layout is torch.strided
        and (tensor.is_cuda or (tensor.device.type == "cpu" and not tensor.is_shared()))
    )


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How often each tensor was written, -1 if torch does not count."""
    return [-1 if t.is_inference() else t._version for t in tensors]


def storage_of(tensor: torch.Tensor) -> int:
    """The address of the storage of the tensor and all views of it."""
    return tensor.untyped_storage().data_ptr()


def weight_signature(tensors: Sequence[torch.Tensor]) -> WeightSignature:
    """The addresses and versions of the tensors, and the number of optimizer steps."""
    return [t.data_ptr() for t in tensors], versions_of(tensors), _steps[0]


_MAX_WHOLE_BYTES = 4096  # larger weights are compared in windows
_WINDOW, _WINDOWS = 64, 4  # bytes, and number, of the windows of a larger weight


def sample_windows(tensors: Sequence[torch.Tensor]) -> list[memoryview]:
    """The memory of weights that a call compares: small ones completely, of others a few windows.

    `weight.data += delta` leaves no trace in torch, but changes the memory.  A write between the
    windows only is missed: single elements, rows or columns, up to a third of a large weight in one
    piece.  `b"".join` reads them all faster than their versions are read.  They do not hold the
    memory: compare pointers first.  Memory of an accelerator is not read.
    """
    windows = []
    for tensor in tensors:
        if tensor.device.type != "cpu":
            continue
        axes = zip(tensor.shape, tensor.stride(), strict=True)
        span = (1 + sum((size - 1) * step for size, step in axes)) * tensor.element_size()
        span = span if tensor.numel() else 0
        parts = [(0, span)]
        if span > _MAX_WHOLE_BYTES:
            last = span - _WINDOW
            parts = [(last * i // (_WINDOWS - 1), _WINDOW) for i in range(_WINDOWS)]
        for start, size in parts:
            memory = (ctypes.c_char * size).from_address(tensor.data_ptr() + start)
            windows.append(memoryview(memory).cast("B"))
    return windows


# Plain references, not a WeakSet: that cannot be read while another thread adds to it.
_weight_sets: set[weakref.ref[Any]] = set()
_steps = [0]
_optimizer_hooks: list[Any] = []
_lock = threading.Lock()
# Without the global lock all automatic collections are of everything and say generation 0; those of
# Python 3.14.0 to 3.14.4 go on from where the last one stopped and say 1.
_REPORTS_FULL_COLLECTIONS = not (
    sysconfig.get_config_var("Py_GIL_DISABLED") or (3, 14) <= sys.version_info[:3] < (3, 14, 5)
)
_SWEEP_INTERVAL = 1.0  # seconds
_last_sweep = 0.0  # when, of `time.monotonic`


def watch_weights(weight_set: WeightSet) -> None:
    """Notify `weight_set` from now on when its weights change or are abandoned.

    The two hooks for it, on optimizers and on full garbage collections, are installed once and
    stay: they cost nothing while nothing is watched.
    """
    with _lock:
        if _on_collection not in gc.callbacks:
            gc.callbacks.append(_on_collection)
        if not _optimizer_hooks:
            _optimizer_hooks.append(register_optimizer_step_post_hook(_on_optimizer_step))
        _weight_sets.add(weakref.ref(weight_set, _weight_sets.discard))


def watched_sets() -> list[WeightSet]:
    """All watched sets that are alive."""
    return [
        weight_set for reference in list(_weight_sets) if (weight_set := reference()) is not None
    ]


def after_fork() -> None:
    """Replace the lock in a forked child, where its owner may not exist."""
    global _lock
    _lock = threading.Lock()


def _count_change() -> None:
    """Count one more step or refresh.

    Without the lock two threads of a free-threaded Python could count as one, and a session created
    between them would stay in use.
    """
    with _lock:
        _steps[0] += 1


def _on_optimizer_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Handle a step: fused optimizers and those that write through `.data` count no version."""
    _count_change()
    sets = [h for h in watched_sets() if h.storages]
    if not sets:
        return
    written = {
        storage_of(part)
        for group in optimizer.param_groups
        for p in group["params"]
        for part in plain_tensors(p)
        if part.layout is torch.strided
    }
    for weight_set in sets:
        if not written.isdisjoint(weight_set.storages):
            weight_set.invalidate()


def _on_collection(phase: str, info: dict[str, Any]) -> None:
    """Release weights after a full collection.

    If this Python does not report which are full: after any, at most every `_SWEEP_INTERVAL`
    seconds.
    """
    global _last_sweep
    if phase != "stop":
        return
    if info["generation"] != 2:
        if _REPORTS_FULL_COLLECTIONS or time.monotonic() - _last_sweep < _SWEEP_INTERVAL:
            return
        _last_sweep = time.monotonic()
    release_abandoned()


def release_abandoned() -> None:
    """Release weights that only their sets refer to.

    Weak references would notify immediately, but `torch.utils.swap_tensors`, and with it
    `module.to` of some modules, refuses tensors that have any.
    """
    sets = watched_sets()
    references: Counter[int] = Counter()
    for weight_set in sets:
        for tensor in weight_set.tensors:
            references[id(tensor)] += weight_set.references
    for weight_set in sets:
        tensors = list(weight_set.tensors)
        counts = zip(tensors, _reference_counts(tensors), strict=True)
        if any(count <= references[id(t)] + _COUNTING_OVERHEAD for t, count in counts):
            weight_set.release()


def _reference_counts(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(item) for item in objects]


# What counting adds, which differs between versions of Python: the list, its loop, the call.
_COUNTING_OVERHEAD = _reference_counts([object()])[0]


def refresh(target: torch.nn.Module | torch.Tensor | None = None) -> None:
    """Make compiled graphs read their weights again at the next call.

    Call it after writes that torch does not count, through `p.data`, numpy or dlpack, into a part
    of a weight of more than 4 KB: `p.data[3] = 0`, `p.data *= mask`.  Of such a weight a call
    compares four samples of 64 bytes, from the first element to the last; without `refresh` a write
    that changes none of them is not noticed, and results are those of the old weight. Changes that
    torch counts, assignments, optimizers' steps, and writes that change an entire weight are
    noticed without it, unless rounding leaves all four samples unchanged.

    Args:
        target: a module, compiled or not, or a tensor: refresh only graphs that have its memory as
            constants; None: all graphs.

    Raises:
        TypeError: `target` is something else.
    """
    _count_change()  # shared sessions hold the old values
    written = None
    if target is not None:
        parts = [part for tensor in _tensors_of(target) for part in plain_tensors(tensor)]
        written = {storage_of(part) for part in parts if part.layout is torch.strided}
    for weight_set in watched_sets():
        if written is None or not written.isdisjoint(weight_set.storages):
            weight_set.invalidate()


def _tensors_of(target: Any) -> list[torch.Tensor]:
    if isinstance(target, torch.Tensor):
        return [target]
    if isinstance(target, torch.nn.Module):
        return [*target.parameters(), *target.buffers()]
    raise TypeError(
        f"refresh() takes a module, a tensor or nothing, not a {type(target).__name__}; "
        "refresh() without an argument concerns every compiled graph."
    )


# -- weights that torch.distributed shards: writes into them leave no trace on the tensors that a
# graph gets


def subclass_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments inside tensor subclasses that are not quantized.

    The local part of a DTensor is one.

    A write into the outer tensor counts no version on the inner one.  Quantized tensors are written
    completely, if ever, and the values show it.
    """
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    outer: dict[Any, list[int]] = {}
    for index, node in enumerate(placeholders):
        desc = node.meta.get("desc")
        if type(desc).__name__.startswith("Subclass"):
            outer.setdefault(getattr(desc, "base", None), []).append(index)
    values = [node.meta.get("val") for node in placeholders]
    return frozenset(
        index
        for parts in outer.values()
        if not _are_quantized([values[part] for part in parts])
        for index in parts
    )


def _are_quantized(parts: Sequence[Any]) -> bool:
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    codes = any(part.dtype in _CODES and part.dim() > 1 for part in tensors)
    return codes and any(part.dtype.is_floating_point for part in tensors)


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensor, or those inside a subclass without memory."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name)  # a DTensor lists its mesh besides
        if isinstance(part, torch.Tensor):
            yield from plain_tensors(part)


def fsdp_parameter_ids() -> frozenset[int]:
    """Ids of the parameters that FSDP2 gathers before each use and frees after it.

    They are the same objects each time, often at the same address, and FSDP keeps their version
    when it writes into them.
    """
    return frozenset(map(id, fsdp_parameters()))
