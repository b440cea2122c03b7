"""Submodules as local functions, large models, model files, and the returned builder."""

from __future__ import annotations

import os

import onnx
import pytest
import torch

from ortable.builder import GraphBuilder
from ortable.errors import ExportError
from ortable.exporter.to_onnx import to_onnx
from tests.modules import Neuron

from ..interpreter.small_tables import CONVERTERS
from .test_programs import Counter


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.second(self.first(x)))


class Three(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Two(), Two()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.a(x) + self.b(x))


def export(module, args=(), **kwargs):
    return to_onnx(module, args, dispatcher=CONVERTERS, **kwargs)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "rows"}}])
@pytest.mark.parametrize("optimize", [True, False])
def test_each_submodule_is_a_function_and_equal_ones_are_one(dynamic, optimize) -> None:
    model = export(
        Three(),
        (torch.rand(2, 3),),
        export_modules_as_functions=True,
        dynamic_shapes=dynamic,
        optimize=optimize,
        validate=True,
    )
    functions = {f.name: f for f in model.functions}
    assert set(functions) == {"Linear", "Two", "Two_1"}
    assert all(f.domain == "aten_local_function" for f in functions.values())
    assert list(functions["Linear"].input) == ["x", "weight", "bias"]
    calls = [n.op_type for n in functions["Two"].node if n.domain == "aten_local_function"]
    assert calls == ["Linear", "Linear"]
    assert list(functions["Two"].input) == ["x"]
    onnx.checker.check_model(model)


def test_functions_can_be_inlined() -> None:
    model = export(
        Three(),
        (torch.rand(2, 3),),
        export_modules_as_functions=True,
        inline=True,
        validate=True,
    )
    assert not model.functions
    assert {n.domain for n in model.graph.node} == {""}


def test_what_the_model_changes_in_place_is_returned() -> None:
    model = export(
        torch.nn.Sequential(Counter()), (torch.rand(3),), export_modules_as_functions=True
    )
    (function,) = model.functions
    assert function.name == "Counter" and len(function.output) == 3
    names = [output.name for output in model.graph.output]
    assert names == ["output_0", "0.seen_count", "input_mutated"]


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    model = export(Neuron(), (torch.rand(5, 3),), filename=path)
    assert onnx.load(path).SerializeToString() == model.SerializeToString()
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_a_missing_folder_is_named(tmp_path) -> None:
    with pytest.raises(ExportError, match=r"folder '.*nowhere' of the ONNX file"):
        export(Neuron(), (torch.rand(5, 3),), filename=tmp_path / "nowhere" / "model.onnx")


def test_a_large_model_leaves_its_weights_in_torch_until_it_is_saved(tmp_path) -> None:
    module = Neuron()
    path = tmp_path / "model.onnx"
    large = export(
        module,
        (torch.rand(5, 3),),
        large_model=True,
        external_threshold=4,
        filename=path,
        validate=True,
    )
    assert len(large.proto.SerializeToString()) < 2000
    loaded = onnx.load(path)
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in loaded.graph.initializer}
    assert (weights["linear.weight"] == module.linear.weight.detach().numpy()).all()


def test_without_optimization_the_output_is_an_identity() -> None:
    model, builder = export(Neuron(), (torch.rand(5, 3),), optimize=False, return_builder=True)
    assert [n.op_type for n in model.graph.node] == ["Gemm", "Sigmoid", "Identity"]
    assert isinstance(builder, GraphBuilder)


def test_verbose_prints_the_steps(capsys) -> None:
    export(Neuron(), (torch.rand(5, 3),), verbose=0)
    assert capsys.readouterr().out == ""
    export(Neuron(), (torch.rand(5, 3),), verbose=2)
    out = capsys.readouterr().out
    assert "[to_onnx] export" in out
    assert "[DynamoInterpreter] call_function sigmoid" in out
