"""Layers: norms, recurrent cells, feed-forward blocks, optimizer-like steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, ints, normal, positive


def _gru_step(x, h, w, u):
    gates = (x @ w + h @ u).sigmoid()
    r, z = gates.chunk(2, -1)
    return (1 - z) * torch.tanh(x[:, :3] * r) + z * h


PROGRAMS = {
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        lambda n: (normal(n, 3, 4), normal(4), normal(4, seed=1)),
    ),
    "layer_norm two axes": (lambda x: F.layer_norm(x, (3, 4)), lambda n: (normal(n, 3, 4),)),
    "layer_norm double eps": (
        lambda x: F.layer_norm(x, (4,), eps=1e-12),
        lambda n: (normal(n, 4).double() * 1e-6,),
    ),
    "layer_norm of one": (lambda x: F.layer_norm(x, (1,)), lambda n: (normal(n, 1),)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w, 1e-6), lambda n: (normal(n, 4), normal(4))),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w), lambda n: (normal(n, 4, 3), normal(4))),
    "group_norm free": (lambda x: F.group_norm(x, 2), lambda n: (normal(2, 4, n),)),
    "instance_norm": (lambda x: F.instance_norm(x), lambda n: (normal(n, 3, 5),)),
    "batch_norm train": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda n: (normal(n, 3, 4), normal(3), normal(3, seed=1)),
    ),
    "batch_norm eval": (
        lambda x, m, v, w: F.batch_norm(x, m.detach(), v.detach(), w, w),
        lambda n: (normal(n, 3, 4), normal(3), positive(3), normal(3)),
    ),
    "batch_norm 2-d": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda n: (normal(n, 3),),
    ),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), lambda n: (normal(n, 5, 4),)),
    "lstm cell": Program(
        lambda x, h, c, w, u: torch.lstm_cell(x, (h, c), w, u),
        lambda n: (normal(n, 3), normal(n, 2), normal(n, 2, seed=1), normal(8, 3), normal(8, 2)),
    ),
    "gru cell": Program(
        lambda x, h, w, u: torch.gru_cell(x, h, w, u),
        lambda n: (normal(n, 3), normal(n, 2), normal(6, 3), normal(6, 2)),
    ),
    "gates": (_gru_step, lambda n: (normal(n, 4), normal(n, 3), normal(4, 6), normal(3, 6))),
    "factors from sizes": (
        lambda x: (
            F.leaky_relu(x, 1 / x.shape[0]) + F.elu(x, x.shape[0] / 3) + F.celu(x, 2 / x.shape[0])
        ),
        lambda n: (normal(n, 3),),
    ),
    "addmm by sizes": (
        lambda c, a, b: torch.addmm(c, a, b, alpha=1 / a.shape[1], beta=a.shape[1]),
        lambda n: (normal(2, 4), normal(2, n), normal(n, 4)),
    ),
    "eps from a size": (
        lambda x: F.layer_norm(x, (4,), eps=1e-3 / x.shape[0]),
        lambda n: (normal(n, 4),),
    ),
    "mlp": (
        lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b) + x,
        lambda n: (normal(n, 4), normal(8, 4), normal(4, 8)),
    ),
    "swiglu": (
        lambda x, a, b, c: F.linear(F.silu(F.linear(x, a)) * F.linear(x, b), c),
        lambda n: (normal(n, 4), normal(6, 4), normal(6, 4, seed=1), normal(4, 6)),
    ),
    "rotary": (
        lambda x: (
            torch.cat([-x[..., 2:], x[..., :2]], -1)
            * torch.arange(x.shape[1])[:, None].float().sin()
            + x * torch.arange(x.shape[1])[:, None].float().cos()
        ),
        lambda n: (normal(2, n, 4),),
    ),
    "sinusoids": (
        lambda x: (
            x
            + torch.stack(
                [
                    (torch.arange(x.shape[0])[:, None] / 10.0 ** torch.arange(2)).sin(),
                    (torch.arange(x.shape[0])[:, None] / 10.0 ** torch.arange(2)).cos(),
                ],
                -1,
            ).flatten(1)
        ),
        lambda n: (normal(n, 4),),
    ),
    "alibi": (
        lambda x: x + (torch.arange(x.shape[1])[None] - torch.arange(x.shape[0])[:, None]) * 0.5,
        lambda n: (normal(n, n),),
    ),
    "relative positions": (
        lambda w: w[(torch.arange(4)[:, None] - torch.arange(4)[None]).clamp(-2, 2) + 2],
        lambda n: (normal(5, n),),
    ),
    "causal mask": (
        lambda x: x.masked_fill(torch.triu(torch.ones_like(x, dtype=torch.bool), 1), -1e9),
        lambda n: (normal(n, n),),
    ),
    "padding mask": (
        lambda x, length: x * (torch.arange(x.shape[1])[None] < length[:, None]),
        lambda n: (normal(3, n), torch.tensor([1, 2, 0])),
    ),
    "moe": (
        lambda x, w: torch.einsum("ne,nd->ed", x.topk(2, 1).values.softmax(1), w),
        lambda n: (normal(n, 4), normal(n, 3)),
    ),
    "router": (
        lambda x: torch.zeros_like(x).scatter(1, x.topk(2, 1).indices, x.topk(2, 1).values),
        lambda n: (normal(n, 4),),
    ),
    "label smoothing by hand": (
        lambda x, t: -(F.one_hot(t, 4) * 0.9 + 0.025).mul(x.log_softmax(1)).sum(1).mean(),
        lambda n: (normal(n, 4), ints(4, n)),
    ),
    "contrastive": (
        lambda a, b: F.cross_entropy(
            F.normalize(a, dim=1) @ F.normalize(b, dim=1).t() * 10, torch.arange(a.shape[0])
        ),
        lambda n: (normal(n, 4), normal(n, 4, seed=1)),
    ),
    "adam step": Program(
        lambda p, g, m, v: (
            p - 0.1 * (m * 0.9 + g * 0.1) / ((v * 0.99 + g * g * 0.01).sqrt() + 1e-8),
            m * 0.9 + g * 0.1,
        ),
        lambda n: (normal(n, 3), normal(n, 3, seed=1), normal(n, 3, seed=2), positive(n, 3)),
    ),
    "clip by norm": (
        lambda x: x * (1.0 / (x.norm() + 1e-6)).clamp(max=1.0),
        lambda n: (normal(n, 3),),
    ),
    "straight through": (lambda x: x + (x.round() - x).detach(), lambda n: (normal(n, 3),)),
    "scan by hand": (
        lambda x: torch.stack([x[:, : i + 1].sum(1) for i in range(4)], 1),
        lambda n: (normal(n, 4),),
    ),
    "checkpointed": (
        lambda x: torch.utils.checkpoint.checkpoint(
            lambda y: y.sin().exp(), x, use_reentrant=False
        ),
        lambda n: (normal(n, 3),),
    ),
}
