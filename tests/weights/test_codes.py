"""How a matrix becomes codes and scales: every code is the nearest one, whole groups and short
ones, and what `weights=` accepts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

from ortable import WeightOptions
from ortable.builder import GraphBuilder
from ortable.errors import OptionError
from ortable.passes.quantize_weights import quantize_weights
from ortable.passes.weight_quantization import parse_weights, quantize_matrix

CHOICES = [
    (kind, size, symmetric)
    for kind in ("int4", "int8")
    for size in (16, 64)
    for symmetric in (True, False)
]


def floats(codes: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.float32))


def back(found, size: int) -> torch.Tensor:
    """The matrix that codes stand for."""
    codes, scales = floats(found.codes), torch.from_numpy(found.scales)
    wide = scales.repeat_interleave(size, 1)[:, : codes.shape[1]]
    if found.zeros is None:
        return codes * wide
    return (codes - floats(found.zeros).repeat_interleave(size, 1)[:, : codes.shape[1]]) * wide


@pytest.mark.parametrize(("kind", "size", "symmetric"), CHOICES)
@pytest.mark.parametrize("inner", [64, 70])
def test_no_code_is_further_off_than_half_a_step(kind, size, symmetric, inner) -> None:
    weight = torch.randn(6, inner, generator=torch.Generator().manual_seed(0))
    weight[2] = 0
    weight[3] = weight[3].abs()
    options = WeightOptions(kind=kind, group_size=size, symmetric=symmetric)
    found = quantize_matrix(weight, options)
    steps = torch.from_numpy(found.scales).abs().repeat_interleave(size, 1)[:, :inner]
    gap = (back(found, size) - weight).abs()
    # the largest number of a symmetric group has the code on its own side; one of the same size on
    # the other side has none of its own
    most = 1.0 if symmetric else 0.5
    assert bool((gap <= most * steps * (1 + 1e-5) + 1e-7).all())
    assert bool((gap <= 0.5 * steps * (1 + 1e-5) + 1e-7).double().mean() > 0.95)
    wanted = float((back(found, size) - weight).norm() / weight.norm())
    assert found.error == pytest.approx(wanted, rel=1e-4)


def test_codes_have_the_types_of_their_kind() -> None:
    weight = torch.randn(4, 32)
    kinds = {
        (kind, symmetric): str(
            quantize_matrix(weight, WeightOptions(kind, symmetric=symmetric)).codes.dtype
        )
        for kind in ("int4", "int8")
        for symmetric in (True, False)
    }
    assert kinds == {
        ("int4", True): "int4", ("int4", False): "uint4",
        ("int8", True): "int8", ("int8", False): "uint8",
    }  # fmt: skip


def test_a_weight_of_other_strides_is_rounded_as_its_copy() -> None:
    weight = torch.randn(32, 6).t()
    one, other = (quantize_matrix(each, WeightOptions()) for each in (weight, weight.contiguous()))
    assert np.array_equal(one.codes.view(np.uint8), other.codes.view(np.uint8))
    assert np.array_equal(one.scales, other.scales)


def test_names_choose_weights() -> None:
    options = WeightOptions(include=("layers.*",), exclude=("*.head.*", "layers.1.a[0]"))
    assert options.chooses("layers.0.a")
    assert not options.chooses("layers.0.head.weight")
    assert not options.chooses("embed.weight")
    assert not options.without(["layers.2.b[1]"]).chooses("layers.2.b[1]")
    assert options.without(["layers.2.b[1]"]).chooses("layers.2.b1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("int3", "'int4', 'int8'"),
        ({"kind": "int2"}, "kind is"),
        ({"bits": 4}, "unknown field 'bits'; known are kind, group_size"),
        ({"group_size": 48}, "group_size is 16, 32"),
        ({"symmetric": 1}, "symmetric is True or False"),
        ({"activations": "int4"}, "activations is"),
        ({"kind": "int8", "activations": "float32"}, "convert the whole weight to floats"),
        ({"exclude": 3}, "exclude is a list of names"),
    ],
)
def test_what_is_not_accepted_is_said(given, words) -> None:
    with pytest.raises(OptionError, match=words):
        parse_weights(given)


def test_a_word_a_dict_and_a_record_are_the_same() -> None:
    assert parse_weights("int8") == parse_weights({"kind": "int8"}) == WeightOptions("int8")
    assert parse_weights(None) is None
    assert parse_weights({"include": "a.*"}).include == ("a.*",)


def test_a_place_that_rules_refuse_is_in_no_account() -> None:
    """A product whose result has no known shape keeps its weight, and nobody says otherwise."""
    make, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make("Strange", ["a"], ["x"], domain="foreign"),
        make("MatMul", ["x", "kept"], ["y"]),
        make("Strange", ["y"], ["found"], domain="foreign"),
        make("MatMul", ["a", "taken"], ["other"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones((64, 48), np.float32) * number, name)
        for number, name in enumerate(("kept", "taken"), 1)
    ]
    a, *results = (
        info(name, 1, [2, size]) for name, size in (("a", 64), ("found", 48), ("other", 48))
    )
    graph = helper.make_graph(nodes, "graph", [a], results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("foreign", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    builder = GraphBuilder(model, target="onnxruntime")
    rounding = quantize_weights(builder, parse_weights("int4"))
    assert [node.op_type for node in builder.nodes] == [
        "Strange",
        "MatMul",
        "Strange",
        "MatMulNBits",
    ]
    assert list(rounding.rounded) == ["taken"]


@pytest.mark.parametrize(("kind", "half"), [("int4", 8), ("int8", 128)])
def test_weights_that_are_codes_times_a_scale_are_kept(kind: str, half: int) -> None:
    """The largest number is one code less than the smallest."""
    wanted = torch.randint(-half, half, (2, 64))
    wanted[:, ::32] = -half  # in every group
    codes = quantize_matrix(wanted / 4, WeightOptions(kind, symmetric=True))  # type: ignore[arg-type]
    assert codes.error == 0.0
    found = np.asarray(codes.codes, np.int32).reshape(wanted.shape)
    assert np.array_equal(found, wanted.numpy())
