"""After a training step, storage={} has one record per graph with documented names and roles."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from ortable import get_decomposition_table, onnx_custom_backend, pretty_onnx
from ortable.backend.roles import InputRoleKind, OutputRoleKind

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def train_step(dynamic, batch=5, backend=None):
    storage = {}
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    if backend is None:
        backend = aot_autograd(
            fw_compiler=lambda *args, **kwargs: onnx_custom_backend(
                *args, target_opset=18, storage=storage, **kwargs
            ),
            decompositions=get_decomposition_table(),
        )
    else:
        backend = backend(storage)
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    compiled(torch.randn(batch, 10)).sum().backward()
    return storage["instance"]


def node_types(record):
    """Return the operators in order, without Transpose, which Gemm may replace by an attribute."""
    types = [node.op_type for node in record["onnx"].graph.node]
    return [op_type for op_type in types if op_type != "Transpose"]


def test_records_of_a_static_step():
    forward, backward = train_step(dynamic=False)
    assert set(forward) >= {
        "onnx",
        "providers",
        "graph_module",
        "inputs",
        "outputs",
        "timings",
        "kind",
    }
    assert (forward["kind"], backward["kind"]) == ("forward", "backward")
    assert forward["providers"] == ["CPUExecutionProvider"]
    assert forward["onnx"].opset_import[0].version == 18
    assert isinstance(forward["graph_module"], torch.fx.GraphModule)
    phases = {"key", "load", "convert", "optimize", "to_onnx", "session"}
    assert set(forward["timings"]) == phases


def test_forward_graph_is_gemm_relu_gemm():
    forward, _ = train_step(dynamic=False)
    assert node_types(forward) == ["Gemm", "Relu", "Gemm"]
    text = pretty_onnx(forward["onnx"])
    for line in (
        "input: name='input0' type=dtype('float32') shape=[32, 10]",
        "input: name='input1' type=dtype('float32') shape=[32]",
        "output: name='output_0' type=dtype('float32') shape=[5, 1]",
    ):
        assert line in text.splitlines()
    gemm = next(n for n in forward["onnx"].graph.node if n.op_type == "Gemm")
    assert (gemm.input[0], gemm.input[2]) == ("input2", "input1")


def test_roles_of_a_static_step():
    forward, backward = train_step(dynamic=False)
    assert all(role.kind is InputRoleKind.TENSOR for role in forward["inputs"])
    assert [role.name for role in forward["inputs"]] == [f"input{i}" for i in range(5)]
    kinds = {role.kind for role in forward["outputs"]}
    # the saved input is returned unchanged, the saved weight as a view
    assert OutputRoleKind.TENSOR in kinds and OutputRoleKind.INPUT in kinds
    none = [role for role in backward["outputs"] if role.kind is OutputRoleKind.NONE]
    assert [role.name for role in none] == ["output_NONE_2"]
    names = {value.name for value in backward["onnx"].graph.output}
    assert not any("NONE" in name for name in names)


def test_dimensions_under_dynamic_shapes():
    forward, backward = train_step(dynamic=True)
    dimensions = [role for role in forward["inputs"] if role.kind is InputRoleKind.DIMENSION]
    assert [role.name for role in dimensions] == ["input_dim_2"]
    assert "input_dim_2" in [value.name for value in forward["onnx"].graph.input]
    returned = [role.name for role in forward["outputs"] if "dim" in role.name]
    assert len(returned) == 1
    text = pretty_onnx(forward["onnx"])
    symbol = str(dimensions[0].value)
    assert f"input: name='input3' type=dtype('float32') shape=['{symbol}', 10]" in text
    assert f"output: name='output_0' type=dtype('float32') shape=['{symbol}', 1]" in text
    assert sum(role.kind is OutputRoleKind.NONE for role in backward["outputs"]) == 2


def test_own_wiring_keeps_weights_out_of_the_saved_values():
    def backend(storage):
        return lambda gm, args: onnx_custom_backend(gm, args, storage=storage)

    forward, _ = train_step(dynamic=False, backend=backend)
    assert node_types(forward) == ["Gemm", "Relu", "Gemm"]
    computed = [role for role in forward["outputs"] if role.kind is OutputRoleKind.TENSOR]
    assert len(computed) == 2  # the prediction and the activation
