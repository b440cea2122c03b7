"""Faults found in transformers models, one small program each: the result equals eager."""

from __future__ import annotations

import torch

import ortable


class _ReplaceFeatures(torch.nn.Module):
    """Replace the embeddings of image tokens by image features, as multimodal models do."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask, features[mask[:, 0]])


def test_masked_scatter_of_as_many_elements_as_a_mask_has_and_of_none() -> None:
    x, features = torch.randn(3, 4), torch.randn(3, 4)
    program = ortable.export(_ReplaceFeatures(), (x, torch.zeros(3, 4).bool(), features))
    for rows in ((), (1,), (0, 2)):
        mask = torch.zeros(3, 4, dtype=torch.bool)
        mask[list(rows)] = True
        assert program(x, mask, features).equal(_ReplaceFeatures()(x, mask, features))
