"""Detect that a weight has changed, or that nothing else refers to it.

A change is detected by the weight's memory, its version, samples of its values, an optimizer's step
or `refresh`; an abandoned weight, to which nothing else refers, by its reference count.

Writes that torch does not count (`weight.data[3] = 0`) change only the values. Of a weight of more
than 4 KB a call compares samples: four windows of 64 bytes. A write outside of them is missed, and
the constants are stale until `refresh`.
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

_CODE_DTYPES = (torch.int8, torch.uint8, torch.int32)
WeightSignature = tuple[list[int], list[int], int]


class WeightSet:
    """An object that keeps `tensors` between calls and refers to each `references` times.

    `storages` are the addresses of the storages whose values it has copied.
    """

    references = 1
    storages: frozenset[int] = frozenset()
    tensors: Sequence[torch.Tensor] = ()

    def release(self) -> None:
        """Release the tensors, because nothing else refers to one of them."""

    def invalidate(self) -> None:
        """Mark the values as possibly changed."""


def is_watchable(tensor: Any) -> bool:
    """Whether writes to the tensor can be detected.

    Tensors created under inference_mode count no versions, and other processes write to shared
    memory. torch reports all CUDA tensors as shared.
    """
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_inference()
        and tensor.layout is torch.strided
        and (tensor.is_cuda or (tensor.device.type == "cpu" and not tensor.is_shared()))
    )


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return torch's count of writes to each tensor; -1 for inference tensors, which count none."""
    return [-1 if tensor.is_inference() else tensor._version for tensor in tensors]


def storage_of(tensor: torch.Tensor) -> int:
    """Return the address of the storage that the tensor shares with all its views."""
    return tensor.untyped_storage().data_ptr()


def weight_signature(tensors: Sequence[torch.Tensor]) -> WeightSignature:
    """Return the addresses and versions of the tensors, and the number of optimizer steps."""
    return [tensor.data_ptr() for tensor in tensors], versions_of(tensors), _steps[0]


_MAX_FULLY_COMPARED_BYTES = 4096  # of larger weights only windows are compared
_WINDOW_BYTES, _WINDOW_COUNT = 64, 4  # of a larger weight


def sample_windows(tensors: Sequence[torch.Tensor]) -> list[memoryview]:
    """Return the memory of weights that a call compares: small weights fully, others in windows.

    `weight.data += delta` changes the memory without a version change. A write that is entirely
    between the windows is missed: single elements, rows or columns, or up to a third of a large
    weight in one piece. `b"".join` reads all windows faster than torch reads the versions. The
    windows do not keep the memory alive: compare pointers first. Accelerators' memory is not read.
    """
    windows = []
    for tensor in tensors:
        if tensor.device.type != "cpu":
            continue
        axes = zip(tensor.shape, tensor.stride(), strict=True)
        span = (1 + sum((size - 1) * step for size, step in axes)) * tensor.element_size()
        span = span if tensor.numel() else 0
        parts = [(0, span)]
        if span > _MAX_FULLY_COMPARED_BYTES:
            last = span - _WINDOW_BYTES
            parts = [(last * i // (_WINDOW_COUNT - 1), _WINDOW_BYTES) for i in range(_WINDOW_COUNT)]
        for start, size in parts:
            memory = (ctypes.c_char * size).from_address(tensor.data_ptr() + start)
            windows.append(memoryview(memory).cast("B"))
    return windows


# Plain references, because a WeakSet cannot be read while another thread adds to it.
_weight_sets: set[weakref.ref[Any]] = set()
_steps = [0]
_optimizer_hooks: list[Any] = []
_lock = threading.Lock()
# A free-threaded Python reports every automatic collection as generation 0 although it is full;
# Python 3.14.0 to 3.14.4 collect incrementally and report generation 1.
_REPORTS_FULL_COLLECTIONS = not (
    sysconfig.get_config_var("Py_GIL_DISABLED") or (3, 14) <= sys.version_info[:3] < (3, 14, 5)
)
_SWEEP_INTERVAL = 1.0  # seconds
_last_sweep = 0.0  # time of the last sweep, by `time.monotonic`


def watch_weights(weight_set: WeightSet) -> None:
    """Notify `weight_set` when its weights change or are abandoned.

    The first call installs two hooks, on optimizer steps and on garbage collections. The hooks cost
    next to nothing while nothing is watched.
    """
    with _lock:
        if _on_collection not in gc.callbacks:
            gc.callbacks.append(_on_collection)
        if not _optimizer_hooks:
            _optimizer_hooks.append(register_optimizer_step_post_hook(_on_optimizer_step))
        _weight_sets.add(weakref.ref(weight_set, _weight_sets.discard))


def watched_sets() -> list[WeightSet]:
    """Return all watched sets that are alive."""
    return [
        weight_set for reference in list(_weight_sets) if (weight_set := reference()) is not None
    ]


def after_fork() -> None:
    """Replace the lock in a forked child: its owner thread may not exist there."""
    global _lock
    _lock = threading.Lock()


def _count_change() -> None:
    """Increment the count of steps and refreshes.

    Without the lock, two threads of a free-threaded Python could count as one, and a session
    created between them would stay in use.
    """
    with _lock:
        _steps[0] += 1


def _on_optimizer_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Invalidate constants after a step: fused optimizers and `.data` change no version."""
    _count_change()
    sets = [candidate for candidate in watched_sets() if candidate.storages]
    if not sets:
        return
    written_storages = {
        storage_of(part)
        for group in optimizer.param_groups
        for parameter in group["params"]
        for part in unwrap_tensors(parameter)
        if part.layout is torch.strided
    }
    for weight_set in sets:
        if not written_storages.isdisjoint(weight_set.storages):
            weight_set.invalidate()


def _on_collection(phase: str, info: dict[str, Any]) -> None:
    """Release abandoned weights after a full collection.

    If this Python does not report which collections are full, weights are released after any
    collection, at most every `_SWEEP_INTERVAL` seconds.
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
    """Release the sets in which only weight sets refer to some weight.

    Weak references would be notified immediately, but `torch.utils.swap_tensors`, and with it
    `module.to` of some modules, refuses tensors that have weak references.
    """
    sets = watched_sets()
    references: Counter[int] = Counter()
    for weight_set in sets:
        for tensor in weight_set.tensors:
            references[id(tensor)] += weight_set.references
    for weight_set in sets:
        tensors = list(weight_set.tensors)
        counts = zip(tensors, _reference_counts(tensors), strict=True)
        if any(count <= references[id(tensor)] + _COUNTING_OVERHEAD for tensor, count in counts):
            weight_set.release()


def _reference_counts(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(item) for item in objects]


# References that counting adds (the list, the loop, the call); Python versions differ in them.
_COUNTING_OVERHEAD = _reference_counts([object()])[0]


def refresh(target: torch.nn.Module | torch.Tensor | None = None) -> None:
    """Make compiled graphs read their weights again at the next call.

    Call this after writes that torch does not count, through `p.data`, numpy or dlpack, to a part
    of a weight of more than 4 KB: `p.data[3] = 0`, `p.data *= mask`. A call compares four samples
    of 64 bytes of such a weight, from the first element to the last; a write that changes none of
    the samples is not detected without `refresh`, and results are those of the old weight. Writes
    that torch counts, assignments, optimizer steps, and writes that change an entire weight are
    detected without `refresh`, unless rounding leaves all four samples unchanged.

    Args:
        target: a module, compiled or not, or a tensor: refresh only the graphs that have its memory
            as constants. None: refresh all graphs.

    Raises:
        TypeError: if `target` is something else.
    """
    _count_change()  # shared sessions hold the old values
    written = None
    if target is not None:
        parts = [part for tensor in _tensors_of(target) for part in unwrap_tensors(tensor)]
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
        f"refresh() takes a module, a tensor or no argument, not a {type(target).__name__}; "
        "refresh() without an argument refreshes every compiled graph."
    )


# -- weights that torch.distributed shards: a graph gets their inner tensors, whose versions stay


def subclass_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Return the positions of arguments that are inner tensors of tensor subclasses.

    The local part of a DTensor is an example. A write to the outer tensor does not change the
    version of the inner tensor. Inner tensors of quantized tensors are omitted: such a tensor is
    only written as a whole, which the comparison of sampled values detects.
    """
    placeholders = [
        candidate for candidate in graph_module.graph.nodes if candidate.op == "placeholder"
    ]
    positions_by_base: dict[Any, list[int]] = {}
    for index, node in enumerate(placeholders):
        desc = node.meta.get("desc")
        if type(desc).__name__.startswith("Subclass"):
            positions_by_base.setdefault(getattr(desc, "base", None), []).append(index)
    values = [node.meta.get("val") for node in placeholders]
    return frozenset(
        index
        for parts in positions_by_base.values()
        if not _are_quantized([values[part] for part in parts])
        for index in parts
    )


def _are_quantized(parts: Sequence[Any]) -> bool:
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    has_codes = any(part.dtype in _CODE_DTYPES and part.dim() > 1 for part in tensors)
    return has_codes and any(part.dtype.is_floating_point for part in tensors)


def unwrap_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensor, or the innermost tensors of a wrapper subclass, which has no memory."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name)  # a DTensor also lists its mesh
        if isinstance(part, torch.Tensor):
            yield from unwrap_tensors(part)


def fsdp_parameter_ids() -> frozenset[int]:
    """Return the ids of the parameters that FSDP2 gathers before each use and frees after it.

    FSDP reuses the tensor objects, often at the same address, and writes to them without a version
    change.
    """
    return frozenset(map(id, fsdp_parameters()))
