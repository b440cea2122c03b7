"""Expressions that seem simpler than they are: NaN, signed zeros, wrap-around, casts, orders."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import tensor

from . import cube, dynamic, every, matrix, static, train, two_matrices

INF, NAN = math.inf, math.nan
_EDGES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, -3e38, 1e-20, 1e20]
_INTS = [2**63 - 1, -(2**63), 2**31, -(2**31) - 1, 2**53 + 1, 2**24 + 1, -1, 0, 1, 7, 255, 256]


def _edges(n):
    return (tensor(_EDGES),)


def _edge_pairs(n):
    return tensor(_EDGES)[:, None], tensor(_EDGES)


def _ints(n):
    return (tensor(_INTS),)


def _int32(n):
    return (tensor([2**31 - 1, -(2**31), 2**24 + 1, 70000, -1, 0, 1, 7, 255], dtype=torch.int32),)


def _bits(x):
    """Return the bits, which tell zeros apart."""
    return x.view(torch.int32)


PROGRAMS = {
    # floats
    "times 0": static(lambda x: (x * 0, 0.0 * x, x * torch.zeros(()), x - x, x * 0 + 1), _edges),
    "divided by itself": static(lambda x: (x / x, x * x.reciprocal(), (x + 0) / x), _edges),
    "plus 0": static(
        lambda x: (_bits(x + 0.0), _bits(x - 0.0), _bits(0 + x), _bits(x + tensor(-0.0))),
        lambda n: (tensor([0.0, -0.0, 1.0]),),
    ),
    "0 minus": static(
        lambda x: (_bits(0 - x), _bits(-x), _bits(x * -1)), lambda n: (tensor([0.0, -0.0, 1.0]),)
    ),
    "negated twice": static(lambda x: (-x.neg(), -x * -1, -(x - 1), -(1 - x)), _edges),
    "abs and sign": static(
        lambda x: (x.sign() * x.abs(), x.abs().abs(), (-x).abs(), (x * x).abs(), x.abs() * x.abs()),
        _edges,
    ),
    "square and root": static(
        lambda x: (
            (x * x).sqrt(),
            x.sqrt() ** 2,
            x.sqrt() * x.sqrt(),
            x.square().sqrt(),
            (x**2) ** 0.5,
        ),
        _edges,
    ),
    "rsqrt and reciprocal": static(
        lambda x: (
            1 / x.sqrt(),
            x.sqrt().reciprocal(),
            x.rsqrt(),
            x.reciprocal().sqrt(),
            1 / (1 / x),
            x.rsqrt() ** 2,
        ),
        _edges,
    ),
    "exp and log": static(
        lambda x: (
            x.exp().log(),
            x.log().exp(),
            (x.exp() - 1),
            (1 + x).log(),
            x.exp() * (-x).exp(),
        ),
        _edges,
    ),
    "powers that are other functions": static(
        lambda x: (
            x**0.5,
            x**-0.5,
            x**-1,
            x**-2,
            x**1,
            x**0,
            x**2,
            x**3,
            1.0**x,
            2.0**x,
            x ** tensor(0.5),
        ),
        _edges,
    ),
    "powers of zeros": static(
        lambda x: (_bits(x**3), _bits(x**-1), _bits(x**1), x**0), lambda n: (tensor([0.0, -0.0]),)
    ),
    "sigmoid of a difference": static(
        lambda x: (1 - x.sigmoid(), (-x).sigmoid(), 1 / (1 + (-x).exp()), x * x.sigmoid()), _edges
    ),
    "tanh by exp": static(
        lambda x: ((x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), 2 * (2 * x).sigmoid() - 1),
        _edges,
    ),
    "log of sigmoid and softmax": static(
        lambda x: (x.sigmoid().log(), x[5:9].softmax(0).log(), x[5:9].exp().sum().log()), _edges
    ),
    "scaled twice": static(
        lambda x: (x * 1e30 * 1e30, x * 1e-30 * 1e30, x / 1e30 / 1e30, x * 2 / 2, x * 3e38 / 3e38),
        _edges,
    ),
    "added twice": static(
        lambda x: (x + 1e20 - 1e20, x + 3e38 + 3e38 - 3e38, x - 1 + 1, (x + 0.1) + 0.2), _edges
    ),
    "divided by a constant": static(
        lambda x: (x / 3, x / 1e-40, x / -0.0, x / 3e38, x / INF, x / NAN), _edges
    ),
    "distributed": static(lambda x: (x * 2 + x * 3, (x + 1) * x - x * x, x * (x + INF)), _edges),
    "fma": every(lambda x, y: (x * y + x, x * y - x * y, x - (x / y) * y), two_matrices),
    "difference of squares": train(
        lambda x, y: (x * x - y * y, (x - y) * (x + y), (x - y) ** 2), two_matrices
    ),
    # comparisons
    "not less": static(
        lambda x, y: (~(x < y), ~(x <= y), ~(x > y), ~(x >= y), ~(x == y), ~(x != y)), _edge_pairs
    ),
    "logical_not of comparisons": static(
        lambda x, y: ((x < y).logical_not(), (x >= y).eq(False), (x > y) ^ True, (x <= y).ne(True)),
        _edge_pairs,
    ),
    "compared with itself": static(
        lambda x: (x == x, x != x, x <= x, x < x, x.eq(x).logical_not()), _edges
    ),
    "compared with infinities": static(
        lambda x: (x < INF, x >= -INF, x > -INF, x <= INF, x == NAN, x != NAN), _edges
    ),
    "negation compared": static(
        lambda x, y: (-x < -y, -x < 0, x - y > 0, x - y == 0, x * -1 >= y), _edge_pairs
    ),
    "where of equal branches": static(
        lambda x, y: (
            torch.where(x > y, x, x),
            torch.where(x == y, x, y),
            torch.where(x != x, 0.0, x),
        ),
        _edge_pairs,
    ),
    "where as a maximum": static(
        lambda x, y: (
            torch.where(x > y, x, y),
            torch.where(x < y, y, x),
            torch.where(x >= 0, x, 0 * x),
            torch.where(x > 0, x, 0.0),
        ),
        _edge_pairs,
    ),
    "where in where": static(
        lambda x, y: torch.where(x > y, torch.where(x > 0, x, 1.0), torch.where(x > y, 2.0, y)),
        _edge_pairs,
    ),
    "where by a constant": static(
        lambda x: (
            torch.where(tensor(True), x, 1 / x),
            torch.where(torch.zeros(14).bool(), x, 2.0),
        ),
        _edges,
    ),
    "mask as a product": static(
        lambda x: (
            x * (x > 0),
            x * (x > 0).float(),
            (x > 0) * 1.0,
            (x > 0).float() * (x < 1).float(),
        ),
        _edges,
    ),
    "and, or of comparisons": static(
        lambda x, y: ((x > y) & (x < y), (x > y) | (x <= y), (x == y) & ~(x == y)), _edge_pairs
    ),
    # minima and maxima
    "relu of relu and clamp": static(
        lambda x: (x.relu().relu(), x.clamp(-1, 1).relu(), x.relu().clamp(max=6), x.clamp(min=0)),
        _edges,
    ),
    "clamps in a chain": static(
        lambda x: (
            x.clamp(0, 5).clamp(-1, 3),
            x.clamp(3, 5).clamp(0, 1),
            x.clamp(min=2).clamp(max=1),
            x.clamp(max=1).clamp(min=2),
        ),
        _edges,
    ),
    "minima of maxima": static(
        lambda x, y: (
            x.maximum(y).minimum(x),
            x.minimum(y).maximum(y),
            x.maximum(x),
            torch.fmin(x, y).fmax(x),
            x.maximum(-x),
        ),
        _edge_pairs,
    ),
    "maximum with infinities": static(
        lambda x: (
            x.maximum(tensor(-INF)),
            x.minimum(tensor(INF)),
            x.maximum(tensor(NAN)),
            x.clamp(-INF, INF),
        ),
        _edges,
    ),
    "relu by other ways": static(
        lambda x: (
            (x + x.abs()) / 2,
            x * (x >= 0),
            x.maximum(tensor(0.0)),
            F.threshold(x, 0, 0),
            x.masked_fill(x < 0, 0),
        ),
        _edges,
    ),
    "amax of amax": every(
        lambda x: (
            x.amax(0).amax(0),
            x.amax(2).amin(1),
            x.sum(0).sum(0),
            x.mean(1).mean(0),
            x.sum(1).amax(1),
        ),
        cube,
    ),
    "negated amax": static(
        lambda x: (-x.neg().amax(0), -x.neg().amin(0), (-x).argmax(0), x.neg().sort(0)[0].neg()),
        lambda n: (torch.randn(n, 3),),
    ),
    # integers
    "integers scaled twice": static(
        lambda x: (x * 2 // 2, x // 2 * 2, x * 3 // 3, (x << 1) >> 1, (x >> 1) << 1), _ints
    ),
    "int32 scaled twice": static(
        lambda x: (x * 2 // 2, x * 1000 * 1000, x * 65536 * 65536, x + 2**31 - 2**31), _int32
    ),
    "integers divided twice": static(
        lambda x: (x // 3 // 5, x // -3, x // 1, x // -1, x % 1, x % -1, x % 2**31), _ints
    ),
    "remainders of remainders": static(
        lambda x: ((x % 6) % 3, (x % 4) % 8, x - x // 7 * 7, (x + 7) % 7, (-x) % 5), _ints
    ),
    "integers multiplied by 0 and 1": static(
        lambda x: (x * 0, x * 1, x - x, x + 0, x // 1, x**1, x**0, 0 // (x | 1)), _ints
    ),
    "negative limits": static(
        lambda x: (-x, x.abs(), -x.neg(), x.abs().neg(), x * -1, 0 - x, x.sign() * x.abs()), _ints
    ),
    "integers compared after a sum": static(
        lambda x: (x + 1 > x, x - 1 < x, x * 2 > x, x + x == 2 * x), _ints
    ),
    "bits twice": static(
        lambda x: (x & 12 & 10, x | 3 | 5, x ^ 7 ^ 7, ~~x, ~(x & 5), (x & 255) | 256, -(~x)), _ints
    ),
    "power of two as a shift": static(
        lambda x: (
            x * 8,
            x // 8,
            x % 8,
            x >> 3,
            x & 7,
            torch.div(x, 8, rounding_mode="trunc"),
            torch.fmod(x, 8),
        ),
        _ints,
    ),
    "mean of integers by a sum": static(
        lambda x: (x.sum() / 12, x.sum() // 12, x.double().mean(), x.float().sum()), _ints
    ),
    # casts
    "integer as float and back": static(
        lambda x: (x.float().long(), x.double().long(), x.float() == x, x.double() == x),
        lambda n: (tensor(_INTS[2:]),),
    ),
    "integer narrowed and widened": static(
        lambda x: (
            x.int().long(),
            x.to(torch.int8).long(),
            x.to(torch.uint8).long(),
            x.short().int(),
            x.to(torch.uint8).to(torch.int8),
        ),
        _ints,
    ),
    "narrowed before a sum": static(
        lambda x: (
            x.int().sum(),
            x.to(torch.int8).sum(),
            x.to(torch.uint8).float().sum(),
            x.bool().sum(),
        ),
        _ints,
    ),
    "bool as a number and back": static(
        lambda x: (
            x.bool().int().bool(),
            x.bool().float() * x,
            x.int().bool(),
            (x.bool().int() - 1).bool(),
        ),
        _ints,
    ),
    "float as bool and as int": static(
        lambda x: (x.bool(), x.int().bool(), x.bool().float(), (x != 0).float()),
        lambda n: (tensor([0.5, -0.5, 0.0, -0.0, NAN, 2.0]),),
    ),
    "half and back": static(
        lambda x: (x.half().float(), x.bfloat16().float(), x.half().double(), x.bfloat16().half()),
        _edges,
    ),
    "half in functions of float32": static(
        lambda x: (
            x.half().isinf(),
            x.half().float().isinf(),
            x.half().clamp(-1e4, 1e4),
            x.half().relu(),
            x.half() > 65504,
            x.half() * 0,
        ),
        _edges,
    ),
    "half and a maximum": static(
        lambda x: (
            x.half().maximum(tensor(1.0).half()),
            x.half().amax(),
            x.half().float().amin(),
            x.half().sign(),
        ),
        lambda n: (tensor([65519.0, 65520.0, 1e-8, -1e10, 6e-8]),),
    ),
    "half compared": static(
        lambda x: (x.half() == x, x.half() > x.double(), x.bfloat16() == x, x.half().float() - x),
        lambda n: (tensor([0.1, 1.0, 2049.0, 65519.0]),),
    ),
    "double and back": static(
        lambda x: (
            x.double().float(),
            (x.double() * 10).float(),
            (x.double() + 1e-20 == x),
            x.double().square().float(),
        ),
        _edges,
    ),
    "floor of a cast": static(
        lambda x: (
            x.int().float(),
            x.trunc().int(),
            x.floor().long(),
            x.round().int(),
            (x + 0.5).int(),
            x.long() // 2,
        ),
        lambda n: (tensor([2.5, -2.5, 0.5, -0.5, 3.999, -1e-9]),),
    ),
    "rounded twice": static(
        lambda x: (
            x.floor().ceil(),
            x.round().trunc(),
            x.trunc().frac(),
            x.ceil() - x.floor(),
            (x.round() / 2).round(),
        ),
        _edges,
    ),
    "cast around a view": static(
        lambda x: (x.int().t().float(), x.half().reshape(-1).float(), x.double()[1:].sum().float()),
        matrix,
    ),
    "cast around a cat": static(
        lambda x: (
            torch.cat([x.half(), x.half()]).float(),
            torch.stack([x.int(), x.int()]).sum(0, dtype=torch.float32),
        ),
        matrix,
    ),
    # moves
    "transposed twice": every(
        lambda x: (
            x.transpose(0, 1).transpose(0, 1),
            x.permute(1, 2, 0).permute(2, 0, 1),
            x.permute(1, 2, 0).permute(1, 2, 0),
        ),
        cube,
    ),
    "transposed and reshaped": every(
        lambda x: (
            x.transpose(1, 2).reshape(-1, 3),
            x.reshape(-1, 3).t().reshape(3, -1, 4),
            x.transpose(0, 1).reshape(3, -1).t(),
        ),
        cube,
    ),
    "reshaped twice": every(
        lambda x: (
            x.reshape(-1).reshape(4, -1),
            x.reshape(-1, 6).reshape(-1, 2, 3),
            x.flatten(1).unflatten(1, (2, 6)),
        ),
        cube,
    ),
    "flipped and rolled twice": static(
        lambda x: (
            x.flip(0).flip(0),
            x.flip(0).flip(1),
            x.roll(1, 0).roll(-1, 0),
            x.roll(2, 0).flip(0),
            x.flip(0)[1:],
        ),
        cube,
    ),
    "sliced and joined": every(
        lambda x: (
            torch.cat([x[:2], x[2:]]),
            torch.cat([x[2:], x[:2]]),
            torch.cat([x[:, :1], x[:, 1:2], x[:, 2:]], 1),
            torch.cat([x[:2], x[1:]]),
        ),
        cube,
    ),
    "joined and sliced": every(
        lambda x, y: (
            (c := torch.cat([x, y]))[: x.shape[0]],
            c[x.shape[0] :],
            c[1:-1],
            c[::2],
            c[-1],
        ),
        two_matrices,
    ),
    "split and stacked": train(
        lambda x: (
            torch.stack(x.unbind(1), 1),
            torch.cat(x.split(1, 2), 2),
            torch.stack(x.unbind(0)[::-1]),
            torch.cat(x.chunk(3, 1)[::-1], 1),
        ),
        cube,
    ),
    "padded twice": every(
        lambda x: (
            F.pad(F.pad(x, (1, 0)), (0, 2)),
            F.pad(F.pad(x, (1, 1), value=1.0), (1, 1)),
            F.pad(x, (2, 2))[..., 2:-2],
            F.pad(F.pad(x, (-1, 0)), (1, 0)),
        ),
        cube,
    ),
    "repeated and expanded": every(
        lambda x: (
            x.repeat(2, 1, 1).repeat(1, 2, 1),
            x[:, None].expand(-1, 2, -1, -1).reshape(-1, 3, 4),
            x.repeat(2, 1, 1)[: x.shape[0]],
        ),
        cube,
    ),
    "expanded and reduced": every(
        lambda x: (
            x[None].expand(5, -1, -1, -1).sum(0),
            x[None].expand(5, -1, -1, -1).amax(0),
            x[:, :1].expand(-1, 7, -1).mean(1),
            x[..., None].expand(-1, -1, -1, 3).prod(-1),
        ),
        cube,
    ),
    "unsqueezed and squeezed": static(
        lambda x: (
            x[None].squeeze(),
            x[:, None].squeeze(1),
            x.unsqueeze(-1).squeeze(-1),
            x[None, :, None].squeeze((0, 2)),
        ),
        cube,
    ),
    "gathered twice": train(
        lambda x: (
            x[tensor([2, 0, 1, 3])][tensor([1, 1])],
            x.index_select(0, tensor([3, 2])).index_select(1, tensor([2])),
            x[1:][tensor([0, -1])],
        ),
        cube,
    ),
    "sorted twice": static(
        lambda x: (
            x.sort(0)[0].sort(0)[0],
            x.argsort(0).argsort(0),
            x.sort(0)[0].flip(0),
            x.sort(0, descending=True)[0].amax(0),
            x.topk(3, 1)[0].topk(1, 1)[0],
        ),
        lambda n: (torch.randn(n, 5),),
    ),
    "sums of scans": static(
        lambda x: (
            x.cumsum(0)[-1],
            x.flip(0).cumsum(0).flip(0),
            x.cumsum(0).diff(dim=0),
            x.cumsum(0).cumsum(0),
        ),
        cube,
    ),
    "products with identities": train(
        lambda x: (
            x @ torch.eye(3),
            torch.eye(4) @ x,
            x @ torch.zeros(3, 3),
            x @ torch.full((3, 2), 0.5),
            x * torch.ones(3),
        ),
        matrix,
    ),
    "products with infinities": static(
        lambda x: (
            x @ torch.zeros(2, 2),
            x @ torch.eye(2),
            x * torch.eye(2),
            torch.zeros(2, 2) @ x,
        ),
        lambda n: (tensor([[INF, 1.0], [NAN, 2.0]]),),
    ),
    "products in two orders": train(
        lambda x, y: (
            (x @ y.t()) @ x,
            x @ (y.t() @ x),
            (x.t() @ y).t(),
            (2 * x) @ y.t(),
            x @ (y.t() / 3),
            -x @ -y.t(),
        ),
        two_matrices,
    ),
    "constants that fold": static(
        lambda x: (
            x
            + torch.arange(3) * 2
            - torch.ones(3).cumsum(0) / torch.eye(3).sum(0)
            + tensor([1, 2, 3]).float().mean()
        ),
        matrix,
    ),
    "same constant in two dtypes": static(
        lambda x: (
            x * tensor(0.1),
            x.double() * tensor(0.1, dtype=torch.float64),
            x + tensor(1),
            x.long() + tensor(1),
        ),
        matrix,
    ),
    "equal expressions with different zeros": static(
        lambda x: (_bits(x + 0.0), _bits(x + -0.0), _bits(x * 0.0), _bits(x * -0.0)),
        lambda n: (tensor([1.0, -1.0, 0.0, -0.0]),),
    ),
    "softmax shifted": train(
        lambda x: (
            (x + 100).softmax(1),
            (x * 1).softmax(1).sum(1),
            (x.exp() / x.exp().sum(1, keepdim=True)),
            x.softmax(1).argmax(1),
        ),
        matrix,
    ),
    "variance by two ways": train(
        lambda x: (x.var(0, correction=0) - ((x * x).mean(0) - x.mean(0) ** 2), x.std(0) ** 2),
        matrix,
    ),
    "dynamic sizes that cancel": dynamic(
        lambda x: (
            x * x.shape[0] / x.shape[0],
            x.sum(0) / x.shape[0],
            x.mean(0) * x.shape[0],
            x.reshape(x.shape[1], x.shape[0]).t(),
        ),
        matrix,
    ),
}
