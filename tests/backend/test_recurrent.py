"""Recurrent networks in graphs (`allow_rnn`): torch trains them; an evaluated LSTM is a node."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import ortable
from ortable.errors import UnsupportedCase

KINDS = [nn.LSTM, nn.GRU, nn.RNN]


@pytest.fixture(autouse=True)
def rnn_in_graph(fresh_dynamo: None) -> Any:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


class Tagger(nn.Module):
    """A recurrent network between an embedding and a linear layer."""

    def __init__(self, kind: type[nn.RNNBase], **settings: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.network = kind(4, 6, 2, batch_first=True, **settings)
        self.head = nn.LazyLinear(3)

    def forward(self, x: torch.Tensor, state: Any = None) -> torch.Tensor:
        return self.head(self.network(self.embedding(x), state)[0])


def build(kind: type[nn.RNNBase], storage: dict[str, Any], **settings: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    eager = Tagger(kind, **settings)
    eager(torch.zeros(1, 1, dtype=torch.int64))
    twin = copy.deepcopy(eager)
    options = {"storage": storage}
    return eager, twin, torch.compile(twin, backend="ortable", fullgraph=True, options=options)


@pytest.mark.parametrize("settings", [{}, {"bidirectional": True}, {"dropout": 0.4}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_as_in_eager(kind: type[nn.RNNBase], settings: dict[str, Any]) -> None:
    storage: dict[str, Any] = {}
    eager, twin, compiled = build(kind, storage, **settings)
    for seed in range(3):
        x, results = torch.randint(11, (2, 5)), []
        for model in (eager, compiled):
            torch.manual_seed(seed)
            model.zero_grad()
            results.append(model(x))
            results[-1].square().sum().backward()
        torch.testing.assert_close(*results, rtol=0, atol=0)
        for expected, result in zip(eager.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(result.grad, expected.grad, rtol=0, atol=0)
    (record,) = storage["instance"]
    assert record.kind == "forward" and record.onnx is None
    assert {placement.where for placement in record.placement} == {"torch"}
    assert any("unroll" in placement.why for placement in record.placement)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_without_gradients(kind: type[nn.RNNBase]) -> None:
    """Eager's kernels apply dropout, which torch's decomposition of these operators omits."""
    eager, _, compiled = build(kind, {}, dropout=0.4)
    x = torch.randint(11, (2, 5))
    with torch.no_grad():
        torch.manual_seed(1)
        expected = eager(x)
        torch.manual_seed(1)
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_that_would_be_lost_is_refused(kind: type[nn.RNNBase]) -> None:
    """Export to a file and graphs without fallback cannot run eager's kernel."""
    network = kind(4, 6, 2, dropout=0.4)
    message = r"(lstm|gru|rnn_tanh) with dropout=0.4 between 2 layers.*one module per layer"
    compiled = torch.compile(network, backend="ortable", options={"raise_on": ["aten::relu"]})
    with pytest.raises(BackendCompilerFailed, match=message) as error, torch.no_grad():
        compiled(torch.ones(5, 2, 4))
    assert isinstance(error.value.inner_exception, UnsupportedCase)
    exportable = torch.compile(network, backend="ortable", fullgraph=True).forward
    with pytest.raises(UnsupportedCase, match=message), torch.no_grad():
        exportable.aot_compile(((torch.ones(5, 2, 4),), {}))


def test_evaluation_is_a_node() -> None:
    storage: dict[str, Any] = {}
    eager, twin, compiled = build(nn.LSTM, storage, dropout=0.4)
    eager.eval(), twin.eval()
    x = torch.randint(11, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), eager(x))
    operators = [node.op_type for node in storage["instance"][-1].onnx.graph.node]
    assert operators.count("LSTM") == 2


def test_gradients_of_a_network_in_eval_mode() -> None:
    eager, twin, compiled = build(nn.LSTM, {})
    eager.eval(), twin.eval()
    x = torch.randint(11, (2, 5))
    for model in (eager, compiled):
        model(x).square().sum().backward()
    for expected, result in zip(eager.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result.grad, expected.grad, rtol=1e-4, atol=1e-5)


def test_explain_says_who_runs_it() -> None:
    eager, _, _ = build(nn.GRU, {}, dropout=0.4)
    explanation = str(ortable.explain(eager, torch.randint(11, (2, 5))))
    assert (
        "torch runs the whole graph" in explanation and "dropout between the layers" in explanation
    )
