"""nn.EmbeddingBag through the backend: values, gradients, and the operators of its graphs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import ortable

SIZES = {"even": [3, 3, 3, 3], "uneven": [1, 4, 0, 2], "skewed": [0, 5000, 0, 1]}


class Recommender(nn.Module):
    """A small DLRM: bags of categories, a dense part, and their interactions."""

    def __init__(self, mode: str = "sum", tables: int = 3, **options) -> None:
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(20, 4, mode=mode, **options) for _ in range(tables)
        )
        self.dense = nn.Linear(5, 4)
        self.top = nn.Linear((tables + 1) ** 2, 1)

    def forward(self, x, indices, offsets=None):
        offsets = [None] * len(indices) if offsets is None else offsets
        parts = [bag(i, o) for bag, i, o in zip(self.bags, indices, offsets, strict=True)]
        features = torch.stack([self.dense(x), *parts], 1)
        return self.top(torch.bmm(features, features.transpose(1, 2)).flatten(1)).sigmoid()


def make_bags(sizes, tables=3, dtype=torch.int64):
    total = sum(sizes)
    offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0).to(dtype)
    indices = [torch.randint(0, 20, (total,), dtype=dtype) for _ in range(tables)]
    return indices, [offsets] * tables


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("sizes", SIZES)
def test_offsets(run_both, mode, sizes):
    indices, offsets = make_bags(SIZES[sizes], dtype=torch.int32)
    model = Recommender(mode)

    def call_model(x, *bag_arguments):
        return model(x, bag_arguments[:3], bag_arguments[3:])

    run_both(call_model, torch.randn(4, 5), *indices, *offsets, atol=2e-4)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("length", [1, 6])
def test_two_axes(run_both, length, dynamic):
    indices = [torch.randint(0, 20, (4, length)) for _ in range(3)]
    model = Recommender()
    run_both(lambda x, *bags: model(x, bags), torch.randn(4, 5), *indices, dynamic=dynamic)


def test_one_graph_serves_bags_of_any_sizes():
    model = Recommender().eval()
    compiled = torch.compile(model, backend="ortable", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for sizes in ([2, 2, 2], [1, 0, 5, 2], [3000, 0, 1, 1, 1], [0, 0]):
            indices, offsets = make_bags(sizes)
            x = torch.randn(len(sizes), 5)
            eager = model(x, indices, offsets)
            torch.testing.assert_close(compiled(x, indices, offsets), eager, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sizes", [[2, 2], [1, 3], [1, 2000]])
def test_infinity_and_nan_stay_in_their_bags(run_both, sizes):
    table = torch.randn(5, 3)
    table[0], table[1] = float("nan"), float("inf")
    indices = torch.randint(2, 5, (sum(sizes),))
    indices[:1] = 1
    indices[-1] = 0
    offsets = torch.tensor([0, sizes[0]])

    def bag(weight, indices, offsets):
        return nn.functional.embedding_bag(indices, weight, offsets, mode="sum")

    expected, _ = run_both(bag, table, indices, offsets, atol=1e-3)
    assert expected[0].isinf().all()
    assert expected[1].isnan().all()


@pytest.mark.alternates("mode")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("include_last", [False, True])
def test_training_equals_eager(mode, padding, include_last):
    model = Recommender(mode, padding_idx=padding, include_last_offset=include_last)
    trained = copy.deepcopy(model)
    compiled = torch.compile(trained, backend="ortable", fullgraph=True)
    optimizers = [torch.optim.SGD(module.parameters(), 0.5) for module in (model, trained)]
    for sizes in ([1, 4, 0, 2], [2, 2, 2, 1]):
        indices, offsets = make_bags(sizes)
        if include_last:
            offsets = [torch.cat([offset, torch.tensor([7])]) for offset in offsets]
        x = torch.randn(4, 5)
        for module, optimizer in zip((model, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            module(x, indices, offsets).square().sum().backward()
            optimizer.step()
        for got, expected in zip(trained.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(got.grad, expected.grad, atol=1e-5, rtol=1e-3)


def test_weights_of_samples_are_trained():
    def bag(weight, indices, offsets, factors):
        return nn.functional.embedding_bag(
            indices, weight, offsets, mode="sum", per_sample_weights=factors
        )

    indices, offsets = torch.randint(0, 6, (7,)), torch.tensor([0, 3, 3])
    expected, got = [], []
    for function, grads in ((bag, expected), (torch.compile(bag, backend="ortable"), got)):
        torch.manual_seed(1)
        weight, factors = torch.randn(6, 4, requires_grad=True), torch.randn(7, requires_grad=True)
        function(weight, indices, offsets, factors).square().sum().backward()
        grads += [weight.grad, factors.grad]
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("offsets", [[0, 2, 4], [0, 1, 4], [0, 0, 3], [0]])
def test_offsets_of_the_model_itself(offsets) -> None:
    """The offsets are constants; evenly spaced offsets from 0 give another graph."""

    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(10, 3))
            self.register_buffer("offsets", torch.tensor(offsets))

        def forward(self, indices):
            return nn.functional.embedding_bag(indices, self.table, self.offsets, mode="sum")

    model, example = Bags(), torch.arange(6) % 4
    for shapes in (None, {"indices": {0: "n"}}):
        program = ortable.export(model, (example,), dynamic_shapes=shapes)
        for count in (6, 8) if shapes else (6,):
            indices = torch.randint(0, 10, (count,))
            torch.testing.assert_close(program(indices), model(indices))
