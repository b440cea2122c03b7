"""CPU autocast: models run and train in bfloat16 and float16 as close to float64 as in eager."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models.training import SMALL_TRAINABLES


def relative_errors(model: nn.Module, exact: nn.Module) -> dict[str, float]:
    """Return each gradient's distance from that of `exact`, relative to the norm of the latter."""
    errors = {}
    for name, parameter in model.named_parameters():
        exact_gradient = exact.get_parameter(name).grad
        error = (parameter.grad - exact_gradient).norm() / (exact_gradient.norm() + 1e-3)
        errors[name] = float(error)
    return errors


@pytest.mark.alternates("dtype")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", ["mlp", "resnet", "gpt2", "convnext", "dlrm"])
def test_models_train_under_autocast(name, dtype):
    """Errors against float64 are at most twice eager's, which rounds at other points."""
    trainable = SMALL_TRAINABLES[name]
    torch.manual_seed(3)
    eager = trainable.build().train()
    trained, exact = copy.deepcopy(eager), copy.deepcopy(eager).double()
    arguments = trainable.batch(4)
    exact(*[x.double() if x.is_floating_point() else x for x in arguments]).backward()
    compiled = torch.compile(trained, backend="ortable", fullgraph=True)
    losses = []
    for model in (eager, compiled):
        with torch.autocast("cpu", dtype=dtype):
            losses.append(model(*arguments))
        losses[-1].backward()
    assert losses[0].dtype is losses[1].dtype
    torch.testing.assert_close(losses[1], losses[0], rtol=2e-2, atol=2e-2)
    tolerance = 0.02 if dtype is torch.bfloat16 else 0.003
    eager_errors = relative_errors(eager, exact)
    for name, error in relative_errors(trained, exact).items():
        assert error <= 2 * eager_errors[name] + tolerance, name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_autocast_inside_the_compiled_function(dtype):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def fn(x):
        with torch.autocast("cpu", dtype=dtype):
            y = model(x)
        return y, y.float().softmax(-1)

    x = torch.randn(5, 6)
    with torch.no_grad():
        expected, got = fn(x), torch.compile(fn, backend="ortable", fullgraph=True)(x)
    assert [result.dtype for result in got] == [dtype, torch.float32]
    for got_result, expected_result in zip(got, expected, strict=True):
        torch.testing.assert_close(got_result, expected_result, rtol=2e-2, atol=1e-2)


def test_model_in_bfloat16_trains():
    torch.manual_seed(1)
    eager = nn.Sequential(
        nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)
    ).bfloat16()
    trained = copy.deepcopy(eager)
    exact = copy.deepcopy(eager).double()
    x = torch.randn(8, 6, dtype=torch.bfloat16)
    for model in (eager, torch.compile(trained, backend="ortable", fullgraph=True)):
        model(x).float().square().mean().backward()
    exact(x.double()).square().mean().backward()
    eager_errors = relative_errors(eager, exact)
    for (name, error), parameter in zip(
        relative_errors(trained, exact).items(), trained.parameters(), strict=True
    ):
        assert parameter.grad.dtype is torch.bfloat16
        assert error <= 2 * eager_errors[name] + 0.02, name


def test_scaled_gradients_overflow_and_recover():
    """GradScaler finds infinities, skips the step and shrinks the scale."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend="ortable", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, growth_interval=1000)
    x, target = torch.randn(5, 6), torch.randn(5, 3)
    steps, losses = 0, []
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(compiled(x).float(), target)
        scaler.scale(loss).backward()
        previous_weight = model[0].weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        steps += not torch.equal(previous_weight, model[0].weight)
        losses.append(loss.item())
    assert 0 < steps < 60
    assert scaler.get_scale() < 2.0**60
    assert losses[-1] < losses[0]
    assert all(p.isfinite().all() for p in model.parameters())
