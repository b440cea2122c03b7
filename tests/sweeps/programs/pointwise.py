"""Elementwise functions, also at special numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, bools, ints, normal, positive, special

_UNARY = [
    "abs", "ceil", "floor", "round", "trunc", "frac", "sign", "sgn", "signbit", "neg", "exp",
    "exp2", "expm1", "sqrt", "rsqrt", "square", "reciprocal", "sigmoid", "tanh", "sinh", "cosh",
    "asinh", "sin", "cos", "tan", "atan", "erf", "erfc", "relu", "isnan", "isinf", "isfinite",
    "isneginf", "isposinf", "nan_to_num", "log", "log2", "log10", "log1p", "logit", "acos",
    "asin", "acosh", "atanh", "lgamma", "digamma", "erfinv", "positive",
]  # fmt: skip
_ACTIVATIONS = [
    "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
    "tanhshrink", "hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "logsigmoid",
    "softshrink", "hardshrink",
]  # fmt: skip
# torch's decomposition of the gradient has another sign at poles
_OTHER_SIGN = ("lgamma",)
# in torch, the gradient at NaN is 0 in vectorized code and passes through in scalar code;
# for elu, selu and celu it is NaN in AVX2 code and passes through elsewhere
_NAN_GRADIENT_VARIES = (
    *("relu6", "hardtanh", "hardshrink", "softshrink", "hardswish", "hardsigmoid"),
    *("elu", "selu", "celu"),
)
_BINARY = [
    "add", "sub", "mul", "div", "atan2", "fmod", "remainder", "maximum", "minimum", "fmax",
    "fmin", "hypot", "copysign",
]  # fmt: skip
_COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def _pairs(n):
    left = special(n)
    return left, torch.roll(left, 5)


def _grid(n):
    return special(n)[:, None], special(n)[None, :]


def _midrange(n):
    # torch's vectorized code, unlike its scalar code, overflows or gives NaN near the range limits
    x = special(n)
    return x[x.isnan() | x.isinf() | (x == 0) | ((x.abs() > 1e-20) & (x.abs() < 1e20))]


def _midrange_grid(n):
    return _midrange(n)[:, None], _midrange(n)[None, :]


PROGRAMS = {
    **{
        name: Program(getattr(torch, name), lambda n: (special(n),), train=name not in _OTHER_SIGN)
        for name in _UNARY
    },
    **{
        f"F.{name}": Program(
            getattr(F, name), lambda n: (special(n),), train=name not in _NAN_GRADIENT_VARIES
        )
        for name in _ACTIVATIONS
    },
    **{
        f"F.{name} trained": (getattr(F, name), lambda n: (normal(n, 3),))
        for name in _NAN_GRADIENT_VARIES
    },
    # eager's float32 kernel gives NaN at infinity, its float64 and tanh kernels give infinity
    "F.gelu": (F.gelu, lambda n: (_midrange(n)[_midrange(n) != torch.inf],)),
    "F.hardswish": Program(F.hardswish, lambda n: (_midrange(n),), train=False),
    **{f"{name} of all pairs": (getattr(torch, name), _grid) for name in (*_BINARY, *_COMPARISONS)},
    "fmod of all pairs": (torch.fmod, _midrange_grid),
    "remainder of all pairs": (torch.remainder, _midrange_grid),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda n: (special(n),)),
    "clamp both": (lambda x: x.clamp(-1, 1), lambda n: (special(n),)),
    "clamp low": (lambda x: x.clamp(min=0.5), lambda n: (special(n),)),
    "clamp high": (lambda x: x.clamp(max=0.5), lambda n: (special(n),)),
    "clamp crossed": (lambda x: x.clamp(2, -2), lambda n: (special(n),)),
    "clamp by tensors": (torch.clamp, lambda n: (normal(n), normal(n, seed=1), normal(n, seed=2))),
    "clamp ints": (lambda x: x.clamp(-2, 3), lambda n: (ints(9, n, low=-9),)),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), _grid),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), _grid),
    "floor divide": Program(torch.floor_divide, _grid, train=False),
    "pow of all pairs": Program(torch.pow, _grid, train=False),
    "pow 0.5": (lambda x: x**0.5, lambda n: (special(n),)),
    "pow -0.5": (lambda x: x**-0.5, lambda n: (special(n),)),
    "pow 2": (lambda x: x**2, lambda n: (special(n),)),
    "pow 3": (lambda x: x**3, lambda n: (special(n),)),
    "pow 0": (lambda x: x**0, lambda n: (special(n),)),
    "pow -1": (lambda x: x**-1, lambda n: (special(n),)),
    "2 to x": (lambda x: 2**x, lambda n: (special(n),)),
    "xlogy": (torch.xlogy, lambda n: (positive(n), positive(n, seed=1))),
    "logaddexp": (torch.logaddexp, _pairs),
    "logaddexp2": (torch.logaddexp2, _pairs),
    "nextafter": (torch.nextafter, _pairs),
    "heaviside": Program(torch.heaviside, _pairs, train=False),
    "isclose": (torch.isclose, _pairs),
    "lerp": (torch.lerp, lambda n: (normal(n), normal(n, seed=1), positive(n))),
    "lerp number": (lambda a, b: torch.lerp(a, b, 0.3), lambda n: (normal(n), normal(n, seed=1))),
    "addcmul": (
        lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
        lambda n: (normal(n), normal(n, seed=1), normal(n, seed=2)),
    ),
    "addcdiv": (
        lambda a, b, c: torch.addcdiv(a, b, c, value=-2),
        lambda n: (normal(n), normal(n, seed=1), positive(n)),
    ),
    "add alpha": (lambda a, b: torch.add(a, b, alpha=2.5), _pairs),
    "rsub": (lambda x: 3 - x, lambda n: (special(n),)),
    "rdiv": (lambda x: 3 / x, lambda n: (special(n),)),
    "nan_to_num given": (
        lambda x: torch.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0),
        lambda n: (special(n),),
    ),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), lambda n: (special(n),)),
    "softplus beta": (
        lambda x: F.softplus(x, beta=2.0, threshold=5.0),
        lambda n: (special(n),),
    ),
    "prelu": (F.prelu, lambda n: (normal(2, 3, n), positive(3))),
    "glu": (F.glu, lambda n: (normal(n, 6),)),
    "rrelu eval": (lambda x: F.rrelu(x), lambda n: (special(n),)),
    "where": (torch.where, lambda n: (bools(n), special(n)[:n], normal(n))),
    "where number": (lambda c, x: torch.where(c, x, 2.0), lambda n: (bools(n), normal(n))),
    "where hides nan": (
        lambda x: torch.where(x > 0, torch.log(x), torch.zeros_like(x)),
        lambda n: (normal(n),),
    ),
    "masked fill": (
        lambda x, m: x.masked_fill(m, -torch.inf),
        lambda n: (normal(n), bools(n)),
    ),
    "polygamma": Program(lambda x: torch.polygamma(1, x), lambda n: (positive(n),), train=False),
    "i0": (torch.special.i0, lambda n: (normal(n),)),
    "i1e": (torch.special.i1e, lambda n: (normal(n),)),
    "ndtr": (torch.special.ndtr, lambda n: (special(n),)),
    "ndtri": (torch.special.ndtri, lambda n: (positive(n) * 0.8,)),
    "log_ndtr": (torch.special.log_ndtr, lambda n: (normal(n),)),
    "sinc": (torch.sinc, lambda n: (special(n),)),
    "entr": (torch.special.entr, lambda n: (positive(n),)),
    "zeta": Program(torch.special.zeta, lambda n: (positive(n) + 1, positive(n)), train=False),
    "frexp": Program(lambda x: torch.frexp(x), lambda n: (special(n),), train=False),
    "ldexp": (torch.ldexp, lambda n: (normal(n), ints(5, n))),
    "logical": (
        lambda a, b: (a.logical_and(b), a.logical_or(b), a.logical_xor(b), a.logical_not()),
        lambda n: (special(n), special(n).roll(3)),
    ),
    "chain": (
        lambda x: torch.tanh(x.sin() * 2 + x.exp().log1p()) / (1 + x * x),
        lambda n: (normal(n, n),),
    ),
    "channels last": (
        lambda x: (x * 2).relu() + 1,
        lambda n: (normal(2, n, 3, 4).to(memory_format=torch.channels_last),),
    ),
    "transposed": (lambda x: (x.t() + 1).exp(), lambda n: (normal(n, 3),)),
    "expanded": (lambda x: x.expand(4, -1).sin(), lambda n: (normal(1, n),)),
}
