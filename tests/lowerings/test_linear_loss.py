"""Chunked linear cross entropy with class probabilities as target, which torch has since 2.15."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.modules.linear_cross_entropy  # its import registers the operator
from packaging.version import Version
from torch.nn.functional import cross_entropy, linear

import ortable
from tests.onnx_runs import run

CHUNKED = "_linear_cross_entropy_batch_chunked"
SIZES = (2, "compact", torch.float32)  # the number of chunks, and torch's accumulation


class _ChunkedLoss(torch.nn.Module):
    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.reduction = reduction

    def forward(
        self, x: torch.Tensor, matrix: torch.Tensor, target: torch.Tensor,
        bias: torch.Tensor | None, weight: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        arguments = (x, matrix, target, bias, weight)
        if self.reduction == "none":
            rows = getattr(torch.ops.torch_nn, f"{CHUNKED}_no_reduction")
            return (rows(*arguments, -100, *SIZES),)
        op = getattr(torch.ops.torch_nn, CHUNKED)
        return op(*arguments, self.reduction, -100, 0.0, *SIZES, False, True, True, True)


def _convert_and_run(module: torch.nn.Module, *args: torch.Tensor | None) -> list[torch.Tensor]:
    return run(ortable.to_onnx(module, args), *(arg for arg in args if arg is not None))


# torch before 2.15 captures the reduced loss of probabilities, and refuses them at run time
FROM_2_15 = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.15.dev"), reason="torch takes no probs before 2.15"
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", pytest.param("none", marks=FROM_2_15)])
def test_probs_as_target(reduction: str, weighted: bool) -> None:
    torch.manual_seed(0)
    x, matrix, bias = torch.randn(5, 3), torch.randn(4, 3), torch.randn(4)
    target = torch.rand(5, 4).softmax(1)
    weight = torch.rand(4) if weighted else None
    leaves = [tensor.requires_grad_() for tensor in (x.clone(), matrix.clone(), bias.clone())]
    loss = cross_entropy(linear(*leaves), target, weight, reduction=reduction)
    expected = [loss.detach()]
    if reduction != "none":
        expected += torch.autograd.grad(loss, leaves)
    actual = _convert_and_run(_ChunkedLoss(reduction), x, matrix, target, bias, weight)
    for result, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-6)


def test_the_mean_over_no_rows_of_probs_is_nan() -> None:
    arguments = (torch.randn(0, 3), torch.randn(4, 3), torch.rand(0, 4), torch.rand(4), None)
    loss, *gradients = _convert_and_run(_ChunkedLoss("mean"), *arguments)
    assert loss.isnan() and [gradient.shape for gradient in gradients] == [(0, 3), (4, 3), (4,)]
