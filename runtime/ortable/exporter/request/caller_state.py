"""The module, the arguments and the modes of the caller around a capture. A forward may register a
buffer or keep a result at its first call, and torch marks the tensors of a call whose dimensions
are dynamic: what was there before is put back. Autocast and tensors of inference mode are set
aside, torch answers that it exports to ONNX, and threads export in turn."""

from __future__ import annotations

import copy
import functools
import logging
import os
import threading
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch

from ortable.compat.torch import onnx_export_answers, pytree, set_onnx_export_answers
from ortable.compat.undone import undone, value_set
from ortable.errors import ExportError
from ortable.exporter.request.program import Request
from ortable.ir.initializers import is_fake

_DICTS = (dict, OrderedDict, defaultdict)
_CONTAINERS = (*_DICTS, list, set)
# A tensor of a module: the dict that holds it, its name there, and itself.
Held = tuple[dict[str, Any], str, torch.Tensor]


@contextmanager
def state_restored(module: torch.nn.Module, call: Any) -> Iterator[None]:
    """When the block ends, also with an error, every submodule has the attributes, parameters,
    buffers and submodules that it had, the dicts, lists and sets among them their items, and each
    tensor of ``call`` and of the module its Python attributes and ``requires_grad``."""
    kept = _Kept()
    for each in module.modules():
        kept.add(vars(each))
    for leaf in pytree.tree_leaves(call):
        kept.add_tensor(leaf)
    with undone(kept.restore):
        yield


@contextmanager
def forward_replaced(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """In the block ``module`` has another forward."""
    held = vars(module)
    missing = object()
    before = held.get("forward", missing)

    def undo() -> None:
        if before is missing:
            held.pop("forward", None)
        else:
            held["forward"] = before

    with undone(undo):
        held["forward"] = forward
        yield


def tensors_of(holder: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors among the attributes of a module, or its parameters, or its buffers."""
    return [(name, value) for name, value in holder.items() if isinstance(value, torch.Tensor)]


def held_tensors(module: torch.nn.Module) -> list[Held]:
    """The parameters, buffers and other tensors of a module and its submodules."""
    return [
        (holder, name, tensor)
        for each in module.modules()
        for holder in (each._parameters, each._buffers, vars(each))
        for name, tensor in tensors_of(holder)
    ]


@contextmanager
def tensors_replaced(held: Sequence[Held], made: Callable[[Any], Any]) -> Iterator[None]:
    """In the block each tensor of ``held`` is what ``made`` gives for it."""

    def undo() -> None:
        for holder, name, tensor in held:
            holder[name] = tensor

    with undone(undo):
        for holder, name, tensor in held:
            holder[name] = made(tensor)
        yield


@contextmanager
def new_buffers_forgotten(module: torch.nn.Module) -> Iterator[None]:
    """In the block a buffer that the module's forward registers is gone when the forward ends.

    torch.export with strict=False looks for the input of each buffer of the module afterwards: for
    one that was not there before it finds the next argument of the call, and writes into that.
    """
    if type(module).register_buffer is not torch.nn.Module.register_buffer:
        yield
        return
    forward, buffers, registered = module.forward, module._buffers, set(module._buffers)

    def register_buffer(name: str, tensor: Any, persistent: bool = True) -> None:
        if name in registered or hasattr(module, name):
            torch.nn.Module.register_buffer(module, name, tensor, persistent)
            return
        torch.nn.Module().register_buffer(name, tensor, persistent)  # torch's checks
        buffers[name] = tensor  # without torch.export's hook

    @functools.wraps(forward)
    def forgetful(*args: Any, **kwargs: Any) -> Any:
        try:
            return forward(*args, **kwargs)
        finally:
            for name in [name for name in buffers if name not in registered]:
                del buffers[name]

    held = vars(module)
    with undone(lambda: held.pop("register_buffer", None)), forward_replaced(module, forgetful):
        held["register_buffer"] = register_buffer
        yield


class _Kept:
    """Shallow copies of containers by identity, and the state of tensors."""

    def __init__(self) -> None:
        self.containers: dict[int, tuple[Any, Any]] = {}
        self.tensors: dict[int, tuple[torch.Tensor, dict[str, Any], bool]] = {}

    def add(self, container: Any) -> None:
        """Keep a dict, list or set, and those inside it."""
        pending = [container]
        while pending:
            each = pending.pop()
            if isinstance(each, torch.Tensor):
                self.add_tensor(each)
            if type(each) not in _CONTAINERS or id(each) in self.containers:
                continue
            self.containers[id(each)] = each, each.copy()
            pending += each.values() if type(each) in _DICTS else each

    def add_tensor(self, value: Any) -> None:
        if isinstance(value, torch.Tensor) and id(value) not in self.tensors:
            self.tensors[id(value)] = value, dict(vars(value)), value.requires_grad

    def restore(self) -> None:
        for container, before in self.containers.values():
            if not _same(container, before):
                container.clear()
                container.extend(before) if type(container) is list else container.update(before)
        for tensor, attributes, requires_grad in self.tensors.values():
            held = vars(tensor)
            if not _same(held, attributes):
                held.clear()
                held.update(attributes)
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)


def _same(container: Any, before: Any) -> bool:
    """Whether the items are the same objects in the same order."""
    if len(container) != len(before):
        return False
    if type(container) is set:
        return bool(container == before)
    if type(container) in _DICTS:
        return all(
            key is other and value is held
            for (key, value), (other, held) in zip(container.items(), before.items(), strict=True)
        )
    return all(value is held for value, held in zip(container, before, strict=True))


# -- copies: what ortable runs in eager mode changes neither the module nor the arguments


def copied_call(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments, with copies of the tensors that require gradients where the originals do."""
    copies: tuple[Any, Any] = pytree.tree_map(_copied, (args, kwargs))
    return copies


def copied_module(module: Any, written: Collection[str] | None = None) -> Any:
    """A copy of a module; ``written`` names the parameters and buffers that are copied, by default
    all of them: the copy shares the others. What is not a module is returned itself."""
    if not isinstance(module, torch.nn.Module):
        return module
    if written is None:
        return copy.deepcopy(module)
    tensors = [*module.named_parameters(), *module.named_buffers()]
    shared = {id(tensor): tensor for name, tensor in tensors if name not in written}
    return copy.deepcopy(module, shared)


def with_forward(
    module: torch.nn.Module, wrapped: Callable[[Callable[..., Any], torch.nn.Module], Any]
) -> torch.nn.Module:
    """A second module object around the same weights and submodules, with another forward: what
    ``wrapped`` makes of the one that there is, and of the new object, to which it is bound."""
    clone = copy.copy(module)
    inner = module.__dict__.get("forward")
    forward = inner if inner is not None else types.MethodType(type(module).forward, clone)
    clone.forward = wrapped(forward, clone)
    return clone


def _copied(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    made = leaf.detach().clone()
    return made.requires_grad_() if leaf.requires_grad else made


@dataclass(frozen=True)
class Region:
    """One region of autocast: its device type, dtype, and whether casts of weights are kept."""

    device: str
    dtype: torch.dtype
    cached: bool

    def enter(self) -> Any:
        """A context manager that opens such a region."""
        return torch.autocast(self.device, dtype=self.dtype, cache_enabled=self.cached)


# The regions that were active where to_onnx was called, while it runs outside of them.
_AROUND: ContextVar[tuple[Region, ...]] = ContextVar("ortable_autocast", default=())


@contextmanager
def outside_autocast() -> Iterator[None]:
    """The block runs outside of the regions of autocast that are active: torch.export would note
    dtypes that its graph does not compute, and constants would be folded with them.
    ``autocast_again`` and ``forward_under_autocast`` bring them back."""
    around = _active_regions()
    if not around:
        yield
        return
    with value_set(_AROUND, around), ExitStack() as stack:
        for region in around:
            stack.enter_context(torch.autocast(region.device, enabled=False))
        yield


def _active_regions() -> tuple[Region, ...]:
    accelerator = torch.accelerator.current_accelerator()
    devices = dict.fromkeys(("cpu", accelerator.type if accelerator is not None else "cpu"))
    cached = torch.is_autocast_cache_enabled()
    return tuple(
        Region(device, torch.get_autocast_dtype(device), cached)
        for device in devices
        if torch.is_autocast_enabled(device)
    )


def regions_around() -> tuple[Region, ...]:
    """The regions that were active where to_onnx was called."""
    return _AROUND.get()


@contextmanager
def called_within(around: tuple[Region, ...]) -> Iterator[None]:
    """In the block ``autocast_again`` opens these regions: a later comparison with the module is
    one under the autocast of its export."""
    with value_set(_AROUND, around):
        yield


@contextmanager
def autocast_again() -> Iterator[None]:
    """In the block autocast is as where to_onnx was called: for calls of the caller's module."""
    with ExitStack() as stack:
        for region in _AROUND.get():
            stack.enter_context(region.enter())
        yield


@contextmanager
def forward_under_autocast(module: torch.nn.Module) -> Iterator[None]:
    """In the block the module's forward opens the regions that were active where to_onnx was
    called, as if it had been written so: torch.export records regions inside of a forward."""
    around = _AROUND.get()
    if not around:
        yield
        return
    forward = module.forward
    for region in reversed(around):
        forward = _inside(region, forward)
    with forward_replaced(module, forward):
        yield


def _inside(region: Region, forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward`` in a region, written so that dynamo can read it."""
    device, dtype, cached = region.device, region.dtype, region.cached

    @functools.wraps(forward)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, dtype=dtype, cache_enabled=cached):
            return forward(*args, **kwargs)

    return inside


class _Exports:
    """The captures that are under way, in all threads, and what torch answered before the first:
    its flag and dynamo's table are one for the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[object] = set()
        self.before: tuple[Any, Any] = (False, None)

    def begin(self, capture: object) -> None:
        with self.lock:
            if not self.running:
                self.before = onnx_export_answers()
            self.running.add(capture)
            set_onnx_export_answers(True, True)

    def end(self, capture: object) -> None:
        with self.lock:
            if self.running == {capture}:
                set_onnx_export_answers(*self.before)
            self.running.discard(capture)


_EXPORTS = _Exports()


@contextmanager
def in_onnx_export() -> Iterator[None]:
    """In the block ``torch.onnx.is_in_onnx_export()`` is true, as in torch's own exporter, also in
    code that dynamo reads; in other threads too, until the last such block ends."""
    capture = object()
    with undone(lambda: _EXPORTS.end(capture)):
        _EXPORTS.begin(capture)
        yield


@contextmanager
def exchanged(
    request: Request, wanted: Callable[[Any], bool], make: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Request]:
    """The request with what ``make`` gives for each ``wanted`` tensor of module and call, once for
    each, so that tied weights stay tied. The module is as before when the block ends."""
    made: dict[int, torch.Tensor] = {}

    def other(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not wanted(value):
            return value
        if id(value) not in made:
            found = make(value)
            if isinstance(value, torch.nn.Parameter):
                found = torch.nn.Parameter(found, requires_grad=value.requires_grad)
            made[id(value)] = found.requires_grad_(value.requires_grad)
        return made[id(value)]

    held = [each for each in held_tensors(request.model) if wanted(each[2])]
    with tensors_replaced(held, other):
        args, kwargs = pytree.tree_map(other, (request.args, request.kwargs))
        yield replace(request, args=args, kwargs=kwargs) if made else request


@contextmanager
def without_inference_tensors(request: Request) -> Iterator[Request]:
    """The request with ordinary tensors, of the same memory, for those that were made in inference
    mode, which torch.export cannot trace. The module is as before when the block ends."""
    if torch.is_inference_mode_enabled():
        yield request
        return
    with exchanged(request, _is_inference, _ordinary) as made:
        yield made


def _is_inference(tensor: torch.Tensor) -> bool:
    return not is_fake(tensor) and tensor.layout is torch.strided and tensor.is_inference()


def _ordinary(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    with torch.no_grad():
        made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
    return made


# -- loggers of torch

GUARDS = "torch._guards"  # dimensions that cannot vary
TRACING = "torch.export._trace"  # errors of a capture
FAKES = "torch._subclasses.fake_tensor"  # shapes that do not fit


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """In the block these loggers write nothing."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.disabled for logger in loggers]

    def undo() -> None:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled

    with undone(undo):
        for logger in loggers:
            logger.disabled = True
        yield


# -- turns: torch.export and its tracing replace methods of ``torch.nn.Module`` and of operators for
# the whole process while they run, and an export replaces the forward and tensors of its module


class _Turns:
    """torch's lock, once an export has asked for it, and whether a thread had it when this process
    was forked: that thread is not here, and what it had replaced stays replaced."""

    lock: Any = None
    forked_within = False

    def in_child(self) -> None:
        if self.lock is None:
            return
        self.forked_within = not self.lock.acquire(blocking=False)
        if not self.forked_within:
            self.lock.release()


_TURNS = _Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TURNS.in_child)


@contextmanager
def in_turn() -> Iterator[None]:
    """The block runs while no other thread is in such a one, or has dynamo compile.

    The lock is torch's own of compilations, since these read what an export replaces. A thread may
    take it again: a backend of torch.compile may export the graph that it is given.

    Raises ExportError in a process that was forked within another thread's turn.
    """
    from ortable.compat.torch import compile_lock  # imports the compiler, as an export does

    _TURNS.lock = compile_lock
    if _TURNS.forked_within:
        raise ExportError(
            "this process was forked while another thread of its parent exported or compiled, "
            "which leaves torch halfway through: start it with the method 'spawn', or export "
            "before you fork"
        )
    with compile_lock:
        yield
