"""Long sums, variances and norms are as exact as eager's; sums of ints are exact."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.testing.entries import run_onnx
from tests.conformance.reductions import REDUCTIONS, Measured, measure, row

QUICK_REDUCTIONS = [
    reduction
    for reduction in REDUCTIONS
    if reduction.name
    in (
        "sum of columns", "sum of all", "var of rows", "norm 2", "cumsum", "mse_loss",
        "batch_norm's running statistics", "group_norm", "layer_norm", "nll_loss",
    )
]  # fmt: skip


def _compile(function: object, dynamic: bool = False) -> object:
    torch._dynamo.reset()
    return torch.compile(function, backend="ortable", fullgraph=True, dynamic=dynamic)


def test_errors_of_a_few_reductions_are_those_of_eager() -> None:
    assert len(QUICK_REDUCTIONS) == 10
    errors = [m for r in QUICK_REDUCTIONS for size in (100, 20_000) for m in measure(r, size)]
    assert not [str(measured) for measured in errors if measured.is_fault]


def test_the_table_shows_the_worst_mean() -> None:
    reduction = REDUCTIONS[0]
    rows = [Measured(reduction, 100, mean, ours, 0.5) for mean, ours in ((0.0, 0.2), (1.0, 0.4))]
    assert row(reduction, rows).startswith(f"| {reduction.name} | 0.4 (0.5) |")


def test_a_fault_is_more_than_four_times_the_error_of_eager() -> None:
    reduction = REDUCTIONS[0]
    assert Measured(reduction, 100, 0.0, 5.1, 1.0).is_fault
    assert Measured(reduction, 100, 0.0, float("nan"), 1.0).is_fault
    assert not Measured(reduction, 100, 0.0, 5.0, 1.0).is_fault


@pytest.mark.parametrize("dynamic", [False, True])
def test_batch_norm_in_training_has_the_statistics_of_eager(dynamic: bool) -> None:
    torch.manual_seed(0)
    x = torch.rand(32, 4, 112, 112) * 3 + 5
    eager, ours = torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4)
    expected = eager(x)
    result = _compile(ours, dynamic)(x)
    torch.testing.assert_close(ours.running_var, eager.running_var, rtol=3e-7, atol=0)
    torch.testing.assert_close(ours.running_mean, eager.running_mean, rtol=3e-7, atol=0)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_sums_and_products_of_ints_wrap_around_as_in_eager(dynamic: bool) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x.prod(), x.prod(1), x.nansum(),
            torch.einsum("ij->j", x), torch.einsum("ij,ij->i", x, x), torch.trace(x),
            torch.addbmm(x, y, y), x.to(torch.int32).sum(), (x > 0).sum(), x.cumprod(0),
        )  # fmt: skip

    x = torch.randint(2**53, 2**61, (5, 5), generator=torch.Generator().manual_seed(0))
    y = torch.randint(2**30, 2**40, (3, 5, 5), generator=torch.Generator().manual_seed(1))
    for ours, eager in zip(_compile(program, dynamic)(x, y), program(x, y), strict=True):
        assert ours.dtype == eager.dtype
        assert torch.equal(ours, eager)


def test_deviations_of_huge_and_tiny_values() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.std(), x.std(1, keepdim=True), *torch.std_mean(x, 0)

    x = torch.rand(7, 9, generator=torch.Generator().manual_seed(0))
    for scale in (1e20, 1e-25):
        for ours, eager in zip(_compile(program)(x * scale), program(x * scale), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-6, atol=0)


def test_an_export_with_a_free_batch_adds_up_as_exactly() -> None:
    class Loss(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.mse_loss(x, y)

    x, y = torch.rand(2, 3, 200, 200), torch.rand(2, 3, 200, 200)
    batch = torch.export.Dim("batch")
    program = ortable.to_onnx(Loss(), (x, y), dynamic_shapes=({0: batch}, {0: batch}))
    x, y = torch.rand(9, 3, 200, 200) + 1, torch.rand(9, 3, 200, 200)
    names = [value.name for value in program.graph.input]
    (result,) = run_onnx(program, dict(zip(names, (x, y), strict=True)))
    exact = torch.nn.functional.mse_loss(x.double(), y.double()).item()
    assert abs(float(result) - exact) < 2e-7 * exact
