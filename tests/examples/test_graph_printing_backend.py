"""A backend that prints the graph of dynamo before it hands it on, as people write to look at
graphs."""

from __future__ import annotations

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from ortable import onnx_custom_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def printing_backend(gm, example_inputs):
    print("my_compiler() called with FX graph:")
    gm.graph.print_tabular()
    return onnx_custom_backend(gm, example_inputs)


def test_function(capsys):

    @torch.compile(backend=printing_backend)
    def fn(x, y):
        a = torch.cos(x)
        b = torch.sin(y)
        return a + b

    x, y = torch.randn(10), torch.randn(10)
    torch.testing.assert_close(fn(x, y), torch.cos(x) + torch.sin(y))
    out = capsys.readouterr().out
    assert out.count("my_compiler() called with FX graph:") == 1
    assert "cos" in out and "sin" in out


def test_module(capsys):

    class MockModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = torch.nn.ReLU()

        def forward(self, x):
            return self.relu(torch.cos(x))

    module = MockModule()
    compiled = torch.compile(module, backend=printing_backend)
    x = torch.randn(10)
    torch.testing.assert_close(compiled(x), module(x))
    assert "relu" in capsys.readouterr().out


def test_the_graph_itself_is_a_backend_result():
    """The contract of a backend that returns gm.forward, and of a boxed compiler behind
    AOTAutograd."""

    def my_compiler(gm, example_inputs):
        return make_boxed_func(gm.forward)

    x = torch.randn(3, 4)
    eager = torch.compile(torch.relu, backend=lambda gm, args: gm.forward)(x)
    boxed = torch.compile(torch.relu, backend=aot_autograd(fw_compiler=my_compiler))(x)
    ours = torch.compile(torch.relu, backend=onnx_custom_backend)(x)
    torch.testing.assert_close(boxed, eager)
    torch.testing.assert_close(ours, eager)
