"""Local functions for autocast regions, repeated subgraphs and bodies of custom operators."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.compiler import nested_compile_region

from ortable import export, to_onnx
from ortable.errors import ExportError, InputError, OptionError, UnsupportedCase
from ortable.exporter.frontend.export_request import ExportOptions

from .helpers import assert_close, assert_same, eager, feeds_of, run_onnx
from .test_module_functions import calls_of, functions_of

Tensor = torch.Tensor
X = torch.randn(3, 4)
ROWS = ({0: torch.export.Dim("n")},)
BFLOAT16_TOLERANCE = 1e-2  # ONNX Runtime and torch sum bfloat16 products in different orders


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.linear(x))


class Regions(nn.Module):
    """A model of ``a`` in float32, ``b`` without gradients, and both in bfloat16."""

    def __init__(self, autocast: bool = True) -> None:
        super().__init__()
        self.a, self.b, self.autocast = Block(), Block(), autocast

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.a(x)
        with torch.no_grad():
            y = self.b(x)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            z = self.b(self.a(x))
        return y + z, x.reshape(-1)


@pytest.mark.parametrize("dynamic", [None, ROWS])
@pytest.mark.parametrize("strict", [False, True])
def test_autocast_regions_are_functions(strict: bool, dynamic: Any) -> None:
    module = Regions()
    program = torch.export.export(module, (X,), strict=strict, dynamic_shapes=dynamic)
    model = to_onnx(program, export_options=ExportOptions(functions="autocast"))
    onnx.checker.check_model(model, full_check=True)
    assert calls_of(model.graph.node) == ["autocast"]
    (function,) = model.functions
    casts = [n for n in function.node if n.op_type == "Cast"]
    assert any(a.i == onnx.TensorProto.BFLOAT16 for n in casts for a in n.attribute)
    (call,) = [n for n in model.graph.node if n.op_type == "autocast"]
    assert set(call.input[1:]) == {
        f"{part}.linear.{kind}" for part in "ab" for kind in ("weight", "bias")
    }
    assert_same(model, module, (X,), tolerance=BFLOAT16_TOLERANCE)
    plain = to_onnx(program)
    feeds = feeds_of(model, (X,))
    assert_close(run_onnx(model, feeds), run_onnx(plain, feeds), 0)
    inlined = to_onnx(program, export_options=ExportOptions(functions="autocast"), inline=True)
    assert not inlined.functions
    assert_close(run_onnx(inlined, feeds), run_onnx(plain, feeds), 0)


@pytest.mark.parametrize("dynamic", [None, ROWS])
def test_modules_inside_regions_are_functions(dynamic: Any) -> None:
    module = Regions()
    program = torch.export.export(module, (X,), dynamic_shapes=dynamic)
    options = ExportOptions(function_weights="inputs")
    model = to_onnx(program, export_modules_as_functions=True, export_options=options)
    functions = functions_of(model)
    assert calls_of(model.graph.node) == ["Block", "Block", "autocast"]
    assert calls_of(functions["autocast"].node) == ["Block_1", "Block_2"]
    assert calls_of(functions["Block"].node) == ["Linear", "ReLU"]
    assert calls_of(functions["Block_1"].node) == ["Linear_1", "ReLU_1"]  # takes float32
    assert_same(model, module, (X,), tolerance=BFLOAT16_TOLERANCE)


def test_a_region_that_is_off_is_no_function() -> None:
    module = Regions(autocast=False)
    options = ExportOptions(function_weights="inputs")
    model = to_onnx(module, (X,), export_modules_as_functions=True, export_options=options)
    assert calls_of(model.graph.node) == ["Block"] * 4
    assert_same(model, module, (X,))


def test_nodes_of_a_region_keep_their_module_and_the_program_stays_as_it_was() -> None:
    program = torch.export.export(Regions(), (X,))
    graph_text = str(program.graph_module)
    child_ids = {name: id(child) for name, child in program.graph_module.named_children()}
    model = to_onnx(program)
    assert str(program.graph_module) == graph_text
    assert {name: id(child) for name, child in program.graph_module.named_children()} == child_ids
    paths = {
        entry.value
        for node in model.graph.node
        for entry in node.metadata_props
        if entry.key == "module_path" and node.op_type == "Gemm"
    }
    assert paths == {"a.linear", "b.linear"}


class Region(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @nested_compile_region
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x))


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Region() for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize("dynamic", [None, ROWS])
def test_repeated_subgraphs_are_one_function(dynamic: Any) -> None:
    module = Repeated()
    program = torch.export.export(module, (X,), strict=True, dynamic_shapes=dynamic)
    model = to_onnx(program, export_options=ExportOptions(functions=("subgraphs",)))
    onnx.checker.check_model(model, full_check=True)
    names = {n.target for n in program.graph.nodes if n.op == "get_attr"}
    assert set(functions_of(model)) == names == {"repeated_subgraph0"}
    assert len(calls_of(model.graph.node)) == len(
        [n for n in program.graph.nodes if "invoke_subgraph" in str(n.target)]
    )
    assert_same(model, module, (X,))
    plain = to_onnx(program)
    assert not plain.functions
    combined = to_onnx(
        program,
        export_modules_as_functions=True,
        export_options=ExportOptions(function_weights="inputs"),
    )
    assert {"Region", "repeated_subgraph0"} <= set(functions_of(combined))
    assert_same(combined, module, (X,))


@torch.library.custom_op("ortable_regions::scaled", mutates_args=())
def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
    """Write to the result, which tracing has to capture."""
    y = torch.relu(x * factor)
    y[0] = 1
    return y


@scaled.register_fake
def _(x: Tensor, factor: float = 2.0) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("ortable_regions::several", mutates_args=())
def several(parts: list[Tensor], count: int) -> tuple[Tensor, Tensor]:
    """Take a list and a size, call another operator and return two tensors."""
    return torch.cat(parts).sum(0).expand(count, 4).clone(), scaled(parts[0], 3.0)


@several.register_fake
def _(parts: list[Tensor], count: int) -> tuple[Tensor, Tensor]:
    return parts[0].new_empty(count, 4), torch.empty_like(parts[0])


@torch.library.custom_op("ortable_regions::through_numpy", mutates_args=())
def through_numpy(x: Tensor) -> Tensor:
    """Compute with NumPy, which torch cannot trace."""
    return torch.from_numpy(x.numpy() * 2)


@through_numpy.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


LIBRARY = torch.library.Library("ortable_regions_composite", "DEF")
LIBRARY.define("plus(Tensor x) -> Tensor")
LIBRARY.impl("plus", lambda x: nn.functional.softmax(x, -1) + 1, "CompositeImplicitAutograd")


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        first, second = several([x, y], y.shape[0] + 1)
        total = scaled(self.linear(x), 3.0) + scaled(x) + scaled(scaled(x))
        return total, first, second, torch.ops.ortable_regions_composite.plus(x)


CUSTOM = ExportOptions(functions=("custom_ops",))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"export_modules_as_functions": True}, {"inline": True}, {"target": "onnxruntime"}],
)
def test_bodies_of_custom_operators_are_functions(options: Any, dynamic: bool) -> None:
    module, y = Custom(), torch.randn(5, 4)
    shapes = ({0: torch.export.Dim("n")}, {0: torch.export.Dim("k")}) if dynamic else None
    program = torch.export.export(module, (X, y), dynamic_shapes=shapes)
    model = to_onnx(program, export_options=CUSTOM, **options)
    onnx.checker.check_model(model, full_check=True)
    names = {f"{function.domain}::{function.name}" for function in model.functions}
    names.discard("aten_local_function::Linear")
    if "inline" in options:
        assert not names
    else:
        assert names == {
            *("ortable_regions::scaled", "ortable_regions::scaled_1", "ortable_regions::several"),
            "ortable_regions_composite::plus",
        }
        calls = [n.op_type for n in model.graph.node if n.domain == "ortable_regions"]
        assert sorted(calls) == ["scaled", "scaled_1", "scaled_1", "scaled_1", "several"]
        several_body = functions_of(model)["several"]
        assert [n.op_type for n in several_body.node if n.domain] == ["scaled"]
    assert_same(model, module, (X, y))
    if dynamic:
        assert_same(model, module, (torch.randn(2, 4), torch.randn(6, 4)))


class Numpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return through_numpy(x)


def test_a_body_that_cannot_be_traced_is_named() -> None:
    with pytest.raises(UnsupportedCase, match="Python body of ortable_regions::through_numpy"):
        to_onnx(Numpy(), (X,), export_options=CUSTOM)


@torch.library.custom_op("ortable_regions::by_length", mutates_args=())
def by_length(x: Tensor) -> Tensor:
    """Branch on a size inside an operator, which is opaque to torch.export."""
    return x * 2 if x.shape[0] > 4 else x * 3


@by_length.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("ortable_regions::itself", mutates_args=())
def recursive(x: Tensor) -> Tensor:
    return torch.ops.ortable_regions.itself(x[1:]) if x.shape[0] > 1 else x


@recursive.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class TwoLengths(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        return by_length(x), by_length(y)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("dim", [str, torch.export.Dim])
def test_a_body_that_branches_on_a_size_makes_a_guard(dim: Any, inline: bool) -> None:
    module, args = TwoLengths(), (torch.randn(6), torch.randn(7))
    shapes = {"x": {0: dim("n")}, "y": {0: dim("k")}}
    with pytest.warns(
        UserWarning, match=r"holds only for sizes with\n  n > 4\n(?s:.*)in by_length"
    ):
        program = export(module, args, dynamic_shapes=shapes, export_options=CUSTOM, inline=inline)
    for n, k in ((6, 7), (5, 9)):
        example = (torch.randn(n), torch.randn(k))
        assert_close(list(program(*example)), eager(module, example))
    for n, k in ((4, 7), (6, 4)):
        with pytest.raises(InputError, match=r"holds only for sizes with . > 4"):
            program(torch.randn(n), torch.randn(k))
    error_options = dataclasses.replace(CUSTOM, guards="error")
    with pytest.raises(ExportError, match=r"(?s)n > 4.*k > 4"):
        to_onnx(module, args, dynamic_shapes=shapes, export_options=error_options, inline=inline)


def test_a_body_that_calls_the_operator_is_named() -> None:
    class CallsRecursive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return recursive(x)

    with pytest.raises(UnsupportedCase, match="body of ortable_regions::itself calls the operator"):
        to_onnx(CallsRecursive(), (X,), export_options=CUSTOM)


def test_a_converter_of_the_user_comes_before_the_body() -> None:
    def convert_to_add(graph: Any, res: Any, x: str) -> str:
        return graph.make_node("Add", [x, x], [res.name])

    model = to_onnx(
        Numpy(),
        (X,),
        export_options=CUSTOM,
        dispatcher={"ortable_regions::through_numpy": convert_to_add},
    )
    assert not model.functions and [n.op_type for n in model.graph.node] == ["Add"]
    assert_close(run_onnx(model, feeds_of(model, (X,))), eager(copy.deepcopy(Numpy()), (X,)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functions": ("modules",)}, "ExportOptions.functions holds names among"),
        ({"function_weights": "both"}, "ExportOptions.function_weights is one of"),
    ],
)
def test_other_values_are_refused(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ExportOptions(**options)
