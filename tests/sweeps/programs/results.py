"""Kinds of results: arguments, views, repeated results, numbers, containers."""

from __future__ import annotations

import torch

from . import Program, ints, normal

_CONSTANT = torch.tensor([1.0, 2.0, 3.0, 4.0])


def _make_x(n):
    return (normal(n, 4),)


PROGRAMS = {
    "the argument": (lambda x: x, _make_x),
    "the argument and more": (lambda x: (x, x + 1, x), _make_x),
    "a view": (lambda x: x[1:], _make_x),
    "views": (lambda x: (x.t(), x.view(-1), x[:, 0], x.unsqueeze(0)), _make_x),
    "a view of a result": (lambda x: (x + 1).t(), _make_x),
    "a result and its view": (lambda x: (lambda y: (y, y.t(), y[0]))(x * 2), _make_x),
    "twice": (lambda x: (lambda y: (y, y))(x.exp()), _make_x),
    "detached": (lambda x: (x * 2, (x * 3).detach()), _make_x),
    "a dict": (lambda x: {"y": x + 1, "z": {"w": x.sum(0)}}, _make_x),
    "a list": (lambda x: [x[i] * i for i in range(2)], _make_x),
    "nothing": (lambda x: None, _make_x),
    "numbers": (lambda x: (x.shape[0], x.dim(), x.sum()), _make_x),
    "a constant": (lambda x: (torch.ones(3), x + 1), _make_x),
    "only constants": (lambda x: torch.arange(3), _make_x),
    "bools": (lambda x: (x > 0, x.isnan(), (x > 0).any()), _make_x),
    "unused": (lambda x, y: x * 2, lambda n: (normal(n), normal(n, seed=1))),
    "the same twice": (lambda x, y: x * y, lambda n: (lambda x: (x, x))(normal(n))),
    "half and double": (lambda x: (x.half(), x.double(), x.bfloat16()), _make_x),
    "dtypes": (
        lambda x, i: (i.int(), i.to(torch.uint8), x.to(torch.int16)),
        lambda n: (normal(n), ints(9, n)),
    ),
    "0-d and 1-d": (lambda x: (x.sum(), x.sum().reshape(1), x.mean(0)), _make_x),
    "long tuple": (lambda x: tuple(x + i for i in range(12)), _make_x),
    "a loop": (lambda x: sum((x * i).sin() for i in range(5)), _make_x),
    "a branch on sizes": (lambda x: x + 1 if x.shape[0] > 3 else x * 2, _make_x),
    "a branch on dtype": (lambda x: x + 1 if x.is_floating_point() else x * 2, _make_x),
    "a tensor in a closure": (lambda x: x * _CONSTANT, _make_x),
    "permuted input": (lambda x: x * 2, lambda n: (normal(n, 3, 4).permute(2, 0, 1),)),
    "channels last input": (
        lambda x: (x + 1, x.flatten(1)),
        lambda n: (normal(n, 3, 2, 2).to(memory_format=torch.channels_last),),
    ),
    "cond": Program(
        lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)),
        _make_x,
        train=False,
    ),
    "no tensor": Program(lambda n: torch.zeros(n) + n, lambda n: (n,), train=False),
}
