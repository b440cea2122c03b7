"""A constant that its dtype cannot represent is an infinity or a float32 value, as in torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

import ortable
from tests.modules import FunctionOfX

X = torch.tensor([1.0, -2.0, 3.0])
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "product": lambda x: x * 1e39,
    "sum": lambda x: x + 1e300,
    "of a half": lambda x: x.half() * 1e6,
    "of a bfloat16": lambda x: x.bfloat16() * 1e39,
    "power": lambda x: x**1e39,
    "in place of NaN": lambda x: (x / 0).nan_to_num(posinf=1e39),
    # torch reads the second operand in float32; 0 times an infinity would be NaN
    "of half gradients": lambda x: torch.ops.aten.native_dropout_backward(
        x.relu().half(), x > 0, 1e5
    ),
    # torch reads the first term in float16
    "of no columns": lambda x: torch.addmm(
        x.relu().half(), x.half()[:, None][:, :0], x.half()[None][:0], beta=1e6
    ),
    # a constant of the lowering is compared with the range of float32
    "of a rule": lambda x: torch.igamma(x.abs(), x.abs()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_that_is_too_large_is_an_infinity_and_no_warning(name: str) -> None:
    module = FunctionOfX(FUNCTIONS[name])
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "overflow", RuntimeWarning)
        compiled = torch.compile(module, backend="ortable")(X)
        exported = ortable.export(module, (X,))(X)
    torch.testing.assert_close(compiled, module(X), equal_nan=True)
    torch.testing.assert_close(exported, module(X), equal_nan=True)
