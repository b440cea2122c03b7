"""Writes of a compiled function reach the same memory as in eager."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.backend.relations import compare, randn

F = torch.nn.functional


# -- writes into arguments ----------------------------------------------------------------------


def write_and_read(x):
    x.mul_(2)
    return x.sum()


def write_two(x, y):
    x.mul_(2)
    y.add_(x)
    return x + y


def write_column(x):
    x[:, 0].mul_(2)
    return x + 1


def write_transposed(x):
    x.t().add_(1)
    return x * 2


def fill_diagonal(x):
    x.diagonal().fill_(0)
    return x.sum()


def write_strided(x):
    x.as_strided((2, 2), (1, 3)).add_(1)
    return x + 1


def write_nested_view(x):
    x[1:].t()[0].sub_(1)
    return x.sum()


def write_halves(x):
    a, b = x.chunk(2)
    a.add_(1)
    b.mul_(2)
    return a, b


def write_rows(x):
    for i, row in enumerate(x.unbind(0)):
        row.add_(i)
    return x


def return_written_view(x):
    y = x[:, 0]
    y.mul_(2)
    return y


def return_view_and_base(x):
    y = x.t()
    y.mul_(2)
    return y, x


def write_twice(x):
    x.add_(1)
    y = x.clone()
    x.mul_(y)
    return x, y


def swap(x, y):
    original = x.clone()
    x.copy_(y)
    y.copy_(original)


def copy_from_itself(x):
    x.copy_(x.t().clone())
    return x


def write_in_dict(d):
    d["a"].add_(1)
    d["b"] = d["a"] * 2
    return d["b"]


def return_views_of_written(x):
    x.add_(1)
    return x.t(), x[1:], x


def fill(x):
    x.zero_()
    return x + 1


def copy_to(x, y):
    x.copy_(y)
    return x.sum()


WRITES = {
    "returned": (lambda x: x.add_(1), lambda: (randn(3, 4),)),
    "nothing_returned": (lambda x: [x.add_(1), None][1], lambda: (randn(3, 4),)),
    "read": (write_and_read, lambda: (randn(3, 4),)),
    "two": (write_two, lambda: (randn(3, 4), randn(3, 4))),
    "column": (write_column, lambda: (randn(3, 4),)),
    "transposed": (write_transposed, lambda: (randn(3, 4),)),
    "diagonal": (fill_diagonal, lambda: (randn(4, 4),)),
    "as_strided": (write_strided, lambda: (randn(3, 4),)),
    "nested_views": (write_nested_view, lambda: (randn(3, 4),)),
    "chunks": (write_halves, lambda: (randn(4, 2),)),
    "unbind": (write_rows, lambda: (randn(4, 2),)),
    "view_returned": (return_written_view, lambda: (randn(3, 4),)),
    "view_and_base": (return_view_and_base, lambda: (randn(3, 4),)),
    "views_of_written": (return_views_of_written, lambda: (randn(3, 4),)),
    "twice": (write_twice, lambda: (randn(4, 4),)),
    "swapped": (swap, lambda: (randn(3, 4), randn(3, 4))),
    "from_itself": (copy_from_itself, lambda: (randn(4, 4),)),
    "dict": (write_in_dict, lambda: ({"a": randn(3)},)),
    "expanded": (lambda x, y: x.add_(y.expand(3, 4)), lambda: (randn(3, 4), randn(4))),
    "filled": (fill, lambda: (randn(3),)),
    "zero_dim": (lambda x: x.add_(1), lambda: (torch.tensor(2.0),)),
    "no_rows": (write_and_read, lambda: (randn(0, 4),)),
    "no_columns": (write_transposed, lambda: (randn(3, 0),)),
    "empty_slice": (lambda x: [x[:, 0:0].mul_(2), x * 2][1], lambda: (randn(3, 4),)),
    "t": (write_transposed, lambda: (randn(4, 6).t(),)),
    "every_second": (write_transposed, lambda: (randn(4, 6)[:, ::2],)),
    "offset": (write_transposed, lambda: (randn(2, 4, 6)[1],)),
    "channels_last": (
        lambda x: x.add_(1) * 2,
        lambda: (randn(2, 3, 4, 5).to(memory_format=torch.channels_last),),
    ),
    "to_int": (copy_to, lambda: (torch.zeros(3, dtype=torch.int64), torch.tensor([1.7, -2.3, 4]))),
    "to_half": (lambda x, y: x.copy_(y), lambda: (torch.zeros(9, dtype=torch.half), randn(9))),
    "from_int": (copy_to, lambda: (torch.zeros(2, 3), torch.arange(3))),
    "to_bool": (lambda x, y: x.copy_(y), lambda: (torch.zeros(4) > 0, torch.arange(4))),
    "bool": (
        lambda x, y: [x.logical_and_(y), ~x][1],
        lambda: (torch.rand(5) > 0.3, torch.rand(5) > 0.5),
    ),
    "bfloat16": (lambda x, y: x.add_(y), lambda: (randn(5).bfloat16(), randn(5).bfloat16())),
    "complex": (
        lambda x, y: [x.mul_(y), x + y][1],
        lambda: (randn(5, dtype=torch.complex64), randn(5, dtype=torch.complex64)),
    ),
    "out": (
        lambda x, out: torch.add(x, 1, out=out) * 2,
        lambda: (randn(3, 4), torch.zeros(3, 4)),
    ),
    "out_matmul": (
        lambda x, y, out: torch.mm(x, y, out=out),
        lambda: (randn(3, 4), randn(4, 5), torch.zeros(3, 5)),
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_arguments(name):
    compare(*WRITES[name])


@pytest.mark.parametrize("name", ["column", "transposed", "view_and_base", "chunks", "offset"])
def test_writes_under_dynamic_shapes(name):
    compare(*WRITES[name], dynamic=True)


def test_writes_in_inference_mode():
    with torch.inference_mode():
        compare(write_column, lambda: (randn(3, 4),))
        torch._dynamo.reset()
        compare(return_views_of_written, lambda: (randn(3, 4),))


# -- caches, counters, scatters -----------------------------------------------------------------


def make_writer(write):
    def write_and_double(cache, index, values):
        write(cache, index, values)
        return cache * 2

    return write_and_double


INDEXED = {
    "index_copy": (
        make_writer(lambda c, i, v: c.index_copy_(1, i, v)),
        lambda: (randn(2, 8, 4), torch.tensor([3, 5]), randn(2, 2, 4)),
    ),
    "slice": (
        make_writer(lambda c, i, v: c[:, 2:4].copy_(v)),
        lambda: (randn(2, 8, 4), torch.tensor(0), randn(2, 2, 4)),
    ),
    "setitem": (
        make_writer(lambda c, i, v: c.__setitem__(i, v)),
        lambda: (randn(8, 4), torch.tensor([3, 5]), randn(2, 4)),
    ),
    "mask": (
        make_writer(lambda c, i, v: c.__setitem__(i > 0, 0.0)),
        lambda: (randn(8, 4), randn(8, 4), randn(1)),
    ),
    "masked_fill": (
        make_writer(lambda c, i, v: c.masked_fill_(i > 0, 1.0)),
        lambda: (randn(8, 4), randn(8, 4), randn(1)),
    ),
    "accumulate": (
        make_writer(lambda c, i, v: c.index_put_((i,), v, accumulate=True)),
        lambda: (randn(8, 4), torch.tensor([3, 3]), randn(2, 4)),
    ),
    "scatter": (
        make_writer(lambda c, i, v: c.scatter_(1, i, v)),
        lambda: (randn(2, 8), torch.tensor([[3, 5], [1, 2]]), randn(2, 2)),
    ),
    "scatter_add": (
        make_writer(lambda c, i, v: c.scatter_add_(1, i, v)),
        lambda: (randn(2, 8), torch.tensor([[3, 3], [1, 2]]), randn(2, 2)),
    ),
    "index_add": (
        make_writer(lambda c, i, v: c.index_add_(0, i, v)),
        lambda: (randn(8, 4), torch.tensor([3, 3]), randn(2, 4)),
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indexed_writes(name):
    compare(*INDEXED[name])


class Attention(torch.nn.Module):
    """An attention head that stores its keys in a buffer at a position that it counts."""

    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(1, 8, 4))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.keys.index_copy_(1, self.position[None], self.proj(x))
        self.position.add_(1)
        is_visible = torch.arange(8) < self.position
        scores = (x @ self.keys.transpose(1, 2)).masked_fill(~is_visible, float("-inf"))
        return torch.softmax(scores, -1) @ self.keys


def test_cache_in_buffers():
    model = Attention()
    eager = copy.deepcopy(model)
    keys = model.keys
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(model, backend="ortable", fullgraph=True, options=options)
    with torch.no_grad():
        for step in range(5):
            x = randn(1, 1, 4)
            torch.testing.assert_close(compiled(x), eager(x))
            torch.testing.assert_close(model.keys, eager.keys)
            assert int(model.position) == step + 1
    assert model.keys is keys
    assert len(storage["instance"]) == 1


# -- changes of memory --------------------------------------------------------------------------


def resize(x):
    x.resize_(6)
    return x * 2


def resize_result(x):
    y = x * 2
    y.resize_(2, 3)
    return y + 1


def replace_memory(x, y):
    x.set_(y)
    return x * 2


def resize_out(x, out):
    return torch.add(x, 1, out=out) * 2


def transpose_in_place(x):
    x.t_()
    return x * 2


MEMORY = {
    "resize": (resize, lambda: (randn(3, 4),)),
    "resize_own": (resize_result, lambda: (randn(3, 4),)),
    "set": (replace_memory, lambda: (randn(3, 4), randn(2, 2))),
    "out_resize": (resize_out, lambda: (randn(3, 4), torch.empty(0))),
    "transpose": (transpose_in_place, lambda: (randn(3, 4),)),
    "unsqueeze": (lambda x: x.unsqueeze_(0) * 2, lambda: (randn(3, 4),)),
}


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_changes_of_memory(name):
    compare(*MEMORY[name], fullgraph=False)


def test_what_torch_cannot_functionalise_is_an_error():
    """AOTAutograd rejects these writes with an error that names them, and nothing runs."""

    def replace_data(x, y):
        x.data = y
        return x * 2

    def write_first_view(a, b):
        a.fill_(1.0)
        return b + 1

    base = randn(4)
    for fn, args, reason in [
        (replace_data, (randn(3), randn(3)), r"(set|data)_ on a graph input"),
        (write_first_view, (base, base.view(torch.int32)), "views with different dtypes"),
    ]:
        with pytest.raises(Exception, match=reason):
            torch.compile(fn, backend="ortable", options={"fallback": "error"})(*args)
