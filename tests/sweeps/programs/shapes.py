"""Views, concatenation, splitting, padding, tiling."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, normal


def _make_x(n):
    return (normal(n, 3, 4),)


def _make_pair(n):
    return normal(n, 3), normal(n, 3, seed=1)


PROGRAMS = {
    "reshape": (
        lambda x: (x.reshape(-1), x.reshape(x.shape[0], 12), x.reshape(2, -1)),
        lambda n: (normal(n, 3, 4),),
    ),
    "view after transpose": (lambda x: x.transpose(1, 2).reshape(x.shape[0], -1), _make_x),
    "flatten": (lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)), _make_x),
    "unflatten": (lambda x: x.unflatten(2, (2, 2)), _make_x),
    "squeezes": (lambda x: (x.unsqueeze(0), x[:1].squeeze(0), x.unsqueeze(-1).squeeze()), _make_x),
    "permute": (lambda x: (x.permute(2, 0, 1), x.transpose(0, 2), x.mT), _make_x),
    "movedim": (lambda x: (x.movedim(0, -1), x.swapaxes(0, 1)), _make_x),
    "expand": (lambda x: x[:, :1].expand(-1, 5, -1) + 1, _make_x),
    "expand from 1": (lambda x: x.unsqueeze(1).expand(-1, 2, -1, -1), _make_x),
    "broadcast_to": (lambda x: torch.broadcast_to(x, (2, *x.shape)), _make_x),
    "broadcast_tensors": (lambda a, b: torch.broadcast_tensors(a[:, None], b), _make_pair),
    "repeat": (lambda x: (x.repeat(2, 1, 1), x.repeat(3, 1, 1, 2)), _make_x),
    "tile": (lambda x: x.tile(2), _make_x),
    "cat": (lambda a, b: (torch.cat([a, b]), torch.cat([a, b, a], 1)), _make_pair),
    "cat of empty": (lambda a: torch.cat([a, a[:0], torch.zeros(0)]), lambda n: (normal(n),)),
    "stack": (lambda a, b: (torch.stack([a, b]), torch.stack([a, b], -1)), _make_pair),
    "hstack vstack": (lambda a, b: (torch.hstack([a, b]), torch.vstack([a, b])), _make_pair),
    "dstack": (lambda a, b: torch.dstack([a, b]), _make_pair),
    "block_diag": (lambda a, b: torch.block_diag(a, b), _make_pair),
    "meshgrid": (
        lambda a, b: torch.meshgrid(a, b, indexing="ij"),
        lambda n: (normal(n), normal(3)),
    ),
    "cartesian_prod": (torch.cartesian_prod, lambda n: (normal(n), normal(3))),
    "split": (lambda x: x.split(2, 1), _make_x),
    "split sizes": (lambda x: [y * 2 for y in x.split([1, 2], 1)], _make_x),
    "chunk": (lambda x: x.chunk(3, 2), _make_x),
    "tensor_split": (lambda x: x.tensor_split(3, 2), _make_x),
    "unbind": (lambda x: [y + 1 for y in x.unbind(1)], _make_x),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0)), _make_x),
    "pad crops": (lambda x: F.pad(x, (-1, 2, 0, -1)), _make_x),
    "pad permuted": (lambda x: F.pad(x.permute(0, 2, 1), (1, 1, 1, 1)), _make_x),
    "pad bools": (lambda x: F.pad(x > 0, (1, 1), value=True), _make_x),
    "pad reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), _make_x),
    "pad replicate": (lambda x: F.pad(x, (2, 1), mode="replicate"), _make_x),
    "pad circular": (lambda x: F.pad(x, (2, 1), mode="circular"), _make_x),
    "pad replicate free": (
        lambda x: F.pad(x, (2, 1), mode="replicate"),
        lambda n: (normal(2, 3, n + 2),),
    ),
    "pad reflect 2-d": (
        lambda x: F.pad(x, (1, 1, 2, 0), mode="reflect"),
        lambda n: (normal(2, 2, n + 2, 4),),
    ),
    "pad by a size": (lambda x: F.pad(x, (0, 8 - x.shape[0])), lambda n: (normal(n),)),
    "roll": (lambda x: (x.roll(1), x.roll((1, -2), (0, 2))), _make_x),
    "roll by a size": (lambda x: x.roll(x.shape[0] // 2, 0), _make_x),
    "flip": (lambda x: (x.flip(0), x.flip((0, 2)), x.fliplr()), _make_x),
    "rot90": (lambda x: (x.rot90(1, (1, 2)), x.rot90(2, (0, 1))), _make_x),
    "unfold": (lambda x: (x.unfold(2, 2, 1), x.unfold(0, 2, 1)), _make_x),
    "unfold far": (lambda x: x.unfold(1, 2, 3), _make_x),
    "F.unfold": (lambda x: F.unfold(x, 2, padding=1), lambda n: (normal(2, 2, n + 1, 4),)),
    "F.fold": Program(lambda x: F.fold(x, (4, 4), 2, stride=2), lambda n: (normal(n, 8, 4),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), lambda n: (normal(2, 8, n, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), lambda n: (normal(2, 2, 2 * n, 4),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), lambda n: (normal(n, 4, 2, 2),)),
    "atleast": (lambda a: (torch.atleast_2d(a), torch.atleast_3d(a)), lambda n: (normal(n),)),
    "view_as": (lambda a, b: a.view_as(b), lambda n: (normal(n * 2), normal(n, 2))),
    "contiguous": (lambda x: x.transpose(0, 1).contiguous(), _make_x),
    "clone": (lambda x: (x.clone(), x.t().clone()), lambda n: (normal(n, 3),)),
    "to channels_last": (
        lambda x: (x * 2).to(memory_format=torch.channels_last),
        lambda n: (normal(2, n, 3, 4),),
    ),
    "non-contiguous": (lambda x: x + 1, lambda n: (normal(n, 6)[:, ::2],)),
    "offset input": (lambda x: x * 2, lambda n: (normal(n + 2, 3)[2:],)),
    "expanded input": (lambda x: x * 2, lambda n: (normal(1, 3).expand(n, 3),)),
    "einops": (
        lambda x: x.reshape(x.shape[0], 3, 2, 2).permute(0, 2, 1, 3).reshape(x.shape[0] * 2, -1),
        _make_x,
    ),
    "heads": (
        lambda x: (
            x.view(x.shape[0], x.shape[1], 2, 2).transpose(1, 2).contiguous().view(x.shape[0], -1)
        ),
        _make_x,
    ),
    "vander": Program(lambda x: torch.vander(x, 3), lambda n: (normal(n),), train=False),
    "nested": (lambda x: {"a": x + 1, "b": [x * 2, (x.sum(), None)], "c": 3}, _make_x),
    "squeeze of 1": (lambda x: (x.squeeze(), x.squeeze(1)), lambda n: (normal(n, 1, 3),)),
    "shape arithmetic": (
        lambda x: x.reshape(x.shape[0] * x.shape[1], x.numel() // (x.shape[0] * x.shape[1])),
        _make_x,
    ),
}
