"""The module and the arguments of the caller, as they were before torch captured them. A forward
may register a buffer or keep a result at its first call, and torch marks the tensors of a call
whose dimensions are dynamic: both would change the next export. strategies.py calls it;
ambient.py and fake_weights.py replace the tensors of a module for a block."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.undone import undone

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
