"""Functions of single elements: numbers at their limits, scalars, conditions, fused chains."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import tensor

from . import dynamic, every, matrix, static, train, two_matrices

INF, NAN = math.inf, math.nan
_EDGES = [NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, 3e38, -3e38, 88.0, -104.0]


def _edges(n):
    return (torch.cat([tensor(_EDGES), torch.randn(n)]),)


def _edge_pairs(n):
    edges = torch.cat([tensor(_EDGES), torch.randn(n)])
    return edges[:, None], edges


def _ints(low, high, *dtypes):
    dtypes = dtypes or (torch.int64,)
    return lambda n: tuple(torch.randint(low, high, (n, 3), dtype=dtype) for dtype in dtypes)


def _int_pairs(dtype, low=-7, high=8):
    """Return all pairs of the integers without a zero as the second."""
    values = torch.arange(low, high).to(dtype)
    return lambda n: (values[:, None].clone(), values[values != 0])


PROGRAMS = {
    "add and scale": every(lambda x, y: (x + y, x - y * 2, 3 - x, x * -1.5), two_matrices),
    "alpha": every(
        lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=-0.5), torch.rsub(x, y)),
        two_matrices,
    ),
    "alpha of integers": static(
        lambda x, y: (
            torch.add(x, y, alpha=3),
            torch.rsub(x, y, alpha=2),
            torch.sub(x, 2, alpha=4),
        ),
        _ints(-9, 9, torch.int32, torch.int64),
    ),
    "infinities added": static(
        lambda x: (x + INF, x - INF, x * -INF, x / INF, INF / x, 0 * (x + INF)), _edges
    ),
    "floor division": static(
        lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc"), x % y, torch.fmod(x, y)),
        _int_pairs(torch.int64),
    ),
    "floor division of int8": static(
        lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc"), x % y, torch.fmod(x, y)),
        _int_pairs(torch.int8),
    ),
    "floor division of uint8": static(
        lambda x, y: (x // y, x % y, x - y, -x, x * y), _int_pairs(torch.uint8, 0, 9)
    ),
    "floor division of floats": static(
        lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc")),
        lambda n: (torch.arange(-7, 8)[:, None] / 2, tensor([-3.0, -0.5, 0.7, 2.0, INF])),
    ),
    "remainder at the edges": static(
        lambda x, y: (torch.remainder(x, y), torch.fmod(x, y)),
        lambda n: (
            tensor([INF, NAN, 5.0, -5.0, 0.0])[:, None],
            tensor([3.0, -3.0, 0.0, INF, -INF]),
        ),
    ),
    "remainder with a scalar": every(
        lambda x: (x % 2, x % -0.75, 5 % (x.detach().abs() + 0.1), torch.fmod(x, 0.3)), matrix
    ),
    "remainder by zero error": static(
        lambda x, y: x % y, lambda n: (torch.arange(n), torch.zeros(n, dtype=torch.int64))
    ),
    "division by zero error": static(
        lambda x, y: x // y, lambda n: (tensor([1, 2]), tensor([1, 0]))
    ),
    "true division of integers": static(
        lambda x, y: (x / y, x / 4, 4 / y, (x / y).dtype), _int_pairs(torch.int32)
    ),
    "division by a zero of floats": static(lambda x: (x / 0, x // 0.0, 1 / (x * 0)), _edges),
    "powers": every(
        lambda x: (x**2, x**3, x**-1, x**0, x.abs() ** 0.5, x.abs() ** -0.5, 2**x, x.pow(4)), matrix
    ),
    "powers at the edges": static(torch.pow, _edge_pairs),
    "powers of integers": static(
        lambda x: (x**0, x**2, x**5, 2 ** x.abs(), torch.pow(x, x.abs())), _ints(-5, 5)
    ),
    "negative powers of integers error": static(lambda x: x**-1, _ints(1, 5)),
    "float powers of integers": static(lambda x: (x**0.5, x**2.0, 2.0**x), _ints(0, 5)),
    "float_power": static(
        lambda x, y: (torch.float_power(x, 2), torch.float_power(2, y)), two_matrices
    ),
    "tensor powers": train(lambda x, y: x.abs() ** y + (x.abs() + 1).pow(y), two_matrices),
    "overflow of int32": static(
        lambda x: (x + 1, x * 2, -x, x.abs(), x - 2**31 + 1, x << 1),
        lambda n: (tensor([2**31 - 1, -(2**31), 5, -1], dtype=torch.int32),),
    ),
    "overflow of int64": static(
        lambda x: (x + 1, x * 3, -x, x.abs(), x - 2, x // 7, x % 1000003),
        lambda n: (tensor([2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1]),),
    ),
    "overflow of int8": static(
        lambda x: (x + 100, x * 2, -x, x.abs(), x.square(), x - 1),
        lambda n: (tensor([127, -128, 100, -1, 0], dtype=torch.int8),),
    ),
    "overflow of uint8": static(
        lambda x: (x + 100, x * 2, -x, x - 1, ~x, x.sum(), x.square()),
        lambda n: (tensor([255, 0, 100, 1], dtype=torch.uint8),),
    ),
    "large integers compared": static(
        lambda x, y: (x == y, x < y, x.maximum(y), torch.where(x > y, x, y)),
        lambda n: (tensor([2**53, 2**62, -(2**62)]), tensor([2**53 + 1, 2**62 + 1, -(2**62) + 1])),
    ),
    "large integers against a float": static(
        lambda x: (x == 2.0**53, x > 9007199254740992.0, x * 1.0),
        lambda n: (tensor([2**53, 2**53 + 1, 2**53 - 1]),),
    ),
    "rounding": static(
        lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.fix()), _edges
    ),
    "rounding to decimals": static(
        lambda x: (x.round(decimals=2), x.round(decimals=-1), x.round(decimals=0)),
        lambda n: (torch.randn(n, 3) * 100,),
    ),
    "rounding of integers": static(
        lambda x: (x.round(), x.floor(), x.ceil(), x.trunc()), _ints(-50, 50)
    ),
    "rounding of integers to decimals error": static(lambda x: x.round(decimals=-1), _ints(0, 9)),
    "signs": static(
        lambda x: (x.sign(), x.sgn(), x.signbit(), (-x).signbit(), x.copysign(tensor(-0.0))), _edges
    ),
    "signs of integers": static(
        lambda x: (x.sign(), x.signbit(), x.abs(), torch.copysign(x, -1.0)), _ints(-3, 3)
    ),
    "signs of booleans": static(
        lambda x: (x.sign(), x.signbit(), x.logical_not()), lambda n: (tensor([True, False]),)
    ),
    "copysign": train(
        lambda x, y: (x.copysign(y), torch.copysign(x, 2.0), x.copysign(-0.0)), two_matrices
    ),
    "exponentials": static(
        lambda x: (x.exp(), x.exp2(), x.expm1(), x.sigmoid(), x.tanh(), F.softplus(x)), _edges
    ),
    "logarithms": static(
        lambda x: (x.log(), x.log2(), x.log10(), x.log1p(), F.logsigmoid(x), x.logit(0.1)), _edges
    ),
    "tiny arguments": static(
        lambda x: (x.expm1(), x.log1p(), x.sin(), x.tanh(), x.asinh(), x.atanh()),
        lambda n: (torch.arange(-6, 7) * 1e-6,),
    ),
    "roots": static(lambda x: (x.sqrt(), x.rsqrt(), x.reciprocal(), x.square()), _edges),
    "trigonometry": train(
        lambda x: (x.sin(), x.cos(), x.tan(), x.atan(), x.sinh(), x.cosh(), x.tanh(), x.asinh()),
        matrix,
    ),
    "trigonometry at the edges": static(
        lambda x: (x.asin(), x.acos(), x.atan(), x.acosh(), x.atanh(), x.sinh(), x.cosh()), _edges
    ),
    "sin of large numbers": static(
        lambda x: (x.sin(), x.cos()), lambda n: (tensor([1e3, 1e4, 1e5, -3e4]),)
    ),
    "atan2": static(torch.atan2, _edge_pairs),
    "hypot": static(torch.hypot, _edge_pairs),
    "hypot and atan2 in training": train(
        lambda x, y: torch.hypot(x, y) + torch.atan2(x, y), two_matrices
    ),
    "logaddexp": static(lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)), _edge_pairs),
    "logaddexp in training": train(
        lambda x, y: torch.logaddexp(x, y) + torch.logaddexp2(x, y), two_matrices
    ),
    "sinc": train(torch.sinc, lambda n: (torch.cat([torch.zeros(1), torch.randn(n)]),)),
    "xlogy": static(lambda x, y: (torch.xlogy(x, y), torch.special.xlog1py(x, y)), _edge_pairs),
    "xlogy with scalars": static(lambda x: (torch.xlogy(0, x), torch.xlogy(x, 2)), _edges),
    "error functions": train(
        lambda x: (x.erf(), x.erfc(), (x.tanh() * 0.9).erfinv(), torch.special.erfcx(x)), matrix
    ),
    "erfinv at the edges": static(torch.erfinv, lambda n: (tensor([-1, 1, 1.5, 0, NAN, 0.999]),)),
    "gamma functions": train(
        lambda x: (x.lgamma(), x.digamma()), lambda n: (torch.rand(n, 3) * 5 + 0.1,)
    ),
    "gamma functions of negatives": static(
        lambda x: (x.lgamma(), x.digamma()), lambda n: (tensor([-0.5, -1.5, -2.25, 0.0, INF]),)
    ),
    "polygamma and zeta": static(
        lambda x: (torch.polygamma(1, x), torch.polygamma(3, x), torch.special.zeta(x + 1.5, x)),
        lambda n: (torch.rand(n, 3) * 5 + 0.1,),
    ),
    "bessel functions": static(
        lambda x: (torch.special.i0(x), torch.special.i1e(x), torch.special.bessel_j0(x)), matrix
    ),
    "normal distribution": train(
        lambda x: (torch.special.ndtr(x), torch.special.log_ndtr(x)), matrix
    ),
    "entropy": static(torch.special.entr, _edges),
    "isfinite and relatives": static(
        lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.isposinf(), x.isneginf(), x.isreal()),
        _edges,
    ),
    "isfinite of integers": static(
        lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.isposinf()), _ints(-3, 3)
    ),
    "nan_to_num": static(
        lambda x: (x.nan_to_num(), x.nan_to_num(1.0, 2.0, -2.0), x.nan_to_num(posinf=7)), _edges
    ),
    "nan_to_num of float16": static(
        lambda x: (x.nan_to_num(), x.nan_to_num(1.0, 2.0, -2.0)), lambda n: (_edges(n)[0].half(),)
    ),
    "maximum and minimum": static(
        lambda x, y: (x.maximum(y), x.minimum(y), x.fmax(y), x.fmin(y)), _edge_pairs
    ),
    "maximum in training": train(
        lambda x, y: (x.maximum(y), torch.minimum(x, y.round()), x.fmax(y)), two_matrices
    ),
    "maximum of equal numbers": train(
        lambda x: (x.maximum(x * 1), x.clamp(min=x), x.relu().maximum(tensor(0.0))), matrix
    ),
    "clamp": every(
        lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.1), x.clamp(0.5, -0.5)), matrix
    ),
    "clamp at the edges": static(
        lambda x: (x.clamp(-1, 1), x.clamp(min=-INF), x.clamp(max=NAN), x.clamp_min(2)), _edges
    ),
    "clamp with tensors": train(
        lambda x, lo: (x.clamp(lo, lo + 1), x.clamp(min=lo), x.clamp(max=lo[0])), two_matrices
    ),
    "clamp of integers by floats": static(
        lambda x: (x.clamp(-1.5, 2.5), x.clamp(-1, 2), x.clamp(max=0.0)), _ints(-5, 5)
    ),
    "clamp of uint8": static(lambda x: (x.clamp(3, 9), x.clamp(max=4)), _ints(0, 20, torch.uint8)),
    "clamp without bounds error": static(lambda x: x.clamp(), matrix),
    "where": every(
        lambda x, y: (torch.where(x > y, x, y), torch.where(x > 0, x, 0.0), x.where(x < 0, -1)),
        two_matrices,
    ),
    "where with nan in the other branch": train(
        lambda x: torch.where(x > 0, x.clamp(min=1e-3).sqrt(), x.square()), matrix
    ),
    "where of scalars": static(
        lambda x: (
            torch.where(x > 0, 1, 0),
            torch.where(x > 0, 1.0, 0),
            torch.where(x > 0, True, False),
        ),
        matrix,
    ),
    "where broadcasts the condition": dynamic(
        lambda c, x: torch.where(c[:, None], x, x[0]),
        lambda n: (torch.arange(n) % 2 == 0, *matrix(n)),
    ),
    "lerp": every(
        lambda x, y: (x.lerp(y, 0.25), x.lerp(y, 0.75), torch.lerp(x, y, y.sigmoid())), two_matrices
    ),
    "addcmul and addcdiv": every(
        lambda x, y: (x.addcmul(x, y, value=2), x.addcdiv(y, x.abs() + 1, value=-0.5)), two_matrices
    ),
    "addcmul of integers": static(
        lambda x, y: x.addcmul(x, y, value=2), _ints(-5, 5, torch.int64, torch.int64)
    ),
    "addcdiv of integers error": static(
        lambda x, y: x.addcdiv(x, y), _ints(1, 5, torch.int64, torch.int64)
    ),
    "activations": every(
        lambda x: (
            F.relu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.mish(x),
            F.elu(x),
            F.selu(x),
            F.celu(x, 0.5),
            F.leaky_relu(x, 0.2),
            F.softsign(x),
            F.tanhshrink(x),
        ),
        matrix,
    ),
    "hard activations": every(
        lambda x: (
            F.hardtanh(x * 2),
            F.hardsigmoid(x * 3),
            F.hardswish(x * 3),
            F.relu6(x * 5),
            F.hardshrink(x, 0.4),
            F.softshrink(x, 0.3),
            F.threshold(x, 0.1, 20.0),
        ),
        matrix,
    ),
    "activations at the edges": static(
        lambda x: (
            F.relu(x),
            F.silu(x),
            F.mish(x),
            F.elu(x),
            F.hardtanh(x),
            F.relu6(x),
            F.hardsigmoid(x),
            F.softsign(x),
            F.hardshrink(x),
            F.threshold(x, 0, 1),
        ),
        _edges,
    ),
    "gelu and hardswish of large numbers": static(
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.hardswish(x), F.selu(x), F.celu(x)),
        lambda n: (tensor([NAN, 0.0, -0.0, 100.0, -100.0, 1e4, -1e4, 3.0, -3.0, 1e-30]),),
    ),
    "softplus with a threshold": train(
        lambda x: (F.softplus(x * 10, 2.0, 5.0), F.softplus(x, beta=0.5)), matrix
    ),
    "prelu and glu": train(
        lambda x, w: (F.prelu(x, w), F.glu(torch.cat([x, x * 2], 1))),
        lambda n: (torch.randn(n, 3), torch.rand(3)),
    ),
    "comparisons": static(lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), _edge_pairs),
    "comparisons of mixed dtypes": static(
        lambda x: (x > 1, x >= 0.5, x == 1.0, x != x.float(), x.bool() > 0, x < x.half() + 0.5),
        _ints(-2, 3),
    ),
    "isclose": static(
        lambda x, y: (torch.isclose(x, y), torch.isclose(x, y, equal_nan=True, atol=0.5)),
        _edge_pairs,
    ),
    "logic": static(
        lambda x, y: (
            x.logical_and(y),
            x.logical_or(y),
            x.logical_xor(y),
            x.logical_not(),
            ~(x > y),
            (x > 0) & (y > 0),
            (x > 0) ^ (y > 0),
            (x > 0) | (y > 0),
        ),
        lambda n: (tensor([0.0, -0.0, NAN, 1.0, -2.0])[:, None], tensor([0.0, 3.0, NAN])),
    ),
    "bits": static(
        lambda x, y: (x & y, x | y, x ^ y, ~x, x & 3, 5 | x, x << 2, x >> 1),
        _ints(-(2**30), 2**30, torch.int32, torch.int32),
    ),
    "bits of int64": static(
        lambda x, y: (x & y, x | y, x ^ y, ~x, x >> 40, x << 20),
        lambda n: (tensor([2**62 + 3, -(2**62) - 5, -1]), tensor([2**61 + 1, 7, 2**33])),
    ),
    "bits of uint8": static(
        lambda x, y: (x & y, x | y, x ^ y, ~x, x << 3, x >> 2),
        _ints(0, 256, torch.uint8, torch.uint8),
    ),
    "bits of booleans": static(
        lambda x: (x & ~x, x | True, x ^ True, ~x, x * x, x + x, x.float() - 1),
        lambda n: (tensor([True, False, True]),),
    ),
    "subtraction of booleans error": static(lambda x: x - x, lambda n: (tensor([True, False]),)),
    "negation of booleans error": static(lambda x: -x, lambda n: (tensor([True, False]),)),
    "shifts by tensors": static(
        lambda x, s: (x << s, x >> s, torch.bitwise_left_shift(x, 3)),
        lambda n: (tensor([1, -1, 7, -100]), tensor([0, 1, 5, 31])),
    ),
    "gcd and lcm": static(
        lambda x, y: (x.gcd(y), x.lcm(y)), lambda n: (torch.arange(-6, 7)[:, None], torch.arange(5))
    ),
    "nextafter": static(torch.nextafter, lambda n: (tensor([0.0, 1.0, -1.0]), tensor(2.0))),
    "frexp": static(torch.frexp, lambda n: (tensor([0.0, 1.0, -3.0, 1e-3, 1e10]),)),
    "ldexp": static(lambda x, e: torch.ldexp(x, e), lambda n: (torch.randn(3), tensor([0, 3, -2]))),
    "heaviside": static(torch.heaviside, lambda n: (tensor([-1.0, 0.0, 2.0, NAN]), tensor(0.5))),
    "deg2rad and rad2deg": train(lambda x: (x.deg2rad(), x.rad2deg()), matrix),
    "deg2rad of integers": static(lambda x: (x.deg2rad(), x.rad2deg()), _ints(-180, 180)),
    "functions of integers": static(
        lambda x: (x.exp(), x.sqrt(), x.log1p(), x.expm1(), x.sin(), x.sigmoid(), x.reciprocal()),
        _ints(0, 5),
    ),
    "functions of booleans": static(
        lambda x: (x.exp(), x.sqrt(), x.cos(), x.sigmoid(), x + 0.5, x * 3, x.square()),
        lambda n: (tensor([True, False]),),
    ),
    "long chain": every(
        lambda x, y: ((x * y + 1).tanh() * x.sigmoid() - y.exp().log1p()).relu().sqrt().sin(),
        lambda n: (torch.rand(n, 3) + 1, torch.rand(n, 3) + 1),
    ),
    "same expression twice": train(lambda x: (x.exp() + 1, x.exp() * 2, x.exp().sum()), matrix),
    "many results of one": static(lambda x: [x * i for i in range(20)], matrix),
    "many inputs": static(lambda *xs: sum(xs), lambda n: tuple(torch.randn(n) for _ in range(30))),
    "horner": train(
        lambda x: (((0.5 * x + 1) * x - 2) * x + 3) * x - 4, lambda n: (torch.randn(n, 2, 2),)
    ),
    "broadcast of three": every(
        lambda x, y, z: x * y + z,
        lambda n: (torch.randn(n, 1, 1), torch.randn(1, 3, 1), torch.randn(1, 1, 2)),
    ),
    "broadcast with a size of 0": static(
        lambda x, y: (x + y, x * 2, (x + y).sum()), lambda n: (torch.randn(n, 0), torch.randn(n, 1))
    ),
    "broadcast error": static(lambda x, y: x + y, lambda n: (torch.randn(n, 3), torch.randn(n, 2))),
    "zero dimensions": train(
        lambda x, y: (x + y, x * 2, x.exp(), x.clamp(0, 1)), lambda n: (tensor(1.5), tensor(-2.0))
    ),
    "constants without inputs": static(
        lambda: (torch.ones(2) + torch.arange(2), torch.full((2, 2), 3.14), torch.eye(2)),
        lambda n: (),
    ),
    "subnormal results": static(
        lambda x: (x * 1e-30, x / 1e30), lambda n: (tensor([1e-10, 3e-9]),)
    ),
}
