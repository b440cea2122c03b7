"""Protect the caller's model, optimizers and arguments in `explain`, `profile` and comparisons.

Context managers save the state that a call may write, and restore it at the end of the block.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import pytree
from ortable.compat.torch_explain import isolated_profile, unwrap_ortable_errors
from ortable.exporter.frontend.module_state import module_tensors, replace_tensors, restore_state

# Serializes inspections, which temporarily change state that all threads share (tensors of the
# model, dynamo's caches and settings): two inspections would restore each other's changes. Torch's
# compile lock cannot serve for this, since a backward may compile in another thread.
INSPECTION_LOCK = threading.RLock()

_SHARED_TYPES = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.nn.Module
)  # fmt: skip


def find_modules(function: Any) -> list[torch.nn.Module]:
    """Find the modules that a function may run: the function, its `self`, closure and globals."""
    modules: dict[int, torch.nn.Module] = {}
    stack = [function]
    while stack:
        item = stack.pop()
        if isinstance(item, torch.nn.Module):
            modules[id(item)] = item
        elif isinstance(item, functools.partial):
            stack += [item.func, *item.args, *item.keywords.values()]
        else:
            types = torch.nn.Module | functools.partial
            stack += [value for value in _referenced_values(item) if isinstance(value, types)]
    return list(modules.values())


def find_optimizers(function: Any) -> list[torch.optim.Optimizer]:
    """Find the optimizers that a function may step: its `self`, or in its closure and globals."""
    optimizers = [
        value for value in _referenced_values(function) if isinstance(value, torch.optim.Optimizer)
    ]
    return list({id(value): value for value in optimizers}.values())


def optimizer_parameters(function: Any) -> list[torch.Tensor]:
    """Return the parameters of the optimizers that a function may step."""
    groups = (group for optimizer in find_optimizers(function) for group in optimizer.param_groups)
    return [parameter for group in groups for parameter in group["params"]]


def _referenced_values(function: Any) -> list[Any]:
    """Return the `self`, the closure values and the referenced globals of a function."""
    values = [getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            values.append(cell.cell_contents)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    return [*values, *(scope[name] for name in getattr(code, "co_names", ()) if name in scope)]


@contextlib.contextmanager
def isolated_call(function: Any, call: Any, train: bool, stance: str = "default") -> Iterator[None]:
    """Isolate compiled calls from the user's compilations, and restore the function's modules."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(preserve_model(function, call, train))
        stack.enter_context(isolated_profile())
        stack.enter_context(torch.compiler.set_stance(stance))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(train))
        yield


@contextlib.contextmanager
def preserve_model(function: Any, call: Any, train: bool) -> Iterator[None]:
    """Replace the tensors of a function's modules by copies, and restore all state afterwards.

    Buffers and other plain tensors are cloned. With `train`, new parameters that share memory
    replace the parameters and receive the gradients. Attributes, tensors, gradients and random
    states are restored after the block.
    """
    replacements: dict[int, torch.Tensor] = {}

    def get_replacement(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in replacements:
            replacements[id(tensor)] = _make_replacement(tensor, train)
        return replacements[id(tensor)]

    with INSPECTION_LOCK, contextlib.ExitStack() as stack:
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        stack.enter_context(torch.random.fork_rng(devices=devices))
        for module in find_modules(function):
            stack.enter_context(restore_state(module, call))
            stack.enter_context(replace_tensors(module_tensors(module), get_replacement))
            for submodule in module.modules():  # else torch would run code of module.compile()
                if vars(submodule).get("_compiled_call_impl") is not None:
                    vars(submodule)["_compiled_call_impl"] = None
        yield


def _make_replacement(tensor: torch.Tensor, train: bool) -> torch.Tensor:
    if type(tensor) is torch.nn.Parameter:
        if not train:
            return tensor
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    if type(tensor) not in (torch.Tensor, torch.nn.Buffer) or not tensor.is_leaf:
        return tensor
    with torch.no_grad():
        copied = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    copied.__dict__.update(vars(tensor))
    return copied


@contextlib.contextmanager
def preserve_optimizers(function: Any) -> Iterator[None]:
    """Restore the optimizers of a function, their parameters and gradients after the block."""
    parameters = [(p, p.detach().clone(), p.grad) for p in optimizer_parameters(function)]
    gradients = [None if p.grad is None else p.grad.clone() for p, *_ in parameters]
    states = [
        (
            optimizer,
            {key: dict(value) for key, value in optimizer.state.items()},
            [dict(group) for group in optimizer.param_groups],
        )
        for optimizer in find_optimizers(function)
    ]
    tensors = [
        (value, value.clone())
        for _, state, _ in states
        for values in state.values()
        for value in values.values()
        if isinstance(value, torch.Tensor)
    ]

    def restore() -> None:
        with torch.no_grad():
            for (parameter, before, gradient), values in zip(parameters, gradients, strict=True):
                parameter.copy_(before)
                parameter.grad = gradient
                if gradient is not None and values is not None:
                    gradient.copy_(values)
            for tensor, before in tensors:
                tensor.copy_(before)
        for optimizer, state, groups in states:
            optimizer.state.clear()
            optimizer.state.update(state)
            for group, settings in zip(optimizer.param_groups, groups, strict=True):
                group.clear()
                group.update(settings)

    with restore_on_exit(restore):
        yield


def copy_arguments(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Copy the arguments of a call: tensors, and objects that deepcopy copies, such as caches."""
    copies: dict[int, Any] = {}

    def copy_leaf(leaf: Any) -> Any:
        if id(leaf) not in copies:
            copies[id(leaf)] = _copy_leaf(leaf)
        return copies[id(leaf)]

    arguments: tuple[Any, Any] = pytree.tree_map(copy_leaf, (args, kwargs))
    return arguments


def _copy_leaf(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        copied = leaf.detach().clone()
        copied = copied.requires_grad_() if leaf.requires_grad else copied
        copied.__dict__.update(vars(leaf))  # such as torch's marks of dynamic dimensions
        return copied
    if isinstance(leaf, _SHARED_TYPES) or callable(leaf):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception:  # a user's object may raise any type; the model then gets the original
        return leaf


def run_call(
    compiled: Callable[..., Any],
    call: tuple[Any, Any],
    train: bool,
    backward: Callable[..., Any] = torch.autograd.backward,
) -> bool:
    """Run one call, and its backward with `train`; return whether a backward ran.

    An error of ortable that dynamo wraps is raised unwrapped.
    """
    with unwrap_ortable_errors():
        result = compiled(*call[0], **call[1])
        differentiable = (
            [tensor for tensor in _collect_tensors(result) if tensor.requires_grad] if train else []
        )
        if differentiable:
            backward(differentiable, [torch.ones_like(tensor) for tensor in differentiable])
    return bool(differentiable)


def _collect_tensors(result: Any) -> list[torch.Tensor]:
    """Collect the tensors of a result, including attributes of objects that are pytree leaves."""
    leaves = pytree.tree_leaves(result)
    attributes = [vars(leaf) for leaf in leaves if hasattr(leaf, "__dict__") and not callable(leaf)]
    candidates = [*leaves, *pytree.tree_leaves(attributes)]
    return list({id(x): x for x in candidates if isinstance(x, torch.Tensor)}.values())
