# ruff: noqa: E501  (tables: a row is read as one line)
"""Programs whose graphs could contain a pattern that an optimizer of ONNX Runtime breaks.

Each is exported and compared with eager, with all optimizers and without any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

import ortable
from tests.optimizers.harness import session_of


@dataclass(frozen=True)
class Program:
    """A function of tensors, its arguments for export, and arguments for further calls.

    ``dynamic``: names of dimensions for each argument; ``tolerance`` is relative to the largest
    value, and 0 means equal to the bit.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    dynamic: tuple[Any, ...] | None = None
    calls: tuple[tuple[Any, ...], ...] = ()
    tolerance: float = 0.0
    absent: tuple[str, ...] = field(default=())


class _FunctionModule(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function


class _OneInput(_FunctionModule):
    def forward(self, x: Any) -> Any:
        return self.function(x)


class _TwoInputs(_FunctionModule):
    def forward(self, x: Any, z: Any) -> Any:
        return self.function(x, z)


def exported(program: Program) -> onnx.ModelProto:
    """Export a program."""
    module = (_OneInput, _TwoInputs)[len(program.args) - 1](program.function)
    return ortable.to_onnx(module, program.args, dynamic_shapes=program.dynamic)


def check_program(program: Program) -> None:
    """Check that sessions with and without optimizers equal eager."""
    model = exported(program)
    ops = {node.op_type for node in model.graph.node}
    assert not ops & set(program.absent), ops
    sessions = [session_of(model, "DISABLE_ALL"), session_of(model, "ENABLE_ALL")]
    for args in (program.args, *program.calls):
        with torch.no_grad():
            expected = program.function(*args).numpy()
        for session in sessions:
            names = [value.name for value in session.get_inputs()]
            feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
            _assert_equal(session.run(None, feeds)[0], expected, program)


def _assert_equal(actual: Any, expected: Any, program: Program) -> None:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, program.name
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite], program.name)
    scale = np.abs(expected[finite]).max(initial=0)
    np.testing.assert_allclose(
        actual[finite], expected[finite], 0, program.tolerance * scale, err_msg=program.name
    )
    if expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


# a separate generator, because other modules draw numbers while they are imported, too
r = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0))
DOUBLE = torch.float64
X, IMAGE = r(5, 3), -r(1, 3, 6, 6).abs() - 1
ROWS = {"dynamic": ({0: "n"},), "calls": ((r(7, 3),), (r(3, 3),))}
SIDES = {"dynamic": ({1: "h", 2: "w"},), "calls": ((r(2, 8, 5, 3),),)}
CHANNELS_LAST = r(2, 6, 6, 3)
ORDERS = (
    Program("reversed", lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], (X,), **ROWS),
    Program("from -n", lambda x: x[torch.arange(-x.shape[0], 0)], (X,), **ROWS),
    Program("up", lambda x: x[torch.arange(1, x.shape[0])], (X,), **ROWS),
    Program(
        "by -2", lambda x: x[torch.arange(x.shape[0] - 1, -1, -2)], (X,),
        ({0: torch.export.Dim("n", min=3)},), ROWS["calls"],
    ),
    Program("index_select", lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1)), (X,), **ROWS),
    Program("take", lambda x: torch.take(x, torch.arange(-x.shape[0], 0)), (X,), **ROWS),
    Program("embedding", lambda x: F.embedding(torch.arange(x.shape[0] - 1, -1, -1), x), (X,), **ROWS),
    Program("columns", lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)], (X,), ({1: "n"},), ((r(5, 4),),)),
)  # fmt: skip


def _to_channels_first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


PADS = tuple(
    Program(name, function, (CHANNELS_LAST,), absent=("CenterCropPad",), **SIDES)
    for name, function in (
        ("pad", lambda x: F.pad(_to_channels_first(x), (1, 2, 3, 1))),
        ("pad one axis", lambda x: F.pad(_to_channels_first(x), (1, 1), value=2.0)),
        ("reflect", lambda x: F.pad(_to_channels_first(x), (1, 2, 3, 1), mode="reflect")),
        ("replicate", lambda x: F.pad(_to_channels_first(x), (1, 2, 3, 1), mode="replicate")),
        ("circular", lambda x: F.pad(_to_channels_first(x), (1, 2, 3, 1), mode="circular")),
        ("unfold", lambda x: F.unfold(_to_channels_first(x), (3, 3), padding=1)),
        ("unknown amount", lambda x: F.pad(_to_channels_first(x), (0, x.shape[1]))),
        ("interpolate", lambda x: F.interpolate(_to_channels_first(x), scale_factor=2)),
    )
)  # fmt: skip
POOLS = (
    Program("zeros, maximum", nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3, 2)), (IMAGE,)),
    Program("zeros, padded maximum", nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3, 2, padding=1)), (IMAGE,)),
    Program("zeros, place of the maximum", lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, return_indices=True)[1], (IMAGE,)),
    Program("zeros, mean", lambda x: F.avg_pool2d(F.pad(x, (4, 4, 4, 4)), 2), (IMAGE,), tolerance=1e-6),
    Program("infinite factor", lambda x: F.conv2d(x, torch.tensor([[[[0.0, 1.0]]]])) * float("inf"), (r(1, 1, 3, 3).abs(),)),
    Program("large factor", lambda x: F.conv2d(x, torch.full((1, 1, 1, 2), 10.0)) * 1e38, (r(1, 1, 3, 3).abs() * 0.1,), tolerance=1e-6),
)  # fmt: skip
INTS = (torch.tensor([1, 2, 3, -2]), torch.tensor([6, 12, 18, -6]))
TINY = (torch.tensor([1e-39, 2, 0.0, float("inf")]), torch.tensor([1e-39, 2, 0.0, 1]))
SIGNED = torch.tensor([0.0, -0.0, 1, -1, float("nan")])
NUMBERS = (
    Program("integer quotient", lambda x, z: torch.div(1, x, rounding_mode="trunc") * z, INTS),
    Program("reciprocal", lambda x, z: torch.div(1.0, x) * z, TINY),
    Program("reciprocal of more axes", lambda x, z: torch.ones(1, 1) / x * z, TINY),
    Program("plus zero", lambda x: (-x + 0.0) * 2, (SIGNED,)),
    Program("minus -0.0", lambda x: -(-x - -0.0), (SIGNED,)),
    Program("Relu, bound of float64", lambda x: F.relu(x).clamp(min=1), (r(6, dtype=DOUBLE) * 3,)),
    Program("Relu, bounds of float64", lambda x: F.relu(x).clamp(0.1, 1), (r(6, dtype=DOUBLE) * 3,)),
    Program("nearly 1", lambda x: -((-x) * (1 + 1e-9)), (r(5, dtype=DOUBLE),), tolerance=1e-15),
    Program("over nearly 1", lambda x: -((-x) / (1 + 1e-9)), (r(5, dtype=DOUBLE),), tolerance=1e-15),
    Program("nearly 0", lambda x: -(-x + 1e-300), (torch.tensor([1e-300, 1], dtype=DOUBLE),)),
    Program("not of both", lambda x: torch.where(~(x > 0), -x, x) + 1, (SIGNED,)),
    Program("draws", lambda x: (torch.bernoulli(x) != torch.bernoulli(x)).any(), (torch.full((256,), 0.5),)),
    Program("dropout", lambda x: (F.dropout(x, 0.5, True) == 0).any(), (torch.ones(256),)),
)  # fmt: skip
WIDE = r(1, 2, 3, 5, dtype=DOUBLE)
SCALE = torch.arange(1.0, 5)


def _normalize(x: Any, power: int = 2) -> Any:
    centered = x - x.mean(-1, keepdim=True)
    deviation = torch.sqrt((centered**power).mean(-1, keepdim=True) + 1e-6)
    return centered / deviation * SCALE.to(x.dtype) + torch.ones(4, dtype=x.dtype)


PRODUCTS = (
    Program("scaled scores", lambda x: (x @ x.mT) * 0.1, (WIDE,), tolerance=1e-14),
    Program("scaled first", lambda x: (x * 0.1) @ x.mT, (WIDE,), tolerance=1e-14),
    Program("attention", lambda x: F.scaled_dot_product_attention(x, x, x), (WIDE,), tolerance=1e-14),
    Program("turned matrix, vector", lambda x, z: x.t() @ z, (r(3, 4), r(3)), tolerance=1e-6),
    Program("turned matrices, vector", lambda x, z: x.mT @ z, (r(2, 3, 4), r(3)), tolerance=1e-6),
    Program("mv", lambda x, z: torch.mv(x.t(), z), (r(3, 4), r(3)), tolerance=1e-6),
    Program("over nothing", lambda x: F.linear(x, torch.ones(4, 0), torch.ones(4)), (r(2, 5, 0),)),
    Program("nothing times bias", lambda x: x @ torch.ones(0, 4) + torch.ones(4), (r(2, 5, 0),)),
    Program("norm of float64", _normalize, (r(3, 4, dtype=DOUBLE),), tolerance=1e-14),
    Program("root of squares", lambda x: x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6) * SCALE, (r(3, 4, dtype=DOUBLE),), tolerance=1e-14),
    Program("fourth power", lambda x: _normalize(x, 4), (r(3, 4),), tolerance=1e-6),
)  # fmt: skip
FREE = {"dynamic": ({0: "n", 1: "m"},), "calls": ((r(0, 3, 6),), (r(2, 0, 6),), (r(1, 1, 6),))}
SIZES = (
    Program("flat", lambda x: x.abs().flatten(1).neg(), (r(2, 3, 6),), **FREE),
    Program("swapped", lambda x: x.abs().reshape(x.shape[0], 6, x.shape[1]).neg(), (r(2, 3, 6),), **FREE),
    Program("heads", lambda x: x.abs().view(x.shape[0], x.shape[1], 2, 3).neg(), (r(2, 3, 6),), **FREE),
    Program("joined", lambda x: x.abs().reshape(x.shape[0] * x.shape[1], 6).neg(), (r(2, 3, 6),), **FREE),
    Program("to no elements", lambda x: -(x.abs().expand(0)), (r(1),)),
)  # fmt: skip
