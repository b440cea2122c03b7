"""Graphs that train and that a graph break cuts off: small ones are left to torch, with eager's
backward; others, and those for inference, keep their sessions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh(fresh_dynamo: None) -> None:
    pass


class Tagger(nn.Module):
    """The loss of a recurrent network; dynamo leaves the network, with its embedding, to eager."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.network = nn.Embedding(11, 4), nn.LSTM(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.network(self.embedding(x))[0]
        return nn.functional.cross_entropy(y.flatten(0, 1), x.flatten() % 6)


class Broken(nn.Module):
    """What comes before a graph break, and what comes after it."""

    def __init__(self, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        torch._dynamo.graph_break()
        return self.after(y)


class Waves(nn.Module):
    """Many small operators."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(30):
            x = torch.sin(x * step)
        return x


def trained(model: nn.Module, x: torch.Tensor, exactly: bool, **options: Any) -> list[Any]:
    """The records of a model that trains compiled, whose gradients equal eager's."""
    storage: dict[str, Any] = {}
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend="ortable", options={"storage": storage, **options})
    for seed in range(3):
        for each in (model, compiled):
            torch.manual_seed(seed)
            each.zero_grad()
            each(x).square().sum().backward()
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            within = {"rtol": 0, "atol": 0} if exactly else {}
            torch.testing.assert_close(two.grad, one.grad, **within)
    return storage.get("instance", [])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.parametrize("fallback", [None, "eager"])
def test_small_graphs_are_left_to_torch(drop: float, fallback: str | None) -> None:
    before = nn.Sequential(nn.Embedding(11, 4), nn.Dropout(drop))
    model = Broken(before, nn.Sequential(nn.Dropout(drop), nn.Linear(4, 3)))
    records = trained(model, torch.randint(11, (2, 5)), exactly=True, fallback=fallback)
    assert [(record.kind, record.onnx) for record in records] == [("forward", None)] * 2
    placed = [each for record in records for each in record.placement]
    assert all(each.where == "torch" and "graph break" in each.why for each in placed)
    assert {"aten::embedding", "aten::addmm"} <= {each.operator for each in placed}


def test_the_loss_of_a_recurrent_network() -> None:
    model = Broken(nn.Identity(), Tagger())
    records = trained(model, torch.randint(11, (2, 5)), exactly=True)
    assert all(record.onnx is None for record in records)


def test_sizes_that_change() -> None:
    storage: dict[str, Any] = {}
    eager = Broken(nn.Embedding(11, 4), nn.Linear(4, 3))
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, backend="ortable", dynamic=True, options={"storage": storage})
    for length in (5, 7, 6):
        for each in (eager, compiled):
            each.zero_grad()
            each(torch.arange(2 * length).view(2, length) % 11).square().sum().backward()
        for one, two in zip(eager.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(two.grad, one.grad, rtol=0, atol=0)
    assert all(record.onnx is None for record in storage["instance"])


def test_products_that_take_long_keep_their_session() -> None:
    wide = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512))
    model = Broken(nn.Linear(8, 32), wide)
    records = trained(model, torch.randn(64, 8), exactly=False)
    kinds = [(record.kind, record.onnx is None) for record in records]
    assert kinds == [("forward", True), ("forward", False), ("backward", False)]


def test_many_small_operators_keep_their_session() -> None:
    model = Broken(nn.Linear(4, 4), Waves())
    records = trained(model, torch.randn(3, 4), exactly=False)
    assert [record.onnx is None for record in records] == [True, False, False]


def test_inference_keeps_its_sessions() -> None:
    storage: dict[str, Any] = {}
    model = Broken(nn.Linear(4, 4), nn.Linear(4, 3)).eval()
    compiled = torch.compile(model, backend="ortable", options={"storage": storage})
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert [record.kind for record in storage["instance"]] == ["inference"] * 2
    assert all(record.onnx is not None for record in storage["instance"])


def test_evaluation_with_gradients_on_gets_sessions_after_a_few_calls() -> None:
    storage: dict[str, Any] = {}
    model = Broken(nn.Linear(4, 4), nn.Linear(4, 3)).eval()
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

    compiled = torch.compile(Broken(nn.Linear(4, 4), Halve()), backend="ortable")
    with pytest.raises(Exception, match="ortable_test_between_breaks::halve"):
        compiled(torch.randn(3, 4))
