"""Dtypes: promotion, casts, half precision, small integers, doubles, complex numbers."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import tensor

from . import Program, dynamic, every, matrix, static, train

INF, NAN = math.inf, math.nan
_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64"
_DTYPES = {name: getattr(torch, name) for name in _NAMES.split()}
_WIDE = {"uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64}
_FLOAT8 = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}


def _halves(*dtypes):
    return lambda n: tuple(torch.randn(n, 3).to(dtype) for dtype in dtypes)


def _small(dtype):
    return lambda n: (torch.arange(1, n * 3 + 1).reshape(n, 3).to(dtype),)


def _edges(n):
    return (
        tensor([NAN, INF, -INF, 0.0, -0.9, 1.9, -2.5, 300.0, -129.0, 65519.0, 65520.0, 1e10, 3e-8]),
    )


def _complex(n):
    return (torch.randn(n, 3, dtype=torch.complex64),)


def _promotions() -> dict[str, Program]:
    """Return sums and comparisons of each pair of dtypes, also with 0-d tensors."""
    found = {}
    for (a, first), (b, second) in itertools.combinations(_DTYPES.items(), 2):
        found[f"promotion of {a} and {b}"] = static(
            lambda x, y: (x + y, x * y[0, 0], x[0, 0] + y, torch.where(y != 0, x, y), x == y),
            lambda n, first=first, second=second: (*_small(first)(n), *_small(second)(n)),
        )
    return found


def _scalars(dtype, name):
    if dtype in (torch.bool, torch.complex64):
        return static(lambda x: (x + 1, x * 2.5, x == 1, x + True, x * 1j), _small(dtype))
    return static(
        lambda x: (
            x + 1,
            x * 2.5,
            x + True,
            2 / x,
            x**2,
            x > 1.5,
            x.clamp(2, 5),
            torch.add(x, 3, alpha=2),
        ),
        _small(dtype),
    )


def _casts(source):
    """Return a function that casts to every dtype."""
    targets = [d for d in _DTYPES.values() if d != torch.complex64 or source != torch.bool]
    return lambda x: tuple(x.to(dtype) for dtype in targets)


def _reductions(x):
    return (
        x.sum(),
        x.sum(0),
        x.prod(1),
        x.amax(0),
        x.argmin(1),
        x.cumsum(0),
        x.any(),
        x.sort(1).values,
    )


def _moves(x):
    return (
        x.t().contiguous(), torch.cat([x, x]), x.flip(0), x[:, ::2], x.roll(1), torch.stack([x, x]),
        x[tensor([1, 0])], x.gather(1, tensor([[2]])), x.repeat(1, 2),
        torch.where(tensor([True, False, True]), x, x.flip(1)),
    )  # fmt: skip


PROGRAMS = {
    **_promotions(),
    **{f"scalars with {name}": _scalars(dtype, name) for name, dtype in _DTYPES.items()},
    **{f"casts of {name}": static(_casts(dtype), _small(dtype)) for name, dtype in _DTYPES.items()},
    **{
        f"reductions of {name}": static(_reductions, _small(dtype))
        for name, dtype in _DTYPES.items()
        if name not in ("bool", "complex64")
    },
    **{f"moves of {name}": static(_moves, _small(dtype)) for name, dtype in _DTYPES.items()},
    **{
        f"moves and casts of {name}": static(
            lambda x: (
                x.t(),
                torch.cat([x, x]),
                x[1:],
                x.clone(),
                x.float(),
                x.long(),
                x.expand(2, -1, -1),
            ),
            _small(dtype),
        )
        for name, dtype in _WIDE.items()
    },
    **{
        f"casts of {name}": static(
            lambda x, d=dtype: (x.to(d).float(), x.to(d).to(torch.bfloat16)), matrix
        )
        for name, dtype in _FLOAT8.items()
    },
    # casts
    "casts of floats at the edges": static(
        lambda x: (
            x.half(),
            x.bfloat16(),
            x.double(),
            x.bool(),
            x.half().float(),
            x.bfloat16().float(),
        ),
        _edges,
    ),
    "casts of floats to integers": static(
        lambda x: (x.int(), x.long(), x.short(), x.to(torch.int8), x.to(torch.uint8)),
        lambda n: (tensor([0.0, -0.9, 1.9, -2.5, 100.7, 126.9, -0.0, 1e-30]),),
    ),
    "casts of integers that wrap": static(
        lambda x: (
            x.to(torch.int8),
            x.to(torch.uint8),
            x.to(torch.int16),
            x.to(torch.int32),
            x.bool(),
            x.float(),
        ),
        lambda n: (tensor([2**31, -(2**31) - 1, 255, 256, -1, 2**53 + 1, 65536]),),
    ),
    "rounded by a cast there and back": static(
        lambda x: (x.half().float() - x, x.bfloat16().float() == x, x.double().float()), matrix
    ),
    "cast between functions": dynamic(
        lambda x: ((x.half() * 2).float() + x.bfloat16().exp().float()).double().sin().half(),
        matrix,
    ),
    "type and to": static(
        lambda x: (
            x.type(torch.int32),
            x.to(torch.float64, copy=True),
            x.to(x.double()),
            x.type(torch.BoolTensor),
        ),
        matrix,
    ),
    "float32 as double": every(lambda x: (x.double().exp() + 1).log().float(), matrix),
    "bool as numbers": every(
        lambda x: ((x > 0) * x, (x > 0).float().mean(), (x > 0).sum(0) * 1.5, (x > 0).long() - 1),
        matrix,
    ),
    "dtype as a result": static(
        lambda x: (
            x.dtype,
            (x > 0).dtype,
            torch.result_type(x, 1),
            x.is_floating_point(),
            x.element_size(),
        ),
        matrix,
    ),
    "default dtype of literals": static(
        lambda x: (
            torch.tensor(1),
            torch.tensor(1.5),
            torch.tensor(True),
            torch.tensor([1, 2.5]),
            torch.tensor(1j),
            x + tensor(1),
        ),
        matrix,
    ),
    # half precision
    "half arithmetic": train(
        lambda x, y: (x + y, x * y - 1, x / (y.abs() + 1), x**2, x.clamp(-1, 1)),
        _halves(torch.float16, torch.float16),
    ),
    "bfloat16 arithmetic": train(
        lambda x, y: (x + y, x * y - 1, x / (y.abs() + 1), x**2, x.clamp(-1, 1)),
        _halves(torch.bfloat16, torch.bfloat16),
    ),
    "half functions": train(
        lambda x: (x.exp(), x.sigmoid(), x.tanh(), F.gelu(x), F.silu(x), x.sin(), x.erf()),
        _halves(torch.float16),
    ),
    "bfloat16 functions": train(
        lambda x: (x.exp(), x.sigmoid(), x.tanh(), F.gelu(x), F.silu(x), x.sin(), x.erf()),
        _halves(torch.bfloat16),
    ),
    "half overflows": static(
        lambda x: (x * x, x + x, x.exp(), x.sum(), x.square()),
        lambda n: (tensor([300.0, 60000.0, -60000.0, 1e-4]).half(),),
    ),
    "half products": every(
        lambda x, y: (x @ y.t(), (x @ y.t()).softmax(-1)), _halves(torch.float16, torch.float16)
    ),
    "bfloat16 products": every(
        lambda x, y: (x @ y.t(), (x @ y.t()).softmax(-1)), _halves(torch.bfloat16, torch.bfloat16)
    ),
    "half linear and norm": train(
        lambda x, w: F.layer_norm(F.linear(x, w), (3,)),
        lambda n: (torch.randn(n, 3).half(), torch.randn(3, 3).half()),
    ),
    "half in float32": train(
        lambda x, y: (x.float() @ y.float().t()).half(), _halves(torch.float16, torch.float16)
    ),
    "half and float32 mixed": train(
        lambda x, y: (x + y, x * 2, torch.where(x > 0, x, y), x.float() - y),
        _halves(torch.float16, torch.float32),
    ),
    "half and bfloat16 mixed": static(
        lambda x, y: (x + y, x * y, torch.maximum(x.float(), y)),
        _halves(torch.float16, torch.bfloat16),
    ),
    "product of mixed dtypes error": static(
        lambda x, y: x @ y.t(), _halves(torch.float16, torch.float32)
    ),
    "half reductions": train(
        lambda x: (x.sum(0), x.mean(), x.amax(1), x.logsumexp(1), x.softmax(0), x.var(0), x.norm()),
        _halves(torch.float16),
    ),
    "bfloat16 reductions": train(
        lambda x: (x.sum(0), x.mean(), x.amax(1), x.logsumexp(1), x.softmax(0), x.var(0), x.norm()),
        _halves(torch.bfloat16),
    ),
    "half sort and topk": static(
        lambda x: (x.sort(1), x.topk(2), x.argmax(0), x.cumsum(1), x.kthvalue(2)),
        _halves(torch.float16),
    ),
    "bfloat16 sort and topk": static(
        lambda x: (x.sort(1), x.topk(2), x.argmax(0), x.cumsum(1), x.kthvalue(2)),
        _halves(torch.bfloat16),
    ),
    "half comparisons with a scalar": static(
        lambda x: (x > 0.1, x == 0.1, x < 1e-8, x >= tensor(0.1)),
        lambda n: (tensor([0.1, 0.0, 1.0]).half(),),
    ),
    "half losses": static(
        lambda x, y: (F.mse_loss(x, y), F.cross_entropy(x, tensor([0, 1, 2, 0])), F.l1_loss(x, y)),
        _halves(torch.float16, torch.float16),
    ),
    "bfloat16 embedding": train(
        lambda i, w: F.embedding(i, w).sum(1),
        lambda n: (torch.randint(0, 5, (n, 2)), torch.randn(5, 3).bfloat16()),
    ),
    "bfloat16 attention": train(
        F.scaled_dot_product_attention,
        lambda n: tuple(torch.randn(1, 2, n, 4).bfloat16() for _ in range(3)),
    ),
    "rounding of half": static(
        lambda x: (x.round(), x.floor(), x.trunc(), x % 1, x // 0.3), _halves(torch.float16)
    ),
    "autocast": train(
        lambda x, w: _autocast(lambda: (F.linear(x, w).relu(), x.softmax(1), (x @ w.t()).float())),
        lambda n: (torch.randn(n, 3), torch.randn(5, 3)),
    ),
    "autocast of a part": static(lambda x: (_autocast(lambda: x @ x.t()), x @ x.t()), matrix),
    # doubles
    "double functions": train(
        lambda x: (
            x.exp(),
            x.sin(),
            x.tanh(),
            x.sigmoid(),
            F.gelu(x),
            x.erf(),
            x.log1p(),
            x.atan(),
        ),
        lambda n: (torch.rand(n, 3).double(),),
    ),
    "double precision is kept": static(
        lambda x: (x + 1e-12, x * (1 + 1e-12), x / 3, x - 0.1, x**0.5),
        lambda n: (torch.rand(n).double(),),
    ),
    "double reductions": train(
        lambda x: (x.sum(), x.var(0), x.softmax(1), x.logsumexp(0), x.cumsum(1), x.prod(0)),
        lambda n: (torch.randn(n, 3).double(),),
    ),
    "double products": every(
        lambda x: (x @ x.t(), x.t() @ x, torch.einsum("ij,kj->ik", x, x)),
        lambda n: (torch.randn(n, 3).double(),),
    ),
    "double layers": train(
        lambda x, w: (
            F.layer_norm(x, (3,)),
            F.linear(x, w),
            F.cross_entropy(x @ w.t(), tensor([1, 0, 2, 1])),
        ),
        lambda n: (torch.randn(4, 3).double(), torch.randn(3, 3).double()),
    ),
    "double pools": static(
        lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.interpolate(x, scale_factor=2)),
        lambda n: (torch.randn(1, 2, 4, 4).double(),),
    ),
    "double against float32 scalars": static(
        lambda x: (x + tensor(0.1), x * tensor(0.1).float(), x > tensor(0.1)),
        lambda n: (torch.rand(n).double(),),
    ),
    "0-d double and float32": static(
        lambda x, y: (x + y, torch.maximum(x, y.float()), x * y.item()),
        lambda n: (torch.randn(n), tensor(0.1).double()),
    ),
    "large numbers of double": static(
        lambda x: (x * 1e300, x.long(), x.float(), x % 7),
        lambda n: (tensor([1e10, 2.0**60, -(2.0**53) - 2]).double(),),
    ),
    "trunc of double to int": static(
        lambda x: (x.long(), x.round().long(), x.int()),
        lambda n: (tensor([1e9 + 0.5, -1e9 - 0.5, 0.999999999]).double(),),
    ),
    # integers
    "int8 products wrap": static(
        lambda x: (x * x, x + x, (x * x).sum(), x.int() @ x.int().t()),
        lambda n: (torch.arange(-6, 6).reshape(4, 3).mul(20).to(torch.int8),),
    ),
    "uint8 differences wrap": static(
        lambda x: (x - 5, 5 - x, x - x.flip(0), x.float() - 5, -x, x // 3, x % 4, x >> 1),
        _small(torch.uint8),
    ),
    "uint8 images": every(
        lambda x: ((x.float() / 255 - 0.5) / 0.2).permute(0, 3, 1, 2).mean((2, 3)),
        lambda n: (torch.randint(0, 256, (2, n, 5, 3), dtype=torch.uint8),),
    ),
    "int16 arithmetic": static(
        lambda x: (x * 1000, x + 32767, x // 2, x % 3, -x, x.abs(), x << 3, x & 6),
        _small(torch.int16),
    ),
    "int32 in int64": static(
        lambda x: (x * 2**20, x.long() * 2**33, x.sum(), x * tensor(2**40), x + tensor([2**40])),
        _small(torch.int32),
    ),
    "int64 as floats": static(
        lambda x: (x / 3, x * 0.5, x.float().sqrt(), x.double().log(), x.true_divide(7)),
        _small(torch.int64),
    ),
    "int32 indices": static(
        lambda x, i: (x[i], x.index_select(0, i), F.embedding(i, x)),
        lambda n: (torch.randn(n, 3), tensor([1, 0], dtype=torch.int32)),
    ),
    "clamp and where of int8": static(
        lambda x: (x.clamp(2, 5), torch.where(x > 3, x, 0), x.maximum(tensor(4)), x.relu()),
        _small(torch.int8),
    ),
    "quantization by hand": every(
        lambda x: (
            (x / 0.1).round().clamp(-128, 127).to(torch.int8).float() * 0.1,
            ((x / 0.1).round() + 128).clamp(0, 255).to(torch.uint8),
        ),
        matrix,
    ),
    "int8 weights": every(
        lambda x, w, s: x @ (w.float() * s).t(),
        lambda n: (
            torch.randn(n, 3),
            torch.randint(-128, 128, (5, 3), dtype=torch.int8),
            torch.rand(5, 1),
        ),
    ),
    "packed int4": static(
        lambda p, s: (torch.stack([p & 15, p >> 4], -1).flatten(-2).to(torch.int8) - 8) * s,
        lambda n: (torch.randint(0, 256, (n, 3), dtype=torch.uint8), torch.rand(n, 1)),
    ),
    "fake quantization": train(
        lambda x: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
            torch.fake_quantize_per_channel_affine(
                x, torch.ones(3) / 9, torch.zeros(3, dtype=torch.int32), 1, 0, 255
            ),
        ),
        matrix,
    ),
    # complex numbers
    "complex arithmetic": static(
        lambda x: (x + 1j, x * x, x / (x + 2), x - x.conj(), x * 2.0, -x), _complex
    ),
    "complex parts": static(
        lambda x: (x.real + 1, x.imag * 2, x.abs(), x.angle(), x.conj() * 1, x.sgn()), _complex
    ),
    "complex functions": static(
        lambda x: (x.exp(), x.sin(), x.sqrt(), x.log(), x.tanh(), x**2, x.reciprocal()), _complex
    ),
    "complex reductions": static(
        lambda x: (x.sum(0), x.mean(), x.prod(1), x.abs().amax(0), x.cumsum(0)), _complex
    ),
    "complex products": static(
        lambda x: (x @ x.t(), x.mH @ x, torch.einsum("ij,kj->ik", x, x.conj())), _complex
    ),
    "complex made of parts": train(
        lambda x, y: torch.complex(x, y).abs() + torch.polar(x.abs(), y).real,
        _halves(torch.float32, torch.float32),
    ),
    "complex comparisons": static(
        lambda x: (x == x.conj(), x != 1, torch.isnan(x), x.real > 0), _complex
    ),
    "complex in training": train(lambda x: (x * x.conj()).real + x.exp().imag, _complex),
    "view as complex": train(
        lambda x: torch.view_as_real(torch.view_as_complex(x) * (1 + 2j)),
        lambda n: (torch.randn(n, 2),),
    ),
    "rotary embedding by complex numbers": train(
        lambda x, f: torch.view_as_real(
            torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * f
        ).flatten(-2),
        lambda n: (torch.randn(n, 4), torch.polar(torch.ones(2), torch.rand(2)).detach()),
    ),
    "fourier transforms": static(
        lambda x: (
            torch.fft.fft(x),
            torch.fft.rfft(x),
            torch.fft.irfft(torch.fft.rfft(x), 3),
            torch.fft.fft2(x).abs(),
            torch.fft.fftshift(x),
        ),
        matrix,
    ),
    "fourier filter": train(
        lambda x: torch.fft.ifft(torch.fft.fft(x) * torch.arange(3)).real, matrix
    ),
    "complex conjugate views": static(
        lambda x: (x.conj(), x.conj().imag, x.mH, x.conj().resolve_conj() + 0), _complex
    ),
    "complex128": static(
        lambda x: (x * x, x.abs(), x.to(torch.complex64)),
        lambda n: (torch.randn(n, dtype=torch.complex128),),
    ),
    "cast of complex to real": static(
        lambda x: (x.to(torch.complex128), x.real.to(torch.complex64), x.abs().long()), _complex
    ),
    "bool subtracted from an integer error": static(lambda x: x - True, _small(torch.int32)),
    "argmin of booleans error": static(lambda x: x.argmin(), _small(torch.bool)),
    # sizes of dtypes
    "bool indices and sums": dynamic(
        lambda x: ((x > 0).any(1), (x > 0).all(0), (x > 0).sum(), (x > 0).int().cumsum(0)), matrix
    ),
    "bool cat and pad": static(
        lambda x: (
            torch.cat([x > 0, x < 1]),
            F.pad(x > 0, (1, 1)),
            (x > 0).repeat(2, 1),
            (x > 0).flip(0),
        ),
        matrix,
    ),
    "bool matmul by floats": static(
        lambda x: ((x > 0).float() @ x.t(), torch.einsum("ij,kj->ik", (x > 0).half(), x.half())),
        matrix,
    ),
    "overflow of a sum of float16": static(
        lambda x: (x.sum(), x.cumsum(0)[-1], x.mean()),
        lambda n: (torch.full((70,), 1000.0).half(),),
    ),
    "subtraction of uint8 from a float": static(
        lambda x, y: (x - y, y - x, x.half() - y),
        lambda n: (torch.randn(n, 3), *_small(torch.uint8)(n)),
    ),
    "arange of dtypes": static(
        lambda x: (
            torch.arange(3, dtype=torch.float16),
            torch.arange(3, dtype=torch.uint8),
            torch.arange(1.5, 4),
            torch.linspace(0, 1, 3, dtype=torch.float64),
        ),
        matrix,
    ),
    "full of dtypes": static(
        lambda x: (
            torch.full((2,), 1),
            torch.full((2,), 1.0),
            torch.full((2,), True),
            torch.full((2,), 1, dtype=torch.bfloat16),
            torch.full_like(x, 2.7, dtype=torch.int8),
        ),
        matrix,
    ),
    "masks of different dtypes": static(
        lambda x: x.masked_fill(x > 0, 1) + x.masked_fill((x > 0).logical_not(), tensor(2)), matrix
    ),
}


def _autocast(function):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return function()
