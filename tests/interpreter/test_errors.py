"""A failed conversion reports the node, the operator, the module and the user's line."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from ortable.builder import GraphBuilder
from ortable.errors import ConversionError, FunctionNotFoundError, UnsupportedCase
from ortable.interpreter.interpreter import DynamoInterpreter
from tests.modules import Function

from .helpers import export, interpret
from .small_tables import TABLES


def replace_converters(**converters):
    return TABLES.with_converters(
        {key.replace("__", "::"): value for key, value in converters.items()}
    )


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


class Wrapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_any_exception_of_a_converter_is_chained_to_a_conversion_error() -> None:
    def fail(graph, res, self):
        raise KeyError("missing")

    program = export(Wrapped(), torch.rand(2, 3))
    with pytest.raises(ConversionError) as caught:
        interpret(program.graph_module, tables=replace_converters(aten__relu=fail))
    text = str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert re.match(
        r"test_errors\.py:\d+: aten::relu could not be converted: KeyError: 'missing'\n", text
    )
    assert "node 'relu' (1/3)" in text
    assert "x:float32[2x3]" in text
    assert "spec: specs/aten/activation.yaml" in text
    assert "module: inner (Inner)" in text
    assert "test_errors.py" in text and "return torch.relu(x)" in text
    graph = caught.value.graph_text
    assert "-- process.progress --\nnode 1/3 target=aten.relu.default" in graph


def test_a_shape_of_sizes_of_two_names_is_refused_by_name() -> None:
    def read_shape(graph, res, self, vec2):
        return graph.get_shape(graph.make_node("Add", [self, vec2]))

    class Outer(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.outer(x, y)

    program = torch.export.export(
        Outer(), (torch.rand(3), torch.rand(4)), dynamic_shapes=({0: torch.export.Dim.AUTO},) * 2
    )
    with pytest.raises(UnsupportedCase, match=r"dynamic sizes s\d+ and s\d+ are broadcast"):
        interpret(program.graph_module, tables=replace_converters(aten__outer=read_shape))


def test_a_refusal_stays_an_unsupported_case() -> None:
    def refuse(graph, res, self):
        raise UnsupportedCase("ONNX has no relu of strings")

    program = export(Wrapped(), torch.rand(2, 3))
    with pytest.raises(UnsupportedCase, match=r"aten::relu is not supported .*no relu of strings"):
        interpret(program.graph_module, tables=replace_converters(aten__relu=refuse))


def test_the_graph_so_far_appears_once() -> None:
    def fail(graph, res, self):
        return graph.make_node("Relu", ["nothing"], res.outputs)

    program = export(Wrapped(), torch.rand(2, 3))
    with pytest.raises(ConversionError) as caught:
        interpret(program.graph_module, tables=replace_converters(aten__relu=fail))
    assert "--DEBUG--" not in str(caught.value)
    assert caught.value.graph_text.count("--DEBUG--") == 1
    assert caught.value.graph_text in caught.value.full_text()


@pytest.mark.parametrize(
    ("converter", "message"),
    [
        (
            lambda g, r, x: g.make_node("Cast", [x], r.outputs, to=11),
            "float64, torch computes float32",
        ),
        (lambda g, r, x: g.make_node("Transpose", [x], r.outputs), "shape 3x2, torch .* shape 2x3"),
        (lambda g, r, x: g.make_node("Flatten", [x], r.outputs, axis=0), "shape 1x6, torch"),
        (lambda g, r, x: "unheard", "'unheard', which is not a result"),
    ],
)
def test_a_result_of_another_type_or_shape_than_torchs_is_an_error(converter, message) -> None:
    program = export(Wrapped(), torch.rand(2, 3))
    with pytest.raises(ConversionError, match=message) as caught:
        interpret(program.graph_module, tables=replace_converters(aten__relu=converter))
    assert "specs/aten/activation.yaml" in str(caught.value)


def test_sizes_that_may_be_equal_are_no_difference() -> None:
    rows = torch.export.Dim("rows")
    program = export(Wrapped(), torch.rand(4, 3), dynamic_shapes={"x": {0: rows}})
    builder = GraphBuilder(18)
    builder.rename_dims = {str(next(iter(program.range_constraints))): "rows"}
    interpreter = DynamoInterpreter(builder, tables=TABLES)
    interpreter.run(program.graph_module)
    assert [str(d) for d in builder.values["relu"].shape] == ["rows", "3"]


def test_every_operator_without_converter_is_listed_before_anything_is_converted() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.celu(torch.tanh(x)) + torch.tanh(x) + torch.relu(x)

    program = export(Function(forward), torch.rand(2))
    builder = GraphBuilder(18)
    with pytest.raises(FunctionNotFoundError) as caught:
        DynamoInterpreter(builder, tables=TABLES).run(program.graph_module)
    text = str(caught.value)
    assert text.splitlines()[0].startswith(
        "Unable to interpret function aten::tanh: it has no converter, at test_errors.py:"
    )
    assert "2 operators of this graph without a converter" in text
    assert "aten::tanh, 2 calls" in text
    assert "aten::celu, 1 call" in text
    assert "closest spec: aten::relu (specs/aten/activation.yaml)" in caught.value.details
    assert "return torch.celu(torch.tanh(x)) + torch.tanh(x) + torch.relu(x)" in text
    assert "- op: aten::tanh(Tensor self) -> Tensor" in text
    assert "lower: return Tanh(self)" in text
    assert len(text.splitlines()) <= 15
    assert caught.value.operators == ("aten::tanh", "aten::celu")
    details = caught.value.details
    assert details.splitlines()[0].startswith(
        "Unable to interpret function <class 'torch._ops.OpOverload'>: "
        "<OpOverload(op='aten.tanh', overload='default')>, searched for ['aten::tanh']"
    )
    assert "- op: aten::celu(Tensor self, Scalar alpha=1.) -> Tensor" in details
    assert "lower: return Celu(self)" in details
    assert builder.nodes == [] and builder.inputs == []


def test_operators_inside_branches_are_listed_too() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.tanh(), lambda a: a.cos(), (x,))

    program = export(Function(forward), torch.rand(2))
    with pytest.raises(FunctionNotFoundError, match="aten::tanh, 1 call"):
        interpret(program.graph_module)


def test_an_operator_that_nobody_reads_needs_no_converter() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.rand(2)
    graph.call_function(torch.ops.aten.tanh.default, (x,))
    graph.output(x)
    interpret(torch.fx.GraphModule({}, graph))


def test_an_in_place_write_that_a_view_sees_is_refused_and_functionalisation_named() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        view = y[0]
        y.add_(1)
        return view

    program = export(Function(forward), torch.rand(2))
    with pytest.raises(ConversionError, match="run_decompositions") as caught:
        interpret(program.graph_module)
    assert "aten::add_.Tensor writes to its argument" in str(caught.value)


def test_an_overload_that_writes_for_one_value_of_an_argument_is_refused_for_that_value() -> None:
    class Norm(torch.nn.Module):
        def forward(
            self, x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor
        ) -> torch.Tensor:
            return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    program = export(Norm(), torch.rand(4, 3), torch.zeros(3), torch.ones(3))
    tables = replace(TABLES, converters={**TABLES.converters, "aten::batch_norm": None})
    with pytest.raises(ConversionError, match="training=True makes it update"):
        interpret(program.graph_module, tables=tables)
