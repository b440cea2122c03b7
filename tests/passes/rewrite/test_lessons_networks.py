"""Rewrites preserve network parts that resemble the pattern of a fused operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ortable
from ortable.testing.runs import ModelRunner, check_same_values

from .eager import check

INF = float("inf")


@pytest.mark.parametrize("opset", [18, 26])
def test_softmax_along_each_axis(opset: int) -> None:
    x = torch.randn(2, 3, 4)
    check(
        lambda x: (
            x.softmax(0), x.softmax(1), x.softmax(-1), x.log_softmax(1), x.softmax(1).log(),
            x.transpose(1, 2).softmax(-1).transpose(1, 2), (x - x.amax(1, True)).softmax(1),
        ),
        x,
        tolerance=1e-6,
        opset=opset,
    )  # fmt: skip


def test_hand_written_softmax() -> None:
    """Without the subtraction of the maximum, exp overflows; a rule must preserve that."""
    x = torch.tensor([[0.0, 1.0, 2.0], [100.0, 0.0, 0.0], [-INF, 0.0, 0.0]])

    def function(x: torch.Tensor) -> Any:
        exp_x = x.exp()
        return exp_x / exp_x.sum(-1, keepdim=True), exp_x / exp_x.sum(0, keepdim=True)

    assert torch.isnan(function(x)[0]).any()
    check(function, x, tolerance=1e-6)


def test_dropout_is_gone_when_the_model_is_evaluated() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5), torch.nn.ReLU())
    x = torch.randn(2, 3)
    for options in ({}, {"rewrites": "all"}):
        model = ortable.to_onnx(module.eval(), (x,), **options)
        assert "Dropout" not in [node.op_type for node in model.graph.node]
        name = model.graph.input[0].name
        check_same_values([module(x).detach()], ModelRunner(model)({name: x}))


def test_linear_layers_with_odd_biases() -> None:
    """A bias that is not a row vector is added as in torch."""
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    row, column, matrix = torch.randn(4), torch.randn(2, 1), torch.randn(2, 4)
    cube, scalar = torch.randn(2, 2, 4), torch.tensor(0.5)
    check(
        lambda x: (
            x @ w + row, x @ w + column, x @ w + matrix, x @ w + cube, x @ w + scalar,
            2.0 * (x @ w) + row, x @ w * 0.5, (x.unsqueeze(0) @ w + row).squeeze(0), row - x @ w,
            x[0] @ w + row, (w.t() @ x.t()).t(), x @ w - row,
        ),
        x,
        tolerance=2e-6,
    )  # fmt: skip


def test_integer_matrix_products_have_no_gemm() -> None:
    x, w, row = torch.arange(6).reshape(2, 3), torch.arange(12).reshape(3, 4), torch.arange(4)
    check(lambda x, w, row: (x @ w + row, (x @ w) * 2 + row), x, w, row)


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4)])
@pytest.mark.parametrize("opset", [18, 26])
def test_normalisation_by_hand(shape: tuple[int, ...], opset: int) -> None:
    """Normalize over different axes, with the unbiased variance, and without eps."""
    weight, bias = torch.randn(4), torch.randn(4)

    def function(x: torch.Tensor) -> Any:
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(-1, keepdim=True)
        other_axis = x - x.mean(0, keepdim=True)
        return (
            centred / (variance + 1e-5).sqrt() * weight + bias,
            centred / variance.sqrt(),
            centred / (x.var(-1, keepdim=True) + 1e-5).sqrt() * weight + bias,
            other_axis / (other_axis.pow(2).mean(0, keepdim=True) + 1e-5).sqrt() * weight + bias,
            centred / (variance + 1e-5).sqrt() * weight + bias + mean,
            x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight,
        )  # fmt: skip

    check(function, torch.randn(*shape), tolerance=5e-6, signs=False, opset=opset)


@pytest.mark.parametrize("opset", [18, 26])
def test_activations_by_hand(opset: int) -> None:
    """Constants close to those of a known activation must not match it."""

    def function(x: torch.Tensor) -> Any:
        return (
            0.5 * x * (1 + torch.erf(x / 2**0.5)), 0.5 * x * (1 + torch.erf(x / 1.5)),
            x * 0.5 * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))),
            x * 0.5 * (1 + torch.tanh(0.7978845608 * (x + 0.05 * x**3))),
            x * torch.sigmoid(x), x * torch.sigmoid(1.702 * x), x * torch.sigmoid(x + 1),
            x * (x + 3).clamp(0, 6) / 6, x * torch.tanh(torch.nn.functional.softplus(x)),
            0.5 * (1 + torch.erf(x / 2**0.5)) * x, x * (1 + torch.erf(x / 2**0.5)),
        )  # fmt: skip

    check(function, torch.linspace(-4, 4, 17), tolerance=2e-6, signs=False, opset=opset)


def test_attention_by_hand() -> None:
    """Vary the place of the scale, the rank of the mask and the key layout."""
    q, k, v = (torch.randn(1, 2, 3, 4) for _ in range(3))
    mask, bool_mask = torch.randn(3, 3), torch.tensor([[True, False, True]] * 3)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        scores = q @ k.transpose(-1, -2) * 0.5
        return (
            scores.softmax(-1) @ v, (scores + mask).softmax(-1) @ v,
            (q * 0.5 @ k.mT / 3).softmax(-1) @ v,
            torch.where(bool_mask, scores, -INF).softmax(-1) @ v,
            (scores.softmax(-2) @ v).transpose(1, 2),
            scores.masked_fill(~bool_mask, -1e9).softmax(-1) @ v, (q @ k.mT).softmax(-1),
        )  # fmt: skip

    other_calls = [tuple(torch.randn(1, 2, 3, 4) for _ in range(3))]
    check(function, q, k, v, more=other_calls, tolerance=5e-6, signs=False)
