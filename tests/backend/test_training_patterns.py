"""Patterns of training loops around forward and backward yield eager's gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.models.training import SMALL_TRAINABLES, gpt2_lm, masked_word_batches

pytestmark = pytest.mark.alternates(parts=3)


def make_network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def make_models(
    build: Callable[[], nn.Module] = make_network, **arguments
) -> tuple[nn.Module, nn.Module, Callable]:
    """Return a model, its copy, and the compiled copy."""
    model = build().train()
    twin = copy.deepcopy(model)
    arguments.setdefault("fullgraph", True)
    return model, twin, torch.compile(twin, backend="ortable", **arguments)


def assert_same_gradients(eager: nn.Module, twin: nn.Module) -> None:
    """Require equal gradients, and None where eager has none."""
    comparisons = 0
    for name, parameter in eager.named_parameters():
        gradient = twin.get_parameter(name).grad
        if parameter.grad is None:
            assert gradient is None, name
            continue
        comparisons += 1
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-5)
    assert comparisons


def test_gradients_accumulate_over_batches():
    eager, twin, compiled = make_models()
    for _ in range(3):
        x = torch.randn(5, 6)
        (eager(x).square().mean() / 3).backward()
        (compiled(x).square().mean() / 3).backward()
    assert_same_gradients(eager, twin)


def test_two_calls_before_the_backward_share_weights():
    eager, twin, compiled = make_models()
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    (eager(x) * eager(y)).sum().backward()
    (compiled(x) * compiled(y)).sum().backward()
    assert_same_gradients(eager, twin)


def test_output_fed_back_into_the_module():
    eager, twin, compiled = make_models(lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
    x = torch.randn(5, 6)
    eager(eager(x)).sum().backward()
    compiled(compiled(x)).sum().backward()
    assert_same_gradients(eager, twin)


def test_retained_graph_gives_its_gradients_twice():
    eager, twin, compiled = make_models()
    x = torch.randn(5, 6)
    for model in (eager, compiled):
        loss = model(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert_same_gradients(eager, twin)


def test_second_backward_without_retaining_is_torch_s_error():
    _, _, compiled = make_models()
    loss = compiled(torch.randn(5, 6)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_two_losses_of_one_forward():
    def build():
        return nn.Linear(6, 4)

    eager, twin, compiled = make_models(build)
    x = torch.randn(5, 6)
    for model in (eager, compiled):
        first, second = model(x).chunk(2, dim=1)
        first.square().sum().backward(retain_graph=True)
        second.abs().sum().backward()
    assert_same_gradients(eager, twin)


def test_autograd_grad_of_weights_and_inputs():
    eager, twin, compiled = make_models()
    x = torch.randn(5, 6, requires_grad=True)
    results = []
    for model, forward in ((eager, eager), (twin, compiled)):
        sources = [x, model[0].weight, model[3].bias]
        results.append(torch.autograd.grad(forward(x).square().sum(), sources))
        assert all(source.grad is None for source in sources)
    for gradient, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


def test_second_derivatives_are_refused_by_autograd():
    _, _, compiled = make_models()
    x = torch.randn(5, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize("in_graph", [True, False])
def test_checkpointed_layers_are_computed_again(in_graph):
    """Dynamo traces checkpoints inside a graph; eager checkpoints call compiled layers twice."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
            self.second = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
            self.blocks = [self.first, self.second]

        def forward(self, x):
            for layer in self.blocks:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    torch.manual_seed(1)
    eager = Model()
    twin = copy.deepcopy(eager)
    compiled = torch.compile(twin, backend="ortable", fullgraph=True) if in_graph else twin
    if not in_graph:
        twin.blocks = [torch.compile(layer, backend="ortable") for layer in twin.blocks]
    x = torch.randn(5, 6)
    eager_x, compiled_x = (x.clone().requires_grad_() for _ in range(2))
    eager(eager_x).square().sum().backward()
    compiled(compiled_x).square().sum().backward()
    torch.testing.assert_close(compiled_x.grad, eager_x.grad)
    assert_same_gradients(eager, twin)


def test_frozen_parameters_get_no_gradient():
    eager, twin, compiled = make_models()
    for model in (eager, twin):
        model[0].requires_grad_(False)
    x = torch.randn(5, 6)
    eager(x).sum().backward()
    compiled(x).sum().backward()
    assert twin[0].weight.grad is None
    assert_same_gradients(eager, twin)


def test_parameters_thawed_between_steps():
    eager, twin, compiled = make_models()
    x = torch.randn(5, 6)
    for requires_grad in (False, True, False):
        for model, forward in ((eager, eager), (twin, compiled)):
            model.zero_grad()
            model[0].requires_grad_(requires_grad)
            forward(x).square().sum().backward()
        assert_same_gradients(eager, twin)


def test_parameter_that_the_loss_does_not_reach():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return self.used(x), self.unused(x)

    eager, twin, compiled = make_models(Model)
    x = torch.randn(5, 6)
    eager(x)[0].sum().backward()
    compiled(x)[0].sum().backward()
    for name, parameter in eager.named_parameters():
        gradient = twin.get_parameter(name).grad
        if parameter.grad is not None:
            torch.testing.assert_close(gradient, parameter.grad)
        else:  # AOTAutograd's function has one gradient for all its outputs, here zeros
            assert gradient is None or not gradient.any()


def test_embedding_with_padding_gives_its_row_no_gradient():
    eager, twin, compiled = make_models(lambda: nn.Embedding(7, 3, padding_idx=2))
    ids = torch.tensor([[0, 2, 2], [6, 0, 1]])
    eager(ids).square().sum().backward()
    compiled(ids).square().sum().backward()
    assert not twin.weight.grad[2].any()
    assert_same_gradients(eager, twin)


def test_sparse_gradients_are_sparse_as_in_eager():
    eager, twin, compiled = make_models(lambda: nn.Embedding(7, 3, sparse=True))
    for model in (eager, compiled):
        (model(torch.tensor([1, 2, 1])) ** 2).sum().backward()
    assert twin.weight.grad.layout == eager.weight.grad.layout == torch.sparse_coo
    assert_same_gradients(eager, twin)


def test_tied_weights_get_the_sum_of_their_gradients():
    eager, twin, compiled = make_models(lambda: gpt2_lm(1, 16, 20))
    assert twin.model.lm_head.weight is twin.model.transformer.wte.weight
    arguments = masked_word_batches(6, 20)(2)
    eager(*arguments).backward()
    compiled(*arguments).backward()
    assert_same_gradients(eager, twin)


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
        lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
        lambda p: torch.optim.Adagrad(p, lr=0.05),
    ],
    ids=["nesterov", "fused adamw", "foreach adam", "adagrad"],
)
def test_optimizer_steps_are_seen_by_the_next_forward(make_optimizer):
    """The loop clips gradients and has a scheduler."""
    eager, twin, compiled = make_models()
    losses = []
    for model, forward in ((eager, eager), (twin, compiled)):
        optimizer = make_optimizer(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        generator = torch.Generator().manual_seed(5)
        losses.append([])
        for _ in range(5):
            x = torch.randn(4, 6, generator=generator)
            optimizer.zero_grad()
            loss = (forward(x) - x[:, :2]).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            losses[-1].append(loss.item())
    assert losses[0][0] != losses[0][-1]
    torch.testing.assert_close(
        torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-3, atol=1e-5
    )


def test_compiled_step_with_loss():
    """Users compile forward and loss; the backward is outside."""
    eager, twin, _ = make_models()

    def step(model, x, target):
        return F.mse_loss(model(x), target) + 0.1 * model[0].weight.abs().sum()

    x, target = torch.randn(5, 6), torch.randn(5, 2)
    step(eager, x, target).backward()
    torch.compile(step, backend="ortable", fullgraph=True)(twin, x, target).backward()
    assert_same_gradients(eager, twin)


def test_backward_called_inside_the_compiled_function():
    """Dynamo breaks the graph at the call or traces it."""
    eager, twin, _ = make_models()

    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    x = torch.randn(5, 6)
    expected = step(eager, x)
    result = torch.compile(step, backend="ortable")(twin, x)
    torch.testing.assert_close(result, expected)
    assert_same_gradients(eager, twin)


@pytest.mark.parametrize("name", ["mlp", "vit", "dlrm"])
def test_parameters_in_float64(name):
    trainable = SMALL_TRAINABLES[name]
    eager, twin, compiled = make_models(lambda: trainable.build().double())
    arguments = [x.double() if x.is_floating_point() else x for x in trainable.batch(3)]
    eager(*arguments).backward()
    compiled(*arguments).backward()
    for expected, result in zip(eager.parameters(), twin.parameters(), strict=True):
        assert result.grad.dtype is torch.float64
        torch.testing.assert_close(result.grad, expected.grad, rtol=1e-7, atol=1e-9)


def test_gradients_of_inputs_that_are_not_contiguous():
    eager, twin, compiled = make_models()
    x = torch.randn(6, 5)
    eager_x, compiled_x = (x.clone().requires_grad_() for _ in range(2))
    eager(eager_x.t()).square().sum().backward()
    compiled(compiled_x.t()).square().sum().backward()
    torch.testing.assert_close(compiled_x.grad, eager_x.grad)
    assert_same_gradients(eager, twin)


def test_hooks_on_parameters_and_outputs_run():
    eager, twin, compiled = make_models()
    norms = []
    for model in (eager, twin):
        model[0].weight.register_hook(lambda g: g * 2)
        model[3].weight.register_post_accumulate_grad_hook(lambda p: norms.append(p.grad.norm()))
    x = torch.randn(5, 6)
    for forward in (eager, compiled):
        y = forward(x)
        y.register_hook(lambda g: g + 1)
        y.sum().backward()
    assert len(norms) == 2
    torch.testing.assert_close(norms[0], norms[1])
    assert_same_gradients(eager, twin)


def test_gradient_penalty_through_eager_parts():
    """The loss contains eager gradients of weights that the compiled model trains."""
    eager, twin, compiled = make_models()
    x = torch.randn(5, 6)
    for model, forward in ((eager, eager), (twin, compiled)):
        penalty = torch.autograd.grad(
            model[0](x).square().sum(), model[0].weight, create_graph=True
        )[0]
        (forward(x).sum() + penalty.square().sum() * 1e-3).backward()
    assert_same_gradients(eager, twin)


def test_no_grad_between_training_steps():
    """Evaluation inside the loop uses the weights of the last step."""
    eager, twin, compiled = make_models()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (eager, twin)]
    for _ in range(3):
        x = torch.randn(5, 6)
        for forward, optimizer in zip((eager, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            forward(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)


def test_lstm_trains_with_dynamo_s_own_break():
    """Dynamo breaks the graph at nn.LSTM unless `allow_rnn` is set."""
    trainable = SMALL_TRAINABLES["lstm"]
    eager, twin, compiled = make_models(trainable.build, fullgraph=False)
    arguments = trainable.batch(3)
    eager(*arguments).backward()
    compiled(*arguments).backward()
    assert_same_gradients(eager, twin)


def test_compiled_autograd_accumulates_and_repeats():
    eager, twin, compiled = make_models()
    x = torch.randn(5, 6)
    for _ in range(2):
        eager(x).square().sum().backward()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            compiled(x).square().sum().backward()
    assert_same_gradients(eager, twin)


def test_dropout_draws_eager_s_numbers():
    """The same seed yields the same masks and gradients."""

    def build():
        layers = [nn.Linear(6, 16), nn.Dropout(0.4), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 2)]
        return nn.Sequential(*layers)

    eager, twin, compiled = make_models(build)
    for _ in range(2):
        x = torch.randn(5, 6)
        losses = []
        for model in (eager, compiled):
            torch.manual_seed(11)
            losses.append(model(x).square().sum())
            losses[-1].backward()
        torch.testing.assert_close(losses[1], losses[0])
    assert_same_gradients(eager, twin)


def test_transformers_with_dropout_train():
    """Dropout in layers and attention has another mask at every step."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.layers(x).mean(1))

    _, twin, compiled = make_models(Model)
    x, target = torch.randn(8, 5, 16), torch.randint(3, (8,))
    optimizer = torch.optim.AdamW(twin.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert len(set(losses)) == len(losses)
    assert losses[-1] < losses[0]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in twin.parameters())
