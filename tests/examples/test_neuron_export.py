"""The Neuron of the page on the exporter has the graphs that the page prints."""

from __future__ import annotations

import pytest
import torch

from ortable import ExportOptions, pretty_onnx, to_onnx
from ortable.exporter.capture.workarounds import bypass_export_some_errors
from ortable.exporter.dispatchers.onnxscript_dispatcher import OxsDispatcher
from ortable.exporter.frontend.fake_weights import match_input_parameters
from ortable.testing.entries import run_onnx


class Neuron(torch.nn.Module):
    def __init__(self, n_dims: int, n_targets: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(n_dims, n_targets)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x))


class SubNeuron2(torch.nn.Module):
    def __init__(self, n_dims: int = 5, n_targets: int = 3) -> None:
        super().__init__()
        self.linear1 = torch.nn.Linear(n_dims, n_targets)
        self.linear2 = torch.nn.Linear(n_dims, n_targets)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z1 = self.linear1(x)
        z2 = self.linear2(x)
        return torch.sigmoid(z1) + torch.sigmoid(z2)


class Neuron2(torch.nn.Module):
    def __init__(self, n_dims: int = 5, n_targets: int = 3) -> None:
        super().__init__()
        self.neuron = SubNeuron2(n_dims, n_targets)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.neuron(x))


def assert_equal(model, inputs, module: torch.nn.Module, **tolerance: float) -> None:
    """Check that model and module give equal results; ``inputs`` are in the order of the model."""
    names = [value.name for value in model.graph.input]
    (actual,) = run_onnx(model, dict(zip(names, inputs, strict=True)))
    with torch.no_grad():
        expected = module(inputs[-1])
    torch.testing.assert_close(actual, expected, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})


def get_lines(model) -> list[str]:
    return [line.strip() for line in pretty_onnx(model).splitlines()]


def test_static_shapes() -> None:
    model, x = Neuron(3, 1), torch.rand(5, 3)
    onx = to_onnx(model, (x,), input_names=["x"])
    text = get_lines(onx)
    assert text[0] == "opset: domain='' version=18"
    assert "input: name='x' type=dtype('float32') shape=[5, 3]" in text
    assert "Gemm(x, linear.weight, linear.bias, transB=1) -> linear" in text
    assert "Sigmoid(linear) -> output_0" in text
    assert "output: name='output_0' type=dtype('float32') shape=[5, 1]" in text
    weights = [line for line in text if line.startswith("init: name='linear.")]
    assert len(weights) == 2
    assert_equal(onx, [x], model)


def test_weights_may_have_the_names_that_the_page_prints() -> None:
    options = ExportOptions(initializer_names="placeholders")
    onx = to_onnx(Neuron(3, 1), (torch.rand(5, 3),), export_options=options)
    assert "Gemm(x, p_linear_weight, p_linear_bias, transB=1) -> linear" in get_lines(onx)


def test_dynamic_shapes() -> None:
    model = Neuron(3, 1)
    onx = to_onnx(
        model,
        (torch.rand(5, 3),),
        input_names=["x"],
        dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
    )
    text = get_lines(onx)
    assert "input: name='x' type=dtype('float32') shape=['batch', 3]" in text
    assert "output: name='output_0' type=dtype('float32') shape=['batch', 1]" in text
    for rows in (1, 2, 7):
        x = torch.rand(rows, 3)
        assert_equal(onx, [x], model)


def test_a_converter_borrowed_from_onnxscript() -> None:

    class Celu(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.celu(self.linear(x))

    model, x = Celu(), torch.rand(5, 3)
    onx = to_onnx(model, (x,), input_names=["x"], dispatcher=OxsDispatcher(verbose=0))
    text = get_lines(onx)
    assert "Gemm(x, linear.weight, linear.bias, transB=1) -> linear" in text
    assert any(line.endswith("-> output_0") for line in text)
    assert_equal(onx, [x], model)


def test_submodules_as_local_functions() -> None:
    model = Neuron2()
    inputs = (torch.randn(1, 5),)
    onx = to_onnx(model, inputs, export_modules_as_functions=True, optimize=False, verbose=0)
    text = get_lines(onx)
    assert "opset: domain='aten_local_function' version=1" in text
    call_node = onx.graph.node[0]
    assert (call_node.domain, call_node.op_type) == ("aten_local_function", "SubNeuron2")
    assert (list(call_node.input), list(call_node.output)) == (["x"], ["neuron"])
    assert "Relu(neuron) -> relu" in text
    assert "Identity(relu) -> output_0" in text
    assert "----- function name=Linear domain=aten_local_function" in text
    assert "----- function name=SubNeuron2 domain=aten_local_function" in text
    body = next(function for function in onx.functions if function.name == "SubNeuron2")
    calls = [(list(n.input), list(n.output)) for n in body.node if n.op_type == "Linear"]
    assert calls == [
        (["x", "neuron.linear1.weight", "neuron.linear1.bias"], ["linear1"]),
        (["x", "neuron.linear2.weight", "neuron.linear2.bias"], ["linear2"]),
    ]
    assert_equal(onx, inputs, model)


def test_a_class_defined_in_a_function_keeps_its_qualified_name() -> None:
    class Local(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    model = torch.nn.Sequential(Local())
    onx = to_onnx(model, (torch.randn(2),), export_modules_as_functions=True)
    assert [function.name for function in onx.functions] == ["<locals>.Local"]


def test_a_graph_with_its_weights_as_inputs() -> None:
    model, x = Neuron(3, 1), torch.rand(5, 3)
    onx = to_onnx(torch.export.export(model, (x,)).graph_module)
    feeds = match_input_parameters(model, [value.name for value in onx.graph.input], (x,))
    assert list(feeds) == ["p_linear_weight", "p_linear_bias", "x"]
    assert_equal(onx, [*map(torch.as_tensor, feeds.values())], model)


def test_errors_of_torch_export_may_be_bypassed() -> None:
    model, x = Neuron(3, 1), torch.rand(5, 3)
    with bypass_export_some_errors():
        onx = to_onnx(model, (x,))
    assert_equal(onx, [x], model)


class Cast(torch.nn.Module):
    """A layer in an autocast region."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return y.float() + 1


def test_autocast_makes_a_local_function_that_inline_removes() -> None:
    model, x = Cast(), torch.rand(5, 3)
    options = ExportOptions(functions=("autocast",))
    onx = to_onnx(model, (x,), export_options=options)
    assert len(onx.functions) == 1
    inlined = to_onnx(model, (x,), export_options=options, inline=True)
    assert not inlined.functions
    for proto in (onx, inlined):
        assert any(n.op_type == "Cast" for n in (*proto.graph.node, *_function_nodes(proto)))
        assert_equal(proto, [x], model, rtol=1e-2)


def _function_nodes(model):
    return [node for function in model.functions for node in function.node]


@pytest.mark.parametrize("strict", [False, True])
def test_export_options_choose_the_mode_of_torch_export(strict: bool) -> None:
    model, x = Neuron(3, 1), torch.rand(5, 3)
    options = ExportOptions(strict=strict)
    onx, builder = to_onnx(model, (x,), export_options=options, return_builder=True)
    assert builder.record.strategy == f"torch.export, strict={strict}"
    assert_equal(onx, [x], model)
