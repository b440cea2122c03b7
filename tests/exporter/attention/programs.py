"""Torch programs whose attention the tables turn into one operator: as torch's operators have it,
as models write it out, with rotary embeddings, and with ONNX's own operators.

A program is a module; `cells` calls it with tensors of every corner. Rows are [B, L, H * D], heads
[B, H, L, D]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes of an attention: ``groups`` heads of keys for ``heads`` of queries."""

    batch: int = 2
    queries: int = 3
    keys: int = 5
    heads: int = 2
    groups: int = 2
    width: int = 8
    value_width: int = 8


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def _repeated(x: Tensor, times: int) -> Tensor:
    """Heads as models repeat them for the queries that share them."""
    if times == 1:
        return x
    batch, heads, length, width = x.shape
    wide = x[:, :, None].expand(batch, heads, times, length, width)
    return wide.reshape(batch, heads * times, length, width)


class Attended(torch.nn.Module):
    """Attention of rows (``rows``) or of heads.

    Args:
        style: "sdpa", torch's operator; else the scores are written out, times a factor ("mul"), or
            divided by a number ("div").
        mask: how it is used: "" for none, "add", "where" (True is seen), "causal".
        scale: what the scores are multiplied by, or None.
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
            found = self._of_torch(q, k, v, mask)
        else:
            times = shape.heads // shape.groups
            found = self._written_out(q, _repeated(k, times), _repeated(v, times), mask)
        return _joined(found) if self.rows else found

    def _of_torch(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        shape = self.shape
        causal = self.mask == "causal"
        options = {"scale": self.scale, "enable_gqa": shape.heads != shape.groups}
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, **options)

    def _written_out(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        factor = self.shape.width**-0.5 if self.scale is None else self.scale
        scores = q @ k.transpose(-2, -1)
        scores = scores * factor if self.style == "mul" else scores / (1 / factor)
        if self.mask == "causal":
            places = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
            scores = scores.masked_fill(places.triu(1), float("-inf"))
        elif self.mask == "where":
            assert mask is not None
            scores = torch.where(mask, scores, float("-inf"))
        elif self.mask == "add":
            assert mask is not None
            scores = scores + mask
        return scores.softmax(-1) @ v


class Divided(Attended):
    """Causal attention as GPT-2 had it: bools of what is seen, scores divided by a root."""

    def _written_out(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        length = q.shape[2]
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        root = self.shape.width**0.5 if self.scale is None else 1 / self.scale
        scores = q @ k.transpose(-2, -1) / root
        return torch.where(seen, scores, float("-inf")).softmax(-1) @ v


class Turned(torch.nn.Module):
    """Causal attention of grouped heads that are turned by their places; ``wide``: the tables of
    angles are an input for each sample."""

    def __init__(self, shape: Shape, wide: bool) -> None:
        super().__init__()
        self.shape, self.wide = shape, wide
        places = torch.arange(shape.queries)[:, None] / 10 ** torch.linspace(0, 1, shape.width // 2)
        angles = torch.cat([places, places], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, q: Tensor, k: Tensor, v: Tensor, angles: Tensor | None = None) -> Tensor:
        cos, sin = self.cos, self.sin
        if angles is not None:
            both = torch.cat([angles, angles], -1)[:, None]
            cos, sin = both.cos(), both.sin()
        shape, times = self.shape, self.shape.heads // self.shape.groups
        q, k, v = _split(q, shape.heads), _split(k, shape.groups), _split(v, shape.groups)
        q, k = (x * cos + _other_half(x) * sin for x in (q, k))
        k, v = _repeated(k, times), _repeated(v, times)
        return _joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def _other_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


class Rotary(torch.nn.Module):
    """Heads that are turned, and nothing else."""

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        both = torch.cat([angles, angles], -1)[:, None]
        return x * both.cos() + _other_half(x) * both.sin()


class OfOnnx(torch.nn.Module):
    """ONNX's Attention as torch offers it; ``read``: which of its four results."""

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
        found = torch.onnx.ops.attention(
            q, k, v, mask, past_key=past_key, past_value=past_value, **self.attributes
        )
        return tuple(found[place] for place in self.read)


class RotaryOfOnnx(torch.nn.Module):
    """ONNX's RotaryEmbedding as torch offers it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.attributes = attributes

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, places: Tensor | None = None) -> Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin, places, **self.attributes)
