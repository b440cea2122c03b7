"""Small training graphs next to a graph break run in torch; other graphs keep their sessions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def reset_dynamo(fresh_dynamo: None) -> None:
    pass


class Tagger(nn.Module):
    """A recurrent network and its loss; dynamo leaves the network and its embedding to eager."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.network = nn.Embedding(11, 4), nn.LSTM(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.network(self.embedding(x))[0]
        return nn.functional.cross_entropy(y.flatten(0, 1), x.flatten() % 6)


class WithGraphBreak(nn.Module):
    """Two modules with a graph break between them."""

    def __init__(self, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        torch._dynamo.graph_break()
        return self.after(y)


class ManySmallOperators(nn.Module):
    """A long chain of small operators."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(30):
            x = torch.sin(x * step)
        return x


def train_and_record(model: nn.Module, x: torch.Tensor, exact: bool, **options: Any) -> list[Any]:
    """Train a compiled copy, check its gradients against eager's and return its records."""
    storage: dict[str, Any] = {}
    model_copy = copy.deepcopy(model)
    compiled = torch.compile(model_copy, backend="ortable", options={"storage": storage, **options})
    for seed in range(3):
        for module in (model, compiled):
            torch.manual_seed(seed)
            module.zero_grad()
            module(x).square().sum().backward()
        for expected, parameter in zip(model.parameters(), model_copy.parameters(), strict=True):
            tolerances = {"rtol": 0, "atol": 0} if exact else {}
            torch.testing.assert_close(parameter.grad, expected.grad, **tolerances)
    return storage.get("instance", [])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.parametrize("fallback", [None, "eager"])
def test_small_graphs_are_left_to_torch(drop: float, fallback: str | None) -> None:
    before = nn.Sequential(nn.Embedding(11, 4), nn.Dropout(drop))
    model = WithGraphBreak(before, nn.Sequential(nn.Dropout(drop), nn.Linear(4, 3)))
    records = train_and_record(model, torch.randint(11, (2, 5)), exact=True, fallback=fallback)
    assert [(record.kind, record.onnx) for record in records] == [("forward", None)] * 2
    placements = [placement for record in records for placement in record.placement]
    assert all(p.where == "torch" and "graph break" in p.why for p in placements)
    assert {"aten::embedding", "aten::addmm"} <= {p.operator for p in placements}


def test_the_loss_of_a_recurrent_network() -> None:
    model = WithGraphBreak(nn.Identity(), Tagger())
    records = train_and_record(model, torch.randint(11, (2, 5)), exact=True)
    assert all(record.onnx is None for record in records)


def test_sizes_that_change() -> None:
    storage: dict[str, Any] = {}
    eager = WithGraphBreak(nn.Embedding(11, 4), nn.Linear(4, 3))
    model_copy = copy.deepcopy(eager)
    compiled = torch.compile(
        model_copy, backend="ortable", dynamic=True, options={"storage": storage}
    )
    for length in (5, 7, 6):
        for module in (eager, compiled):
            module.zero_grad()
            module(torch.arange(2 * length).view(2, length) % 11).square().sum().backward()
        for expected, parameter in zip(eager.parameters(), model_copy.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, expected.grad, rtol=0, atol=0)
    assert all(record.onnx is None for record in storage["instance"])


def test_products_that_take_long_keep_their_session() -> None:
    wide = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512))
    model = WithGraphBreak(nn.Linear(8, 32), wide)
    records = train_and_record(model, torch.randn(64, 8), exact=False)
    kinds = [(record.kind, record.onnx is None) for record in records]
    assert kinds == [("forward", True), ("forward", False), ("backward", False)]


def test_many_small_operators_keep_their_session() -> None:
    model = WithGraphBreak(nn.Linear(4, 4), ManySmallOperators())
    records = train_and_record(model, torch.randn(3, 4), exact=False)
    assert [record.onnx is None for record in records] == [True, False, False]


def test_inference_keeps_its_sessions() -> None:
    storage: dict[str, Any] = {}
    model = WithGraphBreak(nn.Linear(4, 4), nn.Linear(4, 3)).eval()
    compiled = torch.compile(model, backend="ortable", options={"storage": storage})
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert [record.kind for record in storage["instance"]] == ["inference"] * 2
    assert all(record.onnx is not None for record in storage["instance"])


def test_evaluation_with_gradients_on_gets_sessions_after_a_few_calls() -> None:
    storage: dict[str, Any] = {}
    model = WithGraphBreak(nn.Linear(4, 4), nn.Linear(4, 3)).eval()
    compiled = torch.compile(model, backend="ortable", options={"storage": storage, "hints": False})
    x = torch.randn(2, 4)
    for _ in range(8):
        torch.testing.assert_close(compiled(x), model(x))
    kinds = [(record.kind, record.onnx is None) for record in storage["instance"]]
    assert kinds[:2] == [("forward", True)] * 2
    assert ("inference", False) in kinds


@torch.library.custom_op("ortable_test_between_breaks::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halve.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_an_operator_without_a_converter_is_an_error_all_the_same() -> None:
    class Halve(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + halve(x.detach())

    compiled = torch.compile(WithGraphBreak(nn.Linear(4, 4), Halve()), backend="ortable")
    with pytest.raises(Exception, match="ortable_test_between_breaks::halve"):
        compiled(torch.randn(3, 4))
