"""Sorting, selecting, uniqueness, transforms, random numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, ints, normal

_DYNAMIC_SHAPES = ("capture_dynamic_output_shape_ops",)


def _make_with_nan(n):
    x = normal(n, 5)
    x[0, 1] = torch.nan
    x[-1, 3] = -torch.inf
    return (x,)


def _fourier(name, **kwargs):
    op = getattr(torch.fft, name)

    def forward(x):
        result = op(x, **kwargs)
        return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return forward


PROGRAMS = {
    "sort": (lambda x: x.sort(1), lambda n: (normal(n, 5),)),
    "sort descending": (lambda x: x.sort(0, descending=True), lambda n: (normal(n, 5),)),
    "sort stable": (lambda x: x.sort(dim=1, stable=True), lambda n: (ints(3, n, 8),)),
    "sort nan": Program(lambda x: x.sort(1), _make_with_nan, train=False),
    "argsort": (lambda x: (x.argsort(1), x.argsort(0, descending=True)), lambda n: (normal(n, 5),)),
    "msort": (torch.msort, lambda n: (normal(n, 3),)),
    "topk": (lambda x: x.topk(2, 1), lambda n: (normal(n, 5),)),
    "topk smallest": (lambda x: x.topk(2, 0, largest=False), lambda n: (normal(n, 5),)),
    "topk nan": Program(lambda x: x.topk(3, 1), _make_with_nan, train=False),
    "topk by a size": (lambda x: x.topk(x.shape[0] // 2, 0), lambda n: (normal(n + 1, 3),)),
    "unique": Program(lambda x: x.unique(), lambda n: (ints(5, n, 3),), patches=_DYNAMIC_SHAPES),
    "unique counts": Program(
        lambda x: x.unique(return_inverse=True, return_counts=True),
        lambda n: (ints(5, n, 3),),
        patches=_DYNAMIC_SHAPES,
    ),
    "unique_consecutive": Program(
        torch.unique_consecutive, lambda n: (ints(3, 3 * n),), patches=_DYNAMIC_SHAPES
    ),
    "rank of elements": (lambda x: x.argsort(1).argsort(1), lambda n: (normal(n, 5),)),
    "fft": (_fourier("fft"), lambda n: (normal(n, 6),)),
    "fft along rows": (_fourier("fft", dim=0), lambda n: (normal(n + 2, 3),)),
    "ifft": (_fourier("ifft", norm="ortho"), lambda n: (normal(n, 6),)),
    "rfft": (_fourier("rfft"), lambda n: (normal(n, 7),)),
    "fft2": (_fourier("fft2"), lambda n: (normal(n, 4, 4),)),
    "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=8), lambda n: (normal(n, 8),)),
    "fftshift": (lambda x: torch.fft.fftshift(x), lambda n: (normal(n, 4),)),
    "hann_window": (lambda x: x * torch.hann_window(8), lambda n: (normal(n, 8),)),
    "stft": (
        lambda x: torch.view_as_real(
            torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True)
        ),
        lambda n: (normal(2, 32),),
    ),
    "dropout": Program(lambda x: F.dropout(x, 0.5), lambda n: (normal(n, 40),)),
    "dropout eval": (lambda x: F.dropout(x, 0.5, training=False), lambda n: (normal(n, 4),)),
    "dropout twice": Program(
        lambda x: F.dropout(F.dropout(x, 0.3).relu(), 0.2), lambda n: (normal(n, 40),)
    ),
    "rand_like": Program(lambda x: x + torch.rand_like(x), lambda n: (normal(n, 4),)),
    "randn": Program(lambda x: x * torch.randn(x.shape[0], 4), lambda n: (normal(n, 4),)),
    "randint": Program(lambda x: x + torch.randint(0, 9, x.shape), lambda n: (normal(n, 4),)),
    "randperm": Program(lambda x: x[torch.randperm(x.shape[0])], lambda n: (normal(n, 4),)),
    "bernoulli": Program(
        lambda x: torch.bernoulli(x.sigmoid()), lambda n: (normal(n, 4),), train=False
    ),
    "multinomial": Program(
        lambda x: torch.multinomial(x.softmax(1), 2),
        lambda n: (normal(n, 4),),
        train=False,
    ),
    "normal_": Program(lambda x: x + torch.empty_like(x).normal_(1, 2), lambda n: (normal(n, 4),)),
    "exponential": Program(
        lambda x: x + torch.empty_like(x).exponential_(), lambda n: (normal(n, 4),)
    ),
    "gumbel": Program(lambda x: F.gumbel_softmax(x, dim=1), lambda n: (normal(n, 4),)),
    "rrelu training": Program(lambda x: F.rrelu(x, training=True), lambda n: (normal(n, 4),)),
    "alpha_dropout": Program(
        lambda x: F.alpha_dropout(x, 0.5, training=True), lambda n: (normal(n, 8),)
    ),
    "dropout2d": Program(lambda x: F.dropout2d(x, 0.5), lambda n: (normal(n, 4, 2, 2),)),
}
