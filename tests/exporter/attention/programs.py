"""Torch programs whose attention the tables convert to one operator.

Rows are [B, L, H * D], heads [B, H, L, D].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes of attention: ``heads`` of queries share ``groups`` heads of keys."""

    batch: int = 2
    queries: int = 3
    keys: int = 5
    heads: int = 2
    groups: int = 2
    width: int = 8
    value_width: int = 8


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def _repeat(x: Tensor, times: int) -> Tensor:
    """Repeat heads of keys for the queries that share them."""
    if times == 1:
        return x
    batch, heads, length, width = x.shape
    expanded = x[:, :, None].expand(batch, heads, times, length, width)
    return expanded.reshape(batch, heads * times, length, width)


class Attended(torch.nn.Module):
    """Attention of rows (``rows``) or of heads.

    Args:
        style: "sdpa" for torch's operator; "mul" or "div" for scores that are scaled that way.
        mask: "" for none, "add", "where" (True is visible), "causal".
        scale: the factor of the scores, or None.
    """

    def __init__(
        self, shape: Shape, style: str, mask: str, scale: float | None, rows: bool = True
    ) -> None:
        super().__init__()
        self.shape, self.style, self.mask, self.rows = shape, style, mask, rows
        self.scale = scale

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        shape = self.shape
        if self.rows:
            q, k, v = _split(q, shape.heads), _split(k, shape.groups), _split(v, shape.groups)
        if self.style == "sdpa":
            result = self._attend_with_sdpa(q, k, v, mask)
        else:
            times = shape.heads // shape.groups
            result = self._attend_explicitly(q, _repeat(k, times), _repeat(v, times), mask)
        return _join(result) if self.rows else result

    def _attend_with_sdpa(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        shape = self.shape
        causal = self.mask == "causal"
        options = {"scale": self.scale, "enable_gqa": shape.heads != shape.groups}
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, **options)

    def _attend_explicitly(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        factor = self.shape.width**-0.5 if self.scale is None else self.scale
        scores = q @ k.transpose(-2, -1)
        scores = scores * factor if self.style == "mul" else scores / (1 / factor)
        if self.mask == "causal":
            ones = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
            scores = scores.masked_fill(ones.triu(1), float("-inf"))
        elif self.mask == "where":
            assert mask is not None
            scores = torch.where(mask, scores, float("-inf"))
        elif self.mask == "add":
            assert mask is not None
            scores = scores + mask
        return scores.softmax(-1) @ v


class Divided(Attended):
    """Causal attention of GPT-2, with a boolean mask and scores divided by a square root."""

    def _attend_explicitly(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        length = q.shape[2]
        visible = torch.ones(length, length, dtype=torch.bool).tril()
        divisor = self.shape.width**0.5 if self.scale is None else 1 / self.scale
        scores = q @ k.transpose(-2, -1) / divisor
        return torch.where(visible, scores, float("-inf")).softmax(-1) @ v


class Turned(torch.nn.Module):
    """Causal attention with rotary embeddings; ``wide`` makes the angles an input."""

    def __init__(self, shape: Shape, wide: bool) -> None:
        super().__init__()
        self.shape, self.wide = shape, wide
        phases = torch.arange(shape.queries)[:, None] / 10 ** torch.linspace(0, 1, shape.width // 2)
        angles = torch.cat([phases, phases], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, q: Tensor, k: Tensor, v: Tensor, angles: Tensor | None = None) -> Tensor:
        cos, sin = self.cos, self.sin
        if angles is not None:
            doubled = torch.cat([angles, angles], -1)[:, None]
            cos, sin = doubled.cos(), doubled.sin()
        shape, times = self.shape, self.shape.heads // self.shape.groups
        q, k, v = _split(q, shape.heads), _split(k, shape.groups), _split(v, shape.groups)
        q, k = (x * cos + _rotate_half(x) * sin for x in (q, k))
        k, v = _repeat(k, times), _repeat(v, times)
        return _join(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def _rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


class Rotary(torch.nn.Module):
    """Rotary embedding of heads alone."""

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        doubled = torch.cat([angles, angles], -1)[:, None]
        return x * doubled.cos() + _rotate_half(x) * doubled.sin()


class OfOnnx(torch.nn.Module):
    """ONNX's Attention as a torch operator; ``read`` are the indices of the returned results."""

    def __init__(self, read: tuple[int, ...] = (0,), **attributes: Any) -> None:
        super().__init__()
        self.read, self.attributes = read, attributes

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        past_key: Tensor | None = None,
        past_value: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        results = torch.onnx.ops.attention(
            q, k, v, mask, past_key=past_key, past_value=past_value, **self.attributes
        )
        return tuple(results[index] for index in self.read)


class RotaryOfOnnx(torch.nn.Module):
    """ONNX's RotaryEmbedding as a torch operator."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.attributes = attributes

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ids: Tensor | None = None) -> Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin, ids, **self.attributes)
