"""The values of an FX graph run by torch, beside those of the ONNX graph: the first result that
differs is an error that names the FX node, the entry of the specs and the line of the model.
Called by `run`, node by node."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onnx import NodeProto
from torch.fx import GraphModule, Interpreter, Node

from ortable.backend.lower.aot_graph import writes_argument
from ortable.compat.torch import OpOverload
from ortable.errors import MismatchError
from ortable.exporter.account.tolerances import EXACT, Tolerance, tolerance_of
from ortable.interpreter.diagnostics.failures import describe_node
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

from .arrays import describe, to_numpy

__all__ = ["AskedTolerance", "EagerValues"]


class AskedTolerance:
    """How far a float may be from eager's: `atol + rtol * |eager|`; by dtype where not given."""

    def __init__(self, atol: float | None, rtol: float | None) -> None:
        self.atol, self.rtol = atol, rtol

    def of(self, dtype: np.dtype) -> Tolerance:
        """The tolerance of a dtype; none for integers and booleans."""
        default = tolerance_of(dtype.name)
        if default == EXACT:
            return EXACT
        return Tolerance(
            default.atol if self.atol is None else self.atol,
            default.rtol if self.rtol is None else self.rtol,
        )


class EagerValues:
    """What every node of an FX graph computes in torch for one list of arguments, which are left
    alone, and the comparison with results of the ONNX graph.

    :param wanted: names of the nodes whose values are kept
    """

    def __init__(
        self,
        graph_module: GraphModule,
        args: Sequence[Any],
        wanted: Mapping[str, str],
        tolerance: AskedTolerance,
    ) -> None:
        self.fx_names = wanted
        self.tolerance = tolerance
        self.agreed = 0
        recorder = _Recorder(graph_module, set(wanted.values()))
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        with torch.no_grad():
            recorder.run(*copies)
        self.values = recorder.values
        self.nodes = {node.name: node for node in graph_module.graph.nodes}

    def check(self, proto: NodeProto, known: Mapping[str, Any]) -> None:
        """Compares the results that `proto` has just added to `known`.

        :raises MismatchError: one is not eager's
        """
        for name in proto.output:
            fx_name = self.fx_names.get(name)
            if fx_name not in self.values:
                continue
            expected, got = to_numpy(self.values[fx_name]), np.asarray(known[name])
            difference = self.difference(expected, got)
            if difference is not None:
                node = self.nodes[fx_name]
                raise MismatchError(self._message(node, proto, known, expected, got, difference))
            self.agreed += 1

    def difference(self, expected: np.ndarray, got: np.ndarray) -> str | None:
        if expected.dtype != got.dtype:
            return f"dtype {got.dtype} in place of {expected.dtype}"
        if expected.shape != got.shape:
            return f"shape {list(got.shape)} in place of {list(expected.shape)}"
        atol, rtol = self.tolerance.of(expected.dtype)
        if atol == 0.0:
            wrong = expected != got
            gap = wrong.astype(np.float64)
        else:
            a, b = expected.astype(np.float64), got.astype(np.float64)
            with np.errstate(invalid="ignore"):
                gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
                wrong = (gap != 0) & ~(gap <= atol + rtol * np.abs(a))
        if not wrong.any():
            return None
        gap = np.where(np.isnan(gap), np.inf, gap)
        place = np.unravel_index(int(np.argmax(np.where(wrong, gap, -1.0))), gap.shape)
        return (
            f"{int(wrong.sum())} of {wrong.size} values, most at {[int(i) for i in place]}: "
            f"{got[place]} in place of {expected[place]} (atol {atol:g}, rtol {rtol:g})"
        )

    def _message(
        self,
        node: Node,
        proto: NodeProto,
        known: Mapping[str, Any],
        expected: np.ndarray,
        got: np.ndarray,
        difference: str,
    ) -> str:
        made_by = node.args[0] if node.target is operator.getitem else node  # one of its results
        assert isinstance(made_by, Node)
        call = f"{proto.op_type}({', '.join(proto.input)}) -> {', '.join(proto.output)}"
        lines = [
            f"The ONNX graph differs from eager at FX node '{node.name}': {difference}",
            *describe_node(made_by, generated_tables().spec_files),
            f"  eager: {describe(expected)}",
            f"  ONNX: {describe(got)}",
            f"  computed by: {call}",
            *(f"    {name}: {describe(known[name])}" for name in proto.input if name),
            f"  {self.agreed} results before it agree with eager",
        ]
        return "\n".join(lines)


_UNKNOWN = object()


class _Recorder(Interpreter):
    """Runs an FX graph and keeps the tensors that some nodes compute; those that follow from random
    numbers which only the converted graph knows how to use are unknown."""

    def __init__(self, graph_module: GraphModule, wanted: set[str]) -> None:
        super().__init__(graph_module)
        self.wanted = wanted
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        if any(self.env.get(node) is _UNKNOWN for node in n.all_input_nodes):
            return _UNKNOWN
        if writes_argument(n):  # at the end: views of the argument are kept as they were read
            return self.env[n.args[1]] if isinstance(n.args[1], Node) else n.args[1]
        value = self._of_drawn(n) if "drawn" in n.kwargs else super().run_node(n)
        if n.name in self.wanted and isinstance(value, torch.Tensor) and not _is_empty(n):
            self.values[n.name] = value
        return value

    def _of_drawn(self, n: Node) -> Any:
        """The value of a random operator whose numbers torch drew outside of this graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is not torch.ops.aten.native_dropout.default:
            return _UNKNOWN
        x, p, mask = args[0], args[1], kwargs["drawn"].bool()
        return x * mask.to(x.dtype) * (1.0 / (1.0 - p)), mask


def _is_empty(node: Node) -> bool:
    """Whether torch leaves the result uninitialised: it has no value to compare."""
    target = node.target
    return isinstance(target, OpOverload) and target.name() in traits.UNINITIALIZED
