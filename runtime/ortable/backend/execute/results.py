"""Helpers of generated calls: values of symbolic sizes, non-view tensors, declared strides."""

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
    """The values of symbolic dimensions in one call, read from its arguments on first use."""

    __slots__ = ("args", "sources", "values")

    def __init__(self, args: Sequence[Any], sources: Sequence[DimSource]) -> None:
        self.args = args
        self.sources = sources
        self.values: dict[str, int] | None = None

    def __call__(self, value: Any) -> Any:
        """Replace every dimension in `value`, including those in containers, by its int."""
        if isinstance(value, dims.SymDim):
            if self.values is None:
                self.values = {source.symbol: self._read_size(source) for source in self.sources}
            return dims.evaluate_dim(value, self.values)
        if isinstance(value, list | tuple):
            return type(value)(self(item) for item in value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return value

    def _read_size(self, source: DimSource) -> int:
        value = self.args[source.index]
        return int(value) if source.axis is None else int(value.shape[source.axis])


def as_non_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the memory of `tensor` that is not a view of it.

    Autograd forbids in-place updates of views that a compiled function returns.
    """
    # The offset 0 is relative to `tensor`. torch 2.15 accepts exact tuples only, not a Size.
    return reinterpret_tensor(tensor, tuple(tensor.shape), tensor.stride(), 0)


def with_declared_layout(
    tensor: torch.Tensor, fetch: Fetch, values: Callable[[Any], Any]
) -> torch.Tensor:
    """Convert a contiguous output to the dtype and strides that torch declared."""
    if fetch.is_complex:
        tensor = as_complex(tensor)
        if fetch.permutation is None:
            tensor = as_non_view(tensor)
    if fetch.permutation is not None:
        return as_non_view(tensor.permute(fetch.permutation))
    if fetch.strides is not None:
        return with_strides(tensor, values(fetch.strides))
    return tensor
