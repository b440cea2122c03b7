"""torch.func, sparse gradients, random 16-bit floats and sizes of empty tensors are as in eager."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._dynamo import config as dynamo_config
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

from .against_eager import assert_close, compiled

HALF_DTYPES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("name", ["SGD", "SparseAdam"])
@pytest.mark.parametrize("fallback", ["eager", "error"])
def test_an_embedding_trains_with_sparse_gradients(name, fallback):
    model = nn.Embedding(9, 4, sparse=True)
    eager_model = copy.deepcopy(model)
    pairs = [(compiled(model, fallback=fallback), model), (eager_model, eager_model)]
    optimizers = [getattr(torch.optim, name)(module.parameters(), lr=0.1) for _, module in pairs]
    for _ in range(3):
        ids = torch.randint(0, 9, (3, 2))
        for (call, module), optimizer in zip(pairs, optimizers, strict=True):
            optimizer.zero_grad()
            call(ids).pow(2).sum().backward()
            assert module.weight.grad.is_sparse
            optimizer.step()
    assert torch.equal(model.weight, eager_model.weight)


@pytest.mark.parametrize("name", ["Normal", "Uniform", "Laplace", "Bernoulli", "Exponential"])
@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_distributions_of_halves_draw_what_eager_draws(name, dtype):
    cls = getattr(torch.distributions, name)

    def sample(low, high):
        return (
            cls(low).sample() if name in ("Bernoulli", "Exponential") else cls(low, high).sample()
        )

    args = torch.full((5,), 0.25, dtype=dtype), torch.full((5,), 1.5, dtype=dtype)
    results = []
    for call in (sample, compiled(sample)):
        torch.manual_seed(3)
        results.append(call(*args))
    torch.testing.assert_close(*results)  # rounding of intermediate results may differ


@pytest.mark.filterwarnings("ignore::ortable.errors.FallbackWarning")
@pytest.mark.parametrize(
    "fn",
    [
        torch.bincount,
        lambda x: torch.bincount(x, minlength=4),
        lambda x: torch.bincount(x, x.float()),
        lambda x: torch.bincount(x).shape[0] + x.sum(),
        torch.nonzero,
        torch.unique,
        lambda x: torch.masked_select(x, x > 1),
    ],
)
def test_sizes_that_an_empty_tensor_decides(fn):
    x = torch.arange(5)
    with dynamo_config.patch(capture_dynamic_output_shape_ops=True):
        result = compiled(lambda x: fn(x[:0]))(x)
    expected = fn(x[:0])
    assert result.dtype == expected.dtype and torch.equal(result, expected)


def make_per_sample_gradients(module):
    def loss(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(module, parameters, (x[None],)), y[None])

    parameters = {name: value.detach() for name, value in module.named_parameters()}
    return lambda x, y: vmap(grad(loss), (None, 0, 0))(parameters, x, y)


NETS = {
    "linear": (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), (4,)),
    "convolution": (
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)),
        (1, 6, 6),
    ),
    "embedding": (nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 3)), None),
}


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", NETS)
def test_gradients_of_each_sample(name):
    module, shape = NETS[name]
    x = torch.randint(0, 9, (5, 2)) if shape is None else torch.randn(5, *shape)
    y = torch.randint(0, 3, (5,))
    fn = make_per_sample_gradients(module)
    assert_close(compiled(fn)(x, y), fn(x, y))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: vmap(jacrev(lambda v: (v.sin() * v.sum()).pow(2)))(x),
        lambda x: hessian(lambda v: (v.sin() * v.sum()).pow(2).sum())(x[0]),
        lambda x: jvp(lambda v: (v.sin() * v.sum()).pow(2), (x,), (x * 2,)),
    ],
    ids=["jacrev", "hessian", "jvp"],
)
def test_other_transforms(fn):
    x = torch.randn(5, 4)
    assert_close(compiled(fn)(x), fn(x))
