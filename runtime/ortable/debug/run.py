"""Run one converted graph node by node in numpy: print nodes, compare with eager, dump the call.

Arguments and results are handled as by the ONNX Runtime backend. `backend.py` makes a
`ReferenceBackend` for each graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnx import NodeProto, TensorProto, numpy_helper
from torch.fx import GraphModule

from ortable import dtypes
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.feeds import check_memory, float8_value
from ortable.backend.roles import CompiledGraph, InputRoleKind
from ortable.compat.onnxruntime import capi, ort_value
from ortable.errors import MismatchError, OrtableError
from ortable.exporter.reporting.numeric_diff import NumericDiff, ToleranceOverride
from ortable.interpreter.diagnostics.failures import describe_node
from ortable.interpreter.tables import generated_tables

from .arrays import describe_value, format_node, to_numpy, to_torch
from .comparing.call_effects import compute_gap
from .comparing.mismatch import ValueRecorder, find_producer
from .reference import ExtendedReferenceEvaluator

_MAX_PRINTED = {2: 10, 3: 100}  # by verbosity: the maximum size of an array printed in full


class ReferenceBackend:
    """One compiled graph as a boxed callable, run node by node in the reference evaluator.

    Args:
        compiled: the graph.
        verbose: 1 prints the nodes, 2 their results too, 3 more values of each result.
        tolerance: for comparing every result with eager's; None compares nothing.
    """

    def __init__(
        self, compiled: CompiledGraph, verbose: int = 0, tolerance: ToleranceOverride | None = None
    ) -> None:
        # set on the instance, since dynamo wraps backward graphs and copies `__dict__`
        self._boxed_call = True
        self.compiled = compiled
        self.verbose = verbose
        self.tolerance = tolerance
        self.evaluator = ExtendedReferenceEvaluator(compiled.model)
        self.graph_module: GraphModule | None = None
        self.dump_path: Path | None = None
        self.calls = 0
        self._fetched: list[torch.Tensor] = []
        self._lock = threading.RLock()
        self._results = OrtBackend(compiled, self, None, execute=self._make_execute)

    def attach(self, graph_module: GraphModule | None, path: Path | None) -> None:
        """Set the FX graph to compare with, and the path of the dumped model."""
        self.graph_module = graph_module
        self.dump_path = path

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run one call.

        Raises:
            MismatchError: a result differs from eager's; only with a tolerance.
        """
        with self._lock:
            self.calls += 1
            self._fetched = self._compute_fetches(args)
            return self._results(args)

    def _make_execute(self, _: Any) -> Callable[..., Any]:
        """Make a function with the signature of a session's run that returns `_fetched`."""

        def run(feeds: Any, names: Any, options: Any) -> Any:
            values = capi.OrtValueVector()
            for tensor in self._fetched:
                values.push_back(_make_ort_value(tensor))
            return values

        return run

    def _compute_fetches(self, args: Sequence[Any]) -> list[torch.Tensor]:
        if not self.compiled.fetches:
            return []
        feeds = make_feeds(self.compiled, args)
        eager = self._make_eager_values(args)
        if self.verbose:
            self._print_call(feeds)
        values: dict[str, Any] = {**self.evaluator.rt_inits_, **feeds}
        steps = self.evaluator.steps(feeds)
        for proto in self.compiled.model.graph.node:
            self._print_node(proto)
            values = self._run_next_node(steps, proto, values)
            self._print_results(proto, values)
            if eager is not None:
                eager.check_node(proto, values)
        fetched = [np.asarray(values[fetch.name]) for fetch in self.compiled.fetches]
        if self.dump_path is not None and self.calls == 1:
            self._dump_call(feeds, fetched)
        return list(map(to_torch, fetched))

    def _run_next_node(
        self, steps: Any, proto: NodeProto, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Run the next node and return all values; an error names the node and its inputs."""
        try:
            return next(steps)[1]
        except Exception as error:
            origin = {entry.key: entry.value for entry in proto.metadata_props}
            lines = [
                f"The reference evaluator cannot run {format_node(proto)}: {type(error).__name__}: "
                f"{error}",
                *(f"  {n}: {describe_value(values[n])}" for n in proto.input if n in values),
                *(f"  {key}: {value}" for key, value in origin.items()),
            ]
            raise OrtableError("\n".join(lines)) from error

    def _make_eager_values(self, args: Sequence[Any]) -> EagerValues | None:
        """Compute eager's values; None without a tolerance or an FX graph to compare with."""
        if self.tolerance is None or self.graph_module is None:
            return None
        return EagerValues(self.graph_module, args, self.compiled.fx_names, self.tolerance)

    def _dump_call(self, feeds: Mapping[str, Any], fetched: Sequence[np.ndarray]) -> None:
        """Write inputs and outputs of the first call in the format of ONNX's test data."""
        assert self.dump_path is not None
        folder = self.dump_path.with_name(f"{self.dump_path.stem}_data")
        folder.mkdir(exist_ok=True)
        inputs = [value.name for value in self.compiled.model.graph.input]
        for index, name in enumerate(inputs):
            proto = make_tensor_proto(feeds[name], name)
            (folder / f"input_{index}.pb").write_bytes(proto.SerializeToString())
        for index, (fetch, value) in enumerate(zip(self.compiled.fetches, fetched, strict=True)):
            proto = make_tensor_proto(value, fetch.name)
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
        origins = [origin[key] for key in ("fx_node", "source") if key in origin]
        print(format_node(proto) + (f"  # {', '.join(origins)}" if origins else ""))

    def _print_results(self, proto: NodeProto, values: Mapping[str, Any]) -> None:
        for name in proto.output:
            if name:
                self._print_value(" +", name, values[name])

    def _print_value(self, mark: str, name: str, value: Any) -> None:
        if self.verbose > 1:
            print(f"{mark} {name}: {describe_value(value, _MAX_PRINTED.get(self.verbose, 1000))}")


class EagerValues:
    """Eager's values of the nodes of an FX graph in one call, to compare ONNX results with.

    `fx_names` maps ONNX results to FX nodes.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        args: Sequence[Any],
        fx_names: Mapping[str, str],
        tolerance: ToleranceOverride,
    ) -> None:
        self.fx_names = fx_names
        self.tolerance = tolerance
        self.agreed = 0
        recorder = ValueRecorder(graph_module, set(fx_names.values()))
        recorder.run_on_copies(args)
        self.values = recorder.values
        self.nodes = {node.name: node for node in graph_module.graph.nodes}

    def check_node(self, proto: NodeProto, computed: Mapping[str, Any]) -> None:
        """Compare the results of the ONNX node `proto`, by name in `computed`.

        Raises:
            MismatchError: a result differs from eager's.
        """
        for name in proto.output:
            fx_name = self.fx_names.get(name)
            if fx_name not in self.values:
                continue
            gap = compute_gap(self.values[fx_name], to_torch(computed[name]), self.tolerance)
            if gap is not None:
                raise MismatchError(
                    self._mismatch_message(fx_name.partition(".")[0], proto, computed, gap)
                )
            self.agreed += 1

    def _mismatch_message(
        self, name: str, proto: NodeProto, computed: Mapping[str, Any], gap: NumericDiff
    ) -> str:
        lines = [
            f"The ONNX graph differs from eager at FX node '{name}': {gap.what}",
            *describe_node(find_producer(self.nodes[name]), generated_tables().spec_files),
            f"  eager: {describe_value(to_numpy(gap.expected))}",
            f"  ONNX: {describe_value(to_numpy(gap.got))}",
            f"  computed by: {format_node(proto)}",
            *(f"    {name}: {describe_value(computed[name])}" for name in proto.input if name),
            f"  {self.agreed} results before it agree with eager",
        ]
        return "\n".join(lines)


def make_feeds(compiled: CompiledGraph, args: Sequence[Any]) -> dict[str, np.ndarray]:
    """Convert the arguments of a call to inputs of the ONNX graph.

    Raises:
        InputError: the elements of an argument cannot be read.
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


def _make_ort_value(tensor: torch.Tensor) -> Any:
    """Convert a tensor to an OrtValue, as a session returns it."""
    elem_type = dtypes.from_torch(tensor.dtype)
    if elem_type in dtypes.FLOAT8_TYPES:
        return float8_value(tensor, elem_type)
    return ort_value(tensor)


def make_tensor_proto(value: np.ndarray, name: str) -> TensorProto:
    """Convert a numpy array of any dtype to a TensorProto."""
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind != "V":
        return numpy_helper.from_array(array, name)
    proto = TensorProto(name=name, dims=array.shape, data_type=dtypes.from_numpy(array.dtype))
    proto.raw_data = array.tobytes()
    return proto
