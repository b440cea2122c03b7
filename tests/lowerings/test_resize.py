"""Interpolation by factors of images whose size is not known while converting."""

from __future__ import annotations

import onnxruntime
import pytest
import torch

import ortable


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
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    for image in (example, torch.randn(3, 3, 9, 7)):
        (found,) = session.run(None, {name: image.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), module(image))
