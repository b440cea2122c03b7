"""Gradients and buffers equal eager with the backend alone and as AOTAutograd's compiler."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from ortable import get_decomposition_table, onnx_custom_backend, onnx_debug_backend
from tests.backend.against_eager import every_warning_an_error

WIRINGS = {
    "by name": lambda: "ortable",
    "as backend": lambda: onnx_custom_backend,
    "as lambda": lambda: lambda *args, **kw: onnx_custom_backend(*args, target_opset=18, **kw),
    "as fw_compiler": lambda: aot_autograd(
        fw_compiler=onnx_custom_backend, decompositions=get_decomposition_table()
    ),
    "debug backend": lambda: onnx_debug_backend,
    "debug as fw_compiler": lambda: aot_autograd(
        fw_compiler=onnx_debug_backend, decompositions=get_decomposition_table()
    ),
}


def make_mlp():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("wiring", WIRINGS)
def test_gradients_equal_eager(wiring, dynamic):
    model = make_mlp()
    twin = copy.deepcopy(model)
    with every_warning_an_error():
        compiled = torch.compile(twin, backend=WIRINGS[wiring](), fullgraph=True, dynamic=dynamic)
        for batch in (5, 3):
            x = torch.randn(batch, 6)
            eager_x = x.clone().requires_grad_(True)
            compiled_x = x.clone().requires_grad_(True)
            model(eager_x).square().sum().backward()
            compiled(compiled_x).square().sum().backward()
            torch.testing.assert_close(compiled_x.grad, eager_x.grad)
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        assert result.grad is not None
        torch.testing.assert_close(result.grad, expected.grad)


def test_gradients_of_some_inputs_only():
    def fn(x, y, w):
        return torch.relu(x @ w) * y

    compiled = torch.compile(fn, backend="ortable")
    x, y = torch.randn(3, 4), torch.randn(3, 2)
    eager_w = torch.randn(4, 2, requires_grad=True)
    compiled_w = eager_w.detach().clone().requires_grad_(True)
    fn(x, y, eager_w).sum().backward()
    compiled(x, y, compiled_w).sum().backward()
    torch.testing.assert_close(compiled_w.grad, eager_w.grad)


@pytest.mark.parametrize("grad", [False, True])
def test_batch_norm_updates_the_caller_s_buffers(grad):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend="ortable", fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)
    for expected, result in zip(model.buffers(), twin.buffers(), strict=True):
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result, expected)


def test_training_converges_like_eager():
    model = make_mlp()
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend="ortable")
    losses = []
    for network in (model, compiled):
        torch.manual_seed(1)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
        for _ in range(10):
            x = torch.randn(5, 6)
            optimizer.zero_grad()
            loss = (network(x) - x[:, :2]).abs().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_records_say_forward_backward_and_inference():
    storage = {}
    compiled = torch.compile(make_mlp(), backend="ortable", options={"storage": storage})
    compiled(torch.randn(5, 6)).sum().backward()
    with torch.no_grad():
        compiled(torch.randn(5, 6))
    assert [r["kind"] for r in storage["instance"]] == ["forward", "backward", "inference"]


def test_user_s_backward_compiler_is_used():
    argument_counts = []

    def compile_backward(gm, args):
        argument_counts.append(len(args))
        return onnx_custom_backend(gm, args)

    model = make_mlp()
    twin = copy.deepcopy(model)
    backend = aot_autograd(fw_compiler=onnx_custom_backend, bw_compiler=compile_backward)
    x = torch.randn(5, 6)
    torch.compile(twin, backend=backend)(x).sum().backward()
    model(x).sum().backward()
    assert len(argument_counts) == 1
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result.grad, expected.grad)


def test_float_argument_restarts_the_backend(run_both):
    run_both(lambda x, scale: x * scale + scale, torch.randn(3), 0.25, dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_strides_of_saved_tensors_are_true(dynamic):
    """A backward of another compiler is traced with the strides that the forward returns."""
    traced_strides = []

    def compile_backward(gm, args):
        traced_strides.extend(tuple(a.stride()) for a in args if isinstance(a, torch.Tensor))

        def run(call_args):
            strides.extend(tuple(a.stride()) for a in call_args if isinstance(a, torch.Tensor))
            return gm(*call_args)

        run._boxed_call = True
        return run

    strides = []
    backend = aot_autograd(fw_compiler=onnx_custom_backend, bw_compiler=compile_backward)
    x = torch.randn(3, 4).t().detach().requires_grad_(True)
    compiled_x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_(True)
    assert compiled_x.stride() == (1, 4)

    def fn(x):
        return torch.relu(x * 2 + 1) * 3

    fn(x).sum().backward()
    torch.compile(fn, backend=backend, dynamic=dynamic)(compiled_x).sum().backward()
    torch.testing.assert_close(compiled_x.grad, x.grad)
    if not dynamic:
        assert strides == traced_strides


def test_parts_that_are_saved_lie_dense():
    """Queries, keys and values are saved as copies: a backward would copy views of a projection."""

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(8, 24)

        def forward(self, x):
            parts = self.project(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
            return torch.nn.functional.scaled_dot_product_attention(*parts)

    torch.manual_seed(0)
    model = Attention()
    twin, storage, x = copy.deepcopy(model), {}, torch.randn(2, 5, 8)
    compiled = torch.compile(twin, backend="ortable", options={"storage": storage})
    model(x).square().sum().backward()
    compiled(x).square().sum().backward()
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result.grad, expected.grad)
    forward, _ = storage["instance"]
    parts = [role for role in forward.outputs if role.shape == (2, 2, 5, 4)]
    views = {step.op for role in parts for step in role.steps}
    assert len(parts) >= 3
    assert views <= {torch.ops.aten.alias.default, torch.ops.aten.detach.default}


def test_compiled_autograd_runs_on_top():
    model = make_mlp()
    twin = copy.deepcopy(model)
    x = torch.randn(5, 6)
    compiled = torch.compile(twin, backend="ortable")
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        compiled(x).sum().backward()
    model(x).sum().backward()
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result.grad, expected.grad)


def test_arguments_are_released_after_the_call():
    """The call clears the boxed argument list, so that activations can be freed."""
    storage, compiled_graphs = {}, []

    def compile_graph(gm, args):
        compiled_graphs.append(onnx_custom_backend(gm, args, storage=storage))
        return compiled_graphs[-1]

    torch.compile(lambda x: x + 1, backend=aot_autograd(fw_compiler=compile_graph))(torch.randn(3))
    arguments = [torch.randn(3)]
    compiled_graphs[0](arguments)
    assert arguments == []
