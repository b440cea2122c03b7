"""Results of a graph from what was fetched and from the arguments: views, sizes, promised
strides. The fast path does the same in generated source; the debug backend comes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ortable import dims
from ortable.backend.roles import DimSource, Fetch, OutputKind, OutputRole, ViewStep

if TYPE_CHECKING:
    from ortable.backend.roles import CompiledGraph

__all__ = ["Results", "SymbolValues", "as_promised", "own"]


def apply_steps(tensor: Any, steps: Sequence[ViewStep], values: Callable[[Any], Any]) -> Any:
    """Applies view steps to a tensor; `values` turns symbolic dimensions into ints."""
    for step in steps:
        if step.symbolic:
            tensor = step.op(tensor, *values(step.args), **values(step.kwargs))
        else:
            tensor = step.op(tensor, *step.args, **step.kwargs)
    return tensor


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
            return dims.evaluate(value, self.found)
        if isinstance(value, list | tuple):
            return type(value)(self(item) for item in value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return value

    def _read(self, source: DimSource) -> int:
        value = self.args[source.index]
        return int(value) if source.axis is None else int(value.shape[source.axis])


class Results:
    """Turns what ONNX Runtime returned, and the arguments, into the results of the graph."""

    def __init__(self, compiled: CompiledGraph) -> None:
        self.roles = compiled.outputs
        self.n_results = compiled.n_results
        self.mutations = compiled.mutations
        self.checks = compiled.checks
        self.sources = tuple(compiled.sources.values())

    def __call__(self, args: Sequence[Any], fetched: Sequence[Any]) -> list[Any]:
        """`fetched` holds torch tensors, in the order of `CompiledGraph.fetches`."""
        for check in self.checks:
            if not fetched[check.fetch].item():
                raise RuntimeError(check.message)
        values = SymbolValues(args, self.sources)
        results: list[Any] = []
        for role in self.roles:
            results.append(self._result(role, args, fetched, results, values))
        if self.mutations:
            for mutation in self.mutations:
                args[mutation.source].copy_(results[mutation.result])
            del results[self.n_results :]
        return results

    def _result(
        self,
        role: OutputRole,
        args: Sequence[Any],
        fetched: Sequence[Any],
        results: Sequence[Any],
        values: SymbolValues,
    ) -> Any:
        kind = role.kind
        if kind is OutputKind.TENSOR:
            return fetched[role.fetch]
        if kind is OutputKind.INPUT:
            return args[role.source]
        if kind is OutputKind.VIEW:
            base = fetched[role.fetch] if role.fetch >= 0 else args[role.source]
            view = apply_steps(base, role.steps, values)
            return own(view) if role.alone else view
        if kind is OutputKind.NONE:
            return None
        if kind is OutputKind.DIMENSION:
            return int(fetched[role.fetch]) if role.fetch >= 0 else values(role.value)
        if kind is OutputKind.DUPLICATE:
            return results[role.source]
        if kind is OutputKind.NUMBER:
            return fetched[role.fetch].item()
        return role.value


def own(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of `tensor` as a tensor that is no view of it: autograd forbids in-place updates
    of views that a compiled function returns."""
    # 0: further, from where it begins. torch 2.15 takes exact tuples only, and a Size is none.
    return _reinterpret_tensor(tensor, tuple(tensor.shape), tensor.stride(), 0)


def as_promised(tensor: torch.Tensor, fetch: Fetch, values: Callable[[Any], Any]) -> torch.Tensor:
    """A contiguous output as the tensor that torch promised: complex, and with its strides."""
    if fetch.is_complex:
        tensor = torch.view_as_complex(tensor)
        if fetch.permutation is None and fetch.strides is None:
            tensor = own(tensor)
    if fetch.permutation is not None:
        return own(tensor.permute(fetch.permutation))
    if fetch.strides is not None:
        strided = torch.empty_strided(
            tensor.shape, values(fetch.strides), dtype=tensor.dtype, device=tensor.device
        )
        return strided.copy_(tensor)
    return tensor
