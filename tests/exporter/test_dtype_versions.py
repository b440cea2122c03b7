"""Dtypes of newer opsets: the error names the dtype, the line and the opset to use."""

from __future__ import annotations

import pytest
import torch

from ortable import to_onnx
from ortable.errors import ExportError, UnsupportedCase

X = torch.rand(3)


class CastModule(torch.nn.Module):
    def __init__(self, dtype: torch.dtype, back: bool = False) -> None:
        super().__init__()
        self.dtype, self.back = dtype, back

    def forward(self, x):
        y = x.to(self.dtype)
        return y.to(torch.float32) if self.back else y


@pytest.mark.parametrize("back", [False, True], ids=["result", "inside"])
@pytest.mark.parametrize(
    ("dtype", "opset"),
    [
        (torch.float8_e4m3fn, 19),
        (torch.float8_e5m2, 19),
        (torch.float8_e4m3fnuz, 19),
        (torch.float8_e8m0fnu, 24),
    ],
)
def test_a_dtype_of_a_newer_opset(dtype, opset, back) -> None:
    name = str(dtype).removeprefix("torch.")
    message = f"computes with {name} .* from opset {opset} on, .*18: give target_opset={opset}"
    with pytest.raises(ExportError, match=message) as raised:
        to_onnx(CastModule(dtype, back), (X,))
    assert "test_dtype_versions.py" in str(raised.value) and "y = x.to(self.dtype)" in str(
        raised.value
    )
    if dtype == torch.float8_e8m0fnu:
        with pytest.raises(UnsupportedCase, match="float8_e8m0fnu"):  # ONNX rounds differently.
            to_onnx(CastModule(dtype, back), (X,), target_opset=opset)
        return
    model = to_onnx(CastModule(dtype, back), (X,), target_opset=opset)
    casts = 2 if back else 1
    assert [node.op_type for node in model.graph.node][-casts:] == ["Cast"] * casts


def test_an_input_of_a_newer_opset() -> None:
    class InputCast(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float32)

    with pytest.raises(ExportError, match=r"node 'x'\), which ONNX has from opset 19 on"):
        to_onnx(InputCast(), (X.to(torch.float8_e5m2),))


def test_other_failures_stay_as_they_are() -> None:
    class TextResult(torch.nn.Module):
        def forward(self, x):
            return x + 1, "text"

    with pytest.raises(Exception, match="result 1 of the model is 'text'"):
        to_onnx(TextResult(), (X,))


def test_a_dtype_that_no_opset_has_is_the_error() -> None:
    """Complex dtypes without an ONNX element type do not stop the search for newer dtypes."""

    class Half(torch.nn.Module):
        def forward(self, x):
            return torch.view_as_complex(x).abs()

    text = r"complex32 has no ONNX element type[\s\S]*node 'view_as_complex' .1/4.[\s\S]*source: "
    with pytest.raises(UnsupportedCase, match=text):
        to_onnx(Half(), (torch.rand(3, 2).half(),))
