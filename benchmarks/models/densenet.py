"""DenseNet-121 (Huang et al., 2017, arXiv:1608.06993) with torchvision's parameter names.

It is defined here because torchvision's wheel may not load with a CPU build of torch. A state
dict of ``torchvision.models.densenet121`` loads into this model with ``strict=True``.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

DENSENET121_LAYERS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """BN-ReLU-Conv1x1-BN-ReLU-Conv3x3 on the concatenation of all previous outputs."""

    def __init__(self, channels: int, growth: int, bottleneck: int) -> None:
        super().__init__()
        inner = bottleneck * growth
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, inner, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(inner, growth, kernel_size=3, stride=1, padding=1, bias=False)

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        """float32[n, c_i, h, w] each -> float32[n, growth, h, w]."""
        squeezed = self.conv1(self.relu1(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu2(self.norm2(squeezed)))


class DenseBlock(nn.ModuleDict):
    """``count`` dense layers; the result concatenates the input and the output of every layer."""

    def __init__(self, count: int, channels: int, growth: int, bottleneck: int) -> None:
        super().__init__()
        for i in range(count):
            self[f"denselayer{i + 1}"] = DenseLayer(channels + i * growth, growth, bottleneck)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


def transition(channels: int, out_channels: int) -> nn.Sequential:
    """Return the layers between two blocks: fewer channels, half the height and width."""
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(channels),
            relu=nn.ReLU(inplace=True),
            conv=nn.Conv2d(channels, out_channels, kernel_size=1, stride=1, bias=False),
            pool=nn.AvgPool2d(kernel_size=2, stride=2),
        )
    )


class DenseNet(nn.Module):
    """float32[n, 3, h, w] -> float32[n, classes]; h and w are at least 29."""

    def __init__(
        self,
        layers: tuple[int, ...] = DENSENET121_LAYERS,
        growth: int = 32,
        stem: int = 64,
        bottleneck: int = 4,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                conv0=nn.Conv2d(3, stem, kernel_size=7, stride=2, padding=3, bias=False),
                norm0=nn.BatchNorm2d(stem),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            )
        )
        channels = stem
        for i, count in enumerate(layers, start=1):
            block = DenseBlock(count, channels, growth, bottleneck)
            self.features.add_module(f"denseblock{i}", block)
            channels += count * growth
            if i < len(layers):
                self.features.add_module(f"transition{i}", transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, classes)
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = F.relu(self.features(x), inplace=True)
        pooled = F.adaptive_avg_pool2d(features, (1, 1))
        return self.classifier(torch.flatten(pooled, 1))


def densenet121(classes: int = 1000) -> DenseNet:
    """Return DenseNet-121 with random weights, in training mode (7,978,856 parameters)."""
    return DenseNet(DENSENET121_LAYERS, growth=32, stem=64, bottleneck=4, classes=classes)
