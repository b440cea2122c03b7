"""Reading and writing at indices: gather, scatter, masks, slices, embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, bools, ints, normal

_DYNAMIC_SHAPES = ("capture_dynamic_output_shape_ops", "capture_scalar_outputs")


def _rows(n):
    return normal(n, 4), ints(n, 6)


def _put(x, index, value, accumulate=False):
    return torch.index_put(x, (index,), value, accumulate)


def _reduce(reduction, include=True):
    return lambda x, i, s: x.scatter_reduce(0, i, s, reduction, include_self=include)


def _scatter(n):
    return normal(n, 3), ints(n, 4, 3), normal(4, 3, seed=1)


PROGRAMS = {
    "rows": (lambda x, i: x[i], _rows),
    "negative rows": (lambda x, i: x[i - x.shape[0]], _rows),
    "columns": (lambda x, i: x[:, i], lambda n: (normal(n, 4), ints(4, 5))),
    "pairs": (lambda x, i, j: x[i, j], lambda n: (normal(n, 4), ints(n, 5), ints(4, 5, seed=1))),
    "crossed": (
        lambda x, i, j: x[i[:, None], j],
        lambda n: (normal(n, 4), ints(n, 3), ints(4, 2, seed=1)),
    ),
    "around a slice": (
        lambda x, i, j: x[i, :, j],
        lambda n: (normal(n, 3, 4), ints(n, 5), ints(4, 5, seed=1)),
    ),
    "after a slice": (lambda x, i: x[1:, i], lambda n: (normal(n, 4), ints(4, 3))),
    "with None": (lambda x, i: x[i, None], _rows),
    "with Ellipsis": (lambda x, i: x[..., i], lambda n: (normal(n, 2, 4), ints(4, 3))),
    "reversed": (lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], lambda n: (normal(n, 2),)),
    "from the end": (lambda x: x[torch.arange(-x.shape[0], 0)], lambda n: (normal(n, 2),)),
    "every other, reversed": (
        lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -2)),
        lambda n: (normal(n, 2),),
    ),
    "shifted": (lambda x: x[(torch.arange(x.shape[0]) + 1) % x.shape[0]], lambda n: (normal(n),)),
    "2-d index": (lambda x, i: x[i], lambda n: (normal(n, 4), ints(n, 2, 3))),
    "0-d index": (lambda x, i: x[i[None]], lambda n: (normal(n, 4), torch.tensor(1))),
    "int32 index": (lambda x, i: x[i.int()], _rows),
    "mask": Program(
        lambda x, m: x[m], lambda n: (normal(n, 3), bools(n, 3)), patches=_DYNAMIC_SHAPES
    ),
    "mask of rows": Program(
        lambda x, m: x[m] * 2, lambda n: (normal(n, 3), bools(n)), patches=_DYNAMIC_SHAPES
    ),
    "mask sum": Program(
        lambda x: x[x > 0].sum(), lambda n: (normal(n, 3),), patches=_DYNAMIC_SHAPES
    ),
    "nonzero": Program(lambda x: x.nonzero(), lambda n: (ints(2, n, 3),), patches=_DYNAMIC_SHAPES),
    "argwhere": Program(
        lambda x: torch.argwhere(x > 0), lambda n: (normal(n, 3),), patches=_DYNAMIC_SHAPES
    ),
    "masked_select": Program(
        torch.masked_select, lambda n: (normal(n, 3), bools(n, 3)), patches=_DYNAMIC_SHAPES
    ),
    "slices": (
        lambda x: (x[1:], x[:-1], x[::2], x[1:-1], x[-2:], x[:, 1:3]),
        lambda n: (normal(n, 4),),
    ),
    "slices past the end": (lambda x: (x[:100], x[-100:], x[7:], x[:0]), lambda n: (normal(n, 4),)),
    "select": (lambda x: (x[0], x[-1], x.select(1, 2), x[:, -1]), lambda n: (normal(n, 4),)),
    "half of it": (lambda x: x[: x.shape[0] // 2], lambda n: (normal(n, 4),)),
    "narrow": (lambda x: x.narrow(1, 1, 2), lambda n: (normal(n, 4),)),
    "gather": (lambda x, i: x.gather(1, i), lambda n: (normal(n, 4), ints(4, n, 3))),
    "gather rows": (lambda x, i: x.gather(0, i), lambda n: (normal(n, 4), ints(n, 2, 3))),
    "take": (torch.take, lambda n: (normal(n, 4), ints(4 * n, 3, 2))),
    "take_along_dim": (
        lambda x, i: torch.take_along_dim(x, i, 1),
        lambda n: (normal(n, 4), ints(4, n, 2)),
    ),
    "index_select": (lambda x, i: x.index_select(1, i), lambda n: (normal(n, 4), ints(4, 3))),
    "index_put": (_put, lambda n: (normal(n, 4), torch.arange(n).flip(0), normal(n, 4, seed=1))),
    "index_put row": (lambda x, i: _put(x, i, torch.zeros(4)), _rows),
    "index_put adds": (
        lambda x, i, v: _put(x, i, v, True),
        lambda n: (normal(n, 4), ints(n, 9), normal(9, 4, seed=1)),
    ),
    "index_put mask": (
        lambda x, m: _put(x, m, torch.tensor(3.0)),
        lambda n: (normal(n, 3), bools(n, 3)),
    ),
    "index_put two": (
        lambda x, i, j, v: torch.index_put(x, (i, j), v, True),
        lambda n: (normal(n, 4), ints(n, 6), ints(4, 6, seed=1), normal(6)),
    ),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        lambda n: (normal(n, 3), ints(n, 5), normal(5, 3, seed=1)),
    ),
    "index_copy": (
        lambda x, s: x.index_copy(0, torch.arange(x.shape[0]).flip(0), s),
        lambda n: (normal(n, 3), normal(n, 3, seed=1)),
    ),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), _rows),
    "index_reduce": Program(
        lambda x, i, s: x.index_reduce(0, i, s, "amax"),
        lambda n: (normal(n, 3), ints(n, 5), normal(5, 3, seed=1)),
        train=False,
    ),
    "scatter": (
        lambda x, s: x.scatter(1, torch.arange(3).flip(0).expand(x.shape[0], 3), s),
        lambda n: (normal(n, 3), normal(n, 3, seed=1)),
    ),
    "scatter number": Program(
        lambda x, i: x.scatter(0, i, 2.5), lambda n: (normal(n, 3), ints(n, 2, 3)), train=True
    ),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), _scatter),
    "scatter sum": (_reduce("sum"), _scatter),
    "scatter prod": (_reduce("prod"), _scatter),
    "scatter mean": (_reduce("mean"), _scatter),
    "scatter amax": (_reduce("amax"), _scatter),
    "scatter amin without self": (_reduce("amin", False), _scatter),
    "masked_scatter": (
        lambda x, m, s: x.masked_scatter(m, s),
        lambda n: (normal(n, 3), bools(n, 3), normal(n * 3, seed=1)),
    ),
    "slice_scatter": (
        lambda x, s: torch.slice_scatter(x, s, 0, 1, None, 1),
        lambda n: (normal(n, 3), normal(n - 1, 3, seed=1)),
    ),
    "slice_scatter steps": (
        lambda x, s: torch.slice_scatter(x, s, 1, 0, 6, 2),
        lambda n: (normal(n, 6), normal(n, 3, seed=1)),
    ),
    "select_scatter": (
        lambda x, s: torch.select_scatter(x, s, 1, -1),
        lambda n: (normal(n, 3), normal(n, seed=1)),
    ),
    "diagonal_scatter": (
        lambda x, s: torch.diagonal_scatter(x, s),
        lambda n: (normal(n, n), normal(n, seed=1)),
    ),
    "as_strided": Program(
        lambda x: torch.as_strided(x, (3, 2), (2, 1), 1), lambda n: (normal(12),)
    ),
    "as_strided_scatter": Program(
        lambda x, s: torch.as_strided_scatter(x, s, (2, 2), (1, 2)),
        lambda n: (normal(9), normal(2, 2)),
        train=False,
    ),
    "one_hot": (lambda i: F.one_hot(i, 5), lambda n: (ints(5, n, 2),)),
    "embedding": (lambda i, w: F.embedding(i, w), lambda n: (ints(6, n, 3), normal(6, 4))),
    "embedding padding": (
        lambda i, w: F.embedding(i, w, padding_idx=0),
        lambda n: (ints(6, n, 3), normal(6, 4)),
    ),
    "positions": (
        lambda i, w: F.embedding(i, w) + w[torch.arange(i.shape[1] - 1, -1, -1)],
        lambda n: (ints(9, 2, n), normal(9, 4)),
    ),
    **{
        f"embedding_bag {mode}": Program(
            lambda i, w, mode=mode: F.embedding_bag(i, w, mode=mode),
            lambda n: (ints(6, n, 3), normal(6, 4)),
        )
        for mode in ("sum", "mean", "max")
    },
    "embedding_bag offsets": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"),
        lambda n: (ints(6, 2 * n), normal(6, 4), torch.tensor([0, 2, 2])),
    ),
    "embedding_bag weights": (
        lambda i, w, p: F.embedding_bag(i, w, mode="sum", per_sample_weights=p),
        lambda n: (ints(6, n, 3), normal(6, 4), normal(n, 3)),
    ),
    "bucketize": (
        lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        lambda n: (normal(n, 3),),
    ),
    "bucketize right": (
        lambda x: torch.bucketize(x, torch.tensor([-1, 0, 1]), right=True),
        lambda n: (ints(3, n, low=-3),),
    ),
    "searchsorted": (
        lambda s, x: torch.searchsorted(s.sort(1)[0], x),
        lambda n: (normal(n, 4), normal(n, 3, seed=1)),
    ),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), lambda n: (normal(n, 3),)),
    "repeat_interleave by tensor": Program(
        lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=6),
        lambda n: (normal(3, 2), torch.tensor([1, 2, 3])),
    ),
    "put": Program(
        lambda x, i, v: torch.ops.aten.put(x, i, v),
        lambda n: (normal(n, 3), torch.arange(3), normal(3)),
        train=False,
    ),
    "tril triu": (lambda x: (x.tril(), x.triu(1), x.tril(-1)), lambda n: (normal(n, 4),)),
    "tril_indices": (lambda x: x[tuple(torch.tril_indices(4, 4))], lambda n: (normal(4, 4),)),
    "diagonal": (
        lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 0, 1)),
        lambda n: (normal(n, n + 1),),
    ),
    "diag_embed": (lambda x: (x.diag_embed(), x.diag_embed(1)), lambda n: (normal(2, n),)),
    "trace": (torch.trace, lambda n: (normal(n, n),)),
    "index of index": (lambda x, i: x[i][:, i % 4], lambda n: (normal(n, 4), ints(n, 5))),
}
