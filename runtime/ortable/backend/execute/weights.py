"""What tells that a weight has changed, or that nobody uses it any more: its memory, its version,
samples of its values, an optimizer's step, `refresh`, and the count of references to it.

Writes that torch does not count (`weight.data[3] = 0`) show in the values alone, and of a weight
of more than 4 KB a call compares samples: four places of 64 bytes. A write that leaves all four
as they were is not seen, and the constants are stale; `refresh` after it is the remedy."""

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


class Holder:
    """What keeps `tensors` between calls, `references` times each, and can let them go; `storages`
    are those whose values it keeps."""

    references = 1
    storages: frozenset[int] = frozenset()
    tensors: Sequence[torch.Tensor] = ()

    def let_go(self) -> None:
        """Nobody else has one of the tensors any more."""

    def invalidate(self) -> None:
        """The values may have changed."""


def is_watchable(tensor: Any) -> bool:
    """Whether a write into the tensor shows: tensors made under inference_mode count no versions,
    and memory shared between processes is written elsewhere. torch calls all of CUDA's shared."""
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_inference()
        and tensor.layout is torch.strided
        and (tensor.is_cuda or (tensor.device.type == "cpu" and not tensor.is_shared()))
    )


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How often each tensor was written, -1 where torch does not count."""
    return [-1 if t.is_inference() else t._version for t in tensors]


def storage_of(tensor: torch.Tensor) -> int:
    """Where the memory begins that the tensor, and all views of it, lie in."""
    return tensor.untyped_storage().data_ptr()


def signature(tensors: Sequence[torch.Tensor]) -> WeightSignature:
    """Where the tensors are, how often they were written, and how often optimizers stepped."""
    return [t.data_ptr() for t in tensors], versions_of(tensors), _steps[0]


_WHOLE = 4096  # bytes: weights up to there are compared whole
_WINDOW, _WINDOWS = 64, 4  # bytes, and how many places of a larger one


def windows_of(tensors: Sequence[torch.Tensor]) -> list[memoryview]:
    """What a call compares of the memory of weights: all of the small ones, of others a few places
    from the first element to the last.

    `weight.data += delta` leaves no trace in torch, but changes what lies there.  What is written
    between these places only is missed: single elements, rows or columns, up to a third of a large
    weight in one piece.  `b"".join` reads them all faster than their versions are read.  They do
    not hold the memory: compare pointers first.  Memory of an accelerator is not read.
    """
    found = []
    for tensor in tensors:
        if tensor.device.type != "cpu":
            continue
        axes = zip(tensor.shape, tensor.stride(), strict=True)
        span = (1 + sum((size - 1) * step for size, step in axes)) * tensor.element_size()
        span = span if tensor.numel() else 0
        parts = [(0, span)]
        if span > _WHOLE:
            last = span - _WINDOW
            parts = [(last * i // (_WINDOWS - 1), _WINDOW) for i in range(_WINDOWS)]
        for start, size in parts:
            memory = (ctypes.c_char * size).from_address(tensor.data_ptr() + start)
            found.append(memoryview(memory).cast("B"))
    return found


# Plain references, not a WeakSet: that cannot be read while another thread adds to it.
_holders: set[weakref.ref[Any]] = set()
_steps = [0]
_started: list[Any] = []
_lock = threading.Lock()
# Without the global lock all automatic collections are of everything and say generation 0; those of
# Python 3.14.0 to 3.14.4 go on from where the last one stopped and say 1.
_FULL_SAYS_2 = not (
    sysconfig.get_config_var("Py_GIL_DISABLED") or (3, 14) <= sys.version_info[:3] < (3, 14, 5)
)
_PAUSE = 1.0  # seconds
_swept = 0.0  # when, of `time.monotonic`


def hold(holder: Holder) -> None:
    """Tells `holder` from now on when its weights change or are abandoned.

    The two hooks behind it, on optimizers and on full garbage collections, are set once and stay:
    they cost nothing while nothing is held.
    """
    with _lock:
        if _collected not in gc.callbacks:
            gc.callbacks.append(_collected)
        if not _started:
            _started.append(register_optimizer_step_post_hook(_stepped))
        _holders.add(weakref.ref(holder, _holders.discard))


def holders() -> list[Holder]:
    """All that are told of changes, while they live."""
    return [holder for each in list(_holders) if (holder := each()) is not None]


def after_fork() -> None:
    """In a forked child, where a thread that had the lock does not exist."""
    global _lock
    _lock = threading.Lock()


def _count() -> None:
    """One more step or refresh. Without the lock two threads could count as one, in a Python that
    has no lock of its own, and a session that was made between them would stay in use."""
    with _lock:
        _steps[0] += 1


def _stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """After a step: fused optimizers and those that write through `.data` count no version."""
    _count()
    watched = [h for h in holders() if h.storages]
    if not watched:
        return
    written = {
        storage_of(part)
        for group in optimizer.param_groups
        for p in group["params"]
        for part in plain_tensors(p)
        if part.layout is torch.strided
    }
    for holder in watched:
        if not written.isdisjoint(holder.storages):
            holder.invalidate()


def _collected(phase: str, info: dict[str, Any]) -> None:
    """After a collection of everything, or after any where this Python does not tell which those
    are; of these, not more often than each `_PAUSE` seconds."""
    global _swept
    if phase != "stop":
        return
    if info["generation"] != 2:
        if _FULL_SAYS_2 or time.monotonic() - _swept < _PAUSE:
            return
        _swept = time.monotonic()
    sweep()


def sweep() -> None:
    """Lets weights go that nobody but their holders refers to.

    Weak references would tell at once, but `torch.utils.swap_tensors`, and with it `module.to` of
    some modules, refuses tensors that have any.
    """
    found = holders()
    held: Counter[int] = Counter()
    for holder in found:
        for tensor in holder.tensors:
            held[id(tensor)] += holder.references
    for holder in found:
        tensors = list(holder.tensors)
        counts = zip(tensors, _references(tensors), strict=True)
        if any(count <= held[id(t)] + _COUNTING for t, count in counts):
            holder.let_go()


def _references(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(each) for each in objects]


# What counting adds, which differs between versions of Python: the list, its loop, the call.
_COUNTING = _references([object()])[0]


def refresh(target: torch.nn.Module | torch.Tensor | None = None) -> None:
    """Makes compiled graphs read their weights again at the next call.

    Call it after writes that torch does not count, through `p.data`, numpy or dlpack, into a
    part of a weight of more than 4 KB: `p.data[3] = 0`, `p.data *= mask`.  Of such a weight a
    call compares four samples of 64 bytes, from the first element to the last; without `refresh`
    a write that changes none of them is not noticed, and results are those of the weight before.
    Changes that torch counts, assignments, optimizers' steps, and writes that change a whole
    weight are noticed without it, unless rounding leaves all four samples as they were.

    Args:
        target: a module, compiled or not, or a tensor: only graphs that hold its memory as
            constants are concerned; None: all graphs.

    Raises:
        TypeError: `target` is something else.
    """
    _count()  # sessions that others share hold the values of before
    written = None
    if target is not None:
        parts = [part for tensor in _tensors_of(target) for part in plain_tensors(tensor)]
        written = {storage_of(part) for part in parts if part.layout is torch.strided}
    for holder in holders():
        if written is None or not written.isdisjoint(holder.storages):
            holder.invalidate()


def _tensors_of(target: Any) -> list[torch.Tensor]:
    if isinstance(target, torch.Tensor):
        return [target]
    if isinstance(target, torch.nn.Module):
        return [*target.parameters(), *target.buffers()]
    raise TypeError(
        f"refresh() takes a module, a tensor or nothing, not a {type(target).__name__}; "
        "refresh() without an argument concerns every compiled graph."
    )


# -- weights that torch.distributed keeps in parts: writes into them leave no trace on the tensors
# that a graph is given


def inner_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments that are inside tensors of a subclass, the local part of a DTensor
    for one, but for quantised ones.  A write into the outer tensor counts no version on the inner
    one.  Quantised tensors are written as a whole, if ever, and the values tell.
    """
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    outer: dict[Any, list[int]] = {}
    for index, node in enumerate(placeholders):
        place = node.meta.get("desc")
        if type(place).__name__.startswith("Subclass"):
            outer.setdefault(getattr(place, "base", None), []).append(index)
    values = [node.meta.get("val") for node in placeholders]
    return frozenset(
        index
        for parts in outer.values()
        if not _are_quantised([values[part] for part in parts])
        for index in parts
    )


def _are_quantised(parts: Sequence[Any]) -> bool:
    """Whether a tensor is made of integer codes, and scales for them."""
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    codes = any(part.dtype in _CODES and part.dim() > 1 for part in tensors)
    return codes and any(part.dtype.is_floating_point for part in tensors)


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor, or those that it is made of where it is one of a subclass without memory."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name)  # a DTensor lists its mesh besides
        if isinstance(part, torch.Tensor):
            yield from plain_tensors(part)


def gathered_by_fsdp() -> frozenset[int]:
    """Ids of the parameters that FSDP2 gathers before each use and frees after it.

    They are the same objects each time, often at the same address, and FSDP keeps their version
    when it writes into them.
    """
    return frozenset(map(id, fsdp_parameters()))
