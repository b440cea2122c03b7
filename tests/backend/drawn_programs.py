"""Random programs of steps that eager accepts, over values with many memory layouts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@torch.library.custom_op("drawn::doubled", mutates_args=())
def _doubled(x: torch.Tensor) -> torch.Tensor:
    """An operator without a converter, so ortable has to assume that it reads strides."""
    return x * 2


@torch.library.custom_op("drawn::gradient", mutates_args=())
def _gradient(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of `_doubled`, which also reads a saved tensor."""
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
    """Multiply a tensor by 2 with an operator that has no converter."""
    return torch.ops.drawn.doubled(x)


Step = tuple[Callable[..., Any], tuple[int, ...]]
_FACTORS = {2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (2, 3), 8: (4, 2), 12: (3, 4), 24: (4, 6)}
_MAX_ELEMENTS = 4096  # per value


class Program(nn.Module):
    """Apply steps to a growing list of values and return the values at some indices."""

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


def draw_program(rng: random.Random, length: int = 10) -> tuple[Program, list[torch.Tensor]]:
    """Draw a program and its arguments.

    Args:
        rng: the random number generator.
        length: the number of steps.
    """
    shapes = [(2, 3, 4), (2, 4, 6), (4, 6), (2, 4, 3, 2), (2, 2, 4, 6), (3, 2, 2, 4)]
    arguments = [draw_layout(rng, rng.choice(shapes)) for _ in range(rng.choice((1, 2)))]
    values: list[torch.Tensor] = list(arguments)
    count = len(values)
    weights = [nn.Parameter(torch.randn(rng.choice(shapes))) for _ in range(2)]
    values += weights
    steps: list[Step] = []
    attempts = 0
    while len(steps) < length and attempts < 20 * length:
        attempts += 1
        try:
            step = rng.choice(_STEPS)(rng, values)
            if step is None:
                continue
            value = step[0](*[values[index] for index in step[1]])
        except (RuntimeError, ValueError, IndexError):
            continue  # eager rejects the step
        if not 0 < value.numel() <= _MAX_ELEMENTS or not value.is_floating_point():
            continue
        with torch.no_grad():
            if not value.isfinite().all() or value.abs().max() > 1e3:
                continue
        steps.append(step)
        values.append(value)
    # No self-overlapping results: AOTAutograd accumulates their tangents in the same layout.
    candidates = [i for i in range(count + 2, len(values)) if not _overlaps(values[i])]
    results = {candidates[-1], *rng.sample(candidates, rng.choice((0, 1)))}
    return Program(steps, sorted(results), weights), arguments


def _overlaps(tensor: torch.Tensor) -> bool:
    """Return whether two elements of a tensor may share memory."""
    extent = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= extent:
            return True
        extent += (size - 1) * stride
    return False


def draw_layout(rng: random.Random, shape: Sequence[int]) -> torch.Tensor:
    """Draw a tensor of a shape, contiguous or with its axes permuted in memory."""
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    dense = torch.randn([shape[axis] for axis in order])
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return dense.permute(inverse)


def _pick_index(rng: random.Random, values: Sequence[torch.Tensor], rank: int | None = None) -> int:
    """Return the index of a value, of rank `rank` if given, with a preference for late values."""
    candidates = [i for i, value in enumerate(values) if rank in (None, value.dim())]
    if not candidates:
        raise IndexError(rank)
    return candidates[-1 - min(int(rng.expovariate(0.7)), len(candidates) - 1)]


def _unary(function: Callable[..., Any], rank: int | None = None) -> Callable[..., Any]:
    """Return a function that draws a step applying `function` to one value."""

    def draw(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
        if rank is not None and all(value.dim() != rank for value in values):
            return None
        return function, (_pick_index(rng, values, rank),)

    return draw


def _permute(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index = _pick_index(rng, values)
    order = list(range(values[index].dim()))
    rng.shuffle(order)
    return lambda x: x.permute(order), (index,)


def _regroup_shape(rng: random.Random, shape: Sequence[int]) -> list[int]:
    """Return a shape of the same number of elements: one axis split, or two axes merged."""
    sizes = list(shape)
    if len(sizes) > 1 and rng.random() < 0.6:
        index = rng.randrange(len(sizes) - 1)
        sizes[index : index + 2] = [sizes[index] * sizes[index + 1]]
        return sizes
    index = rng.randrange(len(sizes)) if sizes else 0
    if sizes and sizes[index] in _FACTORS and len(sizes) < 5:
        sizes[index : index + 1] = _FACTORS[sizes[index]]
    return sizes


def _view(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index = _pick_index(rng, values)
    sizes = _regroup_shape(rng, values[index].shape)
    if rng.random() < 0.3:
        return lambda x: x.reshape(sizes), (index,)
    return lambda x: x.view(sizes), (index,)


def _slice(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    index = _pick_index(rng, values)
    if not values[index].dim():
        return None
    axis = rng.randrange(values[index].dim())
    size = values[index].shape[axis]
    kind = rng.randrange(5)
    if kind == 0:
        return lambda x: x.narrow(axis, 0, max(size - 1, 1)), (index,)
    if kind == 1:
        return lambda x: x.select(axis, size - 1), (index,)
    if kind == 2:
        return lambda x: x.chunk(2, axis)[0], (index,)
    if kind == 3:
        return lambda x: x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:]), (index,)
    return lambda x: x.unfold(axis, 2, 1), (index,)


def _as_strided(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    index = _pick_index(rng, values)
    value = values[index]
    if value.storage_offset() or value.numel() < 8:
        return None
    sizes = [2, rng.choice((2, 3))]
    strides = [rng.choice((1, 3, 4)), rng.choice((1, 2))]
    return lambda x: x.as_strided(sizes, strides), (index,)


def _bitcast(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index = _pick_index(rng, values)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (x.detach() + 0.375).view(torch.int32).lt(0).float()

    return function, (index,)


def _complex(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index = _pick_index(rng, values)
    if rng.random() < 0.5:
        return lambda x: torch.view_as_complex(x).abs(), (index,)
    return lambda x: torch.view_as_real(torch.view_as_complex(x) * (0.5 + 1j)), (index,)


def _linear(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    index, weight_index = _pick_index(rng, values), _pick_index(rng, values, 2)
    if rng.random() < 0.5:
        return lambda x, w: x @ w, (index, weight_index)
    return lambda x, w: F.linear(x, w), (index, weight_index)


def _attention(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    index = _pick_index(rng, values, 4)
    candidates = [i for i, value in enumerate(values) if value.shape == values[index].shape]
    operands = index, rng.choice(candidates), rng.choice(candidates)
    causal = rng.random() < 0.5

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return function, operands


def _mha(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    """Draw multi-head attention: split the heads, attend, and merge the heads again."""
    index = _pick_index(rng, values, 3)
    factors = _FACTORS.get(values[index].shape[-1])
    if factors is None:
        return None
    heads, causal = rng.choice(factors), rng.random() < 0.5

    def function(x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = (
            t.unflatten(-1, (heads, d // heads)).transpose(1, 2) for t in (x, 2 * x, x.sin())
        )
        y = F.scaled_dot_product_attention(q * 1.5, k, v, is_causal=causal)
        return y.transpose(1, 2).reshape(b, n, d)

    return function, (index,)


def _convolution(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index, weight_index = _pick_index(rng, values, 4), _pick_index(rng, values, 4)
    return lambda x, w: F.conv2d(x, w[:, : x.shape[1], :2, :2], padding=1), (index, weight_index)


def _binary(rng: random.Random, values: Sequence[torch.Tensor]) -> Step:
    index, other_index = _pick_index(rng, values), _pick_index(rng, values)
    axis = rng.randrange(2)
    functions = [
        lambda x, y: x * y,
        lambda x, y: x + y,
        lambda x, y: torch.cat([x, y], axis),
        lambda x, y: torch.stack([x, y], axis),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.cdist(x, y),
    ]
    return rng.choice(functions), (index, other_index)


def _along_axis(rng: random.Random, values: Sequence[torch.Tensor]) -> Step | None:
    index = _pick_index(rng, values)
    if not values[index].dim():
        return None
    axis = rng.randrange(values[index].dim())
    functions = [
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
    return rng.choice(functions), (index,)


_CHANNELS_LAST = torch.channels_last
_STEPS: list[Callable[..., Any]] = [
    _permute, _permute, _permute, _view, _view, _view, _view, _slice, _as_strided, _bitcast,
    _complex, _linear, _linear, _attention, _mha, _mha, _convolution, _binary, _binary,
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
    _unary(lambda x: x.contiguous(memory_format=_CHANNELS_LAST), 4),
    _unary(lambda x: x.clone(memory_format=_CHANNELS_LAST).relu(), 4),
    _unary(lambda x: F.max_pool2d(x, 2), 4),
    _unary(lambda x: F.avg_pool2d(x, 2, 1), 4),
    _unary(lambda x: F.interpolate(x, scale_factor=2.0), 4),
    _unary(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), 4),
    _unary(lambda x: F.batch_norm(x, None, None, training=True), 4),
    _unary(lambda x: F.pad(x, (1, 0))),
    _unary(lambda x: x.diagonal(), 3),
]  # fmt: skip
