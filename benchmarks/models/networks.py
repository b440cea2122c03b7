"""Networks of plain torch modules: convolutional, recurrent, transformer, DLRM and diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .architecture import BATCH, COLUMNS, LENGTH, ROWS, Architecture, Call, named
from .densenet import DenseNet, densenet121
from .diffusion import DiffusionUNet, Vae
from .mlp import MLP
from .other import Dlrm, LstmTagger
from .vision import MobileNet, SqueezeExcite, UNet, conv_bn, resnet18, resnet50


class GruTagger(nn.Module):
    """A bidirectional GRU tagger: int64[n, t] -> float32[n, t, tags], and the last states."""

    def __init__(self, vocabulary: int = 1000, width: int = 128, tags: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sequence, last = self.gru(self.embedding(ids))
        return self.head(sequence), last


class SelfAttention(nn.Module):
    """nn.MultiheadAttention with a padding mask; the averaged weights are returned, too."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention(x, x, x, key_padding_mask=padding)


class MbConv(nn.Module):
    """Expansion, depthwise convolution and gate of EfficientNet (Tan and Le, arXiv:1905.11946)."""

    def __init__(self, inputs: int, outputs: int, ratio: int, kernel: int, stride: int) -> None:
        super().__init__()
        expanded = inputs * ratio
        self.residual = stride == 1 and inputs == outputs
        expansion = [*conv_bn(inputs, expanded, 1), nn.SiLU()] if ratio > 1 else []
        self.layers = nn.Sequential(
            *expansion,
            *conv_bn(expanded, expanded, kernel, stride, groups=expanded),
            nn.SiLU(),
            SqueezeExcite(expanded),
            *conv_bn(expanded, outputs, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class EfficientNet(nn.Module):
    """A network like EfficientNet-B0: float32[n, 3, h, w] -> float32[n, classes]."""

    # ratio, outputs, count, kernel, stride
    STAGES = (
        (1, 16, 1, 3, 1),
        (6, 24, 2, 3, 2),
        (6, 40, 2, 5, 2),
        (6, 80, 3, 3, 2),
        (6, 112, 3, 5, 1),
        (6, 192, 4, 5, 2),
        (6, 320, 1, 3, 1),
    )

    def __init__(self, stages: int = 7, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_bn(3, 32, 3, 2), nn.SiLU()]
        channels = 32
        for ratio, outputs, count, kernel, stride in self.STAGES[:stages]:
            for index in range(count):
                layers.append(MbConv(channels, outputs, ratio, kernel, 1 if index else stride))
                channels = outputs
        layers += [*conv_bn(channels, 4 * channels, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(4 * channels, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.features(x), 1))


class Autoencoder(nn.Module):
    """Strided convolutions and their transposes: float32[n, 1, h, w] -> the same."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.ELU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1),
            nn.LeakyReLU(0.1),
            nn.ConvTranspose2d(width, 1, 3, 2, 1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


def transformer_encoder(small: bool) -> nn.Module:
    width, heads, inner, layers = (32, 4, 48, 2) if small else (512, 8, 2048, 6)
    layer = nn.TransformerEncoderLayer(width, heads, inner, batch_first=True, activation=F.gelu)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def convnet(
    name: str, make: Callable[[bool], nn.Module], side: int, channels: int = 3, argument: str = "x"
) -> Architecture:
    """Define a convolutional network with dynamic batch, height and width."""

    def inputs(small: bool, batch: int, height: int, width: int = 0) -> Call:
        return named(**{argument: torch.randn(batch, channels, height, width or height)})

    return Architecture(
        name,
        make,
        inputs,
        {argument: {0: BATCH, 2: ROWS, 3: COLUMNS}},
        {"batch": 1, "height": side},
        {"batch": 2, "height": 64, "width": 96},
        {"batch": 1, "height": 96, "width": 64},
    )


def tagger(name: str, make: Callable[[bool], nn.Module]) -> Architecture:
    """Define a model of tokens; torch.export unrolls its recurrence, so the length is static."""

    def inputs(small: bool, batch: int, length: int) -> Call:
        return named(ids=torch.randint(0, 50, (batch, length)))

    return Architecture(
        name,
        make,
        inputs,
        {"ids": {0: BATCH}},
        {"batch": 4, "length": 32},
        {"batch": 2, "length": 9},
        {"batch": 1, "length": 9},
    )


def mlp_inputs(small: bool, batch: int) -> Call:
    return named(x=torch.randn(batch, 10 if small else 256))


def sequence_inputs(argument: str) -> Callable[..., Call]:
    """Return a function that makes float32[batch, length, width] and a padding mask."""

    def inputs(small: bool, batch: int, length: int) -> Call:
        padding = torch.zeros(batch, length, dtype=torch.bool)
        padding[-1, length - length // 4 :] = True
        return named(
            **{argument: torch.randn(batch, length, 32 if small else 512)},
            **{"padding" if argument == "x" else "src_key_padding_mask": padding},
        )

    return inputs


def diffusion_inputs(small: bool, batch: int, height: int, width: int, length: int) -> Call:
    return named(
        sample=torch.randn(batch, 4, height, width),
        timestep=torch.randint(0, 1000, (batch,)),
        text=torch.randn(batch, length, 16 if small else 128),
    )


def dlrm_inputs(small: bool, batch: int, bag: int) -> Call:
    """Make dense features, and indices and offsets of each table; some bags are empty."""
    tables, rows = (3, 100) if small else (8, 10000)
    arguments: list[torch.Tensor] = [torch.randn(batch, 13)]
    for _ in range(tables):
        counts = torch.randint(0, 2 * bag, (batch,))
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)[:-1]])
        arguments += [torch.randint(0, rows, (int(counts.sum()) or 1,)), starts]
    return tuple(arguments), {}


def dlrm_dims(small: bool) -> dict[str, Any]:
    """Return dynamic dimensions with an independent number of indices for each table."""
    sparse_dims: list[Any] = []
    for index in range(3 if small else 8):
        sparse_dims += [{0: Dim(f"indices{index}", max=100000)}, {0: BATCH}]
    return {"dense": {0: BATCH}, "sparse": tuple(sparse_dims)}


def sequence(name: str, make: Callable[[bool], nn.Module], argument: str) -> Architecture:
    """Define a model of sequences of vectors, with a padding mask."""
    mask = "padding" if argument == "x" else "src_key_padding_mask"
    return Architecture(
        name,
        make,
        sequence_inputs(argument),
        {argument: {0: BATCH, 1: LENGTH}, mask: {0: BATCH, 1: LENGTH}},
        {"batch": 2, "length": 64},
        {"batch": 2, "length": 12},
        {"batch": 1, "length": 9},
    )


LATENT = 4 * Dim("rows", min=1, max=64), 4 * Dim("columns", min=1, max=64)

NETWORKS = (
    Architecture(
        "mlp",
        lambda small: MLP() if small else MLP(256, 1024, 10),
        mlp_inputs,
        {"x": {0: BATCH}},
        {"batch": 8},
        {"batch": 3},
        {"batch": 1},
    ),
    convnet("resnet18", lambda s: resnet18(width=8, classes=10) if s else resnet18(), 224),
    convnet("resnet50", lambda s: resnet50(width=8, classes=10) if s else resnet50(), 224),
    convnet("mobilenet", lambda s: MobileNet(width=0.25, classes=10) if s else MobileNet(), 224),
    convnet("densenet121", lambda s: DenseNet((2, 2), 8, 16) if s else densenet121(), 224),
    convnet("efficientnet", lambda s: EfficientNet(3, 10) if s else EfficientNet(), 224),
    convnet("unet", lambda s: UNet(width=8, depth=3) if s else UNet(), 128),
    convnet("autoencoder", lambda s: Autoencoder(4 if s else 32), 128, channels=1),
    convnet("vae", lambda s: Vae(8 if s else 32), 64, argument="image"),
    Architecture(
        "diffusion_unet",
        lambda small: DiffusionUNet(8, 16, 2) if small else DiffusionUNet(),
        diffusion_inputs,
        {
            "sample": {0: BATCH, 2: LATENT[0], 3: LATENT[1]},
            "timestep": {0: BATCH},
            "text": {0: BATCH, 1: LENGTH},
        },
        {"batch": 2, "height": 32, "width": 32, "length": 16},
        {"batch": 2, "height": 8, "width": 16, "length": 6},
        {"batch": 1, "height": 16, "width": 12, "length": 4},
    ),
    tagger("lstm", lambda s: LstmTagger(50, 16) if s else LstmTagger()),
    tagger("gru", lambda s: GruTagger(50, 16) if s else GruTagger()),
    sequence("transformer_encoder", transformer_encoder, "src"),
    sequence("multihead_attention", lambda s: SelfAttention(*((32, 4) if s else (512, 8))), "x"),
    Architecture(
        "dlrm",
        lambda small: Dlrm(tables=3, rows=100, width=8) if small else Dlrm(),
        dlrm_inputs,
        dlrm_dims,
        {"batch": 64, "bag": 10},
        {"batch": 4, "bag": 3},
        {"batch": 1, "bag": 5},
    ),
)
