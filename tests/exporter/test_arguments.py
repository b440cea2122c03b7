"""Arguments of the wrong type are refused by name before torch makes a graph, with what to give
instead; nothing is written, and nothing is taken for something else."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch

from ortable import ExportOptions, bypass_export_some_errors, to_onnx
from ortable.errors import ConversionError, ExportError, InputError, OptionError

X = torch.rand(4, 3)
LINEAR = torch.nn.Linear(3, 2)


class Untouched(torch.nn.Module):
    """A wrong argument is found before the forward runs."""

    def forward(self, x):
        raise AssertionError("the forward was run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"verbose": None}, r"verbose is 0 \(silent\), 1 \(the steps\) or 2 .*, not None"),
        ({"verbose": -1}, "verbose is 0"),
        ({"report": True}, r'report is the path of .* not True; .* report="model.md"'),
        ({"report": ""}, "report is the path of"),
        ({"filename": io.BytesIO()}, r"buffer.write\(to_onnx\(...\).SerializeToString\(\)\)"),
        ({"filename": True}, r'filename="model.onnx"'),
        ({"filename": b"model.onnx"}, "filename is the path of"),
        ({"filename": "nowhere/model.onnx"}, "folder 'nowhere' of the ONNX file"),
        ({"report": "nowhere/report.md"}, "folder 'nowhere' of the Markdown file"),
        ({"large_model": "no"}, "large_model is True or False, not 'no'"),
        ({"external_threshold": True}, "external_threshold is a number of bytes"),
        ({"external_threshold": 1e6}, "external_threshold is a number of bytes"),
        ({"dispatcher": "torchlib"}, "dispatcher is a Dispatcher, a dict"),
        ({"input_names": True}, "input_names is a list of non-empty strings .*, not True"),
        ({"input_names": io.BytesIO()}, "input_names is a list"),
        ({"input_names": {"x": ""}}, "input_names is a list"),
        ({"output_names": 3}, 'output_names is a list .* or "auto", not 3'),
        ({"output_names": np.array(["a", "b"])}, "output_names is a list"),
        ({"output_names": object()}, "output_names is a list"),
        (
            {"kwargs": [("x", X)]},
            "kwargs is a dict of the keyword arguments of the model, not list",
        ),
        ({"export_options": True}, "export_options is an ExportOptions or None, not bool"),
    ],
)
def test_a_wrong_argument_is_named_before_the_forward_runs(arguments, words) -> None:
    with pytest.raises((ExportError, InputError, OptionError), match=words):
        to_onnx(Untouched(), (X,), **arguments)


@pytest.mark.parametrize("name", ["optimize", "inline", "large_model", "return_builder"])
@pytest.mark.parametrize("value", [None, 1, "false", [], torch.zeros(2)])
def test_a_flag_is_a_bool(name, value) -> None:
    with pytest.raises(OptionError, match=f"^{name} is True or False, not "):
        to_onnx(Untouched(), (X,), **{name: value})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"progress": True}, "progress is called with a phase and its seconds"),
        ({"metadata": "license"}, "metadata is a dict from text to text or None, not 'license'"),
        ({"save_ep": ""}, "save_ep is the name of a .pt2 file"),
    ],
)
def test_export_options_of_the_wrong_type(options, words) -> None:
    with pytest.raises(OptionError, match=words):
        ExportOptions(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"without": "one_hot"}, "without is a collection of names of patches, not 'one_hot'"),
        ({"without": None}, "without is a collection"),
        ({"patch_torch": "no"}, "patch_torch is True or False, not 'no'"),
    ],
)
def test_a_bypass_with_options_of_the_wrong_type(options, words) -> None:
    with pytest.raises(OptionError, match=words), bypass_export_some_errors(**options):
        pass


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.jit.trace(LINEAR, (X,)),
        lambda: torch.jit.script(LINEAR),
        lambda: torch.jit.trace(lambda x: x + 1, (X,)),
    ],
    ids=["traced", "scripted", "function"],
)
@pytest.mark.parametrize("bypass", [False, True])
def test_torchscript_is_answered_with_the_module_it_was_made_of(made, bypass) -> None:
    words = re.escape("to_onnx(module, args) in place of to_onnx(torch.jit.trace(module, args)")
    options = ExportOptions(fallback=bypass)
    with pytest.raises(ExportError, match=words):
        to_onnx(made(), (X,), dynamic_shapes={"x": {0: "n"}}, export_options=options)


def test_a_class_in_place_of_a_module() -> None:
    with pytest.raises(ExportError, match="Linear is a class: give a module that you made of it"):
        to_onnx(torch.nn.Linear, (X,))


@pytest.mark.parametrize("strict", [False, True])
def test_a_text_among_the_results(strict) -> None:
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"sum": x + 1, "name": "hello"}

    words = r"result 1 of the model is 'hello' \(str\): an ONNX model returns tensors and numbers"
    with pytest.raises(ConversionError, match=words):
        to_onnx(Named(), (X,), export_options=ExportOptions(strict=strict))
