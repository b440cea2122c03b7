"""One converted graph, run node by node in numpy: it prints, compares with eager, and writes
what it was called with. Arguments and results are handled as the fast backend handles them. In
comes a CompiledGraph, out comes a callable; called by `backend`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnx import NodeProto, TensorProto, numpy_helper
from torch.fx import GraphModule

from ortable import dtypes
from ortable.backend.execute.feeds import check_memory
from ortable.backend.execute.results import SymbolValues, as_promised
from ortable.backend.roles import CompiledGraph, InputRoleKind
from ortable.errors import OrtableError

from .arrays import describe, to_numpy, to_torch
from .compare import AskedTolerance, EagerValues
from .reference import ExtendedReferenceEvaluator
from .results import GraphResults

_SHOWN = {2: 10, 3: 100}  # verbosity to the number of values that are printed in full


class ReferenceBackend:
    """One compiled graph as a boxed callable, node by node in the reference evaluator.

    :param verbose: 1 prints the nodes, 2 their results too, 3 more values of each
    :param tolerance: compares every result with eager's; None: does not
    """

    def __init__(
        self, compiled: CompiledGraph, verbose: int = 0, tolerance: AskedTolerance | None = None
    ) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs and copies `__dict__`
        self.compiled = compiled
        self.verbose = verbose
        self.tolerance = tolerance
        self.evaluator = ExtendedReferenceEvaluator(compiled.model)
        self.graph_module: GraphModule | None = None
        self.dump_path: Path | None = None
        self.calls = 0
        self._results = GraphResults(compiled)

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Receives the FX graph, and where the model was dumped."""
        self.graph_module = graph_module
        self.dump_path = path

    def __call__(self, args: list[Any]) -> list[Any]:
        """:raises MismatchError: a result differs from eager's, and they are compared"""
        self.calls += 1
        results = self._results(args, self._run(args))
        args.clear()
        return results

    def _run(self, args: Sequence[Any]) -> list[torch.Tensor]:
        if not self.compiled.fetches:
            return []
        feeds = feeds_of(self.compiled, args)
        eager = self._eager(args)
        if self.verbose:
            self._print_call(feeds)
        known: dict[str, Any] = {**self.evaluator.rt_inits_, **feeds}
        steps = self.evaluator.steps(feeds)
        for proto in self.compiled.model.graph.node:
            self._print_node(proto)
            known = self._next(steps, proto, known)
            self._print_results(proto, known)
            if eager is not None:
                eager.check(proto, known)
        fetched = [np.asarray(known[fetch.name]) for fetch in self.compiled.fetches]
        if self.dump_path is not None and self.calls == 1:
            self._dump(feeds, fetched)
        values = SymbolValues(args, self._results.sources)
        return [
            as_promised(to_torch(value), fetch, values)
            for value, fetch in zip(fetched, self.compiled.fetches, strict=True)
        ]

    def _next(self, steps: Any, proto: NodeProto, known: Mapping[str, Any]) -> dict[str, Any]:
        """What is known after one more node; a failure says which node failed and on what."""
        try:
            return next(steps)[1]
        except Exception as error:
            origin = {entry.key: entry.value for entry in proto.metadata_props}
            lines = [
                f"The reference evaluator cannot run {_text(proto)}: {type(error).__name__}: "
                f"{error}",
                *(f"  {n}: {describe(known[n])}" for n in proto.input if n in known),
                *(f"  {key}: {value}" for key, value in origin.items()),
            ]
            raise OrtableError("\n".join(lines)) from error

    def _eager(self, args: Sequence[Any]) -> EagerValues | None:
        """The values to compare with, before anything is written into an argument."""
        if self.tolerance is None or self.graph_module is None:
            return None
        return EagerValues(self.graph_module, args, self.compiled.fx_names, self.tolerance)

    def _dump(self, feeds: Mapping[str, Any], fetched: Sequence[np.ndarray]) -> None:
        """Inputs and outputs of the first call, as the test tools of ONNX read them."""
        assert self.dump_path is not None
        folder = self.dump_path.with_name(f"{self.dump_path.stem}_data")
        folder.mkdir(exist_ok=True)
        inputs = [value.name for value in self.compiled.model.graph.input]
        for index, name in enumerate(inputs):
            proto = tensor_proto(feeds[name], name)
            (folder / f"input_{index}.pb").write_bytes(proto.SerializeToString())
        for index, (fetch, value) in enumerate(zip(self.compiled.fetches, fetched, strict=True)):
            proto = tensor_proto(value, fetch.name)
            (folder / f"output_{index}.pb").write_bytes(proto.SerializeToString())

    # -- printing -------------------------------------------------------------------------------

    def _print_call(self, feeds: Mapping[str, Any]) -> None:
        count = len(self.compiled.model.graph.node)
        print(f"[ortable] {self.compiled.kind}, call {self.calls}: {count} ONNX nodes")
        for name, value in feeds.items():
            self._print_value("input", name, value)

    def _print_node(self, proto: NodeProto) -> None:
        if not self.verbose:
            return
        origin = {entry.key: entry.value for entry in proto.metadata_props}
        told = [origin[key] for key in ("fx_node", "source") if key in origin]
        print(_text(proto) + (f"  # {', '.join(told)}" if told else ""))

    def _print_results(self, proto: NodeProto, known: Mapping[str, Any]) -> None:
        for name in proto.output:
            if name:
                self._print_value(" +", name, known[name])

    def _print_value(self, mark: str, name: str, value: Any) -> None:
        if self.verbose > 1:
            print(f"{mark} {name}: {describe(value, _SHOWN.get(self.verbose, 1000))}")


def feeds_of(compiled: CompiledGraph, args: Sequence[Any]) -> dict[str, np.ndarray]:
    """The arguments of a call as inputs of the ONNX graph.

    :raises InputError: an argument whose elements cannot be read
    """
    check_memory(compiled.inputs, args)
    feeds: dict[str, np.ndarray] = {}
    for role in compiled.inputs:
        if not role.name:
            continue
        value = args[role.index]
        if role.kind is InputRoleKind.DIMENSION:
            feeds[role.name] = np.array([value], dtype=np.int64)
            continue
        if role.kind is InputRoleKind.NUMBER:
            feeds[role.name] = np.array(
                value, dtype=dtypes.to_numpy(role.elem_type or dtypes.float64)
            )
            continue
        if role.permutation is not None:
            value = value.permute(role.permutation)
        feeds[role.name] = to_numpy(value)
    return feeds


def _text(proto: NodeProto) -> str:
    domain = f"{proto.domain}." if proto.domain else ""
    return f"{domain}{proto.op_type}({', '.join(proto.input)}) -> {', '.join(proto.output)}"


def tensor_proto(value: np.ndarray, name: str) -> TensorProto:
    """A numpy array as a TensorProto, whatever its dtype."""
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind != "V":
        return numpy_helper.from_array(array, name)
    proto = TensorProto(name=name, dims=array.shape, data_type=dtypes.from_numpy(array.dtype))
    proto.raw_data = array.tobytes()
    return proto
