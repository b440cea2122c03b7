"""The interpreter converts complete graphs: names, weights, outputs of every kind, records."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ortable import dims
from ortable.builder import GraphBuilder
from ortable.errors import ConversionError, FunctionNotFoundError, UnsupportedCase
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.interpreter.mutation import elidable_mutations
from tests.modules import Function, Neuron

from .helpers import export, interpret, run
from .small_tables import TABLES


def test_results_have_the_names_of_fx_nodes_and_outputs_are_numbered() -> None:
    program = export(Neuron(), torch.rand(5, 3))
    weights = {"p_linear_weight": "linear.weight", "p_linear_bias": "linear.bias"}
    interpreter = interpret(
        program.graph_module,
        retriever=lambda node: program.state_dict.get(weights.get(node.name, "")),
    )
    model = interpreter.builder.to_onnx()
    assert [n.op_type for n in model.graph.node] == ["Gemm", "Sigmoid"]
    assert list(model.graph.node[0].input) == ["x", "p_linear_weight", "p_linear_bias"]
    assert [list(n.output) for n in model.graph.node] == [["linear"], ["output_0"]]
    assert [r.role for r in interpreter.inputs] == ["initializer", "initializer", "tensor"]


def test_a_placeholder_without_a_tensor_is_an_input() -> None:
    program = export(Neuron(), torch.rand(5, 3))
    interpreter = interpret(program.graph_module)
    names = [info.name for info in interpreter.builder.inputs]
    assert names == ["p_linear_weight", "p_linear_bias", "x"]


def test_get_attr_shares_the_memory_of_the_parameter_and_keeps_its_dotted_name() -> None:
    model = Neuron()
    graph_module = export(model, torch.rand(5, 3)).module()
    builder = interpret(graph_module).builder
    assert list(builder.initializers_dict) == ["linear.weight", "linear.bias"]
    weight = builder.initializers_dict["linear.weight"]
    assert weight.data_ptr() == model.linear.weight.data_ptr()


def test_every_kind_of_output_is_an_onnx_output_but_none() -> None:
    def forward(x: torch.Tensor) -> tuple:
        y = torch.relu(x)
        return y, None, 3, 2.5, True, x, y, x.shape[0] * 2

    rows = torch.export.Dim("rows")
    program = export(Function(forward), torch.randn(5, 3), dynamic_shapes=(({0: rows},),))
    interpreter = interpret(program.graph_module)
    roles = [record.role for record in interpreter.outputs]
    assert roles == [
        "tensor",
        "none",
        "constant",
        "constant",
        "constant",
        "input",
        "duplicate",
        "dimension",
    ]
    names = [record.name for record in interpreter.outputs]
    assert names == [
        "output_0",
        None,
        "output_2",
        "output_3",
        "output_4",
        "output_5",
        "output_6",
        "output_7",
    ]
    x = torch.randn(4, 3)
    outputs = run(interpreter, x)
    assert [value.dtype.name for value in outputs] == [
        "float32",
        "int64",
        "float64",
        "bool",
        "float32",
        "float32",
        "int64",
    ]
    np.testing.assert_array_equal(outputs[5], torch.relu(x).numpy())
    np.testing.assert_array_equal(outputs[4], x.numpy())
    assert outputs[6] == 8 and outputs[6].shape == ()


def test_bypassed_outputs_leave_only_new_tensors_in_the_graph() -> None:
    def forward(x: torch.Tensor) -> tuple:
        y = torch.relu(x)
        return x, y, 3, y, None

    interpreter = interpret(
        export(Function(forward), torch.rand(2)).graph_module, bypass_outputs=True
    )
    assert [info.name for info in interpreter.builder.outputs] == ["output_1"]
    records = interpreter.outputs
    assert [r.role for r in records] == ["input", "tensor", "constant", "duplicate", "none"]
    assert records[0].source == interpreter.inputs[0].name
    assert records[2].value == 3
    assert records[3].source == records[1].source


def test_a_name_chosen_for_an_output_is_not_taken_by_an_intermediate_result() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.relu(x))

    program = export(Function(forward), torch.rand(2))
    interpreter = interpret(program.graph_module, output_names=["relu"])
    model = interpreter.builder.to_onnx()
    assert [o.name for o in model.graph.output] == ["relu"]
    assert model.graph.node[-1].op_type == "Sigmoid"


def test_the_number_of_output_names_is_checked() -> None:
    program = export(Function(torch.relu), torch.rand(2))
    with pytest.raises(ConversionError, match="2 output names are given for 1 outputs"):
        interpret(program.graph_module, output_names=["a", "b"])


def test_only_the_result_that_is_read_is_asked_for_by_the_name_of_its_node() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.split.Tensor(x, 2)[1]

    program = export(Function(forward), torch.rand(6))
    interpreter = interpret(program.graph_module)
    split = next(node for node in interpreter.builder.nodes if node.op_type == "Split")
    # outputs of Split are not optional, so the unread ones have automatic names
    assert ["." in name for name in split.outputs] == [True, False, True]
    x = torch.rand(6)
    (output,) = run(interpreter, x)
    assert output.tolist() == x[2:4].tolist()


def test_an_input_of_the_user_that_is_an_integer_is_a_dimension() -> None:
    def forward(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    program = export(
        Function(forward), torch.rand(3), 4, dynamic_shapes=((None, torch.export.Dim.DYNAMIC),)
    )
    interpreter = interpret(program.graph_module)
    record = interpreter.inputs[1]
    assert record.role == "dimension" and isinstance(record.value, dims.SymDim)
    (output,) = run(interpreter, torch.ones(3), np.array([7]))
    assert output.tolist() == [7, 7, 7]


def test_an_input_without_metadata_is_refused_by_name() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.relu.default, (x,)))
    with pytest.raises(ConversionError, match=r"input 'x' .* its type and shape are unknown"):
        interpret(torch.fx.GraphModule({}, graph))


def test_torch_functions_and_methods_go_through_the_alias_tables() -> None:
    class LinearReLU(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.act = torch.nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return operator.add(self.act(self.linear(x)), x).sigmoid()

    model = LinearReLU()
    traced = torch.fx.symbolic_trace(model)
    x = torch.randn(2, 3)
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            node.meta["val"] = x
    interpreter = interpret(traced)
    builder = interpreter.builder
    assert list(builder.initializers_dict) == ["linear.weight", "linear.bias"]
    (output,) = run(interpreter, x)
    np.testing.assert_allclose(output, model(x).detach().numpy(), rtol=1e-5)


def test_getitem_on_a_tensor_follows_python_indexing() -> None:
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    x = torch.rand(4, 3)
    node.meta["val"] = x
    graph.output(graph.call_function(operator.getitem, (node, (slice(1, None, 2), None, -1))))
    interpreter = interpret(torch.fx.GraphModule({}, graph))
    (output,) = run(interpreter, x)
    assert output.tolist() == x[1::2, None, -1].tolist()


def test_a_submodule_that_is_called_twice_is_converted_twice_with_one_copy_of_its_weights() -> None:
    class SharedLinear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.linear(x))

    model = SharedLinear()
    traced = torch.fx.symbolic_trace(model)
    x = torch.randn(2, 3)
    next(iter(traced.graph.nodes)).meta["val"] = x
    interpreter = interpret(traced)
    assert len(interpreter.builder.initializers_dict) == 2
    (output,) = run(interpreter, x)
    np.testing.assert_allclose(output, model(x).detach().numpy(), rtol=1e-5)


def test_converters_given_by_the_caller_come_before_the_tables() -> None:
    def double(graph, res, self):
        return graph.make_node("Add", [self, self], res.outputs)

    program = export(Function(torch.relu), torch.rand(2))
    interpreter = DynamoInterpreter(
        GraphBuilder(18), tables=TABLES, converters={"aten::relu": double}
    )
    interpreter.run(program.graph_module)
    assert run(interpreter, torch.full((2,), 3.0))[0].tolist() == [6, 6]


def test_a_converter_may_return_its_input() -> None:
    program = export(Function(lambda x: torch.relu(x.detach())), torch.rand(2))
    interpreter = interpret(program.graph_module)
    model = interpreter.builder.to_onnx()
    assert [node.op_type for node in model.graph.node] == ["Relu"]


def test_a_later_write_to_the_tensor_changes_earlier_results_of_writes() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        relu = torch.ops.aten.relu.default(x)
        added = torch.ops.aten.add_.Tensor(relu, 1)
        torch.ops.aten.mul_.Tensor(relu, 2)  # `added` is the same tensor
        return torch.ops.aten.relu.default(added)

    graph_module = torch.fx.symbolic_trace(forward)
    for node in graph_module.graph.nodes:
        node.meta["val"] = torch.empty(2)
    assert len(elidable_mutations(graph_module, TABLES.converters.__contains__)) == 2
    assert run(interpret(graph_module), torch.ones(2))[0].tolist() == [4, 4]


def test_regions_without_grad_are_converted_in_place() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = torch.relu(x)
        return y + x

    program = export(Function(forward), torch.rand(2))
    assert any("wrap_with_set_grad" in str(n.target) for n in program.graph.nodes)
    model = interpret(program.graph_module).builder.to_onnx()
    assert [node.op_type for node in model.graph.node] == ["Relu", "Add"]


def test_a_region_of_autocast_whose_casts_are_not_written_is_refused() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.relu(x)
        return y

    program = export(Function(forward), torch.rand(2, 2))
    message = r"autocast casts operands .*; `run_decompositions\(\{\}\)` of the exported program"
    with pytest.raises(UnsupportedCase, match=message):
        interpret(program.graph_module)


def test_sizes_of_a_graph_without_metadata_come_from_the_builder() -> None:
    class ReturnSizes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple:
            y = torch.relu(x)
            return y, y.shape[0], y.size(1) + 1, y.dim(), y.ndim, y.numel()

    traced = torch.fx.symbolic_trace(ReturnSizes())
    next(iter(traced.graph.nodes)).meta["val"] = torch.rand(2, 3)
    interpreter = interpret(traced)
    assert [record.value for record in interpreter.outputs[1:]] == [2, 4, 2, 2, 6]
    assert [node.op_type for node in interpreter.builder.nodes].count("Shape") == 0


def test_a_random_torch_function_is_not_run_at_conversion() -> None:
    class AddRandom(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(3)

    traced = torch.fx.symbolic_trace(AddRandom())
    assert [node.op for node in traced.graph.nodes].count("get_attr") == 1  # fx itself drew
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.rand, (3,)))
    with pytest.raises(FunctionNotFoundError, match=r"torch\.rand, 1 call"):
        interpret(torch.fx.GraphModule({}, graph))


def test_torch_chooses_the_overload_of_an_operator_without_one() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.rand(2)
    graph.output(graph.call_function(torch.ops.aten.add, (x, x)))
    interpreter = interpret(torch.fx.GraphModule({}, graph))
    assert run(interpreter, torch.full((2,), 3.0))[0].tolist() == [6, 6]


def test_writes_are_judged_once_for_each_graph(monkeypatch) -> None:
    """The checks and the conversion share one analysis of the writes of a graph."""
    analyzed: list[Any] = []

    def record_graph(graph_module: Any, has_converter: Any) -> Any:
        analyzed.append(graph_module)
        return elidable_mutations(graph_module, has_converter)

    monkeypatch.setattr("ortable.interpreter.interpreter.elidable_mutations", record_graph)
    monkeypatch.setattr("ortable.interpreter.mutation.elidable_mutations", record_graph)

    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: (x + 1).relu_(), torch.cos, (x,))

    program = torch.export.export(Branches(), (torch.rand(2),))
    DynamoInterpreter(GraphBuilder(18), module=program.graph_module).run(program.graph_module)
    assert len(analyzed) == len(set(map(id, analyzed))) == 3


@pytest.mark.parametrize(
    "function",
    [lambda x: x.sort(1)[0], lambda x: torch.max(x, 1).values, lambda x: x.topk(2, 1)[1]],
)
def test_several_results_without_elements_are_taken_apart_in_a_graph_of_dynamo(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    shapes: list[Any] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        interpreter = DynamoInterpreter(GraphBuilder(18))
        interpreter.run(module)
        graph = interpreter.graph
        shapes.extend(graph.get_shape(output.name) for output in graph.outputs)
        return module.forward

    x = torch.zeros(0, 3)
    expected = torch.compile(function, backend=backend, dynamic=False)(x)
    assert shapes == [tuple(expected.shape)]
