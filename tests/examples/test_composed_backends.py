"""User-defined backends: with a fallback, with a printed graph, and with AOTAutograd."""

from __future__ import annotations

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo import lookup_backend
from torch._dynamo.backends.common import aot_autograd

from ortable import onnx_custom_backend
from ortable.backend.aot.entry import ortable

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def compose(log, first, fallback="eager"):
    """Return a backend that calls `first`, or `fallback` if it fails."""

    def my_compiler(gm, example_inputs):
        try:
            compiled = first(gm, example_inputs)
            if compiled is not None:
                log.append("ortable")
                return compiled
        except Exception as error:
            log.append(type(error).__name__)
        log.append(fallback)
        return lookup_backend(fallback)(gm, example_inputs)

    return my_compiler


def test_the_first_backend_that_works_is_taken():
    log = []
    model = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    result = torch.compile(model, backend=compose(log, ortable))(x)
    torch.testing.assert_close(result, model(x))
    assert log == ["ortable"]


def test_the_next_backend_is_tried_after_a_refusal():
    log = []

    def fail_on_relu(gm, example_inputs):
        return ortable(gm, example_inputs, options={"raise_on": ["aten::relu"]})

    fn = torch.compile(lambda x: torch.relu(x) + 1, backend=compose(log, fail_on_relu))
    x = torch.randn(4)
    torch.testing.assert_close(fn(x), torch.relu(x) + 1)
    assert log == ["FunctionNotFoundError", "eager"]


def test_a_second_attempt_in_one_compilation_is_still_a_backend():
    """AOTAutograd's metadata in the tracing context does not affect the second call."""
    log = []

    def fail_then_compile(gm, example_inputs):
        try:
            return onnx_custom_backend(gm, example_inputs, raise_on=["aten::relu"])
        except Exception as error:
            log.append(type(error).__name__)
        return onnx_custom_backend(gm, example_inputs)

    constant = torch.compile(lambda: torch.relu(torch.ones(3)), backend=fail_then_compile)
    torch.testing.assert_close(constant(), torch.ones(3))
    assert log == ["FunctionNotFoundError"]
    log.clear()
    fn = torch.compile(lambda x: torch.relu(x) + 1, backend=fail_then_compile)
    x = torch.randn(4, requires_grad=True)
    result = fn(x)
    torch.testing.assert_close(result, torch.relu(x) + 1)
    result.sum().backward()
    assert x.grad is not None
    assert log == ["FunctionNotFoundError"]


def test_forward_by_ortable_backward_by_torch():
    def compile_boxed(gm, example_inputs):
        return make_boxed_func(gm.forward)

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    backend = aot_autograd(fw_compiler=onnx_custom_backend, bw_compiler=compile_boxed)
    x = torch.randn(5, 4)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    compiled = torch.compile(model, backend=backend)
    grads = torch.autograd.grad(compiled(x).sum(), list(model.parameters()))
    for a, b in zip(expected, grads, strict=True):
        torch.testing.assert_close(b, a)


def test_a_backend_that_prints_the_graph(capsys):
    @torch.compile(backend=print_and_compile)
    def function(x, y):
        return torch.cos(x) + torch.sin(y)

    x, y = torch.randn(10), torch.randn(10)
    torch.testing.assert_close(function(x, y), torch.cos(x) + torch.sin(y))
    text = capsys.readouterr().out
    assert text.count("my_compiler() called with FX graph:") == 1
    assert "cos" in text and "sin" in text


def print_and_compile(gm, example_inputs):
    print("my_compiler() called with FX graph:")
    gm.graph.print_tabular()
    return onnx_custom_backend(gm, example_inputs)


def test_the_graph_itself_is_a_backend_result():
    """A backend may return gm.forward, also boxed and with AOTAutograd."""

    def boxed(gm, example_inputs):
        return make_boxed_func(gm.forward)

    x = torch.randn(3, 4)
    backends = (lambda gm, args: gm.forward, aot_autograd(fw_compiler=boxed), onnx_custom_backend)
    for backend in backends:
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(torch.relu, backend=backend)(x), torch.relu(x))
