"""UNet and variational autoencoder of latent diffusion (Rombach et al., arXiv:2112.10752)."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


def time_embedding(steps: torch.Tensor, width: int) -> torch.Tensor:
    """Return cosines and sines of the step: int64[n] -> float32[n, width]."""
    half = width // 2
    rates = torch.exp(-math.log(10000.0) * torch.arange(half, device=steps.device) / half)
    angles = steps[:, None].float() * rates[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResidualBlock(nn.Module):
    """Group norm, SiLU and convolution, twice; an optional time embedding is added between."""

    def __init__(self, inputs: int, outputs: int, time: int = 0) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs) if time else None
        self.norm2 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor | None = None) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.short(x)


class AttentionBlock(nn.Module):
    """Self-attention of the pixels, then optional cross-attention to a text."""

    def __init__(self, width: int, heads: int, text: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.GroupNorm(4, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out1 = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width) if text else None
        self.query = nn.Linear(width, width) if text else None
        self.key_value = nn.Linear(text, 2 * width) if text else None
        self.out2 = nn.Linear(width, width) if text else None

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, *parts: torch.Tensor) -> torch.Tensor:
        result = F.scaled_dot_product_attention(*(self.split(part) for part in parts))
        return result.transpose(1, 2).flatten(2)

    def forward(self, x: torch.Tensor, text: torch.Tensor | None = None) -> torch.Tensor:
        batch, width, rows, columns = x.shape
        y = self.norm1(x).reshape(batch, width, rows * columns).transpose(1, 2)
        y = self.out1(self.attend(*self.qkv(y).chunk(3, dim=-1)))
        if text is not None:
            keys = self.key_value(text).chunk(2, dim=-1)
            y = y + self.out2(self.attend(self.query(self.norm2(y)), *keys))
        return x + y.transpose(1, 2).reshape(batch, width, rows, columns)


class Upsample(nn.Module):
    """Nearest-neighbour upsampling by 2, then a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class DiffusionUNet(nn.Module):
    """Predict the noise in a latent image whose height and width are multiples of 4.

    float32[n, 4, h, w], int64[n], float32[n, t, text] -> float32[n, 4, h, w].
    """

    def __init__(self, width: int = 64, text: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.width, time = width, 4 * width
        self.embed = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        sizes = ((width, width), (width, 2 * width), (2 * width, 4 * width))
        self.down = nn.ModuleList(ResidualBlock(a, b, time) for a, b in sizes)
        self.attend = nn.ModuleList(AttentionBlock(b, heads, text) for _, b in sizes)
        self.shrink = nn.ModuleList(nn.Conv2d(b, b, 3, 2, 1) for _, b in sizes[:-1])
        self.middle = ResidualBlock(4 * width, 4 * width, time)
        self.up = nn.ModuleList(ResidualBlock(2 * b, a, time) for a, b in sizes[::-1])
        self.grow = nn.ModuleList(Upsample(a) for a, _ in sizes[:0:-1])
        self.norm = nn.GroupNorm(4, width)
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor
    ) -> torch.Tensor:
        time = self.embed(time_embedding(timestep, self.width))
        x, skips = self.first(sample), []
        for index, (block, attend) in enumerate(zip(self.down, self.attend, strict=True)):
            x = attend(block(self.shrink[index - 1](x) if index else x, time), text)
            skips.append(x)
        x = self.middle(x, time)
        for index, block in enumerate(self.up):
            x = block(torch.cat([skips.pop(), x], dim=1), time)
            x = self.grow[index](x) if index < len(self.grow) else x
        return self.last(F.silu(self.norm(x)))


class Vae(nn.Module):
    """A variational autoencoder that decodes the mean of the latent distribution.

    float32[n, 3, h, w] -> the same, float32[n, 4, h/4, w/4] twice (mean, log of the variance).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            ResidualBlock(width, width),
            nn.Conv2d(width, width, 3, 2, 1),
            ResidualBlock(width, 2 * width),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1),
            AttentionBlock(2 * width, 1),
            nn.Conv2d(2 * width, 8, 1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(4, 2 * width, 3, padding=1),
            AttentionBlock(2 * width, 1),
            Upsample(2 * width),
            ResidualBlock(2 * width, width),
            nn.ConvTranspose2d(width, width, 4, 2, 1),
            nn.GroupNorm(4, width),
            nn.SiLU(),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, variance = self.encoder(image).chunk(2, dim=1)
        return self.decoder(mean), mean, variance.clamp(-30.0, 20.0)
