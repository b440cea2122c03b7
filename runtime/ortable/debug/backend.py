"""onnx_debug_backend: the graphs of the fast backend, run by the reference evaluator in place of
ONNX Runtime. Arguments and results are handled exactly as the fast backend handles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule

from ortable import dtypes
from ortable.backend.build import Compiled
from ortable.backend.call import Results, SymbolValues, as_promised
from ortable.backend.compile import CompiledGraph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import InputKind
from ortable.backend.wiring import dispatch
from ortable.interpreter.complex_numbers import real_tensor

from .reference import ExtendedReferenceEvaluator

__all__ = ["ReferenceBackend", "onnx_debug_backend"]

# dtypes that numpy only has through ml_dtypes: carried as integers of the same width
_CARRIERS = {
    torch.bfloat16: (torch.int16, dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, dtypes.float8e4m3fn),
    torch.float8_e5m2: (torch.int8, dtypes.float8e5m2),
}
_BY_NUMPY = {dtypes.to_numpy(onnx): (torch_t, c) for torch_t, (c, onnx) in _CARRIERS.items()}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A numpy array with the values of a tensor on the CPU (copied: results must not alias);
    complex numbers are pairs along a last dimension."""
    tensor = real_tensor(tensor.detach().resolve_neg()).contiguous()
    carrier = _CARRIERS.get(tensor.dtype)
    if carrier is None:
        return tensor.numpy().copy()
    return tensor.view(carrier[0]).numpy().copy().view(dtypes.to_numpy(carrier[1]))


def to_torch(value: Any) -> torch.Tensor:
    """A tensor with the values of a numpy array or scalar."""
    array = np.array(value)
    found = _BY_NUMPY.get(array.dtype)
    if found is None:
        return torch.from_numpy(array)
    torch_type, carrier = found
    width = np.int16 if carrier is torch.int16 else np.int8
    return torch.from_numpy(array.view(width)).view(torch_type)


class ReferenceBackend:
    """One compiled graph, node by node in numpy; `verbose` prints nodes (1) and results (2)."""

    def __init__(self, compiled: CompiledGraph, verbose: int = 0) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs and copies `__dict__`
        self.compiled = compiled
        level = verbose + 1 if verbose else 0  # onnx prints what is below the level
        self.evaluator = ExtendedReferenceEvaluator(compiled.model, verbose=level)
        self._results = Results(compiled)

    def __call__(self, args: list[Any]) -> list[Any]:
        results = self._results(args, self._run(args))
        args.clear()
        return results

    def _run(self, args: Sequence[Any]) -> list[torch.Tensor]:
        feeds: dict[str, Any] = {}
        for role in self.compiled.inputs:
            if not role.name:
                continue
            value = args[role.index]
            if role.kind is InputKind.DIMENSION:
                feeds[role.name] = np.array([value], dtype=np.int64)
                continue
            if role.permutation is not None:
                value = value.permute(role.permutation)
            feeds[role.name] = to_numpy(value)
        names = [fetch.name for fetch in self.compiled.fetches]
        values = SymbolValues(args, self._results.sources)
        return [
            as_promised(to_torch(output), fetch, values)
            for output, fetch in zip(
                self.evaluator.run(names, feeds), self.compiled.fetches, strict=True
            )
        ]


def onnx_debug_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    target_opset: int | Mapping[str, int] | None = None,
    export_options: Any = None,
    storage: Any = None,
    dump_prefix: str | None = None,
    verbose: int | None = None,
    optimize: bool | None = None,
    pre_ort_model_transforms: Any = None,
    raise_on: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """The same graphs as `onnx_custom_backend`, run node by node in Python by
    `ortable.ExtendedReferenceEvaluator`: slow, and it prints.

    :param verbose: 1 prints every node, 2 every intermediate result, larger numbers more of each
    :raises OptionError: unknown option, wrong value, or one given twice
    :raises OrtableError: called outside torch.compile
    """
    given = {name: value for name, value in locals().items() if name in OrtOptions.__annotations__}
    resolved = OrtOptions.from_mapping(given, options)
    return dispatch(graph_module, args, resolved, _run_with_reference, "onnx_debug_backend")


def _run_with_reference(compiled: CompiledGraph, options: OrtOptions) -> Compiled:
    return ReferenceBackend(compiled, verbose=options.verbose)
