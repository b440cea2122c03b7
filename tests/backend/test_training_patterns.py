"""What training loops do around forward and backward: every pattern gives eager's gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.models.training import SMALL_TRAINABLES, gpt2_lm, masked_word_batches


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def pair(
    build: Callable[[], nn.Module] = network, **arguments
) -> tuple[nn.Module, nn.Module, Callable]:
    """A model, its copy, and the compiled copy."""
    model = build().train()
    other = copy.deepcopy(model)
    arguments.setdefault("fullgraph", True)
    return model, other, torch.compile(other, backend="ortable", **arguments)


def assert_same_gradients(eager: nn.Module, other: nn.Module) -> None:
    """Equal gradients, and None where eager has none."""
    seen = 0
    for name, parameter in eager.named_parameters():
        ours = other.get_parameter(name).grad
        if parameter.grad is None:
            assert ours is None, name
            continue
        seen += 1
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-3, atol=1e-5)
    assert seen


def test_gradients_accumulate_over_batches():
    eager, other, compiled = pair()
    for _ in range(3):
        x = torch.randn(5, 6)
        (eager(x).square().mean() / 3).backward()
        (compiled(x).square().mean() / 3).backward()
    assert_same_gradients(eager, other)


def test_two_calls_before_the_backward_share_weights():
    eager, other, compiled = pair()
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    (eager(x) * eager(y)).sum().backward()
    (compiled(x) * compiled(y)).sum().backward()
    assert_same_gradients(eager, other)


def test_output_fed_back_into_the_module():
    eager, other, compiled = pair(lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
    x = torch.randn(5, 6)
    eager(eager(x)).sum().backward()
    compiled(compiled(x)).sum().backward()
    assert_same_gradients(eager, other)


def test_retained_graph_gives_its_gradients_twice():
    eager, other, compiled = pair()
    x = torch.randn(5, 6)
    for model in (eager, compiled):
        loss = model(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert_same_gradients(eager, other)


def test_second_backward_without_retaining_is_torch_s_error():
    _, _, compiled = pair()
    loss = compiled(torch.randn(5, 6)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_two_losses_of_one_forward():
    def build():
        return nn.Linear(6, 4)

    eager, other, compiled = pair(build)
    x = torch.randn(5, 6)
    for model in (eager, compiled):
        first, second = model(x).chunk(2, dim=1)
        first.square().sum().backward(retain_graph=True)
        second.abs().sum().backward()
    assert_same_gradients(eager, other)


def test_autograd_grad_of_weights_and_inputs():
    eager, other, compiled = pair()
    x = torch.randn(5, 6, requires_grad=True)
    found = []
    for model, called in ((eager, eager), (other, compiled)):
        wanted = [x, model[0].weight, model[3].bias]
        found.append(torch.autograd.grad(called(x).square().sum(), wanted))
        assert all(each.grad is None for each in wanted)
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_second_derivatives_are_refused_by_autograd():
    _, _, compiled = pair()
    x = torch.randn(5, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize("inside", [True, False])
def test_checkpointed_layers_are_computed_again(inside):
    """Inside the compiled region dynamo traces the checkpoint; outside, eager calls us twice."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
            self.second = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
            self.calls = [self.first, self.second]

        def forward(self, x):
            for layer in self.calls:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    torch.manual_seed(1)
    eager = Model()
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, backend="ortable", fullgraph=True) if inside else other
    if not inside:
        other.calls = [torch.compile(each, backend="ortable") for each in other.calls]
    x = torch.randn(5, 6)
    a, b = (x.clone().requires_grad_() for _ in range(2))
    eager(a).square().sum().backward()
    compiled(b).square().sum().backward()
    torch.testing.assert_close(b.grad, a.grad)
    assert_same_gradients(eager, other)


def test_frozen_parameters_get_no_gradient():
    eager, other, compiled = pair()
    for model in (eager, other):
        model[0].requires_grad_(False)
    x = torch.randn(5, 6)
    eager(x).sum().backward()
    compiled(x).sum().backward()
    assert other[0].weight.grad is None
    assert_same_gradients(eager, other)


def test_parameters_thawed_between_steps():
    eager, other, compiled = pair()
    x = torch.randn(5, 6)
    for trained in (False, True, False):
        for model, called in ((eager, eager), (other, compiled)):
            model.zero_grad()
            model[0].requires_grad_(trained)
            called(x).square().sum().backward()
        assert_same_gradients(eager, other)


def test_parameter_that_the_loss_does_not_reach():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return self.used(x), self.unused(x)

    eager, other, compiled = pair(Model)
    x = torch.randn(5, 6)
    eager(x)[0].sum().backward()
    compiled(x)[0].sum().backward()
    for name, parameter in eager.named_parameters():
        ours = other.get_parameter(name).grad
        if parameter.grad is not None:
            torch.testing.assert_close(ours, parameter.grad)
        else:  # AOTAutograd's function has one gradient for all its outputs, here zeros
            assert ours is None or not ours.any()


def test_embedding_with_padding_gives_its_row_no_gradient():
    eager, other, compiled = pair(lambda: nn.Embedding(7, 3, padding_idx=2))
    ids = torch.tensor([[0, 2, 2], [6, 0, 1]])
    eager(ids).square().sum().backward()
    compiled(ids).square().sum().backward()
    assert not other.weight.grad[2].any()
    assert_same_gradients(eager, other)


def test_sparse_gradients_are_sparse_as_in_eager():
    eager, other, compiled = pair(lambda: nn.Embedding(7, 3, sparse=True))
    for model in (eager, compiled):
        (model(torch.tensor([1, 2, 1])) ** 2).sum().backward()
    assert other.weight.grad.layout == eager.weight.grad.layout == torch.sparse_coo
    assert_same_gradients(eager, other)


def test_tied_weights_get_the_sum_of_their_gradients():
    eager, other, compiled = pair(lambda: gpt2_lm(1, 16, 20))
    assert other.model.lm_head.weight is other.model.transformer.wte.weight
    arguments = masked_word_batches(6, 20)(2)
    eager(*arguments).backward()
    compiled(*arguments).backward()
    assert_same_gradients(eager, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
        lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
        lambda p: torch.optim.Adagrad(p, lr=0.05),
    ],
    ids=["nesterov", "fused adamw", "foreach adam", "adagrad"],
)
def test_optimizer_steps_are_seen_by_the_next_forward(make):
    """Clipping and a scheduler between, as loops have them."""
    eager, other, compiled = pair()
    losses = []
    for model, called in ((eager, eager), (other, compiled)):
        optimizer = make(model.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        generator = torch.Generator().manual_seed(5)
        losses.append([])
        for _ in range(5):
            x = torch.randn(4, 6, generator=generator)
            optimizer.zero_grad()
            loss = (called(x) - x[:, :2]).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            losses[-1].append(loss.item())
    assert losses[0][0] != losses[0][-1]
    torch.testing.assert_close(
        torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-3, atol=1e-5
    )


def test_compiled_step_with_loss():
    """The function that users compile: forward and loss, the backward outside."""
    eager, other, _ = pair()

    def step(model, x, target):
        return F.mse_loss(model(x), target) + 0.1 * model[0].weight.abs().sum()

    x, target = torch.randn(5, 6), torch.randn(5, 2)
    step(eager, x, target).backward()
    torch.compile(step, backend="ortable", fullgraph=True)(other, x, target).backward()
    assert_same_gradients(eager, other)


def test_backward_called_inside_the_compiled_function():
    """dynamo breaks the graph there, or traces it; either way the gradients are eager's."""
    eager, other, _ = pair()

    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    x = torch.randn(5, 6)
    expected = step(eager, x)
    got = torch.compile(step, backend="ortable")(other, x)
    torch.testing.assert_close(got, expected)
    assert_same_gradients(eager, other)


@pytest.mark.parametrize("name", ["mlp", "vit", "dlrm"])
def test_parameters_in_float64(name):
    trainable = SMALL_TRAINABLES[name]
    eager, other, compiled = pair(lambda: trainable.build().double())
    arguments = [x.double() if x.is_floating_point() else x for x in trainable.batch(3)]
    eager(*arguments).backward()
    compiled(*arguments).backward()
    for expected, got in zip(eager.parameters(), other.parameters(), strict=True):
        assert got.grad.dtype is torch.float64
        torch.testing.assert_close(got.grad, expected.grad, rtol=1e-7, atol=1e-9)


def test_gradients_of_inputs_that_are_not_contiguous():
    eager, other, compiled = pair()
    x = torch.randn(6, 5)
    a, b = (x.clone().requires_grad_() for _ in range(2))
    eager(a.t()).square().sum().backward()
    compiled(b.t()).square().sum().backward()
    torch.testing.assert_close(b.grad, a.grad)
    assert_same_gradients(eager, other)


def test_hooks_on_parameters_and_outputs_run():
    eager, other, compiled = pair()
    seen = []
    for model in (eager, other):
        model[0].weight.register_hook(lambda g: g * 2)
        model[3].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm()))
    x = torch.randn(5, 6)
    for called in (eager, compiled):
        y = called(x)
        y.register_hook(lambda g: g + 1)
        y.sum().backward()
    assert len(seen) == 2
    torch.testing.assert_close(seen[0], seen[1])
    assert_same_gradients(eager, other)


def test_gradient_penalty_through_eager_parts():
    """A loss of gradients taken in eager, of weights that the compiled model also trains."""
    eager, other, compiled = pair()
    x = torch.randn(5, 6)
    for model, called in ((eager, eager), (other, compiled)):
        penalty = torch.autograd.grad(
            model[0](x).square().sum(), model[0].weight, create_graph=True
        )[0]
        (called(x).sum() + penalty.square().sum() * 1e-3).backward()
    assert_same_gradients(eager, other)


def test_no_grad_between_training_steps():
    """Evaluation inside the loop sees the weights of the last step."""
    eager, other, compiled = pair()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (eager, other)]
    for _ in range(3):
        x = torch.randn(5, 6)
        for called, optimizer in zip((eager, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            called(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)


def test_lstm_trains_with_dynamo_s_own_break():
    """dynamo leaves nn.LSTM to torch unless `allow_rnn` is set."""
    trainable = SMALL_TRAINABLES["lstm"]
    eager, other, compiled = pair(trainable.build, fullgraph=False)
    arguments = trainable.batch(3)
    eager(*arguments).backward()
    compiled(*arguments).backward()
    assert_same_gradients(eager, other)


def test_compiled_autograd_accumulates_and_repeats():
    eager, other, compiled = pair()
    x = torch.randn(5, 6)
    for _ in range(2):
        eager(x).square().sum().backward()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            compiled(x).square().sum().backward()
    assert_same_gradients(eager, other)


def test_dropout_draws_eager_s_numbers():
    """The same seed gives the same masks, so the same gradients."""

    def build():
        layers = [nn.Linear(6, 16), nn.Dropout(0.4), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 2)]
        return nn.Sequential(*layers)

    eager, other, compiled = pair(build)
    for _ in range(2):
        x = torch.randn(5, 6)
        losses = []
        for model in (eager, compiled):
            torch.manual_seed(11)
            losses.append(model(x).square().sum())
            losses[-1].backward()
        torch.testing.assert_close(losses[1], losses[0])
    assert_same_gradients(eager, other)


def test_transformers_with_dropout_train():
    """Dropout in embeddings, layers and attention, drawn anew at every step."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.layers(x).mean(1))

    _, other, compiled = pair(Model)
    x, target = torch.randn(8, 5, 16), torch.randint(3, (8,))
    optimizer = torch.optim.AdamW(other.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert len(set(losses)) == len(losses)
    assert losses[-1] < losses[0]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in other.parameters())
