"""The caller's model, optimizers and arguments while `explain`, `profile` and comparisons run them:
copies of what a call may write, and everything as it was when the block ends."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import own_profile, unwrapped
from ortable.compat.undone import undone
from ortable.exporter.request.caller_state import held_tensors, state_restored, tensors_replaced

# One looks at a time: what they change for a while (tensors of the model, what dynamo has seen, how
# it is set) is one for all threads, and two would put back what the other one had put there. It is
# not torch's lock of compilations: a backward may compile in a thread of its own.
LOOKING = threading.RLock()

_KEPT = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.nn.Module
)  # fmt: skip


def modules_of(function: Any) -> list[torch.nn.Module]:
    """The modules that a call of a function may run: itself, what it is bound to, what it closes
    over, and the globals that it reads."""
    found: dict[int, torch.nn.Module] = {}
    stack = [function]
    while stack:
        each = stack.pop()
        if isinstance(each, torch.nn.Module):
            found[id(each)] = each
        elif isinstance(each, functools.partial):
            stack += [each.func, *each.args, *each.keywords.values()]
        else:
            kinds = torch.nn.Module | functools.partial
            stack += [seen for seen in _seen_by(each) if isinstance(seen, kinds)]
    return list(found.values())


def optimizers_of(function: Any) -> list[torch.optim.Optimizer]:
    """The optimizers that a function steps: whose method it is, or that it reads."""
    found = [each for each in _seen_by(function) if isinstance(each, torch.optim.Optimizer)]
    return list({id(each): each for each in found}.values())


def stepped_by(function: Any) -> list[torch.Tensor]:
    """The parameters that optimizers of a function change."""
    groups = (group for each in optimizers_of(function) for group in each.param_groups)
    return [parameter for group in groups for parameter in group["params"]]


def _seen_by(function: Any) -> list[Any]:
    """What a function is bound to, closes over and reads of the globals."""
    seen = [getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            seen.append(cell.cell_contents)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    return [*seen, *(scope[n] for n in getattr(code, "co_names", ()) if n in scope)]


@contextlib.contextmanager
def call_apart(function: Any, call: Any, train: bool, stance: str = "default") -> Iterator[None]:
    """In the block a function may be compiled and called apart from what is compiled elsewhere,
    with gradients or without; afterwards its modules are as they were."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(model_untouched(function, call, train))
        stack.enter_context(own_profile())
        stack.enter_context(torch.compiler.set_stance(stance))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(train))
        yield


@contextlib.contextmanager
def model_untouched(function: Any, call: Any, train: bool) -> Iterator[None]:
    """In the block buffers and other tensors of the modules are copies, and with `train` so are
    parameters, which share the values: gradients go to the copies. Afterwards modules have the
    attributes, tensors and gradients of before, and random numbers go on where they were."""
    copies: dict[int, torch.Tensor] = {}

    def stand_in(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = _stand_in(tensor, train)
        return copies[id(tensor)]

    with LOOKING, contextlib.ExitStack() as stack:
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        stack.enter_context(torch.random.fork_rng(devices=devices))
        for module in modules_of(function):
            stack.enter_context(state_restored(module, call))
            stack.enter_context(tensors_replaced(held_tensors(module), stand_in))
            for each in module.modules():  # what module.compile() left: torch would run that
                if vars(each).get("_compiled_call_impl") is not None:
                    vars(each)["_compiled_call_impl"] = None
        yield


def _stand_in(tensor: torch.Tensor, train: bool) -> torch.Tensor:
    if type(tensor) is torch.nn.Parameter:
        if not train:
            return tensor
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
    if type(tensor) not in (torch.Tensor, torch.nn.Buffer) or not tensor.is_leaf:
        return tensor
    with torch.no_grad():
        made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    made.__dict__.update(vars(tensor))
    return made


@contextlib.contextmanager
def optimizers_untouched(function: Any) -> Iterator[None]:
    """After the block the optimizers of a function, their parameters and gradients are as they
    were."""
    parameters = [(each, each.detach().clone(), each.grad) for each in stepped_by(function)]
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


def copied_arguments(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call, with copies of tensors and of what else can be copied: caches."""
    copies: dict[int, Any] = {}

    def copied(leaf: Any) -> Any:
        if id(leaf) not in copies:
            copies[id(leaf)] = _copied(leaf)
        return copies[id(leaf)]

    made: tuple[Any, Any] = pytree.tree_map(copied, (args, kwargs))
    return made


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        made = leaf.detach().clone()
        made = made.requires_grad_() if leaf.requires_grad else made
        made.__dict__.update(vars(leaf))  # marks of dynamic dimensions
        return made
    if isinstance(leaf, _KEPT) or callable(leaf):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception:  # whatever an object of the user's raises: the model gets it itself
        return leaf


def run_call(
    compiled: Callable[..., Any],
    call: tuple[Any, Any],
    train: bool,
    backward: Callable[..., Any] = torch.autograd.backward,
) -> bool:
    """One call, with gradients where they are asked for: whether something ran backward. An error
    of ours is taken out of what dynamo wraps it in."""
    with unwrapped():
        result = compiled(*call[0], **call[1])
        wanted = [each for each in _tensors(result) if each.requires_grad] if train else []
        if wanted:
            backward(wanted, [torch.ones_like(each) for each in wanted])
    return bool(wanted)


def _tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, also of an object that pytrees do not know."""
    leaves = pytree.tree_leaves(result)
    more = [vars(leaf) for leaf in leaves if hasattr(leaf, "__dict__") and not callable(leaf)]
    found = [*leaves, *pytree.tree_leaves(more)]
    return list({id(x): x for x in found if isinstance(x, torch.Tensor)}.values())
