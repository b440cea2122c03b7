"""Reading and writing at indices: slices, gathers, scatters, masks, embeddings, errors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import tensor

from . import dynamic, every, matrix, static, train

aten = torch.ops.aten
_SIZES = "capture_dynamic_output_shape_ops"


def _cube(n):
    return (torch.randn(n, 3, 5),)


def _rows(n):
    return torch.randn(n, 3), torch.randint(0, n, (6,))


def _grid(n):
    return torch.randn(n, 3, 5), torch.tensor([0, 2, 1]), torch.tensor([4, 0, 4])


def _writes(n):
    return torch.randn(n, 3), torch.randint(0, n, (5, 3)), torch.randn(5, 3)


def _put_rows(n):
    return torch.randn(n, 3), torch.randint(0, n, (5,)), torch.randn(5, 3)


def _masked(n):
    return torch.randn(n, 3), torch.arange(n * 3).reshape(n, 3) % 3 == 0


def _assign(*key):
    """Return a function that writes its second argument at a key of a copy of the first."""

    def run(x, value):
        y = x.clone()
        y[key] = value
        return y

    return run


def _assign_at(x, index, value):
    y = x.clone()
    y[index] = value
    return y


def _scatter_reduce(reduce, include_self=True):
    return lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self)


PROGRAMS = {
    # basic
    "steps": every(lambda x: (x[::2], x[1::2], x[:, ::3], x[::2, ::2], x[3:1]), _cube),
    "ends": every(lambda x: (x[:-1], x[-2:], x[-100:100], x[2:2], x[..., -1:], x[:, -2]), _cube),
    "ellipsis and None": every(
        lambda x: (x[..., 0], x[None, ..., 1:], x[:, None, 0], x[..., None], x[None]), _cube
    ),
    "negative selects": every(
        lambda x: (x[-1], x[-1, -1], x[-1, ..., -2], x.select(-1, -5)), _cube
    ),
    "select out of range error": static(lambda x: x[:, 3], matrix),
    "too many indices error": static(lambda x: x[0, 0, 0], matrix),
    "negative step error": static(lambda x: x[::-1], matrix),
    "index of 0-d": static(
        lambda x: (x[()], x[...], x[None], x[True], x[False]), lambda n: (tensor(2.0),)
    ),
    "index of 0-d error": static(lambda x: x[0], lambda n: (tensor(2.0),)),
    "indexing with True": static(lambda x: (x[True], x[False], x[None, True]), matrix),
    "sliced at a tensor": static(lambda x, i: x[i : i + 2], lambda n: (*matrix(n), tensor(1))),
    "narrow": every(lambda x: (x.narrow(0, 1, 2), x.narrow(-1, -2, 1), x.narrow(1, 3, 0)), _cube),
    "narrow past the end error": static(lambda x: x.narrow(0, 2, 5), matrix),
    "slice of a slice": every(lambda x: x[1:][:, 1:][..., 1:4][:, :, ::2], _cube),
    "slice_scatter": every(
        lambda x, y: (
            x.slice_scatter(y[1:3], 0, 1, 3),
            torch.slice_scatter(x, y[::2], 0, 0, None, 2),
        ),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "select_scatter": every(
        lambda x, y: (x.select_scatter(y[0], 0, -1), x.select_scatter(y[:, 0], 1, 2)),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "diagonal_scatter": train(
        lambda x, d: (x.diagonal_scatter(d), x.diagonal_scatter(d[:2], 1)),
        lambda n: (torch.randn(n, 3), torch.randn(3)),
    ),
    # indices of tensors
    "rows": every(lambda x, i: (x[i], x[i - x.shape[0]], x[-1 - i]), _rows),
    "index of int32": static(
        lambda x, i: (x[i.int()], x[:, i.int() % 3], x[i.int(), i % 3]), _rows
    ),
    "index of uint8 is a mask": static(lambda x, m: x[m.to(torch.uint8)].sum(), _masked),
    "index of floats error": static(lambda x, i: x[i.float()], _rows),
    "index out of range error": static(lambda x, i: x[i + 2], _rows),
    "negative index out of range error": static(
        lambda x, i: x[i], lambda n: (torch.randn(n), tensor([0, -n - 1]))
    ),
    "two indices": every(
        lambda x, i, j: (x[i, j % 3], x[i[:, None], j % 3], x[i, :, j], x[i, 1, j]), _grid
    ),
    "index of two axes and None": static(
        lambda x, i, j: (x[:, i, None, j], x[i, None, j % 3], x[None, i, :, j], x[..., i[None], j]),
        _grid,
    ),
    "first and last axis": static(lambda x, i, j: (x[i, ..., j], x[i, :, 2], x[1, :, j]), _grid),
    "list as an index": static(lambda x: (x[[0, 2]], x[[0, 1], [1, 2]], x[:, [2, 0, 0]]), matrix),
    "index by a boolean list": static(lambda x: x[:, [True, False, True]], matrix),
    "index of 0 elements": static(
        lambda x, i: (x[i], x[:, i], x[i, i]), lambda n: (torch.randn(n, 3), torch.empty(0).long())
    ),
    "index in 0 elements error": static(
        lambda x, i: x[i], lambda n: (torch.randn(0, 3), torch.zeros(2).long())
    ),
    "0-d index": train(
        lambda x, i: (x[i], x[:, i], x.index_select(0, i), x[i, i]),
        lambda n: (torch.randn(n, 3), tensor(1)),
    ),
    "aten.index with None": static(
        lambda x, i, j: (aten.index(x, [None, i]), aten.index(x, [None, None, j])), _grid
    ),
    "index of an index": every(lambda x, i: x[i][i % 3, i % 3], _rows),
    "index by argsort": every(lambda x: x[x[:, 0].argsort()], matrix),
    "index by argmax": every(lambda x: x[torch.arange(x.shape[0]), x.argmax(1)], matrix),
    "reversed by an index": every(lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], matrix),
    "index_select": every(
        lambda x, i: (
            x.index_select(0, i),
            x.index_select(-1, i % 3),
            x.index_select(1, i.int() % 3),
        ),
        _rows,
    ),
    "index_select out of range error": static(lambda x, i: x.index_select(1, i), _rows),
    "gather": every(
        lambda x, i: (x.gather(0, i), x.gather(1, i % 3), x.gather(-1, i[:2] % 3)),
        lambda n: (torch.randn(n, 3), torch.randint(0, n, (n, 3))),
    ),
    "gather of 0-d": static(lambda x, i: x.gather(0, i), lambda n: (tensor(2.0), tensor(0))),
    "gather of 0 elements": static(
        lambda x, i: x.gather(1, i), lambda n: (torch.randn(n, 3), torch.empty(n, 0).long())
    ),
    "gather out of range error": static(
        lambda x, i: x.gather(1, i), lambda n: (torch.randn(n, 3), torch.full((n, 1), 3))
    ),
    "gather with a negative index error": static(
        lambda x, i: x.gather(1, i), lambda n: (torch.randn(n, 3), torch.full((n, 1), -1))
    ),
    "gather of booleans and int8": static(
        lambda x, i: ((x > 0).gather(0, i), (x * 9).to(torch.int8).gather(0, i)),
        lambda n: (torch.randn(n, 3), torch.randint(0, n, (2, 3))),
    ),
    "take": every(lambda x, i: (x.take(i), x.take(-1 - i)), _rows),
    "take_along_dim": train(
        lambda x: (
            x.take_along_dim(x.argsort(1), 1),
            x.take_along_dim(x.argmax(0, keepdim=True), 0),
            x.take_along_dim(tensor([2, 0])),
        ),
        matrix,
    ),
    # masks
    "mask": every(lambda x, m: (x[m], x[m].sum()), _masked, _SIZES),
    "mask of rows": dynamic(lambda x, m: (x[m[:, 0]], x[~m[:, 0]] * 2), _masked, _SIZES),
    "mask without True": static(lambda x: x[x > 100], matrix, _SIZES),
    "mask of columns": static(lambda x, m: x[:, m[0]], _masked, _SIZES),
    "mask and an index": static(lambda x, m: x[m[:, 0], 1], _masked, _SIZES),
    "mask of a wrong shape error": static(lambda x, m: x[m[:2]], _masked),
    "masked_select": dynamic(
        lambda x, m: (x.masked_select(m), x.masked_select(m[:1])), _masked, _SIZES
    ),
    "mask at a graph break": static(lambda x, m: x[m] * 2, _masked),
    "nonzero": dynamic(lambda x, m: (m.nonzero(), (x > 0).nonzero()), _masked, _SIZES),
    "nonzero as a tuple": static(
        lambda x, m: (m.nonzero(as_tuple=True), x[m.nonzero().T[0]]), _masked, _SIZES
    ),
    "where of a condition": static(lambda x, m: torch.where(m), _masked, _SIZES),
    "argwhere": dynamic(lambda x, m: torch.argwhere(x * m), _masked, _SIZES),
    "count of a mask": every(lambda x, m: (m.sum(), m.count_nonzero(0), (x * m).sum(1)), _masked),
    "masked_fill": every(
        lambda x, m: (
            x.masked_fill(m, -1e9),
            x.masked_fill(m, float("-inf")).softmax(1),
            x.masked_fill(m[0], tensor(2.0)),
            x.masked_fill(m[:, :1], x[0, 0].detach()),
        ),
        _masked,
    ),
    "masked_fill of integers by a float": static(
        lambda x, m: x.long().masked_fill(m, 1.5), _masked
    ),
    "masked_scatter": train(
        lambda x, m: (x.masked_scatter(m, x * 10), x.masked_scatter(m[0], torch.ones(99))), _masked
    ),
    "mask assigned": train(
        lambda x, m: (_assign_at(x, m, 2.0), _assign_at(x, m[:, 0], x[0])), _masked
    ),
    "mask assigned by a tensor": static(
        lambda x, m, v: _assign_at(x, m, v[: m.sum()]), lambda n: (*_masked(n), torch.randn(99))
    ),
    # writes
    "assigned rows": train(
        _assign_at, lambda n: (torch.randn(n, 3), tensor([2, 0]), torch.randn(2, 3))
    ),
    "assigned slices": every(
        _assign(slice(1, 3), slice(None, None, 2)), lambda n: (*matrix(n), tensor(7.0))
    ),
    "assigned ellipsis": train(_assign(..., -1), lambda n: (torch.randn(n, 3), torch.randn(n))),
    "assigned everywhere": static(_assign(...), lambda n: (torch.randn(n, 3), torch.arange(3))),
    "assigned by an int": static(_assign(0, slice(1, None)), lambda n: (torch.randn(n, 3), 5)),
    "assigned to int8": static(
        _assign(1), lambda n: (torch.zeros(n, 3, dtype=torch.int8), 300 - 200)
    ),
    "assigned floats to integers": static(
        _assign(slice(0, 2)),
        lambda n: (torch.zeros(n, 3, dtype=torch.int32), tensor([1.9, -1.9, 7.2])),
    ),
    "assigned nothing": static(_assign(slice(2, 2)), lambda n: (*matrix(n), 5.0)),
    "assigned a wrong shape error": static(
        _assign(0), lambda n: (torch.randn(n, 3), torch.randn(2))
    ),
    "assigned columns crossed": static(
        _assign(slice(None), [2, 0]), lambda n: (torch.randn(n, 3), torch.randn(n, 2))
    ),
    "columns swapped": train(lambda x: _assign(slice(None), [2, 0])(x, x[:, [0, 2]]), matrix),
    "index_put of pairs": train(
        lambda x, i, v: x.index_put((i, tensor([0, 1])), v),
        lambda n: (torch.randn(n, 3), tensor([3, 1]), torch.randn(2)),
    ),
    "index_put accumulates": every(
        lambda x, i, v: (
            x.index_put((i,), v, True),
            x.index_put((i,), tensor(1.0), accumulate=True),
        ),
        _put_rows,
    ),
    "index_put accumulates integers": static(
        lambda x, i, v: (x * 10).long().index_put((i,), (v * 10).long(), True), _put_rows
    ),
    "index_put with negative indices": train(
        lambda x, i, v: x.index_put((-1 - i,), v, accumulate=True), _put_rows
    ),
    "index_put with None": static(
        lambda x, i: aten.index_put(x, [None, i], tensor(5.0)),
        lambda n: (*matrix(n), tensor([0, 2])),
    ),
    "index_put out of range error": static(
        lambda x, i, v: x.index_put((i + 2,), v, True), _put_rows
    ),
    "index_add": every(
        lambda x, i, v: (x.index_add(0, i, v), x.index_add(0, i, v, alpha=-2)), _put_rows
    ),
    "index_add of integers": static(
        lambda x, i, v: (x * 9).int().index_add(0, i.int(), (v * 9).int(), alpha=3), _put_rows
    ),
    "index_copy and index_fill": train(
        lambda x, v: (x.index_copy(0, tensor([2, 0]), v), x.index_fill(1, tensor([0, -1]), 3.0)),
        lambda n: (torch.randn(n, 3), torch.randn(2, 3)),
    ),
    "index_reduce": static(
        lambda x, i, v: [x.index_reduce(0, i, v, r) for r in ("prod", "mean", "amax", "amin")],
        _put_rows,
    ),
    "scatter": train(
        lambda x, v: (x.scatter(1, tensor([[2, 0]] * 4), v), x.scatter(1, tensor([[1]] * 4), 9.0)),
        lambda n: (torch.randn(n, 3), torch.randn(n, 2)),
    ),
    "scatter of fewer rows": static(
        lambda x, v: x.scatter(0, tensor([[1, 0, 3]]), v),
        lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
    ),
    "scatter of 0-d": static(lambda x: x.scatter(0, tensor(0), 5.0), lambda n: (tensor(2.0),)),
    "scatter of nothing": static(
        lambda x: x.scatter(0, torch.empty(0, 3).long(), torch.empty(0, 3)), matrix
    ),
    "scatter out of range error": static(
        lambda x: x.scatter(1, torch.full((4, 1), 3), 1.0), matrix
    ),
    "scatter_add": every(lambda x, i, v: x.scatter_add(0, i, v), _writes),
    "scatter_add of float16": static(lambda x, i, v: x.half().scatter_add(0, i, v.half()), _writes),
    "scatter_add of integers": static(
        lambda x, i, v: (x * 9).long().scatter_add(0, i, (v * 9).long()), _writes
    ),
    "scatter with reduce": static(
        lambda x, i, v: (x.scatter(0, i, v, reduce="add"), x.scatter(0, i, v, reduce="multiply")),
        _writes,
    ),
    "scatter_reduce sum": every(_scatter_reduce("sum"), _writes),
    "scatter_reduce mean": train(_scatter_reduce("mean"), _writes),
    "scatter_reduce mean without self": static(_scatter_reduce("mean", False), _writes),
    "scatter_reduce prod": static(_scatter_reduce("prod"), _writes),
    "scatter_reduce amax": train(_scatter_reduce("amax"), _writes),
    "scatter_reduce amin without self": train(_scatter_reduce("amin", False), _writes),
    "scatter_reduce with nan": static(
        _scatter_reduce("amax"),
        lambda n: (torch.zeros(3), tensor([0, 0, 1]), tensor([1.0, float("nan"), -1.0])),
    ),
    "put": static(
        lambda x, i: (x.put(i, tensor([9.0, 8.0])), x.put(i, tensor([1.0, 2.0]), accumulate=True)),
        lambda n: (torch.randn(n, 3), tensor([0, -1])),
    ),
    "one_hot": dynamic(
        lambda i: (F.one_hot(i, 9), F.one_hot(i.reshape(-1, 1), 10)), lambda n: (torch.arange(n),)
    ),
    "one_hot without a number of classes": static(F.one_hot, lambda n: (tensor([[0, 3], [1, 1]]),)),
    "one_hot out of range error": static(lambda i: F.one_hot(i, 2), lambda n: (tensor([0, 5]),)),
    # embeddings
    "embedding": every(F.embedding, lambda n: (torch.randint(0, 9, (n, 2)), torch.randn(9, 3))),
    "embedding with padding": train(
        lambda i, w: F.embedding(i, w, padding_idx=-2),
        lambda n: (tensor([[7, 0], [7, 3]]), torch.randn(9, 3)),
    ),
    "embedding scaled by frequency": train(
        lambda i, w: F.embedding(i, w, scale_grad_by_freq=True),
        lambda n: (tensor([1, 1, 0, 2]), torch.randn(3, 2)),
    ),
    "embedding of int32 and 0-d": static(
        lambda i, w: (F.embedding(i.int(), w), F.embedding(i[0], w)),
        lambda n: (tensor([1, 0]), torch.randn(3, 2)),
    ),
    "embedding of no index": static(
        F.embedding, lambda n: (torch.empty(2, 0).long(), torch.randn(9, 3))
    ),
    "embedding with a negative index error": static(
        F.embedding, lambda n: (tensor([0, -1]), torch.randn(9, 3))
    ),
    "embedding out of range error": static(
        F.embedding, lambda n: (tensor([0, 9]), torch.randn(9, 3))
    ),
    "embedding_bag": train(
        lambda i, w, o: [F.embedding_bag(i, w, o, mode=m) for m in ("sum", "mean", "max")],
        lambda n: (tensor([1, 2, 4, 5, 4, 3]), torch.randn(9, 3), tensor([0, 2, 2])),
    ),
    "embedding_bag of a matrix": train(
        lambda i, w, s: (
            F.embedding_bag(i, w, per_sample_weights=s, mode="sum"),
            F.embedding_bag(i, w),
        ),
        lambda n: (torch.randint(0, 9, (n, 2)), torch.randn(9, 3), torch.randn(n, 2)),
    ),
    # searches
    "bucketize": dynamic(
        lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True, out_int32=True)),
        lambda n: (
            torch.cat([torch.randn(n), tensor([-1.0, 0.0, float("nan")])]),
            tensor([-1.0, 0.0, 1.0]),
        ),
    ),
    "bucketize of integers and of a number": static(
        lambda x, b: (torch.bucketize(x, b), torch.bucketize(3, b), torch.bucketize(x, b[:0])),
        lambda n: (torch.arange(-2, 9), tensor([0, 2, 2, 5])),
    ),
    "searchsorted": dynamic(
        lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, side="right")),
        lambda n: (torch.randn(n, 5).sort(1).values, torch.randn(n, 2)),
    ),
    "searchsorted with a sorter": static(
        lambda s, x: torch.searchsorted(s, x, sorter=s.argsort()),
        lambda n: (torch.randn(9), torch.randn(n)),
    ),
    "isin": static(
        lambda x, t: (torch.isin(x, t), torch.isin(x, 2), torch.isin(x, t, invert=True)),
        lambda n: (torch.arange(6).reshape(2, 3), tensor([1, 4, 9])),
    ),
    "tril and triu": every(
        lambda x: (x.tril(), x.triu(1), x.tril(-1), x.triu(-5), x.tril(9)),
        lambda n: (torch.randn(2, n, 3),),
    ),
    "tril_indices": static(
        lambda x: (x[tuple(torch.tril_indices(4, 3, -1))], torch.triu_indices(3, 3, 1)), matrix
    ),
    "meshgrid": dynamic(
        lambda x: (
            torch.meshgrid(x, torch.arange(3.0), indexing="ij")
            + torch.meshgrid(x, x, indexing="xy")
        ),
        lambda n: (torch.randn(n),),
    ),
    "combinations and cartesian_prod": static(
        lambda x: (torch.combinations(x), torch.cartesian_prod(x, x[:2])),
        lambda n: (torch.randn(n),),
    ),
}
