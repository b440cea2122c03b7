"""What a free size says, in calls of torch's functions and of Python's: as a condition, a flag or a
number. The model computes with it, or says for which sizes it holds; a compiled function is exact
at every size. tests/specs/test_sizes_as_numbers.py asks the same of each operator's arguments.
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
OTHERS = ((6, 5), (9, 8), (7, 8), (12, 20), (4, 4))
Function = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class Case:
    """A function of images of ``n`` rows and ``m`` columns, and at how many of the other sizes the
    exported model has to compute; at the rest it may say that it does not hold."""

    name: str
    function: Function
    computed: int


def attention(x: torch.Tensor) -> torch.Tensor:
    """The weights of each head, or their mean."""
    rows, width = x[0, 0].T[:, :4], 4
    weights = F.multi_head_attention_forward(
        rows, rows, rows, width, 2, torch.eye(12, 4), torch.zeros(12), None, None, False, 0.0,
        torch.eye(4), torch.zeros(4), average_attn_weights=x.shape[2] % 2 == 0,
    )[1]  # fmt: skip
    assert weights is not None
    return weights.sum()


def typed(text: str) -> Function:
    """A function as one types it into Python's prompt, where it has no file."""
    names: dict[str, Any] = {}
    exec(compile(f"def typed(x):\n    {text}\n", "<stdin>", "exec"), names)
    found: Function = names["typed"]
    return found


ATEN = torch.ops.aten
resized = functools.partial(F.interpolate, mode="bilinear")
CASES = (
    Case("min of a fraction", lambda x: x * min(x.shape[2] / 8, 1.0), 3),
    Case("max of a fraction", lambda x: x * max(x.shape[2] / 8, 1.0), 3),
    Case("min of three", lambda x: x * min(x.shape[2] / 2, x.shape[3], 3.6), 3),
    Case("max of two sizes and a number", lambda x: x * max(x.shape[2], x.shape[3], 5), 2),
    Case("max by a key", lambda x: x * max(x.shape[2], x.shape[3], key=lambda n: -n), 3),
    Case("lower median", lambda x: x * statistics.median_low([x.shape[2], x.shape[3]]), 3),
    Case("antialias", lambda x: resized(x, (3, 3), antialias=x.shape[2] % 2 == 0), 3),
    Case(
        "a scale anew",
        lambda x: resized(x, scale_factor=1.3, recompute_scale_factor=x.shape[2] < x.shape[3]),
        2,
    ),
    Case("weights of heads", attention, 3),
    Case("typed", typed("return x * 2 if x.shape[2] % 2 == 0 else x"), 3),
    Case("typed, two sizes", typed("return x * 2 if x.shape[2] < x.shape[3] else x"), 2),
    Case("flag of an operator", lambda x: ATEN.sum.dim_IntList(x, [2], x.shape[2] % 2 == 0), 3),
    Case("flag by its name", lambda x: ATEN.sum(x, [2], keepdim=x.shape[2] > 6), 2),
    # how many rows each part has, torch's kernel asks
    Case("rows of a part", lambda x: x.sum() / x.tensor_split(3, 2)[0].shape[2], 3),
    # what computes with the size
    Case("min of two", lambda x: x * min(x.shape[2], x.shape[3]), 5),
    Case("rounded", lambda x: x * round(x.shape[2] / 4), 5),
    Case("cut", lambda x: x[:, :, max(0, x.shape[2] - 8) : min(x.shape[2], 5)], 5),
    Case("from the end", lambda x: x[:, :, : -(x.shape[2] // 2)], 5),
    Case("a root", lambda x: x * math.sqrt(x.shape[2]) + x.shape[3] ** -0.5, 5),
    Case("powers", lambda x: x * 0.5 ** x.shape[2] + math.pow(2, x.shape[3] / 8), 5),
    Case("remainders", lambda x: x * (20 % x.shape[2]) + x.shape[3] % -4 + x.shape[2] % 2.5, 5),
    Case("a tensor's number", lambda x: x * torch.tensor(x.shape[2] / 2).item(), 5),
    Case("a flag as a number", lambda x: x * float(x.shape[2] > x.shape[3]), 5),
)


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def image(rows: int, columns: int) -> torch.Tensor:
    return torch.rand(1, 2, rows, columns, generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_exported_model_computes_or_says_for_which_sizes_it_holds(case: Case) -> None:
    computed = 0
    program = exported(case.function)
    for sizes in (EXAMPLE, *OTHERS):
        x = image(*sizes)
        try:
            got = program(x)
        except InputError as error:
            assert sizes != EXAMPLE, error
            continue
        torch.testing.assert_close(got, case.function(x))
        computed += sizes != EXAMPLE
    assert computed == case.computed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_compiled_function_is_exact(case: Case) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(Module(case.function), backend="ortable", dynamic=True)
    for sizes in (EXAMPLE, *OTHERS[:3]):
        torch.testing.assert_close(compiled(image(*sizes)), case.function(image(*sizes)))


@pytest.mark.parametrize("strict", [False, True])
def test_a_flag_is_told_as_a_condition(strict: bool) -> None:
    with pytest.warns(UserWarning, match=r"holds only for sizes with\n  n % 2 == 0"):
        ortable.export(
            Module(lambda x: resized(x, (3, 3), antialias=x.shape[2] % 2 == 0)),
            (image(*EXAMPLE),),
            dynamic_shapes=({2: "n"},),
            export_options=ExportOptions(strict=strict),
        )


def test_a_condition_that_an_operator_takes_as_a_number_is_no_flag() -> None:
    """`_assert_scalar` keeps it for the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ortable.export(
            Module(lambda x: (ATEN._assert_scalar(x.shape[2] != 9, "nine"), x + 1)[1]),
            (image(*EXAMPLE),),
            dynamic_shapes=({2: "n"},),
        )


def test_torch_is_asked_by_its_own_checks_in_silence() -> None:
    """That sizes are equal, or large enough, raises an error or is said by the shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = ortable.export(
            Module(lambda x: F.mse_loss(F.pad(x, [1] * 4, mode="reflect")[..., 1:-1, 1:-1], x)),
            (image(*EXAMPLE),),
            dynamic_shapes=({2: "n", 3: "m"},),
        )
    assert program(image(4, 20)) == 0


def test_whose_code_asks() -> None:
    assert is_user_file("<stdin>")
    assert is_user_file("<ipython-input-1-0a1b>")
    assert not is_user_file("<eval_with_key>.1")
    assert not is_user_file("<frozen importlib._bootstrap>")
    asking = {statistics: True, F: True, torch._refs: False, torch._ops: False}
    for module, expected in asking.items():
        assert is_condition_of_caller(UserLine(str(module.__file__), 1, "asks")) is expected
    assert not is_condition_of_caller(UserLine(__file__, 1, "asks"))
    assert is_dispatch(UserLine(torch._ops.__file__, 1, "__call__"))
    assert not is_dispatch(UserLine("_ops.py", 1, "__call__"))


def exported(function: Function) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shapes = ({2: "n", 3: "m"},)
        return ortable.export(Module(function), (image(*EXAMPLE),), dynamic_shapes=shapes)
