"""In-place writes to intermediate results, views and arguments."""

from __future__ import annotations

import torch

from . import Program, bools, ints, normal


def _on_copy(write):
    """Return a function that applies ``write`` to a copy of its first argument."""

    def forward(x, *rest):
        y = x * 1
        write(y, *rest)
        return y

    return forward


def _on_argument(write):
    """Return a function that applies ``write`` to its first argument."""

    def forward(x, *rest):
        write(x, *rest)
        return x + 1

    return forward


def _make_x(n):
    return (normal(n, 4),)


def _assign_slices(y):
    y[1:, ::2] = 3.0
    y[0] = y[-1] * 2


def _write_views(y):
    y.t().mul_(2)
    y.view(-1)[3:5].add_(1)
    y[:, 1].zero_()


def _write_masked(y, mask):
    y[mask] = 0.5


def _write_rows(y, index):
    y[index] = y[index] * 0 + 7


def _copy_row_to_column(y):
    y[:, 0] = y[0, 0]


_WRITES = {
    "add_": (lambda y: y.add_(1), _make_x),
    "chain_": (lambda y: y.mul_(2).add_(1).clamp_(max=3).neg_(), _make_x),
    "slices": (_assign_slices, _make_x),
    "views": (_write_views, _make_x),
    "masked": (_write_masked, lambda n: (normal(n, 4), bools(n, 4))),
    "rows": (_write_rows, lambda n: (normal(n, 4), ints(n, 3))),
    "column": (_copy_row_to_column, _make_x),
    "copy_": (lambda y: y.copy_(torch.arange(4)), _make_x),
    "fill_": (lambda y: y[1:].fill_(2), _make_x),
    "index_add_": (
        lambda y, i: y.index_add_(0, i, torch.ones(3, 4)),
        lambda n: (normal(n, 4), ints(n, 3)),
    ),
    "scatter_": (lambda y, i: y.scatter_(0, i, 1.5), lambda n: (normal(n, 4), ints(n, 2, 4))),
    "masked_fill_": (lambda y, m: y.masked_fill_(m, -1.0), lambda n: (normal(n, 4), bools(n, 4))),
    "diagonal": (lambda y: y.diagonal().fill_(0), _make_x),
    "transposed": (lambda y: y.t()[0].mul_(3), _make_x),
    "triu_": (lambda y: y.triu_(), _make_x),
    "where_": (lambda y: y.copy_(torch.where(y > 0, y, -y)), _make_x),
    "foreach": (lambda y: torch._foreach_add_([y[0], y[1]], 1.0), _make_x),
}


def _write_cache(cache, x, position):
    cache[:, position] = x
    return cache.sum(1)


def _append(cache, x):
    cache[:, -x.shape[1] :].copy_(x)
    return cache * 2


def _swap(a, b):
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return a - b


def _update_statistics(x, mean, var):
    return torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)


PROGRAMS = {
    **{f"local {name}": Program(_on_copy(write), make) for name, (write, make) in _WRITES.items()},
    **{
        f"argument {name}": Program(_on_argument(write), make, train=False)
        for name, (write, make) in _WRITES.items()
    },
    "cache": Program(_write_cache, lambda n: (torch.zeros(2, 5, n), normal(2, n), 3), train=False),
    "cache tail": Program(_append, lambda n: (torch.zeros(2, 8), normal(2, n)), train=False),
    "swap": Program(_swap, lambda n: (normal(n), normal(n, seed=1)), train=False),
    "statistics": Program(
        _update_statistics, lambda n: (normal(n + 2, 3), torch.zeros(3), torch.ones(3)), train=False
    ),
    "counter": Program(
        lambda c, x: (c.add_(1), x * c), lambda n: (torch.zeros(()), normal(n)), train=False
    ),
    "int argument": Program(lambda i: (i.add_(2), i * 3), lambda n: (ints(9, n),), train=False),
    "view of an argument": Program(
        lambda x: (x[0].mul_(2), x.t()), lambda n: (normal(n, 3),), train=False
    ),
    "strided argument": Program(
        lambda x: x.add_(1) * 2, lambda n: (normal(n, 6)[:, ::2],), train=False
    ),
    "out": Program(lambda x: torch.add(x, 1, out=torch.empty_like(x)), _make_x, train=False),
    "detached write": Program(lambda x: x.detach().clone().zero_() + x, _make_x),
}
