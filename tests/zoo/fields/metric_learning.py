"""Losses of metric learning, with miners, proxies and memories."""

from __future__ import annotations

import torch

from tests.zoo.modules import Pipeline
from tests.zoo.program import MODES, Program


def _embeddings(loss: torch.nn.Module, modes: tuple[str, ...] = MODES) -> Program:
    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 8), torch.arange(4 * n) % 3

    return Program(Pipeline(torch.nn.Linear(8, 6), loss), make, modes)


def pytorch_metric_learning__arcface() -> Program:
    from pytorch_metric_learning.losses import ArcFaceLoss

    return _embeddings(ArcFaceLoss(3, 6))


def pytorch_metric_learning__multi_similarity() -> Program:
    from pytorch_metric_learning.losses import MultiSimilarityLoss

    return _embeddings(MultiSimilarityLoss())


def pytorch_metric_learning__mined_triplets() -> Program:
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    class Mined(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.miner, self.loss = TripletMarginMiner(0.3, "semihard"), TripletMarginLoss(0.3)

        def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.loss(embeddings, labels, self.miner(embeddings, labels))

    return _embeddings(Mined())


def pytorch_metric_learning__ntxent_with_memory() -> Program:
    from pytorch_metric_learning.losses import CrossBatchMemory, NTXentLoss

    # every call changes what it remembers
    return _embeddings(CrossBatchMemory(NTXentLoss(0.1), 6, memory_size=32), ("train",))


def pytorch_metric_learning__soft_triple() -> Program:
    from pytorch_metric_learning.losses import ProxyAnchorLoss, SoftTripleLoss

    class Losses(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.anchors, self.centers = ProxyAnchorLoss(3, 6), SoftTripleLoss(3, 6, 2)

        def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.anchors(embeddings, labels) + self.centers(embeddings, labels)

    return _embeddings(Losses())
