"""Attention whose queries share keys and values, exported with every dimension dynamic: the numbers
of heads, too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from ortable.exporter import to_onnx

from .helpers import assert_same


class Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)


def heads(batch: tuple[int, ...], queries: int, shared: int) -> tuple[torch.Tensor, ...]:
    keys = (*batch, shared, 6, 8)
    return torch.randn(*batch, queries, 3, 8), torch.randn(keys), torch.randn(keys)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize(("batch", "queries", "shared"), [((2,), 6, 2), ((2,), 4, 4), ((), 4, 4)])
def test_numbers_of_heads_may_be_dynamic(batch, queries, shared, opset, causal) -> None:
    args = heads(batch, queries, shared)
    every = tuple(dict.fromkeys(range(x.ndim), Dim.AUTO) for x in args)
    model = to_onnx(Attention(causal), args, dynamic_shapes=every, target_opset=opset)
    assert_same(model, Attention(causal), args)
    assert_same(model, Attention(causal), heads(tuple(n + 1 for n in batch), queries, shared))
