"""Interpolation of images whose size is unknown at conversion."""

from __future__ import annotations

import pytest
import torch

import ortable
from tests.onnx_runs import run


class _Interpolate(torch.nn.Module):
    def __init__(self, factor: float, mode: str) -> None:
        super().__init__()
        self.factor, self.mode = factor, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=self.factor, mode=self.mode)


@pytest.mark.parametrize(
    ("factor", "mode"),
    [
        (2.0, "nearest"),
        (1.7, "nearest"),
        (1.7, "nearest-exact"),
        (2.0, "bilinear"),
        (0.6, "bilinear"),
        (1.7, "bicubic"),
    ],
)
def test_one_model_serves_images_of_every_size(factor: float, mode: str) -> None:
    module, auto = _Interpolate(factor, mode), torch.export.Dim.AUTO
    example = torch.randn(2, 3, 5, 6)
    model = ortable.to_onnx(module, (example,), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    for image in (example, torch.randn(3, 3, 9, 7)):
        torch.testing.assert_close(run(model, image), [module(image)])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiasing_copies_an_axis_that_happens_to_keep_its_size(mode: str) -> None:
    class Resize(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(x, (6, 4), mode=mode, antialias=True)

    auto = torch.export.Dim.AUTO
    model = ortable.to_onnx(
        Resize(), (torch.randn(1, 2, 5, 7),), dynamic_shapes=({2: auto, 3: auto},)
    )
    for size in ((6, 4), (6, 8), (3, 4)):
        image = torch.arange(2.0 * size[0] * size[1]).reshape(1, 2, *size)
        image[..., 1, 2] = float("inf")  # a weight of 0 would turn it into NaN
        torch.testing.assert_close(run(model, image), [Resize()(image)])


@pytest.mark.parametrize("pads", [(2, 1), (0, 3), (3, -1), (-1, 2), (-1, -2)])
def test_gradients_of_padding_with_edges_along_a_free_size(pads: tuple[int, int]) -> None:
    class Gradient(torch.nn.Module):
        def forward(self, grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.replication_pad1d_backward(grad, x, pads)

    def example(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2, size + sum(pads)), torch.randn(2, size)

    size = torch.export.Dim("size", min=4, max=64)
    shapes = ({1: size + sum(pads) if sum(pads) else size}, {1: size})
    model = ortable.to_onnx(Gradient(), example(7), dynamic_shapes=shapes)
    assert [value.name for value in model.graph.input] == ["grad", "x"]
    for call in (example(4), example(7), example(12)):
        torch.testing.assert_close(run(model, *call), [Gradient()(*call)])
