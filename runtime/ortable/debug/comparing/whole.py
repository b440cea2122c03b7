"""What a call leaves behind: results, gradients, and what it wrote into buffers, parameters and
arguments. In come a function and its arguments, out come tensors by readable names; called by
`difference` for eager and for what torch.compile makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import unwrapped

from ..explain_state import modules_of

__all__ = ["Outcome", "outcome_of"]

Outcome = Mapping[str, torch.Tensor]


def outcome_of(
    called: Callable[..., Any], function: Any, call: tuple[Any, Any], train: bool
) -> dict[str, torch.Tensor]:
    """Runs `called`, which is `function` or what was compiled of it, and copies what there is
    afterwards. With `train` gradients flow back from every result, another one for each of its
    values: gradients of normalizations vanish where all are the same.

    An error of ours is taken out of what dynamo wraps it in.
    """
    with unwrapped():
        returned = called(*call[0], **call[1])
        results = {
            f"result{path}": leaf
            for path, leaf in _leaves(returned)
            if isinstance(leaf, torch.Tensor)
        }
        wanted = [each for each in results.values() if each.requires_grad] if train else []
        if wanted:
            torch.autograd.backward(wanted, [_uneven(each) for each in wanted])
    found = dict(results)
    for path, leaf in _leaves(call):
        if isinstance(leaf, torch.Tensor):
            found[f"argument{path}"] = leaf
            found |= _gradient(f"argument{path}", leaf)
    for module in modules_of(function):
        for name, tensor in (*module.named_buffers(), *module.named_parameters()):
            found[name] = tensor
            found |= _gradient(name, tensor)
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def _uneven(result: torch.Tensor) -> torch.Tensor:
    """A gradient for a result whose values differ, the same at every call."""
    places = torch.arange(result.numel(), device=result.device).reshape(result.shape)
    return torch.cos(places).to(result.dtype)


def _gradient(name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    gradient = tensor.grad if tensor.is_leaf else None
    return {} if gradient is None else {f"gradient of {name}": gradient}


def _leaves(value: Any) -> list[tuple[str, Any]]:
    leaves, _ = pytree.tree_flatten_with_path(value)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves]
