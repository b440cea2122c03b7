"""The caller's model and arguments while `explain` and `profile` run them: copies of what a call
may write, and everything as it was when the block ends. In come a model or a function and the
arguments of a call; called by both."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import unwrapped
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
            stack += _seen_by(each)
    return list(found.values())


def _seen_by(function: Any) -> list[Any]:
    seen = [getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            seen.append(cell.cell_contents)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    seen += [scope[name] for name in getattr(code, "co_names", ()) if name in scope]
    return [each for each in seen if isinstance(each, torch.nn.Module | functools.partial)]


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
