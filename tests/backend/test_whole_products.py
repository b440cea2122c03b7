"""Products of more than two dimensions, which AOTAutograd flattens, are one MatMul again in
inference; what is no such product, and what trains, stays as it is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F


def run(function, *arguments, grad=False, atol=1e-5, **kwargs):
    """Compares with eager; the operators of the ONNX graph of the first record."""
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(function, backend="ortable", fullgraph=True, options=options, **kwargs)
    with torch.set_grad_enabled(grad):
        expected, got = function(*arguments), compiled(*arguments)
    torch.testing.assert_close(got, expected, atol=atol, rtol=1e-5)
    assert [t.stride() for t in flat(got)] == [t.stride() for t in flat(expected)]
    return [node.op_type for node in storage["instance"][0]["onnx"].graph.node]


def flat(results):
    return results if isinstance(results, tuple) else (results,)


x, w = torch.randn(2, 5, 3), torch.randn(4, 3)


def test_linear_without_bias_is_one_product():
    assert run(F.linear, x, w) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 1, 5, 3), (1, 2, 1, 5, 3)])
def test_a_matrix_on_the_right_is_one_product(shape):
    assert run(torch.matmul, torch.randn(shape), torch.randn(3, 4)) == ["MatMul"]


def test_a_gate_needs_no_reshape():
    def gated(x, a, b, c):
        return F.linear(F.silu(F.linear(x, a)) * F.linear(x, b), c)

    found = run(gated, x, w, torch.randn(4, 3), torch.randn(3, 4))
    assert found.count("MatMul") == 3
    assert "Reshape" not in found


def test_dynamic_leading_sizes():
    x = torch.randn(2, 5, 3)
    torch._dynamo.mark_dynamic(x, (0, 1))
    assert run(F.linear, x, w) == ["Transpose", "MatMul"]


def test_ints_and_complex_numbers():
    ints = torch.arange(30).reshape(2, 5, 3), torch.arange(12).reshape(3, 4)
    assert "Reshape" not in run(torch.matmul, *ints)
    pairs = torch.randn(2, 5, 3, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
    run(torch.matmul, *pairs)


def test_a_bias_stays_with_gemm():
    assert run(F.linear, x, w, torch.randn(4)) == ["Reshape", "Gemm"]


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
    run(function, x, w)


def test_a_flat_product_that_is_a_result_stays():
    def function(x, w):
        rows = x.reshape(10, 3) @ w.t()
        return rows, rows.view(2, 5, 4) + 1

    run(function, x, w)


def test_what_trains_stays_flat():
    weight = w.clone().requires_grad_()
    assert run(F.linear, x, weight, grad=True) == ["Reshape", "Gemm"]
