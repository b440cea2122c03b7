"""Sums, means, extremes, scans over axes, with and without keepdim."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, bools, ints, normal, positive, special

_REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "nansum", "nanmean", "logsumexp"]


def _reduce_axes(name):
    op = getattr(torch, name)

    def forward(x):
        return op(x, dim=1), op(x, dim=(0,) if name != "prod" else 0, keepdim=True), op(x, dim=-1)

    return forward


def _cube(n):
    return (normal(n, 3, 4),)


def _nans(n):
    x = normal(n, 6)
    x[0, 1], x[1, 2], x[1, 4], x[-1, 0] = torch.nan, torch.inf, -torch.inf, torch.nan
    return (x,)


PROGRAMS = {
    **{name: (_reduce_axes(name), _cube) for name in _REDUCTIONS},
    **{  # prod: with every backend, torch's decomposition has other gradients
        f"{name} with holes": Program(_reduce_axes(name), _nans, train=name != "prod")
        for name in _REDUCTIONS
    },
    "all of it": (lambda x: (x.sum(), x.mean(), x.max(), x.min(), x.std(), x.var()), _cube),
    "sum dtype": (lambda x: x.sum(dtype=torch.float64), _cube),
    "sum of half": Program(lambda x: x.half().sum(0), _cube, train=False),
    "mean of two axes": (lambda x: x.mean((0, 2)), _cube),
    "var": (lambda x: (x.var(1), x.var(0, unbiased=False), x.var((0, 1), correction=2)), _cube),
    "std": (lambda x: (x.std(1), x.std(2, keepdim=True)), _cube),
    "var_mean": (lambda x: torch.var_mean(x, 1), _cube),
    "std_mean": (lambda x: torch.std_mean(x, (0, 2), correction=0), _cube),
    "var far from 0": Program(lambda x: x.var(0), lambda n: (normal(64, n) + 1000,)),
    "max with indices": (lambda x: x.max(1), _cube),
    "min with indices": (lambda x: x.min(0, keepdim=True), _cube),
    "extremes with nan": Program(
        lambda x: (x.max(1), x.argmax(1), x.argmin(0)), _nans, train=False
    ),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), _cube),
    "argmax of ties": (lambda x: (x.argmax(1), x.argmin(1)), lambda n: (ints(2, n, 5),)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), _cube),
    "max of ints": (lambda x: (x.max(), x.amin(1), x.max(0)), lambda n: (ints(99, n, 4),)),
    "any all": (
        lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True)),
        lambda n: (bools(n, 3),),
    ),
    "any of floats": (lambda x: (x.any(1), x.all(1)), _nans),
    "count_nonzero": (
        lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, dim=0)),
        lambda n: (ints(2, n, 4),),
    ),
    "median": Program(lambda x: (x.median(), x.median(1)), lambda n: (normal(n, 5),)),
    "nanmedian": Program(lambda x: x.nanmedian(1), _nans, train=False),
    "mode": Program(lambda x: x.mode(1), lambda n: (ints(3, n, 5),), train=False),
    "quantile": (
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.5, 0.9]), dim=1),
        lambda n: (normal(n, 5),),
    ),
    "kthvalue": (lambda x: x.kthvalue(2, 1), _cube),
    "norms": (
        lambda x: (x.norm(), x.norm(p=1), x.norm(dim=1), torch.linalg.vector_norm(x, torch.inf, 1)),
        _cube,
    ),
    "norm of order": (lambda x, p: x.norm(p=p), lambda n: (normal(6), n)),
    "dist": (lambda a, b: torch.dist(a, b, 3), lambda n: (normal(n), normal(n, seed=1))),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(1), x.cumsum(-1)), _cube),
    "cumsum with holes": Program(lambda x: x.cumsum(1), _nans, train=False),
    "cumsum of bools": (lambda x: x.cumsum(0), lambda n: (bools(n, 2),)),
    "cumprod": (lambda x: x.cumprod(1), _cube),
    "cumprod with zero": (lambda x: x.cumprod(0), lambda n: (ints(3, n, 3).float(),)),
    "cummax": (lambda x: (x.cummax(1), x.cummin(0)), _cube),
    "cummax with nan": Program(lambda x: x.cummax(1), _nans, train=False),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), _cube),
    "logcumsumexp far": Program(lambda x: (x * 300).logcumsumexp(0), _cube, rtol=1e-4),
    "diff": (lambda x: (x.diff(dim=0), x.diff(n=2)), _cube),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), _cube),
    "cumulative_trapezoid": (lambda x: torch.cumulative_trapezoid(x, dx=0.5), _cube),
    "softmax": (lambda x: (x.softmax(0), x.softmax(-1)), _cube),
    "softmax with -inf": (
        lambda x, m: x.masked_fill(m, -torch.inf).softmax(-1),
        lambda n: (normal(n, 4), bools(n, 4) & torch.tensor([True, True, True, False])),
    ),
    "softmax of -inf rows": Program(
        lambda x: x.softmax(-1), lambda n: (torch.full((n, 3), -torch.inf),)
    ),
    "log_softmax": (lambda x: (x.log_softmax(1), (x * 1000).log_softmax(-1)), _cube),
    "softmin": (lambda x: F.softmin(x, 1), _cube),
    "softmax dtype": (lambda x: x.softmax(1, dtype=torch.float64), _cube),
    "logsumexp far": (lambda x: (x * 1000).logsumexp(1), _cube),
    "logsumexp of -inf": Program(
        lambda x: x.logsumexp(1), lambda n: (torch.full((n, 3), -torch.inf),), train=False
    ),
    "normalize": (lambda x: F.normalize(x, dim=1), _cube),
    "cosine_similarity": (
        lambda a, b: F.cosine_similarity(a, b),
        lambda n: (normal(n, 4), normal(n, 4, seed=1)),
    ),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), _cube),
    "histc": Program(lambda x: torch.histc(x, 5, -1, 1), lambda n: (normal(n * 4),), train=False),
    "bincount": Program(
        lambda x: torch.bincount(x, minlength=10),
        lambda n: (ints(9, 4 * n),),
        patches=("capture_dynamic_output_shape_ops",),
    ),
    "prod with zeros": (lambda x: x.prod(1), lambda n: (ints(3, n, 4).float(),)),
    "amax of ties": (lambda x: x.amax(1), lambda n: (ints(3, n, 5).float(),)),
    "layer sum": (
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        lambda n: (normal(n, 8),),
    ),
    "of a sum": (lambda x: x / x.sum(-1, keepdim=True), lambda n: (positive(n, 4),)),
    "extremes of infinities": Program(
        lambda x: (x.amax(), x.amin()), lambda n: (special(n)[1:],), train=False
    ),
}
