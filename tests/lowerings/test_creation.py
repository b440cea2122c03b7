"""Integer ranges with a float step, and linspace between bounds known only at run time."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.prelude.pointwise import int_range
from tests.onnx_runs import run


class Arange(torch.nn.Module):
    def __init__(self, start: float, end: float, step: float) -> None:
        super().__init__()
        self.bounds = (start, end, step)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(*self.bounds, dtype=torch.int64)


@pytest.mark.parametrize(
    "bounds", [(5, 0, -0.5), (0, 5, 0.5), (0.5, 5.7, 1.5), (5, 0, -1.5), (-3, 4, 2.5)]
)
def test_the_step_of_an_integer_range_is_cut_off(bounds: tuple[float, float, float]) -> None:
    """torch 2.14 and newer truncate a float step last, and older versions truncate it first."""
    model, x = Arange(*bounds), torch.tensor([10])
    try:
        expected = model(x)
    except ValueError as error:  # torch 2.13 truncates a step below 1 to 0
        assert str(error) == "step must be nonzero"
        return
    (actual,) = run(ortable.to_onnx(model, (x,)), x)
    assert actual.tolist() == expected.tolist()


def test_a_step_of_zero_repeats_the_start() -> None:
    """On every version of torch, although Range itself refuses a step of 0."""
    builder = ortable.GraphBuilder(18)
    builder.make_tensor_output(int_range(builder, 5, 10, -0.5), indexed=False)
    assert run(builder.to_onnx())[0].tolist() == [5] * 10


class _LinSpaces(torch.nn.Module):
    """Compute linspace between bounds that depend on the size and the values of the input."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size, total = x.shape[0], x.long().sum().item()
        return (
            torch.linspace(0, size - 1, 5),
            torch.linspace(size, -1.5, 4, dtype=torch.float64),
            torch.linspace(0, size - 1, 5, dtype=torch.int64),
            torch.linspace(0, total, 3),
            torch.linspace(size / 3, 7, 1),
            torch.linspace(0, size, 0),
        )


def test_linspace_between_sizes_and_numbers_of_the_call() -> None:
    model = _LinSpaces()
    program = torch.export.export(
        model, (torch.arange(3.0),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},)
    )
    converted = ortable.to_onnx(program)
    for size in (3, 17):
        x = torch.arange(float(size))
        torch.testing.assert_close(run(converted, x), list(model(x)))
