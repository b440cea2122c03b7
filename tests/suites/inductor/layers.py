"""Layers: convolutions, pools, norms, attention, recurrent networks, resizing, small models."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, every, static, train


def _apply(module, *args):
    return module(*args)


def _layer(make, *shape):
    """Return the inputs of `_apply`: a module, and a tensor with ``None`` replaced by the size."""
    return lambda n: (make(), torch.randn([n if size is None else size for size in shape]))


def _frozen(make, *shape):
    return lambda n: (make().eval(), torch.randn([n if size is None else size for size in shape]))


def _conv(*shapes):
    return lambda n: tuple(torch.randn([n if s is None else s for s in shape]) for shape in shapes)


def _image(n):
    return (torch.randn(2, 3, n + 2, 7),)


def _qkv(n):
    return tuple(torch.randn(2, 2, size, 4) for size in (n, 5, 5))


class _Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1, bias=False)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return F.relu(self.norm(self.a(x)) + self.b(x) + x)


class _Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(3))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.count += 1
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return (x - self.mean) * self.weight * self.count


class _Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, i):
        return self.out(self.embed(i))


class _Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.scales = nn.ParameterList(torch.randn(3) for _ in range(3))
        self.table = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

    def forward(self, x):
        for layer, scale in zip(self.layers, self.scales, strict=True):
            x = self.table["tanh"](layer(x) * scale)
        return self.table["relu"](x)


class _Rotary(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] / 10 ** (torch.arange(half) / half)
        sin, cos = angles.sin(), angles.cos()
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def _rms_norm(x, w):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


def _causal(q, k, v):
    size = q.shape[-2]
    scores = q @ k[..., :size, :].mT / q.shape[-1] ** 0.5
    mask = torch.ones(size, size, dtype=torch.bool).triu(1)
    return scores.masked_fill(mask, -torch.inf).softmax(-1) @ v[..., :size, :]


PROGRAMS = {
    # linear
    "linear": every(_apply, _layer(lambda: nn.Linear(3, 5), None, 3)),
    "linear of a vector and of 4 axes": train(
        lambda m, x: (m(x[0, 0, 0]), m(x), m(x[:0])), _layer(lambda: nn.Linear(3, 5), None, 2, 2, 3)
    ),
    "linear without bias": train(_apply, _layer(lambda: nn.Linear(3, 5, bias=False), None, 3)),
    "linear from nothing": static(_apply, _layer(lambda: nn.Linear(0, 5), None, 0)),
    "linear of a wrong size error": static(_apply, _layer(lambda: nn.Linear(3, 5), None, 4)),
    "bilinear": train(F.bilinear, _conv((None, 3), (None, 2), (4, 3, 2), (4,))),
    "perceptron": every(
        _apply, _layer(lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2)), None, 3)
    ),
    "tied weights": train(_apply, lambda n: (_Tied(), torch.randint(0, 7, (n, 2)))),
    "lists and dicts of modules": every(_apply, _layer(_Lists, None, 3)),
    "one layer twice": train(lambda m, x: m(m(x).relu()), _layer(lambda: nn.Linear(3, 3), None, 3)),
    "weight of a layer used": train(
        lambda m, x: m(x) + m.weight.sum() - x @ m.weight.t(),
        _layer(lambda: nn.Linear(3, 3), None, 3),
    ),
    "weight_norm": train(
        _apply, _layer(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), None, 3)
    ),
    "buffers that change": train(_apply, _layer(_Counted, None, 3)),
    "identity and flatten": static(
        _apply, _layer(lambda: nn.Sequential(nn.Identity(), nn.Flatten(0)), None, 3)
    ),
    "unflatten and softmax": static(
        _apply,
        _layer(
            lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Softmax(2), nn.LogSoftmax(1)), None, 6
        ),
    ),
    # convolutions
    "conv1d": every(F.conv1d, _conv((2, 3, None), (4, 3, 3), (4,))),
    "conv1d of all arguments": train(
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3, dilation=2, groups=2),
        _conv((2, 4, 9), (6, 2, 3), (6,)),
    ),
    "conv without a batch": train(F.conv2d, _conv((3, None, 5), (4, 3, 2, 3), (4,))),
    "conv2d": every(F.conv2d, _conv((2, 3, None, 5), (4, 3, 3, 2))),
    "conv2d of all arguments": train(
        lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2)), _conv((2, 3, 8, 9), (4, 3, 3, 2))
    ),
    "conv2d same and valid": train(
        lambda x, w: (F.conv2d(x, w, padding="same", dilation=2), F.conv2d(x, w, padding="valid")),
        _conv((1, 2, 6, 7), (3, 2, 2, 3)),
    ),
    "depthwise conv": train(
        lambda x, w: F.conv2d(x, w, groups=4, padding=1), _conv((2, 4, None, 5), (8, 1, 3, 3))
    ),
    "conv of 1x1": every(F.conv2d, _conv((2, 3, None, 5), (4, 3, 1, 1), (4,))),
    "conv of a batch of nothing": static(F.conv2d, _conv((0, 3, 5, 5), (4, 3, 3, 3), (4,))),
    "conv too small error": static(F.conv2d, _conv((1, 3, 2, 2), (4, 3, 3, 3))),
    "conv of wrong channels error": static(F.conv2d, _conv((1, 2, 5, 5), (4, 3, 3, 3))),
    "conv3d": train(
        lambda x, w: F.conv3d(x, w, padding=1, stride=(1, 2, 1)),
        _conv((1, 2, 3, None, 5), (3, 2, 3, 3, 3)),
    ),
    "conv of channels_last": static(
        lambda x, w: (F.conv2d(x, w), F.conv2d(x, w).relu().mean(1)),
        lambda n: (
            torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last),
            torch.randn(4, 3, 3, 3),
        ),
    ),
    "conv of a strided input": static(
        lambda x, w: F.conv2d(x.transpose(2, 3)[:, :, ::2], w), _conv((1, 3, 9, 8), (4, 3, 2, 2))
    ),
    "conv_transpose1d": train(
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1), _conv((2, 3, None), (3, 4, 3))
    ),
    "conv_transpose2d": every(
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        _conv((2, 3, None, 4), (3, 4, 3, 3), (4,)),
    ),
    "conv_transpose2d of groups": train(
        lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=(1, 2)),
        _conv((1, 4, 3, 4), (4, 2, 3, 2)),
    ),
    "conv_transpose3d": static(F.conv_transpose3d, _conv((1, 2, 2, 3, 2), (2, 3, 2, 2, 2))),
    "conv of double": train(
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda n: (torch.randn(1, 2, n, n).double(), torch.randn(3, 2, 3, 3).double()),
    ),
    "conv of float16": static(
        lambda x, w: F.conv2d(x.half(), w.half()), _conv((1, 2, 5, 5), (3, 2, 3, 3))
    ),
    "conv of bfloat16": static(
        lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16()), _conv((1, 2, 5, 5), (3, 2, 3, 3))
    ),
    "conv of integers": static(
        lambda x, w: F.conv2d((x * 5).long(), (w * 5).long()), _conv((1, 2, 5, 5), (3, 2, 3, 3))
    ),
    "conv of computed weights": train(
        lambda x, w: F.conv2d(x, w / w.flatten(1).norm(dim=1)[:, None, None, None]),
        _conv((1, 2, 5, 5), (3, 2, 3, 3)),
    ),
    "conv with padding modes": train(
        lambda a, x, b: a(x) + b(x),
        lambda n: (
            nn.Conv2d(3, 2, 3, padding=1, padding_mode="circular"),
            torch.randn(1, 3, n, 5),
            nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"),
        ),
    ),
    "conv and batch norm in eval": every(
        _apply,
        _frozen(
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), 2, 3, None, 5
        ),
    ),
    "residual block": train(_apply, _layer(_Residual, 2, 3, None, 5)),
    "residual block in eval": every(_apply, _frozen(_Residual, 2, 3, None, 5)),
    # pools
    "max_pool2d": every(
        lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 1, 1), F.max_pool2d(x, (2, 3), (1, 2))),
        _image,
    ),
    "max_pool2d in ceil mode": every(
        lambda x: (F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
        _image,
    ),
    "max_pool2d of a dilation": train(lambda x: F.max_pool2d(x, 2, dilation=2), _image),
    "max_pool2d with indices": train(lambda x: F.max_pool2d(x, 2, return_indices=True), _image),
    "max_pool2d of nan and equal numbers": static(
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda n: (tensor([[[1.0, 1.0, 0.0, float("nan")], [1.0, 1.0, 3.0, 3.0]]]),),
    ),
    "max_pool2d of negative numbers with padding": train(
        lambda x: F.max_pool2d(-x.abs() - 1, 3, 2, 1), _image
    ),
    "max_pool1d and max_pool3d": train(
        lambda x: (F.max_pool1d(x[0], 2), F.max_pool3d(x, 2, 1)), _image
    ),
    "max_pool of integers": static(lambda x: F.max_pool2d((x * 9).long(), 2), _image),
    "max_pool too small error": static(lambda x: F.max_pool2d(x, 9), _image),
    "max_unpool2d": train(
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        lambda n: (torch.randn(1, 2, n, n),),
    ),
    "avg_pool2d": every(
        lambda x: (
            F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 1, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        ),
        _image,
    ),
    "avg_pool2d in ceil mode": every(
        lambda x: (
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, True),
            F.avg_pool2d(x, 3, 2, 1, True, False),
        ),
        _image,
    ),
    "avg_pool2d with a divisor": train(
        lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), _image
    ),
    "avg_pool1d and avg_pool3d": train(
        lambda x: (F.avg_pool1d(x[0], 2, 1, 1), F.avg_pool3d(x, (1, 2, 2))), _image
    ),
    "adaptive pools": train(
        lambda x: (
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, None)),
            F.adaptive_avg_pool1d(x[0], 4),
            F.adaptive_max_pool2d(x, (2, 3)),
        ),
        _image,
    ),
    "adaptive pools that enlarge": train(
        lambda x: (F.adaptive_avg_pool2d(x, 11), F.adaptive_max_pool1d(x[0], 9)), _image
    ),
    "adaptive pool to 1 of dynamic sizes": every(
        lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1)), _image
    ),
    "lp_pool": train(lambda x: F.lp_pool2d(x.abs() + 0.1, 2.0, 2), _image),
    "fractional_max_pool of fixed samples": static(
        lambda x, s: F.fractional_max_pool2d(x, 2, output_size=(3, 3), _random_samples=s),
        lambda n: (torch.randn(1, 2, 7, 7), torch.rand(1, 2, 2)),
    ),
    # norms
    "layer_norm": every(_apply, _layer(lambda: nn.LayerNorm(3), None, 2, 3)),
    "layer_norm of two axes": train(
        lambda x: (F.layer_norm(x, x.shape[1:]), F.layer_norm(x, (5,), eps=0.1)),
        lambda n: (torch.randn(n, 3, 5),),
    ),
    "layer_norm of half": static(
        lambda x, w: F.layer_norm(x.half(), (5,), w.half()), _conv((None, 3, 5), (5,))
    ),
    "layer_norm of one element": static(lambda x: F.layer_norm(x, (1,)), _conv((None, 1))),
    "batch_norm in training": train(_apply, _layer(lambda: nn.BatchNorm1d(3), None, 3)),
    "batch_norm in eval": every(_apply, _frozen(lambda: nn.BatchNorm2d(3), None, 3, 2, 2)),
    "batch_norm without statistics": train(
        _apply,
        _layer(lambda: nn.BatchNorm2d(3, track_running_stats=False, affine=False), None, 3, 2, 2),
    ),
    "batch_norm with a cumulative average": train(
        _apply, _layer(lambda: nn.BatchNorm1d(3, momentum=None), None, 3)
    ),
    "batch_norm of one value error": static(_apply, _layer(lambda: nn.BatchNorm1d(3), 1, 3)),
    "batch_norm of half": static(
        lambda m, x: m(x.half()), _frozen(lambda: nn.BatchNorm2d(3).half(), None, 3, 2, 2)
    ),
    "instance_norm": train(
        _apply, _layer(lambda: nn.InstanceNorm2d(3, affine=True), 2, 3, None, 2)
    ),
    "instance_norm with statistics": train(
        _apply, _layer(lambda: nn.InstanceNorm1d(3, track_running_stats=True), 2, 3, None)
    ),
    "group_norm": every(_apply, _layer(lambda: nn.GroupNorm(2, 4), None, 4, 3)),
    "group_norm of groups of one": train(
        lambda x: (F.group_norm(x, 4), F.group_norm(x, 1)), _conv((None, 4, 3))
    ),
    "rms_norm": every(
        lambda x, w: (F.rms_norm(x, (3,), w), _rms_norm(x, w), F.rms_norm(x, (3,), eps=0.1)),
        _conv((None, 3), (3,)),
    ),
    "local_response_norm": train(lambda x: F.local_response_norm(x, 2), _conv((2, 4, None, 3))),
    # attention
    "attention": every(F.scaled_dot_product_attention, _qkv),
    "attention with a scale": train(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.125), _qkv
    ),
    "causal attention": every(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _qkv
    ),
    "causal attention by hand": train(
        _causal, lambda n: tuple(torch.randn(2, n, 3) for _ in range(3))
    ),
    "attention with a float mask": every(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        lambda n: (*_qkv(n), torch.randn(n, 5)),
    ),
    "attention with a boolean mask": train(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        lambda n: (*_qkv(n), torch.arange(n * 5).reshape(n, 5) % 5 != 1),
    ),
    "attention with a masked row": static(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        lambda n: (*_qkv(n), torch.arange(n)[:, None].expand(n, 5) > 0),
    ),
    "attention of grouped queries": train(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda n: (torch.randn(1, 4, n, 3), torch.randn(1, 2, 5, 3), torch.randn(1, 2, 5, 3)),
    ),
    "attention of strided heads": train(
        lambda q, k, v: F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))),
        lambda n: tuple(torch.randn(2, n, 2, 4) for _ in range(3)),
    ),
    "attention of 3 axes and of half": static(
        lambda q, k, v: (
            F.scaled_dot_product_attention(q[0], k[0], v[0]),
            F.scaled_dot_product_attention(q.half(), k.half(), v.half()),
        ),
        _qkv,
    ),
    "attention with another value size": train(
        F.scaled_dot_product_attention,
        lambda n: (torch.randn(1, 2, n, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 7)),
    ),
    "multi-head attention": train(
        lambda m, x: m(x, x, x),
        _layer(lambda: nn.MultiheadAttention(4, 2, batch_first=True), 2, None, 4),
    ),
    "multi-head attention with masks": train(
        lambda m, x, p: m(x, x, x, key_padding_mask=p, need_weights=False, is_causal=False),
        lambda n: (
            nn.MultiheadAttention(4, 2, batch_first=True),
            torch.randn(2, n, 4),
            torch.arange(n).expand(2, n) >= n - 1,
        ),
    ),
    "transformer layer": train(
        _apply,
        _layer(
            lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2, None, 4
        ),
    ),
    "transformer layer in eval": every(
        _apply,
        _frozen(
            lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True),
            2,
            None,
            4,
        ),
    ),
    "decoder layer": train(
        lambda m, x, y: m(x, y),
        lambda n: (
            nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0),
            torch.randn(n, 1, 4),
            torch.randn(3, 1, 4),
        ),
    ),
    "rotary embedding": every(_apply, _layer(_Rotary, 2, None, 4)),
    "cache of keys": dynamic(
        lambda q, k, v, new: F.scaled_dot_product_attention(
            q[:, :, -1:], torch.cat([k, new], 2), torch.cat([v, new * 2], 2)
        ),
        lambda n: (*(torch.randn(1, 2, n, 4) for _ in range(3)), torch.randn(1, 2, 1, 4)),
    ),
    # recurrent
    "lstm": train(_apply, _layer(lambda: nn.LSTM(3, 4, batch_first=True), 2, None, 3)),
    "bidirectional lstm of two layers": train(
        _apply, _layer(lambda: nn.LSTM(3, 4, 2, bidirectional=True), None, 2, 3)
    ),
    "gru": train(_apply, _layer(lambda: nn.GRU(3, 4), None, 2, 3)),
    "rnn without a batch": static(
        _apply, _layer(lambda: nn.RNN(3, 4, nonlinearity="relu"), None, 3)
    ),
    "lstm with a state": static(
        lambda m, x, h, c: m(x, (h, c)),
        lambda n: (nn.LSTM(3, 4), torch.randn(n, 2, 3), torch.randn(1, 2, 4), torch.randn(1, 2, 4)),
    ),
    "cells": train(
        lambda a, b, c, x, h: (a(x, (h, h)), b(x, h), c(x)),
        lambda n: (
            nn.LSTMCell(3, 4),
            nn.GRUCell(3, 4),
            nn.RNNCell(3, 4),
            torch.randn(n, 3),
            torch.randn(n, 4),
        ),
    ),
    "recurrence by hand": train(
        lambda w, h, x: torch.stack([h := torch.tanh(row @ w + h) for row in x]),
        lambda n: (torch.randn(3, 3), torch.zeros(3), torch.randn(n, 3)),
    ),
    # dropout
    "dropout of 0 and of 1": train(
        lambda x: (F.dropout(x * 2, 0.0), F.dropout(x, 1.0), F.dropout2d(x[None] * 2, 0.0)),
        lambda n: (torch.randn(n, 3, 2),),
    ),
    "dropout in eval": train(
        _apply,
        _frozen(
            lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 3), nn.AlphaDropout()), None, 3
        ),
    ),
    # resizing
    "nearest": every(
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(5, 3)),
            F.interpolate(x, size=(5, 9), mode="nearest-exact"),
        ),
        _image,
    ),
    "bilinear resizing": train(
        lambda x: (
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True),
            F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        ),
        _image,
    ),
    "bicubic resizing": train(lambda x: F.interpolate(x, size=(9, 5), mode="bicubic"), _image),
    "linear and trilinear resizing": train(
        lambda x: (
            F.interpolate(x[0], 5, mode="linear"),
            F.interpolate(x[None], (3, 4, 5), mode="trilinear"),
        ),
        _image,
    ),
    "area resizing": static(lambda x: F.interpolate(x, (3, 4), mode="area"), _image),
    "resizing by a fraction": static(
        lambda x: (
            F.interpolate(x, scale_factor=0.6),
            F.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
        ),
        _image,
    ),
    "resizing to 1": static(
        lambda x: (
            F.interpolate(x, (1, 1), mode="bilinear", align_corners=True),
            F.interpolate(x, 1),
        ),
        _image,
    ),
    "grid_sample": train(
        lambda x, g: [
            F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=False)
            for m, p in (("bilinear", "zeros"), ("nearest", "border"))
        ],
        lambda n: (torch.randn(1, 2, n, 5), torch.rand(1, 3, 3, 2) * 2.4 - 1.2),
    ),
    "affine_grid": train(
        lambda t, x: F.grid_sample(
            x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False
        ),
        lambda n: (torch.randn(1, 2, 3), torch.randn(1, 2, n, 5)),
    ),
}
