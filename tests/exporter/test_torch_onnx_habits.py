"""Habits of torch.onnx.export: its arguments are taken by to_onnx where they mean the same, and
answered with our words where they do not."""

from __future__ import annotations

import inspect
from collections import UserDict
from types import MappingProxyType

import pytest
import torch

from ortable import to_onnx
from ortable.errors import ArgumentError, InputError
from ortable.exporter import arguments

HABITS = [
    ({"opset_version": 20}, {"target_opset": 20}),
    ({"verify": True}, {"validate": True}),
    ({"do_constant_folding": True, "export_params": True, "dynamo": True}, {}),
    ({"keep_initializers_as_inputs": False, "external_data": False, "report": False}, {}),
    ({"training": torch.onnx.TrainingMode.TRAINING, "profile": False}, {}),
    ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX, "training": None}, {}),
]


@pytest.mark.parametrize(("theirs", "ours"), HABITS)
def test_arguments_of_torch_onnx_that_mean_the_same_are_taken(theirs, ours, capsys) -> None:
    model, args = torch.nn.Linear(3, 2), (torch.rand(4, 3),)
    taken, expected = to_onnx(model, args, **theirs), to_onnx(model, args, **ours)
    assert taken.graph == expected.graph
    assert taken.opset_import == expected.opset_import


def test_the_third_argument_may_be_the_file_as_in_torch_onnx(tmp_path) -> None:
    to_onnx(torch.nn.Linear(3, 2), (torch.rand(4, 3),), tmp_path / "model.onnx")
    to_onnx(model=torch.nn.Linear(3, 2), args=torch.rand(4, 3), f=str(tmp_path / "other.onnx"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "other.onnx"]


@pytest.mark.parametrize(
    ("theirs", "words"),
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
def test_other_words_are_answered_with_ours(theirs, words) -> None:
    with pytest.raises(ArgumentError, match=words) as caught:
        to_onnx(torch.nn.Linear(3, 2), (torch.rand(4, 3),), **theirs)
    assert isinstance(caught.value, TypeError)


def test_dynamic_axes_are_written_as_dynamic_shapes() -> None:
    axes = {"x": {0: "batch"}, "y": [0, 1]}
    with pytest.raises(ArgumentError) as caught:
        to_onnx(
            torch.nn.Linear(3, 2),
            (torch.rand(4, 3),),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
        )
    assert "Here: dynamic_shapes={'input': {0: 'batch'}}" in str(caught.value)
    assert "output_dynamic_shapes={'y': {0: 'y_0', 1: 'y_1'}}" in str(caught.value)


def test_every_argument_of_torch_onnx_has_an_answer() -> None:
    ours = set(inspect.signature(to_onnx).parameters)
    theirs = set(inspect.signature(torch.onnx.export).parameters)
    assert theirs - ours - set(arguments.TORCH_ONNX_ALIASES) == {"dynamic_axes"}


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
