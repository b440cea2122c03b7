"""Integers, bits, dtypes, casts, Python's numbers, 0-d and empty tensors."""

from __future__ import annotations

import math

import torch

from . import Program, bools, ints, normal, special

_NONZERO_INTS = [-7, -3, -2, -1, 1, 2, 3, 7]


def _int_grid(n):
    values = torch.tensor(_NONZERO_INTS + list(range(1, n)))
    return values[:, None], values[None, :]


def _ints_of(dtype):
    return lambda n: (ints(100, n, low=-100).to(dtype), ints(50, n, low=1).to(dtype))


_INTEGER_OPERATORS = [
    "add", "sub", "mul", "floor_divide", "remainder", "fmod", "maximum", "minimum", "gcd",
    "lcm",
]  # fmt: skip
_BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
_DTYPES = [
    "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "bool",
]  # fmt: skip


def _cast_all(x):
    return [x.to(getattr(torch, dtype)) for dtype in _DTYPES if dtype != "bool"]


PROGRAMS = {
    **{f"{name} of int pairs": (getattr(torch, name), _int_grid) for name in _INTEGER_OPERATORS},
    **{
        f"{name} of {kind}": (getattr(torch, name), _ints_of(getattr(torch, kind)))
        for name, kind in (
            ("floor_divide", "int32"),
            ("remainder", "int16"),
            ("div", "int64"),
            ("mul", "int8"),
            ("add", "uint8"),
            ("sub", "int32"),
            ("fmod", "int8"),
            ("true_divide", "uint8"),
        )
    },
    **{name: (getattr(torch, name), _ints_of(torch.int64)) for name in _BITWISE},
    **{f"{name} of uint8": (getattr(torch, name), _ints_of(torch.uint8)) for name in _BITWISE},
    **{
        f"{name} of bool": (getattr(torch, name), lambda n: (bools(n), bools(n, seed=1)))
        for name in _BITWISE
    },
    "bitwise not": (lambda a, b: (~a, ~b), lambda n: (ints(9, n), bools(n))),
    "shifts": (lambda a, b: (a << b, a >> b), lambda n: (ints(99, n, low=-99), ints(8, n))),
    "div modes of ints": (
        lambda a, b: (
            torch.div(a, b, rounding_mode="floor"),
            torch.div(a, b, rounding_mode="trunc"),
        ),
        _int_grid,
    ),
    "python divisions": (
        lambda x: (x // 3, x % 3, x // -3, x % -3, x / 3),
        lambda n: (ints(20, n, low=-20),),
    ),
    "int times float": (lambda x: x * 2.5, lambda n: (ints(9, n),)),
    "int pow": (lambda x: (x**2, x**3, 2 ** x.abs()), lambda n: (ints(9, n, low=-9),)),
    "bool plus": (
        lambda a, b: (a + b, a * b, a.float() - b.float()),
        lambda n: (bools(n), bools(n, seed=2)),
    ),
    "bool plus int": (lambda a, b: a + b, lambda n: (bools(n), ints(9, n))),
    "big ints": (
        lambda x: (x + 1, x * 1, x - 3, x // 2, x % 7, -x),
        lambda n: (ints(9, n) + (1 << 53),),
    ),
    "casts of floats": Program(_cast_all, lambda n: (ints(100, n).float() + 0.5,)),
    "casts of ints": (_cast_all, lambda n: (ints(100, n),)),
    "casts of bools": (_cast_all, lambda n: (bools(n),)),
    "to bool": (lambda x: (x.bool(), x.long().bool()), lambda n: (normal(n),)),
    "promotion": (
        lambda a, b, c: (a + b, a + c, b * c, a + 1.5, torch.cat([a, b])),
        lambda n: (ints(9, n).int(), normal(n), normal(n).double()),
    ),
    "half plus number": (lambda x: x * 3 + 0.1, lambda n: (normal(n).half(),)),
    "bfloat16 chain": (
        lambda x: (x * 2 + 1).relu() - x,
        lambda n: (normal(n).bfloat16(),),
    ),
    "0-d promotes less": (lambda x, s: x + s, lambda n: (normal(n), torch.tensor(2.0).double())),
    "0-d int and float": (lambda x, s: x * s, lambda n: (ints(9, n), torch.tensor(2.5))),
    "0-d alone": (
        lambda s: (s + 1, s.exp(), s.reshape(1), s.expand(3)),
        lambda n: (torch.tensor(1.5),),
    ),
    "empty": (
        lambda x: (x + 1, x.sum(), x.sum(1), x.mean(1), torch.cat([x, x])),
        lambda n: (torch.zeros(n, 0),),
    ),
    "empty rows": (lambda x: (x @ x.t(), x.relu(), x.prod(0)), lambda n: (torch.zeros(0, n),)),
    "factories": (
        lambda x: (
            torch.zeros_like(x),
            torch.ones(x.shape[0]),
            torch.full_like(x, 2),
            torch.full((x.shape[0], 2), 7),
            torch.eye(x.shape[0]),
            x.new_zeros(3),
            torch.arange(x.shape[0]),
            torch.arange(1, 2 * x.shape[0], 2),
        ),
        lambda n: (normal(n),),
    ),
    "float aranges": (
        lambda x: (
            torch.arange(0.0, x.shape[0], 0.5),
            torch.arange(x.shape[0], -x.shape[0], -1.0),
            torch.arange(0, 1, 1 / x.shape[0]),
            torch.linspace(0, 1, x.shape[0]),
        ),
        lambda n: (normal(n),),
    ),
    "logspace": (lambda x: x + torch.logspace(0, 2, 5), lambda n: (normal(n, 5),)),
    "sizes as numbers": (
        lambda x: x * x.shape[0] + x.numel() / 2 - x.shape[0] // 2 + x.shape[0] % 3,
        lambda n: (normal(n, 2),),
    ),
    "roots of sizes": (
        lambda x: (
            x / math.sqrt(x.shape[0]) + round(x.shape[0] / 2 * 1.5, 1) + round(x.shape[0] / 3)
        ),
        lambda n: (normal(n),),
    ),
    "int argument": (lambda x, k: (x * k, x + k, x[:k]), lambda n: (normal(8), n)),
    "float argument": (lambda x, k: (x * k, x + k), lambda n: (normal(8), n / 4)),
    "number results": (
        lambda x: (x.shape[0], x.shape[0] + 1, x.numel() * 0.5, x * 2),
        lambda n: (normal(n),),
    ),
    "item": Program(
        lambda x: x * x.max().item(),
        lambda n: (normal(n),),
        train=False,
        patches=("capture_scalar_outputs",),
    ),
    "bits of a float": Program(lambda x: x.view(torch.int32), lambda n: (special(n),), train=False),
    "constant tensor": (lambda x: x + torch.tensor([1.0, 2.0, 3.0]), lambda n: (normal(n, 3),)),
    "scalar tensor": (lambda x: x * torch.tensor(2.5) + torch.tensor(3), lambda n: (normal(n),)),
    "sum of ints": (
        lambda x: (x.sum(), x.sum(0), x.prod(0), x.cumsum(0)),
        lambda n: (ints(9, n, 3),),
    ),
    "isin": (torch.isin, lambda n: (ints(9, n), torch.tensor([1, 3, 5]))),
    "float to int corner": (
        lambda x: x.clamp(-1e6, 1e6).nan_to_num().int(),
        lambda n: (special(n),),
    ),
    "equal": (lambda a, b: (a == b).all(), lambda n: (normal(n), normal(n))),
    "complex parts": Program(
        lambda a, b: torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)),
        lambda n: (normal(n), normal(n, seed=1)),
    ),
    "complex functions": Program(
        lambda a, b: (
            torch.complex(a, b).abs(),
            torch.complex(a, b).angle(),
            torch.complex(a, b).exp().real,
            torch.complex(a, b).conj().imag,
        ),
        lambda n: (normal(n), normal(n, seed=1)),
    ),
    "polar": (lambda a, b: torch.polar(a, b).real, lambda n: (normal(n).abs(), normal(n, seed=1))),
}
