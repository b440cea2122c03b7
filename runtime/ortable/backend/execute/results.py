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
from ortable.errors import InputError


class SymbolValues:
    """The values of symbolic dimensions in one call, read from its arguments on first use.

    `nested` holds the arguments that are lengths of ragged dimensions (torch's nested ints). They
    are no ints, so they can be returned, but not computed with.
    """

    __slots__ = ("args", "nested", "sources", "values")

    def __init__(self, args: Sequence[Any], sources: Sequence[DimSource]) -> None:
        self.args = args
        self.sources = sources
        self.values: dict[str, int] | None = None
        self.nested: dict[str, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Replace every dimension in `value`, including those in containers, by its int.

        A dimension that is the length of a ragged dimension is replaced by the argument.

        Raises:
            InputError: if the value of a dimension depends on the length of a ragged dimension.
        """
        if isinstance(value, dims.SymDim):
            return self._evaluate_dim(value)
        if isinstance(value, list | tuple):
            return type(value)(self(item) for item in value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return value

    def _evaluate_dim(self, dim: dims.SymDim) -> Any:
        values = self.values
        if values is None:
            values = self.values = self._read_sizes()
        if self.nested:
            if str(dim) in self.nested:
                return self.nested[str(dim)]
            ragged = sorted(self.nested.keys() & dims.free_symbols(dim))
            if ragged:
                raise InputError(
                    f"The graph computes {dim}, but {ragged[0]} is {self.nested[ragged[0]]}, the "
                    "length of a ragged dimension of a nested tensor, which is no number. Compute "
                    "with it outside of the compiled function."
                )
        return dims.evaluate_dim(dim, values)

    def _read_sizes(self) -> dict[str, int]:
        """Read the value of each symbol that has one; store nested ints in `nested`."""
        values: dict[str, int] = {}
        for source in self.sources:
            value = self.args[source.index]
            if source.axis is not None:
                value = value.shape[source.axis]
            if isinstance(value, torch.SymInt) and value.node.is_nested_int():
                self.nested[source.symbol] = value
            else:
                values[source.symbol] = int(value)
        return values


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
