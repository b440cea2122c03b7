"""Names, counts and option values are checked before anything is converted."""

from __future__ import annotations

import pytest
import torch

from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter import ExportOptions, match_input_parameters, to_onnx

from ..interpreter.small_tables import CONVERTERS


class Neuron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x))


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
    ("options", "words"),
    [
        ({"input_names": ["a", "b"]}, r"2 names \['a', 'b'\], but the model has 1 inputs: \['x'\]"),
        ({"output_names": []}, r"0 names \[\], but the model has 1 outputs: \['output_0'\]"),
        ({"input_names": "x"}, "a list of non-empty strings"),
        ({"output_names": ["x"], "input_names": ["x"]}, "'x' is the name of an input and of an"),
    ],
)
def test_wrong_names_say_what_was_expected(options, words) -> None:
    with pytest.raises(ExportError, match=words):
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target_opset": 17}, "opset 17 is not supported; supported are 18 to 26"),
        ({"target_opset": 99}, "opset 99 is not supported"),
        ({"target_opset": "18"}, "target_opset is an int"),
        ({"target_opset": {"com.microsoft": 1}}, "needs the main domain ''"),
        (
            {"target_opset": {"": 20, "ai.onnx": 21}},
            "target_opset has 20 for '' and 21 for 'ai.onnx', which are one domain: give one",
        ),
        ({"target_opset": {"ai.onnx": 21, "": 20}}, "has 20 for '' and 21 for 'ai.onnx'"),
        ({"target": "tensorrt"}, "target is one of"),
        ({"export_options": {"strict": True}}, "its fields are strict"),
        ({"dispatcher": 3}, "dispatcher is a Dispatcher"),
    ],
)
def test_an_unknown_value_of_an_option_is_refused(options, words) -> None:
    with pytest.raises(OptionError, match=words):
        to_onnx(Neuron(), (torch.rand(5, 3),), **options)


def test_export_options_check_their_values() -> None:
    with pytest.raises(OptionError, match="strict is True, False or None"):
        ExportOptions(strict="yes")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="decomposition_table is one of"):
        ExportOptions(decomposition_table="some")
    for name, wrong in (("save_ep", ""), ("progress", 3), ("metadata", [("a", "b")])):
        with pytest.raises(OptionError, match=f"ExportOptions.{name} is"):
            ExportOptions(**{name: wrong})


def test_a_call_that_does_not_fit_forward_is_refused() -> None:
    with pytest.raises(ExportError, match=r"Neuron\.forward.* cannot be called with"):
        export(Neuron(), (torch.rand(2), torch.rand(2)))
    with pytest.raises(InputError, match="args is a tuple"):
        export(Neuron(), "x")


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
    found = match_input_parameters(model, ["p_linear_weight", "x", "linear.bias"], (x,))
    assert list(found) == ["p_linear_weight", "x", "linear.bias"]
    assert found["p_linear_weight"] is model.linear.weight
    assert found["x"] is x
    with pytest.raises(InputError, match=r"1 arguments .* 2 inputs .*\['x', 'y'\]"):
        match_input_parameters(model, ["x", "y"], (x,))
