"""What a call leaves behind: results, gradients, and what it wrote into buffers, parameters and
arguments. In come a function and its arguments, out come tensors by readable names; called by
`difference` for eager and for what torch.compile makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import unwrapped
from ortable.compat.undone import undone

from ..explain_state import modules_of

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
        if optimizers_of(function):
            train = False  # the function runs backward itself
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
    for index, tensor in enumerate(_stepped(function)):
        found[f"parameter {index} of the optimizer"] = tensor
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def optimizers_of(function: Any) -> list[torch.optim.Optimizer]:
    """The optimizers that a function steps: whose method it is, or that it reads."""
    seen = [getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            seen.append(cell.cell_contents)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    seen += [scope[name] for name in getattr(code, "co_names", ()) if name in scope]
    found = [each for each in seen if isinstance(each, torch.optim.Optimizer)]
    return list({id(each): each for each in found}.values())


def _stepped(function: Any) -> list[torch.Tensor]:
    """The parameters that optimizers of a function change."""
    groups = (group for each in optimizers_of(function) for group in each.param_groups)
    return [parameter for group in groups for parameter in group["params"]]


@contextlib.contextmanager
def optimizers_untouched(function: Any) -> Iterator[None]:
    """After the block the optimizers of a function, their parameters and gradients are as they
    were."""
    parameters = [(each, each.detach().clone(), each.grad) for each in _stepped(function)]
    gradients = [None if each.grad is None else each.grad.clone() for each, *_ in parameters]
    states = [
        (
            each,
            {key: dict(value) for key, value in each.state.items()},
            [dict(group) for group in each.param_groups],
        )
        for each in optimizers_of(function)
    ]
    tensors = [
        (value, value.clone())
        for _, state, _ in states
        for values in state.values()
        for value in values.values()
        if isinstance(value, torch.Tensor)
    ]

    def undo() -> None:
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

    with undone(undo):
        yield


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
