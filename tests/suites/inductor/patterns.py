"""Layers written out, and what resembles them: another axis, constant, order or use.

Under no_grad weights are constants of the compiled program; some programs change them between
calls.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, every, static, train


def _constant(function):
    """Return a function that runs without gradients, so that weights are constants."""

    def run(*args):
        with torch.no_grad():
            return function(*args)

    return run


def _made(make, *shape):
    return lambda n: (make().eval(), torch.randn([n if size is None else size for size in shape]))


def _tensors(*shapes):
    return lambda n: tuple(torch.randn([n if s is None else s for s in shape]) for shape in shapes)


def _x(n):
    return (torch.randn(n, 3, 8),)


def _xw(n):
    return torch.randn(n, 3, 8), torch.randn(8), torch.randn(8)


def _qkv(n):
    return tuple(torch.randn(2, 2, n, 4) for _ in range(3))


def _heads(n):
    return (torch.randn(2, 2, n, 4),)


def _norm(axis=-1, inside=True, eps=1e-5, correction=0):
    """Return a layer norm written out, or something like it."""

    def run(x, w, b):
        centered = x - x.mean(axis, keepdim=True)
        variance = x.var(axis, keepdim=True, correction=correction)
        scale = (variance + eps).sqrt() if inside else variance.sqrt() + eps
        return centered / scale * w + b

    return run


def _rms(x, w, order=0, eps=1e-6, axis=-1):
    scale = torch.rsqrt(x.pow(2).mean(axis, keepdim=True) + eps)
    return (w * (x * scale), x * (scale * w), x * w * scale, (1 + w) * x * scale)[order]


def _rms_in_float(x, w):
    y = x.half()
    wide = y.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).half() * w.half()


def _attention(scale=0.5, axis=-1, before=False, mask=None):
    """Return attention written out, or something like it."""

    def run(q, k, v):
        scores = (q * scale) @ k.mT if before else q @ k.mT * scale
        if mask is not None:
            scores = mask(scores)
        return scores.softmax(axis) @ v

    return run


def _causal(scores):
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, -math.inf)


def _anticausal(scores):
    return scores + torch.full(scores.shape[-2:], -math.inf).tril(-1)


def _probabilities(q, k, v):
    weights = (q @ k.mT / 2).softmax(-1)
    return weights @ v, weights


def _repeated_heads(q, k, v, outer=False):
    repeat = (lambda x: x.repeat(1, 2, 1, 1)) if outer else (lambda x: x.repeat_interleave(2, 1))
    return F.scaled_dot_product_attention(q, repeat(k), repeat(v))


def _expanded_heads(q, k, v):
    shape = (2, 2, 2, *k.shape[-2:])
    k, v = (x[:, :, None].expand(shape).reshape(2, 4, *x.shape[-2:]) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _grouped(n):
    return torch.randn(2, 4, n, 3), torch.randn(2, 2, n, 3), torch.randn(2, 2, n, 3)


def _gelu(factor=0.5, root=1.4142135623730951):
    return lambda x: factor * x * (1 + torch.erf(x / root))


def _gelu_tanh(cubic=0.044715, root=0.7978845608028654):
    return lambda x: 0.5 * x * (1 + torch.tanh(root * (x + cubic * x**3)))


def _rotate(x, pairs=False):
    if pairs:
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def _rotary(pairs=False, sign=1):
    def run(x):
        angles = torch.arange(x.shape[-2])[:, None] * 0.1 ** torch.arange(x.shape[-1] // 2)
        angles = angles.repeat_interleave(2, -1) if pairs else torch.cat([angles, angles], -1)
        return x * angles.cos() + sign * _rotate(x, pairs) * angles.sin()

    return run


@torch._dynamo.disable
def _change(step):
    with torch.no_grad():
        step()


def _changed(step):
    """Return a program that runs a module, and changes its weights between two runs."""

    def run(m, x):
        with torch.no_grad():
            before = m(x)
        _change(lambda: step(m))
        with torch.no_grad():
            return before, m(x)

    return run


def _replace(m):
    m.weight = nn.Parameter(m.weight * 0.5)


def _load(m):
    m.load_state_dict({name: value + 1 for name, value in m.state_dict().items()})


def _write_memory(m):
    m.weight.data.view(-1)[0] = 7.0


def _linear(n):
    return nn.Linear(3, 2), torch.randn(n, 3)


def _conv_norm(*more):
    return lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), _trained(nn.BatchNorm2d(4)), *more)


def _trained(norm):
    """Return a norm with statistics and weights unlike those of a new one."""
    for tensor_ in (norm.weight.data, norm.bias.data, norm.running_mean):
        tensor_.normal_()
    norm.running_var.uniform_(0.5, 2)
    return norm


class _Gated(nn.Module):
    def __init__(self, joined):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(3, 6), nn.Linear(3, 6), nn.Linear(6, 3)
        self.both = nn.Linear(3, 12) if joined else None

    def forward(self, x):
        gate, up = self.both(x).chunk(2, -1) if self.both else (self.gate(x), self.up(x))
        return self.down(F.silu(gate) * up)


class _Projections(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, size) for size in (4, 2, 2))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return torch.cat([q, k, v], -1), q[..., :2] @ k.mT, k * v


PROGRAMS = {
    # norms
    "layer norm": every(_norm(), _xw),
    "layer norm with eps outside": train(_norm(inside=False), _xw),
    "layer norm with a large eps": train(_norm(eps=0.5), _xw),
    "layer norm of a sample variance": train(_norm(correction=1), _xw),
    "layer norm of another axis": train(_norm(axis=0), _xw),
    "layer norm of two axes": train(_norm(axis=(1, 2)), _xw),
    "layer norm whose mean is used": train(
        lambda x: (
            m := x.mean(-1, keepdim=True),
            (x - m) / ((x - m).square().mean(-1, keepdim=True) + 1e-5).sqrt(),
        ),
        _x,
    ),
    "layer norm of a sum": every(
        lambda x, w, b: (y := x + x.roll(1, 0), F.layer_norm(y, (8,), w, b)), _xw
    ),
    "layer norm scaled for each row": train(
        lambda x, w, b: F.layer_norm(x, (8,)) * w[:3, None] + b[:3, None], _xw
    ),
    "layer norm after a cast": static(
        lambda x, w, b: F.layer_norm(x.half().float(), (8,), w, b).half(), _xw
    ),
    "layer norm twice": train(lambda x, w, b: F.layer_norm(F.layer_norm(x, (8,), w), (8,), b), _xw),
    "rms norm in four orders": every(
        lambda x, w, b: tuple(_rms(x, w, order) for order in range(4)), _xw
    ),
    "rms norm of another axis": train(lambda x, w, b: _rms(x, w, axis=0), _xw),
    "rms norm with a sum": train(
        lambda x, w, b: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() * w, _xw
    ),
    "rms norm of half": static(lambda x, w, b: _rms_in_float(x, w), _xw),
    "rms norm of different factors": train(
        lambda x, w, b: x * torch.rsqrt((x * x.roll(1)).abs().mean(-1, keepdim=True) + 0.1) * w, _xw
    ),
    "rms norm whose scale is used": train(
        lambda x, w, b: (
            s := torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
            x * s * w,
            s * 2,
        ),
        _xw,
    ),
    "rms norm of a residual": every(lambda x, w, b: (y := x + b, _rms(y, w) + y), _xw),
    "group norm written out": train(
        lambda x: (
            ((y := x.view(x.shape[0], 2, -1)) - y.mean(-1, True))
            / (y.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        ),
        _tensors((None, 4, 3)),
    ),
    "softmax written out": every(
        lambda x: (e := (x - x.amax(-1, True)).exp()) / e.sum(-1, keepdim=True), _x
    ),
    "softmax of another sum": train(
        lambda x: (e := x.exp()) / e.sum(1, keepdim=True) + e / e.mean(-1, keepdim=True), _x
    ),
    "normalised by the largest": train(
        lambda x: x / x.abs().amax(-1, keepdim=True).clamp(min=1e-6), _x
    ),
    # attention
    "attention": every(_attention(), _qkv),
    "attention scaled before": every(_attention(before=True), _qkv),
    "attention along another axis": train(_attention(axis=-2), _qkv),
    "attention with a negative scale": train(_attention(scale=-3.0), _qkv),
    "attention with a scale of 0": static(_attention(scale=0.0), _qkv),
    "causal attention": every(_attention(mask=_causal), _qkv),
    "anticausal attention": train(_attention(mask=_anticausal), _qkv),
    "attention with a bias": train(
        lambda q, k, v, b: (q @ k.mT * 0.5 + b).softmax(-1) @ v,
        lambda n: (*_qkv(n), torch.randn(2, 1, 1, n)),
    ),
    "attention with a mask of keys": every(
        lambda q, k, v, m: (q @ k.mT).masked_fill(m[:, None, None], -1e9).softmax(-1) @ v,
        lambda n: (*_qkv(n), torch.arange(2 * n).reshape(2, n) % 3 == 1),
    ),
    "attention with a mask of queries": train(
        lambda q, k, v, m: (q @ k.mT).masked_fill(m[:, None, :, None], -1e9).softmax(-1) @ v,
        lambda n: (*_qkv(n), torch.arange(2 * n).reshape(2, n) % 3 == 1),
    ),
    "attention with a soft cap": every(
        lambda q, k, v: (5 * (q @ k.mT / 5).tanh()).softmax(-1) @ v, _qkv
    ),
    "attention whose weights are returned": train(_probabilities, _qkv),
    "attention masked after the softmax": train(
        lambda q, k, v: (q @ k.mT).softmax(-1).tril() @ v, _qkv
    ),
    "attention without softmax": train(lambda q, k, v: (q @ k.mT / 2).relu() @ v, _qkv),
    "linear attention": every(lambda q, k, v: q.softmax(-1) @ (k.softmax(-2).mT @ v), _qkv),
    "attention with values as keys": train(
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, k) + F.scaled_dot_product_attention(q, q, q)
        ),
        _qkv,
    ),
    "attention with transposed results": every(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, -1, 8),
        _qkv,
    ),
    "attention by einsum": train(
        lambda q, k, v: torch.einsum(
            "bhqk,bhkd->bqhd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1), v
        ),
        _qkv,
    ),
    "repeated heads": every(lambda q, k, v: _repeated_heads(q, k, v), _grouped),
    "repeated heads in another order": every(
        lambda q, k, v: _repeated_heads(q, k, v, outer=True), _grouped
    ),
    "repeated keys only": train(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat(1, 2, 1, 1)
        ),
        _grouped,
    ),
    "expanded heads": every(_expanded_heads, _grouped),
    "window of attention": static(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril().triu(-1)
        ),
        _qkv,
    ),
    "cache written at a place": static(
        lambda k, new, at: (k.index_copy(2, at, new), k.slice_scatter(new, 2, 1, 2)),
        lambda n: (torch.randn(1, 2, n, 3), torch.randn(1, 2, 1, 3), tensor([2])),
    ),
    "rotary": every(_rotary(), _heads),
    "rotary of pairs": every(_rotary(pairs=True), _heads),
    "rotary the other way": train(_rotary(sign=-1), _heads),
    "rotary of a part": train(lambda x: torch.cat([_rotary()(x[..., :2]), x[..., 2:]], -1), _heads),
    # activations
    "gelu": every(_gelu(), _x),
    "gelu with other numbers": train(
        lambda x: (_gelu(0.4)(x), _gelu(root=1.4)(x), x * (1 + torch.erf(x))), _x
    ),
    "gelu by tanh": every(_gelu_tanh(), _x),
    "gelu by tanh with other numbers": train(
        lambda x: (_gelu_tanh(0.04)(x), _gelu_tanh(root=0.8)(x)), _x
    ),
    "gelu by sigmoid": train(
        lambda x: (x * torch.sigmoid(1.702 * x), x * torch.sigmoid(-x), x * x.sigmoid()), _x
    ),
    "silu of another factor": train(
        lambda x, w, b: (x.roll(1, 0) * x.sigmoid(), x * (x + w).sigmoid(), x.sigmoid() * b), _xw
    ),
    "gates": every(
        _constant(lambda a, b, x: (a(x), b(x))),
        lambda n: (_Gated(False), _Gated(True), torch.randn(n, 3)),
    ),
    "gates in training": train(lambda m, x: m(x), lambda n: (_Gated(True), torch.randn(n, 3))),
    "gate cut in another order": train(
        lambda x: (lambda a, b: (a * F.silu(b), F.gelu(a) * b, a.sigmoid() * b))(*x.chunk(2, -1)),
        _x,
    ),
    "hard activations": train(
        lambda x: (
            x * F.relu6(x + 3) / 6,
            F.relu6(x + 3) / 6,
            x * (x + 3).clamp(0, 6) / 5,
            x.clamp(0, 6),
        ),
        _x,
    ),
    "softplus and mish": train(
        lambda x: (
            (1 + x.exp()).log(),
            x * (1 + x.exp()).log().tanh(),
            x * F.softplus(x).sigmoid(),
        ),
        _x,
    ),
    "leaky relu": train(
        lambda x: (
            torch.where(x > 0, x, 0.1 * x),
            torch.where(x > 0, 0.1 * x, x),
            x.maximum(0.1 * x),
            x.maximum(2 * x),
        ),
        _x,
    ),
    # products and convolutions of constants
    "projections of one input": every(
        _constant(lambda m, x: m(x)), _made(_Projections, 2, None, 4)
    ),
    "projections in training": train(
        lambda m, x: m(x), lambda n: (_Projections(), torch.randn(2, n, 4))
    ),
    "linear layers in a chain": every(
        _constant(lambda m, x: m(x)),
        _made(lambda: nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2), nn.Linear(2, 2)), None, 3),
    ),
    "linear scaled and shifted": dynamic(
        _constant(lambda m, x: (m(x) * 2 + 1, m(x) * tensor([1.0, -1.0]), m(x * 3), -m(x))),
        _made(lambda: nn.Linear(3, 2), None, 3),
    ),
    "linear then a norm": dynamic(
        _constant(lambda m, x: m(x)),
        _made(
            lambda: nn.Sequential(nn.Linear(3, 4), _trained(nn.BatchNorm1d(4)), nn.ReLU()), None, 3
        ),
    ),
    "norm then linear": dynamic(
        _constant(lambda m, x: m(x)),
        _made(lambda: nn.Sequential(_trained(nn.BatchNorm1d(3)), nn.Linear(3, 4)), None, 3),
    ),
    "two norms": dynamic(
        _constant(lambda m, x: m(x)),
        _made(
            lambda: nn.Sequential(_trained(nn.BatchNorm1d(3)), _trained(nn.BatchNorm1d(3))), None, 3
        ),
    ),
    "product and a bias of each shape": every(
        lambda x, w, a, b, c: (
            x @ w + a,
            x @ w + b,
            x @ w + c,
            a - x @ w,
            (x @ w) * 2 + a,
            x @ w + x @ w,
        ),
        _tensors((None, 3), (3, 4), (4,), (1, 4), (None, 1)),
    ),
    "product and a bias that widens": train(
        lambda x, w, b: (x @ w + b, x @ w * b), _tensors((1, 3), (3, 4), (5, 4))
    ),
    "conv then a norm": dynamic(
        _constant(lambda m, x: m(x)), _made(_conv_norm(nn.ReLU()), 2, 3, None, 5)
    ),
    "conv then a norm and a use of both": static(
        _constant(lambda m, x: (y := m[0](x), m[1](y), y * 2)), _made(_conv_norm(), 2, 3, 5, 5)
    ),
    "conv then factors": static(
        _constant(
            lambda m, x, c: (
                m(x) * c,
                m(x) + c,
                m(x) * c[:, :, :1],
                m(x) * 2 + 1,
                m(x * 2),
                c * m(x) + m(x),
            )
        ),
        lambda n: (nn.Conv2d(3, 4, 3), torch.randn(1, 3, 5, 5), torch.randn(1, 4, 3, 3)),
    ),
    "conv then a norm of another axis": static(
        _constant(lambda m, x: (m(x) - m(x).mean(2, True)) / (m(x).std(3, keepdim=True) + 1)),
        _made(lambda: nn.Conv2d(3, 4, 3), 1, 3, 5, 5),
    ),
    "pads and convolutions": train(
        lambda x, w: (
            F.conv2d(F.pad(x, (1, 1, 1, 1)), w),
            F.conv2d(F.pad(x, (1, 0, 2, 0)), w),
            F.conv2d(F.pad(x, (1, 1), value=0.5), w),
            F.conv2d(F.pad(x, (0, 0, 0, 0, 1, 1)), torch.cat([w, w], 1)[:, :5]),
            F.conv2d(F.pad(x, (-1, 1)), w, padding=1),
        ),
        _tensors((1, 3, 5, 5), (2, 3, 3, 3)),
    ),
    "pads and pools": train(
        lambda x: (
            F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3),
            F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=-math.inf), 3),
            F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3),
            F.avg_pool2d(F.pad(x, (1, 0)), 2, padding=1, count_include_pad=False),
        ),
        _tensors((1, 3, 7, 7)),
    ),
    "causal convolution cut at its end": train(
        lambda x, w: (
            F.conv1d(x, w, padding=2)[..., :-2],
            F.conv1d(x, w, padding=2)[..., 2:],
            F.conv1d(F.pad(x, (2, 0)), w),
        ),
        _tensors((2, 3, None), (4, 3, 3)),
    ),
    "depthwise convolution at few places": dynamic(
        _constant(lambda x, w: F.silu(F.conv1d(F.pad(x, (3, 0)), w, groups=6))),
        _tensors((1, 6, None), (6, 1, 4)),
    ),
    "patches by a convolution": every(
        lambda x, w: F.conv2d(x, w, stride=2).flatten(2).transpose(1, 2),
        lambda n: (torch.randn(1, 3, 2 * n, 4), torch.randn(5, 3, 2, 2)),
    ),
    "channels last through layers": static(
        _constant(lambda m, x: m(x)),
        lambda n: (
            _conv_norm(nn.ReLU(), nn.MaxPool2d(2))().eval(),
            torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last),
        ),
    ),
    # selections
    "one-hot products": train(
        lambda w: (
            F.one_hot(tensor([2, 0]), 4).float() @ w,
            (torch.arange(4) == tensor([[1], [3]])).float() @ w,
        ),
        _tensors((4, 3)),
    ),
    "class of each row": train(
        lambda x, t: (
            x.log_softmax(-1).gather(1, t[:, None]),
            x[torch.arange(x.shape[0]), t],
            (x * F.one_hot(t, 8)).sum(1),
        ),
        lambda n: (torch.randn(n, 8), torch.randint(0, 8, (n,))),
    ),
    "rooms of zeros joined": train(
        lambda x: (
            F.pad(x, (0, 8)) + F.pad(x, (8, 0)),
            F.pad(x, (0, 7)) + F.pad(x, (7, 0)),
            F.pad(x, (0, 8), value=1.0) + F.pad(x, (8, 0)),
        ),
        _x,
    ),
    "last place only": every(
        lambda x, w, b: (
            F.layer_norm(x, (8,), w, b)[:, -1],
            (x @ torch.outer(w, b))[:, -1],
            x.softmax(-1)[:, -1:],
            x.cumsum(1)[:, -1],
        ),
        _xw,
    ),
    "embedding then a norm": train(
        lambda i, e, w: F.layer_norm(F.embedding(i, e) + e[: i.shape[1]], (8,), w),
        lambda n: (torch.randint(0, 9, (2, n)), torch.randn(9, 8), torch.randn(8)),
    ),
    "routing to experts": train(
        lambda x, w, e: (
            (p := (x @ w).softmax(-1)).topk(2)[0],
            sum(p[:, i : i + 1] * (x @ e[i]) for i in range(3)),
        ),
        _tensors((None, 4), (4, 3), (3, 4, 4)),
    ),
    "experts by topk": static(
        lambda x, w, e: (
            (t := (x @ w).topk(2))[0].softmax(-1)[..., None]
            * torch.einsum("nd,nkdf->nkf", x, e[t[1]])
        ).sum(1),
        _tensors((None, 4), (4, 3), (3, 4, 4)),
    ),
    # constants that change
    "weight changed in place": static(_changed(lambda m: m.weight.add_(1)), _linear),
    "weight replaced": static(_changed(_replace), _linear),
    "weight loaded": static(_changed(_load), _linear),
    "weight written through a view": static(_changed(_write_memory), _linear),
    "weight's data replaced": static(
        _changed(lambda m: setattr(m.weight, "data", m.weight.data * 2)), _linear
    ),
    "weight's data replaced by a transposed one": static(
        _changed(lambda m: setattr(m.weight, "data", m.weight.data.t().contiguous().t() * 2)),
        _linear,
    ),
    "bias zeroed": static(_changed(lambda m: m.bias.zero_()), _linear),
    "weight changed and changed back": static(
        _changed(lambda m: m.weight.mul_(2).div_(2).neg_()), _linear
    ),
    "statistics changed": static(
        _changed(lambda m: m[1].running_mean.add_(1)),
        lambda n: (_conv_norm()().eval(), torch.randn(1, 3, 5, 5)),
    ),
    "scale of a norm changed": static(
        _changed(lambda m: m[1].weight.mul_(3)),
        lambda n: (_conv_norm()().eval(), torch.randn(1, 3, 5, 5)),
    ),
    "a step of an optimizer in between": static(
        _changed(
            lambda m: (
                setattr(m.weight, "grad", torch.ones(2, 3)),
                torch.optim.SGD(m.parameters(), 0.1).step(),
            )
        ),
        _linear,
    ),
    "mode of a module changed": static(
        _changed(lambda m: m.train()),
        lambda n: (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval(), torch.randn(n, 3)),
    ),
    "half of a module": static(_changed(lambda m: m.double().float()), _linear),
    "tied weight changed": static(
        _changed(lambda m: m[0].weight.add_(1)),
        lambda n: (
            (lambda m: (setattr(m[1], "weight", m[0].weight), m)[1])(
                nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            ),
            torch.randn(n, 3),
        ),
    ),
    "input that is also a weight": static(
        _constant(lambda m, x: m(m.weight) + x.sum()),
        lambda n: (nn.Linear(3, 3), torch.randn(n, 3)),
    ),
}
