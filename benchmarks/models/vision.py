"""Convolutional networks of plain torch modules: ResNet, a network like MobileNetV3, UNet.

They are defined here because torchvision's wheel may not load with a CPU build of torch. Weights
are random; every network takes float32[n, 3, h, w].
"""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as F


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """Return a convolution with `same` padding, and its batch norm."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    return conv, nn.BatchNorm2d(outputs)


class BasicBlock(nn.Module):
    """The block of ResNet-18 (He et al., 2015, arXiv:1512.03385): two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(inputs, width, 3, stride)
        self.conv2, self.bn2 = conv_bn(width, width, 3)
        self.down = None
        if stride != 1 or inputs != width:
            self.down = nn.Sequential(*conv_bn(inputs, width, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.down is None else self.down(x)
        return F.relu(y, inplace=True)


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1x1, 3x3, 1x1."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(inputs, width, 1)
        self.conv2, self.bn2 = conv_bn(width, width, 3, stride)
        self.conv3, self.bn3 = conv_bn(width, 4 * width, 1)
        self.down = None
        if stride != 1 or inputs != 4 * width:
            self.down = nn.Sequential(*conv_bn(inputs, 4 * width, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += x if self.down is None else self.down(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """Stem, four stages of blocks, pooling, classifier: float32[n, classes]."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        counts: tuple[int, ...],
        width: int = 64,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels, stages = width, []
        for number, count in enumerate(counts):
            blocks: list[nn.Module] = []
            for index in range(count):
                stride = 2 if number and not index else 1
                blocks.append(block(channels, width << number, stride))
                channels = (width << number) * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.stages(F.max_pool2d(x, 3, 2, 1))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def resnet18(**settings: int) -> ResNet:
    """Build ResNet-18; smaller ``width`` and ``classes`` make it smaller."""
    return ResNet(BasicBlock, (2, 2, 2, 2), **settings)


def resnet50(**settings: int) -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3), **settings)


class SqueezeExcite(nn.Module):
    """Scale channels by a gate computed from their means (arXiv:1709.01507)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, max(channels // 4, 4), 1)
        self.expand = nn.Conv2d(max(channels // 4, 4), channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.expand(F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(gate)


class Inverted(nn.Module):
    """The inverted residual of MobileNetV3 (arXiv:1905.02244)."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, kernel: int, stride: int, gated: bool
    ) -> None:
        super().__init__()
        self.residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *conv_bn(inputs, inner, 1),
            nn.Hardswish(),
            *conv_bn(inner, inner, kernel, stride, groups=inner),
            SqueezeExcite(inner) if gated else nn.Identity(),
            nn.Hardswish(),
            *conv_bn(inner, outputs, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """A network like MobileNetV3-Large; ``width`` scales its channels."""

    # inner, outputs, kernel, stride, gated
    BLOCKS = (
        (16, 16, 3, 1, False),
        (64, 24, 3, 2, False),
        (72, 24, 3, 1, False),
        (72, 40, 5, 2, True),
        (120, 40, 5, 1, True),
        (120, 40, 5, 1, True),
        (240, 80, 3, 2, False),
        (200, 80, 3, 1, False),
        (184, 80, 3, 1, False),
        (480, 112, 3, 1, True),
        (672, 112, 3, 1, True),
        (672, 160, 5, 2, True),
        (960, 160, 5, 1, True),
    )

    def __init__(self, width: float = 1.0, classes: int = 1000) -> None:
        super().__init__()

        def scale(channels: int) -> int:
            return max(8, int(channels * width) // 8 * 8)

        channels = scale(16)
        layers: list[nn.Module] = [*conv_bn(3, channels, 3, 2), nn.Hardswish()]
        for inner, outputs, kernel, stride, gated in self.BLOCKS:
            layers.append(Inverted(channels, scale(inner), scale(outputs), kernel, stride, gated))
            channels = scale(outputs)
        layers += [*conv_bn(channels, scale(960), 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Linear(scale(960), scale(1280)), nn.Hardswish(), nn.Linear(scale(1280), classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.features(x), 1))


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    """Return two 3x3 convolutions with batch norm and ReLU."""
    return nn.Sequential(
        *conv_bn(inputs, outputs, 3),
        nn.ReLU(inplace=True),
        *conv_bn(outputs, outputs, 3),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """U-Net (arXiv:1505.04597) with bilinear upsampling: float32[n, classes, h, w]."""

    def __init__(self, width: int = 32, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        sizes = [width << level for level in range(depth)]
        self.inner = nn.ModuleList(
            [double_conv(3, width)] + [double_conv(a, b) for a, b in itertools.pairwise(sizes)]
        )
        self.outer = nn.ModuleList(
            [double_conv(a + b, a) for a, b in itertools.pairwise(sizes)][::-1]
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for index, block in enumerate(self.inner):
            x = block(F.max_pool2d(x, 2) if index else x)
            skips.append(x)
        x = skips.pop()
        for block in self.outer:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = block(torch.cat([skips.pop(), x], 1))
        return self.head(x)
