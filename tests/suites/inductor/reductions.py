"""Reductions, scans, sorting, statistics and normalisations along axes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import tensor

from . import every, matrix, static, train

INF, NAN = math.inf, math.nan


def _cube(n):
    return (torch.randn(n, 3, 5),)


def _empty(n):
    return (torch.randn(0, 3),)


def _scalar(n):
    return (tensor(-1.5),)


def _ints(n):
    return (torch.randint(-9, 9, (n, 3)),)


def _bools(n):
    return (torch.arange(n * 3).reshape(n, 3) % 4 == 0,)


def _with_nan(n):
    return (tensor([[1.0, NAN, -2.0], [INF, 3.0, -INF], [NAN, NAN, NAN], [0.0, -0.0, 5.0]]),)


def _ties(n):
    return (tensor([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -0.0, -1.0, -1.0]]),)


PROGRAMS = {
    "sums": every(
        lambda x: (x.sum(), x.sum(0), x.sum((0, -1)), x.sum(-2, keepdim=True), x.sum((), True)),
        _cube,
    ),
    "sums of integers": static(
        lambda x: (x.sum(), x.sum(0, dtype=torch.int32), x.int().sum(), x.to(torch.int8).sum(1)),
        _ints,
    ),
    "sums of booleans": static(
        lambda x: (x.sum(), x.sum(0), x.sum(1, dtype=torch.float32), x.float().mean()), _bools
    ),
    "sums of another dtype": static(
        lambda x: (
            x.sum(dtype=torch.float64),
            x.sum(0, dtype=torch.int64),
            x.half().sum(dtype=torch.float32),
        ),
        matrix,
    ),
    "sums that wrap": static(
        lambda x: (x.sum(), x.sum(dtype=torch.int32), x.sum(0, dtype=torch.int8)),
        lambda n: (torch.full((3,), 2**31 - 1, dtype=torch.int32),),
    ),
    "large sums": static(
        lambda x: (x.sum(), x.mean(), x.cumsum(0)[-1]), lambda n: (torch.rand(100000),)
    ),
    "large sum of int64": static(
        lambda x: (x.sum(), x.prod(), x.max()), lambda n: (tensor([2**53 + 1, 1, 2]),)
    ),
    "products": train(lambda x: (x.prod(), x.prod(1), x.prod(-3, keepdim=True)), _cube),
    "products with zeros": train(
        lambda x: (x.prod(), x.prod(1)), lambda n: (tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]]),)
    ),
    "products of integers": static(lambda x: (x.prod(), x.prod(0), x.bool().prod(1)), _ints),
    "reduction of nothing": static(
        lambda x: (
            x.sum(),
            x.sum(0),
            x.sum(1),
            x.prod(),
            x.prod(0),
            x.mean(),
            x.mean(0),
            x.mean(1),
        ),
        _empty,
    ),
    "logic of nothing": static(
        lambda x: (x.any(), x.all(), x.any(0), x.all(0), x.any(1), x.count_nonzero()), _empty
    ),
    "amax of nothing along another axis": static(
        lambda x: (x.amax(1), x.argmax(1), x.max(1)), _empty
    ),
    "amax of nothing error": static(lambda x: x.amax(0), _empty),
    "argmax of nothing error": static(lambda x: x.argmax(), _empty),
    "median of nothing": static(lambda x: (x.median(), x.var(0), x.logsumexp(0), x.norm()), _empty),
    "reduction of 0-d": train(
        lambda x: (x.sum(), x.sum(0), x.mean(-1), x.amax(0), x.prod(0), x.logsumexp(0), x.norm()),
        _scalar,
    ),
    "more of 0-d": static(
        lambda x: (
            x.argmax(),
            x.argmax(0),
            x.max(0),
            x.sort(),
            x.topk(1),
            x.cumsum(0),
            x.var(),
            x.all(),
        ),
        _scalar,
    ),
    "reduction along no axis": static(
        lambda x: (x.sum([]), x.mean([]), x.amax([]), x.any([])), matrix
    ),
    "axis out of range error": static(lambda x: x.sum(2), matrix),
    "axis twice error": static(lambda x: x.sum((0, -2)), matrix),
    "means": every(
        lambda x: (x.mean(), x.mean(0), x.mean((-1, 0)), x.mean(1, keepdim=True)), _cube
    ),
    "mean of integers error": static(lambda x: x.mean(), _ints),
    "mean of integers in float": static(
        lambda x: (x.mean(dtype=torch.float32), x.mean(0, dtype=torch.float64)), _ints
    ),
    "mean of float16": static(lambda x: (x.half().mean(), x.bfloat16().mean(1)), matrix),
    "mean of large float16": static(
        lambda x: (x.mean(), x.sum(), x.mean(0)), lambda n: (torch.full((100, 10), 100.0).half(),)
    ),
    "nan reductions": train(
        lambda x: (x.nansum(), x.nansum(0), x.nanmean(1), x.nanmedian()), _with_nan
    ),
    "reductions of nan": static(
        lambda x: (x.sum(1), x.amax(1), x.amin(0), x.max(), x.min(), x.mean(0), x.prod(1)),
        _with_nan,
    ),
    "arg of nan": static(
        lambda x: (x.argmax(1), x.argmin(1), x.argmax(), x.max(1), x.min(0), x.argsort(1)),
        _with_nan,
    ),
    "amax and amin": every(
        lambda x: (x.amax(), x.amin(0), x.amax((0, 2)), x.amin(-1, keepdim=True), x.aminmax(dim=1)),
        _cube,
    ),
    "amax of ties": train(lambda x: (x.amax(1), x.amin(1), x.max(), x.min()), _ties),
    "max of ties": train(lambda x: (x.max(1), x.min(1), x.median(1)), _ties),
    "arg of ties": static(lambda x: (x.argmax(1), x.argmin(1), x.argmax(), x.argmin(0)), _ties),
    "max of integers": static(
        lambda x: (x.max(), x.min(0), x.amax(1), x.argmax(0), x.aminmax()), _ints
    ),
    "max of int8 and uint8": static(
        lambda x: (
            x.to(torch.int8).max(0),
            x.abs().to(torch.uint8).amax(1),
            x.to(torch.int16).argmin(1),
        ),
        _ints,
    ),
    "max of booleans": static(lambda x: (x.amax(0), x.amin(), x.max(), x.max(1)), _bools),
    "max of large integers": static(
        lambda x: (x.max(), x.argmax(), x.amin(0), x.max(0)),
        lambda n: (tensor([2**53, 2**53 + 1, -(2**62) - 1]),),
    ),
    "argmax in all forms": every(
        lambda x: (x.argmax(), x.argmax(-1), x.argmin(0, keepdim=True), x.argmax(keepdim=True)),
        _cube,
    ),
    "any and all": static(
        lambda x: (x.any(), x.all(), x.any(0), x.all(-1), x.any(1, keepdim=True), x.any((0, 1))),
        _bools,
    ),
    "any of floats": static(lambda x: (x.any(), x.all(1), x.any(0)), _with_nan),
    "any of uint8": static(lambda x: (x.to(torch.uint8).any(), x.to(torch.uint8).all(0)), _ints),
    "count_nonzero": static(
        lambda x: (x.count_nonzero(), x.count_nonzero(0), x.count_nonzero((0, 1))), _ints
    ),
    "variances": every(
        lambda x: (
            x.var(),
            x.std(0),
            x.var((0, 1), correction=0),
            x.std(-1, unbiased=False, keepdim=True),
            x.var(2, correction=2),
        ),
        _cube,
    ),
    "var_mean": train(
        lambda x: (torch.var_mean(x, 0), torch.std_mean(x, (1, 2), correction=0)), _cube
    ),
    "variance of one element": static(
        lambda x: (x.var(0), x.std(0), x.var(0, correction=0)), lambda n: (torch.randn(1, 3),)
    ),
    "variance far from zero": static(
        lambda x: (x.var(), x.std(0)), lambda n: (torch.randn(50, 2) + 1000,)
    ),
    "standard deviation of equal numbers": train(
        lambda x: x.var(1) + (x + 1).std(1, correction=0).detach(), lambda n: (torch.ones(n, 3),)
    ),
    "norms": every(
        lambda x: (
            x.norm(),
            x.norm(1),
            x.norm(dim=0),
            x.norm(3, 1),
            x.norm(INF, 0),
            x.norm(-INF, 0),
        ),
        matrix,
    ),
    "norm with exponent 0": static(lambda x: (x.norm(0), (x > 0).float().norm(0, 1)), matrix),
    "norm of zeros": train(
        lambda x: (x.norm(), x.norm(dim=1), (x * x).sum()), lambda n: (torch.zeros(n, 2),)
    ),
    "vector norms": train(
        lambda x: (
            torch.linalg.vector_norm(x, 2.5, (0, 1)),
            torch.linalg.vector_norm(x, INF, keepdim=True),
            torch.linalg.vector_norm(x, 1, -1, dtype=torch.float64),
        ),
        _cube,
    ),
    "matrix norms": static(
        lambda x: (
            torch.linalg.matrix_norm(x),
            torch.linalg.matrix_norm(x, 1),
            torch.linalg.norm(x),
        ),
        matrix,
    ),
    "renorm and normalize": train(
        lambda x: (x.renorm(2, 0, 1.0), F.normalize(x), F.normalize(x, p=1.0, dim=0)), matrix
    ),
    "distances": train(
        lambda x, y: (
            torch.dist(x, y),
            F.pairwise_distance(x, y),
            torch.cdist(x, y),
            F.cosine_similarity(x, y),
        ),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "pdist": static(F.pdist, matrix),
    "logsumexp": every(
        lambda x: (x.logsumexp(0), x.logsumexp((0, 2)), x.logsumexp(-1, True)), _cube
    ),
    "logsumexp of infinities": static(
        lambda x: (x.logsumexp(1), x.logsumexp(0)),
        lambda n: (tensor([[-INF, -INF], [INF, 1.0], [1000.0, 1000.0], [-INF, 2.0]]),),
    ),
    "softmax": every(
        lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmin(x, 2)), _cube
    ),
    "softmax of large numbers": static(
        lambda x: (x.softmax(1), x.log_softmax(1)), lambda n: (torch.randn(n, 3) * 1000,)
    ),
    "softmax of a masked row": static(
        lambda x: x.softmax(1), lambda n: (tensor([[-INF, -INF], [0.0, -INF]]),)
    ),
    "softmax with a dtype": static(
        lambda x: (
            x.softmax(1, dtype=torch.float64),
            x.half().softmax(1),
            x.long().softmax(0, dtype=torch.float32),
        ),
        matrix,
    ),
    "softmax of 0-d and of nothing": static(
        lambda x, y: (x.softmax(0), x.log_softmax(-1), y.softmax(0), y.softmax(1)),
        lambda n: (tensor(2.0), torch.randn(0, 3)),
    ),
    "gumbel_softmax of a fixed noise": train(
        lambda x, g: ((x + g) / 0.5).softmax(-1), lambda n: (torch.randn(n, 3), torch.randn(n, 3))
    ),
    "cumsum": every(lambda x: (x.cumsum(0), x.cumsum(-1), x.cumsum(1, dtype=torch.float64)), _cube),
    "cumsum of integers": static(
        lambda x: (
            x.cumsum(0),
            x.int().cumsum(0),
            x.bool().cumsum(1),
            x.cumsum(0, dtype=torch.int8),
        ),
        _ints,
    ),
    "cumsum of nothing": static(lambda x: (x.cumsum(0), x.cumprod(1), x.cumsum(1)), _empty),
    "cumsum with nan": static(lambda x: (x.cumsum(1), x.cumprod(1), x.cumsum(0)), _with_nan),
    "cumprod": train(lambda x: (x.cumprod(0), x.cumprod(-1)), matrix),
    "cummax and cummin": train(lambda x: (x.cummax(0), x.cummin(1), x.cummax(-1).values), matrix),
    "cummax of ties": static(lambda x: (x.cummax(1), x.cummin(1)), _ties),
    "cummax with nan": static(lambda x: (x.cummax(1), x.cummin(1)), _with_nan),
    "logcumsumexp": train(lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)), matrix),
    "diff": every(
        lambda x: (x.diff(), x.diff(2), x.diff(dim=0), x.diff(prepend=x[..., :1])), _cube
    ),
    "diff of booleans": static(lambda x: x.diff(), _bools),
    "trapezoid": train(
        lambda x: (
            torch.trapezoid(x),
            torch.trapezoid(x, dx=0.5, dim=0),
            torch.cumulative_trapezoid(x),
        ),
        matrix,
    ),
    "sort": every(lambda x: (x.sort(), x.sort(0, True), x.sort(-1, descending=True)), matrix),
    "stable sort of ties": static(
        lambda x: (
            x.sort(stable=True),
            x.sort(stable=True, descending=True, dim=0),
            x.argsort(stable=True),
        ),
        _ties,
    ),
    "sort of integers and booleans": static(
        lambda x: (
            x.sort(0),
            x.to(torch.int8).sort(dim=1, stable=True),
            (x > 0).sort(dim=1, stable=True),
        ),
        _ints,
    ),
    "sort with nan": static(
        lambda x: (x.sort(1).values, x.sort(1, True).values, x.msort()), _with_nan
    ),
    "sort of nothing": static(lambda x: (x.sort(0), x.argsort(1), x.topk(0, 1)), _empty),
    "topk": every(lambda x: (x.topk(2), x.topk(2, largest=False), x.topk(1, 0), x.topk(3)), _cube),
    "topk of integers": static(lambda x: (x.topk(2)[0], x.int().topk(1, 0)[0], x.topk(0)), _ints),
    "topk with nan": static(lambda x: (x.topk(2)[0], x.topk(2, largest=False)[0]), _with_nan),
    "topk too large error": static(lambda x: x.topk(4), matrix),
    "kthvalue": train(lambda x: (x.kthvalue(2), x.kthvalue(1, 0, keepdim=True)), matrix),
    "median": train(lambda x: (x.median(), x.median(0), x.median(-1, keepdim=True)), _cube),
    "median with nan": static(lambda x: (x.median(), x.median(1)[0], x.nanmedian(1)[0]), _with_nan),
    "quantile": static(
        lambda x: (
            x.quantile(0.3),
            x.quantile(tensor([0.1, 0.9]), 0),
            x.quantile(0.5, 1, interpolation="lower"),
        ),
        matrix,
    ),
    "quantile with nan": static(
        lambda x: (x.nanquantile(0.5, 1), x[1:2].quantile(0.5, 1)), _with_nan
    ),
    "mode": static(lambda x: (x.mode(1), x.mode(0)), _ties),
    "histc and bincount": static(
        lambda x: (torch.histc(x, 4, -2, 2), torch.bincount(tensor([1, 1, 3]), minlength=6)), matrix
    ),
    "bincount with weights": static(
        lambda i, w: (torch.bincount(i), torch.bincount(i, w)),
        lambda n: (tensor([0, 2, 2]), torch.randn(3)),
    ),
    "unique": static(
        lambda x: (x.unique(), x.unique(return_inverse=True, return_counts=True)),
        _ints,
        "capture_dynamic_output_shape_ops",
    ),
    "unique along an axis": static(
        lambda x: (torch.unique(x, dim=0), torch.unique_consecutive(x.flatten())),
        _ints,
        "capture_dynamic_output_shape_ops",
    ),
    "cov and corrcoef": train(lambda x: (x.cov(), x.corrcoef(), x.cov(correction=0)), matrix),
    "traces and dots": train(
        lambda x, v: (
            x[:3].trace(),
            x @ v,
            v.dot(v),
            torch.outer(v, v),
            torch.inner(x, x),
            torch.vdot(v, v),
        ),
        lambda n: (torch.randn(n, 3), torch.randn(3)),
    ),
    "reduction of a product": every(
        lambda x, y: ((x * y).sum((0, 1)), (x + y).amax(-1)),
        lambda n: (
            torch.randn(n, 3, 5),
            torch.randn(n, 1, 5),
        ),
    ),
    "reduction then broadcast": every(
        lambda x: (x - x.mean(0)) / (x.std(0, correction=0) + 1e-5) + x.sum(), matrix
    ),
    "chain of reductions": train(lambda x: x.sum(-1).amax(-1).mean().exp(), _cube),
    "reduction of an expanded input": static(
        lambda x: (x.sum(0), x.mean(), x.argmax(1), x.cumsum(0)),
        lambda n: (torch.randn(1, 3).expand(n, 3),),
    ),
    "reduction of a transposed input": every(
        lambda x: (x.sum(0), x.amax(1), x.argmin(0), x.softmax(0), x.var(1)),
        lambda n: (torch.randn(3, n).t(),),
    ),
    "sum_to_size": train(lambda x: (x.sum_to_size(1, 3, 1), x.sum_to_size(5)), _cube),
    "reduce by einsum": every(
        lambda x: (
            torch.einsum("ijk->k", x),
            torch.einsum("ijk,ijk->i", x, x),
            torch.einsum("ijk->kji", x),
        ),
        _cube,
    ),
    "losses": every(
        lambda x, y: (
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y, beta=0.5),
            F.huber_loss(x, y, reduction="none"),
            F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        ),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "cross_entropy": every(
        lambda x, t: (
            F.cross_entropy(x, t),
            F.cross_entropy(x, t, reduction="none", label_smoothing=0.1),
            F.cross_entropy(x, t, ignore_index=1, reduction="sum"),
            F.nll_loss(x.log_softmax(1), t),
        ),
        lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n,))),
    ),
    "cross_entropy with weights": train(
        lambda x, t, w: (
            F.cross_entropy(x, t, w.detach()),
            F.cross_entropy(x, x.softmax(1).detach(), w),
        ),
        lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n,)), torch.rand(3)),
    ),
    "cross_entropy of ignored targets": static(
        lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="sum")),
        lambda n: (torch.randn(n, 3), torch.full((n,), -100)),
    ),
    "cross_entropy of an image": train(
        F.cross_entropy, lambda n: (torch.randn(2, 3, n, 2), torch.randint(0, 3, (2, n, 2)))
    ),
    "cross_entropy out of range error": static(
        F.cross_entropy, lambda n: (torch.randn(n, 3), torch.full((n,), 3))
    ),
    "binary cross entropy": train(
        lambda x, y: (
            F.binary_cross_entropy_with_logits(x, y, pos_weight=tensor(2.0)),
            F.binary_cross_entropy(x.sigmoid(), y),
        ),
        lambda n: (torch.randn(n, 3), torch.rand(n, 3)),
    ),
    "binary cross entropy at the edges": static(
        lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
        lambda n: (tensor([0.0, 1.0, 0.5]), tensor([1.0, 0.0, 1.0])),
    ),
}
