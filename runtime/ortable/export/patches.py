"""The patches of bypass_export_some_errors: what fails under torch.export in practice, and what is
put in its place while the region lasts. Every replacement computes exactly what the original does;
it only does so in operations that torch.export can follow."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import _ModuleStackTracer, get_proxy_mode

from . import caches
from .bypass import Undo, active_patches
from .recurrent_shapes import keep_lengths


@dataclass(frozen=True)
class Patch:
    """One workaround.

    ``what`` says in a line, for the documentation, what fails without it. ``apply`` puts it in
    place and returns how to take it away, None when there is nothing to do.
    """

    name: str
    library: str
    what: str
    apply: Callable[[], Undo | None]

    def available(self) -> bool:
        """True when the library to patch is installed."""
        return importlib.util.find_spec(self.library) is not None


def _replacing(
    name: str, owner: Any, attribute: str, make: Callable[[Any], Any]
) -> Callable[[], Undo]:
    """A patch that replaces ``owner.attribute`` by ``make(original)``, in threads with a region
    that has the patch ``name``, and wherever dynamo reads code meanwhile: it cannot tell threads
    apart."""

    def apply() -> Undo:
        original = getattr(owner, attribute)
        replacement = make(original)

        # no functools.wraps: dynamo knows the functions that it skips by their names
        def patched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling() or name in active_patches():
                return replacement(*args, **kwargs)
            return original(*args, **kwargs)

        def undo() -> None:
            setattr(owner, attribute, original)

        setattr(owner, attribute, patched)
        return undo

    return apply


def _one_hot(original: Any) -> Any:
    """The number of classes is a size that depends on data: torch asks for its value."""

    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if num_classes != -1:
            return original(tensor, num_classes)
        count = tensor.max().item() + 1
        torch._check(count >= 1)
        return (tensor.unsqueeze(-1) == torch.arange(count, device=tensor.device)).to(torch.int64)

    return one_hot


def _tensor(original: Any) -> Any:
    """A list of 0-d tensors is stacked; torch would read their values."""

    def tensor(data: Any, *, dtype: Any = None, device: Any = None, **others: Any) -> torch.Tensor:
        if not _has_tensors(data) or any(others.values()):
            return original(data, dtype=dtype, device=device, **others)
        stacked = _stacked(data)
        found = functools.reduce(torch.promote_types, _types(data)) if dtype is None else dtype
        return stacked.to(dtype=found, device=device or "cpu")

    return tensor


def _has_tensors(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_tensors(item) or isinstance(item, torch.Tensor) for item in data)
    return False


def _stacked(data: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        items = [_stacked(item) for item in data]
        dtype = functools.reduce(torch.promote_types, [item.dtype for item in items])
        return torch.stack([item.to(dtype) for item in items])
    return data.reshape(()) if isinstance(data, torch.Tensor) else torch.scalar_tensor(
        data, dtype=_number_type(data)
    )  # fmt: skip


def _types(data: Any) -> list[torch.dtype]:
    if isinstance(data, (list, tuple)):
        return [dtype for item in data for dtype in _types(item)]
    return [data.dtype if isinstance(data, torch.Tensor) else _number_type(data)]


def _number_type(value: Any) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, (float, torch.SymFloat)):
        return torch.get_default_dtype()
    return torch.int64


def _deepcopy(original: Any) -> Any:
    """copy.deepcopy reads the storage of a tensor; a clone has the same values."""

    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not isinstance(self, FakeTensor):
            return original(self, memo)
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    return deepcopy


def _jit_isinstance(original: Any) -> Any:
    """dynamo does not step into torch.jit.isinstance; for a class it is Python's isinstance."""

    def jit_isinstance(obj: Any, target_type: Any) -> bool:
        if isinstance(target_type, type):
            return isinstance(obj, target_type)
        return original(obj, target_type)

    return jit_isinstance


def _mark_static_address(original: Any) -> Any:
    """A hint for CUDA graphs, without a meaning in an exported graph."""

    def mark_static_address(t: Any, guard: bool = False) -> None:
        return None

    return mark_static_address


def _script_call(original: Any) -> Any:
    """torch.export traces modules behind a stand-in, whose forward TorchScript calls with the
    module twice. The compiled method of the module runs with fake tensors like any operator."""

    def call_module(self: Any, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(m, torch.jit.ScriptModule):
            return original(self, m, forward, args, kwargs)
        module: Any = m.get_base() if hasattr(m, "get_base") else m
        return module._c._get_method("forward")(*args, **kwargs)

    return call_module


def _recurrent_shapes() -> Undo:
    """Where torch looks for shapes alone; whatever writes a graph, such as a decomposition, gets
    torch's own function."""
    return keep_lengths(lambda: "recurrent layers" in active_patches() and get_proxy_mode() is None)


def _sizes_of_one() -> Undo:
    """A dimension that the caller marks as dynamic stays so when the example has size 1. A branch
    on such a size is still refused by torch."""
    import torch.fx.experimental._config

    config: Any = torch.fx.experimental._config
    patch = config.patch(backed_size_oblivious=True)
    patch.__enter__()
    return lambda: patch.__exit__(None, None, None)


PATCHES: tuple[Patch, ...] = (
    Patch(
        "sizes of 1",
        "torch",
        "a dynamic dimension whose example has size 1: torch takes 1 for a constant",
        _sizes_of_one,
    ),
    Patch(
        "one_hot",
        "torch",
        "torch.nn.functional.one_hot without num_classes",
        _replacing("one_hot", torch.nn.functional, "one_hot", _one_hot),
    ),
    Patch(
        "tensor of tensors",
        "torch",
        "torch.tensor([a, b]) of 0-d tensors, with strict=False",
        _replacing("tensor of tensors", torch, "tensor", _tensor),
    ),
    Patch(
        "deepcopy",
        "torch",
        "copy.deepcopy of a tensor in forward, with strict=False",
        _replacing("deepcopy", torch.Tensor, "__deepcopy__", _deepcopy),
    ),
    Patch(
        "TorchScript modules",
        "torch",
        "a submodule compiled by torch.jit.script, with strict=False and static shapes",
        _replacing("TorchScript modules", _ModuleStackTracer, "call_module", _script_call),
    ),
    Patch(
        "recurrent layers",
        "torch",
        "torch.nn.LSTM, GRU and RNN with a dynamic number of steps",
        _recurrent_shapes,
    ),
    Patch(
        "jit.isinstance",
        "torch",
        "torch.jit.isinstance, with strict=True",
        _replacing("jit.isinstance", torch.jit, "isinstance", _jit_isinstance),
    ),
    Patch(
        "mark_static_address",
        "torch",
        "torch._dynamo.mark_static_address, with strict=True",
        _replacing(
            "mark_static_address", torch._dynamo, "mark_static_address", _mark_static_address
        ),
    ),
    Patch(
        "caches",
        "transformers",
        "DynamicCache, StaticCache and EncoderDecoderCache as arguments and results",
        caches.register,
    ),
)
