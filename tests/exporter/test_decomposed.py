"""Operators without a converter that the table of decompositions names: torch writes them out, the
report says so, and the results equal eager."""

from __future__ import annotations

import onnxruntime
import pytest
import torch

from ortable import to_onnx


class Areas(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.trapezoid(x, dx=0.5, dim=-1)


CASES = [
    (Areas(), (3, 6)),
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
