"""torch.onnx.ops: symbolic nodes and operators of opset 23; number arguments in torch.vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from onnx.helper import get_attribute_value

from ortable import ExportOptions, to_onnx
from ortable.errors import ConversionError, UnsupportedCase

from .helpers import assert_same


def module_of(function) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: Any = None, z: Any = None):
            return function(*(value for value in (x, y, z) if value is not None))

    return Module()


def symbolic(name: str, attributes: Any = None, **options: Any) -> torch.nn.Module:
    def call(x, *more):
        arguments = {"dtype": x.dtype, "shape": x.shape, **options}
        return torch.onnx.ops.symbolic(name, (x, *more), attributes, **arguments)

    return module_of(call)


def properties(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def test_metadata_of_the_user_stands_beside_ours() -> None:
    module = symbolic("my.domain::Op", metadata_props={"who": "me", "source": "mine"}, version=1)
    (node,) = to_onnx(module, (torch.rand(2),)).graph.node
    metadata = properties(node)
    assert metadata["who"] == "me" and metadata["source"] == "mine"
    assert metadata["aten_target"] == "onnx_symbolic._symbolic.default"


def test_every_kind_of_attribute_is_kept() -> None:
    attributes = {
        "name": "a", "inputs": [1, 2], "domain": 1.5, "flag": True,
        "floats": [1.0, 2], "texts": ["a"],
    }  # fmt: skip
    (node,) = to_onnx(symbolic("my.domain::Op", attributes), (torch.rand(2),)).graph.node
    result = {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}
    assert result == {
        "name": b"a", "inputs": [1, 2], "domain": 1.5, "flag": 1, "floats": [1.0, 2.0],
        "texts": [b"a"],
    }  # fmt: skip


@pytest.mark.parametrize("opset", [20, 21, 26])
def test_an_operator_of_onnx_runs_in_every_opset_that_defines_it_alike(opset) -> None:
    module = symbolic("Gelu", {"approximate": "tanh"}, version=20)
    model = to_onnx(module, (torch.rand(2, 3),), target_opset=opset)
    gelu = module_of(lambda x: torch.nn.functional.gelu(x, approximate="tanh"))
    assert [node.op_type for node in model.graph.node] == ["Gelu"]
    assert_same(model, gelu, (torch.randn(2, 3),))


def test_an_operator_of_another_version_than_the_models_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"Gelu is requested in version 20.*version 18"):
        to_onnx(symbolic("Gelu", version=20), (torch.rand(2),), target_opset=18)
    with pytest.raises(UnsupportedCase, match="Reshape is requested in version 5"):
        to_onnx(symbolic("Reshape", version=5), (torch.rand(2), torch.tensor([2])))


def test_a_type_or_shape_that_onnx_contradicts_is_an_error() -> None:
    with pytest.raises(ConversionError, match="computes float32, torch computes int64"):
        to_onnx(symbolic("Relu", dtype=torch.int64), (torch.rand(2),))
    with pytest.raises(ConversionError, match="shape"):
        to_onnx(symbolic("Relu", shape=[3]), (torch.rand(2),))


def test_several_outputs_with_dynamic_shapes() -> None:
    def call(x):
        values, indices = torch.onnx.ops.symbolic_multi_out(
            "TopK", (x, torch.tensor([2])), {"axis": 1}, dtypes=(x.dtype, torch.int64),
            shapes=((x.shape[0], 2), (x.shape[0], 2)), metadata_props={"k": "two"},
        )  # fmt: skip
        return values + 0, indices

    model = to_onnx(module_of(call), (torch.rand(3, 4),), dynamic_shapes={"x": {0: "n"}})
    topk = next(node for node in model.graph.node if node.op_type == "TopK")
    assert properties(topk)["k"] == "two"
    expected = module_of(lambda x: tuple(torch.topk(x, 2, dim=1)))
    assert_same(model, expected, (torch.rand(5, 4),))


# -- the operators of opset 23


def attention(q, k, v):
    return torch.onnx.ops.attention(q, k, v, is_causal=True)[0]


def rotary(x, cos, sin):
    return torch.onnx.ops.rotary_embedding(x, cos, sin, interleaved=True)


CALLS = {
    "Attention": (attention, lambda: [torch.rand(1, 2, 3, 4) for _ in range(3)]),
    "RotaryEmbedding": (
        rotary,
        lambda: [torch.rand(2, 2, 3, 4), torch.rand(2, 3, 2), torch.rand(2, 3, 2)],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_operators_of_opset_23_are_one_node_there(name) -> None:
    function, make_args = CALLS[name]
    args = tuple(make_args())
    module = module_of(function)
    model = to_onnx(module, args, target_opset=23)
    assert [node.op_type for node in model.graph.node] == [name]
    assert_same(model, module, args)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("opset", [18, 22])
def test_operators_of_opset_23_are_written_out_below(name, opset) -> None:
    function, make_args = CALLS[name]
    args = tuple(make_args())
    module = module_of(function)
    model = to_onnx(module, args, target_opset=opset)
    assert name not in [node.op_type for node in model.graph.node]
    steps = {p.key: p.value for p in model.metadata_props}["ortable.steps"]
    assert f"onnx::{name}" in steps
    assert_same(model, module, args)


# -- torch.arange between sizes of an input, with negative and float steps


class RangeOfSize(torch.nn.Module):
    def __init__(self, function: Callable[[int], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x.shape[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda n: torch.arange(n, -n, -1.0),
        lambda n: torch.arange(n, -n, -1.0, dtype=torch.int64),
        lambda n: torch.arange(0, n, 0.5),
        lambda n: torch.arange(0.0, n, 0.3),
        lambda n: torch.arange(n, 0, -2),
        lambda n: torch.arange(n * 0.5),
    ],
    ids=["down", "down in ints", "halves", "thirds", "twos", "float end"],
)
def test_a_range_between_sizes(function) -> None:
    module = RangeOfSize(function)
    model = to_onnx(module, (torch.rand(5),), dynamic_shapes={"x": {0: "n"}})
    for size in (5, 2, 8):
        assert_same(model, module, (torch.rand(size),))


# -- torch.vmap, whose graphs have numbers as arguments of type tensor


X = torch.tensor([-1.0, 0.5, 2.0])


class Mapped(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = torch.vmap(function)

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda a: a + 1, X),
        (lambda a: 2.5 * a, X.half()),
        (lambda a: 1 / a, X.double()),
        (lambda a: torch.dot(a, a) - 3, torch.ones(2, 3)),
        (lambda a: a + 2.5, torch.arange(3)),
        (lambda a: a + 1, torch.tensor([True, False])),
        (lambda a: torch.add(a, 1, alpha=2), X),
    ],
    ids=["float32", "float16", "float64", "dot", "int64", "bool", "alpha"],
)
def test_a_number_beside_numbers_of_a_batch(function, x) -> None:
    module = Mapped(function)
    assert_same(to_onnx(module, (x,)), module, (x,))


@pytest.mark.parametrize("strict", [False, True])
def test_a_free_batch_and_both_modes(strict) -> None:
    module = Mapped(lambda a: a * 2 + 1)
    options = ExportOptions(strict=strict)
    model = to_onnx(module, (X,), dynamic_shapes={"x": {0: "n"}}, export_options=options)
    for size in (3, 5, 1):
        assert_same(model, module, (torch.rand(size),))


def test_a_number_made_of_a_size() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(lambda a: a * (x.shape[0] * 0.5))(x)

    model = to_onnx(Scaled(), (X,), dynamic_shapes={"x": {0: "n"}})
    for size in (3, 4):
        assert_same(model, Scaled(), (torch.rand(size),))
