"""Losses, with every reduction."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, bools, ints, normal, positive


def _pair(n):
    return normal(n, 4), normal(n, 4, seed=1)


def _reduce(loss, **kwargs):
    return lambda *args: tuple(
        loss(*args, reduction=reduction, **kwargs) for reduction in ("none", "mean", "sum")
    )


def _labels(n):
    return normal(n, 5), ints(5, n)


PROGRAMS = {
    "mse": (_reduce(F.mse_loss), _pair),
    "l1": (_reduce(F.l1_loss), _pair),
    "smooth_l1": (_reduce(F.smooth_l1_loss, beta=0.5), _pair),
    "huber": (_reduce(F.huber_loss, delta=0.7), _pair),
    "bce": (
        _reduce(F.binary_cross_entropy),
        lambda n: (normal(n, 4).sigmoid(), bools(n, 4).float()),
    ),
    "bce corners": Program(
        _reduce(F.binary_cross_entropy),
        lambda n: (torch.tensor([0.0, 1.0, 0.5]), torch.tensor([0.0, 0.0, 1.0])),
        train=False,
    ),
    "bce weight": (
        lambda x, t, w: F.binary_cross_entropy(x.sigmoid(), t, weight=w.detach()),
        lambda n: (normal(n, 4), bools(n, 4).float(), positive(n, 4)),
    ),
    "bce logits": (
        _reduce(F.binary_cross_entropy_with_logits),
        lambda n: (normal(n, 4) * 50, bools(n, 4).float()),
    ),
    "bce logits weight": (
        lambda x, t: F.binary_cross_entropy_with_logits(
            x, t, pos_weight=torch.tensor([1.0, 2.0, 3.0, 4.0])
        ),
        lambda n: (normal(n, 4), bools(n, 4).float()),
    ),
    "cross_entropy": (_reduce(F.cross_entropy), _labels),
    "cross_entropy ignore": (lambda x, t: F.cross_entropy(x, t, ignore_index=2), _labels),
    "cross_entropy all ignored": Program(lambda x, t: F.cross_entropy(x, t * 0 - 100), _labels),
    "cross_entropy weight": (
        lambda x, t: F.cross_entropy(x, t, torch.tensor([1.0, 2.0, 0.0, 1.0, 3.0])),
        _labels,
    ),
    "cross_entropy smooth": (_reduce(F.cross_entropy, label_smoothing=0.2), _labels),
    "cross_entropy soft": (
        _reduce(F.cross_entropy),
        lambda n: (normal(n, 5), normal(n, 5, seed=1).softmax(1)),
    ),
    "cross_entropy images": (
        _reduce(F.cross_entropy),
        lambda n: (normal(2, 5, n, 3), ints(5, 2, n, 3)),
    ),
    "cross_entropy one": (
        lambda x, t: F.cross_entropy(x, t),
        lambda n: (normal(5), torch.tensor(2)),
    ),
    "cross_entropy free classes": (
        lambda x: F.cross_entropy(x, torch.tensor([0, 1])),
        lambda n: (normal(2, n),),
    ),
    "clip": (
        lambda a, b: (
            F.cross_entropy(a @ b.t(), torch.arange(a.shape[0]))
            + F.cross_entropy(b @ a.t(), torch.arange(a.shape[0]))
        ),
        _pair,
    ),
    "nll": (_reduce(F.nll_loss), lambda n: (normal(n, 5).log_softmax(1), ints(5, n))),
    "kl_div": (
        _reduce(F.kl_div),
        lambda n: (normal(n, 4).log_softmax(1), normal(n, 4, seed=1).softmax(1)),
    ),
    "kl_div log": (
        _reduce(F.kl_div, log_target=True),
        lambda n: (normal(n, 4).log_softmax(1), normal(n, 4, seed=1).log_softmax(1)),
    ),
    "kl_div of 0": (
        lambda x: F.kl_div(x, torch.tensor([[0.0, 1.0]]), reduction="batchmean"),
        lambda n: (normal(n, 2),),
    ),
    "hinge": (_reduce(F.hinge_embedding_loss), lambda n: (normal(n, 4), ints(2, n, 4) * 2.0 - 1)),
    "cosine": (_reduce(F.cosine_embedding_loss), lambda n: (*_pair(n), ints(2, n) * 2 - 1)),
    "margin ranking": (
        _reduce(F.margin_ranking_loss, margin=0.1),
        lambda n: (normal(n), normal(n, seed=1), ints(2, n) * 2.0 - 1),
    ),
    "triplet": (_reduce(F.triplet_margin_loss), lambda n: (*_pair(n), normal(n, 4, seed=2))),
    "multi margin": (_reduce(F.multi_margin_loss), _labels),
    "soft margin": (
        lambda x, t: F.soft_margin_loss(x, t.float()),
        lambda n: (normal(n, 4), ints(2, n, 4) * 2 - 1),
    ),
    "poisson": (_reduce(F.poisson_nll_loss), lambda n: (normal(n), positive(n))),
    "focal": (
        lambda x, t: (
            -((1 - x.softmax(1).gather(1, t[:, None])) ** 2)
            * x.log_softmax(1).gather(1, t[:, None])
        ).mean(),
        _labels,
    ),
    "dice": (
        lambda x, t: 1 - 2 * (x.sigmoid() * t).sum((1, 2)) / (x.sigmoid() + t).sum((1, 2)),
        lambda n: (normal(n, 3, 3), bools(n, 3, 3).float()),
    ),
    "penalty": (
        lambda x: x.pow(2).mean() + 0.1 * x.abs().sum() + x.norm(dim=1).max(),
        lambda n: (normal(n, 3),),
    ),
}
