"""Views and rearrangements of tensors: shapes, strides, joins, splits, padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import tensor

from . import cube, dynamic, every, matrix, static, train, two_matrices

aten = torch.ops.aten


def _image(n):
    return (torch.randn(2, 3, n, 4),)


def _transposed(n):
    return (torch.randn(3, n).t(),)


PROGRAMS = {
    "views": every(lambda x: (x.view(-1), x.view(3, -1), x.view(-1, 2, 6), x.reshape(-1, 1)), cube),
    "view of a transposed input error": static(lambda x: x.view(-1), _transposed),
    "reshape of a transposed input": every(
        lambda x: (x.reshape(-1), x.reshape(3, -1), x.flatten()), _transposed
    ),
    "view with a wrong size error": static(lambda x: x.view(5, -1), matrix),
    "view as another dtype": static(
        lambda x: (
            x.view(torch.int32),
            x.view(torch.uint8),
            x.view(torch.float16),
            x.int().view(torch.float32),
        ),
        cube,
    ),
    "view of bits": static(
        lambda x: (
            x.view(torch.int32) >> 23,
            (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
        ),
        matrix,
    ),
    "view as a longer dtype": static(
        lambda x: (x.view(torch.int64), x.view(torch.float64)), lambda n: (torch.randn(n, 4),)
    ),
    "view_as and reshape_as": train(
        lambda x, y: (x.view_as(y), x.reshape_as(y) * y, x.expand_as(x)),
        lambda n: (
            torch.randn(n, 4),
            torch.randn(4, n),
        ),
    ),
    "flatten": every(
        lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1), x.flatten(-2), x.ravel()), cube
    ),
    "flatten of 0-d": train(
        lambda x: (x.flatten(), x.reshape(1, 1), x.view(1), x.ravel(), x.expand(2, 2)),
        lambda n: (tensor(3.0),),
    ),
    "unflatten": every(lambda x: (x.unflatten(-1, (2, 2)), x.unflatten(1, (3, 1, -1))), cube),
    "squeeze": every(
        lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(-1), x.squeeze((0, 2)), x.squeeze(1)),
        lambda n: (torch.randn(1, n, 1, 3),),
    ),
    "unsqueeze": every(
        lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(-3), x[:, None, :, None]), matrix
    ),
    "unsqueeze out of range error": static(lambda x: x.unsqueeze(3), matrix),
    "permute": every(
        lambda x: (
            x.permute(2, 0, 1),
            x.permute(-1, -2, -3),
            x.permute((0, 2, 1)).permute(2, 1, 0),
        ),
        cube,
    ),
    "permute with one axis twice error": static(lambda x: x.permute(0, 0, 1), cube),
    "transpose": every(
        lambda x: (x.transpose(0, 2), x.mT, x.swapaxes(-1, 0), x.transpose(1, 1)), cube
    ),
    "T of few dimensions": static(
        lambda x, y, z: (x.t(), y.t(), z.t(), z.T),
        lambda n: (
            tensor(1.0),
            torch.randn(n),
            torch.randn(n, 2),
        ),
    ),
    "movedim": every(
        lambda x: (x.movedim(0, -1), x.movedim((0, 1), (2, 0)), torch.moveaxis(x, 2, 0)), cube
    ),
    "expand": every(
        lambda x: (
            x.expand(2, -1, 3),
            x[:, :1].expand(-1, 5),
            x[None].expand(2, 3, *x.shape),
            x.broadcast_to(1, *x.shape),
        ),
        lambda n: (torch.randn(n, 1),),
    ),
    "expand to 0": static(
        lambda x: (x.expand(0, 3), x.expand(0, -1) + 1), lambda n: (torch.randn(1, 3),)
    ),
    "expand error": static(lambda x: x.expand(2, 4, 3), lambda n: (torch.randn(3, 3),)),
    "broadcast_tensors": train(
        lambda x, y: torch.broadcast_tensors(x, y), lambda n: (torch.randn(n, 1), torch.randn(3))
    ),
    "repeat": every(
        lambda x: (x.repeat(2, 1), x.repeat(2, 3, 1), x.tile(2), x.tile((1, 2, 2)), x.repeat(0, 1)),
        matrix,
    ),
    "repeat_interleave": every(
        lambda x: (
            x.repeat_interleave(2),
            x.repeat_interleave(3, 0),
            x.repeat_interleave(2, dim=-1),
        ),
        matrix,
    ),
    "repeat_interleave by a tensor": static(
        lambda x: (
            x.repeat_interleave(tensor([1, 0, 2]), 1),
            torch.repeat_interleave(tensor([2, 1])),
        ),
        matrix,
        "capture_dynamic_output_shape_ops",
    ),
    "flip": every(lambda x: (x.flip(0), x.flip(0, 2), x.flip(-1), x.fliplr(), x.flipud()), cube),
    "flip of nothing and of 0-d": static(
        lambda x, y: (x.flip(0), y.flip(()), y.flip(0)), lambda n: (torch.randn(0, 3), tensor(1.0))
    ),
    "roll": every(
        lambda x: (x.roll(1), x.roll(-1, 0), x.roll((1, 2), (0, -1)), x.roll(100, 1), x.roll(0)),
        cube,
    ),
    "rot90": every(
        lambda x: (x.rot90(), x.rot90(2), x.rot90(-1, (1, 2)), x.rot90(5, (0, 2))), cube
    ),
    "unfold": every(lambda x: (x.unfold(1, 2, 1), x.unfold(-1, 3, 1), x.unfold(0, 2, 2)), cube),
    "unfold past the end error": static(lambda x: x.unfold(1, 5, 1), matrix),
    "as_strided": train(
        lambda x: (
            x.as_strided((2, 2), (1, 2)),
            x.as_strided((3,), (1,), 2),
            x.as_strided((3, 2), (0, 1)),
            x.as_strided((2, 3), (1, 1)),
        ),
        matrix,
    ),
    "as_strided of a view": static(lambda x: x[1:].as_strided((2, 2), (3, 1)), matrix),
    "as_strided of an input with an offset": static(
        lambda x: x.as_strided((2,), (1,)), lambda n: (torch.randn(10)[3:],)
    ),
    "as_strided outside of the memory error": static(
        lambda x: x.as_strided((9, 9), (9, 1)), matrix
    ),
    "as_strided_scatter": static(
        lambda x: x.as_strided_scatter(torch.zeros(2, 2), (2, 2), (3, 2)), matrix
    ),
    "diagonal": every(
        lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 2), x.diagonal(0, 2, 0)), cube
    ),
    "diagonal past the end": static(lambda x: (x.diagonal(3), x.diagonal(-9)), matrix),
    "diag and diag_embed": train(
        lambda x: (
            x.diag(),
            x[0].diag(),
            x[0].diag(1),
            torch.diag_embed(x),
            torch.diag_embed(x, -1, 0, 2),
            x[0].diagflat(),
        ),
        matrix,
    ),
    "cat": every(
        lambda x, y: (
            torch.cat([x, y]),
            torch.cat([x, y, x], 1),
            torch.cat([x], -1),
            torch.cat([x[:0], y]),
        ),
        two_matrices,
    ),
    "cat of mixed dtypes": static(
        lambda x, y: (
            torch.cat([x, y.half()]),
            torch.cat([x.int(), y > 0]),
            torch.cat([x.double(), y.long()]),
        ),
        two_matrices,
    ),
    "cat with an old empty tensor": static(
        lambda x, y: torch.cat([x, torch.empty(0), y]), two_matrices
    ),
    "cat of nothing error": static(lambda x: torch.cat([]), matrix),
    "cat of different shapes error": static(lambda x, y: torch.cat([x, y[:, :2]]), two_matrices),
    "cat of 30": train(
        lambda *xs: torch.cat(xs, 1), lambda n: tuple(torch.randn(n, i % 3) for i in range(30))
    ),
    "cat and slice back": every(lambda x, y: torch.cat([x * 2, y], 1)[:, 1:4] + 1, two_matrices),
    "stacks": every(
        lambda x, y: (
            torch.stack([x, y]),
            torch.stack([x, y], -1),
            torch.hstack([x, y]),
            torch.vstack([x, y]),
            torch.dstack([x, y]),
            torch.column_stack([x[:, 0], y]),
        ),
        two_matrices,
    ),
    "stack of 0-d": train(
        lambda x: (torch.stack([x[0, 0], x[1, 1]]), torch.hstack([x[0, 0], x[0, 1]])), matrix
    ),
    "stack of different shapes error": static(lambda x, y: torch.stack([x, y[:2]]), two_matrices),
    "split": every(
        lambda x: (x.split(2), x.split((1, 2), 1), x.split(3, -1), x.tensor_split(2)), cube
    ),
    "split of nothing": static(
        lambda x: (x.split(2), x.chunk(3), x.tensor_split(2)), lambda n: (torch.randn(0, 3),)
    ),
    "split with a wrong sum error": static(lambda x: x.split((1, 1), 1), matrix),
    "chunk": every(lambda x: (x.chunk(2), x.chunk(2, 1), x.chunk(3, -1), x.chunk(1)), cube),
    "tensor_split": static(
        lambda x: (
            x.tensor_split(3),
            x.tensor_split((1, 5)),
            x.tensor_split((0, 2), 1),
            x.hsplit(3),
            x.vsplit(2),
        ),
        matrix,
    ),
    "unbind": every(lambda x: (x.unbind(1), *x.unbind(-1)), cube),
    "unpacked rows": train(lambda x: [row * i for i, row in enumerate(x)], matrix),
    "pads": every(
        lambda x: (
            F.pad(x, (1, 2)),
            F.pad(x, (0, 1, 2, 0), value=3.5),
            F.pad(x, (-1, -1)),
            F.pad(x, (-1, 2, 1, -1)),
        ),
        cube,
    ),
    "pads of integers and booleans": static(
        lambda x: (
            F.pad(x.long(), (1, 1), value=7),
            F.pad(x > 0, (1, 0), value=True),
            F.pad(x.to(torch.int8), (0, 1)),
        ),
        matrix,
    ),
    "pads with modes": train(
        lambda x: [F.pad(x, (1, 2, 2, 1), mode=m) for m in ("reflect", "replicate", "circular")],
        _image,
    ),
    "pads of one and three axes": train(
        lambda x: (
            F.pad(x[0], (2, 1), mode="reflect"),
            F.pad(x[None], (1, 1, 1, 0, 0, 1), mode="replicate"),
        ),
        _image,
    ),
    "pad by too much error": static(lambda x: F.pad(x, (4, 4, 0, 0), mode="reflect"), _image),
    "pad with nan": static(
        lambda x: (F.pad(x, (1, 0), value=float("nan")), F.pad(x, (1, 0), value=-float("inf"))),
        matrix,
    ),
    "pad to a negative size error": static(lambda x: F.pad(x, (-2, -2)), matrix),
    "pad of nothing": static(
        lambda x: (F.pad(x, (1, 1)), F.pad(x, (0, 0, 2, 0))), lambda n: (torch.randn(0, 3),)
    ),
    "pixel_shuffle": every(
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)),
        lambda n: (torch.randn(1, 8, n, 3),),
    ),
    "channel_shuffle": static(
        lambda x: F.channel_shuffle(x, 2), lambda n: (torch.randn(1, 4, n, 3),)
    ),
    "contiguous": every(
        lambda x: (
            x.contiguous(),
            x.t().contiguous(),
            x[:, ::2].contiguous(),
            x.expand(2, -1, -1).contiguous(),
        ),
        _transposed,
    ),
    "strides of pointwise results": static(
        lambda x, y: (x + 1, x * y, x + x.t().t(), (x + 1).t(), x.relu().sum(0)),
        lambda n: (torch.randn(3, n).t(), torch.randn(n, 3)),
    ),
    "clone keeps strides": static(
        lambda x: (
            x.clone(),
            x.clone(memory_format=torch.contiguous_format),
            x[:, 1:].clone(),
            x.t().clone(),
        ),
        _transposed,
    ),
    "likes keep strides": static(
        lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x, dtype=torch.int32),
            torch.full_like(x, 2),
            x.new_zeros(2, 3),
        ),
        _transposed,
    ),
    "channels_last": static(
        lambda x: (
            x.contiguous(memory_format=torch.channels_last),
            x + 1,
            x.to(memory_format=torch.channels_last) * 2,
            x.mean(1),
            x.relu(),
        ),
        _image,
    ),
    "channels_last input": static(
        lambda x: (
            x + 1,
            x.clone(),
            x.contiguous(),
            x.permute(0, 2, 3, 1).reshape(-1, 3),
            x.sum(2),
        ),
        lambda n: (torch.randn(2, 3, n, 4).to(memory_format=torch.channels_last),),
    ),
    "is_contiguous": static(
        lambda x: (
            x.is_contiguous(),
            x.t().is_contiguous(),
            x.stride(),
            x.t().stride(1),
            x.storage_offset(),
        ),
        _transposed,
    ),
    "matrix of views": every(
        lambda x: x.view(-1, 3).mm(x.view(3, -1)), lambda n: (torch.randn(n, 3),)
    ),
    "heads split and merged": every(
        lambda x: (
            x.view(*x.shape[:2], 2, 3).transpose(1, 2).mul(2).transpose(1, 2).reshape(*x.shape)
        ),
        lambda n: (torch.randn(2, n, 6),),
    ),
    "sizes 0 and 1": static(
        lambda x, y: (
            x.reshape(0, 5),
            x.view(3, 0),
            x.t(),
            y.squeeze(),
            y.expand(1, 5),
            y.view(()),
            x.sum(),
        ),
        lambda n: (torch.randn(0, 3), torch.randn(1, 1)),
    ),
    "view of 0 elements with -1 error": static(
        lambda x: x.view(0, -1), lambda n: (torch.randn(0, 3),)
    ),
    "arange and friends": dynamic(
        lambda x: (
            torch.arange(x.shape[0]),
            torch.arange(1, x.shape[0], 2),
            torch.arange(5, -3, -2),
            torch.arange(0, 1, 0.25),
            torch.linspace(0, 1, x.shape[0]),
            torch.logspace(0, 2, 3),
            torch.arange(0),
            torch.linspace(3, 3, 1),
        ),
        matrix,
    ),
    "arange with wrong bounds error": static(lambda x: torch.arange(5, 0), matrix),
    "eye and full": dynamic(
        lambda x: (
            torch.eye(x.shape[0]),
            torch.eye(2, 5, dtype=torch.int64),
            torch.full((x.shape[0], 2), 3),
            torch.full((), True),
            torch.zeros(0, 3),
            torch.ones(x.shape),
            torch.empty(x.shape).fill_(2),
            torch.tensor([x.shape[0], 2]),
        ),
        matrix,
    ),
    "full_like truncates": static(
        lambda x: (torch.full_like(x, 7.9), x + torch.full_like(x, 1.5)),
        lambda n: (torch.arange(n),),
    ),
    "tensor of tensors": static(
        lambda x: torch.tensor([[1, 2], [3, 4]]) + torch.tensor(1.5) + x[0, 0], matrix
    ),
    "vander and block_diag": static(
        lambda x: (
            torch.vander(x[0]),
            torch.block_diag(x, x[:1]),
            torch.tril(x.vander() if x.dim() == 1 else x),
        ),
        matrix,
    ),
    "kron": train(torch.kron, lambda n: (torch.randn(n, 2), torch.randn(2, 3))),
    "tensordot": every(
        lambda x, y: (
            torch.tensordot(x, y, ([1, 2], [1, 2])),
            torch.tensordot(x, y.permute(2, 1, 0), 1),
        ),
        lambda n: (torch.randn(n, 3, 4), torch.randn(2, 3, 4)),
    ),
    "einsum": every(
        lambda x, y: (
            torch.einsum("bij,bkj->bik", x, y),
            torch.einsum("bij,bij->b", x, y),
            torch.einsum("...j,...j->...", x, y),
            torch.einsum("bii->bi", x[:, :3, :3]),
            torch.einsum("bij->ib", x),
        ),
        lambda n: (torch.randn(n, 3, 4), torch.randn(n, 3, 4)),
    ),
    "matmul of all ranks": train(
        lambda v, m, b: (
            v @ v,
            m @ v,
            v @ m,
            m @ m,
            b @ m,
            m @ b,
            b @ v,
            v @ b,
            b @ b,
            b[None] @ m,
        ),
        lambda n: (torch.randn(3), torch.randn(3, 3), torch.randn(n, 3, 3)),
    ),
    "matmul of nothing": static(
        lambda x, y: (x @ y, y @ x, x.t().mm(x), torch.addmm(torch.ones(2, 2), y, x)),
        lambda n: (torch.randn(0, 2), torch.randn(2, 0)),
    ),
    "matmul of integers": static(
        lambda x, y: (
            x @ y,
            x.int() @ y.int(),
            torch.mv(x, y[:, 0]),
            x.to(torch.uint8) @ y.to(torch.uint8),
        ),
        lambda n: (torch.randint(-9, 9, (n, 3)), torch.randint(-9, 9, (3, 2))),
    ),
    "matmul of large integers": static(
        lambda x: x @ x, lambda n: (tensor([[2**31 + 1, 3], [5, -(2**31) - 7]]),)
    ),
    "matmul shape error": static(lambda x, y: x @ y, two_matrices),
    "addmm": every(
        lambda c, x, y: (
            torch.addmm(c, x, y),
            torch.addmm(c[0], x, y, beta=0.5, alpha=2),
            c.addmm(x, y, beta=0),
        ),
        lambda n: (torch.randn(n, 2), torch.randn(n, 3), torch.randn(3, 2)),
    ),
    "addmm with beta 0 ignores nan": static(
        lambda c, x: (c.addmm(x, x, beta=0), torch.baddbmm(c[None], x[None], x[None], beta=0)),
        lambda n: (torch.full((3, 3), float("nan")), torch.randn(3, 3)),
    ),
    "addmv addbmm baddbmm addr": train(
        lambda m, v, b: (
            torch.addmv(v, m, v),
            torch.addbmm(m, b, b, beta=2),
            torch.baddbmm(b, b, b, alpha=0.5),
            m.addr(v, v),
        ),
        lambda n: (torch.randn(3, 3), torch.randn(3), torch.randn(n, 3, 3)),
    ),
    "chained matmuls": train(
        lambda x, y: torch.linalg.multi_dot([x, y, x, y]) + torch.matrix_power(x @ y, 3),
        lambda n: (torch.randn(n, 3), torch.randn(3, n)),
    ),
    "matmul of transposed operands": every(
        lambda x, y: (x.t() @ y, y.t() @ x, x @ y.t(), (x.t() @ y).t()), two_matrices
    ),
    "cross": train(lambda x, y: (torch.cross(x, y, 1), torch.linalg.cross(x, y[:1])), two_matrices),
    "resize by aten": static(lambda x: (aten.resize(x, (2, 3)), aten.resize(x, (3, 2))), matrix),
    "atleast": static(
        lambda x, y: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x, y)),
        lambda n: (tensor(1.0), torch.randn(n)),
    ),
    "fold and unfold": train(
        lambda x: (F.unfold(x, 2, padding=1), F.fold(F.unfold(x, (2, 2)), (4, 4), (2, 2))),
        lambda n: (torch.randn(1, 2, n, n),),
    ),
}
