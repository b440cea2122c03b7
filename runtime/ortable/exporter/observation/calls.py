"""Calls of a model, kept as they come: what each argument is, and copies of the tensors before
forward can write into them. In comes a module, out go `SeenCall`s. `recorded` is the hook; dims.py
compares the calls, resized.py makes other ones of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from ortable.compat.torch import forget_pre_hook, pytree
from ortable.compat.undone import undone
from ortable.errors import InputError
from ortable.exporter.frontend.module_state import copy_call
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dynamic_shapes import Arguments, bound_arguments
from ortable.ir.initializers import is_fake


@dataclass(frozen=True)
class Seen:
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

    def words(self) -> str:
        """In a message: ``int64[2, 7]``, ``True``."""
        if self.dtype is None:
            return f"{self.value!r:.60}"
        return f"{short(self.dtype)}{list(self.shape)}"


@dataclass(frozen=True)
class SeenCall:
    """One call. ``leaves`` has what each leaf is, by the way to it (``past[0]``), in the order of
    forward's parameters, defaults included; ``given`` are the arguments that the caller wrote.
    ``args`` and ``kwargs`` are copies, None where only the sizes were kept. ``grad`` and
    ``inference`` are the modes that it ran in."""

    leaves: Mapping[str, Seen]
    given: frozenset[str]
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any] | None
    grad: bool
    inference: bool

    @property
    def kept(self) -> bool:
        """Whether the tensors were kept."""
        return self.args is not None

    def sizes(self) -> tuple[Any, ...]:
        """What two calls of equal sizes share."""
        return tuple((path, each.shape, each.value) for path, each in self.leaves.items())

    def copied(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that may be written into. The call must be a kept one."""
        assert self.args is not None and self.kwargs is not None
        args, kwargs = copy_call(self.args, self.kwargs)
        return tuple(args), dict(kwargs)

    def structure(self) -> tuple[Any, ...]:
        """What decides which graph the call needs besides sizes and integers."""
        return tuple(
            (path, each.dtype, each.device, len(each.shape))
            if each.is_tensor
            else (path, "int" if each.is_integer else repr(each.value))
            for path, each in self.leaves.items()
        )


class Recorder:
    """The calls of one module; the tensors of ``keep`` calls of different sizes are kept, of each
    structure."""

    def __init__(self, module: torch.nn.Module, keep: int) -> None:
        self.module, self.keep = module, keep
        self.calls: list[SeenCall] = []
        self.defaults = {
            name: each.default
            for name, each in inspect.signature(module.forward).parameters.items()
            if each.default is not inspect.Parameter.empty
        }
        self._kept: dict[Any, set[Any]] = {}  # sizes of the kept calls of each structure

    def note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The forward pre-hook; nothing is noted of what torch traces."""
        if torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return
        pytrees.register_caches((args, kwargs), module)
        flat = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in flat):
            return
        arguments = bound_arguments(module, args, kwargs)
        given = frozenset(name for name, _ in _by_name(arguments))
        for name, default in self.defaults.items():
            arguments.setdefault(name, default)
        call = SeenCall(
            {path: seen_of(leaf) for path, leaf in call_leaves(arguments)},
            given,
            None,
            None,
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        )
        kept, sizes = self._kept.setdefault(call.structure(), set()), call.sizes()
        if sizes not in kept and len(kept) < self.keep:
            kept.add(sizes)
            with torch.inference_mode(False), torch.no_grad():
                copies, named = copy_call(args, kwargs)
            call = replace(call, args=tuple(copies), kwargs=dict(named))
        self.calls.append(call)


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """In the block the calls of the module are noted; the hook goes also when one raises."""
    note = partial(recorder.note)
    with undone(lambda: forget_pre_hook(recorder.module, note)):
        recorder.module.register_forward_pre_hook(note, with_kwargs=True, prepend=False)
        yield


def seen_of(leaf: Any) -> Seen:
    """What is kept of a leaf besides its copy."""
    if isinstance(leaf, torch.Tensor):
        return Seen(None, leaf.dtype, leaf.device, tuple(leaf.shape))
    return Seen(leaf)


def call_leaves(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """(way, leaf) of the arguments of a call, by the names of forward's parameters; an argument
    that ``**kwargs`` received by its own."""
    for name, value in _by_name(arguments):
        yield from pytrees.leaves(name, value)


def _by_name(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        if name == arguments.rest:
            yield from value.items()
        else:
            yield name, value


def flat_paths(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """(way, leaf) of a call in the order in which torch flattens ``(args, kwargs)``."""
    parameters = inspect.signature(module.forward).parameters
    return [
        leaf
        for name, value in named_arguments(parameters, args, kwargs)
        for leaf in pytrees.leaves(name, value)
    ]


def named_arguments(
    parameters: Mapping[str, inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """(name, value) for each argument, positional ones first: ``x``, ``rest[0]``.

    Raises InputError for an argument that is given twice, and for too many.
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [name for name, each in parameters.items() if each.kind in kinds]
    rest = [n for n, each in parameters.items() if each.kind is inspect.Parameter.VAR_POSITIONAL]
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


def short(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")
