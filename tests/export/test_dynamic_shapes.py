"""Dynamic dimensions keep the user's names; one that does not fit is explained."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from ortable.errors import ExportError
from ortable.export import to_onnx

from ..interpreter.small_tables import CONVERTERS
from .test_names_and_options import Neuron


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
    ("spec", "words"),
    [
        ({"y": {0: Dim("b")}}, r"names 'y', but the arguments of the model are \['x'\]"),
        ({"x": {4: Dim("b")}}, r"'x' names dimension 4, but it has rank 2 \(shape \(5, 3\)\)"),
        ({"x": (Dim("b"),)}, "one entry for each of its 2 dimensions"),
        (({0: Dim("b")}, None), r"one entry for each of \['x'\]"),
        ({"x": {0: "my batch"}}, "which is not an identifier"),
    ],
)
def test_a_specification_that_does_not_fit_the_inputs_is_refused(spec, words) -> None:
    with pytest.raises(ExportError, match=words):
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes=spec)


def test_a_dimension_that_the_model_fixes_is_named_with_torchs_suggestion() -> None:
    with pytest.raises(ExportError, match="the dynamic shapes do not fit") as caught:
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {1: Dim("features")}})
    text = str(caught.value)
    assert "input 'x', dimension 1 (features), size 3 in args" in text
    assert "torch suggests:\n  features = 3" in text
    assert "make the dimension static" in text
    assert caught.value.__cause__ is not None


def test_an_unnamed_dimension_that_the_model_fixes_is_found_too() -> None:
    with pytest.raises(ExportError, match="the dynamic shapes do not fit") as caught:
        export(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {1: Dim.DYNAMIC}})
    assert "input 'x', dimension 1" in str(caught.value)


def test_dimensions_that_must_be_equal_are_both_named() -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    with pytest.raises(ExportError, match="must always be equal") as caught:
        export(
            Sum(),
            (torch.rand(5, 3), torch.rand(5, 3)),
            dynamic_shapes={"x": {0: Dim("a")}, "y": {0: Dim("b")}},
        )
    text = str(caught.value)
    assert "input 'x', dimension 0 (a)" in text
    assert "input 'y', dimension 0 (b)" in text
