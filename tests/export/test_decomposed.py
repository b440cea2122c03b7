"""Operators without a converter that the table of decompositions names: torch writes them out, the
report says so, and the results equal eager."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest
import torch

from ortable import to_onnx

F = torch.nn.functional


class Resized(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **self.options)


class Differences(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.diff(x, n=2, dim=-1)


CASES = [
    (Resized(scale_factor=2.0, mode="nearest"), (1, 2, 7)),
    (Resized(scale_factor=1.7, mode="linear"), (1, 2, 7)),
    (Resized(size=(15, 11), mode="bilinear", align_corners=True), (1, 2, 7, 5)),
    (Resized(scale_factor=1.7, mode="bicubic", align_corners=False), (1, 2, 7, 5)),
    (Resized(scale_factor=2.0, mode="trilinear"), (1, 2, 5, 4, 3)),
    (Differences(), (3, 6)),
]


@pytest.mark.parametrize(("module", "shape"), CASES)
def test_a_decomposed_operator_equals_eager(
    module: torch.nn.Module, shape: tuple[int, ...]
) -> None:
    x = torch.randn(*shape)
    proto = to_onnx(module, (x,), input_names=["x"])
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (got,) = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), module(x), atol=1e-5, rtol=1e-5)
    steps = {entry.key: entry.value for entry in proto.metadata_props}["ortable.steps"]
    assert "decomposed: aten::" in steps
