"""Inputs of to_onnx: modules, exported programs, and graph modules of ATen or torch functions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch.export import Dim

from ortable import match_input_parameters, to_onnx
from ortable.errors import ConversionError, ExportError, FunctionNotFoundError
from tests.modules import Neuron
from tests.onnx_runs import run

from ..interpreter.small_tables import CONVERTERS


def export(module, args=(), **kwargs):
    return to_onnx(module, args, dispatcher=CONVERTERS, **kwargs)


def steps(model: onnx.ModelProto) -> str:
    return next((p.value for p in model.metadata_props if p.key == "ortable.steps"), "")


def test_a_module_and_its_exported_program_give_the_same_model() -> None:
    module, x = Neuron(), torch.rand(5, 3)
    from_module = export(module, (x,), validate=True)
    from_program = export(torch.export.export(module, (x,)), validate=True)
    assert from_module.SerializeToString() == from_program.SerializeToString()
    assert steps(from_module) == ""


def test_initializers_carry_their_name_in_the_state_dict() -> None:
    model = export(Neuron(), (torch.rand(5, 3),))
    assert {i.name: i.doc_string for i in model.graph.initializer} == {
        "linear.weight": "linear.weight",
        "linear.bias": "linear.bias",
    }
    assert model.producer_name == "ortable"
    assert {"ortable.version", "torch.version"} <= {p.key for p in model.metadata_props}


def test_the_graph_of_an_exported_program_has_its_weights_as_inputs() -> None:
    module, x = Neuron(), torch.rand(5, 3)
    graph_module = torch.export.export(module, (x,)).graph_module
    model = export(graph_module)
    names = [v.name for v in model.graph.input]
    feeds = match_input_parameters(module, names, (x,))
    (result,) = run(model, *feeds.values())
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-5)


def test_an_unlifted_program_keeps_its_weights() -> None:
    module, x = Neuron(), torch.rand(5, 3)
    unlifted = torch.export.export(module, (x,)).module()
    model = export(unlifted)
    assert {i.name for i in model.graph.initializer} == {"linear.weight", "linear.bias"}
    (result,) = run(model, x)
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-5)


def test_a_graph_of_torch_functions_is_exported_again_and_the_model_says_so() -> None:
    module, x = Neuron(), torch.rand(5, 3)
    model = export(torch.fx.symbolic_trace(module), (x,), validate=True)
    assert steps(model).startswith("exported again by torch.export, because ")


def test_a_graph_of_torch_functions_without_arguments_goes_through_the_tables() -> None:
    class UnsupportedFunction(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.cond(x)

    traced = torch.fx.symbolic_trace(UnsupportedFunction())
    with pytest.raises(FunctionNotFoundError, match=r"torch\.linalg\.cond, 1 call"):
        export(traced)


def test_tied_weights_are_one_initializer() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(3, 3, bias=False)
            self.b = torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    module = Tied()
    model = export(module, (torch.rand(2, 3),), validate=True)
    assert len(model.graph.initializer) == 1
    unlifted = torch.export.export(module, (torch.rand(2, 3),)).module()
    assert len(export(unlifted).graph.initializer) == 1


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen.count".replace(".", "_"), torch.zeros(3))
        self.scale = torch.nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen_count.add_(1)
        x.add_(self.scale)
        return x * self.seen_count


def test_what_the_model_changes_in_place_is_returned_after_the_users_outputs() -> None:
    module, x = Counter(), torch.rand(3)
    model = export(module, (x.clone(),), validate=True)
    assert [o.name for o in model.graph.output] == ["output_0", "seen_count", "x_mutated"]
    assert steps(model).startswith("functionalised: node 'add_' writes to its argument")
    assert module.seen_count.tolist() == [0, 0, 0]
    results = run(model, x)
    expected = module(x)
    np.testing.assert_allclose(results[0], expected.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(results[1], module.seen_count.numpy())
    np.testing.assert_allclose(results[2], x.detach().numpy(), rtol=1e-6)


def test_the_values_changed_in_place_may_be_named_too() -> None:
    for names in (["y"], ["y", "count", "new_x"]):
        model = export(Counter(), (torch.rand(3),), output_names=names)
        assert [o.name for o in model.graph.output][: len(names)] == names


def test_a_graph_module_that_writes_needs_arguments() -> None:
    unlifted = torch.export.export(Counter(), (torch.rand(3),)).module()
    with pytest.raises(ExportError, match=r"writes to its argument.*Give example inputs"):
        export(unlifted)
    model = export(unlifted, (torch.rand(3),))
    assert [o.name for o in model.graph.output] == ["output_0", "seen_count", "x_mutated"]


def test_constants_of_the_code_are_initializers_without_functionalisation() -> None:
    class Constant(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.tensor([1.0, 2.0, 3.0])

    model = export(Constant(), (torch.rand(3),), validate=True)
    assert steps(model) == ""
    assert len(model.graph.initializer) == 1


def test_weights_without_data_are_inputs() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake, x = Neuron(), torch.rand(5, 3)
        model = export(fake, (x,))
    assert [v.name for v in model.graph.input] == ["x", "linear.weight", "linear.bias"]
    assert "2 weights have no data: they are inputs of the model" in steps(model)


def test_autocast_regions_are_written_out() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return torch.relu(x)

    model = export(Mixed(), (torch.rand(3),))
    assert "wrap_with_autocast" in steps(model)


def test_operators_named_for_decomposition_are_decomposed_when_they_lack_a_converter() -> None:
    from dataclasses import replace

    from ortable.exporter.capture.functionalize import prepare_program
    from ortable.exporter.frontend.export_request import ExportOptions

    from ..interpreter.small_tables import TABLES

    class HardSwish(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.hardswish(x)

    program = torch.export.export(HardSwish(), (torch.rand(3),))
    tables = replace(TABLES, decompose=("aten::hardswish",))
    rewritten, notes = prepare_program(program, tables, None, ExportOptions())
    assert notes == ["decomposed: aten::hardswish"]
    assert "hardswish" not in str(rewritten.graph)
    unchanged, notes = prepare_program(program, TABLES, None, ExportOptions())
    assert unchanged is program and notes == []


def test_a_decomposition_table_of_the_user_is_applied() -> None:
    from ortable.exporter.frontend.export_request import ExportOptions

    def relu(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(x)

    options = ExportOptions(decomposition_table={torch.ops.aten.relu.default: relu})

    class Relu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    model = export(Relu(), (torch.rand(3),), export_options=options)
    assert [n.op_type for n in model.graph.node] == ["Sin", "Cos", "Add"]
    assert "the user's" in steps(model)


def test_strict_export_is_an_option() -> None:
    from ortable.exporter.frontend.export_request import ExportOptions

    model = export(
        Neuron(), (torch.rand(5, 3),), export_options=ExportOptions(strict=True), validate=True
    )
    assert [v.name for v in model.graph.input] == ["x"]


def test_an_integer_marked_as_dynamic_is_an_input() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> tuple:
            return x * n, n + 1

    model = export(
        Scale(), (torch.rand(3), 4), dynamic_shapes={"x": None, "n": Dim.DYNAMIC}, validate=True
    )
    assert [v.name for v in model.graph.input] == ["x", "n"]
    static = export(Scale(), (torch.rand(3), 4), validate=True)
    assert [v.name for v in static.graph.input] == ["x"]


def test_code_that_torch_cannot_trace_is_an_export_error_with_the_cause() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(ExportError, match=r"torch\.export could not trace Branch") as raised:
        export(Branch(), (torch.rand(3),))
    assert raised.value.__cause__ is not None


def test_a_result_that_differs_from_torchs_is_not_written(tmp_path) -> None:
    def convert_wrongly(graph, res, self):
        return graph.make_node("Sin", [self], res.outputs)

    path = tmp_path / "model.onnx"
    with pytest.raises(
        ExportError, match=r"validation failed.*\n.*\n.*output_0 .*over the tolerance"
    ):
        to_onnx(
            torch.nn.ReLU(),
            (torch.randn(5),),
            dispatcher={"aten::relu": convert_wrongly},
            validate=True,
            filename=path,
        )
    assert not path.exists()
    assert issubclass(ExportError, RuntimeError) and issubclass(ConversionError, RuntimeError)


class StrictOnly(torch.nn.Module):
    """A module that only the strict mode of torch.export can trace."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("only dynamo can export this")
        return torch.relu(x)


def test_the_other_mode_of_torch_export_is_tried_unless_one_was_asked_for() -> None:
    from ortable.exporter.capture.workarounds import bypass_export_some_errors
    from ortable.exporter.frontend.export_request import ExportOptions

    x = torch.rand(3)
    with pytest.raises(ExportError, match="only dynamo can export this"):
        export(StrictOnly(), (x,), export_options=ExportOptions(strict=False))
    step = "exported with torch.export, strict=True, because torch.export, strict=False failed"
    for options in (ExportOptions(), ExportOptions(fallback=True)):
        assert step in steps(export(StrictOnly(), (x,), export_options=options))
    with bypass_export_some_errors():
        assert step in steps(export(StrictOnly(), (x,)))


# -- operators without a converter that have a decomposition


class Trapezoid(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.trapezoid(x, dx=0.5, dim=-1)


CASES = [
    (Trapezoid(), (3, 6)),
]


@pytest.mark.parametrize(("module", "shape"), CASES)
def test_a_decomposed_operator_equals_eager(
    module: torch.nn.Module, shape: tuple[int, ...]
) -> None:
    x = torch.randn(*shape)
    proto = to_onnx(module, (x,), input_names=["x"])
    torch.testing.assert_close(run(proto, x), [module(x)], atol=1e-5, rtol=1e-5)
    steps = {entry.key: entry.value for entry in proto.metadata_props}["ortable.steps"]
    assert "decomposed: aten::" in steps
