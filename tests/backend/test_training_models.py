"""Whole models train: losses and the gradients of every parameter equal eager at each step."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from benchmarks.models.training import SMALL_TRAINABLES, Trainable

STEPS = 3
RTOL, ATOL = 1e-3, 1e-5  # of gradients in float32, as the guarantee has it


@pytest.fixture
def rnn_in_graph():
    """dynamo breaks the graph at nn.LSTM unless it is told to trace it."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def gradients(model: nn.Module, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """One backward; the loss. The gradients are in the parameters."""
    model.zero_grad(set_to_none=True)
    loss = model(*arguments)
    loss.backward()
    return loss.detach()


def assert_gradients(
    got: nn.Module, eager: nn.Module, trainable: Trainable, arguments: tuple[torch.Tensor, ...]
) -> None:
    """Each parameter has eager's gradient. Where rounding alone puts eager itself further than the
    tolerance from float64, ours may be as far from float64 as eager, twice over."""
    exact = None
    for name, parameter in eager.named_parameters():
        ours, theirs = got.get_parameter(name).grad, parameter.grad
        assert ours is not None and theirs is not None, name
        if torch.allclose(ours, theirs, rtol=RTOL, atol=ATOL):
            continue
        if exact is None:
            exact = copy.deepcopy(eager).double()
            doubled = [each.double() if each.is_floating_point() else each for each in arguments]
            gradients(exact, tuple(doubled))
        truth = exact.get_parameter(name).grad
        scale = truth.abs().max()
        error = (theirs - truth).abs().max() / scale
        assert (ours - truth).abs().max() / scale <= 2 * error, name
        assert error < RTOL, name


def train(trainable: Trainable, *, dynamic: bool, make_optimizer) -> None:
    """Steps of eager and of the compiled model from the same weights: after each one the compiled
    model takes eager's, so that rounding does not add up."""
    torch.manual_seed(3)
    eager = trainable.build().train()
    got = copy.deepcopy(eager)
    compiled = torch.compile(got, backend="ortable", fullgraph=True, dynamic=None)
    optimizers = [make_optimizer(model.parameters()) for model in (eager, got)]
    for step in range(STEPS):
        arguments = trainable.batch(4 + step if dynamic else 4)
        if dynamic:
            for each in arguments:
                torch._dynamo.mark_dynamic(each, 0)
        before = copy.deepcopy(eager)
        expected = gradients(eager, arguments)
        torch.testing.assert_close(gradients(compiled, arguments), expected, rtol=1e-4, atol=1e-5)
        for name, buffer in eager.named_buffers():
            torch.testing.assert_close(got.get_buffer(name), buffer, rtol=1e-4, atol=1e-5)
        gradients(before, arguments)
        assert_gradients(got, before, trainable, arguments)
        for optimizer in optimizers:
            optimizer.step()
        got.load_state_dict(eager.state_dict())


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", SMALL_TRAINABLES)
def test_model_trains_like_eager(name, rnn_in_graph):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    train(SMALL_TRAINABLES[name], dynamic=False, make_optimizer=sgd)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["mlp", "resnet", "gpt2", "convnext", "dlrm"])
def test_model_trains_with_any_batch(name):
    """One graph for every size of the batch, and another optimizer."""
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(SMALL_TRAINABLES[name], dynamic=True, make_optimizer=torch.optim.AdamW)
