"""Score functions of flex_attention that cannot be vectorized over all scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

import ortable
from ortable.errors import UnsupportedCase


class _Noisy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def score(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            return score * torch.randn(())

        return flex_attention(x, x, x, score_mod=score)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_score_function_that_draws_numbers_is_refused_with_what_torch_says() -> None:
    torch._dynamo.reset()
    message = (
        "the score or mask function of flex_attention cannot be traced over all scores: "
        "RuntimeError: vmap: called random operation"
    )
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(_Noisy(), (torch.randn(1, 2, 4, 8),))
