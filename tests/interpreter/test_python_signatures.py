"""Calls in traced graphs follow torch's Python signatures, which differ from the schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase

F = torch.nn.functional
_GENERATOR = torch.Generator().manual_seed(0)


def _rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=_GENERATOR)


ROWS, LINES, IMAGES, CUBES = _rand(2, 3), _rand(2, 3, 8), _rand(2, 4, 8, 8), _rand(1, 2, 4, 4, 4)
W1, W2, W3, B4 = _rand(4, 3, 3), _rand(4, 4, 3, 3), _rand(3, 2, 2, 2, 2), _rand(4)
T1, T2, DEPTHWISE = _rand(3, 4, 3), _rand(4, 4, 3, 3), _rand(4, 1, 3, 3)

CALLS: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "conv1d": (lambda x: F.conv1d(x, W1, None, 1, 1), LINES),
    "conv1d of all": (lambda x: F.conv1d(x, W1, B4, 2, 1, 1, 1), LINES),
    "conv1d same": (lambda x: F.conv1d(x, W1, None, 1, "same"), LINES),
    "conv1d valid": (lambda x: F.conv1d(x, W1, padding="valid"), LINES),
    "conv2d": (lambda x: F.conv2d(x, W2, B4, 1, 1), IMAGES),
    "conv2d of a tuple": (lambda x: F.conv2d(x, W2, B4, (2, 1), 1, 1, 1), IMAGES),
    "conv2d by name": (lambda x: F.conv2d(input=x, weight=W2, stride=2, padding=1), IMAGES),
    "conv2d of groups": (lambda x: F.conv2d(x, DEPTHWISE, None, 1, 1, 1, 4), IMAGES),
    "conv3d": (lambda x: F.conv3d(x, W3, None, 1, 0), CUBES),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x, T1, None, 2, 1, 1), LINES),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, T2, None, 2, 1, 1, 1, 1), IMAGES),
    "conv_transpose2d by name": (
        lambda x: F.conv_transpose2d(x, T2, stride=2, output_padding=1), IMAGES
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, None, 0, False, True, 5), IMAGES),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), IMAGES),
    "dropout": (lambda x: F.dropout(x, 0.5, False), ROWS),
    "dropout by name": (lambda x: F.dropout(x, p=0.2, training=False, inplace=False), ROWS),
    "roll": (lambda x: torch.roll(x, 1, 1), ROWS),
    "roll by name": (lambda x: x.roll(shifts=1, dims=1), ROWS),
    "roll of all": (lambda x: x.roll(2), ROWS),
    "roll by a size": (lambda x: x.roll(x.shape[0], 1), ROWS),
}  # fmt: skip


def _trace(function: Callable[..., Any], x: torch.Tensor) -> torch.fx.GraphModule:
    traced = torch.fx.symbolic_trace(function)
    next(iter(traced.graph.nodes)).meta["val"] = x
    return traced


@pytest.mark.parametrize("name", CALLS)
def test_numbers_stand_for_lists_as_in_python(name: str) -> None:
    function, x = CALLS[name]
    model = ortable.to_onnx(_trace(function, x)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), function(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_dtype_is_no_size(dtype: torch.dtype) -> None:
    numbers = _rand(6).view(torch.int32)  # 6 is also ONNX's code of int32
    message = "aten::view.dtype: the bits of .* read as another dtype"
    for function in (
        lambda x: (x * 1.0).view(dtype),
        lambda x: (x * 1.0).view(x.dtype),
    ):
        with pytest.raises(UnsupportedCase, match=message):
            ortable.to_onnx(_trace(function, numbers))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.norm(x), "torch has no overload of aten::norm for these arguments, which"),
        (lambda x: torch.cdist(x, x, 2.0), "torch has no overload of aten::cdist for these"),
        (lambda x: F.relu(x, True), "inplace=True writes into the input of the call"),
    ],
)
def test_what_python_rewrites_is_refused_with_what_to_do(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(UnsupportedCase, match=message) as caught:
        ortable.to_onnx(_trace(function, ROWS))
    assert "give example inputs (args)" in str(caught.value)
