"""Dynamic sizes as numbers, flags and conditions in calls of torch and Python functions.

See tests/specs/test_sizes_as_numbers.py for the arguments of each operator.
"""

from __future__ import annotations

import functools
import math
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import ortable
from ortable import ExportOptions
from ortable.errors import InputError
from ortable.exporter.capture.export_failures import (
    is_condition_of_caller,
    is_dispatch,
    is_user_file,
)
from ortable.exporter.frontend.export_request import UserLine

EXAMPLE = (6, 8)
OTHER_SIZES = ((6, 5), (9, 8), (7, 8), (12, 20), (4, 4))
Function = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class Case:
    """A function of images, and the number of OTHER_SIZES that its exported model accepts."""

    name: str
    function: Function
    accepted: int


def attention(x: torch.Tensor) -> torch.Tensor:
    """Compute the attention weights of each head, or their mean."""
    rows, width = x[0, 0].T[:, :4], 4
    weights = F.multi_head_attention_forward(
        rows, rows, rows, width, 2, torch.eye(12, 4), torch.zeros(12), None, None, False, 0.0,
        torch.eye(4), torch.zeros(4), average_attn_weights=x.shape[2] % 2 == 0,
    )[1]  # fmt: skip
    assert weights is not None
    return weights.sum()


def define(text: str) -> Function:
    """Define a function without a source file, as in an interactive session."""
    names: dict[str, Any] = {}
    exec(compile(f"def typed(x):\n    {text}\n", "<stdin>", "exec"), names)
    function: Function = names["typed"]
    return function


ATEN = torch.ops.aten
resize = functools.partial(F.interpolate, mode="bilinear")
CASES = (
    Case("min of a fraction", lambda x: x * min(x.shape[2] / 8, 1.0), 3),
    Case("max of a fraction", lambda x: x * max(x.shape[2] / 8, 1.0), 3),
    Case("min of three", lambda x: x * min(x.shape[2] / 2, x.shape[3], 3.6), 3),
    Case("max of two sizes and a number", lambda x: x * max(x.shape[2], x.shape[3], 5), 2),
    Case("max by a key", lambda x: x * max(x.shape[2], x.shape[3], key=lambda n: -n), 3),
    Case("lower median", lambda x: x * statistics.median_low([x.shape[2], x.shape[3]]), 3),
    Case("antialias", lambda x: resize(x, (3, 3), antialias=x.shape[2] % 2 == 0), 3),
    Case(
        "recomputed scale factor",
        lambda x: resize(x, scale_factor=1.3, recompute_scale_factor=x.shape[2] < x.shape[3]),
        2,
    ),
    Case("attention weights", attention, 3),
    Case("without a file", define("return x * 2 if x.shape[2] % 2 == 0 else x"), 3),
    Case("without a file, two sizes", define("return x * 2 if x.shape[2] < x.shape[3] else x"), 2),
    Case("flag of an operator", lambda x: ATEN.sum.dim_IntList(x, [2], x.shape[2] % 2 == 0), 3),
    Case("flag as a keyword argument", lambda x: ATEN.sum(x, [2], keepdim=x.shape[2] > 6), 2),
    # torch's kernel reads the number of rows of each part
    Case("size of a part", lambda x: x.sum() / x.tensor_split(3, 2)[0].shape[2], 3),
    # exact at every size
    Case("min of two", lambda x: x * min(x.shape[2], x.shape[3]), 5),
    Case("round", lambda x: x * round(x.shape[2] / 4), 5),
    Case("slice", lambda x: x[:, :, max(0, x.shape[2] - 8) : min(x.shape[2], 5)], 5),
    Case("slice from the end", lambda x: x[:, :, : -(x.shape[2] // 2)], 5),
    Case("square roots", lambda x: x * math.sqrt(x.shape[2]) + x.shape[3] ** -0.5, 5),
    Case("powers", lambda x: x * 0.5 ** x.shape[2] + math.pow(2, x.shape[3] / 8), 5),
    Case("remainders", lambda x: x * (20 % x.shape[2]) + x.shape[3] % -4 + x.shape[2] % 2.5, 5),
    Case("number of a tensor", lambda x: x * torch.tensor(x.shape[2] / 2).item(), 5),
    Case("a flag as a number", lambda x: x * float(x.shape[2] > x.shape[3]), 5),
)


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def make_image(rows: int, columns: int) -> torch.Tensor:
    return torch.rand(1, 2, rows, columns, generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_exported_model_computes_or_says_for_which_sizes_it_holds(case: Case) -> None:
    accepted = 0
    program = export_quietly(case.function)
    for sizes in (EXAMPLE, *OTHER_SIZES):
        x = make_image(*sizes)
        try:
            result = program(x)
        except InputError as error:
            assert sizes != EXAMPLE, error
            continue
        torch.testing.assert_close(result, case.function(x))
        accepted += sizes != EXAMPLE
    assert accepted == case.accepted


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_compiled_function_is_exact(case: Case) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(Module(case.function), backend="ortable", dynamic=True)
    for sizes in (EXAMPLE, *OTHER_SIZES[:3]):
        torch.testing.assert_close(compiled(make_image(*sizes)), case.function(make_image(*sizes)))


@pytest.mark.parametrize("strict", [False, True])
def test_a_flag_is_told_as_a_condition(strict: bool) -> None:
    with pytest.warns(UserWarning, match=r"holds only for sizes with\n  n % 2 == 0"):
        ortable.export(
            Module(lambda x: resize(x, (3, 3), antialias=x.shape[2] % 2 == 0)),
            (make_image(*EXAMPLE),),
            dynamic_shapes=({2: "n"},),
            export_options=ExportOptions(strict=strict),
        )


def test_a_condition_that_an_operator_takes_as_a_number_is_no_flag() -> None:
    """The operator `_assert_scalar` evaluates the condition at runtime."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ortable.export(
            Module(lambda x: (ATEN._assert_scalar(x.shape[2] != 9, "nine"), x + 1)[1]),
            (make_image(*EXAMPLE),),
            dynamic_shapes=({2: "n"},),
        )


def test_torch_is_asked_by_its_own_checks_in_silence() -> None:
    """Torch's own checks of sizes add no conditions to the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = ortable.export(
            Module(lambda x: F.mse_loss(F.pad(x, [1] * 4, mode="reflect")[..., 1:-1, 1:-1], x)),
            (make_image(*EXAMPLE),),
            dynamic_shapes=({2: "n", 3: "m"},),
        )
    assert program(make_image(4, 20)) == 0


def test_whose_code_asks() -> None:
    assert is_user_file("<stdin>")
    assert is_user_file("<ipython-input-1-0a1b>")
    assert not is_user_file("<eval_with_key>.1")
    assert not is_user_file("<frozen importlib._bootstrap>")
    expected_by_module = {statistics: True, F: True, torch._refs: False, torch._ops: False}
    for module, expected in expected_by_module.items():
        assert is_condition_of_caller(UserLine(str(module.__file__), 1, "asks")) is expected
    assert not is_condition_of_caller(UserLine(__file__, 1, "asks"))
    assert is_dispatch(UserLine(torch._ops.__file__, 1, "__call__"))
    assert not is_dispatch(UserLine("_ops.py", 1, "__call__"))


def export_quietly(function: Function) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shapes = ({2: "n", 3: "m"},)
        return ortable.export(Module(function), (make_image(*EXAMPLE),), dynamic_shapes=shapes)
