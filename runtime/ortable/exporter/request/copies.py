"""Copies of the caller's module and arguments: what ortable runs in eager mode changes neither.
Called by strategies of capture, check.py and validate.py."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Collection
from typing import Any

import torch

from ortable.compat.torch import pytree


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
