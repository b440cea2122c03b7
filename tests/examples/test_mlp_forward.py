"""Forward and backward of a small network, with the ways to set a backend in the documentation."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from ortable import ExportOptions, get_decomposition_table, onnx_custom_backend, onnx_debug_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.layers(x)


@pytest.fixture
def mlp():
    return MLP()


@pytest.fixture
def x():
    return torch.randn(3, 10, dtype=torch.float32)


@pytest.mark.parametrize("backend", [onnx_custom_backend, onnx_debug_backend])
def test_backend_as_lambda(mlp, x, backend):
    compiled_model = torch.compile(
        copy.deepcopy(mlp),
        backend=lambda *args, **kwargs: backend(*args, target_opset=18, **kwargs),
        dynamic=False,
        fullgraph=True,
    )
    torch.testing.assert_close(compiled_model(x), mlp(x))


def test_compiler_with_export_options(mlp, x):
    aot_compiler = aot_autograd(
        fw_compiler=lambda *args, **kwargs: onnx_custom_backend(
            *args,
            target_opset=18,
            export_options=ExportOptions(decomposition_table=get_decomposition_table()),
            **kwargs,
        ),
    )
    model = copy.deepcopy(mlp)
    compiled_model = torch.compile(model, backend=aot_compiler, fullgraph=True, dynamic=False)
    expected, result = mlp(x), compiled_model(x)
    torch.testing.assert_close(result, expected)
    assert result.grad_fn is not None
    expected.sum().backward()
    result.sum().backward()
    for a, b in zip(mlp.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad)
