"""Tensors of classes that say themselves what torch's functions do with them
(``__torch_function__``), which torch.export does not follow: what the program computes is then
compared with the module. In come the program and the request, out goes an error or nothing. Called
by strategies.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import disable_torch_function, is_traceable_wrapper_subclass, pytree
from ortable.errors import ExportError
from ortable.exporter.request.program import Request
from ortable.ir.initializers import is_fake

from .check import differences


def check_subclasses(exported: ExportedProgram, request: Request) -> None:
    """Compare program and module on the example call where a tensor of it has such a class.
    Neither the module nor the arguments are changed.

    Raises:
        ExportError: they differ; the message names the class.
    """
    tensors = [*_leaves((request.args, request.kwargs)), *_held(request.model)]
    found = next((tensor for tensor in tensors if _speaks_for_itself(tensor)), None)
    if found is None or any(map(is_fake, tensors)):
        return
    wanted = _results(request.model, request, _clone)
    lines = differences(_results(exported.module(), request, _plain), wanted)
    if lines:
        name = type(found).__name__
        raise ExportError(
            f"{name}.__torch_function__ changes what the model computes, which torch.export does "
            "not follow; program and module differ on the example inputs:\n" + "\n".join(lines)
        ).advised(
            "What to do: give plain tensors (x.as_subclass(torch.Tensor)), and write into forward "
            f"what {name} does."
        )


def _results(
    module: Any, request: Request, copied: Callable[[torch.Tensor], torch.Tensor]
) -> list[Any]:
    """What a copy of the module returns for copies of the arguments, flat, as plain tensors."""
    leaves = list(_leaves((request.args, request.kwargs)))
    own = [tensor for tensor in (*leaves, *_held(module)) if _speaks_for_itself(tensor)]
    memo = {id(tensor): copied(tensor) for tensor in own}
    args, kwargs = _copied((request.args, request.kwargs), memo)
    twin = copy.deepcopy(module, memo)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        returned = twin(*args, **kwargs)
    found = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    return [_plain(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in found]


def _copied(tree: Any, memo: dict[int, Any]) -> Any:
    """The same with copies of tensors: those of the memo, where it has one."""

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return memo.setdefault(id(leaf), leaf.detach().clone())

    return pytree.tree_map(made, tree)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with disable_torch_function():
        return tensor.detach().clone().as_subclass(torch.Tensor)


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the same class, with the attributes that it has."""
    made = _plain(tensor).as_subclass(type(tensor))
    vars(made).update(vars(tensor))
    return made


def _leaves(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _held(model: Any) -> Iterator[torch.Tensor]:
    """Parameters and buffers of a module, and tensors that are plain attributes."""
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        for home in (vars(module), module._parameters, module._buffers):
            yield from (each for each in home.values() if isinstance(each, torch.Tensor))


def _speaks_for_itself(tensor: torch.Tensor) -> bool:
    """Whether its class overrides what torch's functions do; one that is made of other tensors is
    unwrapped by torch.export."""
    handler = type(tensor).__torch_function__
    plain = getattr(handler, "__func__", handler) in (
        torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
        torch.nn.Parameter.__torch_function__,
    )
    return not plain and not is_fake(tensor) and not is_traceable_wrapper_subclass(tensor)
