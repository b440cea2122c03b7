"""Record the leaves of a module's calls, and copy their tensors before forward mutates them.

dim_inference.py compares the calls; call_resizing.py derives calls of other sizes from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import pytree, remove_pre_hook
from ortable.errors import InputError
from ortable.exporter.frontend.module_state import copy_call
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dynamic_shapes import Arguments, bind_arguments
from ortable.ir.initializers import is_fake


@dataclass(frozen=True)
class ObservedValue:
    """One leaf of a call: dtype, device and sizes of a tensor, or another value."""

    value: Any = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    shape: tuple[int, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether the leaf is a tensor."""
        return self.dtype is not None

    @property
    def is_integer(self) -> bool:
        """Whether the leaf is a number that can be a dimension: an int, but not a bool."""
        return type(self.value) is int

    def format_value(self) -> str:
        """Format the leaf for a message: ``int64[2, 7]``, ``True``."""
        if self.dtype is None:
            return f"{self.value!r:.60}"
        return f"{dtype_name(self.dtype)}{list(self.shape)}"


@dataclass(frozen=True)
class ObservedCall:
    """One call of the module.

    ``leaves`` has the leaves by path (``past[0]``), in the order of forward's parameters, defaults
    included; ``given_names`` the arguments that the caller gave. ``args`` and ``kwargs`` are
    copies, or None if only sizes were recorded. ``grad`` and ``inference`` tell whether
    gradients and inference mode were enabled.
    """

    leaves: Mapping[str, ObservedValue]
    given_names: frozenset[str]
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any] | None
    grad: bool
    inference: bool

    @property
    def has_tensors(self) -> bool:
        """Whether copies of the tensors were recorded."""
        return self.args is not None

    def size_key(self) -> tuple[Any, ...]:
        """Return a key that is equal for calls of equal sizes and equal other values."""
        return tuple((path, value.shape, value.value) for path, value in self.leaves.items())

    def copy_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return copies of the arguments of a call with tensors."""
        assert self.args is not None and self.kwargs is not None
        args, kwargs = copy_call(self.args, self.kwargs)
        return tuple(args), dict(kwargs)

    def structure_key(self) -> tuple[Any, ...]:
        """Return a key of everything that determines the graph except sizes and integers."""
        return tuple(
            (path, value.dtype, value.device, len(value.shape))
            if value.is_tensor
            else (path, "int" if value.is_integer else repr(value.value))
            for path, value in self.leaves.items()
        )


class CallRecorder:
    """Records calls of a module, and copies tensors of ``keep`` calls for each structure."""

    def __init__(self, module: torch.nn.Module, keep: int) -> None:
        self.module, self.keep = module, keep
        self.calls: list[ObservedCall] = []
        self.defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(module.forward).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self._kept_sizes: dict[Any, set[Any]] = {}  # structure -> sizes of its copied calls

    def record_call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call; a forward pre-hook that ignores calls which torch traces."""
        if torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return
        pytrees.register_caches((args, kwargs), module)
        flat = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in flat):
            return
        arguments = bind_arguments(module, args, kwargs)
        given_names = frozenset(name for name, _ in _expand_kwargs(arguments))
        for name, default in self.defaults.items():
            arguments.setdefault(name, default)
        call = ObservedCall(
            {path: observe_value(leaf) for path, leaf in observed_leaves(arguments)},
            given_names,
            None,
            None,
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        )
        kept_sizes, sizes = (
            self._kept_sizes.setdefault(call.structure_key(), set()),
            call.size_key(),
        )
        if sizes not in kept_sizes and len(kept_sizes) < self.keep:
            kept_sizes.add(sizes)
            with torch.inference_mode(False), torch.no_grad():
                copies, keyword_copies = copy_call(args, kwargs)
            call = replace(call, args=tuple(copies), kwargs=dict(keyword_copies))
        self.calls.append(call)


@contextmanager
def record_calls(recorder: CallRecorder) -> Iterator[None]:
    """Record the calls of the module in the block; the hook is removed even after an error."""
    hook = partial(recorder.record_call)
    with restore_on_exit(lambda: remove_pre_hook(recorder.module, hook)):
        recorder.module.register_forward_pre_hook(hook, with_kwargs=True, prepend=False)
        yield


def observe_value(leaf: Any) -> ObservedValue:
    """Return the record of a leaf, without a copy of its data."""
    if isinstance(leaf, torch.Tensor):
        return ObservedValue(None, leaf.dtype, leaf.device, tuple(leaf.shape))
    return ObservedValue(leaf)


def observed_leaves(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) of the arguments of a call, by the names of forward's parameters.

    An argument in ``**kwargs`` has its own name.
    """
    for name, value in _expand_kwargs(arguments):
        yield from pytrees.leaf_paths(name, value)


def _expand_kwargs(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        if name == arguments.rest:
            yield from value.items()
        else:
            yield name, value


def flat_leaves(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return (path, leaf) of a call in the order in which torch flattens ``(args, kwargs)``."""
    parameters = inspect.signature(module.forward).parameters
    return [
        leaf
        for name, value in named_arguments(parameters, args, kwargs)
        for leaf in pytrees.leaf_paths(name, value)
    ]


def named_arguments(
    parameters: Mapping[str, inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) for each argument, positional ones first: ``x``, ``rest[0]``.

    Raises InputError for an argument that is given twice, and for too many arguments.
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [name for name, parameter in parameters.items() if parameter.kind in kinds]
    variadic = [
        n
        for n, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    if len(args) > len(positional) and not variadic:
        raise InputError(
            f"the call has {len(args)} positional arguments, the model takes {len(positional)}: "
            f"{positional}"
        )
    for index, value in enumerate(args):
        yield (
            (
                positional[index]
                if index < len(positional)
                else f"{variadic[0]}[{index - len(positional)}]"
            ),
            value,
        )
    for name, value in kwargs.items():
        if name in positional[: len(args)]:
            raise InputError(f"argument '{name}' is given by position and by name")
        yield name, value


def dtype_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")
