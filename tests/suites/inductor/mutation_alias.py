"""Writes in place to inputs, views and buffers; results that share memory with inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, every, matrix, static, train, two_matrices

aten = torch.ops.aten


def _same(n):
    x = torch.randn(n, 3)
    return x, x


def _base_and_view(n):
    x = torch.randn(n, 3)
    return x, x[1:]


def _overlapping(n):
    memory = torch.randn(n, 4)
    return memory[:, :3], memory[:, 1:]


def _disjoint(n):
    memory = torch.randn(2 * n, 3)
    return memory[:n], memory[n:]


def _do(*steps, result=None):
    """Return a function that does steps on its arguments; its result is one of the arguments."""

    def run(*args):
        for step in steps:
            step(*args)
        return None if result is None else args[result]

    return run


def _on_copy(*steps):
    """Return a function that does steps on a copy of its first argument, which it returns."""

    def run(x, *rest):
        y = x * 1
        for step in steps:
            step(y, *rest)
        return y

    return run


def _set_item(key, value):
    def step(x, *rest):
        x[key] = value

    return step


def _set_data(x, y):
    x.data = y + 1
    return x * 2


def _write_data(x, y):
    x.data.add_(y)
    return x * 2


def _row_by_row(x):
    for row in x:
        row.mul_(2).add_(x[0])
    return x.sum()


def _fill_lower(x):
    y = torch.empty_like(x)
    y[:2], y[2:] = x[:2] * 2, -x[2:]
    return y


def _swap(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def _out(name, *args, dtype=torch.float32, shape=(4, 3), **kwargs):
    function = getattr(torch, name)

    def run(x, *rest):
        out = torch.empty(shape, dtype=dtype)
        result = function(x, *rest, *args, out=out, **kwargs)
        return out, result, out is result

    return run


def _out_input(x, y):
    torch.add(x, 1, out=y)
    return y * 2


class _Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("steps", tensor(0))
        self.register_buffer("cache", torch.zeros(6, 3))

    def forward(self, x):
        self.total.add_(x.sum(0))
        self.steps += 1
        self.cache[1:3] = x[:2]
        self.cache = self.cache * 2
        return self.total * self.steps, self.cache[0]


class _Returned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("buffer", torch.randn(3))

    def forward(self, x):
        return self.weight, self.weight.t(), self.buffer, self.buffer[1:], x


class _Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(3)

    def forward(self, x):
        before, self.last = self.last, x[0]
        return before + x


PROGRAMS = {
    # results that are inputs or views of them
    "input returned": every(lambda x: x, matrix),
    "input returned twice": static(lambda x: (x, x, [x]), matrix),
    "input and its copy": static(lambda x: (x, x.clone(), x + 0, x * 1), matrix),
    "inputs returned in another order": static(lambda x, y: (y, x, x + y), two_matrices),
    "no-ops return the input": static(
        lambda x: (
            x.contiguous(),
            x.to(torch.float32),
            x.float(),
            x.cpu(),
            x.type_as(x),
            x.expand_as(x),
        ),
        matrix,
    ),
    "no-op views": static(
        lambda x: (x.view(x.shape), x[:], x[...], x.reshape(x.shape), x.squeeze()), matrix
    ),
    "detach shares memory": train(lambda x: (x.detach(), x.detach() * 2, x.data), matrix),
    "alias of an input": static(lambda x: (aten.alias(x), x.view_as(x)), matrix),
    "views of an input": every(
        lambda x: (x[1:], x.t(), x[:, ::2], x.view(-1), x.diagonal()), matrix
    ),
    "views of a view": every(lambda x: (x[1:], x[1:][:, 1:], x.t()[1:].t()), matrix),
    "views of an intermediate": every(lambda x: (y := x * 2, y[1:], y.t(), y.view(-1)), matrix),
    "only views of an intermediate": train(lambda x: ((y := x * 2)[0], y[1]), matrix),
    "chunks of an intermediate": train(lambda x: (x + 1).chunk(2), matrix),
    "expanded result": static(lambda x: (x[:1].expand(5, 3), (x[:1] * 2).expand(5, 3)), matrix),
    "result is the same tensor twice": static(lambda x: ((y := x + 1), y, y), matrix),
    "constant results": static(
        lambda x: (torch.ones(2), torch.zeros(()), None, 3, "text", x.shape), matrix
    ),
    "strided result of a strided input": static(
        lambda x: (x, x[1:], x + 1), lambda n: (torch.randn(3, n).t(),)
    ),
    "views of the real part": static(
        lambda x: (x.real, x.imag, torch.view_as_real(x)),
        lambda n: (torch.randn(n, dtype=torch.complex64),),
    ),
    "view of a float input as bits": static(
        lambda x: (x.view(torch.int32), x.view(torch.uint8)), matrix
    ),
    # writes to inputs
    "add_": every(lambda x: x.detach().add_(1), matrix),
    "input written and returned": static(_do(lambda x: x.mul_(2).add_(1), result=0), matrix),
    "input written without a result": dynamic(_do(lambda x: x.zero_()), matrix),
    "many functions in place": static(
        _do(
            lambda x: (
                x.exp_()
                .clamp_(0.1, 5)
                .log_()
                .sin_()
                .abs_()
                .sqrt_()
                .neg_()
                .sigmoid_()
                .pow_(2)
                .round_(decimals=2)
            ),
            lambda x: (
                x.fmod_(0.3).trunc_().floor_().tanh_().relu_().reciprocal_().nan_to_num_(1, 2, 3)
            ),
        ),
        matrix,
    ),
    "activations in place": static(
        _do(
            lambda x: F.relu(x, inplace=True),
            lambda x: F.leaky_relu_(x),
            lambda x: F.elu_(x),
            lambda x: F.silu(x, inplace=True),
            lambda x: F.hardtanh_(x),
            lambda x: F.threshold_(x, 0.1, 0.2),
            lambda x: F.dropout(x, 0.0, inplace=True),
        ),
        matrix,
    ),
    "written after it was read": static(lambda x: (y := x * 2, x.add_(1), y + x)[::2], matrix),
    "read before and after": static(lambda x: (x.sum(), x.add_(1).sum(), x.mul_(2).sum()), matrix),
    "copied before the write": static(
        lambda x: (x.clone(), torch.cat([x]), x.t().contiguous(), x.sin_())[:3], matrix
    ),
    "view taken before the write": static(lambda x: (v := x[0], x.add_(1), v * 2)[::2], matrix),
    "written through a view": dynamic(
        _do(
            lambda x: x[1:].mul_(2),
            lambda x: x.t()[0].add_(5),
            lambda x: x.view(-1)[::2].zero_(),
            result=0,
        ),
        matrix,
    ),
    "written through a diagonal": static(
        _do(lambda x: x.diagonal().fill_(9), lambda x: x.select(1, -1).neg_()), matrix
    ),
    "written through unbind and chunk": static(
        _do(lambda x: x.unbind(1)[0].add_(1), lambda x: x.chunk(2)[1].mul_(3)), matrix
    ),
    "written through bits": static(
        _do(lambda x: x.view(torch.int32).bitwise_and_(0x7FFFFFFF)), matrix
    ),
    "written through the real part": static(
        _do(lambda x: x.real.add_(1), lambda x: torch.view_as_real(x)[..., 1].zero_()),
        lambda n: (torch.randn(n, dtype=torch.complex64),),
    ),
    "written through as_strided": static(
        _do(lambda x: x.as_strided((2, 2), (3, 1), 1).fill_(7)), matrix
    ),
    "written row by row": static(_row_by_row, matrix),
    "assigned slices": dynamic(
        _do(_set_item(slice(1, 3), 5.0), _set_item((0, slice(None, None, 2)), -1.0), result=0),
        matrix,
    ),
    "assigned at indices": static(
        _do(_set_item(([0, 2], 1), 5.0), _set_item(tensor([1, 3]), tensor([1.0, 2.0, 3.0]))), matrix
    ),
    "assigned by a mask": static(
        _do(lambda x: _set_item(x > 0, 0.0)(x), lambda x: x.masked_fill_(x < -1, -1)), matrix
    ),
    "assigned a row to a column": static(
        _do(lambda x: x[:, 0].copy_(x[0, 1]), lambda x: x[:3].copy_(x[:3].t().clone())), matrix
    ),
    "assigned overlapping slices of itself": static(
        _do(lambda x: x[1:].copy_(x[:-1].clone())), matrix
    ),
    "copy_ of another dtype": static(
        _do(lambda x, y: x.copy_(y), result=0),
        lambda n: (torch.zeros(n, 3, dtype=torch.int32), torch.randn(n, 3) * 9),
    ),
    "copy_ that broadcasts": static(
        _do(lambda x, y: x.copy_(y[0]), lambda x, y: x[:, :1].copy_(y[:, 2:]), result=0),
        two_matrices,
    ),
    "copy_ of a wrong shape error": static(_do(lambda x, y: x.copy_(y[:2])), two_matrices),
    "in place with promotion error": static(
        _do(lambda x: x.add_(1.5)), lambda n: (torch.arange(n),)
    ),
    "in place with a cast": static(_do(lambda x, y: x.add_(y.double()).mul_(y > 0)), two_matrices),
    "in place that would broadcast itself error": static(_do(lambda x: x[:1].add_(x)), matrix),
    "in place on an expanded input error": static(
        _do(lambda x: x.add_(1)), lambda n: (torch.randn(1, 3).expand(n, 3),)
    ),
    "in place on a leaf error": static(
        _do(lambda x: x.add_(1)), lambda n: (torch.randn(n, requires_grad=True),)
    ),
    "leaf written without gradients": train(lambda x: _no_grad_add(x), matrix),
    "comparison in place": static(
        _do(lambda x, y: x.gt_(y), lambda x, y: x.logical_not_(), result=0), two_matrices
    ),
    "integers in place": static(
        _do(
            lambda x: x.bitwise_or_(1).mul_(3).floor_divide_(2).remainder_(5),
            lambda x: x.__ilshift__(1),
        ),
        lambda n: (torch.arange(n),),
    ),
    "scatters in place": static(
        _do(
            lambda x: x.scatter_(1, tensor([[0], [2]]), 5.0),
            lambda x: x.scatter_add_(0, tensor([[1, 1, 0]]), torch.ones(1, 3)),
            lambda x: x.index_add_(0, tensor([3, 3]), torch.ones(2, 3)),
            lambda x: x.index_fill_(1, tensor([1]), 7),
            lambda x: x.index_copy_(0, tensor([2]), torch.zeros(1, 3)),
            lambda x: x.put_(tensor([-1]), tensor([8.0])),
            lambda x: x.index_put_((tensor([0, 0]),), torch.ones(3), accumulate=True),
        ),
        matrix,
    ),
    "scans and triangles in place": static(
        _do(lambda x: x.cumsum_(0), lambda x: x.tril_(1), lambda x: x.cumprod_(1)), matrix
    ),
    "fill_diagonal_ and masked_scatter_": static(
        _do(lambda x: x.fill_diagonal_(0), lambda x: x.masked_scatter_(x > 1, torch.arange(12.0))),
        matrix,
    ),
    "addcmul_ lerp_ addmm_ baddbmm_": static(
        _do(
            lambda x, y: x.addcmul_(y, y, value=2),
            lambda x, y: x.lerp_(y, 0.3),
            lambda x, y: x.addmm_(y, y[:3]),
            lambda x, y: x.addcdiv_(y, y.abs() + 1),
        ),
        two_matrices,
    ),
    "swapped inputs": static(_swap, two_matrices),
    "two inputs written": static(
        _do(lambda x, y: x.add_(y), lambda x, y: y.mul_(x), result=1), two_matrices
    ),
    "views made in place": static(
        lambda x: (
            x.mul(2).t_(),
            x.clone().unsqueeze_(0),
            x.clone().squeeze_(),
            x.clone().transpose_(0, 1),
        ),
        matrix,
    ),
    "input transposed in place": static(_do(lambda x: x.t_(), result=0), matrix),
    "input unsqueezed in place": static(
        _do(lambda x: x.unsqueeze_(1), lambda x: x.mul_(2)), matrix
    ),
    # inputs that share memory
    "one tensor twice": static(
        _do(lambda x, y: x.add_(1), lambda x, y: y.mul_(2), result=1), _same
    ),
    "one tensor twice, read": static(lambda x, y: (x.add_(1), x + y)[1], _same),
    "base and view": static(_do(lambda x, y: x.add_(1), lambda x, y: y.mul_(2)), _base_and_view),
    "view written, base returned": static(
        lambda x, y: (y.fill_(3), x * 2, x.sum())[1:], _base_and_view
    ),
    "overlapping inputs": static(lambda x, y: (x.add_(1), y.mul_(2), x + y)[2], _overlapping),
    "disjoint inputs of one memory": static(
        _do(lambda x, y: x.add_(y), lambda x, y: y.add_(x), result=0), _disjoint
    ),
    "three views written in turn": static(
        _do(lambda x, y, z: x.add_(1), lambda x, y, z: y.mul_(2), lambda x, y, z: z.sub_(x.sum())),
        lambda n: ((m := torch.randn(n, 3)), m.t(), m.view(-1)),
    ),
    "results share memory with written inputs": static(
        lambda x: (x.add_(1)[1:], x.t(), x.view(-1)[2]), matrix
    ),
    "written inputs with strides": static(
        _do(lambda x, y: x.mul_(2), lambda x, y: y[1:].add_(1), result=0),
        lambda n: (torch.randn(3, n).t(), torch.randn(2 * n, 6)[::2, ::2]),
    ),
    "written channels_last input": static(
        _do(lambda x: x.add_(1), lambda x: x[:, 1].zero_(), result=0),
        lambda n: (torch.randn(2, 3, n, 2).to(memory_format=torch.channels_last),),
    ),
    "written input with an offset": static(
        _do(lambda x: x.sigmoid_(), result=0), lambda n: (torch.randn(n + 5)[3:],)
    ),
    "written input of 0 elements": static(
        _do(lambda x: x.add_(1), lambda x: x.fill_(3), result=0), lambda n: (torch.randn(0, 3),)
    ),
    "written 0-d inputs": static(
        _do(lambda x, y: x.add_(y), lambda x, y: y.fill_(x), result=0),
        lambda n: (tensor(1), tensor(2)),
    ),
    "written booleans and int8": static(
        _do(
            lambda x, y: x.logical_not_(), lambda x, y: y.add_(100), lambda x, y: x[1:].fill_(True)
        ),
        lambda n: (tensor([True, False, False]), tensor([100, -100, 0], dtype=torch.int8)),
    ),
    "written bfloat16": static(
        _do(lambda x: x.mul_(1.5), result=0), lambda n: (torch.randn(n).bfloat16(),)
    ),
    # copies
    "writes to a copy": every(
        _on_copy(lambda y: y.mul_(2), lambda y: y[1:].add_(1), lambda y: y.t()[0].neg_()), matrix
    ),
    "writes to an empty tensor": every(_fill_lower, matrix),
    "assigned to zeros": train(
        lambda x: _on_copy(_set_item((slice(None), 0), 1.0), lambda y: y[0].copy_(x[1]))(
            torch.zeros(4, 3)
        ),
        matrix,
    ),
    "masked writes to a copy": train(
        _on_copy(lambda y: y.masked_fill_(y > 0, 0.5), lambda y: y[y < -1].mul_(2)), matrix
    ),
    "rows swapped in a copy": train(_on_copy(lambda y: _set_item([0, 1], y[[1, 0]])(y)), matrix),
    "copy of an expanded tensor written": train(
        lambda x: x[:1].expand(4, 3).clone().add_(x).relu_(), matrix
    ),
    "base of a written view": train(lambda x: ((y := x.sin())[0].mul_(2), y, y.sum())[1:], matrix),
    "list of views written": static(
        _on_copy(lambda y: [v.add_(i) for i, v in enumerate(y.unbind())]), matrix
    ),
    "overwritten by itself": static(lambda x: x.copy_(x * 2).copy_(x.flip(0)), matrix),
    "gradient through copy_": train(
        lambda x, y: torch.zeros(4, 3).copy_(x) * y + torch.empty(4, 3).copy_(y[0]), two_matrices
    ),
    # out=
    "out of add and mm": static(
        lambda x, y: (_out("add")(x, y), _out("mm", shape=(4, 4))(x, y.t())), two_matrices
    ),
    "out of cat and stack": static(
        lambda x, y: torch.cat([x, y], out=torch.empty(8, 3)), two_matrices
    ),
    "out of sort": static(
        lambda x: torch.sort(x, out=(torch.empty(4, 3), torch.empty(4, 3, dtype=torch.int64))),
        matrix,
    ),
    "out of another dtype": static(
        lambda x, y: _out("add", dtype=torch.float64)(x, y), two_matrices
    ),
    "out of a lesser dtype error": static(
        lambda x, y: _out("add", dtype=torch.int32)(x, y), two_matrices
    ),
    "out is an input": static(_out_input, two_matrices),
    "out is a view of an input": static(lambda x, y: (torch.sin(y, out=x[:]), x)[1], two_matrices),
    # data, set_, resize_
    "data assigned": static(_set_data, two_matrices),
    "data written": train(
        _write_data, lambda n: (torch.randn(n, 3, requires_grad=True), torch.randn(n, 3))
    ),
    "set_": static(_do(lambda x, y: x.set_(y), result=0), two_matrices),
    "set_ and write": static(lambda x, y: (x.set_(y), x.add_(1), y * 2)[2], two_matrices),
    "resize_ and resize_as_": static(
        lambda x: (x.clone().resize_(2, 3), x.clone().resize_as_(x[:1])), matrix
    ),
    "resize_ of an input": static(_do(lambda x: x.resize_(2, 2), result=0), matrix),
    "requires_grad_ of an intermediate": static(lambda x: (x + 1).requires_grad_(), matrix),
    "swap by data": static(lambda x, y: (setattr(x, "data", y.data), x + y)[1], two_matrices),
    # modules
    "buffers": dynamic(lambda m, x: m(x), lambda n: (_Buffers(), torch.randn(n, 3))),
    "buffers in several calls": static(
        lambda m, x: (m(x), m(x + 1)), lambda n: (_Buffers(), torch.randn(n, 3))
    ),
    "parameters and buffers returned": static(
        lambda m, x: m(x), lambda n: (_Returned(), torch.randn(n, 3))
    ),
    "attribute replaced": static(
        lambda m, x: (m(x), m(x * 2)), lambda n: (_Replaced(), torch.randn(n, 3))
    ),
    "parameter written without gradients": static(
        lambda m, x: (_no_grad_add(m.weight), m(x))[1],
        lambda n: (nn.Linear(3, 2), torch.randn(n, 3)),
    ),
    "step of descent": static(
        lambda m, x: [
            _descend(p, g)
            for p, g in zip(
                m.parameters(), torch.autograd.grad(m(x).sum(), list(m.parameters())), strict=True
            )
        ],
        lambda n: (nn.Linear(3, 2), torch.randn(n, 3)),
    ),
    "list of an argument filled": static(
        lambda x, found: (found.append(x * 2), found.insert(0, x), len(found))[2],
        lambda n: (torch.randn(n), []),
    ),
    "dict of an argument filled": static(
        lambda x, d: (d.update(y=x + d["x"]), d.pop("x"))[1],
        lambda n: (torch.randn(n), {"x": torch.ones(n)}),
    ),
}


def _no_grad_add(x):
    with torch.no_grad():
        x.add_(1).mul_(x)
    return x * 2


def _descend(parameter, gradient):
    with torch.no_grad():
        parameter.sub_(gradient, alpha=0.1)
    return parameter.detach().sum()
