"""Python numbers, sizes and values of tensors as numbers; results of sizes that depend on data."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import tensor

from . import dynamic, every, matrix, static, train

_SCALARS = "capture_scalar_outputs"
_SIZES = "capture_dynamic_output_shape_ops"


def _xs(value):
    return lambda n: (torch.randn(n, 3), value)


def _by_size(value):
    """Return inputs with a number that changes with the size."""
    return lambda n: (torch.randn(n, 3), value(n))


def _ints(n):
    return (torch.arange(n * 3).reshape(n, 3) % 5,)


def _branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def _branch_on_size(x):
    if x.shape[0] > 5:
        return x[:5] * 2
    return F.pad(x, (0, 0, 0, 5 - x.shape[0]))


def _count_down(x, steps):
    while steps > 0:
        x = x * 2 + steps
        steps -= 1
    return x


def _until(x):
    rounds = 0
    while x.abs().max() > 0.1:
        x = x / 3
        rounds += 1
    return x, rounds


def _packed(x, lengths):
    return torch.cat([row[:size] for row, size in zip(x, lengths, strict=True)])


def _halve(x):
    """Sum by halves, with a loop over sizes."""
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = torch.cat([x[:half] + x[half : 2 * half], x[2 * half :]])
    return x[0]


PROGRAMS = {
    # numbers as arguments
    "int argument": dynamic(lambda x, k: (x + k, x * k, k - x, x**k), _by_size(lambda n: n - 2)),
    "float argument": dynamic(
        lambda x, a: (x + a, x * a, a / x, x.clamp(max=a)), _by_size(lambda n: n / 7)
    ),
    "float argument of special values": static(
        lambda x, a: (x + a, x * a, torch.full((2,), a), x.clamp(min=a)),
        _by_size(lambda n: math.inf),
    ),
    "nan argument": static(lambda x, a: (x + a, x.masked_fill(x > 0, a), a), _xs(math.nan)),
    "negative zero argument": static(lambda x, a: (x * 0 + a, torch.copysign(x, a), a), _xs(-0.0)),
    "bool argument": static(
        lambda x, b: (x * b, x + 1 if b else x, torch.full((2,), b), not b), _xs(True)
    ),
    "None argument": static(lambda x, b: (x if b is None else x + b, b), _xs(None)),
    "large int argument": static(lambda x, k: (x.long() + k, k + 1, torch.tensor(k)), _xs(2**62)),
    "int beyond 64 bits": static(lambda x, k: (x + float(k), k // 3), _xs(2**70)),
    "complex argument": static(lambda x, c: (x * c, c.real, c * 2), _xs(1 + 2j)),
    "text argument": static(lambda x, mode: x.relu() if mode == "relu" else x.tanh(), _xs("tanh")),
    "dtype and device arguments": static(
        lambda x, d: (x.to(d), torch.ones(2, dtype=d)), _xs(torch.float64)
    ),
    "tuple of numbers": dynamic(
        lambda x, t: (x * t[0] + t[1], t, sum(t)), _by_size(lambda n: (n, 0.5))
    ),
    "numbers as results": dynamic(
        lambda x, k: (k, k + 1, k * 2.5, k / 2, -k, k > 3, x), _by_size(lambda n: n)
    ),
    "arithmetic of numbers": dynamic(
        lambda x, k: x + (k // 2) * 3 + k % 3 - max(k, 2) + min(k, 9) + abs(-k) + k**2,
        _by_size(lambda n: n),
    ),
    "float arithmetic of numbers": dynamic(
        lambda x, a: x * math.sqrt(a) + math.floor(a) + round(a, 1) + int(a) + math.exp(-a),
        _by_size(lambda n: n / 3),
    ),
    "numbers compared": dynamic(lambda x, k: x * 2 if k > 3 else x - k, _by_size(lambda n: n)),
    "number as an axis": static(lambda x, k: (x.sum(k), x.softmax(k), x.unsqueeze(k)), _xs(-1)),
    "number as a size": dynamic(
        lambda x, k: (x.new_zeros(k, 2), torch.arange(k), x[:1].expand(k, 3)),
        _by_size(lambda n: n + 1),
    ),
    "number as a bound of a slice": dynamic(
        lambda x, k: (x[:k], x[k:], x[:, :k], x[-k:]), _by_size(lambda n: n // 2)
    ),
    "number as an index": dynamic(
        lambda x, k: (x[k], x[-k], x[:, k % 3]), _by_size(lambda n: n // 2)
    ),
    "number as a step": static(lambda x, k: (x[::k], torch.arange(0, 9, k)), _xs(2)),
    "number of rounds": static(_count_down, _xs(3)),
    "number of repeats": dynamic(
        lambda x, k: (x.repeat(k, 1), x.repeat_interleave(k, 0), x.tile(k)),
        _by_size(lambda n: n % 3 + 1),
    ),
    "number of rolls": dynamic(lambda x, k: (x.roll(k, 0), x.roll(-k)), _by_size(lambda n: n - 3)),
    "alpha and eps of numbers": dynamic(
        lambda x, a: (
            torch.add(x, x, alpha=a),
            F.layer_norm(x, (3,), eps=a),
            F.leaky_relu(x, a),
            F.elu(x, a),
        ),
        _by_size(lambda n: n / 9),
    ),
    "0-d tensor as a number": train(
        lambda x, s: (x * s, x + s, torch.where(x > s, x, s), x.clamp(min=s)),
        lambda n: (torch.randn(n, 3), tensor(0.5)),
    ),
    "0-d int tensor": static(
        lambda x, k: (x * k, x + k, x[k], k + 1, x / k), lambda n: (torch.randn(n, 3), tensor(2))
    ),
    "keyword arguments and defaults": static(
        lambda x, *, scale=2.0, shift=None: x * scale + (0 if shift is None else shift), matrix
    ),
    # sizes
    "sizes as results": dynamic(
        lambda x: (x.shape, x.size(0), x.numel(), x.dim(), len(x), x.shape[0] * 2), matrix
    ),
    "sizes as numbers": every(
        lambda x: (x / x.shape[0], x * x.numel(), x.sum() / x.size(-1), x + x.shape[0] // 2), matrix
    ),
    "size as a float": every(
        lambda x: (x / math.sqrt(x.shape[0]), x * float(x.shape[0]), x * x.shape[0] ** -0.5), matrix
    ),
    "size in a tensor": dynamic(
        lambda x: (
            tensor(x.shape[0]),
            torch.tensor([x.shape[0], 3.5]),
            torch.full((2,), x.shape[0]),
        ),
        matrix,
    ),
    "size compared": dynamic(_branch_on_size, matrix),
    "size in a loop": every(_halve, matrix),
    "size minus 1": every(
        lambda x: (x[: x.shape[0] - 1], x[1:], x.new_ones(x.shape[0] - 1)), matrix
    ),
    "twice the size": every(
        lambda x: (torch.cat([x, x]), x.repeat(2, 1), x.new_zeros(2 * x.shape[0], 3)), matrix
    ),
    "half the size": every(
        lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :], x[: -(-x.shape[0] // 2)]), matrix
    ),
    "product of sizes": every(
        lambda x: x.reshape(x.shape[0] * x.shape[1]).view(x.shape[1], x.shape[0]), matrix
    ),
    "two equal sizes": every(
        lambda x, y: (x + y, x @ y.t(), torch.cat([x, y])),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "two different sizes": every(
        lambda x, y: (x[:, None] + y, torch.cat([x, y])),
        lambda n: (torch.randn(n, 3), torch.randn(n + 2, 3)),
    ),
    "all axes dynamic": every(
        lambda x: (x.mean((0, 1)), x.permute(2, 0, 1).flatten(1), x.sum() / x.numel()),
        lambda n: (torch.randn(n, n + 1, n + 2),),
    ),
    "square of a dynamic size": every(
        lambda x: (x @ x, x.tril(), x + torch.eye(x.shape[0]), x.diagonal().sum()),
        lambda n: (torch.randn(n, n),),
    ),
    "positions": dynamic(
        lambda x: (
            x + torch.arange(x.shape[0])[:, None],
            torch.arange(x.shape[0]).flip(0),
            torch.linspace(0, 1, x.shape[0]),
        ),
        matrix,
    ),
    "mask of positions": dynamic(
        lambda x, lengths: x.masked_fill(torch.arange(x.shape[1]) >= lengths[:, None], 0),
        lambda n: (torch.randn(2, n), tensor([1, 3])),
    ),
    "causal mask of a size": dynamic(
        lambda x: (
            (x @ x.t())
            .masked_fill(torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).triu(1), -math.inf)
            .softmax(-1)
        ),
        matrix,
    ),
    "windows": every(
        lambda x: (x.unfold(0, 2, 1), x[: x.shape[0] // 2 * 2].view(-1, 2, 3).mean(1)), matrix
    ),
    "size 0 and 1 of a dynamic axis": static(
        lambda x, y: (x.sum(), x + 1, x.mean(0), y - y.mean(0), torch.cat([x, y]), x @ y.t()),
        lambda n: (torch.randn(0, 3), torch.randn(1, 3)),
    ),
    "pad to a multiple": dynamic(
        lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)).view(-1, 4, 3).sum(1), matrix
    ),
    "interpolation to a size": dynamic(
        lambda x: F.interpolate(x[None, None], size=(x.shape[0] * 2, 6)), matrix
    ),
    "topk of a share": dynamic(lambda x: x[:, 0].topk(x.shape[0] // 2).values, matrix),
    "split by a size": dynamic(lambda x: x.split(x.shape[0] // 2)[0] + 1, matrix),
    "shape as a tensor": dynamic(
        lambda x: torch.as_tensor(x.shape).float().prod() + x.sum(), matrix
    ),
    "stride as a number": dynamic(lambda x: (x * x.stride(0), x.t().stride()), matrix),
    # numbers of tensors
    "item": static(lambda x: (x.sum().item(), x[0, 0].item() * 2), matrix),
    "item of integers": dynamic(
        lambda x: (x.max().item(), x.sum().item() + 1, x[0, 1].item() // 2), _ints
    ),
    "item of a bool": static(lambda x: ((x > 100).any().item(), bool((x == x).all())), matrix),
    "item captured": dynamic(lambda x: x * x.max().item(), matrix, _SCALARS),
    "int item captured": dynamic(lambda x: (x + x.max().item(), x.sum().item()), _ints, _SCALARS),
    "tolist": static(lambda x: (x.tolist(), x.sum(1).tolist()), _ints),
    "float and int of a tensor": static(
        lambda x: (float(x[0, 0]), int(x[0, 1] * 10), bool(x[0, 2] > 0)), matrix
    ),
    "item as a size": static(lambda x: torch.zeros(int(x.max())) + 1, _ints),
    "item as a size captured": static(
        lambda x: torch.zeros(x.max().item()) + x.sum(), _ints, _SCALARS
    ),
    "item as a bound": static(lambda x: x[: int(x[0, 1])] * 2, _ints),
    "item as an index": static(lambda x: x[int(x[0, 1])], _ints),
    "branch on data": static(_branch, matrix),
    "loop on data": static(_until, matrix),
    "rows of given lengths": static(_packed, lambda n: (torch.randn(n, 3), [1, 0, 3, 2])),
    "rows of lengths in a tensor": static(
        lambda x, s: _packed(x, s.tolist()), lambda n: (torch.randn(n, 3), tensor([1, 0, 3, 2]))
    ),
    "assertion on data": static(lambda x: (torch._assert_async((x == x).all()), x * 2)[1], matrix),
    "number made of numbers": static(
        lambda x: torch.tensor([float(x[0, 0]), 2.0]) * x[:, :2], matrix
    ),
    "division by zero of numbers error": static(lambda x, k: x * (1 // k), _xs(0)),
    # results of sizes that depend on data
    "nonzero": dynamic(
        lambda x: (x.nonzero(), x.nonzero().shape[0], x.nonzero().sum(0)), _ints, _SIZES
    ),
    "nonzero of nothing": static(
        lambda x: (x.nonzero(), (x > 99).nonzero(), (x > 99).nonzero().sum()), _ints, _SIZES
    ),
    "nonzero of 0-d": static(
        lambda x: (tensor(1).nonzero(), tensor(0).nonzero(), x[0, 1].nonzero()), _ints, _SIZES
    ),
    "nonzero at graph breaks": static(
        lambda x: (x.nonzero(), len(x.nonzero()), x[x > 2].tolist()), _ints
    ),
    "mask and mean": dynamic(
        lambda x: (x[x > 1].mean(), x[x > 1].numel(), x[x > 9].sum()),
        lambda n: (torch.arange(3.0 * n),),
        _SIZES,
    ),
    "mask then functions": every(
        lambda x: x[x > 0].exp().sum() + x[x > 0].view(-1, 1).mean(), matrix, _SIZES
    ),
    "mask then a view": static(
        lambda x: (y := x[x[:, 0] > 0], y.t(), y.reshape(-1), y[:, 1:], y.sum(0)), matrix, _SIZES
    ),
    "mask then a cat": static(
        lambda x: torch.cat([x[x[:, 0] > 0], x, x[x[:, 0] <= 0]]), matrix, _SIZES
    ),
    "mask then a product": static(lambda x: x[x[:, 0] > 0] @ x.t(), matrix, _SIZES),
    "mask then a write": static(
        lambda x: x.index_put((torch.where(x[:, 0] > 0)[0],), tensor(0.0)), matrix, _SIZES
    ),
    "mask in training": train(lambda x: x[x > 0] ** 2, matrix, _SIZES),
    "unique of integers": static(
        lambda x: (x.unique(), x.unique().numel(), torch.unique(x, return_counts=True)),
        _ints,
        _SIZES,
    ),
    "unique at graph breaks": static(lambda x: x.unique() * 2, _ints),
    "unique_consecutive": static(
        lambda x: torch.unique_consecutive(x[:, 0], return_inverse=True, return_counts=True),
        _ints,
        _SIZES,
    ),
    "unique then an index": static(
        lambda x: (u := x.unique(return_inverse=True))[0][u[1]] == x, _ints, _SIZES
    ),
    "repeat_interleave by data": static(
        lambda x: torch.repeat_interleave(x.float(), x[:, 0] + 1, 0), _ints, _SIZES
    ),
    "bincount": static(
        lambda x: (torch.bincount(x.flatten()), torch.bincount(x.flatten(), minlength=9).float()),
        _ints,
        _SIZES,
    ),
    "two masks": static(
        lambda x: (x[x > 0].sum() - x[x < 0].sum(), torch.cat([x[x > 0], x[x < 0]])), matrix, _SIZES
    ),
    "rows removed": static(lambda x: x[~(x == 0).any(1)], _ints, _SIZES),
    "nms by hand": static(
        lambda x: x[x[:, 0].argsort(descending=True)][x[:, 1] > 0][:2], matrix, _SIZES
    ),
    "full by data": static(lambda x: torch.full((2, 2), x.max().item()), _ints, _SCALARS),
    "arange by data": static(lambda x: torch.arange(x.max().item()), _ints, _SCALARS),
    "slice by data": static(
        lambda x: (k := x[0, 1].item(), torch._check(k >= 0), torch._check(k <= 4), x[:k])[3],
        _ints,
        _SCALARS,
    ),
    "split by data": static(
        lambda x, s: x.split(s.tolist()), lambda n: (torch.randn(n, 3), tensor([1, 3])), _SCALARS
    ),
    # empty tensors
    "functions of empty tensors": static(
        lambda x: (
            x + 1,
            x.exp(),
            x.t() @ x,
            x @ x.t(),
            x.softmax(1),
            torch.cat([x, x], 1),
            x.reshape(3, 0),
            x.repeat(2, 2),
        ),
        lambda n: (torch.randn(0, 3),),
    ),
    "layers of empty tensors": static(
        lambda x, w: (
            F.linear(x, w),
            F.layer_norm(x, (3,)),
            F.relu(x),
            F.linear(x, w).sum(),
            F.normalize(x),
        ),
        lambda n: (torch.randn(0, 3), torch.randn(2, 3)),
    ),
    "gradients of empty tensors": train(
        lambda x, w: (x @ w, w.sum(0)), lambda n: (torch.randn(0, 3), torch.randn(3, 2))
    ),
    "empty slices": static(
        lambda x: (
            x[4:],
            x[:0].sum(0),
            x[:, 3:] @ x[:, 3:].t(),
            torch.cat([x[:0], x]),
            x[2:2].amax(1),
        ),
        matrix,
    ),
    "empty indices": static(
        lambda x, i: (x[i], x.index_select(0, i), x.index_add(0, i, x[:0])),
        lambda n: (torch.randn(n, 3), torch.empty(0, dtype=torch.int64)),
    ),
    "empty results of one axis": static(
        lambda x: (
            x.new_empty(0),
            x.new_zeros(0, 3).shape,
            torch.arange(3, 3),
            x.new_zeros(3, 0).sum(1),
        ),
        matrix,
    ),
}
