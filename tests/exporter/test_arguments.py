"""Wrong arguments raise errors that name them, before the module is captured."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch

from ortable import (
    ExportOptions,
    bypass_export_some_errors,
    match_input_parameters,
    to_onnx,
)
from ortable.errors import ConversionError, ExportError, InputError, OptionError
from tests.modules import Neuron

from ..interpreter.small_tables import CONVERTERS

X = torch.rand(4, 3)
LINEAR = torch.nn.Linear(3, 2)


class Untouched(torch.nn.Module):
    """A module whose forward must not run."""

    def forward(self, x):
        raise AssertionError("forward ran")


@pytest.mark.parametrize(
    ("arguments", "message"),
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
        ({"dispatcher": 3}, "dispatcher is a Dispatcher, a dict"),
        ({"target": "tensorrt"}, "target is one of"),
        ({"args": "x"}, "args is a tuple"),
        ({"export_options": {"strict": True}}, "its fields are strict"),
        ({"target_opset": 12}, "opset 12 is not supported; supported are 13 to 26"),
        ({"target_opset": 99}, "opset 99 is not supported"),
        ({"target_opset": "18"}, "target_opset is an int"),
        ({"target_opset": {"com.microsoft": 1}}, "must contain the main domain ''"),
        (
            {"target_opset": {"": 20, "ai.onnx": 21}},
            "target_opset has 20 for '' and 21 for 'ai.onnx', which are the same domain: give only",
        ),
        ({"target_opset": {"ai.onnx": 21, "": 20}}, "has 20 for '' and 21 for 'ai.onnx'"),
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
def test_a_wrong_argument_is_named_before_the_forward_runs(arguments, message) -> None:
    with pytest.raises((ExportError, InputError, OptionError), match=message):
        to_onnx(Untouched(), **{"args": (X,), **arguments})


@pytest.mark.parametrize("name", ["optimize", "inline", "large_model", "return_builder"])
@pytest.mark.parametrize("value", [None, 1, "false", [], torch.zeros(2)])
def test_a_flag_is_a_bool(name, value) -> None:
    with pytest.raises(OptionError, match=f"^{name} is True or False, not "):
        to_onnx(Untouched(), (X,), **{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"progress": True}, "progress is called with a phase and its seconds"),
        ({"metadata": "license"}, "metadata is a dict from text to text or None, not 'license'"),
        ({"metadata": [("a", "b")]}, "metadata is a dict"),
        ({"save_ep": ""}, "save_ep is the name of a .pt2 file"),
        ({"strict": "yes"}, "strict is True, False or None"),
        ({"decomposition_table": "some"}, "decomposition_table is one of"),
    ],
)
def test_export_options_of_the_wrong_type(options, message) -> None:
    with pytest.raises(OptionError, match=message):
        ExportOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"without": "one_hot"}, "without is a collection of names of patches, not 'one_hot'"),
        ({"without": None}, "without is a collection"),
        ({"patch_torch": "no"}, "patch_torch is True or False, not 'no'"),
    ],
)
def test_a_bypass_with_options_of_the_wrong_type(options, message) -> None:
    with pytest.raises(OptionError, match=message), bypass_export_some_errors(**options):
        pass


@pytest.mark.parametrize(
    "make_model",
    [
        lambda: torch.jit.trace(LINEAR, (X,)),
        lambda: torch.jit.script(LINEAR),
        lambda: torch.jit.trace(lambda x: x + 1, (X,)),
    ],
    ids=["traced", "scripted", "function"],
)
@pytest.mark.parametrize("bypass", [False, True])
def test_torchscript_is_answered_with_the_module_it_was_made_of(make_model, bypass) -> None:
    message = re.escape("to_onnx(module, args) instead of to_onnx(torch.jit.trace(module, args)")
    options = ExportOptions(fallback=bypass)
    with pytest.raises(ExportError, match=message):
        to_onnx(make_model(), (X,), dynamic_shapes={"x": {0: "n"}}, export_options=options)


def test_a_class_in_place_of_a_module() -> None:
    with pytest.raises(ExportError, match="Linear is a class: give an instance of it"):
        to_onnx(torch.nn.Linear, (X,))


@pytest.mark.parametrize("strict", [False, True])
def test_a_text_among_the_results(strict) -> None:
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"sum": x + 1, "name": "hello"}

    message = r"result 1 of the model is 'hello' \(str\): an ONNX model can only return tensors"
    with pytest.raises(ConversionError, match=message):
        to_onnx(Named(), (X,), export_options=ExportOptions(strict=strict))


# -- names, counts and options


class Sum(torch.nn.Module):
    def forward(self, input, nested, scale=2, unused=None, *, bias):
        return {"a": input * scale + nested["u"], "b": [None, bias + 1]}


def export(module, args, **kwargs):
    return to_onnx(module, args, dispatcher=CONVERTERS, **kwargs)


def names(model):
    return [v.name for v in model.graph.input], [v.name for v in model.graph.output]


def test_inputs_are_named_as_the_parameters_of_forward() -> None:
    args = (torch.rand(2), {"u": torch.rand(2)}, 3, torch.rand(5))
    model = export(Sum(), args, kwargs={"bias": torch.rand(2)}, validate=True)
    inputs, outputs = names(model)
    assert inputs == ["input", "nested_u", "unused", "bias"]
    assert outputs == ["output_0", "output_2"]


def test_chosen_names_are_kept_even_when_an_intermediate_result_has_them() -> None:
    model = export(
        Neuron(), (torch.rand(5, 3),), input_names=["linear"], output_names=["linear.weight"]
    )
    assert names(model) == (["linear"], ["linear.weight"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": ["a", "b"]}, r"2 names \['a', 'b'\], but the model has 1 inputs: \['x'\]"),
        ({"output_names": []}, r"0 names \[\], but the model has 1 outputs: \['output_0'\]"),
        ({"input_names": "x"}, "a list of non-empty strings"),
        ({"output_names": ["x"], "input_names": ["x"]}, "'x' is the name of an input and of an"),
    ],
)
def test_wrong_names_say_what_was_expected(options, message) -> None:
    with pytest.raises(ExportError, match=message):
        export(Neuron(), (torch.rand(5, 3),), **options)


def test_the_name_of_a_buffer_that_is_written_is_taken() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.count.add_(1)

    with pytest.raises(ExportError, match=r"two outputs have the name 'count'.* output_names"):
        export(Counter(), (torch.rand(3),), output_names=["count"])


def test_the_same_name_twice_is_refused() -> None:
    args = (torch.rand(2), {"u": torch.rand(2)})
    with pytest.raises(ExportError, match="output_names has 'y' more than once"):
        export(Sum(), args, kwargs={"bias": torch.rand(2)}, output_names=["y", "y"])


def test_a_call_that_does_not_fit_forward_is_refused() -> None:
    with pytest.raises(ExportError, match=r"Neuron\.forward.* cannot be called with"):
        export(Neuron(), (torch.rand(2), torch.rand(2)))


def test_only_torch_programs_are_taken() -> None:
    with pytest.raises(ExportError, match="not function; wrap a function in a module"):
        export(lambda x: x, (torch.rand(2),))


def test_opset_and_dict_of_opsets_are_written() -> None:
    for opset in (18, 21, {"": 20}, {"": 20, "ai.onnx": 20}):
        model = export(Neuron(), (torch.rand(5, 3),), target_opset=opset)
        expected = opset if isinstance(opset, int) else opset[""]
        assert [(o.domain, o.version) for o in model.opset_import] == [("", expected)]


def test_parameters_are_matched_by_every_spelling_and_arguments_in_order() -> None:
    model = Neuron()
    x = torch.rand(5, 3)
    matches = match_input_parameters(model, ["p_linear_weight", "x", "linear.bias"], (x,))
    assert list(matches) == ["p_linear_weight", "x", "linear.bias"]
    assert matches["p_linear_weight"] is model.linear.weight
    assert matches["x"] is x
    with pytest.raises(InputError, match=r"1 arguments .* 2 inputs .*\['x', 'y'\]"):
        match_input_parameters(model, ["x", "y"], (x,))
