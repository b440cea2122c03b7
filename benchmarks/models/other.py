"""Models that are neither convolutional nor transformers: an LSTM tagger and a DLRM."""

from __future__ import annotations

import torch
from torch import nn


class LstmTagger(nn.Module):
    """Embedding, LSTM, linear layer: int64[n, t] -> float32[n, t, tags]."""

    def __init__(
        self, vocabulary: int = 1000, width: int = 128, layers: int = 2, tags: int = 16
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=layers, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(ids))[0])


class Dlrm(nn.Module):
    """The recommendation model DLRM (Naumov et al., 2019, arXiv:1906.00091).

    Dense features go through an MLP, sparse features through summed embeddings, and the pairwise
    products of both through a second MLP. The arguments are float32[n, dense], then int64 indices
    and int64[n] offsets of each table.
    """

    def __init__(
        self, tables: int = 8, rows: int = 10000, width: int = 32, dense: int = 13
    ) -> None:
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(
            nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU()
        )
        count = tables + 1
        first, second = torch.tril_indices(count, count, offset=-1)
        self.register_buffer("first", first)
        self.register_buffer("second", second)
        self.top = nn.Sequential(
            nn.Linear(width + count * (count - 1) // 2, 128),
            nn.ReLU(),
            nn.Linear(128, 1),
            nn.Sigmoid(),
        )

    def forward(self, dense: torch.Tensor, *sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        pairs = zip(self.bags, sparse[::2], sparse[1::2], strict=True)
        features = torch.stack([x, *(bag(ids, offsets) for bag, ids, offsets in pairs)], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.first, self.second]
        return self.top(torch.cat([x, products], dim=1))
