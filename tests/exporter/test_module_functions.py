"""Export of submodules as local functions with `export_modules_as_functions`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator
from torch import nn

from ortable import pretty_onnx, to_onnx
from ortable.errors import ExportError, OptionError
from ortable.exporter.frontend.export_request import ExportOptions

from .helpers import assert_close, assert_same, eager, feeds_of, run_onnx

DOMAIN = "aten_local_function"
WEIGHTS = ["auto", "inputs", "constants"]
ROWS = ({0: torch.export.Dim("n")},)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)) + x


class Stack(nn.Module):
    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x * 2


class Part(nn.Module):
    """A submodule with a weight that calls ``function`` as its forward."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class Whole(nn.Module):
    def __init__(self, function: Any, **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def functions_of(model: Any) -> dict[str, Any]:
    return {function.name: function for function in model.functions}


def calls_of(nodes: Any) -> list[str]:
    return [node.op_type for node in nodes if node.domain == DOMAIN]


def make_documentation_example() -> nn.Module:
    class SubNeuron2(nn.Module):
        def __init__(self, n_dims: int = 5, n_targets: int = 3) -> None:
            super().__init__()
            self.linear1 = nn.Linear(n_dims, n_targets)
            self.linear2 = nn.Linear(n_dims, n_targets)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.linear1(x)) + torch.sigmoid(self.linear2(x))

    class Neuron2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.neuron = SubNeuron2()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.neuron(x))

    return Neuron2()


def test_the_example_of_the_page_prints_the_same_structure() -> None:
    model = make_documentation_example()
    x = torch.randn(1, 5)
    onnx_model = to_onnx(model, (x,), export_modules_as_functions=True, optimize=False, verbose=0)
    assert_same(onnx_model, model, (x,))
    nodes = [(n.op_type, list(n.input), list(n.output)) for n in onnx_model.graph.node]
    assert nodes == [
        ("<locals>.SubNeuron2", ["x"], ["neuron"]),
        ("Relu", ["neuron"], ["relu"]),
        ("Identity", ["relu"], ["output_0"]),
    ]
    linear, neuron = onnx_model.functions
    assert (linear.name, neuron.name) == ("Linear", "<locals>.SubNeuron2")
    assert list(linear.input) == ["x", "weight", "bias"]
    assert list(linear.output) == list(neuron.output) == ["output"]
    assert linear.node[-1].op_type == "Identity" and linear.node[-1].input == ["linear"]
    assert list(neuron.input) == ["x"]
    assert [(n.op_type, n.output[0]) for n in neuron.node if n.op_type != "Constant"] == [
        ("Linear", "linear1"),
        ("Sigmoid", "sigmoid"),
        ("Linear", "linear2"),
        ("Sigmoid", "sigmoid_1"),
        ("Add", "add"),
        ("Identity", "output"),
    ]
    assert {n.output[0] for n in neuron.node if n.op_type == "Constant"} == {
        f"neuron.{name}" for name in model.neuron.state_dict()
    }
    text = pretty_onnx(onnx_model)
    assert f"----- function name=Linear domain={DOMAIN}" in text
    assert f"----- function name=<locals>.SubNeuron2 domain={DOMAIN}" in text


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("dynamic", [None, ROWS])
def test_weights_are_inputs_or_constants(weights: str, dynamic: Any) -> None:
    module, x = Stack(), torch.randn(2, 4)
    options = ExportOptions(function_weights=weights)
    model = to_onnx(
        module,
        (x,),
        dynamic_shapes=dynamic,
        export_modules_as_functions=True,
        export_options=options,
    )
    onnx.checker.check_model(model, full_check=True)
    assert_same(model, module, (x,))
    functions = functions_of(model)
    calls = calls_of(model.graph.node)
    if weights == "inputs":
        assert calls == ["Layer"] * 3 and set(functions) == {"Layer", "Linear"}
        assert list(functions["Layer"].input) == ["x", "linear.weight", "linear.bias"]
        names = {initializer.name for initializer in model.graph.initializer}
        assert set(module.state_dict()) <= names
    else:
        assert calls == ["Layer", "Layer_1", "Layer_2"]
        assert len(functions["Layer"].input) == 1
        linears = {name for name in functions if name.startswith("Linear")}
        assert linears == ({"Linear"} if weights == "auto" else {"Linear", "Linear_1", "Linear_2"})


@pytest.mark.parametrize("dynamic", [None, ROWS])
@pytest.mark.parametrize("count", [2, 12])
def test_equal_layers_are_one_function(dynamic: Any, count: int) -> None:
    module, x = Stack(count), torch.randn(2, 4)
    model = to_onnx(
        module,
        (x,),
        dynamic_shapes=dynamic,
        export_modules_as_functions=True,
        export_options=ExportOptions(function_weights="inputs"),
    )
    assert calls_of(model.graph.node) == ["Layer"] * count
    outputs = [node.output[0] for node in model.graph.node if node.domain == DOMAIN]
    assert outputs == [f"layers_{index}" for index in range(count)]
    assert_same(model, module, (x,))


@pytest.mark.parametrize("classes", [{Layer}, {"Layer"}, [f"{Layer.__module__}.Layer"]])
def test_only_chosen_classes_become_functions(classes: Any) -> None:
    module, x = Stack(), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=classes)
    functions = functions_of(model)
    assert set(functions) == {"Layer", "Layer_1", "Layer_2"}
    assert {n.op_type for n in functions["Layer"].node} == {"Constant", "Gemm", "Tanh", "Add"}
    (gemm,) = [n for n in functions["Layer"].node if n.op_type == "Gemm"]
    assert {p.key: p.value for p in gemm.metadata_props}["module_path"] == "layers.0.linear"
    assert_same(model, module, (x,))


def test_chosen_classes_inside_others_become_functions() -> None:
    module, x = Stack(), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions={nn.Linear})
    assert set(functions_of(model)) == {"Linear"}
    op_types = [node.op_type for node in model.graph.node]
    assert op_types == ["Linear", "Tanh", "Add"] * 3 + ["Mul"]
    calls = [node for node in model.graph.node if node.op_type == "Linear"]
    assert [node.output[0] for node in calls] == [f"layers_{i}_linear" for i in range(3)]
    assert [list(node.input)[1:] for node in calls] == [
        [f"layers.{i}.linear.weight", f"layers.{i}.linear.bias"] for i in range(3)
    ]
    assert_same(model, module, (x,))


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        ({nn.Conv2d}, ExportError, r"calls no module of \['torch.nn.modules.conv.Conv2d'\]"),
        ("Linear", OptionError, "is True, False, or a set of classes"),
        ({3}, OptionError, "is True, False, or a set of classes"),
    ],
)
def test_wrong_choices_are_refused(classes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        to_onnx(Stack(), (torch.randn(2, 4),), export_modules_as_functions=classes)


def test_the_metadata_say_which_module_is_called() -> None:
    model = to_onnx(Stack(), (torch.randn(2, 4),), export_modules_as_functions=True)
    call = model.graph.node[1]
    call_metadata = {entry.key: entry.value for entry in call.metadata_props}
    assert call_metadata["module_path"] == "layers.1"
    assert call_metadata["module_type"].endswith("test_module_functions.Layer")
    function = functions_of(model)["Layer"]
    function_metadata = {entry.key: entry.value for entry in function.metadata_props}
    assert function_metadata["module_path"] == "layers.0" and "layers.0" in function.doc_string
    # names are relative to the module
    assert {node.name for node in function.node} >= {"tanh", "add"}


def test_a_graph_of_aten_operators_has_functions_too_and_a_bare_one_is_refused() -> None:
    module, x = Stack(), torch.randn(2, 4)
    program = torch.export.export(module, (x,))
    model = to_onnx(program.module(), export_modules_as_functions=True)
    assert len(calls_of(model.graph.node)) == 3
    assert_same(model, module, (x,))
    for node in program.graph.nodes:
        node.meta.pop("nn_module_stack", None)
    with pytest.raises(ExportError, match="needs the submodules of a graph"):
        to_onnx(program.graph_module, export_modules_as_functions=True)


def test_inline_leaves_no_function_and_the_names_of_the_plain_model() -> None:
    module, x = Stack(), torch.randn(2, 4)
    program = torch.export.export(module, (x,))
    model = to_onnx(program, export_modules_as_functions=True, inline=True)
    plain = to_onnx(program)
    assert not model.functions and len(model.opset_import) == 1
    assert [n.name for n in model.graph.node] == [n.name for n in plain.graph.node]
    assert len({n.name for n in model.graph.node}) == len(model.graph.node)
    paths = [
        {p.key: p.value for p in n.metadata_props}["module_path"] for n in model.graph.node[:4]
    ]
    assert paths == ["layers.0.linear", "layers.0", "layers.0", "layers.1.linear"]
    assert_same(model, module, (x,))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_large_models_keep_weights_outside(weights: str, tmp_path: Any) -> None:
    module, x = Stack(), torch.randn(2, 4)
    path = tmp_path / "model.onnx"
    large = to_onnx(
        module,
        (x,),
        export_modules_as_functions=True,
        large_model=True,
        external_threshold=32,
        filename=path,
        export_options=ExportOptions(function_weights=weights),
    )
    assert set(large.tensors) == {f"layers.{i}.linear.weight" for i in range(3)}
    assert_close(run_onnx(path, {"x": x.numpy()}), eager(module, (x,)))
    inlined = to_onnx(
        module,
        (x,),
        export_modules_as_functions=True,
        large_model=True,
        inline=True,
        external_threshold=32,
    )
    assert not inlined.proto.functions and len(inlined.tensors) == 3
    assert_close(run_onnx(inlined.to_proto(), {"x": x.numpy()}), eager(module, (x,)))


def test_classes_of_one_name_are_numbered() -> None:
    def make_scale_class(factor: int) -> type[nn.Module]:
        class Scale(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x * factor

        Scale.__qualname__ = "Scale"
        return Scale

    first, second = make_scale_class(2), make_scale_class(3)
    module = Whole(lambda m, x: m.c(m.b(m.a(x))), a=first(), b=second(), c=first())
    x = torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True)
    assert calls_of(model.graph.node) == ["Scale", "Scale_1", "Scale"]
    assert_same(model, module, (x,))


def test_a_class_called_like_an_operator_gets_another_name() -> None:
    class Sub(nn.Module):  # ONNX Runtime crashes on a local function of this name
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    Sub.__qualname__ = "Sub"
    module = Whole(lambda m, x: m.sub(x), sub=Sub())
    model = to_onnx(module, (torch.randn(2),), export_modules_as_functions=True)
    assert set(functions_of(model)) == {"Sub_module"}
    assert_same(model, module, (torch.randn(2),))


def test_functions_are_optimised_inside() -> None:
    def forward(part: Any, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros_like(unused)  # reads only the size
        y = nn.functional.dropout(part.linear(x), training=False)
        return y.contiguous() + zeros.sum() * (torch.ones(4) + 1)

    module = Whole(lambda m, x, y: (m.part(x, y), m.gone(x))[0], part=Part(forward), gone=Layer())
    x, y = torch.randn(2, 4), torch.randn(3)
    options = ExportOptions(constant_folding=True)
    model = to_onnx(module, (x, y), export_modules_as_functions=True, export_options=options)
    functions = functions_of(model)
    assert set(functions) == {"Linear", "Part"}  # no node calls Layer
    assert len(functions["Part"].input) == 1
    op_types = [node.op_type for node in functions["Part"].node]
    assert "Identity" not in op_types and op_types.count("Linear") == 1
    assert_same(model, module, (x, y))


def test_modules_that_return_their_input_are_not_called() -> None:
    module = nn.Sequential(nn.Identity(), Layer(), nn.Dropout(0.5)).eval()
    x = torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True)
    assert set(functions_of(model)) == {"Layer", "Linear"}
    assert_same(model, module, (x,))


def test_the_reference_evaluator_runs_them() -> None:
    module, x = Stack(), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True)
    (result,) = ReferenceEvaluator(model).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", [None, "onnxruntime"])
@pytest.mark.parametrize("opset", [18, 20, 23, {"": 21, "com.microsoft": 1}])
def test_other_opsets_and_targets(opset: Any, target: Any) -> None:
    module, x = Stack(2), torch.randn(2, 4)
    model = to_onnx(
        module, (x,), export_modules_as_functions=True, target_opset=opset, target=target
    )
    onnx.checker.check_model(model, full_check=True)
    assert_same(model, module, (x,))


def test_a_users_converter_works_inside_a_function() -> None:
    def tanh(graph: Any, res: Any, x: str) -> str:
        return graph.make_node("Tanh", [x], [res.name], name="mine")

    module, x = Stack(2), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True, dispatcher={"aten::tanh": tanh})
    assert "mine" in {node.name for node in functions_of(model)["Layer"].node}
    assert_same(model, module, (x,))


def test_the_inlined_model_is_equal_too() -> None:
    module, x = Stack(2), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True)
    inlined = inline_local_functions(model)
    assert not inlined.functions
    assert_close(run_onnx(inlined, feeds_of(model, (x,))), eager(module, (x,)))
