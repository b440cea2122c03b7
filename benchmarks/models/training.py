"""Small models without dropout whose forward returns the loss, and makers of batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .densenet import DenseNet

Batch = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Trainable:
    """A model for training: `build` makes the module, `batch` the arguments of its forward."""

    build: Callable[[], nn.Module]
    batch: Callable[[int], Batch]


class Classifier(nn.Module):
    """Cross entropy of a model's logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(x), target)


def image_batches(size: int, classes: int = 10) -> Callable[[int], Batch]:
    """Return a function that makes batches of square images, and their classes."""

    def batch(count: int) -> Batch:
        return torch.randn(count, 3, size, size), torch.randint(classes, (count,))

    return batch


def mlp_classifier(width: int = 32, hidden: int = 64) -> nn.Module:
    layers = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.GELU()]
    return Classifier(nn.Sequential(*layers, nn.LayerNorm(hidden), nn.Linear(hidden, 10)))


class Residual(nn.Module):
    """Two convolutions with batch norm, and a residual connection (He et al., 2015)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            projection = nn.Conv2d(inner, outer, 1, stride, bias=False)
            self.short = nn.Sequential(projection, nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet_classifier(width: int = 8, blocks: int = 1) -> nn.Module:
    """Build a ResNet of four stages of basic blocks."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)]
    layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = width
    for stage in range(4):
        outer = width << stage
        for block in range(blocks):
            layers.append(Residual(inner, outer, 2 if stage and not block else 1))
            inner = outer
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 10)]
    return Classifier(nn.Sequential(*layers, *head))


class Attention(nn.Module):
    """Multi-head self-attention with one projection and scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        result = F.scaled_dot_product_attention(query, key, value)
        return self.out(result.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    """A pre-norm transformer layer (Xiong et al., 2020)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """ViT: convolutional patches, class token, learned positions (Dosovitskiy et al., 2020)."""

    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(Encoder(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


class ConvNextBlock(nn.Module):
    """A block of ConvNeXt: depthwise 7x7, norm, pointwise layers, scale (Liu et al., 2022)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.scale * self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + y.permute(0, 3, 1, 2)


def convnext_classifier(width: int = 16, blocks: int = 1) -> nn.Module:
    """Build a ConvNeXt of three stages, with GroupNorm of one group between them."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), nn.GroupNorm(1, width)]
    for stage in range(3):
        layers += [ConvNextBlock(width << stage) for _ in range(blocks)]
        if stage < 2:
            downsample = nn.Conv2d(width << stage, width << stage + 1, 2, 2)
            layers += [nn.GroupNorm(1, width << stage), downsample]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(width << 2)]
    return Classifier(nn.Sequential(*layers, *head, nn.Linear(width << 2, 10)))


class LstmNet(nn.Module):
    """A bidirectional LSTM of two layers that classifies the last step."""

    def __init__(self, words: int, width: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(x))[0][:, -1])


class Recommender(nn.Module):
    """The recommendation model DLRM (Naumov et al., 2019)."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        bags = [nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)]
        self.bags = nn.ModuleList(bags)
        self.bottom = nn.Sequential(
            nn.Linear(13, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 1))
        index = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("index", index)

    def forward(
        self, dense: torch.Tensor, sparse: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        x = F.relu(self.bottom(dense))
        rows = [bag(sparse[:, i]) for i, bag in enumerate(self.bags)]
        parts = torch.stack([x, *rows], dim=1)
        products = (parts @ parts.transpose(1, 2))[:, self.index[0], self.index[1]]
        logits = self.top(torch.cat([x, products], dim=1))
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), target)


def recommendation_batches(tables: int = 4, rows: int = 50, bag: int = 3) -> Callable[[int], Batch]:
    """Return a function that makes dense features, indices of each table, and clicks."""

    def batch(count: int) -> Batch:
        indices = torch.randint(rows, (count, tables, bag))
        return torch.randn(count, 13), indices, torch.randint(2, (count,)).float()

    return batch


def word_batches(length: int, vocabulary: int, classes: int = 10) -> Callable[[int], Batch]:
    """Return a function that makes rows of tokens, and the class of each row."""

    def batch(count: int) -> Batch:
        return torch.randint(vocabulary, (count, length)), torch.randint(classes, (count,))

    return batch


class Loss(nn.Module):
    """The loss that a transformers model computes from its labels."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask, labels=labels).loss


def masked_word_batches(length: int, vocabulary: int) -> Callable[[int], Batch]:
    """Return a function that makes tokens, a mask with padding, and labels (-100: ignored)."""

    def batch(count: int) -> Batch:
        ids = torch.randint(vocabulary, (count, length))
        mask = torch.ones_like(ids)
        mask[-1, length - length // 4 :] = 0
        return ids, mask, torch.where(mask > 0, ids, -100)

    return batch


def bert_masked_lm(
    layers: int = 2, width: int = 32, vocabulary: int = 60, **overrides: Any
) -> nn.Module:
    """Build BertForMaskedLM of transformers, whose decoder is tied to the embedding."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **overrides,
    )
    return Loss(BertForMaskedLM(config))


def gpt2_lm(layers: int = 2, width: int = 32, vocabulary: int = 60, **overrides: Any) -> nn.Module:
    """Build GPT2LMHeadModel of transformers, whose head is tied to the embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        **overrides,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # without it, transformers warns, which dynamo cannot trace
    return Loss(model)


def vector_batches(width: int) -> Callable[[int], Batch]:
    """Return a function that makes random vectors, and their classes."""

    def batch(count: int) -> Batch:
        return torch.randn(count, width), torch.randint(10, (count,))

    return batch


# Models at the size of the tests.
SMALL_TRAINABLES = {
    "mlp": Trainable(mlp_classifier, vector_batches(32)),
    "resnet": Trainable(resnet_classifier, image_batches(32)),
    "densenet": Trainable(
        lambda: Classifier(DenseNet((2, 2), 8, 8, 2, 10)),
        image_batches(32),
    ),
    "bert": Trainable(bert_masked_lm, masked_word_batches(8, 60)),
    "gpt2": Trainable(gpt2_lm, masked_word_batches(8, 60)),
    "vit": Trainable(lambda: Classifier(VisionTransformer(16, 4, 32, 4, 2)), image_batches(16)),
    "convnext": Trainable(convnext_classifier, image_batches(32)),
    "lstm": Trainable(lambda: Classifier(LstmNet(40, 12, 16)), word_batches(7, 40)),
    "dlrm": Trainable(lambda: Recommender(4, 50, 8), recommendation_batches()),
}

# Benchmark models and batch sizes: a step takes milliseconds, and operators take more time than
# call overhead.
TRAINABLES = {
    "mlp": (Trainable(lambda: mlp_classifier(256, 512), vector_batches(256)), 64),
    "resnet": (Trainable(lambda: resnet_classifier(32, 2), image_batches(64)), 4),
    "densenet": (
        Trainable(lambda: Classifier(DenseNet((3, 6, 4), 16, 32, 4, 10)), image_batches(64)),
        4,
    ),
    "bert": (Trainable(lambda: bert_masked_lm(4, 256, 2000), masked_word_batches(64, 2000)), 4),
    "gpt2": (Trainable(lambda: gpt2_lm(4, 256, 2000), masked_word_batches(64, 2000)), 4),
    "vit": (
        Trainable(lambda: Classifier(VisionTransformer(64, 8, 192, 3, 4)), image_batches(64)),
        4,
    ),
    "convnext": (Trainable(lambda: convnext_classifier(48, 2), image_batches(64)), 4),
    "lstm": (Trainable(lambda: Classifier(LstmNet(2000, 64, 64)), word_batches(32, 2000)), 8),
    "dlrm": (Trainable(lambda: Recommender(8, 5000, 32), recommendation_batches(8, 5000, 10)), 128),
}
