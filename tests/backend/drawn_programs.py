"""Small random programs whose values lie in memory in many ways: transposes, views that only some
strides allow, products, attention, convolutions, reductions. A program is drawn by running it in
eager, so that every step is one that eager takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@torch.library.custom_op("drawn::doubled", mutates_args=())
def _doubled(x: torch.Tensor) -> torch.Tensor:
    """An operator without a converter: it reads strides as far as anybody knows."""
    return x * 2


@torch.library.custom_op("drawn::gradient", mutates_args=())
def _gradient(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of that operator, which reads a saved tensor, too."""
    return g * 2 + x * 0


@_doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@_gradient.register_fake
def _(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return g * 2 + x * 0


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    return _gradient(g, *ctx.saved_tensors)


_doubled.register_autograd(_differentiate, setup_context=_save)


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice a tensor, by an operator that ortable does not know."""
    return torch.ops.drawn.doubled(x)


Step = tuple[Callable[..., Any], tuple[int, ...]]
_FACTORS = {2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (2, 3), 8: (4, 2), 12: (3, 4), 24: (4, 6)}
_MOST = 4096  # elements of one value


class Program(nn.Module):
    """Steps over a list of values; returns those at some positions."""

    def __init__(self, steps: Sequence[Step], results: Sequence[int], weights: Any) -> None:
        super().__init__()
        self.steps = tuple(steps)
        self.results = tuple(results)
        self.weights = nn.ParameterList(weights)
        self.has_custom_operators = any(function is double for function, _ in steps)

    def forward(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        values = [*arguments, *self.weights]
        for function, operands in self.steps:
            values.append(function(*[values[index] for index in operands]))
        return [values[index] for index in self.results]


def draw_program(numbers: random.Random, length: int = 10) -> tuple[Program, list[torch.Tensor]]:
    """Draw a program and its arguments.

    Args:
        numbers: what draws.
        length: how many steps.
    """
    shapes = [(2, 3, 4), (2, 4, 6), (4, 6), (2, 4, 3, 2), (2, 2, 4, 6), (3, 2, 2, 4)]
    arguments = [
        draw_layout(numbers, numbers.choice(shapes)) for _ in range(numbers.choice((1, 2)))
    ]
    values: list[torch.Tensor] = list(arguments)
    count = len(values)
    weights = [nn.Parameter(torch.randn(numbers.choice(shapes))) for _ in range(2)]
    values += weights
    steps: list[Step] = []
    tries = 0
    while len(steps) < length and tries < 20 * length:
        tries += 1
        try:
            step = numbers.choice(_STEPS)(numbers, values)
            if step is None:
                continue
            value = step[0](*[values[index] for index in step[1]])
        except (RuntimeError, ValueError, IndexError):
            continue  # eager refuses it
        if not 0 < value.numel() <= _MOST or not value.is_floating_point():
            continue
        with torch.no_grad():
            if not value.isfinite().all() or value.abs().max() > 1e3:
                continue
        steps.append(step)
        values.append(value)
    # AOTAutograd adds up tangents of results whose elements share memory in such memory
    last = [at for at in range(count + 2, len(values)) if not _overlaps(values[at])]
    results = {last[-1], *numbers.sample(last, numbers.choice((0, 1)))}
    return Program(steps, sorted(results), weights), arguments


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor may share memory."""
    reached = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def draw_layout(numbers: random.Random, shape: Sequence[int]) -> torch.Tensor:
    """Draw a tensor of a shape, contiguous or in another order of memory."""
    order = list(range(len(shape)))
    if numbers.random() < 0.5:
        numbers.shuffle(order)
    dense = torch.randn([shape[axis] for axis in order])
    back = sorted(range(len(order)), key=order.__getitem__)
    return dense.permute(back)


def _pick(numbers: random.Random, values: Sequence[torch.Tensor], rank: int | None = None) -> int:
    """A position, more often a late one."""
    fitting = [i for i, value in enumerate(values) if rank in (None, value.dim())]
    if not fitting:
        raise IndexError(rank)
    return fitting[-1 - min(int(numbers.expovariate(0.7)), len(fitting) - 1)]


def _unary(function: Callable[..., Any], rank: int | None = None) -> Callable[..., Any]:
    """A kind of step that applies a function to one value."""

    def draw(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
        if rank is not None and all(value.dim() != rank for value in values):
            return None
        return function, (_pick(numbers, values, rank),)

    return draw


def _permute(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at = _pick(numbers, values)
    order = list(range(values[at].dim()))
    numbers.shuffle(order)
    return lambda x: x.permute(order), (at,)


def _regrouped(numbers: random.Random, shape: Sequence[int]) -> list[int]:
    """Another shape of as many elements: one axis taken apart, or two put together."""
    sizes = list(shape)
    if len(sizes) > 1 and numbers.random() < 0.6:
        at = numbers.randrange(len(sizes) - 1)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        return sizes
    at = numbers.randrange(len(sizes)) if sizes else 0
    if sizes and sizes[at] in _FACTORS and len(sizes) < 5:
        sizes[at : at + 1] = _FACTORS[sizes[at]]
    return sizes


def _view(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at = _pick(numbers, values)
    sizes = _regrouped(numbers, values[at].shape)
    if numbers.random() < 0.3:
        return lambda x: x.reshape(sizes), (at,)
    return lambda x: x.view(sizes), (at,)


def _part(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    at = _pick(numbers, values)
    if not values[at].dim():
        return None
    axis = numbers.randrange(values[at].dim())
    size = values[at].shape[axis]
    kind = numbers.randrange(5)
    if kind == 0:
        return lambda x: x.narrow(axis, 0, max(size - 1, 1)), (at,)
    if kind == 1:
        return lambda x: x.select(axis, size - 1), (at,)
    if kind == 2:
        return lambda x: x.chunk(2, axis)[0], (at,)
    if kind == 3:
        return lambda x: x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:]), (at,)
    return lambda x: x.unfold(axis, 2, 1), (at,)


def _as_strided(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    at = _pick(numbers, values)
    value = values[at]
    if value.storage_offset() or value.numel() < 8:
        return None
    sizes = [2, numbers.choice((2, 3))]
    strides = [numbers.choice((1, 3, 4)), numbers.choice((1, 2))]
    return lambda x: x.as_strided(sizes, strides), (at,)


def _with_bits(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at = _pick(numbers, values)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (x.detach() + 0.375).view(torch.int32).lt(0).float()

    return function, (at,)


def _complex(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at = _pick(numbers, values)
    if numbers.random() < 0.5:
        return lambda x: torch.view_as_complex(x).abs(), (at,)
    return lambda x: torch.view_as_real(torch.view_as_complex(x) * (0.5 + 1j)), (at,)


def _linear(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    at, other = _pick(numbers, values), _pick(numbers, values, 2)
    if numbers.random() < 0.5:
        return lambda x, w: x @ w, (at, other)
    return lambda x, w: F.linear(x, w), (at, other)


def _attention(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    at = _pick(numbers, values, 4)
    same = [i for i, value in enumerate(values) if value.shape == values[at].shape]
    operands = at, numbers.choice(same), numbers.choice(same)
    causal = numbers.random() < 0.5

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return function, operands


def _heads(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    """The way of a transformer through attention: heads apart, and together again."""
    at = _pick(numbers, values, 3)
    factors = _FACTORS.get(values[at].shape[-1])
    if factors is None:
        return None
    heads, causal = numbers.choice(factors), numbers.random() < 0.5

    def function(x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = (
            t.unflatten(-1, (heads, d // heads)).transpose(1, 2) for t in (x, 2 * x, x.sin())
        )
        y = F.scaled_dot_product_attention(q * 1.5, k, v, is_causal=causal)
        return y.transpose(1, 2).reshape(b, n, d)

    return function, (at,)


def _convolution(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at, other = _pick(numbers, values, 4), _pick(numbers, values, 4)
    return lambda x, w: F.conv2d(x, w[:, : x.shape[1], :2, :2], padding=1), (at, other)


def _pair(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step:
    at, other = _pick(numbers, values), _pick(numbers, values)
    axis = numbers.randrange(2)
    kinds = [
        lambda x, y: x * y,
        lambda x, y: x + y,
        lambda x, y: torch.cat([x, y], axis),
        lambda x, y: torch.stack([x, y], axis),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.cdist(x, y),
    ]
    return numbers.choice(kinds), (at, other)


def _along_axis(numbers: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    at = _pick(numbers, values)
    if not values[at].dim():
        return None
    axis = numbers.randrange(values[at].dim())
    kinds = [
        lambda x: x.sum(axis, keepdim=True),
        lambda x: x.mean(axis),
        lambda x: x.softmax(axis),
        lambda x: x.amax(axis, keepdim=True),
        lambda x: x.cumsum(axis),
        lambda x: x.sort(axis)[0],
        lambda x: x.flip(axis),
        lambda x: x.movedim(axis, 0),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: x.index_select(axis, torch.tensor([0, 0, 1])),
        lambda x: x / x.norm(dim=axis, keepdim=True).clamp(min=0.1),
    ]
    return numbers.choice(kinds), (at,)


_LAST = torch.channels_last
_STEPS: list[Callable[..., Any]] = [
    _permute, _permute, _permute, _view, _view, _view, _view, _part, _as_strided, _with_bits,
    _complex, _linear, _linear, _attention, _heads, _heads, _convolution, _pair, _pair,
    _along_axis, _along_axis,
    *map(_unary, (torch.relu, torch.tanh, torch.sin, F.gelu, torch.sigmoid, torch.clone)),
    _unary(double), _unary(double),
    _unary(lambda x: x.contiguous()),
    _unary(lambda x: x.squeeze()),
    _unary(lambda x: x.t(), 2),
    _unary(lambda x: x.mT.contiguous()),
    _unary(lambda x: torch.empty_like(x).fill_(0.5) + x),
    _unary(lambda x: torch.ones_like(x, memory_format=torch.contiguous_format) * x),
    _unary(lambda x: x.to(torch.float64).to(torch.float32)),
    _unary(lambda x: x.contiguous(memory_format=_LAST), 4),
    _unary(lambda x: x.clone(memory_format=_LAST).relu(), 4),
    _unary(lambda x: F.max_pool2d(x, 2), 4),
    _unary(lambda x: F.avg_pool2d(x, 2, 1), 4),
    _unary(lambda x: F.interpolate(x, scale_factor=2.0), 4),
    _unary(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), 4),
    _unary(lambda x: F.batch_norm(x, None, None, training=True), 4),
    _unary(lambda x: F.pad(x, (1, 0))),
    _unary(lambda x: x.diagonal(), 3),
]  # fmt: skip
