"""Random operators yield eager's numbers and leave torch's generator in eager's state."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from ortable import to_onnx
from ortable.errors import ExportError

X = torch.linspace(0.05, 0.95, 12).reshape(3, 4)


def compile_graph(fn, **kwargs):
    return torch.compile(fn, backend="ortable", fullgraph=True, **kwargs)


def assert_gradients_after_same_seed(fn, x):
    """Compare gradients of `x` in eager and compiled, each after the same `manual_seed`."""
    eager_x, compiled_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled = compile_graph(fn)
    compiled(compiled_x).sum().backward()
    compiled_x.grad = None
    torch.manual_seed(5)
    fn(eager_x).sum().backward()
    torch.manual_seed(5)
    compiled(compiled_x).sum().backward()
    torch.testing.assert_close(compiled_x.grad, eager_x.grad)


def call_after_seed(fn, *args, seed=5):
    """Return the result of a call after `manual_seed`, and the state of the generator after it."""
    torch.manual_seed(seed)
    return fn(*args), torch.get_rng_state()


def assert_same_numbers(fn, *args, exact=True, **kwargs):
    """Compare numbers with eager; expect other numbers later and the same ones after a seed."""
    compiled = compile_graph(fn, **kwargs)
    expected, state = call_after_seed(fn, *args)
    compiled(*args)  # compilation may advance the generator
    result, state_after = call_after_seed(compiled, *args)
    if exact:
        assert torch.equal(result, expected)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()
    assert torch.equal(state_after, state)
    assert any(not torch.equal(compiled(*args), result) for _ in range(8))
    assert torch.equal(call_after_seed(compiled, *args)[0], result)


OPERATORS = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout of a result": lambda x: F.dropout((x @ x.t()).relu(), 0.4) * 2,
    "dropout2d": lambda x: F.dropout2d(x.repeat(4, 8, 1, 1) * 2, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x * 2, 0.3, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.repeat(4, 8, 1, 1), 0.5, True),
    "rand": lambda x: torch.rand(3, 4) + x,
    "randn": lambda x: torch.randn(3, 4) + x,
    "randint": lambda x: torch.randint(0, 500, (3, 4)) + x,
    "randperm": lambda x: torch.randperm(9) + x[0, 0],
    "rand_like": lambda x: torch.rand_like(x * 2),
    "randn_like": lambda x: torch.randn_like(x.t() * 2) + 1,
    "randint_like": lambda x: torch.randint_like(x * 2, 50) + torch.randint_like(x, 7, 50),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli of a result": lambda x: torch.bernoulli((x * 2).clamp(0, 1)) + 1,
    "bernoulli p": lambda x: torch.bernoulli(x * 2, 0.3),
    "bernoulli_": lambda x: torch.empty(3, 4).bernoulli_(0.3) + x,
    "bernoulli_ of a tensor": lambda x: torch.empty(3, 4).bernoulli_(x) + x,
    "multinomial": lambda x: torch.multinomial(x + 1, 2),
    "multinomial with replacement": lambda x: torch.multinomial(x, 9, replacement=True) * 2,
    "normal of tensors": lambda x: torch.normal(x * 2, x[0]),
    "normal of a tensor and a number": lambda x: torch.normal(x * 2, 0.5),
    "normal of a number and a tensor": lambda x: torch.normal(0.5, x * 2),
    "normal of numbers": lambda x: torch.normal(1.0, 2.0, (3, 4)) + x,
    "normal_": lambda x: torch.empty(3, 4).normal_(1.0, 2.0) + x,
    "uniform_": lambda x: torch.empty(3, 4).uniform_(-1, 1) + x,
    "exponential_": lambda x: torch.empty(3, 4).exponential_(2.0) + x,
    "geometric_": lambda x: torch.empty(3, 4).geometric_(0.4) + x,
    "cauchy_": lambda x: torch.empty(3, 4).cauchy_(1.0, 2.0) + x,
    "log_normal_": lambda x: torch.empty(3, 4).log_normal_() + x,
    "poisson": lambda x: torch.poisson(x * 5) + 1,
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "order of many": lambda x: (
        F.dropout(torch.bernoulli(torch.rand(3, 4) * x).relu() + 1, 0.5) + torch.randn_like(x)
    ),
}


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_numbers_of_eager(name):
    with torch.no_grad():
        assert_same_numbers(OPERATORS[name], X)


INEXACT_OPERATORS = {
    "gumbel_softmax": lambda x: F.gumbel_softmax(x * 2),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], dropout_p=0.3
    ),
}


@pytest.mark.parametrize("name", sorted(INEXACT_OPERATORS))
def test_numbers_of_eager_to_the_last_digits(name):
    with torch.no_grad():
        assert_same_numbers(INEXACT_OPERATORS[name], X, exact=False)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.dropout((x @ x.t()).reshape(-1), 0.3) * 2,
        lambda x: torch.rand(x.shape[0] * 2, x.shape[1]) + 1,
        lambda x: torch.randint(0, x.shape[0] * 100, (x.shape[1],)) + 1,
        lambda x: torch.randn_like(torch.cat([x, x])),
    ],
    ids=["dropout", "rand", "randint", "randn_like"],
)
def test_symbolic_sizes(fn):
    with torch.no_grad():
        assert_same_numbers(fn, X, dynamic=True)


def test_channels_last_is_drawn_in_the_order_of_memory():
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert_same_numbers(lambda x: F.dropout(x * 2, 0.3), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dropout_of_other_dtypes(dtype):
    with torch.no_grad():
        assert_same_numbers(lambda x: F.dropout(x, 0.3), X.to(dtype))


def test_dropout_that_draws_nothing():
    torch.manual_seed(1)
    x = torch.tensor([1.0, float("nan"), -2.0])
    with torch.no_grad():
        state = torch.get_rng_state()
        assert torch.equal(compile_graph(lambda x: F.dropout(x, 0.0) + 0)(x[[0, 2]]), x[[0, 2]])
        assert torch.equal(
            compile_graph(lambda x: F.dropout(x, 0.5, False) + 0)(x[[0, 2]]), x[[0, 2]]
        )
        all_dropped = compile_graph(lambda x: F.dropout(x, 1.0))(x)
        assert torch.equal(torch.isnan(all_dropped), torch.isnan(x))
        assert all_dropped[0] == 0
        empty = compile_graph(lambda x: F.dropout(x * 1, 0.5))(torch.rand(0, 3))
        assert empty.shape == (0, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_native_dropout_with_its_mask():
    def fn(x):
        out, mask = torch.native_dropout(x, 0.4, None)
        return torch.where(mask, out, -1.0)

    with torch.no_grad():
        assert_same_numbers(fn, X)


def test_draws_come_first_in_one_session():
    storage = {}

    def fn(x):
        return F.dropout(F.dropout(x @ x.t(), 0.1).relu() @ x, 0.1)

    compiled = compile_graph(fn, options={"storage": storage})
    with torch.no_grad():
        compiled(X)
    (record,) = storage["instance"]
    placements = [p for p in record["placement"] if p.where == "torch"]
    assert {p.operator for p in placements} == {"aten::empty_strided", "aten::bernoulli_.float"}
    assert "torch's generator draws the numbers of aten::native_dropout" in placements[0].why
    assert "F.dropout" in placements[0].line


def test_statistics():
    x = torch.ones(200, 200)
    with torch.no_grad():
        result = compile_graph(lambda x: F.dropout(x * 1, 0.25))(x)
    assert abs((result == 0).float().mean().item() - 0.25) < 0.02
    assert abs(result.mean().item() - 1) < 0.03


def test_gradients_share_the_mask_of_the_forward():
    x = torch.rand(8, 8)

    def fn(x):
        return F.dropout(F.dropout(x * 2, 0.3).sin() @ x, 0.5)

    assert_gradients_after_same_seed(fn, x)


def test_a_transformer_layer_trains():
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
    twin = copy.deepcopy(model)
    compiled = compile_graph(twin)
    x = torch.rand(2, 5, 16)
    compiled(x).sum().backward()
    twin.zero_grad()
    optimizers = [torch.optim.SGD(module.parameters(), 0.1) for module in (model, twin)]
    for seed in range(3):
        for network, optimizer in zip((model, compiled), optimizers, strict=True):
            torch.manual_seed(seed)
            network(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-5)
    model.eval(), twin.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-5)
        assert torch.equal(compiled(x), compiled(x))


def test_checkpoint_with_dropout():
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(6, 6)

    def fn(x):
        return checkpoint(lambda y: F.dropout(layer(y).relu(), 0.5).sin(), x, use_reentrant=False)

    x = torch.rand(4, 6)
    assert_gradients_after_same_seed(fn, x)


def test_export_still_draws_with_onnx():
    class DropoutModel(torch.nn.Module):
        def forward(self, x):
            return torch.native_dropout(x, 0.5, True)[0]

    model = to_onnx(DropoutModel().train(), (X,))
    assert "Dropout" in [node.op_type for node in model.graph.node]


def test_draws_of_a_size_that_a_guard_has_made_a_number() -> None:
    def draw(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return y[1:], torch.ops.aten.geometric.default(x, 0.3)

    args = torch.zeros(2, 3, dtype=torch.int64), torch.rand(2, 3)
    torch.manual_seed(0)
    expected = draw(*args)
    torch.manual_seed(0)
    results = torch.compile(draw, backend="ortable", dynamic=True)(*args)
    assert all(map(torch.equal, results, expected))


@pytest.mark.parametrize("name", ["rand", "bernoulli", "normal", "multinomial"])
def test_draws_from_a_generator_of_the_user(name: str) -> None:
    """Such draws leave the default generator unchanged; export refuses a generator."""
    generator = torch.Generator()
    draw = {
        "rand": lambda x: x + torch.rand(3, 4, generator=generator),
        "bernoulli": lambda x: torch.bernoulli(x, generator=generator) + 1,
        "normal": lambda x: x * torch.normal(0.0, 1.0, (3, 4), generator=generator),
        "multinomial": lambda x: torch.multinomial(x, 2, generator=generator) + 1,
    }[name]
    generator.manual_seed(3)
    expected = draw(X)
    generator.manual_seed(3)
    state_before = torch.get_rng_state()
    assert torch.equal(torch.compile(draw, backend="ortable")(X), expected)
    assert torch.equal(torch.get_rng_state(), state_before)

    class RandomModel(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return draw(x)

    with pytest.raises(ExportError, match="CUSTOM_OBJ, which ONNX cannot hold"):
        to_onnx(RandomModel(), (X,))
