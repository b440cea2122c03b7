"""Context managers that protect the caller's module, arguments and modes during a capture.

A forward may register a buffer or store a result at its first call, and torch marks tensors of a
call with dynamic dimensions; both are undone. Autocast is disabled, inference tensors are replaced,
``torch.onnx.is_in_onnx_export()`` is true, and exports of several threads run one after the other.
"""

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

from ortable.compat.scoped_patch import restore_on_exit, set_context_var
from ortable.compat.torch import (
    attached_shapes_spec,
    get_onnx_export_results,
    pytree,
    set_onnx_export_results,
    without_shapes_spec,
)
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Request
from ortable.ir.initializers import is_fake

_DICTS = (dict, OrderedDict, defaultdict)
_CONTAINERS = (*_DICTS, list, set)
# A tensor of a module: the dict that holds the tensor, the key, and the tensor.
TensorSlot = tuple[dict[str, Any], str, torch.Tensor]


@contextmanager
def restore_state(module: torch.nn.Module, call: Any) -> Iterator[None]:
    """Restore the state of a module and a call when the block ends, also after an error.

    This covers the attributes, parameters, buffers and submodules of every submodule, the items of
    dicts, lists and sets among them, and the Python attributes and ``requires_grad`` of every
    tensor of the module and of ``call``.
    """
    snapshot = _StateSnapshot()
    for submodule in module.modules():
        snapshot.add(vars(submodule))
    for leaf in pytree.tree_leaves(call):
        snapshot.add_tensor(leaf)
    with restore_on_exit(snapshot.restore):
        yield


@contextmanager
def replace_forward(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the forward of ``module`` in the block."""
    attributes = vars(module)
    absent = object()
    original = attributes.get("forward", absent)

    def undo() -> None:
        if original is absent:
            attributes.pop("forward", None)
        else:
            attributes["forward"] = original

    with restore_on_exit(undo):
        attributes["forward"] = forward
        yield


def named_tensors(holder: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a dict of attributes, parameters or buffers, as (name, tensor)."""
    return [(name, value) for name, value in holder.items() if isinstance(value, torch.Tensor)]


def module_tensors(module: torch.nn.Module) -> list[TensorSlot]:
    """Return the parameters, buffers and other tensors of a module and its submodules."""
    return [
        (holder, name, tensor)
        for submodule in module.modules()
        for holder in (submodule._parameters, submodule._buffers, vars(submodule))
        for name, tensor in named_tensors(holder)
    ]


@contextmanager
def replace_tensors(
    slots: Sequence[TensorSlot], make_tensor: Callable[[Any], Any]
) -> Iterator[None]:
    """Replace each tensor of ``slots`` by the result of ``make_tensor`` in the block."""

    def undo() -> None:
        for holder, name, tensor in slots:
            holder[name] = tensor

    with restore_on_exit(undo):
        for holder, name, tensor in slots:
            holder[name] = make_tensor(tensor)
        yield


@contextmanager
def discard_new_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Remove buffers that the module's forward registers when the forward ends.

    Otherwise torch.export with strict=False looks for an input of the new buffer, finds the next
    argument of the call instead, and writes to it.
    """
    if type(module).register_buffer is not torch.nn.Module.register_buffer:
        yield
        return
    forward, buffers, registered = module.forward, module._buffers, set(module._buffers)

    def register_buffer(name: str, tensor: Any, persistent: bool = True) -> None:
        if name in registered or hasattr(module, name):
            torch.nn.Module.register_buffer(module, name, tensor, persistent)
            return
        torch.nn.Module().register_buffer(name, tensor, persistent)  # runs torch's checks only
        buffers[name] = tensor  # bypasses torch.export's hook

    @functools.wraps(forward)
    def call_forward(*args: Any, **kwargs: Any) -> Any:
        try:
            return forward(*args, **kwargs)
        finally:
            for name in [name for name in buffers if name not in registered]:
                del buffers[name]

    attributes = vars(module)
    with (
        restore_on_exit(lambda: attributes.pop("register_buffer", None)),
        replace_forward(module, call_forward),
    ):
        attributes["register_buffer"] = register_buffer
        yield


class _StateSnapshot:
    """Shallow copies of containers, and the attributes of tensors, by id."""

    def __init__(self) -> None:
        self.containers: dict[int, tuple[Any, Any]] = {}
        self.tensors: dict[int, tuple[torch.Tensor, dict[str, Any], bool]] = {}

    def add(self, container: Any) -> None:
        """Record a dict, list or set, and the containers and tensors in it."""
        pending = [container]
        while pending:
            item = pending.pop()
            if isinstance(item, torch.Tensor):
                self.add_tensor(item)
            if type(item) not in _CONTAINERS or id(item) in self.containers:
                continue
            self.containers[id(item)] = item, item.copy()
            pending += item.values() if type(item) in _DICTS else item

    def add_tensor(self, value: Any) -> None:
        """Record the attributes and ``requires_grad`` of a tensor; ignore other values."""
        if isinstance(value, torch.Tensor) and id(value) not in self.tensors:
            self.tensors[id(value)] = value, dict(vars(value)), value.requires_grad

    def restore(self) -> None:
        """Restore all recorded containers and tensors."""
        for container, saved in self.containers.values():
            if not _has_same_items(container, saved):
                container.clear()
                container.extend(saved) if type(container) is list else container.update(saved)
        for tensor, attributes, requires_grad in self.tensors.values():
            current = vars(tensor)
            if not _has_same_items(current, attributes):
                current.clear()
                current.update(attributes)
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)


def _has_same_items(container: Any, saved: Any) -> bool:
    if len(container) != len(saved):
        return False
    if type(container) is set:
        return bool(container == saved)
    if type(container) in _DICTS:
        return all(
            key is saved_key and value is saved_value
            for (key, value), (saved_key, saved_value) in zip(
                container.items(), saved.items(), strict=True
            )
        )
    return all(value is saved_value for value, saved_value in zip(container, saved, strict=True))


# -- copies, so that eager runs change neither the module nor the arguments


def copy_call(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Copy the arguments; a copy requires gradients if the original does."""
    copies: tuple[Any, Any] = pytree.tree_map(_copy_leaf, (args, kwargs))
    return copies


def copy_module(module: Any, written: Collection[str] | None = None) -> Any:
    """Copy a module; return a value that is no module unchanged.

    ``written`` names the parameters and buffers to copy; the others are shared. None copies all.
    """
    if not isinstance(module, torch.nn.Module):
        return module
    if written is None:
        return copy.deepcopy(module)
    tensors = [*module.named_parameters(), *module.named_buffers()]
    shared = {id(tensor): tensor for name, tensor in tensors if name not in written}
    return copy.deepcopy(module, shared)


def clone_with_forward(
    module: torch.nn.Module, wrap: Callable[[Callable[..., Any], torch.nn.Module], Any]
) -> torch.nn.Module:
    """Return a module with the same weights and submodules, but another forward.

    ``wrap`` gets the original forward, bound to the new module, and the new module.
    """
    clone = copy.copy(module)
    instance_forward = module.__dict__.get("forward")
    forward = (
        instance_forward
        if instance_forward is not None
        else types.MethodType(type(module).forward, clone)
    )
    clone.forward = wrap(forward, clone)
    return clone


def _copy_leaf(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    clone = leaf.detach().clone()
    return clone.requires_grad_() if leaf.requires_grad else clone


@dataclass(frozen=True)
class AutocastRegion:
    """An autocast region: device type, dtype, and whether casts of weights are cached."""

    device: str
    dtype: torch.dtype
    cached: bool

    def make_context(self) -> Any:
        """Return a context manager that enters the region."""
        return torch.autocast(self.device, dtype=self.dtype, cache_enabled=self.cached)


# Autocast regions that were active when to_onnx was called; to_onnx disables them.
_CALLER_AUTOCAST: ContextVar[tuple[AutocastRegion, ...]] = ContextVar(
    "ortable_autocast", default=()
)


@contextmanager
def suspend_autocast() -> Iterator[None]:
    """Disable the active autocast regions in the block.

    Otherwise torch.export would record dtypes that its graph does not compute, and constant folding
    would use them. ``caller_autocast`` and ``wrap_forward_in_autocast`` enable the regions again.
    """
    regions = _active_regions()
    if not regions:
        yield
        return
    with set_context_var(_CALLER_AUTOCAST, regions), ExitStack() as stack:
        for region in regions:
            stack.enter_context(torch.autocast(region.device, enabled=False))
        yield


def _active_regions() -> tuple[AutocastRegion, ...]:
    accelerator = torch.accelerator.current_accelerator()
    devices = dict.fromkeys(("cpu", accelerator.type if accelerator is not None else "cpu"))
    cached = torch.is_autocast_cache_enabled()
    return tuple(
        AutocastRegion(device, torch.get_autocast_dtype(device), cached)
        for device in devices
        if torch.is_autocast_enabled(device)
    )


def caller_autocast_regions() -> tuple[AutocastRegion, ...]:
    """Return the autocast regions that were active when to_onnx was called."""
    return _CALLER_AUTOCAST.get()


@contextmanager
def use_autocast_regions(regions: tuple[AutocastRegion, ...]) -> Iterator[None]:
    """Make ``caller_autocast`` enter these regions in the block, for a comparison with eager."""
    with set_context_var(_CALLER_AUTOCAST, regions):
        yield


@contextmanager
def caller_autocast() -> Iterator[None]:
    """Enter the caller's autocast regions, around eager calls of the caller's module."""
    with ExitStack() as stack:
        for region in _CALLER_AUTOCAST.get():
            stack.enter_context(region.make_context())
        yield


@contextmanager
def detach_dynamic_spec(module: torch.nn.Module) -> Iterator[None]:
    """Hide the dynamic shapes that ``@dynamic_spec`` attached to forward from torch.export."""
    if attached_shapes_spec(module) is None:
        yield
        return
    with replace_forward(module, without_shapes_spec(module.forward)):
        yield


@contextmanager
def wrap_forward_in_autocast(module: torch.nn.Module) -> Iterator[None]:
    """Enter the caller's autocast regions in forward, where torch.export records them."""
    regions = _CALLER_AUTOCAST.get()
    if not regions:
        yield
        return
    forward = module.forward
    for region in reversed(regions):
        forward = _wrap_in_autocast(region, forward)
    with replace_forward(module, forward):
        yield


def _wrap_in_autocast(region: AutocastRegion, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``forward`` in an autocast region, with code that dynamo can trace."""
    device, dtype, cached = region.device, region.dtype, region.cached

    @functools.wraps(forward)
    def run_in_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, dtype=dtype, cache_enabled=cached):
            return forward(*args, **kwargs)

    return run_in_autocast


class _ActiveExports:
    """The running captures of all threads, and torch's process-wide state before the first one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[object] = set()
        self.before: tuple[Any, Any] = (False, None)

    def begin_export(self, capture: object) -> None:
        """Register a capture and set torch's flag; the first capture saves the old value."""
        with self.lock:
            if not self.running:
                self.before = get_onnx_export_results()
            self.running.add(capture)
            set_onnx_export_results(True, True)

    def end_export(self, capture: object) -> None:
        """Unregister a capture; the last capture restores torch's flag."""
        with self.lock:
            if self.running == {capture}:
                set_onnx_export_results(*self.before)
            self.running.discard(capture)


_ACTIVE_EXPORTS = _ActiveExports()


@contextmanager
def in_onnx_export() -> Iterator[None]:
    """Make ``torch.onnx.is_in_onnx_export()`` true in the block, also in code that dynamo traces.

    The flag is true in other threads too, until the last such block ends.
    """
    capture = object()
    with restore_on_exit(lambda: _ACTIVE_EXPORTS.end_export(capture)):
        _ACTIVE_EXPORTS.begin_export(capture)
        yield


@contextmanager
def substitute_tensors(
    request: Request, predicate: Callable[[Any], bool], make: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Request]:
    """Replace the tensors of module and call that satisfy ``predicate`` by results of ``make``.

    ``make`` runs once per tensor, so that tied weights stay tied. The module is restored when the
    block ends.
    """
    replacements: dict[int, torch.Tensor] = {}

    def substitute(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not predicate(value):
            return value
        if id(value) not in replacements:
            replacement = make(value)
            if isinstance(value, torch.nn.Parameter):
                replacement = torch.nn.Parameter(replacement, requires_grad=value.requires_grad)
            replacements[id(value)] = replacement.requires_grad_(value.requires_grad)
        return replacements[id(value)]

    slots = [slot for slot in module_tensors(request.model) if predicate(slot[2])]
    with replace_tensors(slots, substitute):
        args, kwargs = pytree.tree_map(substitute, (request.args, request.kwargs))
        yield replace(request, args=args, kwargs=kwargs) if replacements else request


@contextmanager
def replace_inference_tensors(request: Request) -> Iterator[Request]:
    """Replace inference tensors, which torch.export cannot trace, by normal tensors.

    The new tensors share the memory of the old ones. The module is restored when the block ends.
    """
    if torch.is_inference_mode_enabled():
        yield request
        return
    with substitute_tensors(request, _is_inference, _as_normal_tensor) as substituted:
        yield substituted


def _is_inference(tensor: torch.Tensor) -> bool:
    return not is_fake(tensor) and tensor.layout is torch.strided and tensor.is_inference()


def _as_normal_tensor(tensor: torch.Tensor) -> torch.Tensor:
    normal = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    with torch.no_grad():
        normal.set_(
            tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride()
        )
    return normal


# -- loggers of torch

GUARDS_LOGGER = "torch._guards"  # logs dimensions that cannot vary
TRACE_LOGGER = "torch.export._trace"  # logs errors of a capture
FAKE_TENSOR_LOGGER = "torch._subclasses.fake_tensor"  # logs incompatible shapes


@contextmanager
def silence_loggers(*names: str) -> Iterator[None]:
    """Disable these loggers in the block."""
    loggers = [logging.getLogger(name) for name in names]
    was_disabled = [logger.disabled for logger in loggers]

    def undo() -> None:
        for logger, disabled in zip(loggers, was_disabled, strict=True):
            logger.disabled = disabled

    with restore_on_exit(undo):
        for logger in loggers:
            logger.disabled = True
        yield


# -- the export lock: while torch.export runs, it patches methods of ``torch.nn.Module`` and of
# operators for the whole process, and we replace the forward and tensors of the exported module


class _ExportLock:
    """torch's compile lock (None before the first export), and whether it was held at a fork.

    If another thread held the lock when this process was forked, that thread does not exist here,
    and its patches are never undone.
    """

    lock: Any = None
    forked_while_held = False

    def after_fork(self) -> None:
        """Record in the child process whether another thread held the lock."""
        if self.lock is None:
            return
        self.forked_while_held = not self.lock.acquire(blocking=False)
        if not self.forked_while_held:
            self.lock.release()


_EXPORT_LOCK = _ExportLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_EXPORT_LOCK.after_fork)


@contextmanager
def exclusive_export() -> Iterator[None]:
    """Run the block while no other thread exports, or compiles with dynamo.

    The lock is torch's compile lock, since a compilation uses the methods that an export patches.
    It is reentrant: a backend of torch.compile may export the graph that it gets. Raises
    ExportError in a process that was forked while another thread held the lock.
    """
    from ortable.compat.torch import compile_lock  # imported here because it imports the compiler

    _EXPORT_LOCK.lock = compile_lock
    if _EXPORT_LOCK.forked_while_held:
        raise ExportError(
            "this process was forked while another thread of its parent exported or compiled, "
            "which leaves torch in an inconsistent state: start it with the method 'spawn', or "
            "export before you fork"
        )
    with compile_lock:
        yield
