"""Models train: losses and the gradients of every parameter equal eager's at each step."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from benchmarks.models.training import SMALL_TRAINABLES, Trainable

pytestmark = pytest.mark.alternates(parts=3)

STEPS = 3
RTOL, ATOL = 1e-3, 1e-5  # the documented tolerance of gradients in float32


@pytest.fixture
def rnn_in_graph():
    """Dynamo breaks the graph at nn.LSTM unless this option is set."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def backward(model: nn.Module, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Run one backward, which leaves the gradients in the parameters, and return the loss."""
    model.zero_grad(set_to_none=True)
    loss = model(*arguments)
    loss.backward()
    return loss.detach()


def assert_gradients(
    twin: nn.Module, eager: nn.Module, trainable: Trainable, arguments: tuple[torch.Tensor, ...]
) -> None:
    """Compare gradients with eager; beyond the tolerance allow twice eager's error to float64."""
    eager64 = None
    for name, parameter in eager.named_parameters():
        gradient, expected = twin.get_parameter(name).grad, parameter.grad
        assert gradient is not None and expected is not None, name
        if torch.allclose(gradient, expected, rtol=RTOL, atol=ATOL):
            continue
        if eager64 is None:
            eager64 = copy.deepcopy(eager).double()
            arguments64 = [x.double() if x.is_floating_point() else x for x in arguments]
            backward(eager64, tuple(arguments64))
        exact = eager64.get_parameter(name).grad
        scale = exact.abs().max()
        error = (expected - exact).abs().max() / scale
        assert (gradient - exact).abs().max() / scale <= 2 * error, name
        assert error < RTOL, name


def train(trainable: Trainable, *, dynamic: bool, make_optimizer) -> None:
    """Compare training steps with eager, each from eager's weights so that errors do not add up."""
    torch.manual_seed(3)
    eager = trainable.build().train()
    twin = copy.deepcopy(eager)
    compiled = torch.compile(twin, backend="ortable", fullgraph=True, dynamic=None)
    optimizers = [make_optimizer(model.parameters()) for model in (eager, twin)]
    for step in range(STEPS):
        arguments = trainable.batch(4 + step if dynamic else 4)
        if dynamic:
            for argument in arguments:
                torch._dynamo.mark_dynamic(argument, 0)
        eager_before = copy.deepcopy(eager)
        expected = backward(eager, arguments)
        torch.testing.assert_close(backward(compiled, arguments), expected, rtol=1e-4, atol=1e-5)
        for name, buffer in eager.named_buffers():
            torch.testing.assert_close(twin.get_buffer(name), buffer, rtol=1e-4, atol=1e-5)
        backward(eager_before, arguments)
        assert_gradients(twin, eager_before, trainable, arguments)
        for optimizer in optimizers:
            optimizer.step()
        twin.load_state_dict(eager.state_dict())


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", SMALL_TRAINABLES)
def test_model_trains_like_eager(name, rnn_in_graph):
    def make_sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    train(SMALL_TRAINABLES[name], dynamic=False, make_optimizer=make_sgd)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["mlp", "resnet", "gpt2", "convnext", "dlrm"])
def test_model_trains_with_any_batch(name):
    """One graph serves every batch size."""
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(SMALL_TRAINABLES[name], dynamic=True, make_optimizer=torch.optim.AdamW)
