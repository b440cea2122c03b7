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
from ortable.exporter.account.gaps import gap_between
from ortable.exporter.account.tolerances import EXACT, Tolerance, tolerance_of
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.diagnostics.failures import describe_node
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

from .arrays import describe, to_numpy, to_torch


class AskedTolerance:
    """How far a float may be from eager's: `atol + rtol * |eager|`; by dtype where not given."""

    def __init__(self, atol: float | None, rtol: float | None) -> None:
        self.atol, self.rtol = atol, rtol

    def of(self, dtype: torch.dtype) -> Tolerance:
        """The tolerance of a dtype; none for integers and booleans."""
        default = tolerance_of(dtype)
        if default == EXACT:
            return EXACT
        return Tolerance(
            default.atol if self.atol is None else self.atol,
            default.rtol if self.rtol is None else self.rtol,
        )


class EagerValues:
    """What every node of an FX graph computes in torch for one list of arguments, which are left
    alone, and the comparison with results of the ONNX graph.

    :param wanted: names of the nodes whose values are kept, by results of the ONNX graph
    :param given: values of nodes that torch cannot compute here: they follow from random numbers
        which only the converted graph knows how to use
    """

    def __init__(
        self,
        graph_module: GraphModule,
        args: Sequence[Any],
        wanted: Mapping[str, str],
        tolerance: AskedTolerance,
        given: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.fx_names = wanted
        self.tolerance = tolerance
        self.agreed = 0
        recorder = Recorder(graph_module, set(wanted.values()), given)
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        with torch.no_grad():
            self.results = recorder.run(*copies)
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
            expected, got = real_tensor(self.values[fx_name]), np.asarray(known[name])
            gap = gap_between(expected, to_torch(got), self.tolerance.of(expected.dtype))
            if gap is not None:
                node = self.nodes[fx_name.partition(".")[0]]
                raise MismatchError(self._message(node, proto, known, expected, got, gap.what))
            self.agreed += 1

    def _message(
        self,
        node: Node,
        proto: NodeProto,
        known: Mapping[str, Any],
        expected: torch.Tensor,
        got: np.ndarray,
        difference: str,
    ) -> str:
        made_by = node.args[0] if node.target is operator.getitem else node  # one of its results
        assert isinstance(made_by, Node)
        call = f"{proto.op_type}({', '.join(proto.input)}) -> {', '.join(proto.output)}"
        lines = [
            f"The ONNX graph differs from eager at FX node '{node.name}': {difference}",
            *describe_node(made_by, generated_tables().spec_files),
            f"  eager: {describe(to_numpy(expected))}",
            f"  ONNX: {describe(got)}",
            f"  computed by: {call}",
            *(f"    {name}: {describe(known[name])}" for name in proto.input if name),
            f"  {self.agreed} results before it agree with eager",
        ]
        return "\n".join(lines)


UNKNOWN: Any = object()


class Recorder(Interpreter):
    """Runs an FX graph and keeps the tensors that some nodes compute; those that follow from random
    numbers which only the converted graph knows how to use are unknown, unless they are given."""

    def __init__(
        self,
        graph_module: GraphModule,
        wanted: set[str],
        given: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(graph_module)
        self.wanted = wanted
        self.given = given or {}
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return [self.env[x] if isinstance(x, Node) else x for x in flatten_output(n.args[0])]
        if any(self.env.get(node) is UNKNOWN for node in n.all_input_nodes):
            return self.given.get(n.name, UNKNOWN)
        if writes_argument(n):  # at the end: views of the argument are kept as they were read
            return self.env[n.args[1]] if isinstance(n.args[1], Node) else n.args[1]
        value = self._of_drawn(n) if "drawn" in n.kwargs else super().run_node(n)
        if n.name in self.wanted and isinstance(value, torch.Tensor) and not leaves_memory(n):
            self.values[n.name] = value
        if isinstance(value, torch.Tensor) and value.is_complex() and not leaves_memory(n):
            for part in ("real", "imag"):
                if f"{n.name}.{part}" in self.wanted:
                    self.values[f"{n.name}.{part}"] = getattr(value.resolve_conj(), part)
        return value

    def _of_drawn(self, n: Node) -> Any:
        """The value of a random operator whose numbers torch drew outside of this graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is not torch.ops.aten.native_dropout.default:
            return self.given.get(n.name, UNKNOWN)
        x, p, mask = args[0], args[1], kwargs["drawn"].bool()
        return x * mask.to(x.dtype) * (1.0 / (1.0 - p)), mask


def leaves_memory(node: Node) -> bool:
    """Whether torch leaves the result uninitialised: it has no value to compare."""
    target = node.target
    return isinstance(target, OpOverload) and target.name() in traits.UNINITIALIZED
