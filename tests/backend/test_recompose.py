"""Upsampling and other operators that AOTAutograd decomposes are recomposed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx

from ortable.backend.lower.recompose import recompose_operators
from ortable.compat.torch import get_decompositions


def get_op_types(function, *arguments, **kwargs):
    """Compare a compiled function with eager; return the node types of the ONNX graph."""
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(function, backend="ortable", fullgraph=True, options=options, **kwargs)
    with torch.no_grad():
        expected, result = function(*arguments), compiled(*arguments)
    (record,) = storage["instance"]
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-6, equal_nan=True)
    assert result.stride() == expected.stride()
    return [node.op_type for node in record["onnx"].graph.node]


@pytest.mark.parametrize("factor", [2, 4, (2, 8)])
def test_bilinear_upsampling_by_powers_of_two_is_one_resize(factor):
    def function(x):
        return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)

    assert get_op_types(function, torch.randn(2, 3, 5, 6)) == ["Resize"]


@pytest.mark.parametrize("factor", [2, 3, (1, 2)])
def test_nearest_upsampling_by_whole_factors_is_one_resize(factor):
    def function(x):
        return F.interpolate(x, scale_factor=factor, mode="nearest")

    assert get_op_types(function, torch.randn(2, 3, 5, 6)) == ["Resize"]


def test_upsampling_with_a_free_batch_size_is_one_resize():
    def function(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    x = torch.randn(2, 3, 5, 6)
    torch._dynamo.mark_dynamic(x, 0)
    assert get_op_types(function, x) == ["Resize"]


def test_rows_that_a_free_size_moves_are_no_resize():
    def function(x, y):
        rows = (torch.arange(10) + y.shape[0]).clamp(max=4)
        columns = torch.arange(12).clamp(max=5)
        return torch.ops.aten._unsafe_index(x, [None, None, rows[:, None], columns])

    y = torch.randn(3, 2)
    torch._dynamo.mark_dynamic(y, 0)
    assert "Resize" not in get_op_types(function, torch.randn(2, 3, 5, 6), y)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
        {"scale_factor": 3, "mode": "bilinear", "align_corners": False},
        {"scale_factor": 1.5, "mode": "bilinear", "align_corners": False},
        {"size": (10, 7), "mode": "bilinear", "align_corners": False},
        {"scale_factor": 0.5, "mode": "nearest"},
        {"size": (7, 12), "mode": "nearest"},
        {"scale_factor": 2, "mode": "bicubic", "align_corners": False},
        # coordinates follow from the given factor, not from the quotient of the sizes
        {"scale_factor": 2.1, "mode": "bilinear", "align_corners": False},
    ],
)
def test_other_interpolation_stays_as_torch_writes_it(settings):
    function = lambda x: F.interpolate(x, **settings)  # noqa: E731
    assert "Resize" not in get_op_types(function, torch.randn(1, 3, 5, 6))


def test_float64_stays_as_torch_writes_it():
    def function(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    assert "Resize" not in get_op_types(function, torch.randn(1, 3, 5, 6, dtype=torch.float64))


def test_a_mixture_of_other_neighbours_stays():
    rows = torch.arange(10).unsqueeze(1) // 2

    def function(x):
        return torch.ops.aten._unsafe_index(x, [None, None, rows.flip(0), torch.arange(12) // 2])

    assert "Resize" not in get_op_types(function, torch.randn(1, 3, 5, 6))


def test_upsampling_has_the_gradient_of_eager():
    def function(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False).square()

    x = torch.randn(1, 2, 4, 4)
    eager_x, compiled_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    function(eager_x).sum().backward()
    torch.compile(function, backend="ortable", fullgraph=True)(compiled_x).sum().backward()
    torch.testing.assert_close(compiled_x.grad, eager_x.grad)


def get_operators(function, *arguments):
    """Compare a compiled function with eager; return the torch operators of its graph."""
    storage = {}
    compiled = torch.compile(
        function, backend="ortable", fullgraph=True, options={"storage": storage}
    )
    with torch.no_grad():
        torch.testing.assert_close(compiled(*arguments), function(*arguments), equal_nan=True)
    return [p.operator for record in storage["instance"] for p in record.placement]


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.diff(), "aten::diff"),
        (lambda x: x[:, 1:] - x[:, :-1], "aten::diff"),
        (lambda x: x[:, -5:] - x[:, 0:5], "aten::diff"),
        (lambda x: F.max_pool1d(x, 3), "aten::max_pool1d"),
        (lambda x: F.max_pool1d(x, 3, 2, 1, 2, ceil_mode=True), "aten::max_pool1d"),
        (
            lambda x: F.max_pool2d(x.unsqueeze(-2), (1, 2), padding=(0, 1)).squeeze(-2),
            "aten::max_pool1d",
        ),
        (lambda x: F.rrelu(x), "aten::rrelu"),
        (lambda x: F.rrelu(x, 0.25, 0.5), "aten::rrelu"),
    ],
)
def test_a_decomposed_operator_is_whole_again(function, operator):
    assert get_operators(function, torch.randn(2, 6, 7)) == [operator]


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x[:, :-1] - x[:, 1:], "aten::diff"),
        (lambda x: x[:, 2:] - x[:, :-2], "aten::diff"),
        (lambda x: torch.sub(x[:, 1:], x[:, :-1], alpha=2), "aten::diff"),
        (lambda x: x[:, 1:, 1:] - x[:, :-1, :-1], "aten::diff"),
        (lambda x: F.max_pool1d(x, 3, return_indices=True), "aten::max_pool1d"),
        (lambda x: F.max_pool2d(x[:, :, None], (1, 2))[:, :, 0], "aten::max_pool1d"),
    ],
)
def test_what_is_nearly_a_decomposed_operator_stays(function, operator):
    assert operator not in get_operators(function, torch.randn(2, 6, 7))


@pytest.mark.parametrize("channels", [16, 12])
def test_max_pooling_of_an_activation_keeps_nan_and_infinity(channels):
    def function(x):
        return F.max_pool2d(torch.relu(x), 3, stride=2, padding=1)

    x = torch.randn(2, channels, 9, 11)
    x[0, 1, 4, 4], x[1, 2, 0, 0], x[1, 3, 2, 2] = torch.nan, torch.inf, -torch.inf
    x[0, 5] = 3e38  # the sum of a window exceeds float32
    op_types = get_op_types(function, x)
    assert ("IsNaN" in op_types) == (channels == 12)


def test_max_pooling_of_negative_values_looks_for_nan_itself():
    x = torch.randn(1, 16, 8, 8)
    x[0, 0, 3, 3], x[0, 1, 2, 2], x[0, 1, 2, 3] = torch.nan, -torch.inf, torch.inf
    assert "IsNaN" in get_op_types(lambda x: F.max_pool2d(x, 2), x)


def test_a_product_over_more_dimensions_is_returned_without_a_reshape():
    weight, bias = torch.nn.Parameter(torch.randn(7, 4)), torch.nn.Parameter(torch.randn(7))
    assert get_op_types(lambda x: F.linear(x, weight, bias), torch.randn(2, 3, 4)) == [
        "Reshape",
        "Gemm",
    ]


def test_the_reshape_of_a_result_that_is_returned_too():
    def function(x, weight):
        product = torch.mm(x, weight)
        return product, torch.ops.aten._unsafe_view(product, [12]), product + 1

    x, weight = torch.randn(3, 4), torch.randn(4, 4)
    compiled = torch.compile(function, backend="ortable", fullgraph=True)
    with torch.no_grad():
        first, flat, _ = compiled(x, weight)
        expected = function(x, weight)
    assert torch.equal(flat, first.flatten())
    torch.testing.assert_close(flat, expected[1])


def count_resize_nodes(factor, change=None):
    """Return the number of Resize nodes that bilinear upsampling becomes.

    `change` edits the nodes that index corners of the image; its second argument is another image.
    """

    def function(x, other):
        return F.interpolate(x, scale_factor=factor, mode="bilinear"), other * 1

    table = get_decompositions([torch.ops.aten.upsample_bilinear2d.vec])
    images = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4)
    with enable_python_dispatcher():
        module = make_fx(function, decomposition_table=table, tracing_mode="fake")(*images)
    corners = module.graph.find_nodes(
        op="call_function", target=torch.ops.aten._unsafe_index.Tensor
    )
    if change is not None:
        change(corners, module.graph.find_nodes(op="placeholder")[1])
    return recompose_operators(module)


@pytest.mark.parametrize(("factor", "count"), [(2, 1), (8, 1), (3, 0), ((1, 2), 0)])
def test_only_factors_whose_weights_are_exact_are_one_resize(factor, count):
    assert count_resize_nodes(factor) == count


@pytest.mark.parametrize("corner", range(4))
def test_corners_of_several_images_are_no_resize(corner):
    def replace_image(corners, other):
        assert len(corners) == 4
        corners[corner].args = (other, corners[corner].args[1])

    assert count_resize_nodes(2, replace_image) == 0


@pytest.mark.parametrize("corner", [1, 2, 3])
def test_corners_at_other_places_are_no_resize(corner):
    def replace_indices(corners, other):
        corners[corner].args = corners[0].args

    assert count_resize_nodes(2, replace_indices) == 0
