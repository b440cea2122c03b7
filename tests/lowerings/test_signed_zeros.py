"""Zeros have eager's sign, although ONNX Runtime's Where loses the sign in its first operand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import ortable
from tests.modules import Function
from tests.onnx_runs import run

ZEROS = [0.0, -0.0, 0.5, -0.5, 3.0, -3.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [torch.expm1, torch.sinh, torch.log1p, torch.floor_divide])
def test_zeros_have_the_sign_of_eager(
    function: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    grid = torch.cartesian_prod(torch.tensor(ZEROS, dtype=dtype), torch.tensor(ZEROS, dtype=dtype))
    args = list(grid.T.contiguous()) if function is torch.floor_divide else [grid[:, 0].clone()]
    expected = function(*args)
    (result,) = run(ortable.to_onnx(Function(function), tuple(args)), *args)
    torch.testing.assert_close(result, expected, equal_nan=True)
    zeros = expected == 0
    assert torch.equal(torch.signbit(result)[zeros], torch.signbit(expected)[zeros])
