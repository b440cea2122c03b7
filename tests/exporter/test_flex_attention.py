"""flex_attention with score functions that read weights and captured tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import ortable
from ortable.exporter.to_onnx import to_onnx

from .helpers import assert_same

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class DistanceBias(torch.nn.Module):
    """Attention with a causal mask and a learned bias by distance, as a score function."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(2, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def score(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            biased = score + self.bias[head, row - column]
            return torch.where(row >= column, biased, -float("inf"))

        return flex_attention(x, x + 1, x * 2, score_mod=score)


class DocumentMask(torch.nn.Module):
    """Attention within documents; the keys have fewer heads than the queries."""

    def forward(self, x: torch.Tensor, document: torch.Tensor) -> Any:
        def visible(batch: Any, head: Any, row: Any, column: Any) -> Any:
            return (document[batch, row] == document[batch, column]) & (row >= column)

        mask = create_block_mask(visible, 2, None, 8, 8, device="cpu")
        return flex_attention(x, x[:, :1], x[:, :1] * 2, block_mask=mask, enable_gqa=True)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_attention_with_a_function_of_each_score() -> None:
    x = torch.randn(2, 2, 8, 16)
    for module, extra in (
        (DistanceBias(), ()),
        (DocumentMask(), (torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2], [0] * 8]),)),
    ):
        model = ortable.to_onnx(module, (x, *extra))
        for query in (x, x * 2):
            assert_same(model, module, (query, *extra))


# -- grouped-query attention with dynamic dimensions


class Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)


def make_qkv(batch: tuple[int, ...], queries: int, groups: int) -> tuple[torch.Tensor, ...]:
    keys = (*batch, groups, 6, 8)
    return torch.randn(*batch, queries, 3, 8), torch.randn(keys), torch.randn(keys)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize(("batch", "queries", "groups"), [((2,), 6, 2), ((2,), 4, 4), ((), 4, 4)])
def test_numbers_of_heads_may_be_dynamic(batch, queries, groups, opset, causal) -> None:
    args = make_qkv(batch, queries, groups)
    shapes = tuple(dict.fromkeys(range(x.ndim), Dim.AUTO) for x in args)
    model = to_onnx(Attention(causal), args, dynamic_shapes=shapes, target_opset=opset)
    assert_same(model, Attention(causal), args)
    assert_same(model, Attention(causal), make_qkv(tuple(n + 1 for n in batch), queries, groups))
