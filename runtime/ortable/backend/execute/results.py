"""Helpers of a call for what a generated line cannot say: values of symbolic sizes, memory that
is no view, promised strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ortable import dims
from ortable.backend.lower.strides import with_strides
from ortable.backend.roles import DimSource, Fetch
from ortable.compat.onnxruntime import as_complex
from ortable.compat.torch import reinterpret_tensor


class SymbolValues:
    """Values of symbolic dimensions in one call, read from its arguments when first needed."""

    __slots__ = ("args", "found", "sources")

    def __init__(self, args: Sequence[Any], sources: Sequence[DimSource]) -> None:
        self.args = args
        self.sources = sources
        self.found: dict[str, int] | None = None

    def __call__(self, value: Any) -> Any:
        """`value` with every dimension in it (containers are searched) replaced by its int."""
        if isinstance(value, dims.SymDim):
            if self.found is None:
                self.found = {s.symbol: self._read(s) for s in self.sources}
            return dims.evaluate_dim(value, self.found)
        if isinstance(value, list | tuple):
            return type(value)(self(item) for item in value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return value

    def _read(self, source: DimSource) -> int:
        value = self.args[source.index]
        return int(value) if source.axis is None else int(value.shape[source.axis])


def own(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of `tensor` as a tensor that is no view of it: autograd forbids in-place updates
    of views that a compiled function returns."""
    # 0: further, from where it begins. torch 2.15 takes exact tuples only, and a Size is none.
    return reinterpret_tensor(tensor, tuple(tensor.shape), tensor.stride(), 0)


def as_promised(tensor: torch.Tensor, fetch: Fetch, values: Callable[[Any], Any]) -> torch.Tensor:
    """A contiguous output as the tensor that torch promised: complex, and with its strides."""
    if fetch.is_complex:
        tensor = as_complex(tensor)
        if fetch.permutation is None:
            tensor = own(tensor)
    if fetch.permutation is not None:
        return own(tensor.permute(fetch.permutation))
    if fetch.strides is not None:
        return with_strides(tensor, values(fetch.strides))
    return tensor
