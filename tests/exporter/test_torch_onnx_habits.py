"""Arguments of torch.onnx.export in calls of to_onnx: equivalents, and errors with advice."""

from __future__ import annotations

import inspect
from collections import UserDict
from types import MappingProxyType

import pytest
import torch

from ortable import to_onnx
from ortable.errors import ArgumentError, InputError
from ortable.exporter import arguments

EQUIVALENT_ARGUMENTS = [
    ({"opset_version": 20}, {"target_opset": 20}),
    ({"verify": True}, {"validate": True}),
    ({"do_constant_folding": True, "export_params": True, "dynamo": True}, {}),
    ({"keep_initializers_as_inputs": False, "external_data": False, "report": False}, {}),
    ({"training": torch.onnx.TrainingMode.TRAINING, "profile": False}, {}),
    ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX, "training": None}, {}),
]


@pytest.mark.parametrize(("torch_kwargs", "kwargs"), EQUIVALENT_ARGUMENTS)
def test_arguments_of_torch_onnx_that_mean_the_same_are_taken(torch_kwargs, kwargs, capsys) -> None:
    model, args = torch.nn.Linear(3, 2), (torch.rand(4, 3),)
    converted, expected = to_onnx(model, args, **torch_kwargs), to_onnx(model, args, **kwargs)
    assert converted.graph == expected.graph
    assert converted.opset_import == expected.opset_import


def test_the_third_argument_may_be_the_file_as_in_torch_onnx(tmp_path) -> None:
    to_onnx(torch.nn.Linear(3, 2), (torch.rand(4, 3),), tmp_path / "model.onnx")
    to_onnx(model=torch.nn.Linear(3, 2), args=torch.rand(4, 3), f=str(tmp_path / "other.onnx"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "other.onnx"]


@pytest.mark.parametrize(
    ("torch_kwargs", "message"),
    [
        ({"external_data": True}, r"large_model=True"),
        ({"dump_exported_program": True}, r"ExportOptions\(save_ep='model.pt2'\)"),
        ({"custom_translation_table": {1: 2}}, r"dispatcher="),
        ({"artifacts_dir": "somewhere"}, r"filename=, report= and"),
        ({"profile": True}, r"report='model.md'"),
        ({"dynamo": False}, r"always goes through torch.export"),
        ({"export_params": False}, r"meta device"),
        ({"keep_initializers_as_inputs": True}, r"functional_call"),
        ({"training": torch.onnx.TrainingMode.EVAL}, r"call model.eval\(\)"),
        ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN}, r"custom_domains"),
        ({"custom_opsets": {"mine": 1}}, r"target_opset=\{'': 18, 'my.domain': 1\}"),
        ({"autograd_inlining": False}, r"always inlined"),
        ({"opset_version": 18, "target_opset": 18}, r"both target_opset and opset_version"),
        ({"opset": 18}, r"did you mean 'target_opset'\?"),
        ({"dynamic_shape": None}, r"did you mean 'dynamic_shapes'\?"),
        ({"nonsense": 1}, r"no argument 'nonsense'\n  It has mod, args"),
    ],
)
def test_other_words_are_answered_with_ours(torch_kwargs, message) -> None:
    with pytest.raises(ArgumentError, match=message) as raised:
        to_onnx(torch.nn.Linear(3, 2), (torch.rand(4, 3),), **torch_kwargs)
    assert isinstance(raised.value, TypeError)


def test_dynamic_axes_are_written_as_dynamic_shapes() -> None:
    axes = {"x": {0: "batch"}, "y": [0, 1]}
    with pytest.raises(ArgumentError) as raised:
        to_onnx(
            torch.nn.Linear(3, 2),
            (torch.rand(4, 3),),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
        )
    assert "Here: dynamic_shapes={'input': {0: 'batch'}}" in str(raised.value)
    assert "output_dynamic_shapes={'y': {0: 'y_0', 1: 'y_1'}}" in str(raised.value)


def test_every_argument_of_torch_onnx_has_an_answer() -> None:
    names = set(inspect.signature(to_onnx).parameters)
    torch_names = set(inspect.signature(torch.onnx.export).parameters)
    assert torch_names - names - set(arguments.TORCH_ONNX_ALIASES) == {"dynamic_axes"}


def test_an_argument_twice_is_refused() -> None:
    args = (torch.rand(4, 3),)
    with pytest.raises(ArgumentError, match="to_onnx got 'args' twice: positionally and by name"):
        to_onnx(torch.nn.Linear(3, 2), args, args=args)


def test_kwargs_is_any_mapping() -> None:
    batch = UserDict(input=torch.rand(4, 3))
    for args in ({"kwargs": batch}, {"args": (), "kwargs": MappingProxyType(batch.data)}):
        model = to_onnx(torch.nn.Linear(3, 2), **args)
        assert [value.name for value in model.graph.input] == ["input"]
    with pytest.raises(InputError, match="pass keyword arguments as kwargs="):
        to_onnx(torch.nn.Linear(3, 2), batch)
