"""What `make fuzz` found: one test a fault, against eager or with the refusal that it now has.
Faults that one call shows are samples of their spec entries."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase
from tests.regressions.test_silently_wrong import check


def test_a_write_into_a_complex_result() -> None:
    """The functional operator stands for the write, in its form for complex tensors too."""
    check(lambda x: torch.view_as_real((torch.view_as_complex(x) * 1).add_(1)), torch.randn(3, 2))


class _MixedGradient(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.hardtanh_backward(x, y, -1, 1)


def test_several_dtypes_that_a_converter_does_not_take_are_refused() -> None:
    args = (torch.randn(4).half(), torch.randn(4))
    with pytest.raises(UnsupportedCase, match="several dtypes, float16 and float32; cast them"):
        ortable.to_onnx(_MixedGradient(), args)
