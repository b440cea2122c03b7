"""Quantization of a matrix to codes and scales, and the values that `weights=` accepts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

from ortable import WeightOptions
from ortable.builder import GraphBuilder
from ortable.errors import OptionError
from ortable.passes.quantize_weights import quantize_weights
from ortable.passes.weight_quantization import QuantizationRun, parse_weights, quantize_matrix

CHOICES = [
    (kind, size, symmetric)
    for kind in ("int4", "int8")
    for size in (16, 64)
    for symmetric in (True, False)
]


def to_floats(codes: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.float32))


def dequantize(quantized, size: int) -> torch.Tensor:
    codes, scales = to_floats(quantized.codes), torch.from_numpy(quantized.scales)
    wide_scales = scales.repeat_interleave(size, 1)[:, : codes.shape[1]]
    if quantized.zeros is None:
        return codes * wide_scales
    return (
        codes - to_floats(quantized.zeros).repeat_interleave(size, 1)[:, : codes.shape[1]]
    ) * wide_scales


@pytest.mark.parametrize(("kind", "size", "symmetric"), CHOICES)
@pytest.mark.parametrize("inner", [64, 70])
def test_the_error_is_that_of_the_codes(kind, size, symmetric, inner) -> None:
    weight = torch.randn(6, inner, generator=torch.Generator().manual_seed(0))
    weight[2] = 0
    weight[3] = weight[3].abs()
    options = WeightOptions(kind=kind, group_size=size, symmetric=symmetric)
    quantized = quantize_matrix(weight, options)
    steps = torch.from_numpy(quantized.scales).abs().repeat_interleave(size, 1)[:, :inner]
    errors = (dequantize(quantized, size) - weight).abs()
    # the extremes of a group may be clipped
    assert bool((errors <= 0.5 * steps * (1 + 1e-5) + 1e-7).double().mean() > 0.9)
    expected_error = float((dequantize(quantized, size) - weight).norm() / weight.norm())
    assert quantized.error == pytest.approx(expected_error, rel=1e-4)


def test_codes_have_the_types_of_their_kind() -> None:
    weight = torch.randn(4, 32)
    dtypes = {
        (kind, symmetric): str(
            quantize_matrix(weight, WeightOptions(kind, symmetric=symmetric)).codes.dtype
        )
        for kind in ("int4", "int8")
        for symmetric in (True, False)
    }
    assert dtypes == {
        ("int4", True): "int4", ("int4", False): "uint4",
        ("int8", True): "int8", ("int8", False): "uint8",
    }  # fmt: skip


def test_a_weight_of_other_strides_is_rounded_as_its_copy() -> None:
    weight = torch.randn(32, 6).t()
    view, copy = (quantize_matrix(m, WeightOptions()) for m in (weight, weight.contiguous()))
    assert np.array_equal(view.codes.view(np.uint8), copy.codes.view(np.uint8))
    assert np.array_equal(view.scales, copy.scales)


def test_names_choose_weights() -> None:
    options = WeightOptions(include=("layers.*",), exclude=("*.head.*", "layers.1.a[0]"))
    assert options.chooses("layers.0.a")
    assert not options.chooses("layers.0.head.weight")
    assert not options.chooses("embed.weight")
    assert not options.without(["layers.2.b[1]"]).chooses("layers.2.b[1]")
    assert options.without(["layers.2.b[1]"]).chooses("layers.2.b1")


def test_patterns_choose_bits() -> None:
    options = WeightOptions(bits={"head.*": 8, "*.weight": 4}, kind="int8")
    names = {"head.weight": 8, "up.weight": 4, "table": 8}
    assert {name: options.bits_of(name) for name in names} == names
    raised = options.with_bits(["up.weight", "a[0]"], 8)
    assert raised.bits_of("up.weight") == raised.bits_of("a[0]") == 8
    assert raised.bits_of("down.weight") == 4
    assert WeightOptions(bits=[["a", 8]]).bits == (("a", 8),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("int3", "'int4', 'int8'"),
        ({"kind": "int2"}, "kind is"),
        ({"width": 4}, "unknown field 'width'; known are kind, group_size"),
        ({"bits": 4}, "bits maps names of weights to 4 or 8"),
        ({"bits": {"a": 3}}, "bits maps names of weights to 4 or 8"),
        ({"bits": {"a": 8}, "activations": "float32"}, "convert the whole weight to floats"),
        ({"kind": "float16", "bits": {"a": 8}}, "bits needs kind 'int4' or 'int8'"),
        ({"group_size": 48}, "group_size is 16, 32"),
        ({"symmetric": 1}, "symmetric is True or False"),
        ({"activations": "int4"}, "activations is"),
        ({"kind": "int8", "activations": "float32"}, "convert the whole weight to floats"),
        ({"exclude": 3}, "exclude is a list of names"),
    ],
)
def test_what_is_not_accepted_is_said(value, message) -> None:
    with pytest.raises(OptionError, match=message):
        parse_weights(value)


def test_a_word_a_dict_and_a_record_are_the_same() -> None:
    assert parse_weights("int8") == parse_weights({"kind": "int8"}) == WeightOptions("int8")
    assert parse_weights(None) is None
    assert parse_weights({"include": "a.*"}).include == ("a.*",)


def test_a_place_that_rules_refuse_is_in_no_account() -> None:
    """A product of unknown shape keeps its weight, and the report does not list it."""
    make_node, make_info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make_node("Strange", ["a"], ["x"], domain="foreign"),
        make_node("MatMul", ["x", "kept"], ["y"]),
        make_node("Strange", ["y"], ["found"], domain="foreign"),
        make_node("MatMul", ["a", "taken"], ["other"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones((64, 48), np.float32) * number, name)
        for number, name in enumerate(("kept", "taken"), 1)
    ]
    a, *results = (
        make_info(name, 1, [2, size]) for name, size in (("a", 64), ("found", 48), ("other", 48))
    )
    graph = helper.make_graph(nodes, "graph", [a], results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("foreign", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    builder = GraphBuilder(model, target="onnxruntime")
    rounding = quantize_weights(builder, QuantizationRun(WeightOptions()))
    assert [node.op_type for node in builder.nodes] == [
        "Strange",
        "MatMul",
        "Strange",
        "MatMulNBits",
    ]
    assert list(rounding.rounded) == ["taken"]


@pytest.mark.parametrize(("kind", "limit"), [("int4", 8), ("int8", 128)])
def test_weights_that_are_codes_times_a_scale_are_kept(kind: str, limit: int) -> None:
    """The positive limit of the codes is one less than the negative limit."""
    expected = torch.randint(-limit, limit, (2, 64))
    expected[:, ::32] = -limit  # once in every group
    quantized = quantize_matrix(expected / 4, WeightOptions(kind, symmetric=True))  # type: ignore[arg-type]
    assert quantized.error == 0.0
    actual = np.asarray(quantized.codes, np.int32).reshape(expected.shape)
    assert np.array_equal(actual, expected.numpy())
