"""Record calls of a module: each leaf, and copies of the tensors before forward can mutate them.

dim_inference.py compares the calls, call_resizing.py makes calls of other sizes from them.
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
from ortable.compat.torch import forget_pre_hook, pytree
from ortable.errors import InputError
from ortable.exporter.frontend.module_state import copy_call
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dynamic_shapes import Arguments, bound_arguments
from ortable.ir.initializers import is_fake


@dataclass(frozen=True)
class ObservedValue:
    """One leaf of a call: a tensor's dtype, device and sizes, or the value of anything else."""

    value: Any = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    shape: tuple[int, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, and not a number, None or a string."""
        return self.dtype is not None

    @property
    def is_integer(self) -> bool:
        """Whether it is a number that can be a dimension: an int, and no bool."""
        return type(self.value) is int

    def format_value(self) -> str:
        """Format for a message: ``int64[2, 7]``, ``True``."""
        if self.dtype is None:
            return f"{self.value!r:.60}"
        return f"{dtype_name(self.dtype)}{list(self.shape)}"


@dataclass(frozen=True)
class ObservedCall:
    """One call.

    ``leaves``: leaf by path (``past[0]``), in the order of forward's parameters, defaults included;
    ``given_names``: the arguments that the caller wrote. ``args`` and ``kwargs`` are copies, None
    where only the sizes were kept. ``grad`` and ``inference``: the modes of the call.
    """

    leaves: Mapping[str, ObservedValue]
    given_names: frozenset[str]
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any] | None
    grad: bool
    inference: bool

    @property
    def has_tensors(self) -> bool:
        """Whether the tensors were kept."""
        return self.args is not None

    def size_key(self) -> tuple[Any, ...]:
        """Return a key that is equal for calls of equal sizes."""
        return tuple((path, value.shape, value.value) for path, value in self.leaves.items())

    def copy_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return copies of the arguments. The call must have its tensors."""
        assert self.args is not None and self.kwargs is not None
        args, kwargs = copy_call(self.args, self.kwargs)
        return tuple(args), dict(kwargs)

    def structure_key(self) -> tuple[Any, ...]:
        """Return a key of what decides the graph besides sizes and integers."""
        return tuple(
            (path, value.dtype, value.device, len(value.shape))
            if value.is_tensor
            else (path, "int" if value.is_integer else repr(value.value))
            for path, value in self.leaves.items()
        )


class CallRecorder:
    """The calls of one module; of each structure, ``keep`` calls of different sizes keep
    tensors.
    """

    def __init__(self, module: torch.nn.Module, keep: int) -> None:
        self.module, self.keep = module, keep
        self.calls: list[ObservedCall] = []
        self.defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(module.forward).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self._kept_sizes: dict[Any, set[Any]] = {}  # sizes of the kept calls of each structure

    def record_call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call, as forward pre-hook; calls that torch traces are ignored."""
        if torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return
        pytrees.register_caches((args, kwargs), module)
        flat = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in flat):
            return
        arguments = bound_arguments(module, args, kwargs)
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
                copies, named = copy_call(args, kwargs)
            call = replace(call, args=tuple(copies), kwargs=dict(named))
        self.calls.append(call)


@contextmanager
def record_calls(recorder: CallRecorder) -> Iterator[None]:
    """Record the calls of the module in the block; the hook is always removed."""
    note = partial(recorder.record_call)
    with restore_on_exit(lambda: forget_pre_hook(recorder.module, note)):
        recorder.module.register_forward_pre_hook(note, with_kwargs=True, prepend=False)
        yield


def observe_value(leaf: Any) -> ObservedValue:
    """Return what is recorded of a leaf besides its copy."""
    if isinstance(leaf, torch.Tensor):
        return ObservedValue(None, leaf.dtype, leaf.device, tuple(leaf.shape))
    return ObservedValue(leaf)


def observed_leaves(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) of the arguments of a call, by the names of forward's parameters.

    Arguments in ``**kwargs`` have their own names.
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

    Raises InputError for an argument that is given twice, and for too many.
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [name for name, parameter in parameters.items() if parameter.kind in kinds]
    rest = [
        n
        for n, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    if len(args) > len(plain) and not rest:
        raise InputError(
            f"the call has {len(args)} positional arguments, the model takes {len(plain)}: {plain}"
        )
    for index, value in enumerate(args):
        yield (plain[index] if index < len(plain) else f"{rest[0]}[{index - len(plain)}]"), value
    for name, value in kwargs.items():
        if name in plain[: len(args)]:
            raise InputError(f"argument '{name}' is given by its place and by its name")
        yield name, value


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")
