"""The compiled graph as a callable: arguments to ONNX Runtime and results to torch through dlpack.
Everything that can be decided before the first call is; nothing here is shared between two
calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _from_dlpack, _to_dlpack
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ortable import dims, dtypes
from ortable.errors import InputError

from .compile import CompiledGraph
from .roles import DimSource, Fetch, InputKind, OutputKind, OutputRole, ViewStep

__all__ = ["OrtBackend", "Results", "SymbolValues", "as_promised"]

_CACHED_DIMS = 4096


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
        self.sources = tuple(compiled.sources.values())

    def __call__(self, args: Sequence[Any], fetched: Sequence[Any]) -> list[Any]:
        """`fetched` holds torch tensors, in the order of `CompiledGraph.fetches`."""
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
            return own(view, view.shape, view.stride()) if role.alone else view
        if kind is OutputKind.NONE:
            return None
        if kind is OutputKind.DIMENSION:
            return int(fetched[role.fetch]) if role.fetch >= 0 else values(role.value)
        if kind is OutputKind.DUPLICATE:
            return results[role.source]
        if kind is OutputKind.NUMBER:
            return fetched[role.fetch].item()
        return role.value


class OrtBackend:
    """One compiled graph.  Called with a list of arguments, which it clears; returns a list of
    results.

    Tensors are on the CPU and dense; ints stand for symbolic dimensions.  Safe to call from several
    threads: a call owns its feeds, and ONNX Runtime allocates its results.  `compiled` holds the
    ONNX model and the roles, `session` the `onnxruntime.InferenceSession` (None when no node is
    left).
    """

    def __init__(self, compiled: CompiledGraph, session: Any, run_options: Any) -> None:
        from onnxruntime.capi import _pybind_state as capi

        # On the object, not on the class: dynamo wraps backward graphs and copies `__dict__` only.
        self._boxed_call = True
        self.compiled = compiled
        self.session = session
        self.run_options = run_options
        self._results = Results(compiled)
        self._from_dlpack = capi.OrtValue.from_dlpack
        self._names = [fetch.name for fetch in compiled.fetches]
        self._tensors = [
            (role.index, role.name, _reinterpreted(role.elem_type), role.permutation)
            for role in compiled.inputs
            if role.kind is InputKind.TENSOR and role.name in compiled.fed
        ]
        self._dims = [
            (role.index, role.name)
            for role in compiled.inputs
            if role.kind is InputKind.DIMENSION and role.name in compiled.fed
        ]
        self._adjusted = [
            (index, fetch)
            for index, fetch in enumerate(compiled.fetches)
            if fetch.is_bool or fetch.is_complex or fetch.permutation or fetch.strides is not None
        ]
        self._dim_values: dict[int, Any] = {}

    def __repr__(self) -> str:
        nodes = len(self.compiled.model.graph.node)
        return f"OrtBackend({self.compiled.kind}, {nodes} ONNX nodes)"

    def __call__(self, args: list[Any]) -> list[Any]:
        """:raises InputError: an argument that cannot be handed to ONNX Runtime"""
        fetched = self._run(args) if self.session is not None else []
        results = self._results(args, fetched)
        args.clear()
        return results

    def _run(self, args: Sequence[Any]) -> list[torch.Tensor]:
        feeds: dict[str, Any] = {}
        for index, name, as_real, permutation in self._tensors:
            tensor = args[index]
            if permutation is not None:
                tensor = tensor.permute(permutation)
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            if tensor.is_neg():
                tensor = tensor.resolve_neg()
            if as_real is not None:
                tensor = as_real(tensor)
            feeds[name] = self._from_dlpack(_to_dlpack(tensor), as_real is _bytes)
        for index, name in self._dims:
            feeds[name] = self._dim_value(args[index])
        outputs = self.session._sess.run_with_ort_values(feeds, self._names, self.run_options)
        # By position: iterating over the vector that ONNX Runtime returns costs 30 us.
        fetched = [_from_dlpack(outputs[i].to_dlpack()) for i in range(len(self._names))]
        if self._adjusted:
            values = SymbolValues(args, self._results.sources)
            for i, fetch in self._adjusted:
                tensor = fetched[i].view(torch.bool) if fetch.is_bool else fetched[i]
                fetched[i] = as_promised(tensor, fetch, values)
        return fetched

    def _dim_value(self, value: int) -> Any:
        """An int64[1] OrtValue, made once per value."""
        found = self._dim_values.get(value)
        if found is None:
            if not isinstance(value, int):
                raise InputError(
                    f"The graph expects an int where it got {value!r}, a {type(value).__name__}."
                )
            if len(self._dim_values) >= _CACHED_DIMS:
                self._dim_values.clear()
            found = self._from_dlpack(_to_dlpack(torch.tensor([value], dtype=torch.int64)), False)
            self._dim_values[value] = found
        return found


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj())


def _reinterpreted(elem_type: int | None) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What makes a tensor of dlpack out of one of this type, where that is not the tensor itself:
    bool as bytes, complex numbers as pairs."""
    if elem_type == dtypes.boolean:
        return _bytes
    return _parts if dtypes.is_complex_type(elem_type) else None


def own(tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The memory of `tensor` as a tensor that is no view of it: autograd forbids in-place updates
    of views that a compiled function returns."""
    return _reinterpret_tensor(tensor, shape, strides, 0)  # 0: further, from where it begins


def as_promised(tensor: torch.Tensor, fetch: Fetch, values: SymbolValues) -> torch.Tensor:
    """A contiguous output as the tensor that torch promised: complex, and with its strides."""
    if fetch.is_complex:
        tensor = torch.view_as_complex(tensor)
        if fetch.permutation is None:
            tensor = own(tensor, tensor.shape, tensor.stride())
    if fetch.permutation is not None:
        shape, strides = tensor.shape, tensor.stride()
        order = fetch.permutation
        return own(tensor, [shape[axis] for axis in order], [strides[axis] for axis in order])
    if fetch.strides is not None:
        strided = torch.empty_strided(tensor.shape, values(fetch.strides), dtype=tensor.dtype)
        return strided.copy_(tensor)
    return tensor
