"""Data and arguments that eager refuses, or nearly: compiled programs must refuse the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, matrix, static, train

_SCALARS = "capture_scalar_outputs"
_SIZES = "capture_dynamic_output_shape_ops"


def _ints(*values):
    return lambda n: (tensor(values),)


def _rows(*index):
    """Return inputs with an index of rows and values for them."""
    return lambda n: (torch.randn(n, 3), tensor(index), torch.randn(len(index), 3))


def _put(x, i, v):
    y = x.clone()
    y[i] = v
    return y


def _at_size(x, i):
    return x[i] * 2


def _valid_first(n):
    """Return an index that is out of range at the second size only."""
    return torch.randn(n, 3), tensor([0, 3 if n == 4 else n])


PROGRAMS = {
    # integers
    "floor division by a number 0": static(lambda x: x // 0, _ints(1, 2)),
    "remainder by a number 0": static(lambda x: x % 0, _ints(1, 2)),
    "fmod by 0": static(torch.fmod, lambda n: (tensor([5, 3]), tensor([2, 0]))),
    "truncated division by 0": static(
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        lambda n: (tensor([5, 3]), tensor([2, 0])),
    ),
    "number divided by 0": static(lambda x: 7 // x, _ints(1, 0)),
    "number modulo 0": static(lambda x: 7 % x, _ints(1, 0)),
    "int8 divided by 0": static(
        lambda x: x // (x - x), lambda n: (torch.arange(n, dtype=torch.int8),)
    ),
    "uint8 modulo 0": static(
        lambda x: x % (x * 0), lambda n: (torch.arange(n, dtype=torch.uint8),)
    ),
    "division by 0 in place": static(
        lambda x, y: x.floor_divide_(y), lambda n: (tensor([5, 3]), tensor([2, 0]))
    ),
    "division by 0 whose result is unused": static(
        lambda x, y: (x // y, x + 1)[1], lambda n: (tensor([5, 3]), tensor([2, 0]))
    ),
    "division by 0 in a branch of where": static(
        lambda x, y: torch.where(y == 0, 0, x // y), lambda n: (tensor([5, 3]), tensor([2, 0]))
    ),
    "negative power of integers": static(
        lambda x, y: x**y, lambda n: (tensor([2, 3]), tensor([1, -1]))
    ),
    "number to a negative power": static(lambda x: 2**x, _ints(1, -1)),
    # indices
    "row out of range at one size": dynamic(_at_size, _valid_first),
    "index of three axes": static(
        lambda x, i: x[:, :, i], lambda n: (torch.randn(n, 3, 2), tensor([0, 2]))
    ),
    "second index out of range": static(
        lambda x, i: x[tensor([0, 1]), i], lambda n: (torch.randn(n, 3), tensor([0, 3]))
    ),
    "0-d index out of range": static(lambda x, i: x[i], lambda n: (torch.randn(n, 3), tensor(9))),
    "index far out of range": static(
        lambda x, i: x[i], lambda n: (torch.randn(n, 3), tensor([2**40]))
    ),
    "index in training": train(
        lambda x, i: (x[i] ** 2).sum(), lambda n: (torch.randn(n, 3), tensor([0, n]))
    ),
    "take": static(torch.take, lambda n: (torch.randn(n, 3), tensor([0, 3 * n]))),
    "take_along_dim": static(
        lambda x, i: x.take_along_dim(i, 1), lambda n: (torch.randn(n, 3), torch.full((n, 1), 3))
    ),
    "index_add": static(lambda x, i, v: x.index_add(0, i, v), _rows(0, 9)),
    "index_add with a negative index": static(lambda x, i, v: x.index_add(0, i, v), _rows(0, -1)),
    "index_copy": static(lambda x, i, v: x.index_copy(0, i, v), _rows(0, 4)),
    "index_fill": static(lambda x, i, v: x.index_fill(0, i, 1.0), _rows(0, 4)),
    "index_put": static(_put, _rows(0, 4)),
    "index_put, far below": static(_put, _rows(0, -5)),
    "index_reduce": static(lambda x, i, v: x.index_reduce(0, i, v, "amax"), _rows(0, 4)),
    "put": static(lambda x, i, v: x.put(i, v[:, 0]), _rows(0, 12)),
    "scatter": static(lambda x, i, v: x.scatter(0, i[:, None].expand(2, 3), v), _rows(0, 4)),
    "scatter with a negative index": static(
        lambda x, i, v: x.scatter(0, i[:, None].expand(2, 3), v), _rows(0, -1)
    ),
    "scatter_add": static(
        lambda x, i, v: x.scatter_add(0, i[:, None].expand(2, 3), v), _rows(0, 4)
    ),
    "scatter_reduce": static(
        lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(2, 3), v, "amin"), _rows(0, 4)
    ),
    "scatter of a longer index": static(
        lambda x, i, v: x.scatter(0, i[:, None].expand(2, 4), v), _rows(0, 1)
    ),
    "gather of a longer index": static(
        lambda x, i, v: x.gather(0, i[:, None].expand(2, 4)), _rows(0, 1)
    ),
    "gather of floats": static(lambda x, i, v: x.gather(0, i[:, None].float()), _rows(0, 1)),
    "index_select of two axes": static(lambda x, i, v: x.index_select(0, i[None]), _rows(0, 1)),
    "write out of range to an input": static(lambda x, i, v: x.index_add_(0, i, v), _rows(0, 4)),
    "embedding of half": static(
        lambda w, i: F.embedding(i, w), lambda n: (torch.randn(5, 3).half(), tensor([0, 5]))
    ),
    "embedding_bag": static(
        lambda w, i: F.embedding_bag(i[None], w), lambda n: (torch.randn(5, 3), tensor([0, 5]))
    ),
    "embedding module": static(lambda m, i: m(i), lambda n: (nn.Embedding(5, 3), tensor([0, 5]))),
    "one_hot of a negative class": static(lambda i: F.one_hot(i, 3), _ints(0, -1)),
    "bincount of a negative number": static(torch.bincount, _ints(0, -1), _SIZES),
    "repeat_interleave by a negative number": static(
        lambda x, i: x.repeat_interleave(i, 0),
        lambda n: (torch.randn(2, 3), tensor([1, -1])),
        _SIZES,
    ),
    "mask assigned by too few": static(lambda x: _put(x, x > -100, tensor([1.0, 2.0])), matrix),
    "masked_scatter of too few": static(
        lambda x: x.masked_scatter(x > -100, tensor([1.0, 2.0])), matrix
    ),
    # losses
    "class out of range": static(
        lambda x, t: F.nll_loss(x, t), lambda n: (torch.randn(n, 3), torch.full((n,), 7))
    ),
    "negative class": static(
        lambda x, t: F.cross_entropy(x, t), lambda n: (torch.randn(n, 3), torch.full((n,), -1))
    ),
    "class out of range in training": train(
        lambda x, t: F.cross_entropy(x, t), lambda n: (torch.randn(n, 3), torch.full((n,), 3))
    ),
    "class of an image out of range": static(
        lambda x, t: F.cross_entropy(x, t), lambda n: (torch.randn(1, 3, n), torch.full((1, n), 3))
    ),
    "multi_margin of a class out of range": static(
        F.multi_margin_loss, lambda n: (torch.randn(n, 3), torch.full((n,), 3))
    ),
    "probabilities above 1": static(
        F.binary_cross_entropy, lambda n: (tensor([0.5, 1.5]), tensor([1.0, 0.0]))
    ),
    "probabilities of nan": static(
        F.binary_cross_entropy, lambda n: (tensor([0.5, float("nan")]), tensor([1.0, 0.0]))
    ),
    "targets of another shape": static(
        F.cross_entropy, lambda n: (torch.randn(n, 3), torch.zeros(n + 1, dtype=torch.int64))
    ),
    "targets of another dtype": static(F.nll_loss, lambda n: (torch.randn(n, 3), torch.zeros(n))),
    # shapes and arguments
    "sizes that do not broadcast": dynamic(
        lambda x, y: x + y, lambda n: (torch.randn(n, 3), torch.randn(n + 1, 3))
    ),
    "product of other sizes": dynamic(
        lambda x, y: x @ y, lambda n: (torch.randn(n, 3), torch.randn(n + 5, 3))
    ),
    "view of another size": dynamic(lambda x: x.view(7, -1), matrix),
    "cat of other sizes": dynamic(
        lambda x, y: torch.cat([x, y], 1), lambda n: (torch.randn(n, 3), torch.randn(n + 1, 3))
    ),
    "cat of other ranks": static(lambda x: torch.cat([x, x[0]]), matrix),
    "stack of other sizes": static(lambda x: torch.stack([x, x[1:]]), matrix),
    "negative repeat": static(lambda x: x.repeat(-1, 1), matrix),
    "repeat of too few axes": static(lambda x: x.repeat(2), matrix),
    "flip of one axis twice": static(lambda x: x.flip(0, 0), matrix),
    "squeeze out of range": static(lambda x: x.squeeze(5), matrix),
    "unflatten of another size": static(lambda x: x.unflatten(1, (2, 2)), matrix),
    "step of 0": static(lambda x: (torch.arange(0, 5, 0), x[::0]), matrix),
    "negative size": static(lambda x: torch.zeros(-1) + x[0], matrix),
    "negative steps": static(lambda x: torch.linspace(0, 1, -1) + x[0, 0], matrix),
    "chunks of 0": static(lambda x: x.chunk(0), matrix),
    "topk of a negative number": static(lambda x: x.topk(-1), matrix),
    "kthvalue out of range": static(lambda x: x.kthvalue(4), matrix),
    "quantile above 1": static(lambda x: x.quantile(1.5), matrix),
    "quantile of a tensor above 1": static(
        lambda x, q: x.quantile(q), lambda n: (torch.randn(n), tensor([0.5, 1.5]))
    ),
    "median along no axis": static(lambda x: x.median(7), matrix),
    "dropout of a probability above 1": static(lambda x: F.dropout(x, 1.5), matrix),
    "softmax out of range": static(lambda x: x.softmax(2), matrix),
    "convolution of another dtype": static(
        F.conv1d, lambda n: (torch.randn(1, 3, 5), torch.randn(2, 3, 2).double())
    ),
    "convolution with a stride of 0": static(
        lambda x, w: F.conv1d(x, w, stride=0),
        lambda n: (torch.randn(1, 3, 5), torch.randn(2, 3, 2)),
    ),
    "groups that do not divide": static(
        lambda x, w: F.conv1d(x, w, groups=2),
        lambda n: (torch.randn(1, 3, 5), torch.randn(2, 3, 2)),
    ),
    "pool with a stride of 0": static(lambda x: F.avg_pool1d(x, 2, 0), matrix),
    "pad of a pool too large": static(lambda x: F.max_pool1d(x, 2, padding=2), matrix),
    "normalised shape of another size": static(lambda x: F.layer_norm(x, (4,)), matrix),
    "groups of a norm that do not divide": static(lambda x: F.group_norm(x, 2), matrix),
    "linear of another dtype": static(
        F.linear, lambda n: (torch.randn(n, 3), torch.randn(2, 3).half())
    ),
    "attention of other sizes": static(
        F.scaled_dot_product_attention,
        lambda n: (torch.randn(1, n, 3), torch.randn(1, n, 4), torch.randn(1, n, 3)),
    ),
    "bits of floats": static(lambda x: x & 1, matrix),
    "shift of floats": static(lambda x: x << tensor(1), matrix),
    "inverse of floats": static(lambda x: ~x, matrix),
    "index_add of another dtype": static(
        lambda x, i, v: x.index_add(0, i, v.double()), _rows(0, 1)
    ),
    "scatter of another dtype": static(
        lambda x, i, v: x.scatter(0, i[:, None], v.double()), _rows(0, 1)
    ),
    "complex compared": static(lambda x: torch.complex(x, x) < 1, matrix),
    "complex rounded": static(lambda x: torch.complex(x, x).floor(), matrix),
    "dot of matrices": static(lambda x: x.dot(x), matrix),
    "cross of two": static(lambda x: torch.linalg.cross(x[:, :2], x[:, :2]), matrix),
    "trace of a vector": static(lambda x: x[0].trace(), matrix),
    "determinant of no square": static(torch.linalg.det, matrix),
    "tril of a vector": static(lambda x: x[0].tril(), matrix),
    "view of another dtype that does not fit": static(lambda x: x.view(torch.float64), matrix),
    "view as complex of three": static(lambda x: torch.view_as_complex(x), matrix),
    "variance of integers": static(lambda x: x.var(), _ints(1, 5)),
    "relu of booleans": static(lambda x: (x > 2).relu(), _ints(1, 5)),
    "topk of booleans": static(lambda x: (x > 2).topk(1), _ints(1, 5)),
    "argmax of booleans": static(lambda x: (x > 2).argmax(), _ints(1, 5)),
    "mask subtracted": static(lambda x: (x - (x > 2), (x > 2) - x), _ints(1, 5)),
    "index_add of integers to floats": static(
        lambda x, i, v: x.index_add(0, i, v.long()), _rows(0, 1)
    ),
    "truncated division by a number 0": static(
        lambda x: torch.div(x, 0, rounding_mode="trunc"), _ints(1, 2)
    ),
    "fmod by a number 0": static(lambda x: torch.fmod(x, 0), _ints(1, 2)),
    # values as numbers
    "item of many": static(lambda x: x.item(), matrix),
    "truth of many": static(lambda x: x * 2 if x > 0 else x, matrix),
    "size from a negative number": static(
        lambda x: torch.zeros(x.min().item()), _ints(-1, 3), _SCALARS
    ),
    "check of a number": static(
        lambda x: (torch._check(x.max().item() < 3), x * 2)[1], _ints(1, 5), _SCALARS
    ),
    "assertion of a condition": static(
        lambda x: (torch._assert_async((x > 100).all()), x * 2)[1], matrix
    ),
    "assertion in Python": static(lambda x: _asserted(x), matrix),
    "assertion at one size": dynamic(lambda x: _few_rows(x), matrix),
    # linear algebra
    "singular solution": static(
        lambda x: torch.linalg.solve(x, x[0]), lambda n: (torch.ones(3, 3),)
    ),
    "indefinite cholesky in a batch": static(
        torch.linalg.cholesky, lambda n: (torch.stack([torch.eye(3), -torch.eye(3)]),)
    ),
    "eigenvalues of nan": static(
        torch.linalg.eigvalsh, lambda n: (torch.full((3, 3), float("nan")),)
    ),
}


def _asserted(x):
    assert (x > 100).all(), "too small"
    return x + 1


def _few_rows(x):
    assert x.shape[0] < 6, "many rows"
    return x + 1
