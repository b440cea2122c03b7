"""metadata_props of a node: the FX node, the ATen target, the module path, the source line."""

from __future__ import annotations

import torch

from ortable.interpreter.diagnostics.origin import source_line
from tests.modules import Function

from .helpers import export, interpret


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3), Function(torch.relu))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.inner(x))


def test_each_onnx_node_says_where_it_comes_from() -> None:
    program = export(Outer(), torch.rand(2, 3))
    model = interpret(program.graph_module).builder.to_onnx()
    metadata = {
        node.op_type: {prop.key: prop.value for prop in node.metadata_props}
        for node in model.graph.node
    }
    gemm = metadata["Gemm"]
    assert gemm["fx_node"] == "linear"
    assert gemm["aten_target"] == "aten.linear.default"
    assert gemm["module_path"] == "inner.0"
    assert gemm["source"].startswith("test_provenance.py:")
    assert gemm["source"].endswith(": return torch.sigmoid(self.inner(x))")
    assert "module_path" not in metadata["Sigmoid"]


def test_the_innermost_line_outside_torch_is_the_users() -> None:
    program = export(Outer(), torch.rand(2, 3))
    node = next(n for n in program.graph.nodes if n.name == "linear")
    line = source_line(node)
    assert line is not None
    assert line.file == __file__
    assert line.code == "return torch.sigmoid(self.inner(x))"


def test_a_node_without_trace_has_no_source() -> None:
    graph = torch.fx.Graph()
    assert source_line(graph.placeholder("x")) is None
