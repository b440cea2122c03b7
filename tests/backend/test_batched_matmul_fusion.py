"""Products of more than two dimensions, which AOTAutograd flattens, are one MatMul in inference."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F


def get_op_types(function, *arguments, grad=False, atol=1e-5, **kwargs):
    """Compare results with eager; return the operators of the first ONNX graph."""
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(function, backend="ortable", fullgraph=True, options=options, **kwargs)
    with torch.set_grad_enabled(grad):
        expected, results = function(*arguments), compiled(*arguments)
    torch.testing.assert_close(results, expected, atol=atol, rtol=1e-5)
    assert [t.stride() for t in as_tuple(results)] == [t.stride() for t in as_tuple(expected)]
    return [node.op_type for node in storage["instance"][0]["onnx"].graph.node]


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


x, w = torch.randn(2, 5, 3), torch.randn(4, 3)


def test_linear_without_bias_is_one_product():
    assert get_op_types(F.linear, x, w) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 1, 5, 3), (1, 2, 1, 5, 3)])
def test_a_matrix_on_the_right_is_one_product(shape):
    assert get_op_types(torch.matmul, torch.randn(shape), torch.randn(3, 4)) == ["MatMul"]


def test_a_gate_needs_no_reshape():
    def apply_gated_layer(x, a, b, c):
        return F.linear(F.silu(F.linear(x, a)) * F.linear(x, b), c)

    op_types = get_op_types(apply_gated_layer, x, w, torch.randn(4, 3), torch.randn(3, 4))
    assert op_types.count("MatMul") == 3
    assert "Reshape" not in op_types


def test_dynamic_leading_sizes():
    x = torch.randn(2, 5, 3)
    torch._dynamo.mark_dynamic(x, (0, 1))
    assert get_op_types(F.linear, x, w) == ["Transpose", "MatMul"]


def test_ints_and_complex_numbers():
    ints = torch.arange(30).reshape(2, 5, 3), torch.arange(12).reshape(3, 4)
    assert "Reshape" not in get_op_types(torch.matmul, *ints)
    pairs = torch.randn(2, 5, 3, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
    get_op_types(torch.matmul, *pairs)


def test_a_bias_stays_with_gemm():
    assert get_op_types(F.linear, x, w, torch.randn(4)) == ["Reshape", "Gemm"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (x.reshape(10, 3) @ w.t()).view(5, 2, 4),  # other leading sizes
        lambda x, w: (x.reshape(10, 3) @ w.t()).view(2, 5, 2, 2),
        lambda x, w: (x.reshape(6, 5) @ x.reshape(5, 6)).view(2, 3, 6),
        lambda x, w: x.reshape(10, 3) @ w.t(),
    ],
)
def test_other_views_stay(function):
    get_op_types(function, x, w)


def test_a_flat_product_that_is_a_result_stays():
    def function(x, w):
        rows = x.reshape(10, 3) @ w.t()
        return rows, rows.view(2, 5, 4) + 1

    get_op_types(function, x, w)


def test_what_trains_stays_flat():
    weight = w.clone().requires_grad_()
    assert get_op_types(F.linear, x, weight, grad=True) == ["Reshape", "Gemm"]
