"""Names of dynamic dimensions are kept, or refused with an explanation."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from ortable.errors import ExportError, OptionError
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.to_onnx import to_onnx
from tests.modules import Neuron

from ..interpreter.small_tables import CONVERTERS
from .helpers import assert_same


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, pair: tuple) -> torch.Tensor:
        return x + pair[0] + pair[1]["z"]


def export(module, args=(), **kwargs):
    return to_onnx(module, args, dispatcher=CONVERTERS, **kwargs)


def shapes(values) -> list[list[int | str]]:
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values]


def pair(rows: int, columns: int) -> tuple:
    return torch.rand(rows, columns), {"z": torch.rand(rows, columns)}


@pytest.mark.parametrize("dim", [Dim("batch"), "batch"])
def test_names_of_dims_and_strings_are_kept(dim) -> None:
    model = export(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {0: dim}}, validate=True)
    assert shapes(model.graph.input) == [["batch", 3]]
    assert shapes(model.graph.output) == [["batch", 1]]


def test_an_exported_program_keeps_the_names_of_its_dims() -> None:
    program = torch.export.export(
        Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {0: Dim("batch")}}
    )
    assert shapes(export(program).graph.input) == [["batch", 3]]
    renamed = export(program, dynamic_shapes={"x": {0: "rows"}})
    assert shapes(renamed.graph.input) == [["rows", 3]]


def test_nested_arguments_and_derived_dims() -> None:
    rows, half = Dim("rows"), Dim("half")
    spec = {0: rows, 1: 2 * half}
    model = export(
        Add(),
        (torch.rand(4, 6), pair(4, 6)),
        dynamic_shapes={"x": spec, "pair": (spec, {"z": spec})},
        validate=True,
    )
    assert shapes(model.graph.input) == [["rows", "2*half"]] * 3
    assert shapes(model.graph.output) == [["rows", "2*half"]]


def test_unnamed_dimensions_are_numbered_in_the_order_of_the_inputs() -> None:
    spec = {0: Dim.DYNAMIC, 1: Dim.AUTO}
    model = export(
        Add(),
        (torch.rand(4, 6), pair(4, 6)),
        dynamic_shapes={"x": spec, "pair": (spec, {"z": spec})},
    )
    assert shapes(model.graph.input) == [["s0", "s1"]] * 3


def test_a_mapping_in_another_order_than_the_signature_is_taken() -> None:
    rows = Dim("rows")
    model = export(
        Add(),
        (torch.rand(4, 6), pair(4, 6)),
        dynamic_shapes={"pair": ({0: rows}, {"z": {0: rows}}), "x": {0: rows}},
    )
    assert shapes(model.graph.input) == [["rows", 6]] * 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"y": {0: Dim("b")}}, r"names 'y', but the arguments of the model are \['x'\]"),
        ({"x": {4: Dim("b")}}, r"'x' names dimension 4, but it has rank 2 \(shape \(5, 3\)\)"),
        ({"x": (Dim("b"),)}, "one entry for each of its 2 dimensions"),
        (({0: Dim("b")}, None), r"one entry for each of \['x'\]"),
        ({"x": {0: "my batch"}}, "neither an identifier nor an expression"),
    ],
)
def test_a_specification_that_does_not_fit_the_inputs_is_refused(spec, message) -> None:
    with pytest.raises(ExportError, match=message):
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes=spec)


def test_a_dimension_that_the_model_fixes_is_named_with_torchs_suggestion() -> None:
    with pytest.raises(ExportError, match="the dynamic shapes do not fit") as raised:
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {1: Dim("features")}})
    text = str(raised.value)
    assert "input 'x', dimension 1 (features), size 3 in args" in text
    assert "torch suggests:\n  features = 3" in text
    assert "leave the dimension out of dynamic_shapes" in text
    assert raised.value.__cause__ is not None


def test_an_unnamed_dimension_that_the_model_fixes_is_found_too() -> None:
    with pytest.raises(ExportError, match="the dynamic shapes do not fit") as raised:
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {1: Dim.DYNAMIC}})
    assert "input 'x', dimension 1" in str(raised.value)


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def test_dimensions_that_must_be_equal_are_both_named() -> None:
    with pytest.raises(ExportError, match="must always be equal") as raised:
        export(
            Sum(),
            (torch.rand(5, 3), torch.rand(5, 3)),
            dynamic_shapes={"x": {0: Dim("a")}, "y": {0: Dim("b")}},
        )
    text = str(raised.value)
    assert "input 'x', dimension 0 (a)" in text
    assert "input 'y', dimension 0 (b)" in text


def test_names_of_equal_dimensions_become_one_with_a_warning() -> None:
    args = (torch.rand(5, 3), torch.rand(5, 3))
    with pytest.warns(UserWarning, match=r"dimension 0 of 'y' \('b'\) is always a") as warned:
        model = to_onnx(Sum(), args, dynamic_shapes={"x": {0: "a"}, "y": {0: "b"}})
    assert warned[0].filename == __file__
    assert shapes(model.graph.input) == [["a", 3]] * 2
    assert_same(model, Sum(), (torch.rand(7, 3), torch.rand(7, 3)))


def test_a_name_of_a_dimension_that_follows_from_another_is_given_up_with_a_warning() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x]) + y

    args = (torch.rand(3), torch.rand(6))
    with pytest.warns(UserWarning, match=r"dimension 0 of 'y' \('long'\) is always 2\*short"):
        model = to_onnx(Twice(), args, dynamic_shapes={"x": {0: "short"}, "y": {0: "long"}})
    assert shapes(model.graph.input) == [["short"], ["2*short"]]
    assert_same(model, Twice(), (torch.rand(4), torch.rand(8)))


@pytest.mark.parametrize("other", [Dim.DYNAMIC, Dim.AUTO, "rows", Dim("rows")])
def test_names_and_hints_mix(other) -> None:
    args = (torch.rand(5, 3), torch.rand(5, 3))
    spec = {"x": {0: "rows", 1: Dim.AUTO}, "y": {0: other, 1: Dim.STATIC}}
    model = to_onnx(Sum(), args, dynamic_shapes=spec)
    assert shapes(model.graph.input) == [["rows", 3]] * 2
    for rows in (5, 8):
        assert_same(model, Sum(), (torch.rand(rows, 3), torch.rand(rows, 3)))


def test_a_name_leaves_it_to_torch_which_sizes_are_possible() -> None:
    class PositionTable(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(64, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + self.table[: x.shape[0]]).reshape(-1, 16)

    module = PositionTable()
    with pytest.raises(ExportError, match="give a name instead"):
        to_onnx(module, (torch.rand(4, 8),), dynamic_shapes={"x": {0: Dim("length")}})
    model = to_onnx(module, (torch.rand(4, 8),), dynamic_shapes={"x": {0: "length"}})
    assert shapes(model.graph.input) == [["length", 8]]
    for length in (4, 64):
        assert_same(model, module, (torch.rand(length, 8),))


@pytest.mark.parametrize("dim", ["rows", Dim("rows"), Dim("rows", min=1, max=9)])
def test_an_example_of_size_one_is_dynamic_too(dim) -> None:
    model = to_onnx(Neuron(), (torch.rand(1, 3),), dynamic_shapes={"x": {0: dim}})
    assert shapes(model.graph.input) == [["rows", 3]]
    module = torch.nn.Tanh()
    model = to_onnx(module, (torch.rand(1, 3),), dynamic_shapes={"input": {0: dim}})
    for rows in (1, 6):
        assert_same(model, module, (torch.rand(rows, 3),))


def test_collections_and_additional_inputs_of_torch() -> None:
    x, y = torch.rand(5, 3), torch.rand(5, 3)
    collection = torch.export.ShapesCollection()
    collection[x] = {0: "rows"}
    collection[y] = (Dim("rows"), None)
    extra_inputs = torch.export.AdditionalInputs()
    extra_inputs.add((torch.rand(8, 3), torch.rand(8, 3)))
    for spec, name in ((collection, "rows"), (extra_inputs, "s0")):
        model = to_onnx(Sum(), (x, y), dynamic_shapes=spec)
        assert shapes(model.graph.input) == [[name, 3]] * 2
        assert_same(model, Sum(), (torch.rand(8, 3), torch.rand(8, 3)))
    collection[torch.rand(2)] = {0: "other"}
    with pytest.raises(ExportError, match="a ShapesCollection, does not fit args"):
        to_onnx(Sum(), (x, y), dynamic_shapes=collection)
    extra_inputs.add((torch.rand(8, 3), torch.rand(9, 3)))
    with pytest.raises(ExportError, match="an additional input of dynamic_shapes does not fit"):
        to_onnx(Sum(), (x, y), dynamic_shapes=extra_inputs)


@pytest.mark.parametrize("strict", [False, True])
def test_keyword_arguments_that_the_signature_does_not_name(strict) -> None:
    class Rest(torch.nn.Module):
        def forward(self, a, *others, flag=None, **rest):
            return a + others[0] - rest["z"] * flag

    def call(rows: int):
        a, b, flag, z = (torch.rand(rows, 3) for _ in range(4))
        return (a, b), {"z": z, "flag": flag}

    spec, module = {0: "rows"}, Rest()
    options = ExportOptions(strict=strict)
    for shape_specs in ({"rest": {"z": spec}}, {"z": spec}):
        shape_specs = {"a": spec, "others": [spec], "flag": spec, **shape_specs}
        model = to_onnx(module, *call(4), dynamic_shapes=shape_specs, export_options=options)
        assert "forward" not in vars(module)
        assert shapes(model.graph.input) == [["rows", 3]] * 4
        assert_same(model, module, *call(6))


@pytest.mark.parametrize(
    ("opset", "message"),
    [
        ({"": 18, "ai.onnx.ml": 99}, "opset 99 of the domain 'ai.onnx.ml' does not exist"),
        ({"": 18, "com.microsoft": 2}, "opset 2 of the domain 'com.microsoft' does not exist"),
        ({"": 18, "mine": 0}, "opset 0 of the domain 'mine' does not exist"),
        ({"ai.onnx": 12}, "opset 12 is not supported"),
    ],
)
def test_versions_of_every_domain_are_checked(opset, message) -> None:
    with pytest.raises(OptionError, match=message):
        to_onnx(Sum(), (torch.rand(2), torch.rand(2)), target_opset=opset)


def test_a_dict_of_opsets_is_written() -> None:
    opset = {"ai.onnx": 20, "ai.onnx.ml": 3}
    model = to_onnx(Sum(), (torch.rand(2), torch.rand(2)), target_opset=opset)
    assert {o.domain: o.version for o in model.opset_import} == {"": 20, "ai.onnx.ml": 3}
