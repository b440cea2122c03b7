"""Twelve small models, each with an example of batch 1, for test_batch_one.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, ViTConfig, ViTModel
from transformers.cache_utils import DynamicCache

Call = tuple[tuple[Any, ...], dict[str, Any]]
MakeCall = Callable[[int], Call]


@dataclass(frozen=True)
class Case:
    """A module, its call for a batch size, its dynamic sizes and the batch sizes to run."""

    module: nn.Module
    call: MakeCall
    dynamic: dict[str, Any]
    batches: tuple[int, ...] = (1, 2, 5, 0)


def _images(*shape: int) -> MakeCall:
    return lambda batch: ((torch.randn(batch, *shape),), {})


class Attention(nn.Module):
    """Self-attention without its weights, of which eager returns none for an empty batch."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class GruAfterAttention(Attention):
    """A recurrent layer over the result of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(16, 8, batch_first=True)

    def forward(self, x):
        return self.gru(super().forward(x))


class TwoLstms(nn.Module):
    """A bidirectional LSTM of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (hidden, _) = self.lstm(x)
        return y, hidden


class UNet(nn.Module):
    """A U-Net of one level, which resizes the upsampled half to the skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = F.relu(self.first(x))
        up = self.up(F.relu(self.down(skip)))
        up = F.interpolate(up, size=skip.shape[2:], mode="bilinear")
        return self.last(torch.cat([skip, up], 1))


class Detector(nn.Module):
    """A detector that returns the anchor boxes of the highest scores."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.BatchNorm2d(8))
        self.boxes, self.scores = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 6, 1)

    def forward(self, x):
        features = F.silu(self.body(x))
        batch, _, height, width = features.shape
        deltas = self.boxes(features).view(batch, 2, 4, -1).permute(0, 3, 1, 2).flatten(1, 2)
        scores = self.scores(features).view(batch, 2, 3, -1).permute(0, 3, 1, 2).flatten(1, 2)
        rows, columns = torch.arange(height) * 4.0 + 2, torch.arange(width) * 4.0 + 2
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centers = torch.stack([x, y], -1).view(-1, 1, 2).expand(-1, 2, -1).reshape(1, -1, 2)
        corner = centers - deltas[..., :2].exp()
        boxes = torch.cat([corner, centers + deltas[..., 2:].exp()], -1)
        best, classes = scores.sigmoid().max(-1)
        best, order = best.topk(5, 1)
        return boxes.gather(1, order[..., None].expand(-1, -1, 4)), best, classes.gather(1, order)


class YoloClassifier(nn.Module):
    """Convolutions, a block of attention over positions, and a classifier head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.inner = nn.Conv2d(4, 4, 3, padding=1)
        self.qkv, self.encoding = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        skipped, processed = x.chunk(2, 1)
        x = torch.cat([skipped, processed + F.silu(self.inner(processed))], 1)
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(x).view(batch, 2, 12, height * width).split([4, 4, 4], 2)
        weights = (q.transpose(-2, -1) @ k * 0.5).softmax(-1)
        attended = (v @ weights.transpose(-2, -1)).view(batch, channels, height, width)
        x = x + attended + self.encoding(v.reshape(batch, channels, height, width))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(1)


@dataclass
class Pair:
    """Two tensors of the same batch size."""

    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair)


class PairModel(nn.Module):
    """A model whose argument is a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, pair):
        return self.layer(pair.left) * pair.right.sigmoid()


class Bert(nn.Module):
    """BERT with an attention mask."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = BertModel(
            BertConfig(
                vocab_size=50,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=32,
            )
        )

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask=attention_mask).last_hidden_state


class Llama(nn.Module):
    """A decoder with a cache that returns the logits and the keys of the first layer."""

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            intermediate_size=32,
        )
        self.model = LlamaForCausalLM(config)

    def forward(self, input_ids, past_key_values):
        out = self.model(input_ids, past_key_values=past_key_values, use_cache=True)
        return out.logits, out.past_key_values.layers[0].keys


class Vit(nn.Module):
    """A vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = ViTModel(
            ViTConfig(
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                image_size=16,
                patch_size=8,
            ),
            add_pooling_layer=False,
        )

    def forward(self, pixels):
        return self.vit(pixels).last_hidden_state


def _bert_call(batch: int) -> Call:
    mask = torch.ones(batch, 6, dtype=torch.int64)
    mask[1:, 4:] = 0
    return (torch.randint(0, 50, (batch, 6)), mask), {}


def _cache_call(batch: int) -> Call:
    layers = [(torch.randn(batch, 2, 3, 8), torch.randn(batch, 2, 3, 8)) for _ in range(2)]
    return (), {
        "input_ids": torch.randint(0, 50, (batch, 2)),
        "past_key_values": DynamicCache(layers),
    }


def _pair_call(batch: int) -> Call:
    return (Pair(torch.randn(batch, 5, 16), torch.randn(batch, 5, 16)),), {}


BATCH = {0: "batch"}
CASES: dict[str, Callable[[], Case]] = {
    "attention": lambda: Case(Attention(), _images(5, 16), {"x": BATCH}),
    "encoder layer": lambda: Case(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), _images(5, 16), {"src": BATCH}
    ),
    "GRU after attention": lambda: Case(GruAfterAttention(), _images(5, 16), {"x": BATCH}),
    "LSTM": lambda: Case(TwoLstms(), _images(5, 16), {"x": BATCH}),
    "conv net": lambda: Case(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 4),
        ),
        _images(3, 8, 8), {"input": BATCH},
    ),
    "U-Net": lambda: Case(
        UNet(), _images(3, 8, 8), {"x": {0: "batch", 2: "height", 3: "width"}}
    ),
    "BERT": lambda: Case(Bert(), _bert_call, {"input_ids": BATCH, "attention_mask": BATCH}),
    "detector": lambda: Case(Detector(), _images(3, 16, 16), {"x": BATCH}),
    "cache": lambda: Case(
        Llama(), _cache_call, {"input_ids": BATCH, "past_key_values": [BATCH] * 4}
    ),
    "dataclass": lambda: Case(PairModel(), _pair_call, {"pair": Pair(BATCH, BATCH)}),
    "YOLO": lambda: Case(YoloClassifier(), _images(3, 16, 16), {"x": BATCH}),
    "ViT": lambda: Case(Vit(), _images(3, 16, 16), {"pixels": BATCH}),
}  # fmt: skip
