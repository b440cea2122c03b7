"""Outputs of exported models: kinds of values, names, and names of dimensions."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.export import Dim

from ortable.errors import ExportError
from ortable.exporter.to_onnx import to_onnx

from .helpers import assert_same, run_onnx
from .test_inputs import cache, sizes


@dataclasses.dataclass
class Result:
    total: torch.Tensor
    parts: list


torch.export.register_dataclass(Result)


class Everything(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3))
        self.register_buffer("table", torch.arange(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        double = torch.cat([x, x])
        nonzero = torch.nonzero(x > 0.5)
        return {
            "same": (double, x, double, None),
            "result": Result(x + self.weight, [self.weight, self.table, 3]),
            "more": [nonzero, y * 2, True, 7, torch.tensor([1.5]), x.shape[0]],
        }


ARGS = (torch.rand(4, 3), torch.rand(5))
SHAPES = {"x": {0: "batch"}, "y": {0: Dim.DYNAMIC}}
DEFAULT_OUTPUT_INDICES = [0, 1, 2, *range(4, 14)]


def test_every_kind_of_result_equals_eager_on_two_sizes() -> None:
    model = to_onnx(Everything(), ARGS, dynamic_shapes=SHAPES)
    shapes = sizes(model.graph.output)
    assert list(shapes) == [f"output_{index}" for index in DEFAULT_OUTPUT_INDICES]
    assert shapes["output_0"] == ["2*batch", 3]
    assert shapes["output_8"] == ["nonzero_size", 2]
    assert shapes["output_9"] == ["s0"]
    torch.manual_seed(0)
    module = Everything()
    model = to_onnx(module, ARGS, dynamic_shapes=SHAPES)
    for rows, length in ((4, 5), (6, 2)):
        assert_same(model, module, (torch.rand(rows, 3), torch.rand(length)))


def test_keys_become_names_with_the_characters_that_names_have() -> None:
    class Keys(torch.nn.Module):
        def forward(self, x):
            return {"a b-c": x + 1, "a.b": x + 2, "a/b": x + 3, "a_b": x + 4}

    model = to_onnx(Keys(), (torch.rand(2),), output_names="auto")
    assert list(sizes(model.graph.output)) == ["a_b_c", "a.b", "a_b", "a_b_1"]


def test_a_float_is_a_0d_tensor_of_doubles_as_in_python() -> None:
    class Float(torch.nn.Module):
        def forward(self, x):
            return x, 2.5

    model = to_onnx(Float(), (torch.rand(2),))
    _, value = run_onnx(model, {"x": torch.rand(2).numpy()})
    assert (value.dtype, value.shape, value.item()) == (torch.float64, (), 2.5)


def test_automatic_names_are_those_of_fields_and_keys() -> None:
    model = to_onnx(Everything(), ARGS, dynamic_shapes=SHAPES, output_names="auto")
    assert list(sizes(model.graph.output)) == [
        "same_0",
        "same_1",
        "same_2",
        "result_total",
        "result_parts_0",
        "result_parts_1",
        "result_parts_2",
        *(f"more_{number}" for number in range(6)),
    ]


def test_automatic_names_of_a_cache_differ_from_its_inputs() -> None:
    class Cached(torch.nn.Module):
        def forward(self, x, past):
            past.update(x, x, 0)
            return {"logits": x, "past": past}

    args = (torch.rand(2, 2, 1, 4), cache(2, 3, 1))
    model = to_onnx(Cached(), args, output_names="auto")
    assert list(sizes(model.graph.output)) == [
        "logits",
        "past_key_cache_0_out",
        "past_value_cache_0_out",
    ]
    assert_same(model, Cached(), (torch.rand(2, 2, 1, 4), cache(2, 3, 1)))


def test_automatic_names_of_a_model_output_and_of_a_single_tensor() -> None:
    import transformers.modeling_outputs as outputs

    class Encoder(torch.nn.Module):
        def forward(self, x):
            return outputs.BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))

    model = to_onnx(Encoder(), (torch.rand(2),), output_names="auto")
    names = ["last_hidden_state", "hidden_states_0", "hidden_states_1"]
    assert list(sizes(model.graph.output)) == names
    assert_same(model, Encoder(), (torch.rand(2),))
    single = to_onnx(torch.nn.ReLU(), (torch.rand(2),), output_names="auto")
    assert list(sizes(single.graph.output)) == ["output"]


def test_a_dict_replaces_some_of_the_names() -> None:
    names = {"output_0": "doubled", "result_total": "total"}
    model = to_onnx(Everything(), ARGS, output_names=names)
    output_names = list(sizes(model.graph.output))
    assert (output_names[0], output_names[1], output_names[3]) == ("doubled", "output_1", "total")
    with pytest.raises(ExportError, match=r"output_names renames \['other'\], but the model has"):
        to_onnx(Everything(), ARGS, output_names={"other": "x"})


DIMENSION_NAMES = {
    "same": [{0: "twice"}, None, None, None],
    "more": ({0: "found"}, ("length",), None, None, None, None),
}


@pytest.mark.parametrize(
    "dimension_names",
    [
        DIMENSION_NAMES,
        {"output_0": {0: "twice"}, "output_8": {-2: "found"}, "output_9": {0: Dim("length")}},
    ],
)
def test_dimensions_of_outputs_take_the_users_names(dimension_names) -> None:
    module = Everything()
    model = to_onnx(module, ARGS, dynamic_shapes=SHAPES, output_dynamic_shapes=dimension_names)
    shapes = sizes(model.graph.output)
    assert shapes["output_0"] == ["twice", 3]
    assert shapes["output_2"] == ["2*batch", 3]
    assert shapes["output_8"] == ["found", 2]
    assert shapes["output_9"] == ["length"]
    assert sizes(model.graph.input)["y"] == ["length"]
    assert_same(model, module, (torch.rand(2, 3), torch.rand(7)))


@pytest.mark.parametrize(
    ("dimension_names", "message"),
    [
        ({"output_1": {0: "rows"}}, "is the dimension 'batch' of the inputs: it keeps that name"),
        ({"output_1": {1: "rows"}}, "is 3 in every call, it cannot be named 'rows'"),
        ({"output_0": {0: "batch"}}, r"\(2\*batch\) cannot be named 'batch': another dimension"),
        ({"output_8": {0: "batch"}}, "cannot be named 'batch': another dimension has that name"),
        ({"output_8": {0: "n"}, "output_9": {0: "n"}}, "another dimension than the first named"),
        ({"output_8": {2: "n"}}, "one entry for each of its 2 dimensions"),
        ({"output_8": {0: "a b"}}, "is not an identifier"),
        ({"output_7": {0: "n"}}, "'output_7', which is not a tensor"),
        ({"nothing": {0: "n"}}, r"one entry for each of \['same', 'result', 'more'\]"),
    ],
)
def test_a_name_that_does_not_fit_an_output_is_refused(dimension_names, message) -> None:
    with pytest.raises(ExportError, match=message):
        to_onnx(Everything(), ARGS, dynamic_shapes=SHAPES, output_dynamic_shapes=dimension_names)


def test_a_graph_that_is_not_exported_takes_them_by_the_names_of_its_outputs() -> None:
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    with pytest.raises(ExportError, match=r"is a dict by output name, among \['output_0'\]"):
        to_onnx(graph, output_dynamic_shapes={"result": {0: "rows"}})


def test_the_dimension_of_an_input_may_be_given_its_own_name_again() -> None:
    names = {"output_1": {0: "batch"}}
    model = to_onnx(Everything(), ARGS, dynamic_shapes=SHAPES, output_dynamic_shapes=names)
    assert sizes(model.graph.output)["output_1"] == ["batch", 3]


def test_sizes_that_depend_on_data_have_readable_names() -> None:
    class DataDependent(torch.nn.Module):
        def forward(self, x):
            count = x.to(torch.int64).sum().item()
            torch._check(count >= 2)
            return torch.unique(x), x[x > 0], torch.nonzero(x), torch.nonzero(-x), torch.ones(count)

    x = torch.tensor([0.0, 1.0, 1.0, 3.0])
    model = to_onnx(DataDependent(), (x,))
    dimension_names = [dims[0] for dims in sizes(model.graph.output).values()]
    assert len(set(dimension_names)) == 5
    assert dimension_names[2:] == ["nonzero_size", "nonzero_1_size", "item"]
    for example in (x, torch.tensor([2.0, 2.0, 0.0, 5.0])):
        assert_same(model, DataDependent(), (example,))
